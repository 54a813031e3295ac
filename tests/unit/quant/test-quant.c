/* SPDX-License-Identifier: MIT */
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "quant/quant.h"
#include "util/shared.h"
#include "util/test.h"
#include <math.h>
#include <string.h>

static const uint32_t supported[] = {QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q8_0, QUANT_Q4_0};
#define N_SUPPORTED (sizeof(supported) / sizeof(supported[0]))

static void test_table(void **state) {
        size_t n_known = 0, n_supported = 0;

        for (uint32_t t = 0; t < 100; t++) {
                const struct quant_info *info = quant_info(t);

                if (!info)
                        continue;
                n_known++;
                n_supported += info->supported;
                assert_non_null(info->name);
                assert_int_equal(quant_row_size(t, 0), 0);
                assert_int_equal(quant_row_size(t, info->block_values), info->block_size);
                assert_int_equal(
                        quant_row_size(t, 7 * (size_t)info->block_values), 7 * info->block_size);
                if (info->block_values > 1)
                        assert_int_equal(quant_row_size(t, info->block_values + 1), 0);
        }
        assert_int_equal(n_known, QUANT_N_TYPES - 8);
        assert_int_equal(n_supported, N_SUPPORTED);
        static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 1000, UINT32_MAX};
        for (size_t i = 0; i < sizeof(removed) / sizeof(removed[0]); i++) {
                assert_null(quant_info(removed[i]));
                assert_int_equal(quant_row_size(removed[i], 256), 0);
        }
        assert_string_equal(quant_info(QUANT_Q8_0)->name, "Q8_0");
        assert_int_equal(quant_row_size(QUANT_F32, SIZE_MAX), 0); /* overflows */
}

static void test_q8_0_block(void **state) {
        uint8_t block[34] = {0x00, 0x40}; /* d = 2 */
        float out[32];

        block[2] = 127;
        block[3] = 0x80;
        block[33] = 0xFF;
        quant_dequantize(QUANT_Q8_0, block, out, 32);
        assert_true(out[0] == 254 && out[1] == -256 && out[2] == 0 && out[31] == -2);
}

static void test_q4_0_block(void **state) {
        uint8_t block[18] = {0x00, 0xB8}; /* d = -0.5 */
        float out[32];

        memset(block + 2, 0x88, 16);
        block[2] = 0xF0;
        block[17] = 0x1F;
        quant_dequantize(QUANT_Q4_0, block, out, 32);
        assert_true(out[0] == 4 && out[16] == -3.5f && out[15] == -3.5f && out[31] == 3.5f);
        assert_true(out[1] == 0 && out[17] == 0);
}

static void test_quantize_q8_0(void **state) {
        float in[32] = {127, -127, 0.5f, -0.5f, 0.49f, 1.5f, 2.5f, -2.5f}, out[32];
        uint8_t block[34];

        quant_quantize(QUANT_Q8_0, in, block, 32); /* d = 1: values are the quants */
        assert_int_equal(block[0] | block[1] << 8, 0x3C00);
        quant_dequantize(QUANT_Q8_0, block, out, 32);
        static const float expected[] = {127, -127, 1, -1, 0, 2, 3, -3, 0};
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                assert_true(out[i] == expected[i]);
        memset(in, 0, sizeof(in));
        quant_quantize(QUANT_Q8_0, in, block, 32);
        for (size_t i = 0; i < sizeof(block); i++)
                assert_int_equal(block[i], 0);
}

static void test_quantize_q4_0(void **state) {
        float in[32] = {-8, 7, 8, 0.49f, 0.5f, -0.5f, -0.51f, 7.4f}, out[32];
        uint8_t block[18];

        quant_quantize(QUANT_Q4_0, in, block, 32); /* the first of equal magnitudes: d = 1 */
        assert_int_equal(block[0] | block[1] << 8, 0x3C00);
        quant_dequantize(QUANT_Q4_0, block, out, 32);
        static const float expected[] = {-8, 7, 7, 0, 1, 0, -1, 7, 0};
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                assert_true(out[i] == expected[i]);
        in[0] = 8;
        quant_quantize(QUANT_Q4_0, in, block, 32);
        assert_int_equal(block[0] | block[1] << 8, 0xBC00);
        memset(in, 0, sizeof(in));
        quant_quantize(QUANT_Q4_0, in, block, 32);
        quant_dequantize(QUANT_Q4_0, block, out, 32);
        for (int i = 0; i < 32; i++)
                assert_true(out[i] == 0);
}

