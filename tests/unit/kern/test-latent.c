/* SPDX-License-Identifier: MIT */
/* Attention over latent rows (MLA): the same bits from every instruction set, chunk and number of
 * threads, close to the textbook's softmax; and its rows are kept once. */
#include "kern-util.h"
#include "quant/quant.h"

#define N_KEYS 100
#define N_BLOCKS 4

struct shape {
        enum kern_kv_type type;
        uint32_t block_tokens, n_head, rank, rope, window;
        bool sinks;
};

static const struct shape shapes[] = {
        {KERN_KV_F16, 32, 16, 128, 32, 0, false},
        {KERN_KV_F32, 32, 4, 32, 16, 0, false},
        {KERN_KV_Q8_0, 32, 9, 64, 32, 0, false},
        {KERN_KV_F16, 64, 3, 50, 1, 0, false},
        {KERN_KV_F32, 96, 7, 24, 1, 0, false},
        {KERN_KV_Q8_0, 64, 1, 32, 64, 0, false},
        {KERN_KV_F32, 32, 2, 8, 3, 0, false},
        {KERN_KV_F16, 32, 5, 48, 16, 33, true},
        {KERN_KV_Q8_0, 32, 2, 512, 64, 0, false},
};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

struct memory {
        const struct shape *s;
        struct kern_attn a;
        uint8_t *blocks[N_BLOCKS];
        size_t block_size;
        float *q, *rows, *kept; /* [N_KEYS][n_head * width], [N_KEYS][width] */
        float sinks[16];
};

static size_t width(const struct shape *s) {
        return s->rank + s->rope;
}

/* The group of @x[c] as Q8_0 keeps it. */
static float rounded(enum kern_kv_type type, const float *x, size_t c) {
        float amax = 0, scale;

        if (type == KERN_KV_F32)
                return x[c];
        if (type == KERN_KV_F16)
                return quant_f16_to_f32(quant_f32_to_f16(x[c]));
        for (size_t i = c - c % KERN_KV_GROUP, end = i + KERN_KV_GROUP; i < end; i++)
                amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
        scale = quant_f16_to_f32(quant_f32_to_f16(amax / 127));
        return scale * rintf(x[c] * (1 / scale));
}

static void memory_init(struct memory *m, const struct shape *s, uint64_t seed) {
        *m = (struct memory){.s = s};
        m->a = (struct kern_attn){
                .layout = {.type = s->type,
                        .block_tokens = s->block_tokens,
                        .n_kv_head = 1,
                        .head_dim_k = s->rank + s->rope,
                        .head_dim_v = s->rank,
                        .latent = true},
                .n_head = s->n_head,
                .scale = 0.2f,
                .window = s->window,
                .sinks = s->sinks ? m->sinks : NULL,
                .k_offset = 64,
                .v_offset = SIZE_MAX, /* not used */
        };
        for (size_t h = 0; h < 16; h++)
                m->sinks[h] = test_uniform(&seed) * 4;
        m->block_size = 64 + kern_kv_k_size(&m->a.layout);
        m->q = test_floats(&seed, N_KEYS * s->n_head * width(s), 2);
        m->rows = test_floats(&seed, N_KEYS * width(s), 2);
        m->kept = test_alloc(N_KEYS * width(s) * sizeof(float));
        for (size_t t = 0; t < N_KEYS; t++)
                for (size_t c = 0; c < width(s); c++)
                        m->kept[t * width(s) + c] = rounded(s->type, m->rows + t * width(s), c);
        for (size_t b = 0; b < N_BLOCKS; b++) {
                m->blocks[b] = test_alloc64(m->block_size);
                memset(m->blocks[b], 0xff, m->block_size); /* NaN where never written */
        }
}

static void memory_deinit(struct memory *m) {
        free(m->q);
        free(m->rows);
        free(m->kept);
        for (size_t b = 0; b < N_BLOCKS; b++)
                free(m->blocks[b]);
}

