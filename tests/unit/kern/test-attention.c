/* SPDX-License-Identifier: MIT */
/* Attention over blocks: the same bits from every instruction set, batch, chunk and number of
 * threads, and results close to the textbook's softmax. */
#include "kern-util.h"
#include "quant/quant.h"

#define N_KEYS_MAX 150

struct shape {
        enum kern_kv_type type;
        uint32_t block_tokens, n_kv_head, n_head, hd_k, hd_v, window;
        float softcap;
        uint32_t chunk;
        bool sinks;
};

static const struct shape shapes[] = {
        {KERN_KV_F16, 32, 2, 8, 64, 64, 0, 0, 0, false},
        {KERN_KV_F32, 32, 2, 2, 16, 16, 0, 0, 0, false},
        {KERN_KV_F16, 64, 1, 7, 80, 48, 0, 0, 0, false},
        {KERN_KV_F32, 96, 3, 9, 24, 40, 0, 5, 0, false},
        {KERN_KV_F16, 32, 2, 4, 128, 128, 40, 0, 0, false},
        {KERN_KV_F16, 32, 1, 20, 33, 17, 33, 30, 0, false},
        {KERN_KV_F32, 32, 4, 4, 8, 1, 1, 0, 0, false},
        {KERN_KV_F16, 32, 2, 5, 20, 70, 64, 0, 0, false},
        {KERN_KV_F16, 128, 1, 1, 256, 256, 0, 50, 0, false},
        {KERN_KV_Q8_0, 32, 2, 8, 64, 64, 0, 0, 0, false},
        {KERN_KV_Q8_0, 64, 1, 7, 96, 32, 0, 0, 0, false},
        {KERN_KV_Q8_0, 32, 2, 4, 128, 160, 40, 0, 0, false},
        {KERN_KV_Q8_0, 96, 1, 11, 32, 96, 0, 5, 0, false},
        {KERN_KV_F16, 32, 2, 8, 64, 64, 0, 0, 0, true},
        {KERN_KV_F16, 32, 1, 8, 64, 64, 33, 0, 0, true},
        {KERN_KV_F32, 64, 2, 6, 16, 24, 0, 0, 40, false},
        {KERN_KV_Q8_0, 32, 2, 10, 32, 32, 21, 20, 48, true},
        {KERN_KV_F32, 32, 1, 3, 8, 8, 7, 0, 1, true},
        {KERN_KV_F16, 32, 1, 1, 512, 512, 0, 0, 0, false},
        {KERN_KV_F32, 64, 1, 2, 512, 512, 30, 50, 0, true},
        {KERN_KV_Q8_0, 32, 1, 1, 512, 512, 0, 0, 64, false},
};
#define N_SHAPES 21
#define N_HEAD_MAX 20

/* These take long, and differ from the others in their kernels only. */
static bool heavy(const struct shape *s) {
        return s->hd_k > 256;
}

/* Two sequences with their memory, and what was written there. */
struct memory {
        const struct shape *s;
        struct kern_attn a;
        size_t n_keys;
        float sinks[N_HEAD_MAX];
        void *blocks[2][8];
        float *k[2], *v[2], *q[2];    /* [n_keys][heads * dim] */
        float *kept_k[2], *kept_v[2]; /* the same, as memory holds it */
};

static void fill(struct kern *kern, struct memory *m, int seq, size_t from, size_t to) {
        struct kern_attn_row rows[N_KEYS_MAX];
        size_t ldk = m->s->n_kv_head * m->s->hd_k, ldv = m->s->n_kv_head * m->s->hd_v;

        for (size_t t = from; t < to; t++)
                rows[t - from] = (struct kern_attn_row){m->blocks[seq], (uint32_t)t};
        kern_kv_write(kern, &m->a.layout, m->a.k_offset, m->a.v_offset, rows, to - from,
                m->k[seq] + from * ldk, ldk, m->v[seq] + from * ldv, ldv);
}

static uint16_t group_scale(const float *x, size_t d) {
        float amax = 0;

        for (size_t i = d - d % KERN_KV_GROUP, end = i + KERN_KV_GROUP; i < end; i++)
                amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
        return quant_f32_to_f16(amax / 127);
}

static int8_t group_value(const float *x, size_t d) {
        float scale = quant_f16_to_f32(group_scale(x, d));

        return scale != 0 ? (int8_t)rintf(x[d] * (1 / scale)) : 0;
}

