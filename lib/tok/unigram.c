/* SPDX-License-Identifier: MIT */
/*
 * Unigram ("t5"): of all ways to write a text with tokens, the one with the highest sum of scores.
 *
 * 1. First the text is brought into the model's normal form (charsmap.c). A run of spaces counts
 *    once and the spaces at both ends not at all, if the model says so. Spaces become U+2581, and
 *    one is put in front of the first word of a text that starts anew.
 * 2. A character that is no token by itself may also be the unknown token, which scores 10 less
 *    than the worst token. User-defined tokens score 0. Of equal sums, the one whose last token is
 *    the longest wins.
 * 3. The unknown token is written as byte tokens if the vocabulary has them; else neighbouring
 *    unknown characters become one unknown token.
 * 4. Ordinary text never becomes a control, unknown or byte token or a marker.
 * 5. Text is divided into stretches whose borders no token crosses (tok_may_join()). Each stretch
 *    is normalised and tokenised by itself, so a text needs only the memory of its longest stretch.
 *    A place costs at most as many steps as the longest token has bytes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "tok/tok-internal.h"

#define UNKNOWN_PENALTY 10.0
#define PLACES_PER_LOOK 4096

struct tok_unigram {
        struct tok_trie trie;
        struct tok_charsmap charsmap;
        bool merge_spaces;
        double unknown_score;
        int32_t byte[256]; /* the byte token, or -1 */
};

/* The best way to write the text up to a place. */
struct tok_best {
        double score;
        uint32_t start, next; /* of the last token; the end of the token after this place */
        int32_t token;        /* -1: unknown */
};

/* --- load --- */

/* A sum with an infinite score would not be comparable. */
static bool unigram_may_be(const struct tok *t, uint32_t id) {
        return t->vocab.type[id] == TOK_USER_DEFINED ||
               (t->vocab.type[id] == TOK_NORMAL && isfinite(t->vocab.score[id]));
}

static int unigram_load_trie(struct tok *t, struct err *e) {
        _cleanup_(freep) struct tok_trie_entry *entries = calloc(t->vocab.n, sizeof(*entries));
        double lowest = INFINITY;
        uint32_t n = 0;

        if (!entries)
                return err_set(e, ERR_NOMEM, "out of memory for %u tokens", t->vocab.n);
        for (uint32_t i = 0; i < t->vocab.n; i++) {
                const struct gguf_str *s = &t->vocab.text[i];

                if (t->vocab.type[i] == TOK_NORMAL && isfinite(t->vocab.score[i]))
                        lowest = MIN(lowest, (double)t->vocab.score[i]);
                if (!unigram_may_be(t, i) || s->size == 0)
                        continue;
                entries[n++] = (struct tok_trie_entry){s->data, (uint32_t)s->size, (int32_t)i};
                for (size_t k = 1; k < s->size; k++)
                        tok_joins_add(&t->joins, (uint8_t)s->data[k - 1], (uint8_t)s->data[k]);
        }
        t->unigram->unknown_score = (isinf(lowest) ? 0 : lowest) - UNKNOWN_PENALTY;
        return tok_trie_build(&t->unigram->trie, entries, n, e);
}

static int unigram_load(struct tok *t, const struct gguf *g, struct err *e) {
        int r;

        if (!t->vocab.score)
                return err_set(e, ERR_FORMAT, "a \"t5\" tokenizer needs tokenizer.ggml.scores");
        t->unigram = calloc(1, sizeof(*t->unigram));
        if (!t->unigram)
                return err_set(e, ERR_NOMEM, "out of memory for a tokenizer");
        r = unigram_load_trie(t, e);
        if (r >= 0)
                r = tok_charsmap_load(&t->unigram->charsmap, g, e);
        if (r < 0)
                return r;
        tok_load_bytes(t, t->unigram->byte);
        for (unsigned i = 0; i < 256; i++)
                if (t->unigram->byte[i] >= 0 && t->vocab.type[t->unigram->byte[i]] != TOK_BYTE)
                        t->unigram->byte[i] = -1;
        r = gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &t->add_space_prefix, e);
        if (r >= 0)
                r = gguf_get_bool(
                        g, "tokenizer.ggml.remove_extra_whitespaces", &t->unigram->merge_spaces, e);
        return r < 0 ? r : 0;
}

