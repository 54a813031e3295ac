/* SPDX-License-Identifier: MIT */
/* Matrix products: every instruction set, batch and number of threads gives the same bits, close to
 * the product in double precision. */
#include "kern-util.h"
#include "quant/quant.h"

static const uint32_t types[] = {QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q8_0, QUANT_Q4_0};
#define N_TYPES 5

struct mat {
        struct kern_mat m;
        void *memory;
};

static struct mat make_mat(uint64_t *rs, uint32_t type, size_t n_in, size_t n_out) {
        struct mat r;
        float *f = test_floats(rs, n_in * n_out, 0.5f);

        r.m = (struct kern_mat){.type = type, .n_in = n_in, .n_out = n_out};
        r.m.row_size = quant_row_size(type, n_in);
        /* At the end of its memory, so that a sanitizer sees what reads behind it; unaligned. */
        r.memory = test_alloc(r.m.row_size * n_out + 1);
        r.m.data = (uint8_t *)r.memory + 1;
        quant_quantize(type, f, (uint8_t *)r.memory + 1, n_in * n_out);
        free(f);
        return r;
}

/* y = w x^T on tokens [t0, t0+n). */
static void product(struct kern *k, const struct kern_mat *w, const float *x, size_t ldx, size_t n,
        const float *bias, float *y, size_t ldy) {
        void *scratch = test_alloc64(kern_act_size(w->type, w->n_in, n));
        struct kern_act a;

        kern_act_prepare(k, &a, w->type, x, ldx, w->n_in, n, scratch);
        kern_matmul(k, w, &a, bias, y, ldy);
        free(scratch);
}

static float *product_new(
        struct kern *k, const struct kern_mat *w, const float *x, size_t ldx, size_t n) {
        float *y = test_alloc(n * w->n_out * sizeof(*y));

        memset(y, 0xee, n * w->n_out * sizeof(*y));
        product(k, w, x, ldx, n, NULL, y, w->n_out);
        return y;
}

static const size_t n_ins[2][10] = {
        {1, 15, 16, 17, 48, 100, 255, 256, 273, 1030},
        {32, 64, 96, 224, 256, 288, 480, 1024, 2080, 4384},
};
static const size_t n_outs[] = {1, 2, 3, 5, 8, 9, 17};
static const size_t n_tokenss[] = {
        1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 25, 33, 48, 70, 128, 137, 150};

static void compare_shape(struct kern *const *ks, uint32_t type, size_t n_in, size_t n_out,
        size_t n_tokens, uint64_t *rs) {
        struct mat w = make_mat(rs, type, n_in, n_out);
        float *x = test_floats(rs, (n_in + 3) * n_tokens, 3), *y0, *y;

        y0 = product_new(ks[0], &w.m, x, n_in + 3, n_tokens);
        for (int i = 1; i < 3; i++) {
                if (!ks[i])
                        continue;
                y = product_new(ks[i], &w.m, x, n_in + 3, n_tokens);
                if (!test_same(y0, y, n_out * n_tokens))
                        fail_msg("%s, %s, %zu x %zu, %zu tokens", kern_isa_name(kern_isa(ks[i])),
                                quant_info(type)->name, n_out, n_in, n_tokens);
                free(y);
        }
        free(y0);
        free(x);
        free(w.memory);
}

/* Every shape with the best set of each, over all instruction sets. */
static void test_isa(void **state) {
        struct kern *ks[3];
        uint64_t rs = 1;
        size_t n = 0;

        for (int i = 0; i < 3; i++)
                ks[i] = test_kern((enum kern_isa)i, 1);
        for (int t = 0; t < N_TYPES; t++)
                for (size_t i = 0; i < 10; i++)
                        for (size_t o = 0; o < 7; o++)
                                for (size_t b = 0; b < 18; b++) {
                                        size_t n_in = n_ins[t >= 3][i];

                                        /* The generic one is slow: big shapes now and then. */
                                        if (n_in * n_outs[o] * n_tokenss[b] > 40000 && n++ % 23)
                                                continue;
                                        compare_shape(
                                                ks, types[t], n_in, n_outs[o], n_tokenss[b], &rs);
                                }
        for (int i = 0; i < 3; i++)
                kern_free(ks[i]);
}

