/* SPDX-License-Identifier: MIT */
/* Every allocation of loading and of encoding fails once: an error, nothing leaked or changed. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/buf.h"
#include "fault/loop.h"
#include "unit/tok/vocab-build.h"
#include "util/test.h"

#define MAX_ALLOCATIONS 5000

static void check_load(const struct vocab_build *v) {
        struct fault_loop loop = {.at_least = 1, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct tok *t = NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = tok_new(&t, v->gguf, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                assert_int_equal(!!t, r == 0);
                tok_free(t);
        }
}

static void check_encode(const struct vocab_build *v) {
        const char *text = "aab bb <s> 123 \xff\xc3\xa9 'll <u> and so on, for a while";
        const struct tok_fragment f[] = {{text, strlen(text), true}, {text, strlen(text), false}};
        struct fault_loop loop = {.at_least = 1, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct tok_ids ids = TOK_IDS_NULL;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = tok_encode(v->tok, f, 2, true, true, 0, &ids, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                if (r == 0)
                        assert_true(ids.n > 20);
                else
                        assert_int_equal(ids.n, 0);
                tok_ids_deinit(&ids);
        }
}

static void check_stream(const struct vocab_build *v, int32_t token) {
        struct fault_loop loop = {.at_least = 1, .at_most = MAX_ALLOCATIONS};

        while (fault_loop_next(&loop)) {
                struct buf b = BUF_NULL;
                struct tok_stream s;
                int r;

                tok_stream_init(&s, v->tok, true, true);
                fault_loop_arm(&loop);
                r = tok_stream_push(&s, v->tok, token, &b);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, NULL);
                assert_int_equal(b.size > 0, r == 0);
                buf_deinit(&b);
        }
}

static void check(struct vocab_build *v) {
        char text[801];
        int32_t token;
        struct err e;

        memset(text, 'y', 800);
        text[800] = 0;
        token = vocab_build_add(v, text, V_CONTROL, 0);
        vocab_build_add(v, "<u>", V_USER_DEFINED, 0);
        vocab_build_add(v, "aa", V_NORMAL, -1);
        gguf_build_u32_array(v->file, "tokenizer.ggml.suppress_tokens", (uint32_t[]){1, 2}, 2);
        if (vocab_build_load(v, &e) < 0)
                fail_msg("%s", e.msg);
        check_load(v);
        check_encode(v);
        check_stream(v, token);
        vocab_build_deinit(v);
}

static void test_spm(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "llama");
        vocab_build_spm_bytes(&v);
        check(&v);
}

static void test_bpe(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "gpt2");
        gguf_build_str(v.file, "tokenizer.ggml.pre", "deepseek-llm");
        vocab_build_bpe_bytes(&v);
        vocab_build_merge(&v, "a a");
        vocab_build_merge(&v, "b b"); /* not a token */
        vocab_build_add(&v, "<s>", V_CONTROL, 0);
        check(&v);
}

static void test_bpe_raw(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "gemma4");
        vocab_build_spm_bytes(&v);
        vocab_build_merge(&v, "a a");
        vocab_build_merge(&v, "b b"); /* not a token */
        check(&v);
}

static void test_unigram(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "t5");
        vocab_build_spm_bytes(&v);
        vocab_build_add(&v, "\xe2\x96\x81", V_NORMAL, -2);
        check(&v);
}

static void test_rwkv(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "rwkv");
        for (const char *p = "aby0123lsoandfrwhe <u>'"; *p; p++)
                vocab_build_add(&v, (char[]){*p, 0}, V_NORMAL, 0);
        vocab_build_add(&v, "<s>", V_CONTROL, 0);
        check(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_spm),
                cmocka_unit_test(test_bpe),
                cmocka_unit_test(test_bpe_raw),
                cmocka_unit_test(test_unigram),
                cmocka_unit_test(test_rwkv),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
