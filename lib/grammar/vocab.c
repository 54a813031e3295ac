/* SPDX-License-Identifier: MIT */
#include "grammar/vocab.h"
#include "base/err.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

struct text {
        const uint8_t *bytes;
        uint32_t n;
        int32_t token;
};

/* While the trie is built. */
struct builder {
        struct grammar_vocab *v;
        uint8_t *bytes; /* of all texts */
        struct text *texts;
        size_t size;
};

static int compare_texts(const void *a, const void *b) {
        const struct text *x = a, *y = b;
        int r = memcmp(x->bytes, y->bytes, MIN(x->n, y->n));

        if (r == 0)
                r = x->n < y->n ? -1 : x->n > y->n;
        return r ? r : x->token < y->token ? -1 : x->token > y->token;
}

static enum grammar_token ask(const struct grammar_vocab_source *source, uint32_t token, void *dst,
        size_t size, size_t *ret_size) {
        enum grammar_token kind = source->token(source->userdata, token, dst, size, ret_size);

        if (kind == GRAMMAR_TOKEN_TEXT && (*ret_size == 0 || *ret_size > VOCAB_MAX_TEXT))
                kind = GRAMMAR_TOKEN_NONE;
        return kind;
}

static int count(struct builder *b, const struct grammar_vocab_source *source, struct err *e) {
        struct grammar_vocab *v = b->v;
        size_t n;
        int r;

        for (uint32_t i = 0; i < source->n_tokens; i++)
                switch (ask(source, i, NULL, 0, &n)) {
                case GRAMMAR_TOKEN_TEXT:
                        v->n_texts++;
                        b->size += n;
                        v->longest = MAX(v->longest, (uint32_t)n);
                        break;
                case GRAMMAR_TOKEN_END:
                        v->n_ends++;
                        break;
                default:
                        break;
                }
        r = charge_take(&v->charge,
                b->size + v->n_texts * (sizeof(struct text) + sizeof(*v->tokens)) +
                        (v->n_ends + 3) * sizeof(*v->ends),
                "the vocabulary as a trie", e);
        if (r < 0)
                return r;
        b->bytes = malloc(b->size + 1);
        b->texts = malloc(v->n_texts * sizeof(*b->texts) + 1);
        v->tokens = malloc(v->n_texts * sizeof(*v->tokens) + 1);
        v->ends = malloc(v->n_ends * sizeof(*v->ends) + 1);
        if (!b->bytes || !b->texts || !v->tokens || !v->ends)
                return err_set(e, ERR_NOMEM, "no memory for the vocabulary");
        return 0;
}

static void collect(struct builder *b, const struct grammar_vocab_source *source) {
        struct grammar_vocab *v = b->v;
        uint32_t n_texts = 0, n_ends = 0;
        uint8_t *at = b->bytes;
        size_t n;

        for (uint32_t i = 0; i < source->n_tokens; i++)
                switch (ask(source, i, at, (size_t)(b->bytes + b->size - at), &n)) {
                case GRAMMAR_TOKEN_TEXT:
                        b->texts[n_texts++] = (struct text){at, (uint32_t)n, (int32_t)i};
                        at += n;
                        break;
                case GRAMMAR_TOKEN_END:
                        v->ends[n_ends++] = (int32_t)i;
                        break;
                default:
                        break;
                }
        qsort(b->texts, n_texts, sizeof(*b->texts), compare_texts);
        for (uint32_t i = 0; i < n_texts; i++)
                v->tokens[i] = b->texts[i].token;
}

/* How many bytes text @i shares with the one before. */
static uint32_t shared(const struct builder *b, uint32_t i) {
        const struct text *x, *y = &b->texts[i];
        uint32_t n = 0;

        if (i == 0)
                return 0;
        x = y - 1;
        while (n < x->n && n < y->n && x->bytes[n] == y->bytes[n])
                n++;
        return n;
}

static int allocate(struct builder *b, struct err *e) {
        struct grammar_vocab *v = b->v;
        size_t n = 0;
        int r;

        for (uint32_t i = 0; i < v->n_texts; i++)
                n += b->texts[i].n - shared(b, i);
        if (n >= UINT32_MAX)
                return err_set(e, ERR_TOO_LARGE, "the vocabulary's texts are too long");
        r = charge_take(
                &v->charge, (n + 1) * (2 + 2 * sizeof(uint32_t)), "the vocabulary as a trie", e);
        if (r < 0)
                return r;
        v->byte = malloc(n + 1);
        v->depth = malloc(n + 1);
        v->end = malloc((n + 1) * sizeof(*v->end));
        v->first = malloc((n + 1) * sizeof(*v->first));
        if (!v->byte || !v->depth || !v->end || !v->first)
                return err_set(e, ERR_NOMEM, "no memory for the vocabulary");
        return 0;
}

static void fill(struct builder *b) {
        struct grammar_vocab *v = b->v;
        uint32_t open[VOCAB_MAX_TEXT + 1], depth = 0; /* nodes whose subtree goes on, by depth */

        for (uint32_t i = 0; i < v->n_texts; i++) {
                const struct text *t = &b->texts[i];
                uint32_t same = shared(b, i);

                while (depth > same)
                        v->end[open[depth--]] = v->n_nodes;
                while (depth < t->n) {
                        uint32_t node = v->n_nodes++;

                        v->byte[node] = t->bytes[depth];
                        open[++depth] = node;
                        v->depth[node] = (uint8_t)depth;
                        /* Only the last of these nodes has tokens, from this text on. */
                        v->first[node] = i;
                }
        }
        while (depth > 0)
                v->end[open[depth--]] = v->n_nodes;
        v->first[v->n_nodes] = v->n_texts;
}

int grammar_vocab_new(struct grammar_vocab **ret, const struct grammar_vocab_source *source,
        struct ledger *ledger, struct err *e) {
        struct charge charge = {.ledger = ledger};
        struct builder b = {0};
        int r = charge_take(&charge, sizeof(*b.v), "the vocabulary as a trie", e);

        if (r < 0)
                return r;
        b.v = calloc(1, sizeof(*b.v));
        if (!b.v) {
                charge_deinit(&charge);
                return err_set(e, ERR_NOMEM, "no memory for the vocabulary");
        }
        b.v->charge = charge;
        b.v->n_tokens = source->n_tokens;
        r = count(&b, source, e);
        if (r == 0) {
                collect(&b, source);
                r = allocate(&b, e);
        }
        if (r == 0)
                fill(&b);
        free(b.bytes);
        free(b.texts);
        if (r < 0) {
                grammar_vocab_free(b.v);
                return r;
        }
        charge_give(&b.v->charge, b.size + b.v->n_texts * sizeof(struct text));
        *ret = b.v;
        return 0;
}

struct grammar_vocab *grammar_vocab_free(struct grammar_vocab *v) {
        struct charge charge;

        if (!v)
                return NULL;
        free(v->byte);
        free(v->depth);
        free(v->end);
        free(v->first);
        free(v->tokens);
        free(v->ends);
        charge = v->charge;
        free(v);
        charge_deinit(&charge);
        return NULL;
}

size_t grammar_vocab_size(const struct grammar_vocab *v) {
        return sizeof(*v) + v->n_nodes * (2 + 2 * sizeof(uint32_t)) +
               (v->n_texts + v->n_ends) * sizeof(int32_t);
}

size_t grammar_mask_words(const struct grammar_vocab *v) {
        return ((size_t)v->n_tokens + 63) / 64;
}
