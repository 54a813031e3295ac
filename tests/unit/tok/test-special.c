/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

static void test_defaults(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        gguf_build_u32(v.file, "tokenizer.ggml.bos_token_id", 70000); /* outside: ignored */
        load(&v);
        assert_int_equal(tok_bos(v.tok), 1);
        assert_int_equal(tok_eos(v.tok), 2);
        assert_int_equal(tok_eot(v.tok), -1);
        assert_true(tok_add_bos(v.tok));
        assert_true(tok_is_eog(v.tok, 2));
        assert_false(tok_is_eog(v.tok, 1));
        assert_false(tok_is_eog(v.tok, -1));
        assert_false(tok_is_eog(v.tok, 70000));
        assert_true(tok_is_control(v.tok, 1));
        assert_false(tok_is_control(v.tok, 0)); /* unknown */
        assert_true(tok_is_special(v.tok, 0));
        assert_false(tok_is_special(v.tok, 3));
        vocab_build_deinit(&v);

        /* gpt2's old default, token 11, counts only if it is a control token. */
        vocab_build_init(&v, "gpt2");
        vocab_build_bpe_bytes(&v);
        load(&v);
        assert_int_equal(tok_bos(v.tok), -1);
        assert_int_equal(tok_eos(v.tok), -1);
        assert_false(tok_add_bos(v.tok));
        vocab_build_deinit(&v);
        vocab_build_init(&v, "gpt2");
        vocab_build_bpe_bytes(&v);
        v.type[11] = V_CONTROL;
        load(&v);
        assert_int_equal(tok_eos(v.tok), 11);
        assert_true(tok_is_eog(v.tok, 11));
        vocab_build_deinit(&v);
}

static void test_keys(void **state) {
        struct vocab_build v;
        struct err e;

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        gguf_build_u32(v.file, "tokenizer.ggml.bos_token_id", 5);
        gguf_build_u32(v.file, "tokenizer.ggml.eos_token_id", 6);
        gguf_build_u32(v.file, "tokenizer.ggml.eot_token_id", 7);
        gguf_build_u32(v.file, "tokenizer.ggml.eom_token_id", 8);
        gguf_build_u32(v.file, "tokenizer.ggml.fim_pad_token_id", 9);
        gguf_build_bool(v.file, "tokenizer.ggml.add_bos_token", false);
        gguf_build_bool(v.file, "tokenizer.ggml.add_eos_token", true);
        load(&v);
        assert_int_equal(tok_bos(v.tok), 5);
        assert_int_equal(tok_eos(v.tok), 6);
        assert_int_equal(tok_eot(v.tok), 7);
        assert_false(tok_add_bos(v.tok));
        for (int32_t i = 5; i < 10; i++)
                assert_int_equal(tok_is_eog(v.tok, i), i != 5);
        assert_true(tok_is_eog(v.tok, 2)); /* by its text, </s> */
        vocab_build_deinit(&v);

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        gguf_build_u32(v.file, "tokenizer.ggml.add_bos_token", 1);
        assert_int_equal(vocab_build_load(&v, &e), -ERR_FORMAT);
        vocab_build_deinit(&v);
}

static void test_texts(void **state) {
        struct vocab_build v;
        int32_t end, text_end;

        vocab_build_init(&v, "gpt2");
        vocab_build_bpe_bytes(&v);
        text_end = vocab_build_add(&v, "<|endoftext|>", V_NORMAL, 0);
        end = vocab_build_add(&v, "<|im_end|>", V_NORMAL, 0);
        load(&v);
        assert_true(tok_is_eog(v.tok, end));
        assert_true(tok_is_eog(v.tok, text_end));
        assert_true(tok_is_control(v.tok, end)); /* made so */
        assert_int_equal(tok_eot(v.tok), end);
        vocab_build_deinit(&v);

        /* Code models do not say in which key their padding stands. */
        vocab_build_init(&v, "gpt2");
        vocab_build_bpe_bytes(&v);
        text_end = vocab_build_add(&v, "<|fim_pad|>", V_CONTROL, 0);
        end = vocab_build_add(&v, "<|file_sep|>", V_CONTROL, 0);
        load(&v);
        assert_true(tok_is_eog(v.tok, end));
        assert_true(tok_is_eog(v.tok, text_end));
        assert_int_equal(tok_eot(v.tok), -1);
        vocab_build_deinit(&v);
}

static void test_harmony(void **state) {
        struct vocab_build v;
        int32_t end, ret, call, channel;

        vocab_build_init(&v, "gpt2");
        vocab_build_bpe_bytes(&v);
        end = vocab_build_add(&v, "<|end|>", V_CONTROL, 0);
        ret = vocab_build_add(&v, "<|return|>", V_CONTROL, 0);
        call = vocab_build_add(&v, "<|call|>", V_CONTROL, 0);
        channel = vocab_build_add(&v, "<|channel|>", V_CONTROL, 0);
        load(&v);
        assert_false(tok_is_eog(v.tok, end));
        assert_false(tok_is_control(v.tok, end));
        assert_false(tok_is_control(v.tok, channel));
        assert_true(tok_is_eog(v.tok, ret));
        assert_true(tok_is_eog(v.tok, call));
        vocab_build_deinit(&v);

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        vocab_build_add(&v, "<|tool_response>", V_CONTROL, 0);
        gguf_build_u32(v.file, "tokenizer.ggml.eos_token_id", 1);
        load(&v);
        assert_false(tok_is_eog(v.tok, 2));
        vocab_build_deinit(&v);
}

static void test_suppressed(void **state) {
        int32_t ids[] = {5, -1, 9, 70000, 0};
        const int32_t *got;
        struct vocab_build v;

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        load(&v);
        assert_int_equal(tok_suppressed(v.tok, &got), 0);
        ids[4] = (int32_t)tok_n_vocab(v.tok); /* the first that does not exist */
        vocab_build_deinit(&v);

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        gguf_build_i32_array(v.file, "tokenizer.ggml.suppress_tokens", ids, 5);
        load(&v);
        assert_int_equal(tok_suppressed(v.tok, &got), 2);
        assert_int_equal(got[0], 5);
        assert_int_equal(got[1], 9);
        vocab_build_deinit(&v);
}

static void test_strips(void **state) {
        struct vocab_build v;

        /* Phi-3: specials take the whitespace after them, but not <s>. */
        vocab_build_init(&v, "llama");
        gguf_build_str(v.file, "general.name", "My Phi3 mini");
        gguf_build_bool(v.file, "tokenizer.ggml.add_space_prefix", false);
        vocab_build_spm_bytes(&v);
        vocab_build_add(&v, "<|end|>", V_CONTROL, 0);
        vocab_build_add(&v, "a", V_NORMAL, 0);
        vocab_build_add(&v, "\xe2\x96\x81", V_NORMAL, 0);
        load(&v);
        assert_tokens(v.tok, "<|end|> \n a<s> a </s> ", true,
                "<|end|>|a|<s>|\xe2\x96\x81|a|\xe2\x96\x81|</s>");
        vocab_build_deinit(&v);

        vocab_build_init(&v, "gpt2");
        gguf_build_str(v.file, "tokenizer.ggml.pre", "jina-v2-code");
        vocab_build_bpe_bytes(&v);
        vocab_build_add(&v, "<mask>", V_CONTROL, 0);
        load(&v);
        assert_tokens(v.tok, "a \n<mask> a", true, "a|<mask>|\xc4\xa0|a");
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_keys),
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_harmony),
                cmocka_unit_test(test_suppressed),
                cmocka_unit_test(test_strips),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