/* What these tests compare is what the processor has: a lack is told, not passed over. */
static void test_isas(void **state) {
        if (kern_cpu_isa() == KERN_GENERIC || kern_cpu_isa() == KERN_AVX2) {
                print_message("SKIP: this processor has no AVX-512: its kernels are not tested\n");
                skip();
        }
}

/* A row alone, in a small batch and among 150 others. */
static void test_batch(void **state) {
        uint64_t rs = 2;

        for (int isa = 0; isa < 3; isa++) {
                struct kern *k = test_kern((enum kern_isa)isa, 1);

                for (int t = 0; k && t < N_TYPES; t++) {
                        size_t n_in = 352, n_out = 19, n = 150;
                        struct mat w = make_mat(&rs, types[t], n_in, n_out);
                        float *x = test_floats(&rs, n_in * n, 1);
                        float *all = product_new(k, &w.m, x, n_in, n);

                        for (size_t b = 1; b <= 64; b = b * 2 + 1)
                                for (size_t t0 = 0; t0 + b <= n; t0 += b) {
                                        float *y = product_new(k, &w.m, x + t0 * n_in, n_in, b);

                                        assert_true(test_same(all + t0 * n_out, y, b * n_out));
                                        free(y);
                                }
                        free(all);
                        free(x);
                        free(w.memory);
                }
                kern_free(k);
        }
}

static void test_threads(void **state) {
        uint64_t rs = 3;

        for (int isa = 0; isa < 3; isa++)
                for (int t = 0; t < N_TYPES; t++) {
                        size_t n_in = 512, n_out = 331, n = 10;
                        struct mat w = make_mat(&rs, types[t], n_in, n_out);
                        float *x = test_floats(&rs, n_in * n, 1);
                        float *bias = test_floats(&rs, n_out, 1), *y[4];

                        for (unsigned i = 1; i <= 3; i++) {
                                struct kern *k = test_kern((enum kern_isa)isa, i);

                                y[i] = test_alloc(n * n_out * sizeof(float));
                                if (k)
                                        product(k, &w.m, x, n_in, n, bias, y[i], n_out);
                                else
                                        memset(y[i], 0, n * n_out * sizeof(float));
                                kern_free(k);
                                assert_true(test_same(y[1], y[i], n * n_out));
                        }
                        for (unsigned i = 1; i <= 3; i++)
                                free(y[i]);
                        free(bias);
                        free(x);
                        free(w.memory);
                }
}

/* The definition itself, against double precision. */
static void test_reference(void **state) {
        struct kern *k = test_kern(KERN_GENERIC, 1);
        size_t n_in = 416, n_out = 9, n = 5;
        uint64_t rs = 4;

        for (int t = 0; t < N_TYPES; t++) {
                struct mat w = make_mat(&rs, types[t], n_in, n_out);
                float *x = test_floats(&rs, n_in * n, 2), *row = test_alloc(n_in * sizeof(float));
                float *y = product_new(k, &w.m, x, n_in, n);

                for (size_t o = 0; o < n_out; o++) {
                        quant_dequantize(
                                types[t], (const uint8_t *)w.m.data + o * w.m.row_size, row, n_in);
                        for (size_t i = 0; i < n; i++) {
                                double sum = 0, slack = 0;

                                for (size_t j = 0; j < n_in; j++) {
                                        sum += (double)row[j] * (double)x[i * n_in + j];
                                        /* int8 rounding is off by half of amax/127 at most */
                                        slack += fabs((double)row[j]) * (t >= 3 ? 2. / 254 : 3e-6);
                                }
                                assert_true(fabs(sum - (double)y[i * n_out + o]) <= slack);
                        }
                }
                free(y);
                free(row);
                free(x);
                free(w.memory);
        }
        kern_free(k);
}

/* Blocks with chosen bytes. */
static void set_block(uint8_t *b, size_t size, uint16_t scale, uint8_t fill) {
        memcpy(b, &scale, sizeof(scale));
        memset(b + 2, fill, size - 2);
}

