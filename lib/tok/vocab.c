/* SPDX-License-Identifier: MIT */
/*
 * The token table as the file has it: texts, types and scores, arrays of one length. lib/gguf has
 * checked that every string lies in the file. This file checks sizes, types and scores, so that
 * later code may index the table without checks.
 *
 * 1. A token with an empty text can't be found by text and prints nothing.
 * 2. If two tokens have the same text, both are printable; a look-up finds the later id.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "tok/tok-internal.h"

uint64_t tok_random_seed(void) {
        uint64_t seed;

        if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
                seed = clock_monotonic_usec() * 0x9e3779b97f4a7c15u;
        return seed;
}

int32_t tok_vocab_find(const struct tok_vocab *v, const void *text, size_t n) {
        uint32_t at;

        if (n == 0 || n > v->max_size)
                return -1;
        for (at = (uint32_t)hash64(text, n, v->seed) & v->mask; v->slots[at] != 0;
                at = (at + 1) & v->mask) {
                const struct gguf_str *s = &v->text[v->slots[at] - 1];

                if (s->size == n && memcmp(s->data, text, n) == 0)
                        return (int32_t)(v->slots[at] - 1);
        }
        return -1;
}

static void tok_vocab_index(struct tok_vocab *v, uint32_t id) {
        const struct gguf_str *t = &v->text[id];
        uint32_t at;

        if (t->size == 0)
                return;
        for (at = (uint32_t)hash64(t->data, t->size, v->seed) & v->mask; v->slots[at] != 0;
                at = (at + 1) & v->mask) {
                const struct gguf_str *s = &v->text[v->slots[at] - 1];

                if (s->size == t->size && memcmp(s->data, t->data, t->size) == 0)
                        break; /* the later id takes the place */
        }
        v->slots[at] = id + 1;
}

static int tok_vocab_load_texts(struct tok_vocab *v, const struct gguf *g, struct err *e) {
        struct gguf_array a;
        uint32_t n_slots = 16;
        size_t pos = 0;
        int r;

        r = gguf_get_array(g, "tokenizer.ggml.tokens", &a, e);
        if (r < 0)
                return r;
        if (r > 0 || a.type != GGUF_STRING || a.count == 0)
                return err_set(e, ERR_FORMAT, "tokenizer.ggml.tokens must be an array of strings");
        if (a.count > TOK_MAX_VOCAB)
                return err_set(e, ERR_LIMIT,
                        "a vocabulary of %llu tokens is too large (at most %u)",
                        (unsigned long long)a.count, TOK_MAX_VOCAB);
        v->n = (uint32_t)a.count;
        v->max_size = 1;
        while (n_slots < v->n * 2)
                n_slots *= 2;
        v->mask = n_slots - 1;
        v->seed = tok_random_seed();
        v->text = calloc(v->n, sizeof(*v->text));
        v->type = calloc(v->n, sizeof(*v->type));
        v->slots = calloc(n_slots, sizeof(*v->slots));
        if (!v->text || !v->type || !v->slots)
                return err_set(e, ERR_NOMEM, "out of memory for a vocabulary of %u tokens", v->n);
        for (uint32_t i = 0; i < v->n; i++) {
                v->text[i] = gguf_array_next_str(&a, &pos);
                if (v->text[i].size > TOK_MAX_TEXT_SIZE)
                        return err_set(e, ERR_LIMIT,
                                "token %u has a text of %zu bytes (at most %u)", i, v->text[i].size,
                                TOK_MAX_TEXT_SIZE);
                if (v->text[i].size > v->max_size)
                        v->max_size = v->text[i].size;
                tok_vocab_index(v, i);
        }
        return 0;
}

static bool tok_type_is_integer(enum gguf_type t) {
        return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64;
}

static int tok_vocab_load_types(struct tok_vocab *v, const struct gguf *g, struct err *e) {
        struct gguf_array a;
        int r;

        r = gguf_get_array(g, "tokenizer.ggml.token_type", &a, e);
        if (r < 0)
                return r;
        if (r > 0) {
                memset(v->type, TOK_NORMAL, v->n);
                return 0;
        }
        if (!tok_type_is_integer(a.type) || a.count != v->n)
                return err_set(e, ERR_FORMAT,
                        "tokenizer.ggml.token_type must be an array of %u integers", v->n);
        for (uint32_t i = 0; i < v->n; i++) {
                int64_t type = gguf_array_int(&a, i);

                if (type < 0 || type >= TOK_N_TYPES)
                        return err_set(e, ERR_FORMAT, "token %u has the unknown type %lld", i,
                                (long long)type);
                v->type[i] = (uint8_t)type;
        }
        return 0;
}

static int tok_vocab_load_scores(struct tok_vocab *v, const struct gguf *g, struct err *e) {
        struct gguf_array a;
        int r;

        r = gguf_get_array(g, "tokenizer.ggml.scores", &a, e);
        if (r != 0)
                return r < 0 ? r : 0;
        if ((a.type != GGUF_F32 && a.type != GGUF_F64) || a.count != v->n)
                return err_set(
                        e, ERR_FORMAT, "tokenizer.ggml.scores must be an array of %u floats", v->n);
        v->score = calloc(v->n, sizeof(*v->score));
        if (!v->score)
                return err_set(e, ERR_NOMEM, "out of memory for %u token scores", v->n);
        for (uint32_t i = 0; i < v->n; i++) {
                v->score[i] = (float)gguf_array_f64(&a, i);
                if (isnan(v->score[i]))
                        return err_set(e, ERR_FORMAT, "the score of token %u is not a number", i);
        }
        return 0;
}

int tok_vocab_load(struct tok_vocab *v, const struct gguf *g, struct err *e) {
        int r;

        r = tok_vocab_load_texts(v, g, e);
        if (r < 0)
                return r;
        r = tok_vocab_load_types(v, g, e);
        if (r < 0)
                return r;
        return tok_vocab_load_scores(v, g, e);
}

void tok_vocab_deinit(struct tok_vocab *v) {
        free(v->text);
        free(v->type);
        free(v->score);
        free(v->slots);
        *v = (struct tok_vocab){0};
}