/* Write and attend tokens [from, to); results to out [N_KEYS][n_head * rank]. */
static void step(struct kern *k, struct memory *m, size_t from, size_t to, float *out) {
        size_t ldq = m->s->n_head * width(m->s), ldo = (size_t)m->s->n_head * m->s->rank;
        struct kern_attn_row rows[N_KEYS];

        for (size_t t = from; t < to; t++)
                rows[t - from] = (struct kern_attn_row){(void *const *)m->blocks, (uint32_t)t};
        kern_kv_write(k, &m->a.layout, m->a.k_offset, m->a.v_offset, rows, to - from,
                m->rows + from * width(m->s), width(m->s), NULL, 0);
        kern_attention(k, &m->a, rows, to - from, m->q + from * ldq, ldq, out + from * ldo, ldo);
}

static float *all(struct kern *k, const struct shape *s, size_t chunk) {
        size_t n = N_KEYS * (size_t)s->n_head * s->rank;
        float *out = test_alloc(n * sizeof(*out));
        struct memory m;

        memset(out, 0xff, n * sizeof(*out));
        memory_init(&m, s, 7);
        for (size_t t = 0; t < N_KEYS; t += chunk)
                step(k, &m, t, t + chunk < N_KEYS ? t + chunk : N_KEYS, out);
        memory_deinit(&m);
        return out;
}

static void naive(const struct memory *m, size_t t, size_t h, double *out) {
        const struct shape *s = m->s;
        const float *q = m->q + (t * s->n_head + h) * width(s);
        size_t first = s->window && t >= s->window ? t - s->window + 1 : 0;
        double p[N_KEYS], max = -1e300, sum = 0;

        for (size_t j = first; j <= t; j++) {
                p[j] = 0;
                for (size_t c = 0; c < width(s); c++)
                        p[j] += (double)q[c] * (double)m->kept[j * width(s) + c];
                p[j] *= (double)m->a.scale;
                max = p[j] > max ? p[j] : max;
        }
        if (s->sinks) {
                max = fmax(max, (double)m->sinks[h]);
                sum = exp((double)m->sinks[h] - max);
        }
        for (size_t j = first; j <= t; j++)
                sum += p[j] = exp(p[j] - max);
        for (size_t d = 0; d < s->rank; d++) {
                out[d] = 0;
                for (size_t j = first; j <= t; j++)
                        out[d] += p[j] / sum * (double)m->kept[j * width(s) + d];
        }
}

static void test_reference(void **state) {
        struct kern *k = test_kern(KERN_GENERIC, 1);
        double want[512];

        for (size_t i = 0; i < N_SHAPES; i++) {
                const struct shape *s = &shapes[i];
                float *out = all(k, s, N_KEYS);
                struct memory m;

                memory_init(&m, s, 7);
                for (size_t t = 0; t < N_KEYS; t += t % 31 ? 1 : 5)
                        for (size_t h = 0; h < s->n_head; h += 3) {
                                const float *o = out + (t * s->n_head + h) * s->rank;

                                naive(&m, t, h, want);
                                for (size_t d = 0; d < s->rank; d++)
                                        assert_true(fabs(want[d] - (double)o[d]) < 3e-5);
                        }
                memory_deinit(&m);
                free(out);
        }
        kern_free(k);
}

static void test_same_bits(void **state) {
        static const struct {
                enum kern_isa isa;
                unsigned n_threads;
                size_t chunk;
        } ways[] = {
                {KERN_GENERIC, 1, N_KEYS},
                {KERN_AVX2, 1, N_KEYS},
                {KERN_AVX2, 2, 7},
                {KERN_AVX2, 4, 16},
                {KERN_AVX512, 1, N_KEYS},
                {KERN_AVX512, 3, 1},
                {KERN_AVX512, 2, 33},
                {KERN_AVX512, 4, 7},
                {KERN_NEON, 1, N_KEYS},
                {KERN_NEON, 2, 7},
                {KERN_NEON, 4, 16},
                {KERN_NEON_DOTPROD, 3, 1},
        };

        for (size_t i = 0; i < N_SHAPES; i++) {
                size_t n = N_KEYS * (size_t)shapes[i].n_head * shapes[i].rank;
                float *want = NULL;

                for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
                        struct kern *k = test_kern(ways[w].isa, ways[w].n_threads);
                        float *out;

                        if (!k)
                                continue;
                        if (w > 0 && test_left_out(i + w)) {
                                kern_free(k);
                                continue;
                        }
                        out = all(k, &shapes[i], ways[w].chunk);
                        if (want && !test_same(want, out, n))
                                fail_msg("shape %zu, way %zu", i, w);
                        if (want)
                                free(out);
                        else
                                want = out;
                        kern_free(k);
                }
                free(want);
        }
}

