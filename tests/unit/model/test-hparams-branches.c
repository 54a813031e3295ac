/* SPDX-License-Identifier: MIT */
/* Parameters of layers with one branch, of selective scans, and of experts that some layers have. */
#include "hparams-util.h"
#include "model/mixer.h"
#include "model/ssm.h"
#include "model/weights.h"

static const struct arch alone = {.name = "t",
        .order = ARCH_FIRST_ALONE,
        .rope = ARCH_ROPE_NONE,
        .recurrent = &mixer_mamba,
        .recurrent_layers = ARCH_RECURRENT_ALL};
static const struct arch either = {.name = "t",
        .order = ARCH_EITHER,
        .eps_of_either = true,
        .recurrent = &mixer_mamba2,
        .recurrent_layers = ARCH_RECURRENT_NO_KV,
        .ffn = ARCH_FFN_PLAIN,
        .experts = {.where_tensors = true}};
static const struct arch local = {.name = "t",
        .recurrent = &mixer_short_conv,
        .recurrent_layers = ARCH_RECURRENT_NO_KV,
        .local = {.period = ARCH_ALL_LOCAL}};

#define NO_FF                                                                                      \
        { "t.feed_forward_length", U32, .number = 0 }
#define KV                                                                                         \
        { "t.attention.head_count_kv", U32S, .array = {0, 2, 0}, .n = 3 }

static void test_first_branch_alone(void **state) {
        struct hparams h;

        READ(&alone, &h, NO_FF);
        for (uint32_t i = 0; i < 3; i++)
                assert_true(hparams_layer_mixes(&h, i) && !hparams_layer_feeds(&h, i));
        READ(&alone, &h, {"t.feed_forward_length", .kind = NONE});
        assert_false(hparams_layer_feeds(&h, 2));
        REFUSE(&plain, "t.feed_forward_length is missing", NO_FF);
}

static void test_either_branch(void **state) {
        struct change ff = {"t.feed_forward_length", U32S, .array = {0, 0, 96}, .n = 3};
        struct hparams h;

        READ(&either, &h, KV, ff);
        assert_true(hparams_layer_mixes(&h, 0) && !hparams_layer_feeds(&h, 0) && h.recurrent[0]);
        assert_true(hparams_layer_mixes(&h, 1) && !hparams_layer_feeds(&h, 1) && !h.recurrent[1]);
        assert_true(!hparams_layer_mixes(&h, 2) && hparams_layer_feeds(&h, 2));
        READ(&plain, &h);
        assert_true(hparams_layer_mixes(&h, 0) && hparams_layer_feeds(&h, 0));
}

static void test_epsilon_of_either(void **state) {
        struct change none = {"t.attention.layer_norm_rms_epsilon", .kind = NONE};
        struct change other = {"t.attention.layer_norm_epsilon", F32, .number = 0.25};
        struct change ff = {"t.feed_forward_length", U32S, .array = {0, 0, 96}, .n = 3};
        struct hparams h;

        READ(&either, &h, KV, ff, other);
        assert_true(h.norm_eps == 1e-5f);
        READ(&either, &h, KV, ff, none, other);
        assert_true(h.norm_eps == 0.25f);
        REFUSE(&either, "t.attention.layer_norm_rms_epsilon is missing", KV, ff, none);
        REFUSE(&either, "t.attention.layer_norm_epsilon is 2", KV, ff, none,
                {"t.attention.layer_norm_epsilon", F32, .number = 2});
        REFUSE(&plain, "t.attention.layer_norm_rms_epsilon is missing", none, other);
}

/* No file of this test has tensors: no layer has experts, whatever is counted. */
static void test_experts_by_tensors(void **state) {
        struct change ff = {"t.feed_forward_length", U32S, .array = {0, 96, 96}, .n = 3};
        struct change n = {"t.expert_count", U32, .number = 8};
        struct change used = {"t.expert_used_count", U32, .number = 2};
        struct hparams h;

        READ(&either, &h, KV, ff, n, used);
        assert_true(h.experts.n == 8 && h.experts.n_latent == 0 && h.experts.n_ff == 96);
        for (uint32_t i = 0; i < 3; i++)
                assert_false(hparams_layer_has_experts(&h, i));
        READ(&either, &h, KV, ff, n, used, {"t.moe_latent_size", U32, .number = 32});
        assert_int_equal(h.experts.n_latent, 32);
        REFUSE(&either, "t.moe_latent_size is 65, outside 0 to 64", KV, ff, n, used,
                {"t.moe_latent_size", U32, .number = 65});
}

static void test_all_attending_layers_local(void **state) {
        struct hparams h;

        READ(&local, &h, KV);
        assert_true(!h.local[0] && !h.local[1] && h.window == 0);
        READ(&local, &h, KV, {"t.attention.sliding_window", U32, .number = 16});
        assert_true(!h.local[0] && h.local[1] && !h.local[2] && h.window == 16);
}

