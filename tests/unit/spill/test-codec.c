/* SPDX-License-Identifier: MIT */
/* Codecs: decoding returns the encoded data, and all instruction sets encode to the same bytes. */
#include "util/test.h"
#include "codec-data.h"

struct rig {
        uint8_t *block, *back, *out[3];
        void *scratch;
        size_t max;
};

/* Sizes are exact, so that the sanitizer sees every byte too many. */
static void rig_init(struct rig *r, const struct section *s) {
        r->max = s->n + s->n / 8 + 4096;
        r->block = malloc(s->n);
        r->back = malloc(s->n);
        r->scratch = scratch_new(s->n);
        assert_non_null(r->block);
        assert_non_null(r->back);
        assert_non_null(r->scratch);
        for (size_t i = 0; i < 3; i++) {
                r->out[i] = malloc(r->max);
                assert_non_null(r->out[i]);
        }
}

static void rig_deinit(struct rig *r) {
        free(r->block);
        free(r->back);
        free(r->scratch);
        for (size_t i = 0; i < 3; i++)
                free(r->out[i]);
}

/* Encode and decode with every instruction set; returns the size. */
static size_t round_trip(
        struct rig *r, const struct section *s, const struct spill_codec *c, int garbage) {
        size_t n[3], scratch_size = spill_codec_scratch_size(s->n);

        for (int isa = 0; isa < 3; isa++) {
                uint8_t *exact;

                (void)spill_cap_isa(isa);
                memset(r->scratch, garbage, scratch_size);
                n[isa] = c->encode(
                        r->out[isa], r->max, r->block, s->n, s->arrays, s->n_arrays, r->scratch);
                assert_int_not_equal(n[isa], 0);
                assert_int_equal(n[isa], n[0]);
                assert_memory_equal(r->out[isa], r->out[0], n[0]);
                exact = malloc(n[0]);
                assert_non_null(exact);
                memcpy(exact, r->out[0], n[0]);
                memset(r->scratch, garbage, scratch_size);
                memset(r->back, 0xee, s->n);
                assert_int_equal(
                        c->decode(r->back, s->n, exact, n[0], s->arrays, s->n_arrays, r->scratch),
                        0);
                assert_memory_equal(r->back, r->block, s->n);
                free(exact);
        }
        (void)spill_cap_isa(2);
        return n[0];
}

static size_t check(const struct section *s, enum data data, uint64_t seed) {
        const struct spill_codec *kv = spill_codec_find(SPILL_CODEC_KV);
        struct rig r;
        size_t n;

        assert_true(spill_codec_check(s->arrays, s->n_arrays, s->n));
        rig_init(&r, s);
        section_fill(s, data, seed, r.block);
        n = round_trip(&r, s, kv, 0xa5);
        (void)round_trip(&r, s, spill_codec_find(SPILL_CODEC_LZ4), 0);
        /* Exactly enough room is enough, a byte less is not, and is not overrun either. */
        for (size_t less = 0; less < 2 && n > 2048; less++) {
                uint8_t *exact = malloc(n - less);

                assert_non_null(exact);
                if (less == 0 && n > s->n * 3 / 4)
                        assert_int_equal(kv->encode(exact, n, r.block, s->n, s->arrays, s->n_arrays,
                                                 r.scratch),
                                n);
                if (less == 1)
                        (void)kv->encode(
                                exact, n - 1, r.block, s->n, s->arrays, s->n_arrays, r.scratch);
                free(exact);
        }
        rig_deinit(&r);
        return n;
}

/* Levels above the processor's run the best that it has: a lack is told, not passed over. */
static void test_isas(void **state) {
        if (spill_cap_isa(2) < 2) {
                print_message("SKIP: this processor lacks the codec's AVX-512 level: not tested\n");
                skip();
        }
}

static void test_layouts(void **state) {
        struct section s[] = {
                section_model("f16", SPILL_F16, 3, 2, 64, 32),
                section_model("f16 of 16 tokens", SPILL_F16, 2, 3, 40, 16),
                section_model("f16 of 64 tokens", SPILL_F16, 2, 1, 128, 64),
                section_model("f16 of one channel", SPILL_F16, 1, 1, 1, 32),
                section_model("f16, a large head", SPILL_F16, 1, 2, 256, 32),
                section_model("f32", SPILL_F32, 2, 2, 64, 32),
                section_model("f32, odd", SPILL_F32, 2, 3, 7, 9),
                section_model("f16 of many tokens", SPILL_F16, 1, 1, 3, 1000),
                section_q8("q8_0", 3, 2, 64),
                section_q8("q8_0 of small heads", 5, 3, 32),
        };

        for (size_t i = 0; i < ARRAY_SIZE(s); i++)
                for (int data = 0; data < N_DATA; data++) {
                        size_t n = check(&s[i], (enum data)data, i * 31 + (size_t)data);

                        print_message("%-20s %-24s %7zu -> %7zu\n", s[i].name, data_names[data],
                                s[i].n, n);
                }
}

static void test_odd_layouts(void **state) {
        for (uint64_t seed = 1; seed <= 120; seed++) {
                struct section s = section_odd("odd", seed * 0x9e3779b97f4a7c15u);

                if (s.n > 0)
                        (void)check(&s, (enum data)(seed % N_DATA), seed);
        }
}

static void test_plain_bytes(void **state) {
        struct section s = {.name = "no arrays"};

        for (s.n = 1; s.n < 5000; s.n += 1 + s.n / 3)
                for (int data = 0; data < N_DATA; data++)
                        (void)check(&s, (enum data)data, s.n);
}

