/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

#define U "\xe2\x96\x81" /* the space as Gemma writes it */

static void add_merge(struct vocab_build *v, const char *left, const char *right, bool token) {
        char text[256];

        snprintf(text, sizeof(text), "%s %s", left, right);
        vocab_build_merge(v, text);
        snprintf(text, sizeof(text), "%s%s", left, right);
        if (token)
                vocab_build_add(v, text, V_NORMAL, 0);
}

static void build(struct vocab_build *v, const char *model, const char *pre) {
        vocab_build_init(v, model);
        if (pre)
                gguf_build_str(v->file, "tokenizer.ggml.pre", pre);
        vocab_build_spm_bytes(v);
        for (const char *p = "abcehlotx\n <>"; *p; p++)
                vocab_build_add(v, (char[]){*p, 0}, V_NORMAL, 0);
        vocab_build_add(v, U, V_NORMAL, 0);
        vocab_build_add(v, "\xc3\xa9", V_NORMAL, 0);
}

static void test_gemma4(void **state) {
        struct vocab_build v;

        build(&v, "gemma4", NULL);
        gguf_build_u32(v.file, "tokenizer.ggml.bos_token_id", 1);
        gguf_build_bool(v.file, "tokenizer.ggml.add_bos_token", false);
        add_merge(&v, "h", "e", true);
        add_merge(&v, U, "t", true);
        add_merge(&v, U "t", "he", true);
        add_merge(&v, U, U, true);
        add_merge(&v, "\xc3\xa9", "a", true);
        add_merge(&v, "\n", "\n", false);
        vocab_build_add(&v, "\n\n\n", V_NORMAL, 0);
        load(&v);
        assert_string_equal(tok_model_name(v.tok), "gemma4");
        assert_string_equal(tok_pre_name(v.tok), "gemma4");
        assert_true(tok_add_bos(v.tok)); /* whatever the file says */
        for (int i = 0; i < 2; i++) {
                assert_tokens(v.tok, "", false, "");
                assert_tokens(v.tok, "the", false, "t|he"); /* no space is put in front */
                assert_tokens(v.tok, " the the", false, U "the|" U "the");
                assert_tokens(v.tok, "  the", false, U "|" U "the");
                assert_tokens(v.tok,
                        "\xc3\xa9"
                        "a",
                        false,
                        "\xc3\xa9"
                        "a");
        }
        /* A run of newlines is a token though no merges make it; other newlines are merged. */
        assert_tokens(v.tok, "a\n\n\nb", false, "a|\n\n\n|b");
        assert_tokens(v.tok, "\n\n", false, "<0x0A>|<0x0A>");
        assert_tokens(v.tok, "a\nb", false, "a|\n|b");
        assert_tokens(v.tok, " \n", false, U "|\n");
        /* Characters and bytes without a token. */
        assert_tokens(v.tok, "\xe4\xb8\xad", false, "<0xE4>|<0xB8>|<0xAD>");
        assert_tokens(v.tok, "a\xff\xc3 ", false, "a|<0xFF>|<0xC3>|" U);
        /* The text of a byte token is text, and that of a control token too. */
        assert_tokens(v.tok, "<0x0A>", false, "<|<0x30>|x|<0x30>|<0x41>|>");
        assert_tokens(v.tok, "</s>", false, "<|<0x2F>|<0x73>|>");
        assert_tokens(v.tok, "</s>", true, "</s>");
        vocab_build_deinit(&v);
}

static void test_escape(void **state) {
        struct vocab_build v;
        char piece[16];
        int32_t id;

        build(&v, "gpt2", "sarvam-moe");
        id = vocab_build_add(&v, U "a" U, V_NORMAL, 0);
        load(&v);
        assert_string_equal(tok_model_name(v.tok), "gpt2");
        assert_false(tok_add_bos(v.tok));
        assert_int_equal(tok_piece(v.tok, id, false, piece, sizeof(piece)), 3);
        assert_memory_equal(piece, " a ", 3);
        assert_int_equal(tok_piece(v.tok, 3 + 0xe4, false, piece, sizeof(piece)), 1);
        assert_int_equal((uint8_t)piece[0], 0xe4);
        vocab_build_deinit(&v);

        /* "whitespace" leaves spaces as they are, and cuts at them. */
        build(&v, "gpt2", "whitespace");
        add_merge(&v, "a", " b", true); /* a token may hold a space */
        add_merge(&v, "h", "e", true);
        id = vocab_build_add(&v, U "a", V_NORMAL, 0);
        load(&v);
        assert_tokens(v.tok, "he he\n", false, "he| |he|\n");
        assert_tokens(v.tok, "a b", false, "a| |b");
        assert_int_equal(tok_piece(v.tok, id, false, piece, sizeof(piece)), 4);
        vocab_build_deinit(&v);
}

static void test_refused(void **state) {
        struct vocab_build v;
        struct err e;

        build(&v, "gemma4", "llama-bpe");
        assert_int_equal(vocab_build_load(&v, &e), -ERR_UNSUPPORTED);
        assert_non_null(strstr(e.msg, "\"llama-bpe\""));
        vocab_build_deinit(&v);
        build(&v, "gemma4", NULL);
        vocab_build_merge(&v, "ab");
        assert_int_equal(vocab_build_load(&v, &e), -ERR_FORMAT);
        vocab_build_deinit(&v);
}

/* Characters that are no token but make one. */
static void test_symbols_without_token(void **state) {
        struct vocab_build v;

        build(&v, "gemma4", NULL);
        add_merge(&v, "\xc3\xb6", "\xc3\xb6", false);
        add_merge(&v, "\xc3\xb6\xc3\xb6", "x", true);
        load(&v);
        assert_tokens(v.tok, "\xc3\xb6\xc3\xb6x", false, "\xc3\xb6\xc3\xb6x");
        assert_tokens(v.tok, "\xc3\xb6\xc3\xb6", false, "<0xC3>|<0xB6>|<0xC3>|<0xB6>");
        vocab_build_deinit(&v);
}

/* Any bytes come back, but for U+2581, which is a space. */
static void test_any_bytes(void **state) {
        uint64_t x = 7;
        struct vocab_build v;

        build(&v, "gemma4", NULL);
        add_merge(&v, "\xc3\xa9", "a", true);
        add_merge(&v, U, U, true);
        load(&v);
        for (unsigned round = 0; round < 300; round++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                char text[80], back[256];
                size_t n = test_random(&x) % sizeof(text), size = 0;

                for (size_t i = 0; i < n; i++)
                        text[i] = test_random(&x) % 3 ? "a\xc3\xa9 \xff\n"[test_random(&x) % 6]
                                                      : (char)(test_random(&x) % 0xe2);
                encode(v.tok, text, n, false, &ids);
                for (size_t i = 0; i < ids.n; i++)
                        size += tok_piece(
                                v.tok, ids.ids[i], false, back + size, sizeof(back) - size);
                assert_int_equal(size, n);
                assert_memory_equal(back, text, n);
        }
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_gemma4),
                cmocka_unit_test(test_escape),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_symbols_without_token),
                cmocka_unit_test(test_any_bytes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