/* A row is contiguous, with its scales behind all rows: a contract with lib/model and lib/spill. */
static void test_layout(void **state) {
        for (unsigned l = 0; l < KERN_N_ISA; l++)
                for (size_t i = 0; i < N_SHAPES; i++) {
                        const struct shape *s = &shapes[i];
                        struct kern *k = test_kern((enum kern_isa)l, 1);
                        size_t n = width(s), bt = s->block_tokens;
                        struct memory m;
                        float *out;

                        if (!k)
                                continue;
                        if (test_left_out(i + l)) {
                                kern_free(k);
                                continue;
                        }
                        memory_init(&m, s, 7);
                        out = test_alloc(N_KEYS * (size_t)s->n_head * s->rank * sizeof(*out));
                        step(k, &m, 0, N_KEYS, out);
                        assert_int_equal(kern_kv_v_size(&m.a.layout), 0);
                        for (size_t t = 0; t < N_KEYS; t++) {
                                size_t c = t % n, at = t % bt * n + c;
                                const uint8_t *p = m.blocks[t / bt] + 64;
                                const uint16_t *scales =
                                        (const uint16_t *)(const void *)(p + kern_kv_k_scales(
                                                                                     &m.a.layout));
                                float x;

                                if (s->type == KERN_KV_F32)
                                        memcpy(&x, p + 4 * at, 4);
                                else if (s->type == KERN_KV_F16)
                                        x = quant_f16_to_f32(
                                                ((const uint16_t *)(const void *)p)[at]);
                                else
                                        x = quant_f16_to_f32(scales[at / KERN_KV_GROUP]) *
                                            (float)((const int8_t *)p)[at];
                                assert_true(x == m.kept[t * n + c]);
                        }
                        free(out);
                        memory_deinit(&m);
                        kern_free(k);
                }
}

/* NaN, infinities and huge values reach the same places with every instruction set. */
static void test_wild(void **state) {
        static const float wild[] = {NAN, INFINITY, -INFINITY, 3e38f, 1e-45f, -0.0f, 70000};
        uint64_t rs = 3;

        for (size_t i = 0; i < N_SHAPES; i++) {
                size_t n = N_KEYS * (size_t)shapes[i].n_head * shapes[i].rank;
                uint64_t seed = test_random(&rs);
                float *want = NULL;

                if (test_left_out(i))
                        continue;
                for (unsigned l = 0; l < KERN_N_ISA; l++) {
                        struct kern *k = test_kern((enum kern_isa)l, 1);
                        uint64_t at = seed;
                        struct memory m;
                        float *out;

                        if (!k)
                                continue;
                        memory_init(&m, &shapes[i], 7);
                        for (int c = 0; c < 8; c++)
                                (c % 2 ? m.rows
                                       : m.q)[test_random(&at) % (60 * width(&shapes[i]))] =
                                        wild[test_random(&at) % 7];
                        out = test_alloc(n * sizeof(*out));
                        memset(out, 0xff, n * sizeof(*out));
                        step(k, &m, 0, N_KEYS, out);
                        if (want)
                                assert_true(test_same(want, out, n));
                        if (want)
                                free(out);
                        else
                                want = out;
                        memory_deinit(&m);
                        kern_free(k);
                }
                free(want);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reference),
                cmocka_unit_test(test_same_bits),
                cmocka_unit_test(test_layout),
                cmocka_unit_test(test_wild),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
