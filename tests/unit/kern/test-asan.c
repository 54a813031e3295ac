/* SPDX-License-Identifier: MIT */
/* What packed tiles ask instead of AddressSanitizer's runtime (kern-asan.h) misses nothing that it says. */
#include "kern-util.h"
#include "base/util.h"
#include "kern/kern-asan.h"
#include "quant/quant.h"
#include <sanitizer/asan_interface.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t sizes[] = {
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 31, 32, 33, 63, 64, 65, 128};

/* Clean is what the runtime finds nothing in, the eight bytes around both ends included. */
static void check(uintptr_t addr, size_t size) {
        uintptr_t from = addr & ~(uintptr_t)7, to = (addr + size + 7) & ~(uintptr_t)7;
        bool clean = kern_asan_is_clean(addr, size);

        if (clean)
                assert_null(__asan_region_is_poisoned((void *)addr, size));
        if (size <= 16 || size == 32 || size == 64)
                assert_int_equal(clean, !__asan_region_is_poisoned((void *)from, to - from));
}

/* Around blocks of all small sizes, which have others behind them. */
static void test_blocks(void **state) {
        char *blocks[200];

        for (size_t n = 0; n < ARRAY_SIZE(blocks); n++)
                blocks[n] = test_alloc(n);
        for (size_t n = 0; n < ARRAY_SIZE(blocks); n++)
                for (size_t at = 0; at < n + 64; at++)
                        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                                check((uintptr_t)blocks[n] - 32 + at, sizes[i]);
        for (size_t n = 0; n < ARRAY_SIZE(blocks); n += 2)
                free(blocks[n]);
        for (size_t n = 0; n < ARRAY_SIZE(blocks); n++)
                for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                        check((uintptr_t)blocks[n], sizes[i]);
        for (size_t n = 1; n < ARRAY_SIZE(blocks); n += 2)
                free(blocks[n]);
}

/* Each byte of shadow counts: eight bytes, or the last four of them, anywhere in what a register takes. */
static void test_places(void **state) {
        char *p = test_alloc64(256);

        for (size_t at = 64; at < 192; at += 4) {
                __asan_poison_memory_region(p + at, 8 - at % 8);
                for (size_t from = 0; from < 192; from++)
                        for (size_t i = 0; i < ARRAY_SIZE(sizes) - 2; i++)
                                check((uintptr_t)p + from, sizes[i]);
                __asan_unpoison_memory_region(p, 256);
        }
        free(p);
}

/* The product of a repacked matrix with rows of results that are @n_missing short, in a child. */
static int product(size_t n_missing) {
        enum { N_IN = 64, N_OUT = 64, N_TOKENS = 3 };
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
                uint64_t rs = 1;
                struct kern *k = NULL;
                struct kern_act a;
                size_t row_size = quant_row_size(QUANT_Q8_0, N_IN);
                float *values = test_floats(&rs, N_OUT * N_IN, 1),
                      *x = test_floats(&rs, N_TOKENS * N_IN, 1);
                struct kern_mat m = {.data = calloc(N_OUT, row_size),
                        .type = QUANT_Q8_0,
                        .n_in = N_IN,
                        .n_out = N_OUT,
                        .row_size = row_size};

                if (kern_new(&k, 1, KERN_N_ISA, NULL) < 0 || kern_repacked_size(k, &m) == 0)
                        _exit(77);
                kern_repack(k, &m, test_alloc64(kern_repacked_size(k, &m)), &m);
                kern_act_prepare(k, &a, kern_mat_act_class(&m), x, N_IN, N_IN, N_TOKENS,
                        test_alloc64(kern_act_size(kern_mat_act_class(&m), N_IN, N_TOKENS)));
                free(values);
                assert_true(freopen("/dev/null", "w", stderr));
                kern_matmul(k, &m, &a, NULL,
                        test_alloc((N_TOKENS * N_OUT - n_missing) * sizeof(float)), N_OUT);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static void test_product(void **state) {
        int status = product(0);

        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
                print_message("SKIP: this processor repacks nothing\n");
                skip();
        }
        assert_int_equal(status, 0);
        for (size_t n = 1; n <= 16; n++)
                assert_int_not_equal(product(n), 0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_blocks),
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_product),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
