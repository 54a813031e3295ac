/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Counts the bytes that the program holds: what malloc, calloc, realloc, reallocarray, strdup,
 * strndup, aligned_alloc and posix_memalign gave, as called from code linked into this program (not
 * from inside shared libraries), and free has not taken back. As large as they were asked for, to
 * the allocator's grain. All threads together.
 */
#include <stddef.h>

/* Held now, and the most since count_begin(). */
size_t count_live(void);
size_t count_peak(void);
/* From now on count_peak() is about what comes, and @watch (may be NULL) is called after each
 * allocation with the bytes held then; any thread; it does not allocate. */
void count_begin(void (*watch)(size_t live));
