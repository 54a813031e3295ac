/* SPDX-License-Identifier: MIT */
/* The tables of BPE: symbols, merges, the tokens of bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "base/utf8.h"
#include "base/util.h"
#include "tok/bpe.h"

uint32_t bpe_char_of_byte(uint8_t byte) {
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

int bpe_byte_of_char(uint32_t cp) {
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

bool bpe_pair(const struct tok *t, const struct tok_work *w, uint32_t left, uint32_t right,
        uint32_t *ret_rank, uint32_t *ret_id) {
        const struct bpe_merge *m = bpe_find(t->bpe, w->symbols[left].id, w->symbols[right].id);

        if (m->key == BPE_FREE)
                return false;
        *ret_rank = m->rank;
        *ret_id = m->result;
        return true;
}

uint32_t bpe_find_symbol(const struct tok *t, const char *text, size_t n) {
        int32_t id = tok_vocab_find(&t->vocab, text, n);
        void *found;

        if (id >= 0)
                return (uint32_t)id;
        found = map_count(t->bpe->extra) > 0 ? map_get(t->bpe->extra, text, n) : NULL;
        return found ? (uint32_t)(uintptr_t)found : BPE_NO_SYMBOL;
}

/* The symbol with this text; it gets a number if it has none. */
static int bpe_symbol(struct tok *t, const char *text, size_t n, uint32_t *ret, struct err *e) {
        uintptr_t number;
        int r;

        *ret = bpe_find_symbol(t, text, n);
        if (*ret != BPE_NO_SYMBOL)
                return 0;
        number = t->vocab.n + map_count(t->bpe->extra);
        r = map_add(t->bpe->extra, text, n, (void *)number, e);
        if (r < 0)
                return r;
        *ret = (uint32_t)number;
        return 0;
}

static int bpe_load_bytes(struct tok *t, struct err *e) {
        for (unsigned i = 0; i < 256; i++) {
                uint8_t text[4];
                size_t n = (size_t)utf8_encode(bpe_char_of_byte((uint8_t)i), text);
                int32_t id = tok_vocab_find(&t->vocab, text, n);
                int r;

                if (id >= 0 && t->vocab.type[id] != TOK_CONTROL && t->vocab.type[id] != TOK_UNKNOWN)
                        t->bpe->byte_token[i] = id;
                else
                        t->bpe->byte_token[i] = -1;
                r = bpe_symbol(t, (const char *)text, n, &t->bpe->byte_symbol[i], e);
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

/* Note the bytes that a merge joins. Symbols of byte-level BPE consist of characters that stand for
 * bytes, so a merge with any other character at its seam never happens. */
static void bpe_note_join(struct tok *t, const char *text, size_t n_left, size_t n) {
        int left, right;

        if (t->bpe->raw) {
                tok_joins_add(&t->joins, (uint8_t)text[n_left - 1], (uint8_t)text[n_left]);
                return;
        }
        left = bpe_end_byte(text, n_left, true);
        right = bpe_end_byte(text + n_left, n - n_left, false);
        if (left >= 0 && right >= 0)
                tok_joins_add(&t->joins, (uint8_t)left, (uint8_t)right);
}

/* "left right"; the separator is the first space that is not the first character. */
static int bpe_load_merge(
        struct tok *t, uint32_t rank, struct gguf_str line, char *joined, struct err *e) {
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
        r = bpe_symbol(t, joined, n_left, &left, e);
        if (r >= 0)
                r = bpe_symbol(t, joined + n_left, line.size - n_left - 1, &right, e);
        if (r >= 0)
                r = bpe_symbol(t, joined, line.size - 1, &result, e);
        if (r < 0)
                return r;
        m = bpe_find(t->bpe, left, right);
        bpe_note_join(t, joined, n_left, line.size - 1);
        if (m->key == BPE_FREE) /* of equal lines the first counts */
                *m = (struct bpe_merge){(uint64_t)left << 32 | right, rank, result};
        return 0;
}

static int bpe_load_merges(struct tok *t, const struct gguf *g, struct err *e) {
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
                        "a \"%s\" tokenizer needs tokenizer.ggml.merges, an array of strings",
                        t->ops->model);
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
                r = bpe_load_merge(t, i, gguf_array_next_str(&a, &pos), joined, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int bpe_load_pretok(struct tok *t, const struct gguf *g, struct err *e) {
        bool gemma4 = t->ops == &tok_ops_gemma4;
        struct gguf_str pre =
                gemma4 ? (struct gguf_str){"gemma4", 6} : (struct gguf_str){"default", 7};
        const struct tok_pretok_row *row;
        int r;

        r = gguf_get_str(g, "tokenizer.ggml.pre", &pre, e);
        if (r < 0)
                return r;
        row = tok_pretok_find(pre.data, pre.size);
        if (!row || (gemma4 && !(row->flags & TOK_PRETOK_RAW)))
                return err_set(e, ERR_UNSUPPORTED,
                        "pre-tokenizer \"%s\" is not supported for a \"%s\" tokenizer",
                        tok_quote(pre.data, pre.size).s, t->ops->model);
        memcpy(t->pre, pre.data, MIN(pre.size, sizeof(t->pre) - 1));
        t->bpe->ignore_merges = row->flags & TOK_PRETOK_IGNORE_MERGES;
        t->bpe->raw = row->flags & TOK_PRETOK_RAW;
        t->bpe->escape = row->flags & TOK_PRETOK_ESCAPE;
        t->add_bos = row->flags & TOK_PRETOK_ADD_BOS;
        if (t->bpe->raw && !gemma4)
                t->ops = &tok_ops_bpe_raw;
        return tok_pretok_new(&t->bpe->pretok, row, e);
}

int bpe_load(struct tok *t, const struct gguf *g, struct err *e) {
        int r;

        t->bpe = calloc(1, sizeof(*t->bpe));
        if (!t->bpe)
                return err_set(e, ERR_NOMEM, "out of memory for a tokenizer");
        r = map_new(&t->bpe->extra, e);
        if (r >= 0)
                r = tok_merged_new(t, e);
        if (r >= 0)
                r = bpe_load_pretok(t, g, e);
        if (r < 0)
                return r;
        if (t->bpe->raw)
                tok_load_bytes(t, t->bpe->byte_token);
        else
                r = bpe_load_bytes(t, e);
        return r < 0 ? r : bpe_load_merges(t, g, e);
}

void bpe_unload(struct tok *t) {
        if (!t->bpe)
                return;
        tok_pretok_free(t->bpe->pretok);
        map_free(t->bpe->extra);
        free(t->bpe->merges);
        free(t->bpe);
        t->bpe = NULL;
}
