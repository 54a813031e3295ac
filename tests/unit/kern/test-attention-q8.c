/* SPDX-License-Identifier: MIT */
/* Rounding of keys and values to Q8_0: each sentence of kern.h in turn, the same bits from every
 * instruction set, and errors of at most half a step. */
#include "kern-util.h"
#include "quant/quant.h"

#define HEAD 128
#define TOKENS 32

static const struct kern_kv_layout layout = {KERN_KV_Q8_0, TOKENS, 1, HEAD, HEAD, false};

/* One block with the keys and values x [TOKENS][HEAD]. */
static uint8_t *write_block(struct kern *k, const float *x) {
        size_t k_size = kern_kv_k_size(&layout), size = k_size + kern_kv_v_size(&layout);
        uint8_t *block = test_alloc64(size);
        struct kern_attn_row rows[TOKENS];

        memset(block, 0xff, size);
        for (uint32_t t = 0; t < TOKENS; t++)
                rows[t] = (struct kern_attn_row){(void *const *)&block, t};
        kern_kv_write(k, &layout, 0, k_size, rows, TOKENS, x, HEAD, x, HEAD);
        return block;
}

static uint16_t scale_of(const uint8_t *block, size_t t, size_t group) {
        const uint8_t *v = block + kern_kv_k_size(&layout);
        uint16_t k_scale, v_scale;

        memcpy(&k_scale, block + kern_kv_k_scales(&layout) + (group * TOKENS + t) * 2, 2);
        memcpy(&v_scale, v + kern_kv_v_scales(&layout) + (t * (HEAD / KERN_KV_GROUP) + group) * 2,
                2);
        assert_int_equal(k_scale, v_scale);
        return v_scale;
}

static int8_t value_of(const uint8_t *block, size_t t, size_t d) {
        int8_t k = (int8_t)block[d * TOKENS + t];
        int8_t v = (int8_t)block[kern_kv_k_size(&layout) + t * HEAD + d];

        assert_int_equal(k, v);
        return v;
}

static void test_sizes(void **state) {
        /* 8.5 bits per value, and every part starts on a cache line. */
        assert_int_equal(kern_kv_k_scales(&layout), TOKENS * HEAD);
        assert_int_equal(kern_kv_k_size(&layout), TOKENS * HEAD / 32 * 34);
        assert_int_equal(kern_kv_v_size(&layout), kern_kv_k_size(&layout));
        assert_int_equal(kern_kv_k_size(&layout) % 64, 0);
        assert_string_equal(kern_kv_name(KERN_KV_Q8_0), "q8_0");
        assert_string_equal(kern_kv_name(KERN_KV_F16), "f16");
        assert_string_equal(kern_kv_name(KERN_KV_F32), "f32");
}

/* Groups whose result can be said beforehand: a whole group of fill, but for its first value. */
static const struct {
        float first, fill;
        uint16_t scale;
        int8_t first_q, fill_q;
} cases[] = {
        {0, 0, 0, 0, 0},
        {-0.0f, 0, 0, 0, 0},
        {127, 1, 0x3c00, 127, 1},
        {-127, 1, 0x3c00, -127, 1},
        {127, 0.5f, 0x3c00, 127, 0}, /* ties to even */
        {127, 1.5f, 0x3c00, 127, 2},
        {127, -2.5f, 0x3c00, 127, -2},
        {1e-45f, 0, 0, 0, 0},         /* too small for an f16 scale */
        {127 * 0x1p-25f, 0, 0, 0, 0}, /* the tie goes to zero */
        {127 * 0x1.8p-25f, 0, 1, 95, 0},
        {127 * 0x1.6p-24f, 127 * 0x1p-24f, 1, 127, 127}, /* would be 174: the scale was 2^-24 */
        {-127 * 0x1.6p-24f, 0, 1, -127, 0},
        {127 * 65504.0f, 65504, 0x7bff, 127, 1},
        {127 * 65519.0f, 0, 0x7bff, 127, 0},
        {127 * 65520.0f, 1, 0x7e00, 0, 0}, /* the scale would be infinite */
        {3e38f, 1, 0x7e00, 0, 0},
        {INFINITY, 1, 0x7e00, 0, 0},
        {-INFINITY, 1, 0x7e00, 0, 0},
        {NAN, INFINITY, 0x7e00, 0, 0},
        {-NAN, 0, 0x7e00, 0, 0},
};
#define N_CASES (sizeof(cases) / sizeof(*cases))

