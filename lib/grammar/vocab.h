/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The trie of tokens' texts, in preorder: a node's children follow it, and end[] tells where its
 * subtree ends. So a walk goes through the arrays from left to right and skips what is not allowed.
 * Tokens are sorted by their texts, which is the order of the nodes that they end at.
 */
#include "base/charge.h"
#include "grammar/grammar.h"

#define VOCAB_MAX_TEXT 255u /* bytes of a token */

struct grammar_vocab {
        struct charge charge;
        uint32_t n_tokens, n_nodes, n_texts, n_ends;
        uint32_t longest; /* bytes of the longest text */
        uint8_t *byte;    /* [n_nodes] */
        uint8_t *depth;   /* [n_nodes] 1 for a first byte */
        uint32_t *end;    /* [n_nodes] the node behind the subtree */
        uint32_t *first;  /* [n_nodes + 1] in tokens: those that end at the node */
        int32_t *tokens;  /* [n_texts] */
        int32_t *ends;    /* [n_ends] tokens that end a reply */
};
