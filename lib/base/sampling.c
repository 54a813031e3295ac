/* SPDX-License-Identifier: MIT */
#include "base/sampling.h"

#include <string.h>

void sampling_merge(struct sampling *base, const struct sampling *over) {
#define MERGE(bit, field)                                                                          \
        if (over->has & (bit))                                                                     \
        base->field = over->field
        MERGE(SAMPLING_TEMPERATURE, temperature);
        MERGE(SAMPLING_TOP_K, top_k);
        MERGE(SAMPLING_TOP_P, top_p);
        MERGE(SAMPLING_MIN_P, min_p);
        MERGE(SAMPLING_REPETITION, repetition_penalty);
        MERGE(SAMPLING_PRESENCE, presence_penalty);
        MERGE(SAMPLING_FREQUENCY, frequency_penalty);
        MERGE(SAMPLING_LAST_N, penalty_last_n);
        MERGE(SAMPLING_SEED, seed);
#undef MERGE
        if (over->has & SAMPLING_BIASES) {
                base->n_biases = over->n_biases;
                memcpy(base->biases, over->biases, sizeof(base->biases));
        }
        base->has |= over->has;
}
