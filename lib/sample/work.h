/* SPDX-License-Identifier: MIT */
#pragma once
#include "sample/rank.h"

struct sample_work {
        uint32_t n_vocab;
        struct candidate *items; /* [n_vocab] */
        uint32_t *counts;        /* [n_vocab], all zero between calls */
};
