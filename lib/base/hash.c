/* SPDX-License-Identifier: MIT */
#include "base/hash.h"
#include <string.h>

/* The five primes of the XXH64 specification. */
#define PRIME_1 0x9E3779B185EBCA87u
#define PRIME_2 0xC2B2AE3D27D4EB4Fu
#define PRIME_3 0x165667B19E3779F9u
#define PRIME_4 0x85EBCA77C2B2AE63u
#define PRIME_5 0x27D4EB2F165667C5u
#define STRIPE 32

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

static inline uint32_t load_u32(const uint8_t *p) {
        uint32_t v;

        memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap32(v);
#endif
        return v;
}

static inline uint64_t xxh_round(uint64_t acc, uint64_t lane) {
        return rotl(acc + lane * PRIME_2, 31) * PRIME_1;
}

/* The four accumulators stay in registers: through memory each round would wait for a store. */
static const uint8_t *xxh_stripes(uint64_t v[4], const uint8_t *p, size_t n_stripes) {
        uint64_t a = v[0], b = v[1], c = v[2], d = v[3];

        for (; n_stripes; n_stripes--, p += STRIPE) {
                a = xxh_round(a, load_u64(p));
                b = xxh_round(b, load_u64(p + 8));
                c = xxh_round(c, load_u64(p + 16));
                d = xxh_round(d, load_u64(p + 24));
        }
        v[0] = a;
        v[1] = b;
        v[2] = c;
        v[3] = d;
        return p;
}

void hash64_init(struct hash64 *h, uint64_t seed) {
        *h = (struct hash64){
                .v = {seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1},
                .seed = seed,
        };
}

void hash64_update(struct hash64 *h, const void *data, size_t n) {
        const uint8_t *p = data;

        if (n == 0)
                return;
        h->total += n;
        if (h->n_tail) {
                size_t take = STRIPE - h->n_tail < n ? STRIPE - h->n_tail : n;

                memcpy(h->tail + h->n_tail, p, take);
                h->n_tail += take;
                p += take;
                n -= take;
                if (h->n_tail < STRIPE)
                        return;
                xxh_stripes(h->v, h->tail, 1);
                h->n_tail = 0;
        }
        p = xxh_stripes(h->v, p, n / STRIPE);
        h->n_tail = n % STRIPE;
        memcpy(h->tail, p, h->n_tail);
}

uint64_t hash64_digest(const struct hash64 *h) {
        const uint8_t *p = h->tail, *end = h->tail + h->n_tail;
        uint64_t acc;

        if (h->total >= STRIPE) {
                acc = rotl(h->v[0], 1) + rotl(h->v[1], 7) + rotl(h->v[2], 12) + rotl(h->v[3], 18);
                for (int i = 0; i < 4; i++)
                        acc = (acc ^ xxh_round(0, h->v[i])) * PRIME_1 + PRIME_4;
        } else
                acc = h->seed + PRIME_5;
        acc += h->total;
        for (; end - p >= 8; p += 8)
                acc = rotl(acc ^ xxh_round(0, load_u64(p)), 27) * PRIME_1 + PRIME_4;
        if (end - p >= 4) {
                acc = rotl(acc ^ load_u32(p) * PRIME_1, 23) * PRIME_2 + PRIME_3;
                p += 4;
        }
        for (; p < end; p++)
                acc = rotl(acc ^ *p * PRIME_5, 11) * PRIME_1;
        acc = (acc ^ acc >> 33) * PRIME_2;
        acc = (acc ^ acc >> 29) * PRIME_3;
        return acc ^ acc >> 32;
}

uint64_t hash64(const void *data, size_t n, uint64_t seed) {
        struct hash64 h;

        hash64_init(&h, seed);
        hash64_update(&h, data, n);
        return hash64_digest(&h);
}

uint64_t hash64_chain_tokens(const int32_t *tokens, size_t n, uint64_t prev) {
        return hash64(tokens, n * sizeof(*tokens), prev);
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
