/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A vocabulary of words that are one token each, and a chat template: for models with random weights that are told texts.
 *
 * What such a model says is read back as the tokens that it sampled, and a text of N words of three letters, each
 * with a space before it, has N tokens, in any program that reads SPM vocabularies. The words are all those of one,
 * two, three and four letters in this order, as far as the vocabulary goes.
 */
#include <stdint.h>

#include "util/gguf-build.h"

enum {
        WORD_VOCABULARY_LEAST = 18539, /* tokens with which all words of three letters are there */
        WORD_VOCABULARY_MOST = 475000
};

/* The metadata of @n tokens, from WORD_VOCABULARY_LEAST to WORD_VOCABULARY_MOST. */
void word_vocabulary_build(struct gguf_build *out, uint32_t n);
