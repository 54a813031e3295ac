/* SPDX-License-Identifier: MIT */
#include "sample/philox.h"

#define ROUNDS 10

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
        uint32_t x0 = counter[0], x1 = counter[1], x2 = counter[2], x3 = counter[3];
        uint32_t k0 = key[0], k1 = key[1];

        for (int i = 0; i < ROUNDS; i++) {
                uint64_t a = (uint64_t)0xD2511F53 * x0, b = (uint64_t)0xCD9E8D57 * x2;

                x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
                x1 = (uint32_t)b;
                x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
                x3 = (uint32_t)a;
                k0 += 0x9E3779B9;
                k1 += 0xBB67AE85;
        }
        out[0] = x0;
        out[1] = x1;
        out[2] = x2;
        out[3] = x3;
}

double philox_uniform(uint64_t seed, uint64_t position) {
        uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32)};
        uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];

        philox4x32(counter, key, out);
        return (double)(((uint64_t)out[0] << 32 | out[1]) >> 11) * 0x1p-53;
}