/* Channel @d of the vector @x as memory holds it; a float holds all of it. */
static float rounded(const struct shape *s, const float *x, size_t d) {
        switch (s->type) {
        case KERN_KV_F16:
                return quant_f16_to_f32(quant_f32_to_f16(x[d]));
        case KERN_KV_Q8_0:
                return quant_f16_to_f32(group_scale(x, d)) * group_value(x, d);
        default:
                return x[d];
        }
}

static float *kept(const struct shape *s, const float *x, size_t n_vectors, size_t size) {
        float *p = test_alloc(n_vectors * size * sizeof(*p));

        for (size_t i = 0; i < n_vectors; i++)
                for (size_t d = 0; d < size; d++)
                        p[i * size + d] = rounded(s, x + i * size, d);
        return p;
}

static void memory_init(struct memory *m, const struct shape *s, size_t n_keys, uint64_t seed) {
        size_t block_size;

        *m = (struct memory){.s = s, .n_keys = n_keys};
        m->a = (struct kern_attn){
                .layout = {s->type, s->block_tokens, s->n_kv_head, s->hd_k, s->hd_v, false},
                .n_head = s->n_head,
                .scale = 0.3f,
                .softcap = s->softcap,
                .window = s->window,
                .chunk = s->chunk,
                .sinks = s->sinks ? m->sinks : NULL,
        };
        /* Near the scores; one that takes almost all, and one that takes nothing. */
        for (size_t h = 0; h < N_HEAD_MAX; h++)
                m->sinks[h] = test_uniform(&seed) * 4;
        m->sinks[0] = 12;
        m->sinks[1] = -INFINITY;
        m->a.k_offset = 64;
        m->a.v_offset = 64 + kern_kv_k_size(&m->a.layout);
        block_size = m->a.v_offset + kern_kv_v_size(&m->a.layout);
        for (int i = 0; i < 2; i++) {
                m->k[i] = test_floats(&seed, n_keys * s->n_kv_head * s->hd_k, 2);
                m->v[i] = test_floats(&seed, n_keys * s->n_kv_head * s->hd_v, 2);
                m->kept_k[i] = kept(s, m->k[i], n_keys * s->n_kv_head, s->hd_k);
                m->kept_v[i] = kept(s, m->v[i], n_keys * s->n_kv_head, s->hd_v);
                m->q[i] = test_floats(&seed, n_keys * s->n_head * s->hd_k, 2);
                for (size_t b = 0; b * s->block_tokens < n_keys; b++) {
                        m->blocks[i][b] = test_alloc64(block_size);
                        memset(m->blocks[i][b], 0xff, block_size); /* NaN where never written */
                }
        }
}

static void memory_deinit(struct memory *m) {
        for (int i = 0; i < 2; i++) {
                free(m->k[i]);
                free(m->v[i]);
                free(m->q[i]);
                free(m->kept_k[i]);
                free(m->kept_v[i]);
                for (int b = 0; b < 8; b++)
                        free(m->blocks[i][b]);
        }
}

/* Tokens [from, to) of one sequence; result [n][n_head * hd_v]. */
static float *attend(struct kern *kern, struct memory *m, int seq, size_t from, size_t to) {
        size_t ldq = m->s->n_head * m->s->hd_k, ldo = m->s->n_head * m->s->hd_v;
        struct kern_attn_row rows[N_KEYS_MAX];
        float *out = test_alloc((to - from) * ldo * sizeof(*out));

        for (size_t t = from; t < to; t++)
                rows[t - from] = (struct kern_attn_row){m->blocks[seq], (uint32_t)t};
        memset(out, 0xff, (to - from) * ldo * sizeof(*out));
        kern_attention(kern, &m->a, rows, to - from, m->q[seq] + from * ldq, ldq, out, ldo);
        return out;
}

