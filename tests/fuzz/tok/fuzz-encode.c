/* SPDX-License-Identifier: MIT */
/*
 * Any text through small byte-complete vocabularies: the tokens' bytes are the text again, and the
 * stream prints the text where it is well-formed. The first byte chooses the vocabulary: 0 is SPM,
 * then come the rows of pre-tokenizers, every one, RWKV, and Unigram, which keeps no text as it was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"
#include "fuzz/check.h"
#include "tok/tok-internal.h"
#include "unit/tok/unigram-data.h"
#include "unit/tok/vocab-build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_VOCABS = 64 };
static struct vocab_build vocabs[MAX_VOCABS];

static void fill(struct vocab_build *v) {
        static const char *const words[] = {"a", "b", "c", "ab", "bc", "abc", "aa", "aaa", "aaaa",
                "\xc3\xa9", "</", "s>", "in", "ing"};

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
                vocab_build_add(v, words[i], V_NORMAL, -(float)i);
        vocab_build_merge(v, "a a");
        vocab_build_merge(v, "aa a");
        vocab_build_merge(v, "b c");
        vocab_build_merge(v, "i n");
        vocab_build_merge(v, "in g");
        vocab_build_merge(v, "s >");
        vocab_build_merge(v, "< /");
        vocab_build_merge(v, "</ s>");
        vocab_build_add(v, "<|im_end|>", V_CONTROL, 0);
}

static size_t n_vocabs(void) {
        check(tok_pretok_table_size + 3 < MAX_VOCABS);
        return tok_pretok_table_size + 3;
}

static void build_bpe(struct vocab_build *v, const struct tok_pretok_row *row) {
        char pre[64];

        snprintf(pre, sizeof(pre), "%.*s", (int)strcspn(row->names, " "), row->names);
        vocab_build_init(v, "gpt2");
        gguf_build_str(v->file, "tokenizer.ggml.pre", pre);
        if (row->flags & TOK_PRETOK_RAW)
                vocab_build_spm_bytes(v);
        else
                vocab_build_bpe_bytes(v);
        if (row->flags & TOK_PRETOK_ESCAPE)
                vocab_build_add(v, "\xe2\x96\x81", V_NORMAL, 0);
        vocab_build_add(v, "</s>", V_CONTROL, 0);
        /* Not for SPM: text after these would begin with a space of its own. */
        vocab_build_add(v, "<u>", V_USER_DEFINED, 0);
        vocab_build_add(v, "  ", V_USER_DEFINED, 0);
}

static void build_spm(struct vocab_build *v) {
        vocab_build_init(v, "llama");
        vocab_build_spm_bytes(v);
        vocab_build_add(v, "\xe2\x96\x81", V_NORMAL, 0);
        vocab_build_add(v,
                "\xe2\x96\x81"
                "a",
                V_NORMAL, -1);
}

static void build_rwkv(struct vocab_build *v) {
        vocab_build_init(v, "rwkv");
        for (unsigned i = 0; i < 256; i++) {
                char text[8];

                snprintf(text, sizeof(text), "\\x%02x", i);
                vocab_build_add(v, text, V_NORMAL, 0);
        }
}

static void build_unigram(struct vocab_build *v) {
        vocab_build_init(v, "t5");
        gguf_build_bool(v->file, "tokenizer.ggml.add_space_prefix", true);
        gguf_build_bool(v->file, "tokenizer.ggml.remove_extra_whitespaces", true);
        gguf_build_u8_array(
                v->file, "tokenizer.ggml.precompiled_charsmap", charsmap, sizeof(charsmap));
        vocab_build_add(v, "<unk>", V_UNKNOWN, 0);
        vocab_build_add(v, "</s>", V_CONTROL, 0);
        vocab_build_add(v, "<pad>", V_UNKNOWN, 0);
        vocab_build_add(v, "\xe2\x96\x81", V_NORMAL, -2);
}

