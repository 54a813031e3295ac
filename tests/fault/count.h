/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Counts the bytes that the program holds: those returned by malloc, calloc, realloc, reallocarray,
 * strdup, strndup, aligned_alloc and posix_memalign, as called from code linked into this program
 * (not from inside shared libraries), and not freed yet. Sizes are as requested, rounded to the
 * allocator's grain. All threads together.
 */
#include <stddef.h>

/* Held now, and the most since count_begin(). */
size_t count_live(void);
size_t count_peak(void);
/* Restart count_peak() from the bytes held now. From then on @watch (may be NULL) is called after
 * each allocation with the bytes held; in any thread; it must not allocate. */
void count_begin(void (*watch)(size_t live));