static void test_cases(void **state) {
        for (unsigned l = 0; l < KERN_N_ISA; l++) {
                struct kern *k = test_kern((enum kern_isa)l, 1);
                float x[TOKENS * HEAD];
                uint8_t *block;

                if (!k)
                        continue;
                for (size_t i = 0; i < TOKENS * HEAD; i++) {
                        size_t c = i / KERN_KV_GROUP % N_CASES;

                        x[i] = i % KERN_KV_GROUP ? cases[c].fill : cases[c].first;
                }
                block = write_block(k, x);
                for (size_t i = 0; i < TOKENS * HEAD; i++) {
                        size_t c = i / KERN_KV_GROUP % N_CASES, t = i / HEAD, d = i % HEAD;
                        int want = i % KERN_KV_GROUP ? cases[c].fill_q : cases[c].first_q;

                        if (scale_of(block, t, d / KERN_KV_GROUP) != cases[c].scale ||
                                value_of(block, t, d) != want)
                                fail_msg("%s, case %zu: scale %04x, value %d",
                                        kern_isa_name((enum kern_isa)l), c,
                                        scale_of(block, t, d / KERN_KV_GROUP),
                                        value_of(block, t, d));
                }
                free(block);
                kern_free(k);
        }
}

/* The greatest value at every place of a group, everything else smaller. */
static void test_every_place(void **state) {
        for (unsigned l = 0; l < KERN_N_ISA; l++) {
                struct kern *k = test_kern((enum kern_isa)l, 1);
                float x[TOKENS * HEAD];
                uint8_t *block;

                if (!k)
                        continue;
                for (size_t i = 0; i < TOKENS * HEAD; i++)
                        x[i] = i % KERN_KV_GROUP == i / HEAD ? -254 : (float)(i % 7);
                block = write_block(k, x);
                for (size_t t = 0; t < TOKENS; t++)
                        for (size_t d = 0; d < HEAD; d++) {
                                int tie = (int)((t * HEAD + d) % 7);

                                assert_int_equal(scale_of(block, t, d / KERN_KV_GROUP), 0x4000);
                                assert_int_equal(value_of(block, t, d),
                                        d % KERN_KV_GROUP == t ? -127 : (int)rint(tie / 2.0));
                        }
                free(block);
                kern_free(k);
        }
}

/* Random groups of all magnitudes: equal bits everywhere, and the error that 8 bits allow. */
static void test_random_groups(void **state) {
        size_t size = kern_kv_k_size(&layout) + kern_kv_v_size(&layout);
        uint64_t rs = 11;

        for (int round = 0; round < 200; round++) {
                float scale = ldexpf(1, (int)(test_random(&rs) % 60) - 40);
                float *x = test_floats(&rs, TOKENS * HEAD, scale);
                uint8_t *want = NULL;

                for (unsigned l = 0; l < KERN_N_ISA; l++) {
                        struct kern *k = test_kern((enum kern_isa)l, 1);
                        uint8_t *block;

                        if (!k)
                                continue;
                        block = write_block(k, x);
                        if (want)
                                assert_memory_equal(want, block, size);
                        for (size_t i = 0; !want && i < TOKENS * HEAD; i++) {
                                size_t t = i / HEAD, d = i % HEAD;
                                double step = (double)quant_f16_to_f32(
                                        scale_of(block, t, d / KERN_KV_GROUP));
                                double got = step * value_of(block, t, d);

                                /* Half a step, or what an f16 scale cannot tell from 0: the
                                 * greatest may be 127.5 steps of a subnormal scale. */
                                assert_true(fabs(got - (double)x[i]) <=
                                            step * 0.5001 + 127 * 0x1p-25 * 1.0001);
                                if (step > 0x1p-14)
                                        assert_true(fabs(got - (double)x[i]) <=
                                                    (double)scale / 127 * 0.57);
                        }
                        if (want)
                                free(block);
                        else
                                want = block;
                        kern_free(k);
                }
                free(want);
                free(x);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_cases),
                cmocka_unit_test(test_every_place),
                cmocka_unit_test(test_random_groups),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
