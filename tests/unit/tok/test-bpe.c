/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

#define G "\xc4\xa0" /* the space as byte-level BPE writes it */

static void build(struct vocab_build *v, const char *pre) {
        vocab_build_init(v, "gpt2");
        if (pre)
                gguf_build_str(v->file, "tokenizer.ggml.pre", pre);
        vocab_build_bpe_bytes(v);
}

/* The token of @left + @right, and the merge that makes it. */
static void add_merge(struct vocab_build *v, const char *left, const char *right, bool token) {
        char text[256];

        snprintf(text, sizeof(text), "%s %s", left, right);
        vocab_build_merge(v, text);
        snprintf(text, sizeof(text), "%s%s", left, right);
        if (token)
                vocab_build_add(v, text, V_NORMAL, 0);
}

static void test_merging(void **state) {
        struct vocab_build v;

        build(&v, "gpt-2");
        add_merge(&v, "l", "l", true);
        add_merge(&v, "h", "e", true);
        add_merge(&v, "he", "ll", true);
        add_merge(&v, "hell", "o", true);
        add_merge(&v, G, "hell", true);              /* comes too late: o is joined first */
        add_merge(&v, "\xc3\x83", "\xc2\xa9", true); /* the two bytes of e acute */
        load(&v);
        assert_string_equal(tok_model_name(v.tok), "gpt2");
        assert_string_equal(tok_pre_name(v.tok), "gpt-2");
        assert_tokens(v.tok, "", false, "");
        assert_tokens(v.tok, "hello", false, "hello");
        assert_tokens(v.tok, "lll", false, "ll|l");
        assert_tokens(v.tok, "ell", false, "e|ll");
        assert_tokens(v.tok, " hello", false, G "|hello");
        assert_tokens(v.tok, " hell", false, G "hell");
        assert_tokens(v.tok, "hell o", false, "hell|" G "|o");
        assert_tokens(v.tok, "\xc3\xa9\n", false, "\xc3\x83\xc2\xa9|\xc4\x8a");
        vocab_build_deinit(&v);
}

static void test_unsupported(void **state) {
        struct vocab_build v;
        struct err e;

        build(&v, "no such rules");
        assert_int_equal(vocab_build_load(&v, &e), -ERR_UNSUPPORTED);
        assert_non_null(strstr(e.msg, "\"no such rules\""));
        vocab_build_deinit(&v);
        build(&v, "gpt-2 mpt"); /* names, not the row's text */
        assert_int_equal(vocab_build_load(&v, &e), -ERR_UNSUPPORTED);
        vocab_build_deinit(&v);
        build(&v, NULL);
        vocab_build_merge(&v, "ab");
        assert_int_equal(vocab_build_load(&v, &e), -ERR_FORMAT);
        assert_non_null(strstr(e.msg, "merge 0"));
        vocab_build_deinit(&v);
        build(&v, NULL);
        vocab_build_merge(&v, " a");
        assert_int_equal(vocab_build_load(&v, &e), -ERR_FORMAT);
        vocab_build_deinit(&v);
}

/* A symbol that is no token is written byte by byte, and so is one that is a control token. */
static void test_symbols_without_token(void **state) {
        struct vocab_build v;

        build(&v, "gpt-2");
        add_merge(&v, "a", "b", false);
        add_merge(&v, "ab", "c", true); /* by way of ab, which is none */
        add_merge(&v, "x", "y", true);
        v.type[v.n - 1] = V_CONTROL;
        vocab_build_merge(&v, "ab c"); /* once more: the first counts */
        load(&v);
        assert_tokens(v.tok, "abc", false, "abc");
        assert_tokens(v.tok, "abd", false, "a|b|d");
        assert_tokens(v.tok, "xy", false, "x|y");
        assert_tokens(v.tok, "xy", true, "xy");
        vocab_build_deinit(&v);

        /* A byte without a token is dropped. */
        build(&v, "gpt-2");
        for (size_t i = 0; i < v.n; i++)
                if (strcmp(v.text[i], "q") == 0)
                        strcpy(v.text[i], "");
        load(&v);
        assert_tokens(v.tok, "aqb", false, "a|b");
        vocab_build_deinit(&v);
}

