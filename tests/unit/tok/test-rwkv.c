/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

static void build(struct vocab_build *v) {
        vocab_build_init(v, "rwkv");
        vocab_build_add(v, "<s>", V_CONTROL, 0);
}

static void assert_ids(
        const struct tok *t, const char *text, size_t n, const int32_t *want, size_t n_want) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;

        encode(t, text, n, false, &ids);
        assert_int_equal(ids.n, n_want);
        assert_memory_equal(ids.ids, want, n_want * sizeof(*want));
}
#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)

static void test_longest(void **state) {
        struct vocab_build v;

        build(&v);
        vocab_build_add(&v, "a", V_NORMAL, 0);    /* 1 */
        vocab_build_add(&v, "ab", V_NORMAL, 0);   /* 2 */
        vocab_build_add(&v, "abcd", V_NORMAL, 0); /* 3 */
        vocab_build_add(&v, "b", V_NORMAL, 0);    /* 4 */
        vocab_build_add(&v, "c", V_NORMAL, 0);    /* 5 */
        vocab_build_add(&v, "cde", V_NORMAL, 0);  /* 6 */
        vocab_build_add(&v, "<s>a", V_CONTROL, 0);
        vocab_build_add(&v, "", V_NORMAL, 0);
        vocab_build_add(&v, "a", V_NORMAL, 0); /* 9: the same text, and the later id */
        load(&v);
        assert_string_equal(tok_model_name(v.tok), "rwkv");
        assert_false(tok_add_bos(v.tok));
        assert_ids(v.tok, "abcab", 5, IDS(2, 5, 2));
        assert_ids(v.tok, "abcde", 5, IDS(3)); /* greedy: e is left, and no token has it */
        assert_ids(v.tok, "abcdcde", 7, IDS(3, 6));
        assert_ids(v.tok, "ba", 2, IDS(4, 9));
        assert_ids(v.tok, "<s>a", 4, IDS(9)); /* control tokens never come of text */
        assert_tokens(v.tok, "<s>b", true, "<s>|b");
        vocab_build_deinit(&v);
}

static void test_escapes(void **state) {
        static const struct {
                const char *text, *bytes;
                size_t size;
        } cases[] = {
                {"\\n\\n", "\n\n", 2},
                {"\\t\\r", "\t\r", 2},
                {"\\x00", "\0", 1},
                {"\\xe4\\xB8a",
                        "\xe4\xb8"
                        "a",
                        3},
                {"\\'\\\"\\\\", "'\"\\", 3},
                {"\\xg1", "xg1", 3},
                {"\\x1", "x1", 2},
                {"z\\", "z\\", 2},
                {"\xc3\xa9", "\xc3\xa9", 2},
        };
        struct vocab_build v;

        build(&v);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                vocab_build_add(&v, cases[i].text, V_NORMAL, 0);
        gguf_build_u32(v.file, "tokenizer.ggml.eot_token_id", 1);
        load(&v);
        assert_true(tok_is_eog(v.tok, 1));
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char piece[16];

                assert_int_equal(tok_piece(v.tok, (int32_t)i + 1, false, piece, sizeof(piece)),
                        cases[i].size);
                assert_memory_equal(piece, cases[i].bytes, cases[i].size);
                assert_ids(v.tok, cases[i].bytes, cases[i].size, IDS((int32_t)i + 1));
        }
        vocab_build_deinit(&v);
}

/* A byte without a token is the unknown token, or nothing. */
static void test_unknown(void **state) {
        for (int known = 0; known < 2; known++) {
                struct vocab_build v;

                build(&v);
                vocab_build_add(&v, "a", V_NORMAL, 0);
                vocab_build_add(&v, "<unk>", V_UNKNOWN, 0);
                if (known)
                        gguf_build_u32(v.file, "tokenizer.ggml.unknown_token_id", 2);
                load(&v);
                if (known)
                        assert_ids(v.tok,
                                "a\xff"
                                "a",
                                3, IDS(1, 2, 1));
                else
                        assert_ids(v.tok,
                                "a\xff"
                                "a",
                                3, IDS(1, 1));
                vocab_build_deinit(&v);
        }
}

/* Against a search through all tokens, and the bytes come back. */
static void test_against_search(void **state) {
        uint64_t x = 11;

        for (int round = 0; round < 40; round++) {
                struct vocab_build v;
                size_t n_tokens;

                build(&v);
                for (int i = 0; i < 256; i++) {
                        char text[8];

                        snprintf(text, sizeof(text), "\\x%02x", i);
                        vocab_build_add(&v, text, V_NORMAL, 0);
                }
                for (int i = 0; i < 60; i++) {
                        char text[8] = {0};
                        size_t n = 2 + test_random(&x) % 5;

                        for (size_t k = 0; k < n; k++)
                                text[k] = "abc"[test_random(&x) % 3];
                        vocab_build_add(&v, text, V_NORMAL, 0);
                }
                n_tokens = v.n;
                load(&v);
                for (int k = 0; k < 30; k++) {
                        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                        char text[64], piece[8];
                        size_t n = 1 + test_random(&x) % 60, at = 0;

                        for (size_t i = 0; i < n; i++)
                                text[i] = "abcx"[test_random(&x) % 4];
                        encode(v.tok, text, n, false, &ids);
                        for (size_t i = 0; i < ids.n; i++) {
                                size_t best = 1;

                                for (size_t m = 257; m < n_tokens; m++) {
                                        size_t len = strlen(v.text[m]);

                                        if (len > best && len <= n - at &&
                                                memcmp(v.text[m], text + at, len) == 0)
                                                best = len;
                                }
                                assert_int_equal(
                                        tok_piece(v.tok, ids.ids[i], false, piece, sizeof(piece)),
                                        best);
                                assert_memory_equal(piece, text + at, best);
                                at += best;
                        }
                        assert_int_equal(at, n);
                }
                vocab_build_deinit(&v);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_longest),
                cmocka_unit_test(test_escapes),
                cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_against_search),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
