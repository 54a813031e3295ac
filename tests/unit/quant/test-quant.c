/* SPDX-License-Identifier: MIT */
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "quant/quant.h"
#include "util/quantize.h"
#include "util/shared.h"
#include "util/test.h"
#include <math.h>
#include <string.h>

static void test_table(void **state) {
        size_t n_known = 0, n_supported = 0;

        for (uint32_t t = 0; t < 100; t++) {
                const struct quant_info *info = quant_info(t);

                if (!info)
                        continue;
                n_known++;
                n_supported += info->supported;
                assert_int_equal(
                        !!info->convert + !!info->unpack32 + !!info->unpack256, info->supported);
                if (info->supported)
                        assert_int_equal(info->block_values, info->convert    ? 1
                                                             : info->unpack32 ? 32
                                                                              : 256);
                assert_non_null(info->name);
                assert_int_equal(quant_row_size(t, 0), 0);
                assert_int_equal(quant_row_size(t, info->block_values), info->block_size);
                assert_int_equal(
                        quant_row_size(t, 7 * (size_t)info->block_values), 7 * info->block_size);
                if (info->block_values > 1)
                        assert_int_equal(quant_row_size(t, info->block_values + 1), 0);
        }
        assert_int_equal(n_known, QUANT_N_TYPES - 8);
        assert_int_equal(n_supported, test_n_quant_types);
        for (size_t i = 0; i < test_n_quant_types; i++)
                assert_true(quant_info(test_quant_types[i])->supported);
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

        test_quantize(QUANT_Q8_0, in, block, 32); /* d = 1: values are the quants */
        assert_int_equal(block[0] | block[1] << 8, 0x3C00);
        quant_dequantize(QUANT_Q8_0, block, out, 32);
        static const float expected[] = {127, -127, 1, -1, 0, 2, 3, -3, 0};
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                assert_true(out[i] == expected[i]);
        memset(in, 0, sizeof(in));
        test_quantize(QUANT_Q8_0, in, block, 32);
        for (size_t i = 0; i < sizeof(block); i++)
                assert_int_equal(block[i], 0);
}

static void test_quantize_q4_0(void **state) {
        float in[32] = {-8, 7, 8, 0.49f, 0.5f, -0.5f, -0.51f, 7.4f}, out[32];
        uint8_t block[18];

        test_quantize(QUANT_Q4_0, in, block, 32); /* the first of equal magnitudes: d = 1 */
        assert_int_equal(block[0] | block[1] << 8, 0x3C00);
        quant_dequantize(QUANT_Q4_0, block, out, 32);
        static const float expected[] = {-8, 7, 7, 0, 1, 0, -1, 7, 0};
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                assert_true(out[i] == expected[i]);
        in[0] = 8;
        test_quantize(QUANT_Q4_0, in, block, 32);
        assert_int_equal(block[0] | block[1] << 8, 0xBC00);
        memset(in, 0, sizeof(in));
        test_quantize(QUANT_Q4_0, in, block, 32);
        quant_dequantize(QUANT_Q4_0, block, out, 32);
        for (int i = 0; i < 32; i++)
                assert_true(out[i] == 0);
}

/* Fifth bits: bit j of the word belongs to value j, in the upper half too. */
static void test_q5_blocks(void **state) {
        uint8_t q5_0[22] = {0x00, 0x3C, 0x01, 0x80, 0x00, 0x80}; /* d = 1; values 0, 15 and 31 */
        uint8_t q5_1[24] = {0x00, 0x3C, 0x00, 0x40, 0x00, 0x00, 0x01, 0x00}; /* m = 2; value 16 */
        float out[32];

        q5_0[6] = 0x21;
        quant_dequantize(QUANT_Q5_0, q5_0, out, 32);
        assert_true(out[0] == 1 && out[16] == -14 && out[15] == 0 && out[31] == 0 && out[1] == -16);
        q5_1[8] = 0x21;
        quant_dequantize(QUANT_Q5_1, q5_1, out, 32);
        assert_true(out[0] == 3 && out[16] == 2 + 18 && out[15] == 2 && out[31] == 2);
}

static void test_mxfp4_scales(void **state) {
        for (int e = 0; e < 256; e++)
                assert_true((double)quant_mxfp4_scale((uint8_t)e) == ldexp(1, e - 128));
}