static void naive(const struct memory *m, int seq, size_t t, size_t h, double *out) {
        const struct shape *s = m->s;
        size_t g = h * s->n_kv_head / s->n_head;
        const float *q = m->q[seq] + (t * s->n_head + h) * s->hd_k;
        double p[N_KEYS_MAX], max = -1e300, sum = 0;
        size_t first = s->window && t >= s->window ? t - s->window + 1 : 0;

        if (s->chunk && first / s->chunk < t / s->chunk)
                first = t / s->chunk * s->chunk;
        for (size_t j = first; j <= t; j++) {
                const float *k = m->kept_k[seq] + (j * s->n_kv_head + g) * s->hd_k;

                p[j] = 0;
                for (size_t d = 0; d < s->hd_k; d++)
                        p[j] += (double)q[d] * (double)k[d];
                p[j] *= (double)m->a.scale;
                if (s->softcap != 0)
                        p[j] = (double)s->softcap * tanh(p[j] / (double)s->softcap);
                max = p[j] > max ? p[j] : max;
        }
        if (s->sinks) {
                max = fmax(max, (double)m->sinks[h]);
                sum = exp((double)m->sinks[h] - max);
        }
        for (size_t j = first; j <= t; j++)
                sum += p[j] = exp(p[j] - max);
        for (size_t d = 0; d < s->hd_v; d++)
                out[d] = 0;
        for (size_t j = first; j <= t; j++) {
                const float *v = m->kept_v[seq] + (j * s->n_kv_head + g) * s->hd_v;

                for (size_t d = 0; d < s->hd_v; d++)
                        out[d] += p[j] / sum * (double)v[d];
        }
}

static const size_t counts[] = {1, 2, 32, 33, 65, 100};
#define N_COUNTS 6

static void test_reference(void **state) {
        struct kern *k = test_kern(KERN_GENERIC, 1);
        double want[512];

        for (size_t i = 0; i < N_SHAPES; i++)
                for (size_t c = 0; c < N_COUNTS; c++) {
                        const struct shape *s = &shapes[i];
                        struct memory m;
                        float *out;

                        if (test_left_out(i + c))
                                continue;
                        memory_init(&m, s, counts[c], i * 10 + c);
                        fill(k, &m, 0, 0, m.n_keys);
                        out = attend(k, &m, 0, 0, m.n_keys);
                        for (size_t t = 0; t < m.n_keys; t += t % 31 ? 1 : 5)
                                for (size_t h = 0; h < s->n_head; h++) {
                                        const float *o = out + (t * s->n_head + h) * s->hd_v;

                                        naive(&m, 0, t, h, want);
                                        for (size_t d = 0; d < s->hd_v; d++)
                                                assert_true(fabs(want[d] - (double)o[d]) < 3e-5);
                                }
                        free(out);
                        memory_deinit(&m);
                }
        kern_free(k);
}

static void test_isa_and_threads(void **state) {
        for (size_t i = 0; i < N_SHAPES; i++)
                for (size_t c = 0; c < N_COUNTS; c++) {
                        const struct shape *s = &shapes[i];
                        size_t n = counts[c] * s->n_head * s->hd_v;
                        float *want = NULL;

                        if ((heavy(s) && c % 2 == 0) || test_left_out(i + c))
                                continue;
                        /* each instruction set, then the best with 2 and 3 threads */
                        for (unsigned l = 0; l < KERN_N_ISA + 2; l++) {
                                struct kern *k = l < KERN_N_ISA ? test_kern((enum kern_isa)l, 1)
                                                                : test_kern(kern_cpu_isa(),
                                                                          l - KERN_N_ISA + 2);
                                struct memory m;
                                float *out;

                                if (!k)
                                        continue;
                                memory_init(&m, s, counts[c], i * 10 + c);
                                fill(k, &m, 0, 0, m.n_keys);
                                out = attend(k, &m, 0, 0, m.n_keys);
                                if (want && !test_same(want, out, n))
                                        fail_msg("%s, shape %zu, %zu keys, case %u",
                                                kern_isa_name(kern_isa(k)), i, counts[c], l);
                                if (!want)
                                        want = out;
                                else
                                        free(out);
                                memory_deinit(&m);
                                kern_free(k);
                        }
                        free(want);
                }
}

/* Written and attended in chunks of any size, as when the prompt came in pieces. */
static void test_chunks(void **state) {
        static const size_t chunks[] = {1, 3, 8, 32};

        for (unsigned l = 0; l < KERN_N_ISA; l++)
                for (size_t i = 0; i < N_SHAPES; i++) {
                        struct kern *k = test_kern((enum kern_isa)l, 2);
                        size_t ldo = shapes[i].n_head * shapes[i].hd_v;
                        struct memory m, part;
                        float *all;

                        if (!k)
                                continue;
                        /* The generic one is slow. */
                        if ((l == 0 && i % 4) || heavy(&shapes[i]) || test_left_out(i + l)) {
                                kern_free(k);
                                continue;
                        }
                        memory_init(&m, &shapes[i], 100, i);
                        fill(k, &m, 1, 0, 100);
                        all = attend(k, &m, 1, 0, 100);
                        for (size_t c = 0; c < 4; c++) {
                                memory_init(&part, &shapes[i], 100, i);
                                for (size_t t = 0; t < 100; t += chunks[c]) {
                                        size_t end = t + chunks[c] < 100 ? t + chunks[c] : 100;
                                        float *out;

                                        fill(k, &part, 1, t, end);
                                        out = attend(k, &part, 1, t, end);
                                        assert_true(test_same(all + t * ldo, out, (end - t) * ldo));
                                        free(out);
                                }
                                memory_deinit(&part);
                        }
                        free(all);
                        memory_deinit(&m);
                        kern_free(k);
                }
}

