/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

static void build(struct vocab_build *v) {
        vocab_build_init(v, "llama");
        gguf_build_bool(v->file, "tokenizer.ggml.add_space_prefix", false);
        gguf_build_bool(v->file, "tokenizer.ggml.add_eos_token", true);
        vocab_build_spm_bytes(v);
        vocab_build_add(v, "a", V_NORMAL, -1);
        vocab_build_add(v, "aa", V_NORMAL, -1);
        load(v);
}

static void test_fragments(void **state) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct tok_fragment f[] = {
                {"<s>a", 4, true}, {NULL, 0, false}, {"a</s>", 5, false}, {"</s>", 4, true}};
        const int32_t a = 259;
        struct vocab_build v;

        build(&v);
        assert_int_equal(tok_encode(v.tok, f, 4, true, true, 0, &ids, NULL), 0);
        /* bos; <s> a; a and the text </s>; the token </s>; eos. Fragments don't join. */
        assert_int_equal(ids.n, 1 + 2 + 1 + 4 + 1 + 1);
        assert_int_equal(ids.ids[0], 1);
        assert_int_equal(ids.ids[1], 1);
        assert_int_equal(ids.ids[2], a);
        assert_int_equal(ids.ids[3], a);
        assert_int_equal(ids.ids[4], 3 + '<');
        assert_int_equal(ids.ids[8], 2);
        assert_int_equal(ids.ids[9], 2);
        /* It appends. */
        assert_int_equal(tok_encode(v.tok, f, 0, true, true, 0, &ids, NULL), 0);
        assert_int_equal(ids.n, 12);
        assert_int_equal(tok_encode(v.tok, f, 0, false, true, 0, &ids, NULL), 0);
        assert_int_equal(ids.n, 12);
        vocab_build_deinit(&v);
}

static void test_limits(void **state) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        struct tok_fragment f = {"aaaaa", 5, false};
        struct vocab_build v;
        struct err e = {0};
        char *large;

        build(&v);
        assert_int_equal(tok_encode(v.tok, &f, 1, false, true, 3, &ids, &e), 0);
        assert_int_equal(ids.n, 3);
        assert_int_equal(tok_encode(v.tok, &f, 1, false, true, 2, &ids, &e), -ERR_LIMIT);
        assert_int_equal(ids.n, 3);
        assert_int_equal(tok_encode(v.tok, &f, 1, true, true, 4, &ids, &e), -ERR_LIMIT);
        assert_int_equal(ids.n, 3);
        assert_int_equal(tok_encode(v.tok, &f, 1, true, true, 5, &ids, &e), 0);
        assert_int_equal(ids.n, 8);
        /* What can't fit is refused unread. */
        large = calloc(1, 100000);
        assert_non_null(large);
        f = (struct tok_fragment){large, 100000, false};
        assert_int_equal(tok_encode(v.tok, &f, 1, true, true, 100, &ids, &e), -ERR_LIMIT);
        f.size = (size_t)1 << 40;
        assert_int_equal(tok_encode(v.tok, &f, 1, true, true, 0, &ids, &e), -ERR_LIMIT);
        assert_int_equal(ids.n, 8);
        free(large);
        vocab_build_deinit(&v);
}

/* A text of the longest tokens alone is not hopeless as long as these fit. */
static void test_longest_tokens(void **state) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        const struct tok_fragment f = {"aaaaaaaaaaaaaaaa", 16, false};
        struct vocab_build v;

        vocab_build_init(&v, "llama");
        gguf_build_bool(v.file, "tokenizer.ggml.add_space_prefix", false);
        vocab_build_spm_bytes(&v);
        vocab_build_add(&v, "a", V_NORMAL, -4);
        vocab_build_add(&v, "aa", V_NORMAL, -3);
        vocab_build_add(&v, "aaaa", V_NORMAL, -2);
        vocab_build_add(&v, "aaaaaaaa", V_NORMAL, -1);
        load(&v);
        assert_int_equal(tok_encode(v.tok, &f, 1, false, true, 2, &ids, NULL), 0);
        assert_int_equal(ids.n, 2);
        assert_int_equal(tok_encode(v.tok, &f, 1, false, true, 1, &ids, NULL), -ERR_LIMIT);
        vocab_build_deinit(&v);
}

/* What encoding takes is decided by the largest fragment, wherever it stands. */
static void test_memory_of_fragments(void **state) {
        char *large = calloc(1, 100000);
        const struct tok_fragment f[] = {{"a", 1, true}, {large, 100000, true}, {"a", 1, true}};
        struct vocab_build v;

        assert_non_null(large);
        memset(large, 'a', 100000);
        build(&v);
        assert_true(tok_encode_memory(v.tok, f, 2) > tok_encode_memory(v.tok, f, 1));
        assert_int_equal(tok_encode_memory(v.tok, f, 3), tok_encode_memory(v.tok, f, 2));
        memset(large, '<', 100000);
        assert_int_equal(tok_encode_memory(v.tok, f, 3), tok_encode_memory(v.tok, f, 2));
        vocab_build_deinit(&v);
        free(large);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_fragments),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_longest_tokens),
                cmocka_unit_test(test_memory_of_fragments),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
