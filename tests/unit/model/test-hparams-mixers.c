/* SPDX-License-Identifier: MIT */
/* Parameters of what stands in place of the common attention. */
#include <math.h>

#include "hparams-util.h"
#include "model/mixer.h"

static const struct arch by_interval = {.name = "t", .recurrent_layers = ARCH_RECURRENT_INTERVAL};
static const struct arch by_heads = {.name = "t", .recurrent_layers = ARCH_RECURRENT_NO_KV};
static const struct arch all_recurrent = {
        .name = "t", .rope = ARCH_ROPE_NONE, .recurrent_layers = ARCH_RECURRENT_ALL};
static const struct arch windows = {
        .name = "t", .recurrent_layers = ARCH_RECURRENT_NO_KV, .local = {.period = 1}};

static void expect_recurrent(const struct hparams *h, const char *pattern) {
        for (uint32_t i = 0; i < h->n_layer; i++)
                assert_int_equal(h->recurrent[i], pattern[i] == 'r');
}

static void test_recurrent_layers(void **state) {
        struct change layers = {"t.block_count", U32, .number = 9};
        struct hparams h;

        READ(&plain, &h, layers);
        expect_recurrent(&h, "aaaaaaaaa");
        READ(&by_interval, &h, layers);
        expect_recurrent(&h, "rrrarrrar");
        READ(&by_interval, &h, layers, {"t.full_attention_interval", U32, .number = 3});
        expect_recurrent(&h, "rrarrarra");
        READ(&by_interval, &h, layers, {"t.full_attention_interval", U32, .number = 1});
        expect_recurrent(&h, "aaaaaaaaa");
        REFUSE(&by_interval, "t.full_attention_interval is 0", layers,
                {"t.full_attention_interval", U32, .number = 0});
        READ(&by_interval, &h, {"t.attention.recurrent_layers", BOOLS, .array = {1, 0, 1}, .n = 3});
        expect_recurrent(&h, "rar");
        REFUSE(&by_interval, "must be 3 bools",
                {"t.attention.recurrent_layers", BOOLS, .array = {1, 0}, .n = 2});
        REFUSE(&by_interval, "recurrent_layers",
                {"t.attention.recurrent_layers", U32S, .array = {1, 0, 1}, .n = 3});
}

static void test_layers_without_heads(void **state) {
        struct change kv = {"t.attention.head_count_kv", U32S, .array = {0, 2, 0}, .n = 3};
        struct hparams h;

        REFUSE(&plain, "head_count_kv is 0 for layer 0", kv);
        READ(&by_heads, &h, kv);
        expect_recurrent(&h, "rar");
        assert_int_equal(h.head_dim_k, 16);
        assert_int_equal(hparams_heads(h.n_kv_head, 3), 2);
        assert_false(hparams_layer_has_rope(&h, 0));
        assert_true(hparams_layer_has_rope(&h, 1));
        /* Heads of the attending layers give the head size. */
        READ(&by_heads, &h, kv, {"t.attention.head_count", U32S, .array = {0, 8, 0}, .n = 3});
        assert_int_equal(h.head_dim_k, 8);
        REFUSE(&by_heads, "head_count 0 is no multiple of head_count_kv 2 (layer 1)", kv,
                {"t.attention.head_count", U32S, .array = {4, 0, 4}, .n = 3});
        /* A layer without heads has no window. */
        READ(&windows, &h, kv, {"t.attention.sliding_window", U32, .number = 8},
                {"t.attention.sliding_window_pattern", BOOLS, .array = {1, 1, 1}, .n = 3});
        assert_true(!h.local[0] && h.local[1] && !h.local[2]);
        /* Without attention there is nothing to say about heads. */
        READ(&all_recurrent, &h, {"t.attention.head_count", U32, .number = 0});
        expect_recurrent(&h, "rrr");
        assert_int_equal(hparams_heads(h.n_head, 3), 0);
        READ(&all_recurrent, &h, {"t.attention.head_count", .kind = NONE});
        expect_recurrent(&h, "rrr");
}

static const struct arch latent = {
        .name = "t", .code = &arch_deepseek2, .attention = &mixer_mla, .latent = ARCH_LATENT};
static const struct arch tempered = {.name = "t",
        .attention = &mixer_mla,
        .latent = ARCH_LATENT_TEMPERED,
        .temperature = ARCH_TEMPERATURE_LENGTH};
static const struct arch unturned = {
        .name = "t", .rope = ARCH_ROPE_NONE, .attention = &mixer_mla, .latent = ARCH_LATENT};

#define KV_RANK                                                                                    \
        { "t.attention.kv_lora_rank", U32, .number = 40 }
#define ROPE                                                                                       \
        { "t.rope.dimension_count", U32, .number = 6 }
#define SPLIT                                                                                      \
        {"t.attention.key_length_mla", U32, .number = 24}, {                                       \
                "t.attention.value_length_mla", U32, .number = 12                                  \
        }
#define YARN                                                                                       \
        {"t.rope.scaling.type", STR, .str = "yarn"}, {                                             \
                "t.rope.scaling.factor", F32, .number = 40                                         \
        }

