/* SPDX-License-Identifier: MIT */
/*
 * SPM ("llama"): SentencePiece BPE. Spaces become U+2581, one is put in front of a text that starts
 * anew; then of all adjacent pairs whose joined text is a token the one with the highest score is
 * joined. What stays without a token is written as byte tokens.
 *
 * 1. Control, unknown and byte tokens and markers are never the result of joining: the text "</s>"
 * or "<0x0A>" of a user stays text, whatever the vocabulary holds.
 * 2. Bytes that are not UTF-8 are symbols of their own and become byte tokens, so any bytes come
 *    back from a vocabulary that has all 256. A byte without a token becomes the unknown token.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "tok/tok-internal.h"

struct tok_spm {
        int32_t byte[256]; /* the token of a byte, or -1 */
        uint32_t *rank;    /* [n_vocab]: orders as the scores, best lowest */
};

#define SPM_SPACE "\xe2\x96\x81"
#define SPM_SPACE_SIZE 3
#define SPM_NO_TOKEN UINT32_MAX

/* Order of floats as order of unsigned integers, reversed. -0 equals 0. */
static uint32_t spm_rank(float score) {
        uint32_t bits;

        score += 0.0f;
        memcpy(&bits, &score, sizeof(bits));
        bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        return ~bits;
}

static void spm_load_bytes(struct tok *t) {
        static const char hex[] = "0123456789ABCDEF";

        for (unsigned i = 0; i < 256; i++) {
                const char text[] = {'<', '0', 'x', hex[i >> 4], hex[i & 15], '>'};
                const char byte = (char)i;
                int32_t id = tok_vocab_find(&t->vocab, text, sizeof(text));

                if (id < 0)
                        id = tok_vocab_find(&t->vocab, &byte, 1);
                if (id >= 0 && t->vocab.type[id] != TOK_CONTROL && t->vocab.type[id] != TOK_UNKNOWN)
                        t->spm->byte[i] = id;
                else
                        t->spm->byte[i] = -1;
        }
}

static int spm_load(struct tok *t, const struct gguf *g, struct err *e) {
        int r;

        if (!t->vocab.score)
                return err_set(e, ERR_FORMAT, "a \"llama\" tokenizer needs tokenizer.ggml.scores");
        t->spm = calloc(1, sizeof(*t->spm));
        if (!t->spm)
                return err_set(e, ERR_NOMEM, "out of memory for a tokenizer");
        t->spm->rank = calloc(t->vocab.n, sizeof(*t->spm->rank));
        if (!t->spm->rank)
                return err_set(e, ERR_NOMEM, "out of memory for %u token ranks", t->vocab.n);
        for (uint32_t i = 0; i < t->vocab.n; i++)
                t->spm->rank[i] = spm_rank(t->vocab.score[i]);
        spm_load_bytes(t);
        t->add_space_prefix = true;
        r = gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &t->add_space_prefix, e);
        return r < 0 ? r : 0;
}

static void spm_unload(struct tok *t) {
        if (!t->spm)
                return;
        free(t->spm->rank);
        free(t->spm);
        t->spm = NULL;
}

/* The token that ordinary text may become, or -1. */
static int32_t spm_find(const struct tok *t, const char *text, size_t n) {
        int32_t id = tok_vocab_find(&t->vocab, text, n);

        return id >= 0 && t->vocab.type[id] != TOK_BYTE && tok_may_emit(t, (uint32_t)id) ? id : -1;
}

static bool spm_pair(const struct tok *t, const struct tok_work *w, const struct tok_symbol *l,
        const struct tok_symbol *r, uint32_t *ret_rank, uint32_t *ret_id) {
        int32_t id = spm_find(t, w->text + l->start, (size_t)l->size + r->size);

        if (id < 0)
                return false;
        *ret_rank = t->spm->rank[id];
        *ret_id = (uint32_t)id;
        return true;
}

