/* SPDX-License-Identifier: MIT */
/* Models with gated delta rules and RWKV: what their keys may say, and what their states are. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "util/arch-build.h"
#include "util/test.h"

enum kind { NONE, U32, BOOLS, I32S };

struct change {
        const char *model, *key; /* the whole key */
        enum kind kind;          /* NONE: left out */
        uint32_t number;         /* or the length of an array */
        const char *expect;      /* part of the message; NULL: accepted */
};

static int open_changed(struct model **ret, const struct change *c, struct err *e) {
        struct arch_options o = {.omit = c->key};
        struct gguf_build *b = arch_build(c->model, &o);
        const bool bools[8] = {false, true, true};
        const int32_t numbers[8] = {2, 1, 1};
        struct model_options options = {.kv_type = KERN_KV_F32};
        struct gguf *g = NULL;
        uint8_t *bytes;
        size_t size;
        int r;

        assert_non_null(b);
        if (c->kind == U32)
                gguf_build_u32(b, c->key, c->number);
        else if (c->kind == BOOLS)
                gguf_build_bool_array(b, c->key, bools, c->number);
        else if (c->kind == I32S)
                gguf_build_i32_array(b, c->key, numbers, c->number);
        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        assert_int_equal(gguf_parse(&g, bytes, size, e), 0);
        r = model_open(ret, g, &options, e);
        if (r == 0)
                *ret = model_free(*ret);
        gguf_free(g);
        free(bytes);
        return r;
}

static const struct change changes[] = {
        {"qwen35", "qwen35.rope.dimension_sections", NONE, 0,
                "qwen35.rope.dimension_sections is missing"},
        {"qwen35", "qwen35.rope.dimension_sections", I32S, 3,
                "qwen35.rope.dimension_sections must be 4 numbers"},
        {"qwen35", "qwen35.rope.dimension_sections", U32, 4, "qwen35.rope.dimension_sections"},
        {"qwen35", "qwen35.ssm.conv_kernel", NONE, 0, "qwen35.ssm.conv_kernel is missing"},
        {"qwen35", "qwen35.ssm.conv_kernel", U32, 1, "qwen35.ssm.conv_kernel is 1, outside 2 to 8"},
        {"qwen35", "qwen35.ssm.conv_kernel", U32, 3, "blk.0.ssm_conv1d.weight"},
        {"qwen35", "qwen35.ssm.group_count", U32, 0, "qwen35.ssm.group_count is 0"},
        {"qwen35", "qwen35.ssm.group_count", U32, 3, "are not multiples of each other"},
        {"qwen35", "qwen35.ssm.group_count", U32, 4, "blk.0.attn_qkv.weight"},
        {"qwen35", "qwen35.ssm.time_step_rank", U32, 2, "values of another size than the keys' 32"},
        {"qwen35", "qwen35.ssm.state_size", U32, 1025, "qwen35.ssm.state_size 1025 is above 1024"},
        {"qwen35", "qwen35.full_attention_interval", U32, 0,
                "qwen35.full_attention_interval is 0, outside 1 to 512"},
        {"qwen35", "qwen35.full_attention_interval", U32, 4, NULL},
        {"qwen35", "qwen35.full_attention_interval", U32, 2, "blk.1."},
        {"qwen35", "qwen35.attention.value_length", U32, 16, "gates for 128 values"},
        {"qwen35moe", "qwen35moe.attention.recurrent_layers", BOOLS, 2,
                "qwen35moe.attention.recurrent_layers must be 3 bools, one per layer"},
        {"qwen35moe", "qwen35moe.attention.recurrent_layers", BOOLS, 3, NULL},
        {"qwen3next", "qwen3next.expert_count", U32, 0, "blk.0.ffn_"},
        {"kimi-linear", "kimi-linear.kda.head_dim", NONE, 0, "kimi-linear.kda.head_dim is missing"},
        {"kimi-linear", "kimi-linear.kda.head_dim", U32, 1025,
                "kimi-linear.kda.head_dim is 1025, outside 1 to 1024"},
        {"kimi-linear", "kimi-linear.kda.head_dim", U32, 16, "blk.0.attn_q.weight"},
        {"kimi-linear", "kimi-linear.ssm.conv_kernel", U32, 9,
                "kimi-linear.ssm.conv_kernel is 9, outside 2 to 8"},
        {"kimi-linear", "kimi-linear.attention.head_count", U32, 0,
                "kimi-linear.attention.head_count"},
        {"kimi-linear", "kimi-linear.expert_gating_func", NONE, 0,
                "kimi-linear.expert_gating_func is missing"},
        {"rwkv6", "rwkv6.wkv.head_size", NONE, 0, "rwkv6.wkv.head_size is missing"},
        {"rwkv6", "rwkv6.wkv.head_size", U32, 0, "rwkv6.wkv.head_size is 0, outside 1 to 1024"},
        {"rwkv6", "rwkv6.wkv.head_size", U32, 24,
                "rwkv6.embedding_length 64 is no multiple of wkv.head_size 24"},
        {"rwkv6", "rwkv6.wkv.head_size", U32, 32, "blk.0.time_mix_first.weight"},
        {"rwkv6", "rwkv6.token_shift_count", U32, 1,
                "rwkv6.token_shift_count is 1, outside 2 to 2"},
        {"rwkv6", "rwkv6.token_shift_count", NONE, 0, NULL},
        {"rwkv6", "rwkv6.time_mix_extra_dim", NONE, 0, "rwkv6.time_mix_extra_dim is missing"},
        {"rwkv6", "rwkv6.time_mix_extra_dim", U32, 8, "blk.0.time_mix_w1.weight"},
        {"rwkv6", "rwkv6.time_decay_extra_dim", U32, 8, "blk.0.time_mix_decay_w1.weight"},
        {"rwkv6", "rwkv6.rescale_every_n_layers", U32, 513,
                "rwkv6.rescale_every_n_layers is 513, outside 0 to 512"},
        {"rwkv6", "rwkv6.rescale_every_n_layers", NONE, 0, NULL},
        {"rwkv6", "rwkv6.feed_forward_length", NONE, 0, "rwkv6.feed_forward_length is missing"},
        {"rwkv6", "rwkv6.attention.layer_norm_epsilon", NONE, 0,
                "rwkv6.attention.layer_norm_epsilon is missing"},
        {"rwkv7", "rwkv7.attention.decay_lora_rank", NONE, 0,
                "rwkv7.attention.decay_lora_rank is missing"},
        {"rwkv7", "rwkv7.attention.iclr_lora_rank", U32, 16, "blk.0.time_mix_a1.weight"},
        {"rwkv7", "rwkv7.attention.value_residual_mix_lora_rank", U32, 16,
                "blk.1.time_mix_v1.weight"},
        {"rwkv7", "rwkv7.attention.gate_lora_rank", U32, 0, "rwkv7.attention.gate_lora_rank is 0"},
};

