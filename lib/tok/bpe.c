/* SPDX-License-Identifier: MIT */
/*
 * Byte-level BPE ("gpt2"). The file writes bytes as characters (33-126, 161-172 and 174-255 as
 * themselves, the others in order from U+0100). The pre-tokenizer cuts text into pieces. In each
 * piece, of all adjacent pairs that are a merge, the first one in the file's list is joined,
 * repeatedly.
 *
 * Here symbols are numbers: a token's id, or a number past the vocabulary for texts that occur only
 * in merges. So merging compares and hashes integers; texts are looked up only at load.
 *
 * 1. Bytes that are not UTF-8 don't reach the regexes: each run of them is a piece of its own.
 *    Decoding gives the same bytes back.
 * 2. A symbol that is not a token, or is a control token or a marker, is written byte by byte; a
 *    byte without a token is dropped. So ordinary text never becomes a control token.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "base/utf8.h"
#include "base/util.h"
#include "tok/tok-internal.h"

struct bpe_merge {
        uint64_t key; /* left << 32 | right; BPE_FREE: free */
        uint32_t rank, result;
};

struct tok_bpe {
        struct tok_pretok *pretok;
        bool ignore_merges;
        uint32_t byte_symbol[256];
        int32_t byte_token[256];  /* or -1 */
        struct bpe_merge *merges; /* open addressing */
        uint32_t mask;
        uint64_t seed;
};

#define BPE_FREE UINT64_MAX