static void test_ignore_merges(void **state) {
        struct vocab_build v;

        build(&v, "llama-bpe");
        vocab_build_add(&v, G "word", V_NORMAL, 0);
        vocab_build_add(&v, "ctl", V_CONTROL, 0);
        vocab_build_add(&v, "<s>", V_CONTROL, 0);
        gguf_build_u32(v.file, "tokenizer.ggml.bos_token_id", 258);
        load(&v);
        assert_true(tok_add_bos(v.tok));
        assert_tokens(v.tok, " word", false, G "word");
        assert_tokens(v.tok, "word", false, "w|o|r|d");
        assert_tokens(v.tok, "ctl", false, "c|t|l");
        vocab_build_deinit(&v);
        build(&v, "qwen2");
        vocab_build_add(&v, G "word", V_NORMAL, 0);
        load(&v);
        assert_false(tok_add_bos(v.tok));
        assert_tokens(v.tok, " word", false, G "|w|o|r|d");
        vocab_build_deinit(&v);
}

/*
 * What was learned about a token counts only as long as it may be emitted, and merging decides, not
 * the vocabulary: "abc" is a token that no merges make.
 */
static void test_learned(void **state) {
        struct vocab_build v;

        build(&v, "gpt-2");
        add_merge(&v, "a", "b", true);
        vocab_build_add(&v, "abc", V_NORMAL, 0);
        add_merge(&v, "<", "t", true);
        add_merge(&v, "<t", ">", true);
        v.type[v.n - 1] = V_USER_DEFINED;
        load(&v);
        for (int i = 0; i < 3; i++) {
                assert_tokens(v.tok, "ab", false, "ab");
                assert_tokens(v.tok, "abc", false, "ab|c");
                assert_tokens(v.tok, "<t>", false, "<t>");
        }
        assert_int_equal(tok_protect(v.tok, "<t>", 3, NULL), 0);
        for (int i = 0; i < 2; i++)
                assert_tokens(v.tok, "<t>", false, "<|t|>");
        vocab_build_deinit(&v);
}

/* Any bytes come back. */
static void test_any_bytes(void **state) {
        uint64_t x = 7;
        struct vocab_build v;

        build(&v, "gpt-2");
        add_merge(&v, "\xc3\x83", "\xc2\xa9", true);
        add_merge(&v, "a", "\xc3\x83", true);
        load(&v);
        for (unsigned round = 0; round < 300; round++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                char text[80], back[256];
                size_t n = test_random(&x) % sizeof(text), size = 0;

                for (size_t i = 0; i < n; i++)
                        text[i] = test_random(&x) % 3 ? "a\xc3\xa9 \xff\n"[test_random(&x) % 6]
                                                      : (char)test_random(&x);
                encode(v.tok, text, n, false, &ids);
                for (size_t i = 0; i < ids.n; i++)
                        size += tok_piece(
                                v.tok, ids.ids[i], false, back + size, sizeof(back) - size);
                assert_int_equal(size, n);
                assert_memory_equal(back, text, n);
        }
        vocab_build_deinit(&v);
}

static int find_merge(
        const struct vocab_build *v, const char *l, size_t n_l, const char *r, size_t n_r) {
        for (size_t i = 0; i < v->n_merges; i++) {
                const char *s = v->merge[i];

                if (strlen(s) == n_l + n_r + 1 && memcmp(s, l, n_l) == 0 && s[n_l] == ' ' &&
                        memcmp(s + n_l + 1, r, n_r) == 0)
                        return (int)i;
        }
        return -1;
}

