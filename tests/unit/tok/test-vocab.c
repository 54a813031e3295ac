/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

#include <math.h>

static void assert_fails(struct vocab_build *v, int code, const char *what) {
        struct err e = {0};

        assert_int_equal(vocab_build_load(v, &e), -code);
        if (!strstr(e.msg, what))
                fail_msg("\"%s\" does not say \"%s\"", e.msg, what);
        assert_null(v->tok);
        vocab_build_deinit(v);
}

static void test_models(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, NULL);
        vocab_build_spm_bytes(&v);
        assert_fails(&v, ERR_FORMAT, "tokenizer.ggml.model");
        vocab_build_init(&v, "bert");
        vocab_build_spm_bytes(&v);
        assert_fails(&v, ERR_UNSUPPORTED,
                "\"bert\" is not supported; supported are llama (SPM), gpt2 (BPE)");
        vocab_build_init(&v, "\x01 a name longer than any that is worth printing in a message");
        vocab_build_spm_bytes(&v);
        assert_fails(&v, ERR_UNSUPPORTED, "\"? a name longer");
        vocab_build_init(&v, "llama");
        assert_fails(&v, ERR_FORMAT, "tokenizer.ggml.tokens");
}

static void test_arrays(void **state) {
        const float not_a_number[] = {0, NAN};
        const int32_t types[] = {1, 1, 1};
        const char *const texts[] = {"a", "b"};
        const float scores[] = {0, -1};
        struct vocab_build v;

        vocab_build_init(&v, "llama");
        gguf_build_str_array(v.file, "tokenizer.ggml.tokens", texts, 2);
        assert_fails(&v, ERR_FORMAT, "needs tokenizer.ggml.scores");

        vocab_build_init(&v, "llama");
        gguf_build_str_array(v.file, "tokenizer.ggml.tokens", texts, 2);
        gguf_build_f32_array(v.file, "tokenizer.ggml.scores", scores, 1);
        assert_fails(&v, ERR_FORMAT, "array of 2 floats");

        vocab_build_init(&v, "llama");
        gguf_build_str_array(v.file, "tokenizer.ggml.tokens", texts, 2);
        gguf_build_f32_array(v.file, "tokenizer.ggml.scores", not_a_number, 2);
        assert_fails(&v, ERR_FORMAT, "not a number");

        vocab_build_init(&v, "llama");
        gguf_build_str_array(v.file, "tokenizer.ggml.tokens", texts, 2);
        gguf_build_f32_array(v.file, "tokenizer.ggml.scores", scores, 2);
        gguf_build_i32_array(v.file, "tokenizer.ggml.token_type", types, 3);
        assert_fails(&v, ERR_FORMAT, "array of 2 integers");

        vocab_build_init(&v, "llama");
        gguf_build_u32_array(v.file, "tokenizer.ggml.tokens", (const uint32_t *)types, 3);
        assert_fails(&v, ERR_FORMAT, "array of strings");

        /* Without types all tokens are normal. */
        vocab_build_init(&v, "llama");
        gguf_build_str_array(v.file, "tokenizer.ggml.tokens", texts, 2);
        gguf_build_f32_array(v.file, "tokenizer.ggml.scores", scores, 2);
        load(&v);
        assert_int_equal(tok_n_vocab(v.tok), 2);
        /* The bytes of the space have no token: unk, which is 0. */
        assert_tokens(v.tok, "ab", false, "a|a|a|a|b");
        vocab_build_deinit(&v);
}

static void test_types(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "llama");
        vocab_build_add(&v, "a", 7, 0);
        assert_fails(&v, ERR_FORMAT, "unknown type 7");
        vocab_build_init(&v, "llama");
        vocab_build_add(&v, "a", -1, 0);
        assert_fails(&v, ERR_FORMAT, "unknown type -1");
}

static void test_long_texts(void **state) {
        char *text = malloc(70001);
        struct vocab_build v;

        assert_non_null(text);
        memset(text, 'x', 70000);
        text[70000] = 0;
        vocab_build_init(&v, "llama");
        vocab_build_add(&v, text, V_NORMAL, 0);
        assert_fails(&v, ERR_LIMIT, "70000 bytes");
        text[1025] = 0;
        vocab_build_init(&v, "llama");
        vocab_build_add(&v, text, V_CONTROL, 0);
        assert_fails(&v, ERR_LIMIT, "1025 bytes");
        free(text);
}

static void test_find(void **state) {
        struct vocab_build v;
        int32_t first, second, empty;
        const char *s;
        size_t n;

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        first = vocab_build_add(&v, "twin", V_NORMAL, -1);
        second = vocab_build_add(&v, "twin", V_NORMAL, -2);
        empty = vocab_build_add(&v, "", V_NORMAL, -3);
        load(&v);
        assert_true(first < second);
        assert_int_equal(tok_find(v.tok, "twin", 4), second);
        assert_int_equal(tok_find(v.tok, "twin", 3), -1);
        assert_int_equal(tok_find(v.tok, "", 0), -1);
        assert_int_equal(tok_find(v.tok, "</s>", 4), 2);
        assert_int_equal(tok_piece(v.tok, empty, true, NULL, 0), 0);
        s = tok_text(v.tok, first, &n);
        assert_int_equal(n, 4);
        assert_memory_equal(s, "twin", 4);
        tok_text(v.tok, -1, &n);
        assert_int_equal(n, 0);
        tok_text(v.tok, (int32_t)tok_n_vocab(v.tok), &n);
        assert_int_equal(n, 0);
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_models),
                cmocka_unit_test(test_arrays),
                cmocka_unit_test(test_types),
                cmocka_unit_test(test_long_texts),
                cmocka_unit_test(test_find),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
