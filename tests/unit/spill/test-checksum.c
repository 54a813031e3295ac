/* SPDX-License-Identifier: MIT */
/* The checksum of payloads: the library's values, from each instruction set. */
#include <stdlib.h>
#include <string.h>

#include "spill/codec.h"
#include "spill/codec/checksum.h"
#include "spill/spill.h"
#include "util/test.h"

enum { N_ISA = 3, SIZE = 5000 };

static void fill(uint8_t *data) {
        for (int i = 0; i < SIZE; i++)
                data[i] = (uint8_t)(i * 131 >> 3);
}

/* As the shared library of Debian 12 (libxxhash 0.8.1) computes them. */
static void test_values(void **state) {
        static const struct {
                size_t n;
                uint64_t value;
        } expected[] = {
                {0, 0x2d06800538d394c2},
                {1, 0xc44bdff4074eecdb},
                {16, 0x26cf74202fe4d5a1},
                {200, 0x5ec72a5034fe7a53},
                {1024, 0x4129bc6deea0cf5a},
                {5000, 0xfdae5893511c8d8f},
        };
        uint8_t data[SIZE];

        fill(data);
        for (int isa = 0; isa < N_ISA; isa++) {
                (void)spill_cap_isa(isa);
                for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                        assert_int_equal(spill_checksum(data, expected[i].n), expected[i].value);
        }
}

/* Any size, any place; exactly these bytes count. */
static void test_all_sizes(void **state) {
        uint8_t data[SIZE];

        fill(data);
        for (size_t n = 0; n < SIZE - 64; n += n < 300 ? 1 : 97) {
                uint8_t *copy = malloc(n + 1), *at = data + n % 61;
                uint64_t value;

                assert_non_null(copy);
                (void)spill_cap_isa(0);
                value = spill_checksum(at, n);
                memcpy(copy, at, n);
                for (int isa = 1; isa < N_ISA; isa++) {
                        (void)spill_cap_isa(isa);
                        assert_int_equal(spill_checksum(copy, n), value);
                        if (n > 0) {
                                copy[n * 2 / 3] ^= 0x40;
                                assert_int_not_equal(spill_checksum(copy, n), value);
                                copy[n * 2 / 3] ^= 0x40;
                        }
                }
                free(copy);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_all_sizes),
        };
        int r = cmocka_run_group_tests(tests, NULL, NULL);

        (void)spill_cap_isa(N_ISA - 1);
        return r;
}
