/* SPDX-License-Identifier: MIT */
#pragma once
/* Shared by the tests of lib/kern: numbers, comparison by bits, one kern per instruction set. */
#include "util/test.h"
#include "base/err.h"
#include "kern/kern.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline uint64_t test_random(uint64_t *state) {
        uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

/* Uniform in (-1, 1). */
static inline float test_uniform(uint64_t *state) {
        return (float)(int32_t)(uint32_t)test_random(state) * 0x1p-31f;
}

static inline void *test_alloc(size_t n) {
        void *p = malloc(n ? n : 1);

        assert_non_null(p);
        return p;
}

/* 64-byte aligned, as kern asks of scratch and blocks. */
static inline void *test_alloc64(size_t n) {
        void *p = NULL;

        assert_int_equal(posix_memalign(&p, 64, n ? n : 1), 0);
        return p;
}

static inline float *test_floats(uint64_t *state, size_t n, float scale) {
        float *p = test_alloc(n * sizeof(*p));

        for (size_t i = 0; i < n; i++)
                p[i] = test_uniform(state) * scale;
        return p;
}

/* Equal bits; a NaN equals any NaN. */
static inline bool test_same(const float *a, const float *b, size_t n) {
        if (memcmp(a, b, n * sizeof(*a)) == 0)
                return true;
        for (size_t i = 0; i < n; i++)
                if (memcmp(&a[i], &b[i], sizeof(*a)) != 0 && !(isnan(a[i]) && isnan(b[i]))) {
                        print_message("at %zu: %a and %a\n", i, (double)a[i], (double)b[i]);
                        return false;
                }
        return true;
}

/* With CONFAB_TEST_FEW in the environment, as in an emulator (tools/check-arm), three of four cases are. */
static inline bool test_left_out(size_t n) {
        return n % 4 && getenv("CONFAB_TEST_FEW");
}

/* NULL if this CPU or build lacks it. */
static inline struct kern *test_kern(enum kern_isa isa, unsigned n_threads) {
        struct kern *k = NULL;
        struct err e;

        assert_int_equal(kern_new(&k, n_threads, isa, &e), 0);
        if (kern_isa(k) != isa)
                k = kern_free(k);
        return k;
}

static inline bool test_has(enum kern_isa isa) {
        struct kern *k = test_kern(isa, 1);

        kern_free(k);
        return k != NULL;
}
