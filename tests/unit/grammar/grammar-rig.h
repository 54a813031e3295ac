/* SPDX-License-Identifier: MIT */
#pragma once
/* Grammars for tests: small vocabularies, and whether a text meets a grammar. */
#include "grammar/grammar.h"

/* Tokens: the 256 single bytes (token = byte), then @words, then one that ends. */
struct grammar_rig {
        const char *const *words;
        size_t n_words;
        struct grammar_vocab *vocab;
};
void rig_init(struct grammar_rig *r, const char *const *words, size_t n_words);
void rig_deinit(struct grammar_rig *r);
static inline uint32_t rig_end(const struct grammar_rig *r) {
        return 256 + (uint32_t)r->n_words;
}
/* The bytes of @token. */
size_t rig_text(const struct grammar_rig *r, uint32_t token, char *dst, size_t size);

/* A grammar that must compile. */
struct grammar *rig_grammar(const struct grammar_rig *r, enum grammar_kind kind, const char *text);
/* Whole @text meets it. */
bool rig_meets(struct grammar *g, const char *text, size_t n);
/* How many bytes of @text the grammar takes. */
size_t rig_takes(struct grammar *g, const char *text, size_t n);
/* Compiling must fail, with code @code and a message that contains @part. */
void rig_refused(enum grammar_kind kind, const char *text, int code, const char *part);
/* A schema or GBNF; then texts that meet it, NULL; texts that do not, NULL. */
void rig_table(
        enum grammar_kind kind, const char *text, const char *const *yes, const char *const *no);
