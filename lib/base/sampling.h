/* SPDX-License-Identifier: MIT */
#pragma once
/* Sampling settings as users give them: each may be unset. Shared by the register and the engine.
 */
#include <stdint.h>

#define SAMPLING_MAX_BIASES 64

enum sampling_field {
        SAMPLING_TEMPERATURE = 1 << 0,
        SAMPLING_TOP_K = 1 << 1,
        SAMPLING_TOP_P = 1 << 2,
        SAMPLING_MIN_P = 1 << 3,
        SAMPLING_REPETITION = 1 << 4,
        SAMPLING_PRESENCE = 1 << 5,
        SAMPLING_FREQUENCY = 1 << 6,
        SAMPLING_LAST_N = 1 << 7,
        SAMPLING_SEED = 1 << 8,
        SAMPLING_BIASES = 1 << 9,
};

struct sampling_bias {
        int32_t token;
        float bias;
};

struct sampling {
        uint32_t has; /* enum sampling_field: which of the following are set */
        float temperature, top_p, min_p;
        float repetition_penalty, presence_penalty, frequency_penalty;
        uint32_t top_k, penalty_last_n;
        uint64_t seed;
        uint32_t n_biases;
        struct sampling_bias biases[SAMPLING_MAX_BIASES];
};

/* Fields set in @over replace those of @base. */
void sampling_merge(struct sampling *base, const struct sampling *over);