static const float wild_floats[] = {0, -0.0f, 1e-45f, 1e-38f, 3e-39f, 1e38f, 3.4e38f, -3.4e38f,
        INFINITY, -INFINITY, NAN, 127, 0.5f, 1e-37f, -1.5f};

/* Any bytes are weights: extreme and random blocks times wild activations. */
static void test_adversarial(void **state) {
        static const uint16_t scales[] = {
                0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0x7e01};
        static const uint8_t fills[] = {0x80, 0x7f, 0x81, 0xff, 0, 0x88, 0xf0};
        size_t n_in = 32 * 13, n_out = 11, n = 23;
        struct kern *ks[3];
        uint64_t rs = 5;

        for (int i = 0; i < 3; i++)
                ks[i] = test_kern((enum kern_isa)i, 1);
        for (int round = 0; round < 60; round++)
                for (int t = 0; t < N_TYPES; t++) {
                        struct mat w = make_mat(&rs, types[t], n_in, n_out);
                        size_t size = quant_info(types[t])->block_size;
                        float *x = test_floats(&rs, n_in * n, 4), *y[3];
                        uint8_t *p = (uint8_t *)w.memory + 1;

                        for (size_t b = 0; b < n_in * n_out / 32; b++)
                                if (t >= 3)
                                        set_block(p + b * size, size,
                                                scales[test_random(&rs) % (round % 2 ? 12 : 10)],
                                                fills[test_random(&rs) % 7]);
                                else if (round % 2)
                                        for (size_t i = 0; i < size * 32; i++)
                                                p[b * size * 32 + i] = (uint8_t)test_random(&rs);
                        for (size_t i = 0; i < n_in * n; i++)
                                if (test_random(&rs) % (round % 3 ? 3 : 40) == 0)
                                        x[i] = wild_floats[test_random(&rs) % (round % 2 ? 15 : 6)];
                        for (int i = 0; i < 3; i++)
                                if (ks[i])
                                        y[i] = product_new(ks[i], &w.m, x, n_in, n);
                        for (int i = 1; i < 3; i++)
                                if (ks[i]) {
                                        if (!test_same(y[0], y[i], n * n_out))
                                                fail_msg("round %d, %s, isa %d", round,
                                                        quant_info(types[t])->name, i);
                                        free(y[i]);
                                }
                        free(y[0]);
                        free(x);
                        free(w.memory);
                }
        for (int i = 0; i < 3; i++)
                kern_free(ks[i]);
}

/* Integer products of full-scale blocks are exact: -128 * 127 * 32 * scales of 1. */
static void test_full_scale(void **state) {
        uint8_t w[34];
        float x[32], y;

        set_block(w, sizeof(w), 0x3c00, 0x80);
        for (int i = 0; i < 32; i++)
                x[i] = 127;
        for (int i = 0; i < 3; i++) {
                struct kern *k = test_kern((enum kern_isa)i, 1);
                struct kern_mat m = {w, QUANT_Q8_0, 32, 1, 34};

                if (k) {
                        product(k, &m, x, 32, 1, NULL, &y, 1);
                        assert_true(y == -128.f * 127 * 32);
                }
                kern_free(k);
        }
}

static void test_supported(void **state) {
        for (uint32_t t = 0; t < 64; t++) {
                bool found = false;

                for (int i = 0; i < N_TYPES; i++)
                        found |= types[i] == t;
                assert_true(kern_mat_supported(t) == found);
        }
        assert_int_equal(kern_act_size(QUANT_F32, 64, 100), 0);
        assert_int_equal(kern_act_size(QUANT_Q8_0, 64, 0), 0);
        assert_true(kern_act_size(QUANT_Q8_0, 64, 1) > 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_isas),
                cmocka_unit_test(test_isa),
                cmocka_unit_test(test_batch),
                cmocka_unit_test(test_threads),
                cmocka_unit_test(test_reference),
                cmocka_unit_test(test_adversarial),
                cmocka_unit_test(test_full_scale),
                cmocka_unit_test(test_supported),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
