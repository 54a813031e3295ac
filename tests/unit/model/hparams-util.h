/* SPDX-License-Identifier: MIT */
#pragma once
/* A file of a few keys of the architecture "t", changed at will and read. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "model/hparams.h"
#include "util/gguf-build.h"
#include "util/test.h"

enum kind { NONE, U32, F32, STR, U32S, BOOL, BOOLS };

struct change {
        const char *key;
        enum kind kind;
        double number;
        const char *str;
        uint32_t array[4];
        size_t n;
        const char *expect; /* part of the message; NULL: accepted */
};

static inline void put(struct gguf_build *b, const struct change *c) {
        if (c->kind == U32)
                gguf_build_u32(b, c->key, (uint32_t)c->number);
        else if (c->kind == F32)
                gguf_build_f32(b, c->key, (float)c->number);
        else if (c->kind == STR)
                gguf_build_str(b, c->key, c->str);
        else if (c->kind == U32S)
                gguf_build_u32_array(b, c->key, c->array, c->n);
        else if (c->kind == BOOL)
                gguf_build_bool(b, c->key, c->number != 0);
        else if (c->kind == BOOLS)
                gguf_build_bool_array(
                        b, c->key, (const bool[]){c->array[0], c->array[1], c->array[2]}, c->n);
}

static const struct change base[] = {
        {"t.block_count", U32, .number = 3},
        {"t.embedding_length", U32, .number = 64},
        {"t.context_length", U32, .number = 128},
        {"t.attention.layer_norm_rms_epsilon", F32, .number = 1e-5},
        {"t.vocab_size", U32, .number = 100},
        {"t.attention.head_count", U32, .number = 4},
        {"t.feed_forward_length", U32, .number = 96},
};

static const struct arch plain = {.name = "t"};

static inline bool is_changed(const char *key, const struct change *c, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!strcmp(key, c[i].key))
                        return true;
        return false;
}

/* The base keys with some changed, added or (NONE) left out. */
static inline int read_as(const struct arch *row, const struct change *c, size_t n,
        struct hparams *h, struct err *e) {
        struct gguf_build *b = gguf_build_new();
        struct gguf *g = NULL;
        uint8_t *bytes;
        size_t size;
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(base); i++)
                if (!is_changed(base[i].key, c, n))
                        put(b, &base[i]);
        for (size_t i = 0; i < n; i++)
                put(b, &c[i]);
        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        r = gguf_parse(&g, bytes, size, e);
        *h = (struct hparams){.gguf = g, .arch = row};
        if (r == 0)
                r = hparams_read(h, e);
        h->gguf = gguf_free(g);
        free(bytes);
        return r;
}

/* Must be accepted. */
#define READ(row, h, ...)                                                                          \
        do {                                                                                       \
                const struct change changes_[] = {__VA_ARGS__};                                    \
                struct err e_ = {0};                                                               \
                                                                                                   \
                if (read_as(row, changes_, ARRAY_SIZE(changes_), h, &e_))                          \
                        fail_msg("refused: %s", e_.msg);                                           \
        } while (0)
/* Must be refused with @expect in the message. */
#define REFUSE(row, expect, ...)                                                                   \
        do {                                                                                       \
                const struct change changes_[] = {__VA_ARGS__};                                    \
                struct hparams h_;                                                                 \
                struct err e_ = {0};                                                               \
                                                                                                   \
                assert_true(read_as(row, changes_, ARRAY_SIZE(changes_), &h_, &e_) < 0);           \
                if (!strstr(e_.msg, expect))                                                       \
                        fail_msg("message is: %s", e_.msg);                                        \
        } while (0)
