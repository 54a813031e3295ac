/* SPDX-License-Identifier: MIT */
/* Unigram against what SentencePiece makes of the same texts (make-unigram.py), and small cases. */
#include <math.h>

#include "unit/tok/tok-test.h"
#include "unit/tok/unigram-data.h"

#define U "\xe2\x96\x81" /* the space */
#define N(a) (sizeof(a) / sizeof((a)[0]))

static void build(struct vocab_build *v, bool merge_spaces) {
        vocab_build_init(v, "t5");
        gguf_build_bool(v->file, "tokenizer.ggml.add_space_prefix", true);
        gguf_build_bool(v->file, "tokenizer.ggml.remove_extra_whitespaces", merge_spaces);
}

static void check_cases(bool merge_spaces, const struct unigram_token *tokens, size_t n_tokens,
        const struct unigram_case *cases, size_t n_cases, const int32_t *ids) {
        struct vocab_build v;

        build(&v, merge_spaces);
        gguf_build_u8_array(
                v.file, "tokenizer.ggml.precompiled_charsmap", charsmap, sizeof(charsmap));
        gguf_build_u32(v.file, "tokenizer.ggml.unknown_token_id", 0);
        for (size_t i = 0; i < n_tokens; i++)
                vocab_build_add(&v, tokens[i].text, tokens[i].type, tokens[i].score);
        load(&v);
        for (size_t i = 0; i < n_cases; i++) {
                _cleanup_(tok_ids_deinit) struct tok_ids got = TOK_IDS_NULL;

                encode(v.tok, cases[i].text, cases[i].size, false, &got);
                for (size_t k = 0; k < got.n && k < cases[i].n; k++)
                        if (got.ids[k] != ids[cases[i].start + k])
                                fail_msg("case %zu \"%s\": token %zu is %d, not %d", i,
                                        cases[i].text, k, got.ids[k], ids[cases[i].start + k]);
                if (got.n != cases[i].n)
                        fail_msg("case %zu \"%s\": %zu tokens, not %u", i, cases[i].text, got.n,
                                cases[i].n);
        }
        vocab_build_deinit(&v);
}

static void test_sentencepiece(void **state) {
        check_cases(true, plain_tokens, N(plain_tokens), plain_cases, N(plain_cases), plain_ids);
}

/* With byte tokens for what is unknown, and all spaces kept. */
static void test_sentencepiece_bytes(void **state) {
        check_cases(false, bytes_tokens, N(bytes_tokens), bytes_cases, N(bytes_cases), bytes_ids);
}

static void test_scores(void **state) {
        struct vocab_build v;

        build(&v, true);
        vocab_build_add(&v, "<pad>", V_CONTROL, 0);
        vocab_build_add(&v, "</s>", V_CONTROL, 0);
        vocab_build_add(&v, "<unk>", V_UNKNOWN, 0);
        vocab_build_add(&v, U, V_NORMAL, -2);
        vocab_build_add(&v, "a", V_NORMAL, -3);
        vocab_build_add(&v, "ab", V_NORMAL, -4);
        vocab_build_add(&v, "b", V_NORMAL, -3);
        vocab_build_add(&v, "bc", V_NORMAL, -1);
        vocab_build_add(&v, "abc", V_NORMAL, -9);
        vocab_build_add(&v, "c", V_NORMAL, -1);
        vocab_build_add(&v, "cc", V_NORMAL, -2);       /* as good as two c, and longer */
        vocab_build_add(&v, "d", V_NORMAL, -INFINITY); /* counts as none */
        vocab_build_add(&v, "e", V_UNUSED, 0);
        vocab_build_add(&v, "fgh", V_NORMAL, -12); /* fgh; f, g, h are unknown */
        load(&v);
        assert_string_equal(tok_model_name(v.tok), "t5");
        assert_string_equal(tok_pre_name(v.tok), "");
        assert_int_equal(tok_eos(v.tok), 1);
        assert_int_equal(tok_bos(v.tok), -1);
        assert_false(tok_add_bos(v.tok));
        assert_tokens(v.tok, "", false, "");
        assert_tokens(v.tok, "abc", false, U "|a|bc"); /* -4; ab|c is -5, abc -9 */
        assert_tokens(v.tok, "ab", false, U "|ab");
        assert_tokens(v.tok, "cc", false, U "|cc");
        assert_tokens(v.tok, "d e", false, U "|<unk>|" U "|<unk>");
        assert_tokens(v.tok, "fgh", false, U "|fgh");
        assert_tokens(v.tok, "fg", false, U "|<unk>"); /* two unknown are one */
        assert_tokens(v.tok, "faf", false, U "|<unk>|a|<unk>");
        assert_tokens(v.tok, "\xff\xe4\xb8", false, U "|<unk>");
        assert_tokens(v.tok, "</s>", true, "</s>");
        assert_tokens(v.tok, "a </s> b", true, U "|a|</s>|" U "|b");
        vocab_build_deinit(&v);
}

