/* SPDX-License-Identifier: MIT */
/*
 * The tokenizers against the reference's vocabularies, texts and tokens (reference/vocab). Skips
 * with a message if these are missing. Neither the short nor the long texts were tokenised with
 * bos.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "tok/tok.h"
#include "util/shared.h"
#include "util/test.h"

#define SEPARATOR "\n__ggml_vocab_test__\n"
#define MAX_FILE (16u << 20)

static const char *const vocabularies[] = {
        "ggml-vocab-llama-spm",
        "ggml-vocab-phi-3",
        "ggml-vocab-gpt-2",
        "ggml-vocab-starcoder",
        "rebuilt-qwen2",
};

static const char *const texts[] = {"frankenstein_chap1", "unicode-mix"};

/* A copy of the path of reference/vocab/..., or NULL. */
static char *vocab_path(const char *folder, const char *name, const char *suffix) {
        char rel[512];
        const char *path;

        snprintf(rel, sizeof(rel), "vocab/%s%s%s", folder, name, suffix);
        path = test_shared(rel);
        return path ? strdup(path) : NULL;
}

static char *read_text(const char *path, size_t *ret_size) {
        struct err e;
        char *text = NULL;

        if (file_read_all(path, MAX_FILE, &text, ret_size, &e) < 0)
                fail_msg("%s: %s", path, e.msg);
        return text;
}

static void encode(const struct tok *t, const char *text, size_t n, struct tok_ids *ids) {
        const struct tok_fragment f = {text, n, false};
        struct err e;

        ids->n = 0;
        if (tok_encode(t, &f, 1, false, true, 0, ids, &e) < 0)
                fail_msg("%s", e.msg);
}

/* The ids of one line, from @p; returns what follows the line. */
static const char *parse_ids(const char *p, struct tok_ids *ids) {
        ids->n = 0;
        for (;;) {
                int32_t id;
                char *end;

                while (*p == ' ')
                        p++;
                if (*p == '\n')
                        return p + 1;
                if (*p == 0)
                        return p;
                id = (int32_t)strtol(p, &end, 10);
                assert_ptr_not_equal(p, end);
                p = end;
                assert_int_equal(tok_ids_append(ids, &id, 1, NULL), 0);
        }
}

static void compare(const char *vocab, const char *what, const struct tok_ids *got,
        const struct tok_ids *want) {
        for (size_t i = 0; i < got->n && i < want->n; i++)
                if (got->ids[i] != want->ids[i])
                        fail_msg("%s: %s: token %zu is %d, expected %d", vocab, what, i,
                                got->ids[i], want->ids[i]);
        if (got->n != want->n)
                fail_msg("%s: %s: %zu tokens, expected %zu", vocab, what, got->n, want->n);
}

/* What the stream prints for @ids must be @text. */
static void compare_text(const char *vocab, const struct tok *t, const struct tok_ids *ids,
        const char *text, size_t n) {
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct tok_stream s;

        tok_stream_init(&s, t, true, false);
        for (size_t i = 0; i < ids->n; i++)
                assert_int_equal(tok_stream_push(&s, t, ids->ids[i], &out), 0);
        assert_int_equal(tok_stream_finish(&s, &out), 0);
        if (out.size != n || (n > 0 && memcmp(out.data, text, n) != 0))
                fail_msg("%s: the tokens of a text of %zu bytes print other text", vocab, n);
}

static void check_cases(const char *vocab, const struct tok *t) {
        const char *name = strcmp(vocab, "rebuilt-qwen2") == 0 ? "ggml-vocab-qwen2" : vocab;
        _cleanup_(freep) char *inp_path = vocab_path("", name, ".gguf.inp");
        _cleanup_(freep) char *out_path = vocab_path("", name, ".gguf.out");
        _cleanup_(freep) char *inp = NULL, *out = NULL;
        _cleanup_(tok_ids_deinit) struct tok_ids got = TOK_IDS_NULL, want = TOK_IDS_NULL;
        const char *p, *q;
        size_t size;
        int n = 0;

        if (!inp_path || !out_path) {
                print_message("SKIP: %s: no .inp or .out\n", vocab);
                return;
        }
        inp = read_text(inp_path, &size);
        out = read_text(out_path, &size);
        for (p = inp, q = out; *p; n++) {
                const char *end = strstr(p, SEPARATOR);
                char what[32];

                assert_non_null(end);
                q = parse_ids(q, &want);
                encode(t, p, (size_t)(end - p), &got);
                snprintf(what, sizeof(what), "case %d", n + 1);
                compare(vocab, what, &got, &want);
                compare_text(vocab, t, &got, p, (size_t)(end - p));
                p = end + strlen(SEPARATOR);
        }
        /* The 47th text is the empty one after the last separator. */
        assert_int_equal(n, 46);
        assert_int_equal(*q, 0);
}

static void check_texts(const char *vocab, const struct tok *t) {
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                _cleanup_(freep) char *text_path = vocab_path("texts/", texts[i], ".head.txt");
                _cleanup_(freep) char *ids_path = NULL, *text = NULL, *ids = NULL;
                _cleanup_(tok_ids_deinit) struct tok_ids got = TOK_IDS_NULL, want = TOK_IDS_NULL;
                char name[256];
                size_t size, n;

                snprintf(name, sizeof(name), "%s--%s", vocab, texts[i]);
                ids_path = vocab_path("goldens/", name, ".ids");
                if (!text_path || !ids_path) {
                        print_message("SKIP: %s: no golden\n", name);
                        continue;
                }
                ids = read_text(ids_path, &n);
                text = read_text(text_path, &size);
                parse_ids(ids, &want);
                encode(t, text, size, &got);
                compare(vocab, texts[i], &got, &want);
                compare_text(vocab, t, &got, text, size);
        }
}

static void test_vocabularies(void **state) {
        size_t n_done = 0;

        for (size_t i = 0; i < sizeof(vocabularies) / sizeof(vocabularies[0]); i++) {
                _cleanup_(freep) char *path = vocab_path("", vocabularies[i], ".gguf");
                _cleanup_(gguf_freep) struct gguf *g = NULL;
                _cleanup_(tok_freep) struct tok *t = NULL;
                struct err e;

                if (!path) {
                        print_message(
                                "SKIP: reference/vocab/%s.gguf is not there\n", vocabularies[i]);
                        continue;
                }
                if (gguf_open(&g, path, &e) < 0 || tok_new(&t, g, &e) < 0)
                        fail_msg("%s: %s", vocabularies[i], e.msg);
                check_cases(vocabularies[i], t);
                check_texts(vocabularies[i], t);
                n_done++;
        }
        if (n_done == 0)
                skip();
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_vocabularies)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
