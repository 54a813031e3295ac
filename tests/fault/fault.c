/* SPDX-License-Identifier: MIT */
#include "fault/fault.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static _Atomic long fault_left = -1;
static _Atomic int fault_hit;
static _Atomic bool fault_sticky;

void fault_alloc_at(long n) {
        fault_sticky = false;
        fault_hit = 0;
        fault_left = n;
}

void fault_alloc_from(long n) {
        fault_alloc_at(n);
        fault_sticky = true;
}

int fault_alloc_hit(void) {
        return fault_hit;
}

/* True when this allocation is the one to fail. */
static bool fault_step(void) {
        long left = atomic_load(&fault_left);

        do {
                if (left < 0)
                        return false;
        } while (!atomic_compare_exchange_weak(
                &fault_left, &left, left == 0 && fault_sticky ? 0 : left - 1));
        if (left > 0)
                return false;
        fault_hit = 1;
        errno = ENOMEM;
        return true;
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n) {
        return fault_step() ? NULL : __real_malloc(n);
}

void *__real_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m) {
        return fault_step() ? NULL : __real_calloc(n, m);
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) {
        return fault_step() ? NULL : __real_realloc(p, n);
}

void *__real_reallocarray(void *p, size_t n, size_t m);
void *__wrap_reallocarray(void *p, size_t n, size_t m);
void *__wrap_reallocarray(void *p, size_t n, size_t m) {
        return fault_step() ? NULL : __real_reallocarray(p, n, m);
}

char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__wrap_strdup(const char *s) {
        return fault_step() ? NULL : __real_strdup(s);
}

char *__real_strndup(const char *s, size_t n);
char *__wrap_strndup(const char *s, size_t n);
char *__wrap_strndup(const char *s, size_t n) {
        return fault_step() ? NULL : __real_strndup(s, n);
}

void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n) {
        return fault_step() ? NULL : __real_aligned_alloc(align, n);
}

int __real_posix_memalign(void **ret, size_t align, size_t n);
int __wrap_posix_memalign(void **ret, size_t align, size_t n);
int __wrap_posix_memalign(void **ret, size_t align, size_t n) {
        return fault_step() ? ENOMEM : __real_posix_memalign(ret, align, n);
}
