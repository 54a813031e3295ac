/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <assert.h>
#include <string.h>

/* The library's own code, compiled here: no shared object has to be loaded for one function. */
#define XXH_INLINE_ALL
#include <xxhash.h>

static_assert(sizeof(XXH64_state_t) <= sizeof(struct hash64) &&
                      _Alignof(XXH64_state_t) <= _Alignof(struct hash64),
        "struct hash64 holds libxxhash's state");

static XXH64_state_t *state_of(struct hash64 *h) {
        return (XXH64_state_t *)(void *)h->state;
}

void hash64_init(struct hash64 *h, uint64_t seed) {
        XXH64_reset(state_of(h), seed);
}

void hash64_update(struct hash64 *h, const void *data, size_t n) {
        if (n > 0)
                XXH64_update(state_of(h), data, n);
}

uint64_t hash64_digest(const struct hash64 *h) {
        struct hash64 copy = *h;

        return XXH64_digest(state_of(&copy));
}

uint64_t hash64(const void *data, size_t n, uint64_t seed) {
        return XXH64(data, n, seed);
}

uint64_t hash64_chain_tokens(const int32_t *tokens, size_t n, uint64_t prev) {
        return hash64(tokens, n * sizeof(*tokens), prev);
}

static inline uint64_t rotl(uint64_t x, int k) {
        return x << k | x >> (64 - k);
}

static inline uint64_t load_u64(const uint8_t *p) {
        uint64_t v;

        memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap64(v);
#endif
        return v;
}

static inline void sip_round(uint64_t v[4]) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotl(v[1], 13) ^ v[0];
        v[3] = rotl(v[3], 16) ^ v[2];
        v[0] = rotl(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotl(v[1], 17) ^ v[2];
        v[3] = rotl(v[3], 21) ^ v[0];
        v[2] = rotl(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t m) {
        v[3] ^= m;
        sip_round(v);
        sip_round(v);
        v[0] ^= m;
}

uint64_t hash64_keyed(const void *data, size_t n, const uint64_t key[2]) {
        /* "somepseudorandomlygeneratedbytes", as the paper has it */
        uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
        const uint8_t *p = data;
        uint64_t last = (uint64_t)n << 56;

        for (size_t i = 0; i < n / 8; i++, p += 8)
                sip_word(v, load_u64(p));
        for (size_t i = 0; i < n % 8; i++)
                last |= (uint64_t)p[i] << 8 * i;
        sip_word(v, last);
        v[2] ^= 0xFF;
        for (int i = 0; i < 4; i++)
                sip_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}