/* A value of weight one in each place of a block of 256: the others stay what they are. */
static void test_places(void **state) {
        for (size_t k = 0; k < test_n_quant_types; k++) {
                uint32_t type = test_quant_types[k];
                float in[256], out[256];
                uint8_t packed[1024];

                for (int i = 0; i < 256; i++) {
                        memset(in, 0, sizeof(in));
                        in[i] = -1;
                        test_quantize(type, in, packed, 256);
                        quant_dequantize(type, packed, out, 256);
                        for (int j = 0; j < 256; j++)
                                assert_true(
                                        j == i ? fabsf(out[j] + 1) < 0.01f : fabsf(out[j]) < 0.01f);
                }
        }
}

/* What rounding may cost values in (-1, 1): about half of a step, or what the greatest code lacks. */
static float worst_error(uint32_t type) {
        static const float worst[QUANT_N_TYPES] = {[QUANT_F32] = 1e-9f,
                [QUANT_F16] = 0.0005f,
                [QUANT_BF16] = 0.002f,
                [QUANT_Q8_0] = 0.005f,
                [QUANT_Q4_0] = 0.13f,
                [QUANT_Q4_1] = 0.07f,
                [QUANT_Q5_0] = 0.063f,
                [QUANT_Q5_1] = 0.034f,
                [QUANT_IQ4_NL] = 0.12f,
                [QUANT_MXFP4] = 0.26f,
                [QUANT_Q2_K] = 0.42f,
                [QUANT_Q3_K] = 0.28f,
                [QUANT_Q4_K] = 0.09f,
                [QUANT_Q5_K] = 0.05f,
                [QUANT_Q6_K] = 0.04f,
                [QUANT_IQ4_XS] = 0.14f};

        assert_true(worst[type] > 0);
        return worst[type];
}

static void test_round_trip(void **state) {
        float in[1024], out[1024];
        uint8_t packed[1024 * 4], packed_again[1024 * 4];
        uint64_t x = 1;

        for (int i = 0; i < 1024; i++) {
                x = x * 6364136223846793005 + 1442695040888963407;
                in[i] = (float)(int32_t)(x >> 32) * 0x1p-31f;
                /* The second half: groups differ in width and, independently, in offset. */
                if (i >= 512)
                        in[i] = in[i] * (float)(i / 32 % 5) / 10 - (float)(i / 32 % 7) / 14;
        }
        for (size_t k = 0; k < test_n_quant_types; k++) {
                uint32_t t = test_quant_types[k];

                test_quantize(t, in, packed, 1024);
                quant_dequantize(t, packed, out, 1024);
                for (int i = 0; i < 1024; i++)
                        assert_true(fabsf(in[i] - out[i]) < worst_error(t));
                if (quant_info(t)->block_values > 1)
                        continue;
                test_quantize(t, out, packed_again, 1024);
                assert_memory_equal(packed, packed_again, quant_row_size(t, 1024));
        }
}

static void test_not_finite(void **state) {
        float in[256] = {NAN, INFINITY, -INFINITY, 1e38f}, out[256];
        uint8_t packed[1024];

        for (size_t k = 0; k < test_n_quant_types; k++) {
                test_quantize(test_quant_types[k], in, packed, 256); /* whatever comes out */
                quant_dequantize(test_quant_types[k], packed, out, 256);
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

static void test_reference(void **state) {
        uint32_t type = *(const uint32_t *)*state;
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

int main(void) {
        struct CMUnitTest tests[32] = {
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_q8_0_block),
                cmocka_unit_test(test_q4_0_block),
                cmocka_unit_test(test_q5_blocks),
                cmocka_unit_test(test_mxfp4_scales),
                cmocka_unit_test(test_quantize_q8_0),
                cmocka_unit_test(test_quantize_q4_0),
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_not_finite),
        };
        size_t n = 0;

        while (tests[n].test_func)
                n++;
        for (size_t i = 0; i < test_n_quant_types; i++) {
                static char names[32][32];

                snprintf(names[i], sizeof(names[i]), "test_reference %s",
                        quant_info(test_quant_types[i])->name);
                tests[n++] = (struct CMUnitTest){.name = names[i],
                        .test_func = test_reference,
                        .initial_state = (void *)(uintptr_t)&test_quant_types[i]};
        }
        return _cmocka_run_group_tests("quant", tests, n, NULL, NULL);
}
