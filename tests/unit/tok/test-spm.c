/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

#define S "\xe2\x96\x81" /* U+2581 */

static void build(struct vocab_build *v, bool prefix) {
        vocab_build_init(v, "llama");
        gguf_build_bool(v->file, "tokenizer.ggml.add_space_prefix", prefix);
        vocab_build_spm_bytes(v);
}

static void test_merging(void **state) {
        struct vocab_build v;

        build(&v, false);
        vocab_build_add(&v, "a", V_NORMAL, -10);
        vocab_build_add(&v, "b", V_NORMAL, -10);
        vocab_build_add(&v, "c", V_NORMAL, -10);
        vocab_build_add(&v, "ab", V_NORMAL, -3);
        vocab_build_add(&v, "bc", V_NORMAL, -2);
        vocab_build_add(&v, "aa", V_NORMAL, -1);
        vocab_build_add(&v, "abc", V_NORMAL, -1.5f);
        vocab_build_add(&v, S, V_NORMAL, -4);
        vocab_build_add(&v, S "a", V_NORMAL, -0.5f);
        load(&v);
        assert_string_equal(tok_model_name(v.tok), "llama");
        assert_string_equal(tok_pre_name(v.tok), "");
        assert_tokens(v.tok, "", false, "");
        assert_tokens(v.tok, "abc", false, "abc");  /* bc joins first, then a and bc */
        assert_tokens(v.tok, "aaa", false, "aa|a"); /* the leftmost of equals */
        assert_tokens(v.tok, "bab", false, "b|ab");
        assert_tokens(v.tok, " a a", false, S "a|" S "a");
        assert_tokens(v.tok, "d\n", false, "<0x64>|<0x0A>");
        assert_tokens(v.tok, "\xc3\xa9", false, "<0xC3>|<0xA9>");
        vocab_build_deinit(&v);
}

static void test_space_prefix(void **state) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct tok_fragment two[] = {{"<s>a", 4, true}, {"a", 1, false}};
        struct vocab_build v;

        build(&v, true);
        vocab_build_add(&v, "a", V_NORMAL, -10);
        vocab_build_add(&v, S, V_NORMAL, -4);
        load(&v);
        assert_tokens(v.tok, "a", false, S "|a");
        assert_tokens(v.tok, "a<s>a</s>", true, S "|a|<s>|" S "|a|</s>");
        /* The second fragment goes on after ordinary text. */
        assert_int_equal(tok_encode(v.tok, two, 2, false, true, 0, &ids, NULL), 0);
        assert_int_equal(ids.n, 4);
        ids.n = 0;
        assert_int_equal(tok_encode(v.tok, two + 1, 1, false, false, 0, &ids, NULL), 0);
        assert_int_equal(ids.n, 1);
        vocab_build_deinit(&v);
}

/* Ordinary text never becomes a control or byte token, even if joining would lead there. */
static void test_no_control(void **state) {
        struct vocab_build v;

        build(&v, false);
        vocab_build_add(&v, "</", V_NORMAL, -1);
        vocab_build_add(&v, "s>", V_NORMAL, -1);
        vocab_build_add(&v, "<0x", V_NORMAL, -1);
        vocab_build_add(&v, "0A>", V_NORMAL, -1);
        vocab_build_add(&v, "0x", V_NORMAL, -1);
        vocab_build_add(&v, "A>", V_NORMAL, -1);
        vocab_build_add(&v, "0", V_NORMAL, -1);
        load(&v);
        assert_tokens(v.tok, "</s>", false, "</|s>");
        assert_tokens(v.tok, "</s>", true, "</s>");
        assert_tokens(v.tok, "<0x0A>", true, "<0x|0A>");
        vocab_build_deinit(&v);
}

static void test_missing_bytes(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "llama");
        gguf_build_bool(v.file, "tokenizer.ggml.add_space_prefix", false);
        vocab_build_add(&v, "<unk>", V_UNKNOWN, 0);
        vocab_build_add(&v, "a", V_NORMAL, 0);
        load(&v);
        assert_tokens(v.tok, "ab\xc3\xa9", false, "a|<unk>|<unk>|<unk>");
        vocab_build_deinit(&v);
}