static void test_latent(void **state) {
        struct hparams h;

        READ(&latent, &h, KV_RANK, ROPE, SPLIT, {"t.attention.q_lora_rank", U32, .number = 28},
                {"t.attention.key_length", U32, .number = 46},
                {"t.attention.value_length", U32, .number = 40});
        assert_true(h.latent.split);
        assert_int_equal(h.latent.rank, 40);
        assert_int_equal(h.latent.q_rank, 28);
        assert_int_equal(h.latent.nope, 18);
        assert_int_equal(h.latent.rope, 6);
        assert_int_equal(h.rope.n_rot, 6);
        assert_int_equal(h.head_dim_k, 24);
        assert_int_equal(h.head_dim_v, 12);
        assert_true(h.attn_scale == (float)(1 / sqrt(24)));
        /* Sizes of heads, as older files have them. */
        READ(&latent, &h, KV_RANK, ROPE, {"t.attention.key_length", U32, .number = 20},
                {"t.attention.value_length", U32, .number = 12});
        assert_true(!h.latent.split && !h.latent.q_rank);
        assert_int_equal(h.latent.nope, 14);
        assert_int_equal(h.head_dim_v, 12);
        READ(&unturned, &h, KV_RANK, ROPE, SPLIT, YARN);
        assert_int_equal(h.latent.nope, 18);
        assert_false(hparams_layer_has_rope(&h, 0));
        assert_true(h.attn_scale == (float)(1 / sqrt(24)));
        REFUSE(&latent, "t.attention.kv_lora_rank is missing", ROPE, SPLIT);
        REFUSE(&latent, "t.attention.kv_lora_rank is 0", ROPE, SPLIT,
                {"t.attention.kv_lora_rank", U32, .number = 0});
        REFUSE(&latent, "t.rope.dimension_count is missing", KV_RANK, SPLIT);
        REFUSE(&latent, "6 is not below the head size 6", KV_RANK, ROPE,
                {"t.attention.key_length_mla", U32, .number = 6});
        REFUSE(&latent, "t.rope.dimension_count", KV_RANK, SPLIT,
                {"t.rope.dimension_count", U32, .number = 7});
}

/* Multiplied into scores, and into cos and sin (by rope_init()). */
static void test_latent_scale(void **state) {
        struct change multiplier = {"t.rope.scaling.yarn_log_multiplier", F32, .number = 0.0707};
        double ln = log(40), root = sqrt(24), m = (double)0.0707f * 10;
        struct hparams h;

        READ(&latent, &h, KV_RANK, ROPE, SPLIT, YARN);
        assert_float_equal(h.attn_scale, pow(1 + 0.1 * ln, 2) / root, 1e-6);
        assert_true(!h.rope.plain_magnitude && h.rope.log_multiplier == 0);
        READ(&latent, &h, KV_RANK, ROPE, SPLIT, YARN, multiplier);
        assert_float_equal(h.attn_scale, pow(1 + 0.1 * m * ln, 2) / root, 1e-6);
        assert_true(h.rope.plain_magnitude);
        READ(&latent, &h, KV_RANK, ROPE, SPLIT, multiplier);
        assert_float_equal(h.attn_scale, 1 / root, 1e-6);
        READ(&tempered, &h, KV_RANK, ROPE, SPLIT, YARN, multiplier);
        assert_float_equal(h.attn_scale, pow(1 + 0.1 * ln, 2) / root, 1e-6);
        assert_false(h.rope.plain_magnitude);
        assert_float_equal(h.rope.log_multiplier, m, 1e-6);
        READ(&tempered, &h, KV_RANK, ROPE, SPLIT,
                {"t.attention.temperature_scale", F32, .number = 0.5},
                {"t.attention.temperature_length", U32, .number = 77});
        assert_int_equal(h.temperature_length, 77);
        READ(&tempered, &h, KV_RANK, ROPE, SPLIT);
        assert_int_equal(h.temperature_length, 1);
        REFUSE(&tempered, "t.attention.temperature_length is missing", KV_RANK, ROPE, SPLIT,
                {"t.attention.temperature_scale", F32, .number = 0.5});
}

/* What the sizes of published models decide. */
static void test_deepseek2(void **state) {
        struct change q_rank = {"t.attention.q_lora_rank", U32, .number = 28};
        struct change experts = {"t.expert_count", U32, .number = 4};
        struct change used = {"t.expert_used_count", U32, .number = 2};
        struct change vocab = {"t.vocab_size", U32, .number = 154880};
        struct change lite_vocab = {"t.vocab_size", U32, .number = 128256};
        static const struct {
                uint32_t n_layer;
                bool lite, lite_by_vocab, sigmoid;
        } cases[] = {
                {25, false, false, false},
                {26, true, true, false},
                {27, true, true, false},
                {28, false, false, false},
                {46, false, false, false},
                {47, false, false, true},
                {48, false, true, true},
                {49, false, false, false},
        };
        struct hparams h;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct change layers = {"t.block_count", U32, .number = cases[i].n_layer};

                READ(&latent, &h, KV_RANK, ROPE, SPLIT, q_rank, experts, used, layers, vocab);
                assert_int_equal(h.latent.q_rank, cases[i].lite ? 0 : 28);
                assert_int_equal(h.experts.router,
                        cases[i].sigmoid ? ARCH_ROUTER_SIGMOID : ARCH_ROUTER_SOFTMAX);
                READ(&latent, &h, KV_RANK, ROPE, SPLIT, q_rank, experts, used, layers, lite_vocab);
                assert_int_equal(h.latent.q_rank, cases[i].lite_by_vocab ? 0 : 28);
                assert_int_equal(h.experts.router, ARCH_ROUTER_SOFTMAX);
                READ(&latent, &h, KV_RANK, ROPE, SPLIT, q_rank, experts, used, layers, vocab,
                        {"t.expert_gating_func", U32, .number = 1});
                assert_int_equal(h.experts.router, ARCH_ROUTER_SOFTMAX);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_recurrent_layers),
                cmocka_unit_test(test_layers_without_heads),
                cmocka_unit_test(test_latent),
                cmocka_unit_test(test_latent_scale),
                cmocka_unit_test(test_deepseek2),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
