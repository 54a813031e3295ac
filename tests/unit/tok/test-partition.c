/* SPDX-License-Identifier: MIT */
#include "unit/tok/tok-test.h"

static void test_rules(void **state) {
        struct vocab_build v;

        vocab_build_init(&v, "gpt2");
        vocab_build_bpe_bytes(&v);
        vocab_build_add(&v, "<|im_end|>", V_CONTROL, 0);
        vocab_build_add(&v, "<|im_start|>", V_CONTROL, 0);
        vocab_build_add(&v, "<u>", V_USER_DEFINED, 0);
        vocab_build_add(&v, "<u><u>", V_USER_DEFINED, 0);
        vocab_build_add(&v, "[UNK]", V_UNKNOWN, 0);
        vocab_build_add(&v, "xx", V_UNUSED, 0);
        load(&v);
        /* Control tokens only on request, user-defined ones always. */
        assert_tokens(v.tok, "a<|im_end|>", false, "a|<|||i|m|_|e|n|d|||>");
        assert_tokens(v.tok, "a<|im_end|>", true, "a|<|im_end|>");
        assert_tokens(v.tok, "a<u>b", false, "a|<u>|b");
        assert_tokens(v.tok, "[UNK]", false, "[|U|N|K|]");
        assert_tokens(v.tok, "[UNK]", true, "[UNK]");
        assert_tokens(v.tok, "xx", true, "x|x");
        /* The longest text first, each from the left. */
        assert_tokens(v.tok, "<u><u><u>", false, "<u><u>|<u>");
        assert_tokens(
                v.tok, "<|im_start|><|im_end|><|im_", true, "<|im_start|>|<|im_end|>|<|||i|m|_");
        vocab_build_deinit(&v);
}

/* The rule as it is stated: token by token, the longest first. */
struct naive {
        int32_t id[64]; /* per byte: the token that begins here; -1 text, -2 inside a token */
};

static void naive_partition(
        const struct vocab_build *v, const char *text, size_t n, struct naive *ret) {
        for (size_t i = 0; i < n; i++)
                ret->id[i] = -1;
        for (size_t size = n; size > 0; size--)
                for (size_t at = 0; at + size <= n; at++)
                        for (size_t id = 256; id < v->n; id++) {
                                bool free = true;

                                if (strlen(v->text[id]) != size ||
                                        memcmp(v->text[id], text + at, size) != 0)
                                        continue;
                                for (size_t k = at; k < at + size; k++)
                                        free = free && ret->id[k] == -1;
                                if (!free)
                                        continue;
                                for (size_t k = at; k < at + size; k++)
                                        ret->id[k] = -2;
                                ret->id[at] = (int32_t)id;
                        }
}

static void test_random_texts(void **state) {
        uint64_t x = 88172645463325252u;

        for (unsigned round = 0; round < 60; round++) {
                _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
                struct vocab_build v;

                vocab_build_init(&v, "gpt2");
                vocab_build_bpe_bytes(&v);
                for (unsigned i = 0; i < 12; i++) {
                        char text[8] = {0};
                        unsigned n = 1 + test_random(&x) % 6;

                        for (unsigned k = 0; k < n; k++)
                                text[k] = "abc"[test_random(&x) % 3];
                        for (size_t k = 256; k < v.n; k++)
                                if (strcmp(v.text[k], text) == 0)
                                        n = 0;
                        if (n > 0)
                                vocab_build_add(&v, text, V_USER_DEFINED, 0);
                }
                load(&v);
                for (unsigned k = 0; k < 60; k++) {
                        struct naive want;
                        char text[64];
                        size_t n = 1 + test_random(&x) % 60, got = 0;

                        for (size_t i = 0; i < n; i++)
                                text[i] = "abcd"[test_random(&x) % 4];
                        naive_partition(&v, text, n, &want);
                        encode(v.tok, text, n, false, &ids);
                        for (size_t i = 0; i < n; i++) {
                                int32_t id = want.id[i];

                                if (id == -2)
                                        continue;
                                if (id == -1) {
                                        char one[2] = {text[i], 0};

                                        id = tok_find(v.tok, one, 1);
                                }
                                assert_true(got < ids.n);
                                assert_int_equal(ids.ids[got++], id);
                        }
                        assert_int_equal(got, ids.n);
                }
                vocab_build_deinit(&v);
        }
}

/* Many specials of many sizes, and a text full of beginnings of them. */
static void test_no_stall(void **state) {
        _cleanup_(tok_ids_deinit) struct tok_ids ids = TOK_IDS_NULL;
        _cleanup_(freep) char *text = malloc(1 << 18);
        struct vocab_build v;

        assert_non_null(text);
        vocab_build_init(&v, "gpt2");
        vocab_build_bpe_bytes(&v);
        for (unsigned i = 0; i < 2000; i++) {
                char name[128];

                memset(name, '<', sizeof(name));
                snprintf(name + 20 + i % 90, 16, "%05u>", i);
                vocab_build_add(&v, name, V_USER_DEFINED, 0);
        }
        load(&v);
        memset(text, '<', 1 << 18);
        encode(v.tok, text, 1 << 18, false, &ids);
        assert_int_equal(ids.n, 1 << 18);
        vocab_build_deinit(&v);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rules),
                cmocka_unit_test(test_random_texts),
                cmocka_unit_test(test_no_stall),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
