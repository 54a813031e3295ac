/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * XXH64 (libxxhash; published specification: xxHash fast digest algorithm, doc/xxhash_spec.md).
 * Not for secrets: collisions can be made on purpose. Used for checksums, and for chained token
 * hashes, which are verified by comparison. Maps whose keys peers choose use SipHash-2-4 (Aumasson
 * and Bernstein 2012) under a random key.
 */
#include <stddef.h>
#include <stdint.h>

struct hash64 {
        uint64_t state[11]; /* libxxhash's state, hidden from other files */
};

uint64_t hash64(const void *data, size_t n, uint64_t seed);
void hash64_init(struct hash64 *h, uint64_t seed);
void hash64_update(struct hash64 *h, const void *data, size_t n);
uint64_t hash64_digest(const struct hash64 *h);
/* Chained hash of a block's @n tokens, after the block whose hash is @prev (0: the first block). It
 * stands for all tokens from the start; equal hashes still require a comparison of the tokens. */
uint64_t hash64_chain_tokens(const int32_t *tokens, size_t n, uint64_t prev);

/* SipHash-2-4. */
uint64_t hash64_keyed(const void *data, size_t n, const uint64_t key[2]);