/* ssm_read() of a file with these numbers; 0 leaves a key out. */
static int read_ssm(const uint32_t numbers[5], bool heads, struct ssm *ret, struct err *e) {
        static const char *const keys[] = {"t.ssm.conv_kernel", "t.ssm.inner_size",
                "t.ssm.state_size", "t.ssm.time_step_rank", "t.ssm.group_count"};
        struct gguf_build *b = gguf_build_new();
        struct hparams h = {.arch = &plain};
        struct gguf *g = NULL;
        uint8_t *bytes;
        size_t size;
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (numbers[i])
                        gguf_build_u32(b, keys[i], numbers[i]);
        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        assert_int_equal(gguf_parse(&g, bytes, size, e), 0);
        h.gguf = g;
        r = ssm_read(&h, ret, heads, e);
        gguf_free(g);
        free(bytes);
        return r;
}

static void test_ssm(void **state) {
        static const struct {
                uint32_t numbers[5];
                bool heads;
                const char *expect; /* NULL: accepted */
        } cases[] = {
                {{4, 128, 16, 8, 2}, true, NULL},
                {{4, 128, 16, 4, 0}, false, NULL},
                {{2, 120, 17, 3, 0}, false, NULL},
                {{8, 120, 4096, 3, 3}, true, NULL},
                {{0, 128, 16, 8, 2}, true, "t.ssm.conv_kernel is missing"},
                {{4, 0, 16, 8, 2}, true, "t.ssm.inner_size is missing"},
                {{4, 128, 0, 8, 2}, true, "t.ssm.state_size is missing"},
                {{4, 128, 16, 0, 2}, true, "t.ssm.time_step_rank is missing"},
                {{4, 128, 16, 8, 0}, true, "t.ssm.group_count is missing"},
                {{1, 128, 16, 8, 2}, true, "t.ssm.conv_kernel is 1, outside 2 to 8"},
                {{9, 128, 16, 8, 2}, true, "t.ssm.conv_kernel is 9, outside 2 to 8"},
                {{4, 1u << 19, 16, 8, 2}, true, "t.ssm.inner_size is 524288"},
                {{4, 128, 4097, 8, 2}, true, "t.ssm.state_size is 4097"},
                {{4, 128, 16, 1u << 19, 2}, true, "t.ssm.time_step_rank is 524288"},
                {{4, 128, 16, 12, 2}, true, "are not multiples of each other"},
                {{4, 128, 16, 8, 3}, true, "are not multiples of each other"},
                {{4, 128, 16, 8, 16}, true, "are not multiples of each other"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const uint32_t *n = cases[i].numbers;
                struct ssm s = {0};
                struct err e = {0};
                int r = read_ssm(n, cases[i].heads, &s, &e);

                if (!cases[i].expect) {
                        assert_int_equal(r, 0);
                        assert_true(s.n_taps == n[0] && s.n_inner == n[1] && s.n_state == n[2]);
                        assert_true(s.rank == n[3] && s.n_group == (n[4] ? n[4] : 1));
                } else if (r != -ERR_FORMAT || !strstr(e.msg, cases[i].expect) || s.n_inner) {
                        fail_msg("case %zu: %d %s", i, r, e.msg);
                }
        }
}

/* Rows turned in tiles; what is behind the last row is 0. */
static void test_tiles(void **state) {
        static const uint64_t ne[] = {3, 5};
        struct gguf_build *b = gguf_build_new();
        float *values = malloc(15 * sizeof(*values));
        struct weights w = WEIGHTS_NULL;
        struct gguf *g = NULL;
        const float *got;
        uint8_t *bytes;
        struct err e;
        size_t size;

        assert_non_null(values);
        for (int i = 0; i < 15; i++)
                values[i] = (float)i + 1;
        gguf_build_tensor(b, "blk.1.x", 0, 2, ne, values, 15 * sizeof(*values));
        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        assert_int_equal(gguf_parse(&g, bytes, size, &e), 0);
        w.gguf = g;
        assert_int_equal(weights_tiles(&w, &got, 1, "x", 3, 5, 2, &e), 0);
        for (size_t tile = 0; tile < 3; tile++)
                for (size_t i = 0; i < 3; i++)
                        for (size_t lane = 0; lane < 2; lane++) {
                                size_t row = tile * 2 + lane;

                                assert_true(*got++ == (row < 5 ? (float)(row * 3 + i + 1) : 0));
                        }
        assert_int_equal(weights_tiles(&w, &got, 1, "x", 3, 5, 5, &e), 0);
        for (size_t i = 0; i < 3; i++)
                for (size_t row = 0; row < 5; row++)
                        assert_true(got[i * 5 + row] == (float)(row * 3 + i + 1));
        assert_int_equal(weights_tiles(&w, &got, 1, "y", 3, 5, 5, &e), -ERR_FORMAT);
        assert_non_null(strstr(e.msg, "'blk.1.y' is missing"));
        assert_int_equal(weights_tiles(&w, &got, 1, "x", 5, 3, 5, &e), -ERR_FORMAT);
        weights_deinit(&w);
        gguf_free(g);
        free(bytes);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_first_branch_alone),
                cmocka_unit_test(test_either_branch),
                cmocka_unit_test(test_epsilon_of_either),
                cmocka_unit_test(test_experts_by_tensors),
                cmocka_unit_test(test_all_attending_layers_local),
                cmocka_unit_test(test_ssm),
                cmocka_unit_test(test_tiles),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