static uint32_t bpe_char_of_byte(uint8_t byte) {
        uint32_t n = 0x100;

        if ((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174)
                return byte;
        if (byte <= 32)
                return n + byte;
        n += 33;
        if (byte <= 160)
                return n + byte - 127u;
        return n + 34; /* 173 */
}

/* The byte that a character of a token's text stands for, or -1. */
static int bpe_byte_of_char(uint32_t cp) {
        if (cp < 0x100)
                return bpe_char_of_byte((uint8_t)cp) == cp ? (int)cp : -1;
        if (cp <= 0x100 + 32)
                return (int)(cp - 0x100);
        if (cp <= 0x100 + 33 + 33)
                return (int)(cp - 0x100 - 33 + 127);
        return cp == 0x100 + 33 + 34 ? 173 : -1;
}

static uint32_t bpe_slot(const struct tok_bpe *b, uint64_t key) {
        key = (key ^ b->seed) * 0x9e3779b97f4a7c15u;
        key = (key ^ key >> 29) * 0xbf58476d1ce4e5b9u;
        return (uint32_t)(key >> 32) & b->mask;
}

/* The merge of two symbols, or the free slot for it. */
static struct bpe_merge *bpe_find(const struct tok_bpe *b, uint32_t left, uint32_t right) {
        uint64_t key = (uint64_t)left << 32 | right;
        uint32_t at = bpe_slot(b, key);

        while (b->merges[at].key != BPE_FREE && b->merges[at].key != key)
                at = (at + 1) & b->mask;
        return &b->merges[at];
}

/* Numbers for texts: the token's id, else a number past the vocabulary. */
struct bpe_names {
        const struct tok_vocab *vocab;
        struct map *extra;
};

static int bpe_symbol(
        struct bpe_names *names, const char *text, size_t n, uint32_t *ret, struct err *e) {
        int32_t id = tok_vocab_find(names->vocab, text, n);
        uintptr_t number;
        void *found;
        int r;

        if (id >= 0) {
                *ret = (uint32_t)id;
                return 0;
        }
        found = map_get(names->extra, text, n);
        if (found) {
                *ret = (uint32_t)(uintptr_t)found;
                return 0;
        }
        number = names->vocab->n + map_count(names->extra);
        r = map_add(names->extra, text, n, (void *)number, e);
        if (r < 0)
                return r;
        *ret = (uint32_t)number;
        return 0;
}

static int bpe_load_bytes(struct tok *t, struct bpe_names *names, struct err *e) {
        for (unsigned i = 0; i < 256; i++) {
                uint8_t text[4];
                size_t n = (size_t)utf8_encode(bpe_char_of_byte((uint8_t)i), text);
                int32_t id = tok_vocab_find(&t->vocab, text, n);
                int r;

                if (id >= 0 && t->vocab.type[id] != TOK_CONTROL && t->vocab.type[id] != TOK_UNKNOWN)
                        t->bpe->byte_token[i] = id;
                else
                        t->bpe->byte_token[i] = -1;
                r = bpe_symbol(names, (const char *)text, n, &t->bpe->byte_symbol[i], e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The byte that the first or last character of a text stands for, or -1. */
static int bpe_end_byte(const char *text, size_t n, bool last) {
        uint32_t cp = 0;
        size_t at = last && n > 0 ? n - 1 : 0;

        while (last && at > 0 && ((uint8_t)text[at] & 0xc0) == 0x80)
                at--;
        return utf8_decode((const uint8_t *)text + at, n - at, &cp) > 0 ? bpe_byte_of_char(cp) : -1;
}

/* Note the bytes that a merge joins. Symbols consist of characters that stand for bytes, so a merge
 * with any other character at its seam never happens. */
static void bpe_note_join(struct tok_joins *joins, const char *text, size_t n_left, size_t n) {
        int left = bpe_end_byte(text, n_left, true);
        int right = bpe_end_byte(text + n_left, n - n_left, false);

        if (left >= 0 && right >= 0)
                tok_joins_add(joins, (uint8_t)left, (uint8_t)right);
}

/* "left right"; the separator is the first space that is not the first character. */
static int bpe_load_merge(struct tok *t, struct bpe_names *names, uint32_t rank,
        struct gguf_str line, char *joined, struct err *e) {
        struct tok_bpe *b = t->bpe;
        const char *space = NULL;
        uint32_t left, right, result;
        struct bpe_merge *m;
        size_t n_left;
        int r;

        if (line.size >= 3 && line.size <= TOK_MAX_TEXT_SIZE)
                space = memchr(line.data + 1, ' ', line.size - 2);
        if (!space)
                return err_set(e, ERR_FORMAT, "merge %u is not two texts", rank);
        n_left = (size_t)(space - line.data);
        memcpy(joined, line.data, n_left);
        memcpy(joined + n_left, space + 1, line.size - n_left - 1);
        r = bpe_symbol(names, joined, n_left, &left, e);
        if (r >= 0)
                r = bpe_symbol(names, joined + n_left, line.size - n_left - 1, &right, e);
        if (r >= 0)
                r = bpe_symbol(names, joined, line.size - 1, &result, e);
        if (r < 0)
                return r;
        m = bpe_find(b, left, right);
        bpe_note_join(&t->joins, joined, n_left, line.size - 1);
        if (m->key == BPE_FREE) /* of equal lines the first counts */
                *m = (struct bpe_merge){(uint64_t)left << 32 | right, rank, result};
        return 0;
}

static int bpe_load_merges(
        struct tok *t, struct bpe_names *names, const struct gguf *g, struct err *e) {
        struct tok_bpe *b = t->bpe;
        _cleanup_(freep) char *joined = NULL;
        struct gguf_array a;
        uint32_t n_slots = 16;
        size_t pos = 0;
        int r;

        r = gguf_get_array(g, "tokenizer.ggml.merges", &a, e);
        if (r < 0)
                return r;
        if (r > 0 || a.type != GGUF_STRING)
                return err_set(e, ERR_FORMAT,
                        "a \"gpt2\" tokenizer needs tokenizer.ggml.merges, an array of strings");
        if (a.count > TOK_MAX_MERGES)
                return err_set(e, ERR_LIMIT, "%llu merges are too many (at most %u)",
                        (unsigned long long)a.count, TOK_MAX_MERGES);
        while (n_slots < a.count * 2)
                n_slots *= 2;
        b->mask = n_slots - 1;
        b->seed = tok_random_seed();
        b->merges = malloc(n_slots * sizeof(*b->merges));
        joined = malloc(TOK_MAX_TEXT_SIZE);
        if (!b->merges || !joined)
                return err_set(
                        e, ERR_NOMEM, "out of memory for %llu merges", (unsigned long long)a.count);
        for (uint32_t i = 0; i < n_slots; i++)
                b->merges[i].key = BPE_FREE;
        for (uint32_t i = 0; i < a.count; i++) {
                r = bpe_load_merge(t, names, i, gguf_array_next_str(&a, &pos), joined, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int bpe_load_pretok(struct tok *t, const struct gguf *g, struct err *e) {
        struct gguf_str pre = {"default", 7};
        const struct tok_pretok_row *row;
        int r;

        r = gguf_get_str(g, "tokenizer.ggml.pre", &pre, e);
        if (r < 0)
                return r;
        row = tok_pretok_find(pre.data, pre.size);
        if (!row || (row->flags & TOK_PRETOK_RAW_UTF8))
                return err_set(e, ERR_UNSUPPORTED, "pre-tokenizer \"%s\" is not supported",
                        tok_quote(pre.data, pre.size).s);
        memcpy(t->pre, pre.data, MIN(pre.size, sizeof(t->pre) - 1));
        t->bpe->ignore_merges = row->flags & TOK_PRETOK_IGNORE_MERGES;
        t->add_bos = row->flags & TOK_PRETOK_ADD_BOS;
        return tok_pretok_new(&t->bpe->pretok, row, e);
}

static void map_freep(struct map **m) {
        map_free(*m);
}

static int bpe_load(struct tok *t, const struct gguf *g, struct err *e) {
        _cleanup_(map_freep) struct map *extra = NULL;
        struct bpe_names names = {.vocab = &t->vocab};
        int r;

        t->bpe = calloc(1, sizeof(*t->bpe));
        if (!t->bpe)
                return err_set(e, ERR_NOMEM, "out of memory for a tokenizer");
        r = bpe_load_pretok(t, g, e);
        if (r < 0)
                return r;
        r = map_new(&extra, e);
        if (r < 0)
                return r;
        names.extra = extra;
        r = bpe_load_bytes(t, &names, e);
        if (r < 0)
                return r;
        return bpe_load_merges(t, &names, g, e);
}

static void bpe_unload(struct tok *t) {
        if (!t->bpe)
                return;
        tok_pretok_free(t->bpe->pretok);
        free(t->bpe->merges);
        free(t->bpe);
        t->bpe = NULL;
}

static bool bpe_pair(const struct tok *t, const struct tok_work *w, uint32_t left, uint32_t right,
        uint32_t *ret_rank, uint32_t *ret_id) {
        const struct bpe_merge *m = bpe_find(t->bpe, w->symbols[left].id, w->symbols[right].id);

        if (m->key == BPE_FREE)
                return false;
        *ret_rank = m->rank;
        *ret_id = m->result;
        return true;
}

static bool bpe_may_emit(const struct tok *t, uint32_t id) {
        return id < t->vocab.n && tok_may_emit(t, id);
}

/* The token whose text is the whole piece, or -1. */
static int bpe_find_whole(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        int32_t *ret, struct err *e) {
        size_t size = 0;
        int32_t id;
        int r;

        *ret = -1;
        if (n > t->vocab.max_size)
                return 0;
        r = tok_work_reserve_buffer(w, n * 2 + 4, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                size += (size_t)utf8_encode(
                        bpe_char_of_byte((uint8_t)text[i]), (uint8_t *)w->buffer + size);
        id = tok_vocab_find(&t->vocab, w->buffer, size);
        if (id >= 0 && bpe_may_emit(t, (uint32_t)id))
                *ret = id;
        return 0;
}

static int bpe_emit(
        const struct tok *t, struct tok_work *w, uint32_t at, struct tok_out *out, struct err *e) {
        const struct tok_symbol *s = &w->symbols[at];
        size_t n = tok_symbol_size(w, at);

        if (bpe_may_emit(t, s->id))
                return tok_out_push(out, (int32_t)s->id, e);
        for (size_t i = 0; i < n; i++) {
                int32_t id = t->bpe->byte_token[(uint8_t)w->text[s->start + i]];
                int r;

                if (id < 0)
                        continue;
                r = tok_out_push(out, id, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Size of the stretch at text[0..n) that is merged by itself: no merge reaches across its end. */
static size_t bpe_stretch(const struct tok *t, const char *text, size_t n) {
        size_t at = 1;

        while (at < n && tok_may_join(&t->joins, (uint8_t)text[at - 1], (uint8_t)text[at]))
                at++;
        return at;
}

static int bpe_encode_stretch(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        struct tok_out *out, struct err *e) {
        int r = tok_work_reserve_symbols(w, n, e);

        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                w->symbols[i] = (struct tok_symbol){
                        .start = (uint32_t)i,
                        .id = t->bpe->byte_symbol[(uint8_t)text[i]],
                };
        w->n_symbols = w->text_size = n;
        w->text = text;
        r = tok_merge(t, w, bpe_pair, e);
        for (uint32_t at = 0; r >= 0 && at != TOK_SYMBOL_NONE; at = w->symbols[at].next)
                r = bpe_emit(t, w, at, out, e);
        return r;
}

/* Receives the pieces of one bpe_encode(). */
struct bpe_pieces {
        const struct tok *t;
        struct tok_work *w;
        struct tok_out *out;
};

static int bpe_encode_piece(void *userdata, const char *text, size_t n, struct err *e) {
        const struct bpe_pieces *to = userdata;
        int32_t whole = -1;
        int r = 0;

        if (to->t->bpe->ignore_merges)
                r = bpe_find_whole(to->t, to->w, text, n, &whole, e);
        if (r >= 0 && whole >= 0)
                return tok_out_push(to->out, whole, e);
        while (r >= 0 && n > 0) {
                size_t size = bpe_stretch(to->t, text, n);

                r = bpe_encode_stretch(to->t, to->w, text, size, to->out, e);
                text += size;
                n -= size;
        }
        return r;
}

/* Size of the run at text[0..n) that is all well-formed, or all not. */
static size_t bpe_run(const char *text, size_t n, bool *ret_well_formed) {
        size_t at = 0;

        while (at < n) {
                int len = utf8_decode((const uint8_t *)text + at, n - at, NULL);

                if (at == 0)
                        *ret_well_formed = len > 0;
                else if (*ret_well_formed != (len > 0))
                        break;
                at += len > 0 ? (size_t)len : 1;
        }
        return at;
}

static int bpe_encode(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        bool starts, struct tok_out *out, struct err *e) {
        struct bpe_pieces to = {t, w, out};

        while (n > 0) {
                bool well_formed;
                size_t run = bpe_run(text, n, &well_formed);
                int r;

                if (!well_formed)
                        r = bpe_encode_piece(&to, text, run, e);
                else
                        r = tok_pretok_each(t->bpe->pretok, w, text, run, bpe_encode_piece, &to, e);
                if (r < 0)
                        return r;
                text += run;
                n -= run;
        }
        return 0;
}

/* The pre-tokenizer is not run for this: pieces can only make stretches shorter. */
static size_t bpe_memory(const struct tok *t, const char *text, size_t n) {
        size_t longest = 0;

        while (n > 0) {
                size_t size = bpe_stretch(t, text, n);

                longest = MAX(longest, size);
                text += size;
                n -= size;
        }
        return tok_symbols_memory(longest) + tok_pretok_memory(t->bpe->pretok) +
               (t->bpe->ignore_merges ? t->vocab.max_size * 2 + TOK_MIN_BUFFER : 0);
}

static size_t bpe_piece(const struct tok *t, int32_t token, char *dst, size_t size) {
        const struct gguf_str *s = &t->vocab.text[token];
        size_t n = 0;

        for (size_t i = 0; i < s->size;) {
                uint32_t cp = 0;
                int len = utf8_decode((const uint8_t *)s->data + i, s->size - i, &cp);
                int byte = len > 0 ? bpe_byte_of_char(cp) : -1;

                if (byte >= 0) {
                        if (n < size)
                                dst[n] = (char)byte;
                        n++;
                        i += (size_t)len;
                        continue;
                }
                /* Not of the table: the character stands for itself. */
                for (int k = 0; k < MAX(len, 1); k++, n++, i++)
                        if (n < size)
                                dst[n] = s->data[i];
        }
        return n;
}

const struct tok_ops tok_ops_bpe = {
        .model = "gpt2",
        .default_bos = 11,
        .default_eos = 11,
        .default_unk = -1,
        .defaults_if_control = true,
        .load = bpe_load,
        .unload = bpe_unload,
        .encode = bpe_encode,
        .memory = bpe_memory,
        .piece = bpe_piece,
};
