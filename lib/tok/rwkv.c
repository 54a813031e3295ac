/* SPDX-License-Identifier: MIT */
/*
 * RWKV ("rwkv"): at each place the longest token. The file writes the bytes of a token as a string
 * literal: \n, \t, \r, \xNN, and a backslash before any other character that it stands for.
 *
 * 1. Control and unknown tokens and markers are never found in ordinary text.
 * 2. A byte that begins no token becomes the unknown token, or nothing if there is none.
 * 3. A place costs at most as many steps as the longest token has bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

#define STEPS_PER_LOOK 65536

struct tok_rwkv {
        char *bytes;     /* of all tokens, one behind the other */
        uint32_t *start; /* [n_vocab + 1] */
        struct tok_trie trie;
};

static int hex_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that s[*at..] begins with, moving *at behind it. */
static char unescape(const struct gguf_str *s, size_t *at) {
        char c = s->data[(*at)++];

        if (c != '\\' || *at == s->size)
                return c;
        c = s->data[(*at)++];
        switch (c) {
        case 'n':
                return '\n';
        case 't':
                return '\t';
        case 'r':
                return '\r';
        case 'x':
                if (s->size - *at >= 2) {
                        int high = hex_value(s->data[*at]), low = hex_value(s->data[*at + 1]);

                        if (high >= 0 && low >= 0) {
                                *at += 2;
                                return (char)(high << 4 | low);
                        }
                }
                return c;
        default:
                return c;
        }
}

static int rwkv_load_bytes(struct tok *t, struct err *e) {
        struct tok_rwkv *k = t->rwkv;
        size_t size = 0;

        for (uint32_t i = 0; i < t->vocab.n; i++)
                size += t->vocab.text[i].size;
        if (size > UINT32_MAX)
                return err_set(e, ERR_LIMIT, "the texts of the tokens have more than 4 GiB");
        k->bytes = malloc(size + 1);
        k->start = calloc((size_t)t->vocab.n + 1, sizeof(*k->start));
        if (!k->bytes || !k->start)
                return err_set(e, ERR_NOMEM, "out of memory for %u tokens", t->vocab.n);
        size = 0;
        for (uint32_t i = 0; i < t->vocab.n; i++) {
                k->start[i] = (uint32_t)size;
                for (size_t at = 0; at < t->vocab.text[i].size;)
                        k->bytes[size++] = unescape(&t->vocab.text[i], &at);
        }
        k->start[t->vocab.n] = (uint32_t)size;
        return 0;
}

static int rwkv_load(struct tok *t, const struct gguf *g, struct err *e) {
        _cleanup_(freep) struct tok_trie_entry *entries = NULL;
        uint32_t n = 0;
        int r;

        t->rwkv = calloc(1, sizeof(*t->rwkv));
        if (!t->rwkv)
                return err_set(e, ERR_NOMEM, "out of memory for a tokenizer");
        r = rwkv_load_bytes(t, e);
        if (r < 0)
                return r;
        entries = calloc(t->vocab.n, sizeof(*entries));
        if (!entries)
                return err_set(e, ERR_NOMEM, "out of memory for %u tokens", t->vocab.n);
        for (uint32_t i = 0; i < t->vocab.n; i++) {
                uint32_t start = t->rwkv->start[i], size = t->rwkv->start[i + 1] - start;

                if (size > 0)
                        entries[n++] =
                                (struct tok_trie_entry){t->rwkv->bytes + start, size, (int32_t)i};
        }
        return tok_trie_build(&t->rwkv->trie, entries, n, e);
}

static void rwkv_unload(struct tok *t) {
        if (!t->rwkv)
                return;
        tok_trie_deinit(&t->rwkv->trie);
        free(t->rwkv->bytes);
        free(t->rwkv->start);
        free(t->rwkv);
        t->rwkv = NULL;
}

/* The longest token at text[0..n), or -1. *ret_steps counts the bytes looked at. */
static int32_t longest(
        const struct tok *t, const char *text, size_t n, size_t *ret_size, size_t *ret_steps) {
        const struct tok_trie *trie = &t->rwkv->trie;
        uint32_t node = 0;
        int32_t found = -1;
        size_t at = 0;

        while (at < n && (node = tok_trie_child(trie, node, (uint8_t)text[at])) != 0) {
                int32_t id = trie->id[node];

                at++;
                if (id >= 0 && tok_may_emit(t, (uint32_t)id)) {
                        found = id;
                        *ret_size = at;
                }
        }
        *ret_steps += at + 1;
        return found;
}

static int rwkv_encode(const struct tok *t, struct tok_work *w, const char *text, size_t n,
        bool starts, struct tok_out *out, struct err *e) {
        size_t steps = 0;

        while (n > 0) {
                size_t size = 1;
                int32_t id = longest(t, text, n, &size, &steps);
                int r;

                if (steps >= STEPS_PER_LOOK) {
                        steps = 0;
                        if (tok_stopped(w))
                                return tok_stop(e);
                }
                id = id >= 0 ? id : t->unk;
                r = id >= 0 ? tok_out_push(out, id, e) : 0;
                if (r < 0)
                        return r;
                text += size;
                n -= size;
        }
        return 0;
}

static size_t rwkv_memory(const struct tok *t, const char *text, size_t n) {
        return 0;
}

static size_t rwkv_piece(const struct tok *t, int32_t token, char *dst, size_t size) {
        uint32_t start = t->rwkv->start[token], n = t->rwkv->start[token + 1] - start;

        if (size > 0)
                memcpy(dst, t->rwkv->bytes + start, MIN(size, (size_t)n));
        return n;
}

const struct tok_ops tok_ops_rwkv = {
        .model = "rwkv",
        .default_bos = -1,
        .default_eos = -1,
        .default_unk = -1,
        .load = rwkv_load,
        .unload = rwkv_unload,
        .encode = rwkv_encode,
        .memory = rwkv_memory,
        .piece = rwkv_piece,
};
