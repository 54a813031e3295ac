/* SPDX-License-Identifier: MIT */
/* The target fuzz-model over a small model of each architecture, with bits flipped in its keys and in the
 * descriptions of its tensors; the flips are the same in every run. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "quant/quant.h"
#include "util/arch-build.h"

#define N_FLIPS 160
#define KEYS 2048 /* bytes at the start, before the vocabulary */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where the keys end, and where the descriptions of tensors begin and end. */
struct places {
        size_t keys, tensors, data;
};

static int find_places(struct places *ret, const uint8_t *bytes, size_t size) {
        struct gguf *g = NULL;
        const struct gguf_tensor *first;
        const char name[] = "token_embd.weight";
        const uint8_t *at;

        if (gguf_parse(&g, bytes, size, NULL) < 0)
                return -1;
        first = gguf_tensor(g, name);
        at = memmem(bytes, size, name, strlen(name));
        if (first && at)
                *ret = (struct places){.keys = MIN((size_t)KEYS, (size_t)(at - bytes)),
                        .tensors = (size_t)(at - bytes),
                        .data = (size_t)((const uint8_t *)first->data - bytes)};
        gguf_free(g);
        return first && at ? 0 : -1;
}

static int run(const char *name) {
        struct arch_options o = {.type = QUANT_MXFP4, .seed = 3};
        struct gguf_build *b = arch_build(name, &o);
        uint64_t x = 0x9E3779B97F4A7C15;
        struct places p;
        uint8_t *bytes;
        size_t size;
        int r;

        if (!b)
                return -1;
        bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        r = find_places(&p, bytes, size);
        if (r == 0)
                LLVMFuzzerTestOneInput(bytes, size);
        for (size_t i = 0; r == 0 && i < N_FLIPS; i++) {
                size_t at;

                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                at = i % 2 ? (x >> 8) % p.keys : p.tensors + (x >> 8) % (p.data - p.tensors);
                bytes[at] ^= (uint8_t)(1u << (x & 7));
                LLVMFuzzerTestOneInput(bytes, size);
                bytes[at] ^= (uint8_t)(1u << (x & 7));
        }
        free(bytes);
        return r;
}

int main(void) {
        for (size_t i = 0; i < arch_build_n(); i++) {
                const char *name = arch_build_name(i);

                if (run(name) < 0) {
                        fprintf(stderr, "%s: no model\n", name);
                        return 1;
                }
        }
        printf("%zu architectures\n", arch_build_n());
        return 0;
}