/* Any number of the last tokens in one call, by any number of threads, from rows that begin anywhere:
 * tiles of all sizes and divisions. */
static void test_tiles(void **state) {
        static const size_t few[] = {0, 2, 3, 5, 10, 16};
        enum { N = 64, FROM = N_KEYS_MAX - N };

        for (unsigned l = 0; l < 4 * KERN_N_ISA; l++) {
                struct kern *k = test_kern((enum kern_isa)(l / 4), l % 4 + 1);
                float *q, *out, *want;

                for (size_t i = 0; k && i < sizeof(few) / sizeof(*few); i++) {
                        const struct shape *s = &shapes[few[i]];
                        size_t row = s->n_head * s->hd_k, ldq = row + 3;
                        size_t width = s->n_head * s->hd_v, ldo = width + 5;
                        size_t step = l < 4 ? 21 : l % 4 == 0 ? 1 : 7;
                        struct kern_attn_row rows[N];
                        struct memory m;

                        if (test_left_out(i + l))
                                continue;
                        memory_init(&m, s, N_KEYS_MAX, few[i]);
                        fill(k, &m, 0, 0, N_KEYS_MAX);
                        want = attend(k, &m, 0, FROM, N_KEYS_MAX);
                        q = test_alloc((N * ldq + 1) * sizeof(*q));
                        out = test_alloc((N * ldo + 1) * sizeof(*out));
                        for (uint32_t t = 0; t < N; t++) {
                                rows[t] = (struct kern_attn_row){m.blocks[0], FROM + t};
                                memcpy(q + 1 + t * ldq, m.q[0] + (FROM + t) * row,
                                        row * sizeof(*q));
                        }
                        for (size_t n = 1; n <= N; n += step) {
                                kern_attention(k, &m.a, rows + N - n, n, q + 1 + (N - n) * ldq, ldq,
                                        out + 1, ldo);
                                for (size_t t = 0; t < n; t++)
                                        if (!test_same(want + (N - n + t) * width,
                                                    out + 1 + t * ldo, width))
                                                fail_msg("%s, %u threads, shape %zu, %zu tokens",
                                                        kern_isa_name(kern_isa(k)), l % 4 + 1,
                                                        few[i], n);
                        }
                        free(want);
                        free(q);
                        free(out);
                        memory_deinit(&m);
                }
                kern_free(k);
        }
}

/* Rows of two sequences mixed in one call. */
static void test_mixed_batch(void **state) {
        struct kern *k = test_kern(kern_cpu_isa(), 2);
        const struct shape *s = &shapes[0];
        size_t ldq = s->n_head * s->hd_k, ldo = s->n_head * s->hd_v;
        float *alone[2], *q = test_alloc(200 * ldq * sizeof(float));
        float *out = test_alloc(200 * ldo * sizeof(float));
        struct kern_attn_row rows[200];
        struct memory m;
        uint64_t rs = 5;

        memory_init(&m, s, 100, 77);
        for (int i = 0; i < 2; i++) {
                fill(k, &m, i, 0, 100);
                alone[i] = attend(k, &m, i, 0, 100);
        }
        for (size_t t = 0; t < 200; t++) {
                int seq = test_random(&rs) % 3 == 0;
                uint32_t pos = test_random(&rs) % 100;

                rows[t] = (struct kern_attn_row){m.blocks[seq], pos};
                memcpy(q + t * ldq, m.q[seq] + pos * ldq, ldq * sizeof(float));
        }
        kern_attention(k, &m.a, rows, 200, q, ldq, out, ldo);
        for (size_t t = 0; t < 200; t++)
                assert_true(test_same(alone[rows[t].blocks == m.blocks[1]] + rows[t].pos * ldo,
                        out + t * ldo, ldo));
        kern_attention(k, &m.a, rows, 0, q, ldq, out, ldo);
        free(alone[0]);
        free(alone[1]);
        free(q);
        free(out);
        memory_deinit(&m);
        kern_free(k);
}

