/* SPDX-License-Identifier: MIT */
/* Damaged encodings are refused or decoded to something, in the same way by all instruction sets,
 * and no byte outside the buffers is read or written (the sanitizer build checks that). */
#include "util/test.h"
#include "codec-data.h"

struct rig {
        const struct section *s;
        uint8_t *good, *bad, *back[3];
        void *scratch;
        size_t n;
        unsigned n_refused, n_accepted;
};

static void rig_init(struct rig *r, const struct section *s, enum data data) {
        size_t max = s->n + s->n / 8 + 4096;
        uint8_t *block = malloc(s->n);

        *r = (struct rig){.s = s, .good = malloc(max), .scratch = scratch_new(s->n)};
        assert_non_null(block);
        assert_non_null(r->good);
        assert_non_null(r->scratch);
        section_fill(s, data, 5, block);
        r->n = spill_codec_find(SPILL_CODEC_KV)
                       ->encode(r->good, max, block, s->n, s->arrays, s->n_arrays, r->scratch);
        assert_int_not_equal(r->n, 0);
        for (size_t i = 0; i < 3; i++) {
                r->back[i] = malloc(s->n);
                assert_non_null(r->back[i]);
        }
        free(block);
}

static void rig_deinit(struct rig *r) {
        free(r->good);
        free(r->scratch);
        for (size_t i = 0; i < 3; i++)
                free(r->back[i]);
        (void)spill_cap_isa(2);
}

/* Decode src[0..n) with every instruction set. */
static void try(struct rig *r, const uint8_t *src, size_t n) {
        const struct section *s = r->s;
        uint8_t *exact = malloc(n > 0 ? n : 1);
        int result[3];

        assert_non_null(exact);
        if (n > 0)
                memcpy(exact, src, n);
        for (int isa = 0; isa < 3; isa++) {
                (void)spill_cap_isa(isa);
                result[isa] = spill_codec_find(SPILL_CODEC_KV)
                                      ->decode(r->back[isa], s->n, exact, n, s->arrays, s->n_arrays,
                                              r->scratch);
                assert_int_equal(result[isa], result[0]);
                if (result[isa] == 0)
                        assert_memory_equal(r->back[isa], r->back[0], s->n);
        }
        if (result[0] == 0)
                r->n_accepted++;
        else
                r->n_refused++;
        free(exact);
}

static void damage(const struct section *s, enum data data) {
        uint64_t seed = 77;
        struct rig r;
        uint8_t *bad;

        rig_init(&r, s, data);
        bad = malloc(r.n + 64);
        assert_non_null(bad);
        /* Every short length near the head, some of the others; and too long. */
        for (size_t n = 0; n < r.n; n += n < 400 ? 1 : 1 + r.n / 50)
                try(&r, r.good, n);
        memcpy(bad, r.good, r.n);
        memset(bad + r.n, 0, 64);
        try(&r, bad, r.n + 1);
        try(&r, bad, r.n + 64);
        assert_int_equal(r.n_accepted, 0);
        /* A bit, then a run of bytes, at any place; often in the head. */
        for (size_t i = 0; i < 1500; i++) {
                uint64_t x = next_random(&seed);
                size_t at = (x >> 8) % (i % 2 ? r.n : MIN(r.n, (size_t)500)), n = 1 + (x >> 48) % 8;

                memcpy(bad, r.good, r.n);
                if (i % 3)
                        bad[at] ^= (uint8_t)(1u << (x & 7));
                else
                        for (size_t j = at; j < MIN(at + n, r.n); j++)
                                bad[j] = (uint8_t)next_random(&seed);
                try(&r, bad, r.n);
        }
        print_message("%s: %u refused, %u accepted\n", s->name, r.n_refused, r.n_accepted);
        /* The states' end is a check of the words: most of what is not in the kept bytes is seen.
         */
        assert_in_range(r.n_refused, 300, 1000000);
        free(bad);
        rig_deinit(&r);
}

static void test_f16(void **state) {
        struct section s = section_model("f16", SPILL_F16, 1, 2, 32, 32);

        damage(&s, DATA_LIKE);
        damage(&s, DATA_ZERO);
        damage(&s, DATA_TAIL);
}

static void test_f32(void **state) {
        struct section s = section_model("f32", SPILL_F32, 1, 1, 33, 32);

        damage(&s, DATA_LIKE);
}

static void test_q8(void **state) {
        struct section s = section_q8("q8_0", 1, 2, 32);

        damage(&s, DATA_LIKE);
}

/* Words that never end: all tables and states right, the rest of the section cut off. */
static void test_starved(void **state) {
        struct section s = section_model("f16", SPILL_F16, 2, 2, 64, 32);
        struct rig r;
        uint8_t *bad;

        rig_init(&r, &s, DATA_LIKE);
        bad = malloc(r.n);
        assert_non_null(bad);
        for (uint32_t cut = 2; cut < 3000; cut += 2) {
                uint32_t n_words;

                memcpy(&n_words, r.good, 4);
                assert_in_range(cut, 0, n_words);
                memcpy(bad, r.good, r.n - 256 - cut);
                memcpy(bad + r.n - 256 - cut, r.good + r.n - 256, 256);
                n_words -= cut;
                memcpy(bad, &n_words, 4);
                try(&r, bad, r.n - cut);
        }
        assert_int_equal(r.n_accepted, 0);
        free(bad);
        rig_deinit(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_f16),
                cmocka_unit_test(test_f32),
                cmocka_unit_test(test_q8),
                cmocka_unit_test(test_starved),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