/* The text with U+2581 for spaces, in w->buffer; its characters are the symbols. */
static int spm_prepare(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        bool prefix, struct err *e) {
        size_t n_spaces = prefix, size = 0, n_text;
        char *p;
        int r;

        for (size_t i = 0; i < n; i++)
                n_spaces += text[i] == ' ';
        n_text = n + n_spaces * SPM_SPACE_SIZE; /* at most */
        r = tok_work_reserve_buffer(w, n_text, e);
        if (r < 0)
                return r;
        r = tok_work_reserve_symbols(w, n + 1, e);
        if (r < 0)
                return r;
        p = w->buffer;
        if (prefix) {
                memcpy(p, SPM_SPACE, SPM_SPACE_SIZE);
                size += SPM_SPACE_SIZE;
        }
        for (size_t i = 0; i < n; i++) {
                if (text[i] != ' ') {
                        p[size++] = text[i];
                        continue;
                }
                memcpy(p + size, SPM_SPACE, SPM_SPACE_SIZE);
                size += SPM_SPACE_SIZE;
        }
        w->text = p;
        w->n_symbols = 0;
        for (size_t at = 0; at < size;) {
                int len = utf8_decode((const uint8_t *)p + at, size - at, NULL);
                int32_t id;

                if (len < 1)
                        len = 1;
                id = spm_find(t, p + at, (size_t)len);
                w->symbols[w->n_symbols++] = (struct tok_symbol){
                        .start = (uint32_t)at,
                        .size = (uint32_t)len,
                        .id = id >= 0 ? (uint32_t)id : SPM_NO_TOKEN,
                };
                at += (size_t)len;
        }
        return 0;
}

static int spm_encode(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        bool starts, struct tok_out *out, struct err *e) {
        int r;

        r = spm_prepare(t, w, text, n, starts && t->add_space_prefix, e);
        if (r < 0)
                return r;
        tok_merge(t, w, spm_pair);
        for (uint32_t at = 0; at != UINT32_MAX; at = w->symbols[at].next) {
                const struct tok_symbol *s = &w->symbols[at];

                if (s->id != SPM_NO_TOKEN) {
                        r = tok_out_push(out, (int32_t)s->id, e);
                        if (r < 0)
                                return r;
                        continue;
                }
                for (uint32_t i = 0; i < s->size; i++) {
                        int32_t id = t->spm->byte[(uint8_t)w->text[s->start + i]];

                        id = id >= 0 ? id : t->unk;
                        r = id >= 0 ? tok_out_push(out, id, e) : 0;
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

static int spm_hex(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return -1;
}

/* The byte that the text of a byte token (<0xXX>) names, or -1. */
static int spm_byte_of(const struct gguf_str *s) {
        int high, low;

        if (s->size != 6 || memcmp(s->data, "<0x", 3) != 0 || s->data[5] != '>')
                return -1;
        high = spm_hex(s->data[3]);
        low = spm_hex(s->data[4]);
        return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static size_t spm_piece(const struct tok *t, int32_t token, char *dst, size_t size) {
        const struct gguf_str *s = &t->vocab.text[token];
        size_t n = 0;

        if (t->vocab.type[token] == TOK_BYTE) {
                int byte = spm_byte_of(s);

                if (byte >= 0) {
                        if (size > 0)
                                dst[0] = (char)byte;
                        return 1;
                }
        }
        for (size_t i = 0; i < s->size; n++) {
                char c = s->data[i];

                if (s->size - i >= SPM_SPACE_SIZE &&
                        memcmp(s->data + i, SPM_SPACE, SPM_SPACE_SIZE) == 0) {
                        c = ' ';
                        i += SPM_SPACE_SIZE;
                } else
                        i++;
                if (n < size)
                        dst[n] = c;
        }
        return n;
}

const struct tok_ops tok_ops_spm = {
        .model = "llama",
        .default_bos = 1,
        .default_eos = 2,
        .default_unk = 0,
        .default_add_bos = true,
        .load = spm_load,
        .unload = spm_unload,
        .encode = spm_encode,
        .piece = spm_piece,
};
