/* SPDX-License-Identifier: MIT */
#pragma once
#include "sample/rank.h"

struct sample_work {
        uint32_t n_vocab;
        struct candidate *items; /* [n_vocab] */
        uint32_t *counts;        /* [n_vocab], all zero between calls */
        /* Where only some tokens are items: */
        bool sparse;
        float least;     /* all tokens with such a logit are, or with a greater one */
        uint32_t *place; /* [n_vocab]: of a token that is one, which */
        /* For each 64 tokens: bits of those that must be, all zero between calls; the greatest logit. */
        uint64_t *marked;
        float *greatest, *heap;
};
