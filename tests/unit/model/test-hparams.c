/* SPDX-License-Identifier: MIT */
#include "model/hparams.h"

#include <math.h>

#include "hparams-util.h"

static int read_changed(const struct change *c, struct hparams *h, struct err *e) {
        return read_as(&plain, c, c ? 1 : 0, h, e);
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

static void test_windows(void **state) {
        static const struct arch row = {.name = "t", .local = {.period = 2, .only_rope = true}};
        static const struct arch fixed = {
                .name = "t", .local = {.period = 3, .window = 9, .n_layer = 3}};
        struct change window = {"t.attention.sliding_window", U32, .number = 7};
        struct hparams h;

        READ(&plain, &h, window);
        assert_int_equal(h.window, 0);
        READ(&row, &h, {"t.block_count", U32, .number = 3});
        assert_false(h.local[0]);
        assert_true(hparams_layer_has_rope(&h, 1));
        READ(&row, &h, window);
        assert_int_equal(h.window, 7);
        assert_true(h.local[0] && !h.local[1] && h.local[2]);
        assert_true(hparams_layer_has_rope(&h, 0) && !hparams_layer_has_rope(&h, 1));
        READ(&row, &h, window, {"t.attention.sliding_window_pattern", U32, .number = 3});
        assert_true(h.local[0] && h.local[1] && !h.local[2]);
        READ(&row, &h, window, {"t.attention.sliding_window_pattern", U32, .number = 0});
        assert_true(h.local[0] && h.local[1] && h.local[2]);
        READ(&row, &h, window, {"t.attention.sliding_window_pattern", U32, .number = 1});
        assert_true(!h.local[0] && !h.local[1] && !h.local[2]);
        READ(&row, &h, window,
                {"t.attention.sliding_window_pattern", BOOLS, .array = {0, 1, 0}, .n = 3});
        assert_true(!h.local[0] && h.local[1] && !h.local[2]);
        REFUSE(&row, "sliding_window_pattern must be 3 bools", window,
                {"t.attention.sliding_window_pattern", BOOLS, .array = {0, 1}, .n = 2});
        REFUSE(&row, "sliding_window_pattern", window,
                {"t.attention.sliding_window_pattern", STR, .str = "x"});
        READ(&fixed, &h, {"t.block_count", U32, .number = 3});
        assert_int_equal(h.window, 9);
        READ(&fixed, &h, {"t.block_count", U32, .number = 4}, window);
        assert_int_equal(h.window, 0);
}

static void test_required_windows(void **state) {
        static const struct arch row = {
                .name = "t", .local = {.period = 2, .required = true, .pattern_required = true}};
        struct change window = {"t.attention.sliding_window", U32, .number = 7};

        REFUSE(&row, "t.attention.sliding_window is missing", {"t.block_count", U32, .number = 3});
        REFUSE(&row, "t.attention.sliding_window_pattern is missing", window);
        REFUSE(&row, "sliding_window_pattern", window,
                {"t.attention.sliding_window_pattern", U32, .number = 2});
}

static void test_chunks(void **state) {
        static const struct arch row = {
                .name = "t", .local = {.period = 2, .chunk = 64, .only_rope = true}};
        struct hparams h;

        READ(&row, &h, {"t.block_count", U32, .number = 3});
        assert_int_equal(h.chunk, 64);
        assert_int_equal(h.window, 0);
        assert_false(hparams_layer_has_rope(&h, 1));
        READ(&row, &h, {"t.attention.sliding_window", U32, .number = 0});
        assert_int_equal(h.chunk, 0);
        assert_true(hparams_layer_has_rope(&h, 1));
}

static void test_local_rope(void **state) {
        static const struct arch row = {
                .name = "t", .local = {.period = 2, .rope_base = 500.0f, .rope_unscaled = true}};
        static const struct arch same = {.name = "t", .local = {.period = 2}};
        struct change window = {"t.attention.sliding_window", U32, .number = 7};
        struct change base_key = {"t.rope.freq_base", F32, .number = 1e6};
        struct change factor = {"t.rope.scaling.factor", F32, .number = 8};
        struct hparams h;

        READ(&row, &h, window, base_key, factor);
        assert_true(h.rope.base == 1e6 && h.rope.factor == 8.0);
        assert_true(h.local_rope.base == 500.0 && h.local_rope.factor == 1.0);
        READ(&row, &h, window, base_key, factor, {"t.rope.freq_base_swa", F32, .number = 700});
        assert_true(h.local_rope.base == 700.0);
        READ(&same, &h, window, base_key, factor);
        assert_true(h.local_rope.base == 1e6 && h.local_rope.factor == 8.0);
        READ(&row, &h, window, {"t.attention.key_length_swa", U32, .number = 8},
                {"t.attention.value_length_swa", U32, .number = 4});
        assert_int_equal(hparams_head_dim_k(&h, 0), 8);
        assert_int_equal(hparams_head_dim_v(&h, 0), 4);
        assert_int_equal(hparams_head_dim_k(&h, 1), 16);
        assert_int_equal(h.local_rope.n_rot, 8);
        REFUSE(&row, "dimension_count 8", window, {"t.attention.key_length_swa", U32, .number = 4},
                {"t.rope.dimension_count_swa", U32, .number = 8});
}

static void test_positions(void **state) {
        static const struct arch whole = {.name = "t", .rope_whole_heads = true};
        static const struct arch fourth = {.name = "t", .no_rope_period = 3};
        static const struct arch finished = {.name = "t", .rope_unless_unfinished = true};
        static const struct arch none = {.name = "t", .rope = ARCH_ROPE_NONE};
        struct hparams h;

        REFUSE(&whole, "differs from the head size", {"t.rope.dimension_count", U32, .number = 8});
        READ(&fourth, &h, {"t.block_count", U32, .number = 3});
        assert_true(hparams_layer_has_rope(&h, 1) && !hparams_layer_has_rope(&h, 2));
        READ(&finished, &h, {"t.rope.scaling.finetuned", BOOL, .number = 0});
        assert_false(hparams_layer_has_rope(&h, 0));
        READ(&finished, &h, {"t.rope.scaling.finetuned", BOOL, .number = 1});
        assert_true(hparams_layer_has_rope(&h, 0));
        READ(&none, &h, {"t.rope.freq_base", F32, .number = 0}); /* not looked at */
        assert_false(hparams_layer_has_rope(&h, 0));
}

static void test_draft_layers(void **state) {
        struct change counts = {"t.attention.head_count", U32S, .array = {4, 8, 2}, .n = 3};
        struct hparams h;

        READ(&plain, &h, counts, {"t.nextn_predict_layers", U32, .number = 1});
        assert_int_equal(h.n_layer, 2);
        assert_int_equal(h.n_head[1], 8);
        REFUSE(&plain, "nextn_predict_layers", {"t.nextn_predict_layers", U32, .number = 3});
}

static void test_query_scale(void **state) {
        static const struct arch unscaled = {.name = "t", .unscaled = true};
        static const struct arch wide = {.name = "t", .wide_query_layers = 3};
        struct change length = {"t.attention.key_length", U32, .number = 64};
        struct hparams h;

        READ(&plain, &h, length);
        assert_true(h.attn_scale == 0.125f);
        READ(&wide, &h, length);
        assert_true(h.attn_scale == 0.25f);
        READ(&unscaled, &h, length);
        assert_true(h.attn_scale == 1.0f);
        READ(&unscaled, &h, {"t.attention.scale", F32, .number = 0.5});
        assert_true(h.attn_scale == 0.5f);
}

#define EXPERTS                                                                                    \
        {"t.expert_count", U32, .number = 8}, {                                                    \
                "t.expert_used_count", U32, .number = 2                                            \
        }

static void test_experts(void **state) {
        static const struct arch by_key = {.name = "t",
                .experts = {.router = ARCH_ROUTER_BY_KEY,
                        .renormalise = ARCH_RENORMALISE_BY_KEY,
                        .shared = ARCH_SHARED_IF_COUNTED}};
        static const struct arch same_size = {
                .name = "t", .experts = {.size_is_ff = true, .shared = ARCH_SHARED}};
        struct change sigmoid = {"t.expert_gating_func", U32, .number = 2};
        struct hparams h;

        READ(&plain, &h, EXPERTS);
        assert_int_equal(h.experts.router, ARCH_ROUTER_SOFTMAX);
        assert_true(h.experts.renormalise && !h.experts.shared && h.experts.scale == 1.0f);
        assert_int_equal(h.experts.n_ff, 96);
        assert_true(hparams_layer_has_experts(&h, 0));
        READ(&plain, &h, EXPERTS, sigmoid, {"t.expert_feed_forward_length", U32, .number = 24},
                {"t.expert_weights_scale", F32, .number = 2.5});
        assert_int_equal(h.experts.router, ARCH_ROUTER_SIGMOID);
        assert_int_equal(h.experts.n_ff, 24);
        assert_true(h.experts.scale == 2.5f);
        REFUSE(&by_key, "expert_gating_func is missing", EXPERTS);
        REFUSE(&by_key, "expert_gating_func", EXPERTS, {"t.expert_gating_func", U32, .number = 4});
        READ(&by_key, &h, EXPERTS, sigmoid);
        assert_true(!h.experts.renormalise && !h.experts.shared);
        READ(&by_key, &h, EXPERTS, sigmoid, {"t.expert_weights_norm", BOOL, .number = 1},
                {"t.expert_shared_count", U32, .number = 1});
        assert_true(h.experts.renormalise && h.experts.shared);
        READ(&same_size, &h, EXPERTS, {"t.expert_feed_forward_length", U32, .number = 24});
        assert_int_equal(h.experts.n_ff, 96);
        assert_true(h.experts.shared);
        REFUSE(&plain, "expert_used_count", {"t.expert_count", U32, .number = 2},
                {"t.expert_used_count", U32, .number = 3});
}

static void test_which_layers_have_experts(void **state) {
        struct hparams h;

        READ(&plain, &h, EXPERTS, {"t.leading_dense_block_count", U32, .number = 1});
        assert_true(!hparams_layer_has_experts(&h, 0) && hparams_layer_has_experts(&h, 1));
        READ(&plain, &h, EXPERTS, {"t.interleave_moe_layer_step", U32, .number = 2});
        assert_true(!hparams_layer_has_experts(&h, 0) && hparams_layer_has_experts(&h, 1) &&
                    !hparams_layer_has_experts(&h, 2));
        /* Dense layers need a length of their own. */
        REFUSE(&plain, "feed_forward_length", EXPERTS,
                {"t.interleave_moe_layer_step", U32, .number = 2},
                {"t.feed_forward_length", U32S, .array = {0, 96, 96}, .n = 3});
        READ(&plain, &h, EXPERTS, {"t.feed_forward_length", U32, .number = 0},
                {"t.expert_feed_forward_length", U32, .number = 8});
        REFUSE(&plain, "expert_feed_forward_length is missing", EXPERTS,
                {"t.feed_forward_length", U32, .number = 0});
}

static void test_expert_groups(void **state) {
        struct hparams h;

        READ(&plain, &h, EXPERTS, {"t.expert_group_count", U32, .number = 4},
                {"t.expert_group_used_count", U32, .number = 2});
        assert_int_equal(h.experts.n_group, 4);
        assert_int_equal(h.experts.n_group_used, 2);
        REFUSE(&plain, "expert_group_used_count is missing", EXPERTS,
                {"t.expert_group_count", U32, .number = 4});
        REFUSE(&plain, "8 experts in 3 groups", EXPERTS, {"t.expert_group_count", U32, .number = 3},
                {"t.expert_group_used_count", U32, .number = 1});
        REFUSE(&plain, "which give no 2 in 1 groups", EXPERTS,
                {"t.expert_group_count", U32, .number = 8},
                {"t.expert_group_used_count", U32, .number = 1});
}

static void test_ends(void **state) {
        static const struct arch by_key = {.name = "t",
                .embedding_scale = ARCH_SCALE_BY_KEY,
                .logit_scale = ARCH_LOGITS_DIVIDED};
        static const struct arch multiplied = {.name = "t",
                .embedding_scale = ARCH_SCALE_SQRT_WIDTH,
                .logit_scale = ARCH_LOGITS_MULTIPLIED,
                .final_softcap = 30.0f};
        struct change embedding = {"t.embedding_scale", F32, .number = 12};
        struct change residual = {"t.residual_scale", F32, .number = 0.25};
        struct change logit = {"t.logit_scale", F32, .number = 4};
        struct hparams h;

        READ(&plain, &h, embedding, residual, logit);
        assert_true(h.embedding_scale == 1.0f && h.residual_scale == 1.0f &&
                    h.logit_scale == 1.0f && h.final_softcap == 0.0f);
        READ(&by_key, &h, embedding, residual, logit);
        assert_true(
                h.embedding_scale == 12.0f && h.residual_scale == 0.25f && h.logit_scale == 0.25f);
        READ(&by_key, &h, {"t.logit_scale", F32, .number = 0});
        assert_true(h.embedding_scale == 1.0f && h.logit_scale == 1.0f);
        REFUSE(&multiplied, "t.logit_scale is missing", embedding);
        READ(&multiplied, &h, logit);
        assert_true(h.embedding_scale == 8.0f && h.logit_scale == 4.0f && h.final_softcap == 30.0f);
        READ(&multiplied, &h, logit, {"t.final_logit_softcapping", F32, .number = 5});
        assert_true(h.final_softcap == 5.0f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_changes),
                cmocka_unit_test(test_scaling),
                cmocka_unit_test(test_windows),
                cmocka_unit_test(test_required_windows),
                cmocka_unit_test(test_chunks),
                cmocka_unit_test(test_local_rope),
                cmocka_unit_test(test_positions),
                cmocka_unit_test(test_draft_layers),
                cmocka_unit_test(test_query_scale),
                cmocka_unit_test(test_experts),
                cmocka_unit_test(test_which_layers_have_experts),
                cmocka_unit_test(test_expert_groups),
                cmocka_unit_test(test_ends),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