static void test_keys(void **state) {
        for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
                const struct change *c = &changes[i];
                struct model *m = NULL;
                struct err e = {0};
                int r = open_changed(&m, c, &e);

                if (!c->expect && r < 0)
                        fail_msg("%s of %u: %s", c->key, c->number, e.msg);
                if (c->expect && (r == 0 || !strstr(e.msg, c->expect)))
                        fail_msg("%s of %u: %s", c->key, c->number, r ? e.msg : "accepted");
        }
}

/* Floats of a model's state by layer, in order. */
static void check_state(const char *name, const size_t *want, size_t n_layer) {
        struct gguf_build *b = arch_build(name, NULL);
        struct model_options options = {.kv_type = KERN_KV_F32};
        const struct model_kv_array *a;
        size_t size, got[16] = {0}, n, end = 0;
        struct model_info info;
        struct model *m = NULL;
        struct gguf *g = NULL;
        uint8_t *bytes = gguf_build_bytes(b, &size);

        gguf_build_free(b);
        assert_int_equal(gguf_parse(&g, bytes, size, NULL), 0);
        assert_int_equal(model_open(&m, g, &options, NULL), 0);
        model_info(m, &info);
        n = model_kv_arrays(m, SEQ_STATE, &a);
        for (size_t i = 0; i < n; i++) {
                size_t floats = (size_t)a[i].n_tiles * a[i].n_channels * a[i].n_tokens;

                assert_int_equal(a[i].element, MODEL_KV_F32);
                assert_true(a[i].offset >= end && a[i].offset % 64 == 0);
                end = a[i].offset + floats * sizeof(float);
                got[a[i].layer] += floats;
        }
        assert_true(end <= info.shape.size[SEQ_STATE]);
        for (size_t i = 0; i < n_layer; i++)
                assert_int_equal(got[i], want[i]);
        assert_int_equal(info.shape.size[SEQ_WINDOW], 0);
        model_free(m);
        gguf_free(g);
        free(bytes);
}

/* Convolutions and matrices of delta rules; two rows and a matrix of RWKV. Draft layers have none. */
static void test_states(void **state) {
        const size_t delta = 3 * (2 * 2 * 32 + 4 * 32) + 4 * 32 * 32;
        const size_t kda = 3 * 3 * 4 * 32 + 4 * 32 * 32;

        check_state("qwen3next", (const size_t[]){delta, 0, delta, 0}, 4);
        check_state("qwen35", (const size_t[]){delta, delta, delta, 0, 0}, 5);
        check_state("qwen35moe", (const size_t[]){0, delta, delta}, 3);
        check_state("kimi-linear", (const size_t[]){kda, kda, 0, kda}, 4);
        check_state("rwkv6-apart", (const size_t[]){2 * 64 + 64 * 16, 2 * 64 + 64 * 16}, 2);
        check_state("rwkv7", (const size_t[]){2 * 128 + 128 * 64}, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_keys),
                cmocka_unit_test(test_states),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
