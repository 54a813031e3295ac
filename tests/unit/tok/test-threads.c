/* SPDX-License-Identifier: MIT */
/* Threads that share one tokenizer get the tokens that one alone gets, and learn the same of it. */
#include <pthread.h>

#include "unit/tok/tok-test.h"

#define N_THREADS 4
#define N_ROUNDS 200

static const char text[] = "abab aab abba aaaa bb abc cab \xc3\xa9 12345 ab abab\n\n  a";

struct shared {
        const struct tok *tok;
        const struct tok_ids *want;
};

static void *encode_often(void *userdata) {
        const struct shared *s = userdata;
        uintptr_t n_wrong = 0;

        for (int i = 0; i < N_ROUNDS; i++) {
                const struct tok_fragment f = {text, sizeof(text) - 1, false};
                struct tok_ids ids = TOK_IDS_NULL;

                if (tok_encode(s->tok, &f, 1, false, true, 0, &ids, NULL) < 0 ||
                        ids.n != s->want->n ||
                        memcmp(ids.ids, s->want->ids, ids.n * sizeof(*ids.ids)) != 0)
                        n_wrong++;
                tok_ids_deinit(&ids);
        }
        return (void *)n_wrong;
}

static void build(struct vocab_build *v, const char *model) {
        vocab_build_init(v, model);
        if (strcmp(model, "gpt2") == 0)
                vocab_build_bpe_bytes(v);
        else
                vocab_build_spm_bytes(v);
        for (const char *p = "abc"; *p; p++)
                vocab_build_add(v, (char[]){*p, 0}, V_NORMAL, -3);
        vocab_build_add(v, "ab", V_NORMAL, -1);
        vocab_build_add(v, "aa", V_NORMAL, -2);
        vocab_build_add(v, "abab", V_NORMAL, -4);
        vocab_build_add(v, "abba", V_NORMAL, -5); /* no merges make it */
        vocab_build_merge(v, "a b");
        vocab_build_merge(v, "a a");
        vocab_build_merge(v, "ab ab");
        load(v);
}

static void test_same_tokens(void **state) {
        static const char *const models[] = {"gpt2", "llama", "gemma4", "t5"};

        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
                _cleanup_(tok_ids_deinit) struct tok_ids want = TOK_IDS_NULL;
                struct vocab_build alone, v;
                pthread_t threads[N_THREADS];
                struct shared s;

                build(&alone, models[i]);
                encode(alone.tok, text, sizeof(text) - 1, false, &want);
                build(&v, models[i]); /* has learned nothing yet */
                s = (struct shared){v.tok, &want};
                for (size_t k = 0; k < N_THREADS; k++)
                        assert_int_equal(pthread_create(&threads[k], NULL, encode_often, &s), 0);
                for (size_t k = 0; k < N_THREADS; k++) {
                        void *n_wrong;

                        assert_int_equal(pthread_join(threads[k], &n_wrong), 0);
                        assert_null(n_wrong);
                }
                vocab_build_deinit(&alone);
                vocab_build_deinit(&v);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_tokens)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