static void naive_encode(
        const struct vocab_build *v, const char *text, size_t n, struct tok_ids *out) {
        size_t start[65], n_parts = n;

        for (size_t i = 0; i <= n; i++)
                start[i] = i;
        for (;;) {
                size_t best = SIZE_MAX;
                int rank = 0;

                for (size_t i = 0; i + 1 < n_parts; i++) {
                        int m = find_merge(v, text + start[i], start[i + 1] - start[i],
                                text + start[i + 1], start[i + 2] - start[i + 1]);

                        if (m >= 0 && (best == SIZE_MAX || m < rank)) {
                                best = i;
                                rank = m;
                        }
                }
                if (best == SIZE_MAX)
                        break;
                memmove(start + best + 1, start + best + 2, (n_parts - best - 1) * sizeof(*start));
                n_parts--;
        }
        for (size_t i = 0; i < n_parts; i++) {
                int32_t id = tok_find(v->tok, text + start[i], start[i + 1] - start[i]);

                assert_true(id >= 0);
                assert_int_equal(tok_ids_append(out, &id, 1, NULL), 0);
        }
}

static void test_random_merges(void **state) {
        uint64_t x = 977;

        for (unsigned round = 0; round < 60; round++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL, want = TOK_IDS_NULL;
                struct vocab_build v;

                build(&v, "gpt-2");
                for (unsigned i = 0; i < 40; i++) {
                        /* Join two of what there is: letters, or what was joined before. */
                        const char *l =
                                i < 4 || test_random(&x) % 2
                                        ? (const char *[]){"a", "b", "c"}[test_random(&x) % 3]
                                        : v.text[256 + test_random(&x) % (v.n - 256)];
                        const char *r =
                                i < 4 || test_random(&x) % 2
                                        ? (const char *[]){"a", "b", "c"}[test_random(&x) % 3]
                                        : v.text[256 + test_random(&x) % (v.n - 256)];

                        if (strlen(l) + strlen(r) < 12 &&
                                find_merge(&v, l, strlen(l), r, strlen(r)) < 0)
                                add_merge(&v, l, r, true);
                }
                load(&v);
                for (unsigned k = 0; k < 30; k++) {
                        char text[64];
                        size_t n = 1 + test_random(&x) % 60;

                        for (size_t i = 0; i < n; i++)
                                text[i] = "abc"[test_random(&x) % 3];
                        want.n = 0;
                        naive_encode(&v, text, n, &want);
                        encode(v.tok, text, n, false, &ids);
                        assert_int_equal(ids.n, want.n);
                        assert_memory_equal(ids.ids, want.ids, want.n * sizeof(*want.ids));
                }
                vocab_build_deinit(&v);
        }
}

static void test_no_stall(void **state) {
        const size_t n = 1 << 20;
        _cleanup_(freep) char *text = malloc(n);
        uint64_t x = 3;
        struct vocab_build v;
        char run[65] = "a", spaces[129] = G;

        assert_non_null(text);
        build(&v, "gpt-2");
        for (unsigned i = 1; i <= 32; i *= 2) {
                add_merge(&v, run, run, true);
                add_merge(&v, spaces, spaces, true);
                memset(run, 'a', i * 2);
                for (unsigned k = 0; k < i * 2; k++)
                        memcpy(spaces + k * 2, G, 2);
        }
        load(&v);
        for (unsigned kind = 0; kind < 3; kind++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                size_t bytes = 0;

                for (size_t i = 0; i < n; i++)
                        text[i] = kind == 0 ? 'a' : kind == 1 ? ' ' : (char)test_random(&x);
                encode(v.tok, text, n, false, &ids);
                for (size_t i = 0; i < ids.n; i++)
                        bytes += tok_piece(v.tok, ids.ids[i], false, NULL, 0);
                assert_int_equal(bytes, n);
        }
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_merging),
                cmocka_unit_test(test_unsupported),
                cmocka_unit_test(test_symbols_without_token),
                cmocka_unit_test(test_ignore_merges),
                cmocka_unit_test(test_learned),
                cmocka_unit_test(test_any_bytes),
                cmocka_unit_test(test_random_merges),
                cmocka_unit_test(test_no_stall),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
