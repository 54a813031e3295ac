/* SPDX-License-Identifier: MIT */
#pragma once
#include <stdint.h>
/* Types that several modules of equal rank share. */

/* Identity of everything that changes a bit of what the model computes. */
struct fingerprint {
        uint64_t weights; /* hash of the tensor data */
        uint64_t rules;   /* hash of metadata, KV type, block layout and arithmetic version */
};
static inline int fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b) {
        return a->weights == b->weights && a->rules == b->rules;
}
