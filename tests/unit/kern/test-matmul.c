/* SPDX-License-Identifier: MIT */
/* Matrix products: every instruction set, batch and number of threads gives the same bits, close to
 * the product in double precision. */
#include "kern-util.h"
#include "quant/quant.h"
#include "util/quantize.h"

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
        test_quantize(type, f, (uint8_t *)r.memory + 1, n_in * n_out);
        free(f);
        return r;
}

/* y = w x^T on tokens [t0, t0+n). */
static void product(struct kern *k, const struct kern_mat *w, const float *x, size_t ldx, size_t n,
        const float *bias, float *y, size_t ldy) {
        size_t size = kern_act_size(kern_mat_act_class(w), w->n_in, n);
        void *scratch = test_alloc64(size);
        struct kern_act a;

        /* What lies in the scratch by chance has no part in it. */
        memset(scratch, 0xee, size);
        kern_act_prepare(k, &a, kern_mat_act_class(w), x, ldx, w->n_in, n, scratch);
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

static const size_t n_ins[KERN_N_ACT][10] = {
        {1, 15, 16, 17, 48, 100, 255, 256, 273, 1030},
        {32, 64, 96, 224, 256, 288, 480, 1024, 2080, 4384},
        {256, 512, 768, 1280, 1792, 2048, 2304, 3840, 4096, 4352},
};
static const size_t n_outs[] = {1, 2, 3, 5, 8, 9, 17};
static const size_t n_tokenss[] = {
        1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 25, 33, 48, 70, 128, 137, 150};

/* @w repacked, in *ret; its memory, or NULL if @k does not repack its type. */
static void *repack(struct kern *k, const struct kern_mat *w, struct kern_mat *ret) {
        const struct kern_mat from = *w;
        size_t size = kern_repacked_size(k, w);
        void *to;

        if (size == 0)
                return NULL;
        to = test_alloc64(size);
        memset(to, 0xee, size);
        kern_repack(k, &from, to, ret);
        return to;
}

/* The product with @w repacked; NULL if @k does not repack its type. */
static float *repacked_new(
        struct kern *k, const struct kern_mat *w, const float *x, size_t ldx, size_t n) {
        struct kern_mat m;
        void *memory = repack(k, w, &m);
        float *y = memory ? product_new(k, &m, x, ldx, n) : NULL;

        free(memory);
        return y;
}

static void compare_shape(struct kern *const *ks, uint32_t type, size_t n_in, size_t n_out,
        size_t n_tokens, uint64_t *rs) {
        struct mat w = make_mat(rs, type, n_in, n_out);
        float *x = test_floats(rs, (n_in + 3) * n_tokens, 3), *y0, *y;

        y0 = product_new(ks[0], &w.m, x, n_in + 3, n_tokens);
        for (int i = 1; i < KERN_N_ISA; i++) {
                if (!ks[i])
                        continue;
                y = product_new(ks[i], &w.m, x, n_in + 3, n_tokens);
                if (!test_same(y0, y, n_out * n_tokens))
                        fail_msg("%s, %s, %zu x %zu, %zu tokens", kern_isa_name(kern_isa(ks[i])),
                                quant_info(type)->name, n_out, n_in, n_tokens);
                free(y);
                y = repacked_new(ks[i], &w.m, x, n_in + 3, n_tokens);
                if (y && !test_same(y0, y, n_out * n_tokens))
                        fail_msg("%s, %s repacked, %zu x %zu, %zu tokens",
                                kern_isa_name(kern_isa(ks[i])), quant_info(type)->name, n_out, n_in,
                                n_tokens);
                free(y);
        }
        free(y0);
        free(x);
        free(w.memory);
}

/* @n_in, or the next whole number of the type's blocks. */
static size_t n_in_of(uint32_t type, size_t n_in) {
        size_t block = quant_info(type)->block_values;

        return (n_in + block - 1) / block * block;
}

/* Every shape with the best set of each, over all instruction sets. */
static void test_isa(void **state) {
        struct kern *ks[KERN_N_ISA];
        uint64_t rs = 1;
        size_t n = 0;

        for (int i = 0; i < KERN_N_ISA; i++)
                ks[i] = test_kern((enum kern_isa)i, 1);
        for (size_t t = 0; t < test_n_quant_types; t++)
                for (size_t i = 0; i < 10; i++)
                        for (size_t o = 0; o < 7; o++)
                                for (size_t b = 0; b < 18; b++) {
                                        size_t n_in = n_ins[kern_act_class(test_quant_types[t])][i];

                                        /* The generic one is slow: big shapes now and then. */
                                        if (n_in * n_outs[o] * n_tokenss[b] > 40000 && n++ % 23)
                                                continue;
                                        if (test_left_out(t + i + o + b))
                                                continue;
                                        compare_shape(ks, test_quant_types[t], n_in, n_outs[o],
                                                n_tokenss[b], &rs);
                                }
        for (int i = 0; i < KERN_N_ISA; i++)
                kern_free(ks[i]);
}

/* What products by many tokens are done in: more rows than a panel and its halves, rows of more blocks than are
 * unpacked at a time, and tokens of several passes. */
static void test_panels(void **state) {
        static const struct {
                size_t n_in, n_out, n_tokens;
        } shapes[] = {
                {288, 83, 37}, {512, 31, 305}, {8192, 35, 50}, {8544, 49, 19}, {8544, 5, 250}};
        struct kern *ks[KERN_N_ISA];
        uint64_t rs = 9;

        for (int i = 0; i < KERN_N_ISA; i++)
                ks[i] = test_kern((enum kern_isa)i, 1);
        for (size_t t = 0; t < test_n_quant_types; t++)
                for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
                        if (!test_left_out(t + i))
                                compare_shape(ks, test_quant_types[t],
                                        n_in_of(test_quant_types[t], shapes[i].n_in),
                                        shapes[i].n_out, shapes[i].n_tokens, &rs);
        for (int i = 0; i < KERN_N_ISA; i++)
                kern_free(ks[i]);
}

/* What these tests compare is what the processor has: a lack is told, not passed over. */
static void test_isas(void **state) {
        enum kern_isa isa = kern_cpu_isa();

        print_message("the best instruction set here is %s\n", kern_isa_name(isa));
        if (isa < KERN_AVX512) {
                print_message("SKIP: this processor has no AVX-512: its kernels are not tested\n");
                skip();
        }
        if (isa < KERN_NEON && !test_has(KERN_AVX_VNNI)) {
                print_message("SKIP: this processor has no AVX-VNNI: its kernels are not tested\n");
                skip();
        }
        if (isa == KERN_AVX512) {
                print_message("SKIP: this processor has no VNNI: its kernels are not tested\n");
                skip();
        }
        if (isa == KERN_NEON) {
                print_message(
                        "SKIP: this processor has no dot products: their kernels are not tested\n");
                skip();
        }
}

/* The last @n of @n_all tokens alone have the bits @all that they have among the others. */
static void check_last(struct kern *k, const struct kern_mat *w, const float *x, const float *all,
        size_t n_all, size_t n) {
        size_t first = n_all - n;
        float *y = product_new(k, w, x + first * w->n_in, w->n_in, n);

        if (!test_same(all + first * w->n_out, y, n * w->n_out))
                fail_msg("%s, %s%s, the last %zu tokens of %zu", kern_isa_name(kern_isa(k)),
                        quant_info(w->type)->name, w->repacked ? " repacked" : "", n, n_all);
        free(y);
}

/* A row alone, in a small batch and among so many others that these take two passes (packed-block.c). */
static void test_batch(void **state) {
        uint64_t rs = 2;

        for (int isa = 0; isa < KERN_N_ISA; isa++) {
                struct kern *k = test_kern((enum kern_isa)isa, 1);

                for (size_t t = 0; k && t < test_n_quant_types; t++) {
                        size_t n_in = n_in_of(test_quant_types[t], 352), n_out = 19, n = 305;
                        struct mat w = make_mat(&rs, test_quant_types[t], n_in, n_out);
                        float *x = test_floats(&rs, n_in * n, 1);
                        float *all = product_new(k, &w.m, x, n_in, n);
                        struct kern_mat r;
                        void *memory = repack(k, &w.m, &r);

                        if (memory)
                                check_last(k, &r, x, all, n, n);
                        for (size_t b = 1; b <= 64; b = b * 2 + 1)
                                for (size_t end = b; end <= n; end += b) {
                                        check_last(k, &w.m, x, all, end, b);
                                        if (memory)
                                                check_last(k, &r, x, all, end, b);
                                }
                        free(memory);
                        free(all);
                        free(x);
                        free(w.memory);
                }
                kern_free(k);
        }
}

/* Each number of tokens up to 64, by more rows than two tiles have, against the generic product of all. */
static void test_each_count(void **state) {
        enum { N = 64, N_OUT = 67 };
        struct kern *generic = test_kern(KERN_GENERIC, 1);
        uint64_t rs = 12;

        for (size_t t = 0; t < test_n_quant_types; t++) {
                size_t n_in = n_in_of(test_quant_types[t], 288);
                struct mat w = make_mat(&rs, test_quant_types[t], n_in, N_OUT);
                float *x = test_floats(&rs, n_in * N, 1);
                float *all = product_new(generic, &w.m, x, n_in, N);

                for (int isa = 1; isa < KERN_N_ISA; isa++) {
                        struct kern *k = test_kern((enum kern_isa)isa, 1);
                        struct kern_mat r;
                        void *memory = k ? repack(k, &w.m, &r) : NULL;

                        for (size_t n = 1; k && n <= N; n++) {
                                if (test_left_out(t + n))
                                        continue;
                                check_last(k, &w.m, x, all, N, n);
                                if (memory)
                                        check_last(k, &r, x, all, N, n);
                        }
                        free(memory);
                        kern_free(k);
                }
                free(all);
                free(x);
                free(w.memory);
        }
        kern_free(generic);
}

static void check_threads(enum kern_isa isa, uint32_t type, bool repacked, uint64_t *rs) {
        size_t n_in = n_in_of(type, 512), n_out = 331, n = 10;
        struct mat w = make_mat(rs, type, n_in, n_out);
        float *x = test_floats(rs, n_in * n, 1), *bias = test_floats(rs, n_out, 1);
        float *want = NULL;

        for (unsigned i = 1; i <= 4; i++) {
                struct kern *k = test_kern(isa, i);
                struct kern_mat m = w.m;
                void *memory = repacked ? repack(k, &w.m, &m) : NULL;
                float *y = test_alloc(n * n_out * sizeof(*y));

                memset(y, 0xee, n * n_out * sizeof(*y));
                product(k, &m, x, n_in, n, bias, y, n_out);
                if (want && !test_same(want, y, n * n_out))
                        fail_msg("%s, %s%s, %u threads", kern_isa_name(isa), quant_info(type)->name,
                                m.repacked ? " repacked" : "", i);
                if (want)
                        free(y);
                else
                        want = y;
                free(memory);
                kern_free(k);
        }
        free(want);
        free(bias);
        free(x);
        free(w.memory);
}

static void test_threads(void **state) {
        uint64_t rs = 3;

        for (int isa = 0; isa < KERN_N_ISA; isa++)
                for (size_t t = 0; t < test_n_quant_types && test_has((enum kern_isa)isa); t++) {
                        check_threads((enum kern_isa)isa, test_quant_types[t], false, &rs);
                        check_threads((enum kern_isa)isa, test_quant_types[t], true, &rs);
                }
}

/* Several products at once, so small that one thread does them and larger, are each by itself. */
static void check_all(struct kern *k, size_t n_in, size_t n, bool repacked, uint64_t *rs) {
        enum { N = 3 };
        static const size_t n_outs_all[N] = {331, 7, 96};
        float *x = test_floats(rs, n_in * n, 1), *bias = test_floats(rs, 331, 1);
        struct kern_product p[N];
        struct kern_mat mats[N];
        struct mat w[N];
        struct kern_act a;
        void *memory[N], *scratch;

        for (size_t i = 0; i < N; i++) {
                size_t n_y = n * (n_outs_all[i] + 3);

                w[i] = make_mat(rs, i == 1 ? QUANT_Q4_0 : QUANT_Q8_0, n_in, n_outs_all[i]);
                mats[i] = w[i].m;
                memory[i] = repacked ? repack(k, &w[i].m, &mats[i]) : NULL;
                p[i] = (struct kern_product){&mats[i], i == 2 ? NULL : bias,
                        test_alloc(n_y * sizeof(float)), n_outs_all[i] + 3};
                memset(p[i].y, 0xee, n_y * sizeof(float));
        }
        scratch = test_alloc64(kern_act_size(kern_mat_act_class(&mats[0]), n_in, n));
        kern_act_prepare(k, &a, kern_mat_act_class(&mats[0]), x, n_in, n_in, n, scratch);
        kern_matmul_all(k, &a, p, N);
        for (size_t i = 0; i < N; i++) {
                size_t n_y = n * p[i].ldy;
                float *y = test_alloc(n_y * sizeof(*y));

                memset(y, 0xee, n_y * sizeof(*y));
                kern_matmul(k, &mats[i], &a, p[i].bias, y, p[i].ldy);
                assert_memory_equal(y, p[i].y, n_y * sizeof(*y));
                free(y);
                free(p[i].y);
                free(memory[i]);
                free(w[i].memory);
        }
        kern_matmul_all(k, &a, p, 0);
        free(scratch);
        free(bias);
        free(x);
}

static void test_all(void **state) {
        uint64_t rs = 11;

        for (unsigned i = 0; i < 8; i++) {
                struct kern *k = test_kern(kern_cpu_isa(), i / 2 + 1);

                check_all(k, 32, 1, i % 2, &rs);
                check_all(k, 512, 1, i % 2, &rs);
                check_all(k, 1056, 19, i % 2, &rs);
                kern_free(k);
        }
}

/* The definition itself, against double precision. */
static void test_reference(void **state) {
        struct kern *k = test_kern(KERN_GENERIC, 1);
        size_t n_out = 9, n = 5;
        uint64_t rs = 4;

        for (size_t t = 0; t < test_n_quant_types; t++) {
                bool floats = kern_act_class(test_quant_types[t]) == KERN_ACT_FLOAT;
                size_t n_in = n_in_of(test_quant_types[t], 416);
                struct mat w = make_mat(&rs, test_quant_types[t], n_in, n_out);
                float *x = test_floats(&rs, n_in * n, 2), *row = test_alloc(n_in * sizeof(float));
                float *y = product_new(k, &w.m, x, n_in, n);

                for (size_t o = 0; o < n_out; o++) {
                        quant_dequantize(test_quant_types[t],
                                (const uint8_t *)w.m.data + o * w.m.row_size, row, n_in);
                        for (size_t i = 0; i < n; i++) {
                                double sum = 0, slack = 0;

                                for (size_t j = 0; j < n_in; j++) {
                                        sum += (double)row[j] * (double)x[i * n_in + j];
                                        /* int8 rounding is off by half of amax/127 at most */
                                        slack += fabs((double)row[j]) * (floats ? 3e-6 : 2. / 254);
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

/* The scale and the offset of a block of weights, where it has them. */
static void set_scales(uint32_t type, uint8_t *b, uint16_t d, uint16_t min) {
        int d_at, min_at;

        test_scales_at(type, &d_at, &min_at);
        if (type == QUANT_MXFP4)
                b[d_at] = (uint8_t)d;
        else if (d_at >= 0)
                memcpy(b + d_at, &d, sizeof(d));
        if (min_at >= 0)
                memcpy(b + min_at, &min, sizeof(min));
}

static const float wild_floats[] = {0, -0.0f, 1e-45f, 1e-38f, 3e-39f, 1e38f, 3.4e38f, -3.4e38f,
        INFINITY, -INFINITY, NAN, 127, 0.5f, 1e-37f, -1.5f};

/* Any bytes: filled with one value, random, or valid blocks, with extreme scales. */
static void make_wild(uint64_t *rs, const struct kern_mat *m, uint8_t *p, unsigned round) {
        static const uint16_t scales[] = {
                0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0x7e01};
        static const uint8_t exponents[] = {0, 1, 2, 3, 64, 126, 127, 128, 129, 190, 253, 254, 255};
        static const uint8_t fills[] = {0x80, 0x7f, 0x81, 0xff, 0, 0x88, 0xf0};
        const struct quant_info *info = quant_info(m->type);
        size_t n = m->n_out * m->row_size / info->block_size;
        uint64_t r;

        if (info->convert && round % 2 == 0)
                return;
        for (size_t b = 0; b < n; b++, p += info->block_size) {
                bool random = info->convert || test_random(rs) % 3 == 0;
                uint8_t fill = fills[test_random(rs) % 7];

                for (size_t i = 0; i < info->block_size; i++)
                        p[i] = random ? (uint8_t)test_random(rs) : fill;
                r = test_random(rs);
                if (m->type == QUANT_MXFP4)
                        set_scales(m->type, p, exponents[r % 13], 0);
                else
                        set_scales(m->type, p, scales[r % (round % 2 ? 12 : 10)],
                                scales[(r >> 8) % (round % 2 ? 12 : 10)]);
        }
}

static void compare_wild(struct kern *const *ks, uint32_t type, unsigned round, uint64_t *rs) {
        size_t n_in = quant_info(type)->unpack256 ? 256 * (1 + round % 7) : 32 * 13;
        size_t n_out = 5 + round % 7, n = 1 + round % 23;
        struct mat w = make_mat(rs, type, n_in, n_out);
        float *x = test_floats(rs, n_in * n, 4), *want, *y;

        make_wild(rs, &w.m, (uint8_t *)w.memory + 1, round);
        for (size_t i = 0; i < n_in * n; i++)
                if (test_random(rs) % (round % 3 ? 3 : 300) == 0)
                        x[i] = wild_floats[test_random(rs) % (round % 2 ? 15 : 6)];
        want = product_new(ks[0], &w.m, x, n_in, n);
        for (int i = 1; i < KERN_N_ISA; i++) {
                if (!ks[i])
                        continue;
                y = product_new(ks[i], &w.m, x, n_in, n);
                if (!test_same(want, y, n * n_out))
                        fail_msg("round %u, %s, isa %d", round, quant_info(type)->name, i);
                free(y);
                y = repacked_new(ks[i], &w.m, x, n_in, n);
                if (y && !test_same(want, y, n * n_out))
                        fail_msg("round %u, %s repacked, isa %d", round, quant_info(type)->name, i);
                free(y);
        }
        free(want);
        free(x);
        free(w.memory);
}

/* Any bytes are weights: extreme and random blocks times wild activations. */
static void test_adversarial(void **state) {
        struct kern *ks[KERN_N_ISA];
        uint64_t rs = 5;

        for (int i = 0; i < KERN_N_ISA; i++)
                ks[i] = test_kern((enum kern_isa)i, 1);
        for (unsigned round = 0; round < 69; round++)
                for (size_t t = 0; t < test_n_quant_types; t++)
                        compare_wild(ks, test_quant_types[t], round, &rs);
        for (int i = 0; i < KERN_N_ISA; i++)
                kern_free(ks[i]);
}

/* The contract's sums of one block, in 64 bits. @q: the rounded activations. */
static float expected_of_block(uint32_t type, const uint8_t *w, const int *q) {
        const struct quant_info *info = quant_info(type);
        struct quant_block32 b32;
        struct quant_block256 b256;
        int64_t isum = 0, msum = 0;
        float y;

        if (info->unpack32) {
                info->unpack32(w, &b32);
                for (int i = 0; i < 32; i++) {
                        isum += b32.q[i] * q[i];
                        msum += q[i];
                }
        } else {
                info->unpack256(w, &b256);
                for (int i = 0; i < 256; i++) {
                        isum += b256.scales[i / 16] * b256.q[i] * q[i];
                        msum += b256.mins[i / 16] * q[i];
                }
        }
        assert_true(isum >= INT32_MIN && isum <= INT32_MAX);
        assert_true(msum >= INT32_MIN && msum <= INT32_MAX);
        y = fmaf((float)isum, info->unpack32 ? b32.d : b256.d, 0);
        if (info->has_min)
                y = fmaf((float)msum, info->unpack32 ? b32.m : -b256.dmin, y);
        return y;
}

/* One block of greatest weights times greatest activations, for some tokens. */
static void check_full_scale(
        struct kern *k, uint32_t type, bool repacked, uint8_t fill, unsigned signs) {
        enum { N = 25 }; /* a unit of 16, and 9 more */
        const struct quant_info *info = quant_info(type);
        struct kern_mat m = {
                .type = type, .n_in = info->block_values, .n_out = 1, .row_size = info->block_size};
        float *x = test_alloc(N * m.n_in * sizeof(*x)), y[N], want;
        void *memory;
        uint8_t w[256];
        int q[256];

        memset(w, fill, sizeof(w));
        set_scales(type, w, type == QUANT_MXFP4 ? 128 : 0x3c00, 0x3c00);
        m.data = w;
        for (int i = 0; i < 256; i++)
                q[i] = signs == 0   ? 127
                       : signs == 1 ? -127
                       : signs == 2 ? (i % 2 ? 127 : -127)
                                    : (i % 64 < 32 ? 127 : -127);
        for (size_t i = 0; i < N * m.n_in; i++)
                x[i] = (float)q[i % m.n_in];
        want = expected_of_block(type, w, q);
        memory = repacked ? repack(k, &m, &m) : NULL;
        for (size_t n = 1; n <= N; n += 4) {
                product(k, &m, x, m.n_in, n, NULL, y, 1);
                for (size_t t = 0; t < n; t++)
                        if (y[t] != want)
                                fail_msg("%s%s of 0x%02x, signs %u, %zu tokens, %s", info->name,
                                        m.repacked ? " repacked" : "", fill, signs, n,
                                        kern_isa_name(kern_isa(k)));
        }
        free(memory);
        free(x);
}

/* Integer sums of full-scale blocks are exact: nothing saturates or wraps on the way. */
static void test_full_scale(void **state) {
        static const uint8_t fills[] = {0, 0xff, 0x7f, 0x80, 0xf0, 0x0f, 0x77, 0x88};

        for (int isa = 0; isa < KERN_N_ISA; isa++) {
                struct kern *k = test_kern((enum kern_isa)isa, 1);

                for (size_t t = 0; k && t < test_n_quant_types; t++)
                        for (unsigned c = 0; c < 8 * 4 * 2; c++)
                                if (!quant_info(test_quant_types[t])->convert)
                                        check_full_scale(k, test_quant_types[t], c % 2,
                                                fills[c / 8], c / 2 % 4);
                kern_free(k);
        }
}

static void test_supported(void **state) {
        for (uint32_t t = 0; t < 64; t++) {
                bool found = false;

                for (size_t i = 0; i < test_n_quant_types; i++)
                        found |= test_quant_types[i] == t;
                assert_true(kern_mat_supported(t) == found);
        }
        assert_int_equal(kern_act_size(KERN_ACT_FLOAT, 64, 100), 0);
        assert_int_equal(kern_act_size(KERN_ACT_Q8, 64, 0), 0);
        assert_true(kern_act_size(KERN_ACT_Q8, 64, 1) > 0);
        assert_true(kern_act_size(KERN_ACT_Q8K, 256, 1) > 0);
        assert_int_equal(kern_act_class(QUANT_F16), KERN_ACT_FLOAT);
        assert_int_equal(kern_act_class(QUANT_MXFP4), KERN_ACT_Q8);
        assert_int_equal(kern_act_class(QUANT_IQ4_XS), KERN_ACT_Q8K);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_isas),
                cmocka_unit_test(test_isa),
                cmocka_unit_test(test_panels),
                cmocka_unit_test(test_batch),
                cmocka_unit_test(test_each_count),
                cmocka_unit_test(test_threads),
                cmocka_unit_test(test_all),
                cmocka_unit_test(test_reference),
                cmocka_unit_test(test_adversarial),
                cmocka_unit_test(test_full_scale),
                cmocka_unit_test(test_supported),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