static const struct tok *vocab(size_t i) {
        struct vocab_build *v = &vocabs[i];

        if (v->tok)
                return v->tok;
        if (i == 0)
                build_spm(v);
        else if (i <= tok_pretok_table_size)
                build_bpe(v, &tok_pretok_table[i - 1]);
        else if (i == tok_pretok_table_size + 1)
                build_rwkv(v);
        else
                build_unigram(v);
        fill(v);
        check(vocab_build_load(v, NULL) == 0);
        return v->tok;
}

/* Whether U+2581 is printed as a space. */
static bool escapes(size_t i) {
        return i == 0 ||
               (i <= tok_pretok_table_size && tok_pretok_table[i - 1].flags & TOK_PRETOK_ESCAPE);
}

static size_t expected(const uint8_t *data, size_t size, bool escape, uint8_t *out) {
        size_t n = 0;

        for (size_t i = 0; i < size; n++)
                if (escape && size - i >= 3 && memcmp(data + i, "\xe2\x96\x81", 3) == 0) {
                        out[n] = ' ';
                        i += 3;
                } else
                        out[n] = data[i++];
        return n;
}

static void check_text(
        const struct tok *t, const uint8_t *data, size_t size, bool spm, bool escape) {
        struct tok_fragment f = {(const char *)data, size, false};
        struct tok_ids ids = TOK_IDS_NULL;
        struct buf bytes = BUF_NULL, text = BUF_NULL;
        struct tok_stream s;
        uint8_t *want = malloc(size + 1);
        size_t n;

        check(want && tok_encode(t, &f, 1, true, true, 0, &ids, NULL) == 0);
        tok_stream_init(&s, t, true, false);
        for (size_t i = 0; i < ids.n; i++) {
                char piece[64];

                check(!tok_is_control(t, ids.ids[i]) || (i == 0 && ids.ids[i] == tok_bos(t)));
                n = tok_piece(t, ids.ids[i], false, piece, sizeof(piece));
                check(n <= sizeof(piece) && buf_append(&bytes, piece, n) == 0);
                n = text.size;
                check(tok_stream_push(&s, t, ids.ids[i], &text) == 0);
                check(text.size == n || utf8_valid(text.data + n, text.size - n));
        }
        check(tok_stream_finish(&s, &text) == 0);
        n = expected(data, size, escape, want);
        if (spm && bytes.size > n)
                buf_consume(&bytes, 1); /* the space in front */
        check(bytes.size == n && (n == 0 || memcmp(bytes.data, want, n) == 0));
        if (utf8_valid(data, size) && !(spm && n > 0 && bytes.data[0] == ' '))
                check(text.size == n && (n == 0 || memcmp(text.data, want, n) == 0));
        buf_deinit(&bytes);
        buf_deinit(&text);
        tok_ids_deinit(&ids);
        free(want);
}

/* What is kept of every text, whatever the vocabulary. */
static void check_ids(const struct tok *t, const uint8_t *data, size_t size) {
        struct tok_fragment f = {(const char *)data, size, false};
        struct tok_ids ids = TOK_IDS_NULL;

        check(tok_encode(t, &f, 1, true, true, 0, &ids, NULL) == 0);
        for (size_t i = 0; i < ids.n; i++) {
                check(ids.ids[i] >= 0 && (uint32_t)ids.ids[i] < tok_n_vocab(t));
                check(!tok_is_control(t, ids.ids[i]) || i + 1 == ids.n);
        }
        tok_ids_deinit(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct tok_ids ids = TOK_IDS_NULL;
        struct tok_fragment f = {.parse_special = true};
        size_t kind;

        if (size == 0)
                return 0;
        kind = data[0] % n_vocabs();
        if (kind == n_vocabs() - 1)
                check_ids(vocab(kind), data + 1, size - 1);
        else
                check_text(vocab(kind), data + 1, size - 1, kind == 0, escapes(kind));
        f.text = (const char *)data + 1;
        f.size = size - 1;
        check(tok_encode(vocab(kind), &f, 1, false, false, 0, &ids, NULL) == 0);
        tok_ids_deinit(&ids);
        return 0;
}
