/* SPDX-License-Identifier: MIT */
/*
 * SPM ("llama"): SentencePiece BPE. Spaces become U+2581, and one is put in front of a text that
 * starts anew. Then, repeatedly, of all adjacent pairs whose joined text is a token, the pair with
 * the highest score is joined. Symbols left without a token are written as byte tokens.
 *
 * 1. Joining never makes control, unknown or byte tokens or markers: a user's text "</s>" or
 *    "<0x0A>" stays text, whatever the vocabulary holds.
 * 2. Bytes that are not UTF-8 are symbols of their own and become byte tokens, so a vocabulary with
 *    all 256 byte tokens can represent any bytes. A byte without a token becomes the unknown token.
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

/* Map floats to unsigned integers in reverse order. -0 equals 0. */
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
        for (uint32_t i = 0; i < t->vocab.n; i++) {
                const struct gguf_str *s = &t->vocab.text[i];

                for (size_t k = 1; k < s->size; k++)
                        tok_joins_add(&t->joins, (uint8_t)s->data[k - 1], (uint8_t)s->data[k]);
        }
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

static bool spm_pair(const struct tok *t, const struct tok_work *w, uint32_t left, uint32_t right,
        uint32_t *ret_rank, uint32_t *ret_id) {
        size_t n = tok_symbol_size(w, left) + tok_symbol_size(w, right);
        int32_t id = spm_find(t, w->text + w->symbols[left].start, n);

        if (id < 0)
                return false;
        *ret_rank = t->spm->rank[id];
        *ret_id = (uint32_t)id;
        return true;
}

/* Size of the character at text[0..n), n >= 1; 1 for a byte that begins no character. */
static size_t spm_char(const char *text, size_t n) {
        int len = (uint8_t)text[0] < 0x80 ? 1 : utf8_decode((const uint8_t *)text, n, NULL);

        return len < 1 ? 1 : (size_t)len;
}

/*
 * The next stretch of text[0..n) that is merged by itself: it ends where no token has the bytes
 * before and after the end (with spaces as U+2581) side by side. `size` counts the stretch's bytes,
 * n_chars its characters, n_bytes its bytes with U+2581 for spaces.
 */
struct spm_stretch {
        size_t size, n_chars, n_bytes;
};

static struct spm_stretch spm_stretch(
        const struct tok *t, const char *text, size_t n, bool prefix) {
        struct spm_stretch s = {0, prefix, prefix ? SPM_SPACE_SIZE : 0};
        uint8_t last = prefix ? (uint8_t)SPM_SPACE[2] : 0;

        while (s.size < n) {
                const char *p = text + s.size;
                bool space = *p == ' ';
                uint8_t first = (uint8_t)(space ? SPM_SPACE[0] : *p);
                size_t len = spm_char(p, n - s.size);

                if (s.n_chars > 0 && !tok_may_join(&t->joins, last, first))
                        break;
                last = (uint8_t)(space ? SPM_SPACE[2] : p[len - 1]);
                s.size += len;
                s.n_chars++;
                s.n_bytes += space ? SPM_SPACE_SIZE : len;
        }
        return s;
}

static void spm_symbol(const struct tok *t, struct tok_work *w, const char *text, size_t n) {
        int32_t id;

        memcpy(w->buffer + w->text_size, text, n);
        id = spm_find(t, w->buffer + w->text_size, n);
        w->symbols[w->n_symbols++] = (struct tok_symbol){
                .start = (uint32_t)w->text_size,
                .id = id >= 0 ? (uint32_t)id : SPM_NO_TOKEN,
        };
        w->text_size += n;
}

/* The text of a stretch with U+2581 for spaces, in w->buffer; its characters are the symbols. */
static int spm_prepare(const struct tok *t, struct tok_work *w, const char *text,
        struct spm_stretch stretch, bool prefix, struct err *e) {
        int r = tok_work_reserve_buffer(w, stretch.n_bytes, e);

        if (r == 0)
                r = tok_work_reserve_symbols(w, stretch.n_chars, e);
        if (r < 0)
                return r;
        w->text = w->buffer;
        w->n_symbols = w->text_size = 0;
        if (prefix)
                spm_symbol(t, w, SPM_SPACE, SPM_SPACE_SIZE);
        for (size_t at = 0; at < stretch.size;) {
                size_t len = spm_char(text + at, stretch.size - at);

                if (text[at] == ' ')
                        spm_symbol(t, w, SPM_SPACE, SPM_SPACE_SIZE);
                else
                        spm_symbol(t, w, text + at, len);
                at += len;
        }
        return 0;
}

static int spm_emit(
        const struct tok *t, struct tok_work *w, uint32_t at, struct tok_out *out, struct err *e) {
        const struct tok_symbol *s = &w->symbols[at];
        size_t n = tok_symbol_size(w, at);

        if (s->id != SPM_NO_TOKEN)
                return tok_out_push(out, (int32_t)s->id, e);
        for (size_t i = 0; i < n; i++) {
                int32_t id = t->spm->byte[(uint8_t)w->text[s->start + i]];
                int r;

                id = id >= 0 ? id : t->unk;
                r = id >= 0 ? tok_out_push(out, id, e) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int spm_encode(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        bool starts, struct tok_out *out, struct err *e) {
        bool prefix = starts && t->add_space_prefix;

        while (n > 0 || prefix) {
                struct spm_stretch stretch = spm_stretch(t, text, n, prefix);
                int r = spm_prepare(t, w, text, stretch, prefix, e);

                if (r == 0)
                        r = tok_merge(t, w, spm_pair, e);
                for (uint32_t at = 0; r >= 0 && at != TOK_SYMBOL_NONE; at = w->symbols[at].next)
                        r = spm_emit(t, w, at, out, e);
                if (r < 0)
                        return r;
                text += stretch.size;
                n -= stretch.size;
                prefix = false;
        }
        return 0;
}

static size_t spm_memory(const struct tok *t, const char *text, size_t n) {
        size_t n_chars = 0, n_bytes = 0;
        bool prefix = t->add_space_prefix;

        while (n > 0) {
                struct spm_stretch s = spm_stretch(t, text, n, prefix);

                n_chars = MAX(n_chars, s.n_chars);
                n_bytes = MAX(n_bytes, s.n_bytes);
                text += s.size;
                n -= s.size;
                prefix = false;
        }
        return tok_symbols_memory(n_chars) + MAX(n_bytes, (size_t)TOK_MIN_BUFFER);
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
        .memory = spm_memory,
        .piece = spm_piece,
};
