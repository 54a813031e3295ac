/* SPDX-License-Identifier: MIT */
#include "quant/quant.h"
#include "util/test.h"
#include <math.h>
#include <string.h>

static uint32_t bits(float f) {
        uint32_t u;

        memcpy(&u, &f, sizeof(u));
        return u;
}

static float from_bits(uint32_t u) {
        float f;

        memcpy(&f, &u, sizeof(f));
        return f;
}

static void test_every_half(void **state) {
        for (uint32_t h = 0; h <= 0xFFFF; h++) {
                float f = quant_f16_to_f32((uint16_t)h);
                int exponent = h >> 10 & 31, m = h & 1023;
                double expected = exponent ? ldexp(1024 + m, exponent - 25) : ldexp(m, -24);

                if (exponent == 31 && m) {
                        assert_true(isnan(f));
                        assert_int_equal(quant_f32_to_f16(f), h | 0x200);
                        continue;
                }
                if (exponent == 31)
                        expected = (double)INFINITY;
                assert_true((double)f == (h & 0x8000 ? -expected : expected));
                assert_int_equal(!!signbit(f), h >> 15);
                assert_int_equal(quant_f32_to_f16(f), h);
        }
}

/* The nearest half by its definition: between neighbours, the midpoint goes to the even one. */
static void test_half_rounding(void **state) {
        for (uint32_t h = 0; h < 0x7BFF; h++) {
                float low = quant_f16_to_f32((uint16_t)h),
                      high = quant_f16_to_f32((uint16_t)(h + 1));
                float mid = low + (high - low) / 2; /* exact */

                assert_int_equal(quant_f32_to_f16(mid), h & 1 ? h + 1 : h);
                assert_int_equal(quant_f32_to_f16(-mid), 0x8000 | (h & 1 ? h + 1 : h));
                assert_int_equal(quant_f32_to_f16(nextafterf(mid, 0)), h);
                assert_int_equal(quant_f32_to_f16(nextafterf(mid, INFINITY)), h + 1);
        }
        assert_int_equal(quant_f32_to_f16(65504), 0x7BFF);
        assert_int_equal(quant_f32_to_f16(nextafterf(65520, 0)), 0x7BFF);
        assert_int_equal(quant_f32_to_f16(65520), 0x7C00);
        assert_int_equal(quant_f32_to_f16(-INFINITY), 0xFC00);
        assert_int_equal(quant_f32_to_f16(1e30f), 0x7C00);
        assert_int_equal(quant_f32_to_f16(from_bits(1)), 0);
        assert_int_equal(quant_f32_to_f16(from_bits(0x80000001)), 0x8000);
        assert_int_equal(quant_f32_to_f16(from_bits(0x7F800001)), 0x7E00);
}

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("f16c"))) static uint16_t by_hardware(float f) {
        return (uint16_t)_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(f), 0), 0);
}

static void test_same_as_f16c(void **state) {
        /* clang 14 does not know "f16c": all that have AVX2 have it. */
        if (!__builtin_cpu_supports("avx2")) {
                print_message("SKIP: the processor has no F16C\n");
                skip();
        }
        for (uint64_t u = 0; u < 0x100000000; u += 5003) {
                float f = from_bits((uint32_t)u);

                assert_int_equal(quant_f32_to_f16(f), by_hardware(f));
        }
}
#else
static void test_same_as_f16c(void **state) {
        print_message("SKIP: F16C is of x86\n");
        skip();
}
#endif

static void test_bf16(void **state) {
        for (uint32_t h = 0; h <= 0xFFFF; h++) {
                float f = quant_bf16_to_f32((uint16_t)h);

                assert_int_equal(bits(f), h << 16);
                if (isnan(f))
                        assert_int_equal(quant_f32_to_bf16(f), h | 0x40);
                else
                        assert_int_equal(quant_f32_to_bf16(f), h);
                if ((h & 0x7FFF) >= 0x7F80)
                        continue;
                /* just below, at and above the midpoint */
                assert_int_equal(quant_f32_to_bf16(from_bits(h << 16 | 0x7FFF)), h);
                assert_int_equal(quant_f32_to_bf16(from_bits(h << 16 | 0x8000)), h + (h & 1));
                assert_int_equal(quant_f32_to_bf16(from_bits(h << 16 | 0x8001)), h + 1);
        }
        assert_true(isnan(quant_bf16_to_f32(quant_f32_to_bf16(from_bits(0x7F800001)))));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_half),
                cmocka_unit_test(test_half_rounding),
                cmocka_unit_test(test_same_as_f16c),
                cmocka_unit_test(test_bf16),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