static void test_round_trip(void **state) {
        float in[256], out[256], again[256];
        uint8_t packed[256 * 4], packed_again[256 * 4];
        uint64_t x = 1;

        for (int i = 0; i < 256; i++) {
                x = x * 6364136223846793005 + 1442695040888963407;
                in[i] = (float)(int32_t)(x >> 32) * 0x1p-31f;
        }
        for (size_t k = 0; k < N_SUPPORTED; k++) {
                uint32_t t = supported[k];
                size_t size = quant_row_size(t, 256);
                float worst = t == QUANT_Q4_0 ? 0.13f : t == QUANT_Q8_0 ? 0.005f : 0.002f;

                quant_quantize(t, in, packed, 256);
                quant_dequantize(t, packed, out, 256);
                for (int i = 0; i < 256; i++)
                        assert_true(fabsf(in[i] - out[i]) < worst);
                if (t == QUANT_Q4_0)
                        continue; /* 15 * d may be beyond the greatest: not idempotent */
                quant_quantize(t, out, packed_again, 256);
                quant_dequantize(t, packed_again, again, 256);
                if (t != QUANT_Q8_0)
                        assert_memory_equal(packed, packed_again, size);
        }
}

static void test_not_finite(void **state) {
        float in[32] = {NAN, INFINITY, -INFINITY, 1e38f}, out[32];
        uint8_t packed[128];

        for (size_t k = 0; k < N_SUPPORTED; k++) {
                quant_quantize(supported[k], in, packed, 32); /* defined, whatever comes out */
                quant_dequantize(supported[k], packed, out, 32);
        }
}

/* Distance in float32 steps. */
static uint32_t ulps(float a, float b) {
        int32_t x, y;

        if (isnan(a) && isnan(b))
                return 0;
        memcpy(&x, &a, sizeof(x));
        memcpy(&y, &b, sizeof(y));
        x = x < 0 ? INT32_MIN - x : x;
        y = y < 0 ? INT32_MIN - y : y;
        return x > y ? (uint32_t)x - (uint32_t)y : (uint32_t)y - (uint32_t)x;
}

static void check_reference(uint32_t type) {
        _cleanup_(freep) char *raw = NULL;
        _cleanup_(freep) char *values = NULL;
        _cleanup_(freep) float *out = NULL;
        size_t raw_size, values_size, n;
        char rel[64];
        struct err e;
        const char *path;

        snprintf(rel, sizeof(rel), "quant/%s.raw", quant_info(type)->name);
        path = test_shared(rel);
        if (!path) {
                print_message("SKIP: no reference data\n");
                skip();
        }
        assert_int_equal(file_read_all(path, 1 << 24, &raw, &raw_size, &e), 0);
        snprintf(rel, sizeof(rel), "quant/%s.f32", quant_info(type)->name);
        path = test_shared(rel);
        assert_non_null(path);
        assert_int_equal(file_read_all(path, 1 << 24, &values, &values_size, &e), 0);
        n = values_size / sizeof(float);
        assert_true(n > 1000);
        assert_int_equal(quant_row_size(type, n), raw_size);
        out = calloc(n, sizeof(*out));
        assert_non_null(out);
        quant_dequantize(type, raw, out, n);
        for (size_t i = 0; i < n; i++) {
                float expected;

                memcpy(&expected, values + i * sizeof(float), sizeof(expected));
                assert_true(ulps(out[i], expected) <= 1);
        }
}

static void test_reference_f32(void **state) {
        check_reference(QUANT_F32);
}

static void test_reference_f16(void **state) {
        check_reference(QUANT_F16);
}

static void test_reference_bf16(void **state) {
        check_reference(QUANT_BF16);
}

static void test_reference_q8_0(void **state) {
        check_reference(QUANT_Q8_0);
}

static void test_reference_q4_0(void **state) {
        check_reference(QUANT_Q4_0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_q8_0_block),
                cmocka_unit_test(test_q4_0_block),
                cmocka_unit_test(test_quantize_q8_0),
                cmocka_unit_test(test_quantize_q4_0),
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_not_finite),
                cmocka_unit_test(test_reference_f32),
                cmocka_unit_test(test_reference_f16),
                cmocka_unit_test(test_reference_bf16),
                cmocka_unit_test(test_reference_q8_0),
                cmocka_unit_test(test_reference_q4_0),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
