/* SPDX-License-Identifier: MIT */
#include "model/hparams.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "util/gguf-build.h"
#include "util/test.h"

enum kind { NONE, U32, F32, STR, U32S };

struct change {
        const char *key;
        enum kind kind;
        double number;
        const char *str;
        uint32_t array[4];
        size_t n;
        const char *expect; /* part of the message; NULL: accepted */
};

static void put(struct gguf_build *b, const struct change *c) {
        if (c->kind == U32)
                gguf_build_u32(b, c->key, (uint32_t)c->number);
        else if (c->kind == F32)
                gguf_build_f32(b, c->key, (float)c->number);
        else if (c->kind == STR)
                gguf_build_str(b, c->key, c->str);
        else if (c->kind == U32S)
                gguf_build_u32_array(b, c->key, c->array, c->n);
}

static const struct change base[] = {
        {"t.block_count", U32, .number = 3},
        {"t.embedding_length", U32, .number = 64},
        {"t.context_length", U32, .number = 128},
        {"t.attention.layer_norm_rms_epsilon", F32, .number = 1e-5},
        {"t.vocab_size", U32, .number = 100},
        {"t.attention.head_count", U32, .number = 4},
        {"t.feed_forward_length", U32, .number = 96},
};

/* The base keys with one changed, added or (NONE) left out. */
static int read_changed(const struct change *c, struct hparams *h, struct err *e) {
        struct gguf_build *b = gguf_build_new();
        struct gguf *g = NULL;
        uint8_t *bytes;
        size_t size;
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(base); i++)
                if (!c || strcmp(base[i].key, c->key))
                        put(b, &base[i]);
        if (c)
                put(b, c);
        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        r = gguf_parse(&g, bytes, size, e);
        *h = (struct hparams){.gguf = g, .arch = row};
        if (r == 0)
                r = hparams_read(h, e);
        h->gguf = gguf_free(g);
        free(bytes);
        return r;
}

static void test_defaults(void **state) {
        struct hparams h;
        struct err e;

        assert_int_equal(read_changed(NULL, &h, &e), 0);
        assert_int_equal(h.n_layer, 3);
        assert_int_equal(h.n_vocab, 100);
        assert_int_equal(h.n_kv_head[2], 4);
        assert_int_equal(h.head_dim_k, 16);
        assert_int_equal(h.head_dim_v, 16);
        assert_true(h.attn_scale == 0.25f);
        assert_int_equal(h.experts.n, 0);
        assert_int_equal(h.rope.n_rot, 16);
        assert_true(h.rope.base == 10000.0);
        assert_int_equal(h.rope.scaling, HPARAMS_ROPE_LINEAR);
        assert_true(h.rope.factor == 1.0);
        assert_int_equal(h.rope.orig_context, 128);
}

