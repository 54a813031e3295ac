/* SPDX-License-Identifier: MIT */
/*
 * tok_encode_memory() against what encoding really allocates: never less, for any kind of text, and
 * no part of the text's size where no token reaches across its words.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fault/count.h"
#include "unit/tok/vocab-build.h"
#include "util/test.h"

#define SIZE ((size_t)96 << 10)

static const char *const parts[] = {"a", "the cat ", "the ", " ", "  ", "1", "12345 ", "a1", "<s>",
        "<s>a", "<u><u>", "<", "<u>the ", "\xff", "\xe2\x96\x81", "\xe2", "\n", "\xc3\xa9x",
        "a,b."};

static void add(struct vocab_build *v, const char *left, const char *right, bool merge) {
        char text[64];

        snprintf(text, sizeof(text), "%s %s", left, right);
        if (merge)
                vocab_build_merge(v, text);
        snprintf(text, sizeof(text), "%s%s", left, right);
        vocab_build_add(v, text, V_NORMAL, -(float)strlen(text));
}

static void build(struct vocab_build *v, const char *model, const char *pre) {
        bool merges = strcmp(model, "gpt2") == 0 || strcmp(model, "gemma4") == 0;

        vocab_build_init(v, model);
        if (pre)
                gguf_build_str(v->file, "tokenizer.ggml.pre", pre);
        if (strcmp(model, "gpt2") == 0)
                vocab_build_bpe_bytes(v);
        else
                vocab_build_spm_bytes(v);
        for (unsigned i = 0; strcmp(model, "rwkv") == 0 && i < 256; i++) {
                char text[8];

                snprintf(text, sizeof(text), "\\x%02x", i);
                vocab_build_add(v, text, V_NORMAL, 0);
        }
        if (strcmp(model, "llama") == 0) {
                vocab_build_add(v, "a", V_NORMAL, -1);
                add(v, "\xe2\x96\x81", "\xe2\x96\x81", false);
        }
        vocab_build_add(v, "<s>", V_CONTROL, 0);
        vocab_build_add(v, "<u>", V_USER_DEFINED, 0);
        add(v, "a", "a", merges);
        add(v, "aa", "aa", merges);
        add(v, "t", "h", merges);
        add(v, "th", "e", merges);
        add(v, "1", "2", merges);
}

static int count_token(void *userdata, int32_t token, struct err *e) {
        ++*(size_t *)userdata;
        return 0;
}

/* What encoding takes at most while it lasts. */
static size_t measure(const struct tok *t, const struct tok_fragment *f) {
        size_t n = 0, before = count_live();
        struct tok_sink sink = {.put = count_token, .userdata = &n};

        count_begin(NULL);
        assert_int_equal(tok_encode_each(t, f, 1, true, true, &sink, NULL), 0);
        assert_true(n > 0);
        assert_int_equal(count_live(), before);
        return count_peak() - before;
}

/* The same for a text of which every other range is trusted. */
static void check_trusted(const struct tok *t, const char *text, const char *part) {
        enum { N = 200 };
        static struct tok_range trusted[N];
        size_t before, took, told = tok_encode_trusted_memory(t, text, SIZE, N);
        struct tok_ids ids = {.capacity = 4 * SIZE};

        ids.ids = malloc(ids.capacity * sizeof(*ids.ids));
        assert_non_null(ids.ids);
        for (size_t i = 0; i < N; i++)
                trusted[i] = (struct tok_range){i * (SIZE / N), SIZE / N / 2};
        before = count_live();
        count_begin(NULL);
        assert_int_equal(tok_encode_trusted(t, text, SIZE, trusted, N, true, 0, &ids, NULL), 0);
        assert_int_equal(ids.capacity, 4 * SIZE);
        assert_int_equal(count_live(), before);
        took = count_peak() - before;
        if (took > told)
                fail_msg("\"%s\", trusted: %zu bytes, and %zu were told", part, took, told);
        tok_ids_deinit(&ids);
}

static void fill(char *text, const char *part) {
        for (size_t i = 0; i < SIZE; i++)
                text[i] = part[i % strlen(part)];
}

static void check(const struct vocab_build *v) {
        char *text = malloc(SIZE);

        assert_non_null(text);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                for (int special = 0; special < 2; special++) {
                        struct tok_fragment f = {text, SIZE, special};
                        size_t took, told;

                        fill(text, parts[i]);
                        took = measure(v->tok, &f);
                        told = tok_encode_memory(v->tok, &f, 1);
                        if (took > told)
                                fail_msg("\"%s\": %zu bytes, and %zu were told", parts[i], took,
                                        told);
                        /* Nor several times as much. (The C library sorts in memory of its own.) */
                        if (told > 5 * took + (256 << 10))
                                fail_msg("\"%s\": %zu bytes only of %zu", parts[i], took, told);
                        if (special)
                                check_trusted(v->tok, text, parts[i]);
                }
        fill(text, "the cat ");
        assert_true(measure(v->tok, &(struct tok_fragment){text, SIZE, false}) < 80 << 10);
        /* 20 bytes of symbol and 48 of heap before. */
        fill(text, "a");
        assert_true(measure(v->tok, &(struct tok_fragment){text, SIZE, false}) < 37 * SIZE);
        free(text);
}

static void test_spm(void **state) {
        struct vocab_build v;

        build(&v, "llama", NULL);
        assert_int_equal(vocab_build_load(&v, NULL), 0);
        check(&v);
        vocab_build_deinit(&v);
}

static void test_bpe(void **state) {
        static const char *const pres[] = {"llama-bpe", "deepseek-v3", "gpt-4o"};

        for (size_t i = 0; i < sizeof(pres) / sizeof(pres[0]); i++) {
                struct vocab_build v;

                build(&v, "gpt2", pres[i]);
                assert_int_equal(vocab_build_load(&v, NULL), 0);
                check(&v);
                vocab_build_deinit(&v);
        }
}

static void test_others(void **state) {
        static const char *const models[] = {"gemma4", "t5", "rwkv"};

        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
                struct vocab_build v;

                build(&v, models[i], NULL);
                gguf_build_u32(v.file, "tokenizer.ggml.unknown_token_id", 0);
                assert_int_equal(vocab_build_load(&v, NULL), 0);
                check(&v);
                vocab_build_deinit(&v);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_spm),
                cmocka_unit_test(test_bpe),
                cmocka_unit_test(test_others),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