static void unigram_unload(struct tok *t) {
        if (!t->unigram)
                return;
        tok_trie_deinit(&t->unigram->trie);
        free(t->unigram);
        t->unigram = NULL;
}

/* --- the normal form, character by character --- */

struct reader {
        const struct tok *t;
        const char *text; /* what is left of it */
        size_t n;
        const char *more; /* what is left of a replacement, or NULL */
        size_t n_more;
        bool prefix; /* a space goes before the next character */
        bool inside; /* something has been read, or the text goes on from an earlier one */
};

struct piece {
        const char *data;
        size_t size; /* 0: the end */
};

/* The next character of the text after the character map, NULL at the end. Bytes that are not UTF-8
 * become U+FFFD. *r moves behind it. */
static struct piece next_mapped(struct reader *r) {
        static const char replacement[] = "\xef\xbf\xbd";
        struct piece p;

        while (!r->more || r->n_more == 0) {
                size_t found;

                r->more = NULL;
                if (r->n == 0)
                        return (struct piece){NULL, 0};
                found = tok_charsmap_find(&r->t->unigram->charsmap, r->text, r->n, &r->more);
                if (found > 0) {
                        r->n_more = strlen(r->more);
                } else {
                        found = tok_char_size(r->text, r->n);
                        r->more = r->text;
                        r->n_more = found;
                        if (found == 1 && (uint8_t)r->text[0] >= 0x80) {
                                r->more = replacement;
                                r->n_more = 3;
                        }
                }
                r->text += found;
                r->n -= found;
        }
        p = (struct piece){r->more, tok_char_size(r->more, r->n_more)};
        r->more += p.size;
        r->n_more -= p.size;
        return p;
}

/* The next character, spaces treated as the model wants them. */
static struct piece next_piece(struct reader *r) {
        const struct piece space = {TOK_SPACE, TOK_SPACE_SIZE};

        for (;;) {
                struct reader before = *r;
                struct piece p = next_mapped(r);

                if (p.size == 0)
                        return p;
                if (*p.data == ' ' && r->t->unigram->merge_spaces) {
                        r->prefix = r->prefix || r->inside;
                        continue;
                }
                r->inside = true;
                if (!r->prefix)
                        return *p.data == ' ' ? space : p;
                *r = before; /* the character comes next */
                r->inside = true;
                r->prefix = false;
                return space;
        }
}

/* Size in bytes of the stretch that @r begins with, which moves behind it; 0 at the end. */
static size_t next_stretch(struct reader *r) {
        struct reader before = *r;
        struct piece p = next_piece(r);
        size_t size = 0;

        while (p.size > 0) {
                uint8_t last = (uint8_t)p.data[p.size - 1];

                size += p.size;
                before = *r;
                p = next_piece(r);
                if (p.size > 0 && !tok_may_join(&r->t->joins, last, (uint8_t)p.data[0]))
                        break;
        }
        if (p.size > 0)
                *r = before;
        return size;
}

static struct reader reader_new(const struct tok *t, const char *text, size_t n, bool starts) {
        return (struct reader){
                .t = t,
                .text = text,
                .n = n,
                .prefix = starts && t->add_space_prefix,
                .inside = !starts,
        };
}

/* --- the best tokens of one stretch --- */

static int reserve_best(struct tok_work *w, size_t n, struct err *e) {
        if (n <= w->best_capacity)
                return 0;
        n = MAX(n, (size_t)TOK_MIN_SYMBOLS);
        w->best_capacity = 0;
        free(w->best);
        w->best = malloc(n * sizeof(*w->best));
        if (!w->best)
                return err_set(e, ERR_NOMEM, "out of memory to tokenise %zu bytes", n);
        w->best_capacity = n;
        return 0;
}

static void offer(struct tok_best *to, double score, uint32_t start, int32_t token) {
        if (score > to->score)
                *to = (struct tok_best){.score = score, .start = start, .token = token};
}