static void test_changes(void **state) {
        static const struct change changes[] = {
                {"t.block_count", NONE, .expect = "t.block_count is missing"},
                {"t.block_count", U32, 0, .expect = "t.block_count"},
                {"t.block_count", U32, 513, .expect = "t.block_count"},
                {"t.block_count", STR, .str = "3", .expect = "t.block_count"},
                {"t.embedding_length", NONE, .expect = "t.embedding_length is missing"},
                {"t.embedding_length", U32, 0, .expect = "t.embedding_length"},
                {"t.embedding_length", U32, 4e9, .expect = "t.embedding_length"},
                {"t.context_length", U32, 0, .expect = "t.context_length"},
                {"t.context_length", U32, 4e9, .expect = "t.context_length"},
                {"t.attention.layer_norm_rms_epsilon", NONE, .expect = "epsilon is missing"},
                {"t.attention.layer_norm_rms_epsilon", F32, NAN, .expect = "epsilon"},
                {"t.attention.layer_norm_rms_epsilon", F32, -1, .expect = "epsilon"},
                {"t.vocab_size", U32, 0, .expect = "vocabulary has 0 tokens"},
                {"t.vocab_size", U32, 4e9, .expect = "vocabulary has 4000000000 tokens"},
                {"t.vocab_size", NONE, .expect = "vocabulary has 0 tokens"},
                {"t.attention.head_count", NONE, .expect = "head_count is missing"},
                {"t.attention.head_count", U32, 0, .expect = "t.attention.head_count"},
                {"t.attention.head_count", U32, 3, .expect = "give no head size"},
                {"t.attention.head_count", U32S, .array = {4, 8, 2}, .n = 3},
                {"t.attention.head_count", U32S, .array = {4, 0, 2}, .n = 3,
                        .expect = "0 for layer 1"},
                {"t.attention.head_count", U32S, .array = {4, 4}, .n = 2, .expect = "head_count"},
                {"t.attention.head_count_kv", U32, 3, .expect = "no multiple of head_count_kv 3"},
                {"t.attention.head_count_kv", U32S, .array = {1, 2, 3}, .n = 3,
                        .expect = "no multiple of head_count_kv 3 (layer 2)"},
                {"t.attention.head_count_kv", U32, 0, .expect = "head_count_kv"},
                {"t.attention.head_count_kv", U32S, .array = {1, 2, 4}, .n = 3},
                {"t.attention.key_length", U32, 0, .expect = "key_length"},
                {"t.attention.key_length", U32, 100000, .expect = "key_length"},
                {"t.attention.key_length", U32, 7, .expect = "dimension_count 7 is odd"},
                {"t.attention.scale", F32, INFINITY, .expect = "attention.scale"},
                {"t.attention.scale", F32, NAN, .expect = "attention.scale"},
                {"t.feed_forward_length", NONE, .expect = "feed_forward_length is missing"},
                {"t.feed_forward_length", U32, 0, .expect = "feed_forward_length"},
                {"t.feed_forward_length", U32S, .array = {96, 64, 32}, .n = 3},
                {"t.expert_count", U32, 4, .expect = "expert_used_count is missing"},
                {"t.expert_count", U32, 100000, .expect = "expert_count"},
                {"t.rope.dimension_count", U32, 18, .expect = "dimension_count 18"},
                {"t.rope.dimension_count", U32, .number = 8},
                {"t.rope.freq_base", F32, 0, .expect = "freq_base"},
                {"t.rope.freq_base", F32, NAN, .expect = "freq_base"},
                {"t.rope.scaling.type", STR, .str = "longrope", .expect = "'longrope'"},
                {"t.rope.scaling.type", STR, .str = "banana", .expect = "'banana'"},
                {"t.rope.scaling.type", STR, .str = "", .expect = "rope.scaling.type"},
                {"t.rope.scaling.type", STR, .str = "yarn"},
                {"t.rope.scaling.type", U32, 1, .expect = "rope.scaling.type"},
                {"t.rope.scaling.factor", F32, -2, .expect = "scaling.factor"},
                {"t.rope.scaling.factor", F32, 1e-9, .expect = "scaling.factor"},
                {"t.rope.scaling.factor", F32, INFINITY, .expect = "scaling.factor"},
                {"t.rope.scaling.attn_factor", F32, NAN, .expect = "attn_factor"},
                {"t.rope.scaling.yarn_ext_factor", F32, 0.5, .expect = "yarn_ext_factor"},
                {"t.rope.scaling.yarn_beta_fast", F32, 0, .expect = "yarn_beta_fast"},
                {"t.rope.scaling.original_context_length", U32, 0, .expect = "original_context"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
                const struct change *c = &changes[i];
                struct hparams h;
                struct err e = {0};
                int r = read_changed(c, &h, &e);

                if (!c->expect && r)
                        fail_msg("%zu %s: refused: %s", i, c->key, e.msg);
                if (c->expect && r == 0)
                        fail_msg("%zu %s: accepted", i, c->key);
                if (c->expect && !strstr(e.msg, c->expect))
                        fail_msg("%zu %s: message is: %s", i, c->key, e.msg);
        }
}

static void test_scaling(void **state) {
        struct change c = {"t.rope.scaling.factor", F32, .number = 8};
        struct hparams h;

        assert_int_equal(read_changed(&c, &h, NULL), 0);
        assert_true(h.rope.factor == 8.0);
        c = (struct change){"t.rope.scale_linear", F32, .number = 4};
        assert_int_equal(read_changed(&c, &h, NULL), 0);
        assert_true(h.rope.factor == 4.0);
        c = (struct change){"t.rope.scaling.factor", F32, .number = 0};
        assert_int_equal(read_changed(&c, &h, NULL), 0);
        assert_true(h.rope.factor == 1.0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_changes),
                cmocka_unit_test(test_scaling),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