/* What memory holds of channel @d of @x: the element, and with Q8_0 the scale. */
static void expect_at(const struct shape *s, const float *x, size_t d, const uint8_t *elements,
        size_t at, const uint8_t *scales, size_t scale_at) {
        uint16_t half = quant_f32_to_f16(x[d]), scale;
        int8_t byte;

        switch (s->type) {
        case KERN_KV_F16:
                assert_memory_equal(elements + 2 * at, &half, 2);
                break;
        case KERN_KV_F32:
                assert_memory_equal(elements + 4 * at, &x[d], 4);
                break;
        default:
                scale = group_scale(x, d);
                byte = group_value(x, d);
                assert_memory_equal(elements + at, &byte, 1);
                assert_memory_equal(scales + 2 * scale_at, &scale, 2);
        }
}

static void check_layout(const struct memory *m, size_t t, size_t h) {
        const struct shape *s = m->s;
        const struct kern_kv_layout *l = &m->a.layout;
        size_t bt = s->block_tokens, at = t % bt, row = t * s->n_kv_head + h, d = t % s->hd_k;
        const uint8_t *b = m->blocks[0][t / bt], *k = b + m->a.k_offset, *v = b + m->a.v_offset;
        size_t gk = s->hd_k / KERN_KV_GROUP, gv = s->hd_v / KERN_KV_GROUP;

        expect_at(s, m->k[0] + row * s->hd_k, d, k, (h * s->hd_k + d) * bt + at,
                k + kern_kv_k_scales(l), (h * gk + d / KERN_KV_GROUP) * bt + at);
        d = t % s->hd_v;
        expect_at(s, m->v[0] + row * s->hd_v, d, v, (h * bt + at) * s->hd_v + d,
                v + kern_kv_v_scales(l), (h * bt + at) * gv + d / KERN_KV_GROUP);
}

/* The layout is a contract with lib/seq and lib/spill. */
static void test_layout(void **state) {
        for (unsigned l = 0; l < KERN_N_ISA; l++)
                for (size_t i = 0; i < N_SHAPES; i++) {
                        struct kern *k = test_kern((enum kern_isa)l, 2);
                        struct memory m;

                        if (!k)
                                continue;
                        memory_init(&m, &shapes[i], N_KEYS_MAX, i);
                        fill(k, &m, 0, 0, N_KEYS_MAX);
                        for (size_t t = 0; t < N_KEYS_MAX; t++)
                                for (size_t h = 0; h < shapes[i].n_kv_head; h++)
                                        check_layout(&m, t, h);
                        memory_deinit(&m);
                        kern_free(k);
                }
}

/* NaN, infinities and huge values in queries, keys and values. */
static void test_wild(void **state) {
        static const float wild[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-45f, -0.0f, 70000};
        struct kern *ks[KERN_N_ISA];
        uint64_t rs = 3;

        for (unsigned l = 0; l < KERN_N_ISA; l++)
                ks[l] = test_kern((enum kern_isa)l, 1);
        for (size_t i = 0; i < N_SHAPES; i++)
                for (int round = 0; round < (heavy(&shapes[i]) ? 1 : 4); round++) {
                        size_t n = 70 * shapes[i].n_head * shapes[i].hd_v;
                        struct memory m;
                        float *want = NULL;

                        if (test_left_out(i + (size_t)round))
                                continue;
                        memory_init(&m, &shapes[i], 70, i);
                        for (int c = 0; c < 12; c++) {
                                float *at = c % 3 == 0 ? m.q[0] : c % 3 == 1 ? m.k[0] : m.v[0];

                                at[test_random(&rs) % 70] = wild[test_random(&rs) % 8];
                        }
                        for (unsigned l = 0; l < KERN_N_ISA; l++) {
                                float *out;

                                if (!ks[l])
                                        continue;
                                fill(ks[l], &m, 0, 0, 70);
                                out = attend(ks[l], &m, 0, 0, 70);
                                if (want)
                                        assert_true(test_same(want, out, n));
                                else
                                        want = test_alloc(n * sizeof(*want));
                                memcpy(want, out, n * sizeof(*want));
                                free(out);
                        }
                        free(want);
                        memory_deinit(&m);
                }
        for (unsigned l = 0; l < KERN_N_ISA; l++)
                kern_free(ks[l]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reference),
                cmocka_unit_test(test_isa_and_threads),
                cmocka_unit_test(test_chunks),
                cmocka_unit_test(test_tiles),
                cmocka_unit_test(test_mixed_batch),
                cmocka_unit_test(test_layout),
                cmocka_unit_test(test_wild),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