static int32_t find_joined(const struct vocab_build *v, const char *s, size_t n) {
        for (size_t i = v->n; i-- > 259;)
                if (strlen(v->text[i]) == n && memcmp(v->text[i], s, n) == 0)
                        return (int32_t)i;
        return -1;
}

/* The rule, literally: look at all pairs, join the best, again. */
static size_t naive_encode(const struct vocab_build *v, const char *text, size_t n, int32_t *out) {
        size_t start[65], n_parts = n;

        for (size_t i = 0; i <= n; i++)
                start[i] = i;
        for (;;) {
                size_t best = SIZE_MAX;
                float score = 0;

                for (size_t i = 0; i + 1 < n_parts; i++) {
                        int32_t id = find_joined(v, text + start[i], start[i + 2] - start[i]);

                        if (id >= 0 && (best == SIZE_MAX || v->score[id] > score)) {
                                best = i;
                                score = v->score[id];
                        }
                }
                if (best == SIZE_MAX)
                        break;
                memmove(start + best + 1, start + best + 2, (n_parts - best - 1) * sizeof(*start));
                n_parts--;
        }
        for (size_t i = 0; i < n_parts; i++)
                out[i] = find_joined(v, text + start[i], start[i + 1] - start[i]);
        return n_parts;
}

static void test_random_merges(void **state) {
        uint64_t x = 4101842887655102017u;

        for (unsigned round = 0; round < 100; round++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                struct vocab_build v;

                build(&v, false);
                vocab_build_add(&v, "a", V_NORMAL, -9);
                vocab_build_add(&v, "b", V_NORMAL, -9);
                vocab_build_add(&v, "c", V_NORMAL, -9);
                for (unsigned i = 0; i < 40; i++) {
                        char text[8] = {0};
                        unsigned n = 2 + test_random(&x) % 4;

                        for (unsigned k = 0; k < n; k++)
                                text[k] = "abc"[test_random(&x) % 3];
                        if (find_joined(&v, text, n) < 0)
                                vocab_build_add(
                                        &v, text, V_NORMAL, (float)(test_random(&x) % 9) - 4.0f);
                }
                load(&v);
                for (unsigned k = 0; k < 40; k++) {
                        int32_t want[64];
                        char text[64];
                        size_t n = 1 + test_random(&x) % 60, n_want;

                        for (size_t i = 0; i < n; i++)
                                text[i] = "abc"[test_random(&x) % 3];
                        n_want = naive_encode(&v, text, n, want);
                        encode(v.tok, text, n, false, &ids);
                        assert_int_equal(ids.n, n_want);
                        assert_memory_equal(ids.ids, want, n_want * sizeof(*want));
                }
                vocab_build_deinit(&v);
        }
}

static void check_long(const struct vocab_build *v, const char *text, size_t n) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        size_t bytes = 0;

        encode(v->tok, text, n, false, &ids);
        for (size_t i = 0; i < ids.n; i++)
                bytes += tok_piece(v->tok, ids.ids[i], false, NULL, 0);
        assert_int_equal(bytes, n);
}

/* A megabyte of whatever takes about the time of its length. */
static void test_no_stall(void **state) {
        const size_t n = 1 << 20;
        _cleanup_(freep) char *text = malloc(n);
        uint64_t x = 1;
        char run[17] = {0};
        struct vocab_build v;

        assert_non_null(text);
        build(&v, false);
        for (unsigned i = 1; i <= 16; i++) {
                char spaces[49] = {0};

                memset(run, 'a', i);
                vocab_build_add(&v, run, V_NORMAL, (float)i - 20);
                for (unsigned k = 0; k < i; k++)
                        memcpy(spaces + k * 3, S, 3);
                vocab_build_add(&v, spaces, V_NORMAL, (float)i - 20);
        }
        load(&v);
        memset(text, 'a', n);
        check_long(&v, text, n);
        memset(text, ' ', n);
        check_long(&v, text, n);
        for (size_t i = 0; i < n; i++)
                text[i] = (char)test_random(&x);
        check_long(&v, text, n);
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_merging),
                cmocka_unit_test(test_space_prefix),
                cmocka_unit_test(test_no_control),
                cmocka_unit_test(test_missing_bytes),
                cmocka_unit_test(test_random_merges),
                cmocka_unit_test(test_no_stall),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
