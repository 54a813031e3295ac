/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Makes the n-th allocation of the program fail: malloc, calloc, realloc, reallocarray, strdup,
 * strndup, aligned_alloc and posix_memalign, as called from code linked into this program (not from
 * inside shared libraries). Counts all threads together; arm it from one thread.
 */

/* Fail the @n-th allocation from now (0: the next one), once; -1: none. */
void fault_alloc_at(long n);
/* As fault_alloc_at(), and every later one fails as well. */
void fault_alloc_from(long n);
/* True if the armed failure has happened. */
int fault_alloc_hit(void);