/* eos comes after all, unless the file says otherwise. */
static void test_eos(void **state) {
        for (int off = 0; off < 2; off++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                const struct tok_fragment f = {"a", 1, false};
                struct vocab_build v;

                build(&v, true);
                if (off)
                        gguf_build_bool(v.file, "tokenizer.ggml.add_eos_token", false);
                vocab_build_add(&v, U "a", V_NORMAL, -1);
                vocab_build_add(&v, "</s>", V_CONTROL, 0);
                load(&v);
                assert_int_equal(tok_encode(v.tok, &f, 1, true, true, 0, &ids, NULL), 0);
                assert_int_equal(ids.n, off ? 1 : 2);
                assert_int_equal(ids.ids[0], 0);
                assert_true(off || ids.ids[1] == 1);
                vocab_build_deinit(&v);
        }
}

/* A text that goes on from an earlier one keeps one space, and gets none. */
static void test_fragments(void **state) {
        const struct tok_fragment f[] = {{"a", 1, false}, {"  a ", 4, false}, {"a", 1, false}};
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        struct vocab_build v;

        build(&v, true);
        vocab_build_add(&v, U "a", V_NORMAL, -1);
        vocab_build_add(&v, "a", V_NORMAL, -1);
        vocab_build_add(&v, "<unk>", V_UNKNOWN, -1);
        load(&v);
        assert_int_equal(tok_encode(v.tok, f, 3, false, true, 0, &ids, NULL), 0);
        assert_int_equal(ids.n, 3);
        assert_int_equal(ids.ids[0], 0);
        assert_int_equal(ids.ids[1], 0);
        assert_int_equal(ids.ids[2], 1);
        decode(v.tok, ids.ids, ids.n, true, false, &text);
        assert_int_equal(text.size, 4);
        assert_memory_equal(text.data, "a aa", 4);
        vocab_build_deinit(&v);
}

static void test_bad_files(void **state) {
        static const uint8_t maps[][12] = {
                {255, 255, 255, 255, 0, 0, 0, 0, 0},
                {3, 0, 0, 0, 1, 2, 3, 0, 0},
                {0, 0, 0, 0, 0, 0, 0, 0, 0},
                {4, 0, 0, 0, 0, 0, 0, 0, 'x', 'y', 'z', 'w'},
                {8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        };
        struct vocab_build v;
        struct err e;

        for (size_t i = 0; i < N(maps); i++) {
                build(&v, true);
                vocab_build_add(&v, "a", V_NORMAL, 0);
                gguf_build_u8_array(v.file, "tokenizer.ggml.precompiled_charsmap", maps[i], 12);
                assert_int_equal(vocab_build_load(&v, &e), -ERR_FORMAT);
                assert_non_null(strstr(e.msg, "precompiled_charsmap"));
                vocab_build_deinit(&v);
        }
        build(&v, true);
        vocab_build_add(&v, "a", V_NORMAL, 0);
        gguf_build_str(v.file, "tokenizer.ggml.precompiled_charsmap", "abcd");
        assert_int_equal(vocab_build_load(&v, &e), -ERR_FORMAT);
        vocab_build_deinit(&v);
}

/* A double array of noise: paths end, and every text is tokenised. */
static void test_any_charsmap(void **state) {
        uint64_t x = 5;

        for (int round = 0; round < 200; round++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                uint8_t map[4 + 256 * 4 + 32];
                struct vocab_build v;
                char text[200];

                for (size_t i = 0; i < sizeof(map); i++)
                        map[i] = (uint8_t)test_random(&x);
                memcpy(map, (uint8_t[]){0, 4, 0, 0}, 4);
                /* Small offsets, and labels that are met. */
                for (size_t i = 0; i < 256; i++)
                        memcpy(map + 4 + i * 4, (uint8_t[]){(uint8_t)test_random(&x), 1, 0, 0}, 3);
                map[sizeof(map) - 1] = 0;
                for (size_t i = 0; i < sizeof(text); i++)
                        text[i] = (char)test_random(&x);
                build(&v, round % 2);
                gguf_build_u8_array(
                        v.file, "tokenizer.ggml.precompiled_charsmap", map, sizeof(map));
                vocab_build_add(&v, "a", V_NORMAL, 0);
                vocab_build_add(&v, "<unk>", V_UNKNOWN, 0);
                vocab_build_add(&v, U, V_NORMAL, 0);
                load(&v);
                encode(v.tok, text, sizeof(text), false, &ids);
                vocab_build_deinit(&v);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sentencepiece),
                cmocka_unit_test(test_sentencepiece_bytes),
                cmocka_unit_test(test_scores),
                cmocka_unit_test(test_eos),
                cmocka_unit_test(test_fragments),
                cmocka_unit_test(test_bad_files),
                cmocka_unit_test(test_any_charsmap),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