/* Offer each token that begins at @at to the place where it ends. */
static void offer_tokens(const struct tok *t, struct tok_work *w, uint32_t at) {
        const struct tok_unigram *u = t->unigram;
        double score = w->best[at].score;
        size_t n_char = tok_char_size(w->text + at, w->text_size - at);
        bool is_token = false;
        uint32_t node = 0;

        for (size_t end = at; end < w->text_size;) {
                int32_t id;

                node = tok_trie_child(&u->trie, node, (uint8_t)w->text[end++]);
                if (node == 0)
                        break;
                id = u->trie.id[node];
                if (id < 0 || !tok_may_emit(t, (uint32_t)id))
                        continue;
                is_token = is_token || end == at + n_char;
                offer(&w->best[end],
                        score + (t->vocab.type[id] == TOK_USER_DEFINED
                                                ? 0
                                                : (double)t->vocab.score[id]),
                        at, id);
        }
        if (!is_token)
                offer(&w->best[at + n_char], score + u->unknown_score, at, -1);
}

static int emit_unknown(const struct tok *t, const struct tok_work *w, uint32_t from, uint32_t to,
        bool *after_unknown, struct tok_out *out, struct err *e) {
        const struct tok_unigram *u = t->unigram;
        bool bytes = true;
        int r = 0;

        for (uint32_t i = from; i < to; i++)
                bytes = bytes && u->byte[(uint8_t)w->text[i]] >= 0;
        for (uint32_t i = from; r >= 0 && bytes && i < to; i++)
                r = tok_out_push(out, u->byte[(uint8_t)w->text[i]], e);
        if (!bytes && !*after_unknown && t->unk >= 0)
                r = tok_out_push(out, t->unk, e);
        *after_unknown = !bytes;
        return r;
}

/* The tokens of w->text. @after_unknown: the token before was unknown; changes. */
static int encode_stretch(const struct tok *t, struct tok_work *w, bool *after_unknown,
        struct tok_out *out, struct err *e) {
        uint32_t n = (uint32_t)w->text_size;
        int r = reserve_best(w, (size_t)n + 1, e);

        if (r < 0)
                return r;
        for (uint32_t i = 0; i <= n; i++)
                w->best[i].score = -INFINITY;
        w->best[0].score = 0;
        for (uint32_t at = 0; at < n; at += (uint32_t)tok_char_size(w->text + at, n - at)) {
                offer_tokens(t, w, at);
                if (at % PLACES_PER_LOOK == 0 && tok_stopped(w))
                        return tok_stop(e);
        }
        for (uint32_t at = n; at > 0; at = w->best[at].start)
                w->best[w->best[at].start].next = at;
        for (uint32_t at = 0, end; r >= 0 && at < n; at = end) {
                end = w->best[at].next;
                if (w->best[end].token < 0) {
                        r = emit_unknown(t, w, at, end, after_unknown, out, e);
                        continue;
                }
                r = tok_out_push(out, w->best[end].token, e);
                *after_unknown = false;
        }
        return r;
}

static int unigram_encode(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        bool starts, struct tok_out *out, struct err *e) {
        struct reader reader = reader_new(t, text, n, starts);
        bool after_unknown = false;

        for (;;) {
                struct reader from = reader;
                size_t size = next_stretch(&reader);
                int r;

                if (size == 0)
                        return 0;
                if (size >= UINT32_MAX)
                        return err_set(e, ERR_LIMIT, "a text is too long in its normal form");
                r = tok_work_reserve_buffer(w, size, e);
                if (r < 0)
                        return r;
                w->text = w->buffer;
                w->text_size = 0;
                while (w->text_size < size) {
                        struct piece p = next_piece(&from);

                        memcpy(w->buffer + w->text_size, p.data, p.size);
                        w->text_size += p.size;
                }
                r = encode_stretch(t, w, &after_unknown, out, e);
                if (r < 0)
                        return r;
        }
}

static size_t unigram_memory(const struct tok *t, const char *text, size_t n) {
        struct reader reader = reader_new(t, text, n, true);
        size_t longest = 0, size;

        while ((size = next_stretch(&reader)) > 0)
                longest = MAX(longest, size);
        return MAX(longest, (size_t)TOK_MIN_BUFFER) +
               MAX(longest + 1, (size_t)TOK_MIN_SYMBOLS) * sizeof(struct tok_best);
}

static size_t unigram_piece(const struct tok *t, int32_t token, char *dst, size_t size) {
        return tok_chars_piece(t, token, true, dst, size);
}

const struct tok_ops tok_ops_unigram = {
        .model = "t5",
        .default_bos = -1,
        .default_eos = 1,
        .default_unk = 2,
        .default_add_eos = true,
        .load = unigram_load,
        .unload = unigram_unload,
        .encode = unigram_encode,
        .memory = unigram_memory,
        .piece = unigram_piece,
};
