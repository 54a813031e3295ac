/* SPDX-License-Identifier: MIT */
#include "sample/philox.h"
#include "util/test.h"

static void test_known_answers(void **state) {
        /* the vectors that the Random123 distribution publishes for philox4x32-10 */
        static const struct {
                uint32_t counter[4], key[2], out[4];
        } known[] = {
                {{0, 0, 0, 0}, {0, 0}, {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
                {{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {0xFFFFFFFF, 0xFFFFFFFF},
                        {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
                {{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0},
                        {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
        };

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                uint32_t out[4];

                philox4x32(known[i].counter, known[i].key, out);
                for (int k = 0; k < 4; k++)
                        assert_int_equal(out[k], known[i].out[k]);
        }
}

static void test_uniform(void **state) {
        double sum = 0;

        /* the first two words of the known answer, 53 bits of them */
        assert_true(philox_uniform(0, 0) == (double)(0x6627E8D5E169C58D >> 11) * 0x1p-53);
        for (uint64_t i = 0; i < 100000; i++) {
                double u = philox_uniform(1, i);

                assert_true(u >= 0 && u < 1);
                sum += u;
        }
        assert_true(sum > 49700 && sum < 50300); /* mean 50000, deviation 91 */
        /* every part of seed and position counts */
        assert_true(philox_uniform(0, 0) != philox_uniform(0, 1));
        assert_true(philox_uniform(0, 0) != philox_uniform(0, (uint64_t)1 << 32));
        assert_true(philox_uniform(0, 0) != philox_uniform(1, 0));
        assert_true(philox_uniform(0, 0) != philox_uniform((uint64_t)1 << 32, 0));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_known_answers),
                cmocka_unit_test(test_uniform),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
