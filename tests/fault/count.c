/* SPDX-License-Identifier: MIT */
#include "fault/count.h"
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic size_t live, peak;
static void (*_Atomic watcher)(size_t live);

size_t count_live(void) {
        return live;
}

size_t count_peak(void) {
        return peak;
}

void count_begin(void (*watch)(size_t live)) {
        watcher = watch;
        peak = live;
}

static void *took(void *p) {
        void (*watch)(size_t live) = watcher;
        size_t now, most = peak;

        if (!p)
                return NULL;
        now = atomic_fetch_add(&live, malloc_usable_size(p)) + malloc_usable_size(p);
        while (most < now && !atomic_compare_exchange_weak(&peak, &most, now))
                ;
        if (watch)
                watch(now);
        return p;
}

static void gives(void *p) {
        atomic_fetch_sub(&live, malloc_usable_size(p));
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p) {
        gives(p);
        __real_free(p);
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n) {
        return took(__real_malloc(n));
}

void *__real_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_calloc(size_t n, size_t m) {
        return took(__real_calloc(n, m));
}

/* Large blocks grow where they are, or by moving pages: never are there two of them. */
static void *regrown(void *p, size_t old) {
        if (!p)
                return NULL;
        atomic_fetch_sub(&live, old);
        return took(p);
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) {
        size_t old = malloc_usable_size(p);

        return regrown(__real_realloc(p, n), old);
}

void *__real_reallocarray(void *p, size_t n, size_t m);
void *__wrap_reallocarray(void *p, size_t n, size_t m);
void *__wrap_reallocarray(void *p, size_t n, size_t m) {
        size_t old = malloc_usable_size(p);

        return regrown(__real_reallocarray(p, n, m), old);
}

char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__wrap_strdup(const char *s) {
        return took(__real_strdup(s));
}

char *__real_strndup(const char *s, size_t n);
char *__wrap_strndup(const char *s, size_t n);
char *__wrap_strndup(const char *s, size_t n) {
        return took(__real_strndup(s, n));
}

void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n) {
        return took(__real_aligned_alloc(align, n));
}

int __real_posix_memalign(void **ret, size_t align, size_t n);
int __wrap_posix_memalign(void **ret, size_t align, size_t n);
int __wrap_posix_memalign(void **ret, size_t align, size_t n) {
        int r = __real_posix_memalign(ret, align, n);

        if (r == 0)
                took(*ret);
        return r;
}