/* What the codec is for: it gains on data whose exponents follow the channel. */
static void test_gain(void **state) {
        struct section f16 = section_model("f16", SPILL_F16, 5, 2, 64, 32);
        struct section f32 = section_model("f32", SPILL_F32, 2, 2, 64, 32);

        assert_in_range(check(&f16, DATA_LIKE, 1), f16.n / 2, f16.n * 100 / 115);
        assert_in_range(check(&f32, DATA_LIKE, 1), f32.n / 2, f32.n * 100 / 115);
        assert_in_range(check(&f16, DATA_TAIL, 1), f16.n / 16, f16.n / 2);
        assert_in_range(check(&f16, DATA_ZERO, 1), 1, f16.n / 64);
        /* Random bytes cost little more than they are. */
        assert_in_range(check(&f16, DATA_RANDOM, 1), f16.n, f16.n + f16.n / 64);
}

/* Many sections at once: each as if it were alone, next to others that are of another kind, longer,
 * of another codec or damaged. */
static void test_many(void **state) {
        struct section s[] = {
                section_model("f16", SPILL_F16, 3, 2, 64, 32),
                section_model("f16", SPILL_F16, 3, 2, 64, 32),
                section_model("f16, longer", SPILL_F16, 5, 2, 64, 32),
                section_model("f32", SPILL_F32, 1, 2, 64, 32),
                section_q8("q8_0", 2, 2, 64),
                section_model("f16 of 9 tokens", SPILL_F16, 2, 3, 7, 9),
                {.name = "no arrays", .n = 1000},
        };
        enum { N = 12, MAX = 170000 };
        struct spill_codec_job jobs[N];
        uint8_t *block = malloc(MAX), *alone = malloc(MAX), *in[N], *out[N];
        void *scratch = scratch_new(MAX);
        uint64_t seed = 9;

        assert_non_null(block);
        assert_non_null(alone);
        assert_non_null(scratch);
        for (size_t round = 0; round < 150; round++) {
                size_t n = round % (N + 1);

                (void)spill_cap_isa((int)(round % 3));
                for (size_t i = 0; i < n; i++) {
                        uint64_t r = next_random(&seed);
                        const struct section *k = &s[(r >> 8) % ARRAY_SIZE(s)];
                        const struct spill_codec *c =
                                spill_codec_find(r >> 20 & 7 ? SPILL_CODEC_KV : SPILL_CODEC_LZ4);
                        size_t size;

                        assert_in_range(k->n, 1, MAX / 2);
                        section_fill(k, DATA_LIKE, r, block);
                        size = c->encode(alone, MAX, block, k->n, k->arrays, k->n_arrays, scratch);
                        assert_int_not_equal(size, 0);
                        in[i] = malloc(size);
                        out[i] = malloc(k->n);
                        assert_non_null(in[i]);
                        assert_non_null(out[i]);
                        memcpy(in[i], alone, size);
                        if ((r >> 30 & 3) == 0)
                                in[i][(r >> 32) % MIN(size, r >> 63 ? size : 400)] ^= 4;
                        jobs[i] = (struct spill_codec_job){
                                c, out[i], k->n, in[i], size, k->arrays, k->n_arrays, -1};
                }
                spill_codec_decode_many(jobs, n, scratch);
                for (size_t i = 0; i < n; i++) {
                        struct spill_codec_job *j = &jobs[i];

                        assert_int_equal(j->r, j->codec->decode(alone, j->dst_size, j->src, j->n,
                                                       j->arrays, j->n_arrays, scratch));
                        if (j->r == 0)
                                assert_memory_equal(alone, j->dst, j->dst_size);
                        free(in[i]);
                        free(out[i]);
                }
        }
        (void)spill_cap_isa(2);
        free(block);
        free(alone);
        free(scratch);
}

static void test_refuses_layouts(void **state) {
        struct section good = section_model("f16", SPILL_F16, 1, 1, 8, 32);
        const struct spill_codec *kv = spill_codec_find(SPILL_CODEC_KV);
        uint8_t block[2048] = {0}, out[4096];
        void *scratch = scratch_new(sizeof(block));

        assert_non_null(scratch);
        for (int i = 0; i < 5; i++) {
                struct section s = good;

                if (i == 1)
                        s.arrays[1].offset = s.arrays[0].offset + 1;
                else if (i == 2)
                        s.arrays[1].offset = s.n;
                else if (i == 3)
                        s.arrays[0].n_tiles = s.arrays[0].n_channels = s.arrays[0].n_tokens =
                                UINT32_MAX;
                else if (i == 4)
                        s.arrays[1].n_tokens++, s.n -= 7;
                assert_int_equal(spill_codec_check(s.arrays, s.n_arrays, s.n), i == 0);
                assert_int_equal(
                        kv->encode(out, sizeof(out), block, s.n, s.arrays, s.n_arrays, scratch) > 0,
                        i == 0);
                if (i > 0)
                        assert_int_equal(kv->decode(block, s.n, out, sizeof(out), s.arrays,
                                                 s.n_arrays, scratch),
                                1);
        }
        free(scratch);
}

static void test_rows(void **state) {
        for (unsigned id = 0; id < 3; id++)
                assert_int_equal(spill_codec_find(id)->id, id);
        assert_null(spill_codec_find(3));
        assert_string_equal(spill_codec_find(SPILL_CODEC_KV)->name, "kv");
        assert_int_equal(spill_codec_scratch_size(1) % 64, 0);
        assert_int_equal(spill_cap_isa(-1), 0);
        assert_in_range(spill_cap_isa(99), 0, 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_isas),
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_layouts),
                cmocka_unit_test(test_odd_layouts),
                cmocka_unit_test(test_plain_bytes),
                cmocka_unit_test(test_gain),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_refuses_layouts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
