/* SPDX-License-Identifier: MIT */
/* Any bytes as a model file: parsed or refused, and everything that was parsed can be read. */
#include "gguf/gguf.h"
#include "quant/quant.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the compiler must not drop. */
static volatile uint64_t sink;

static void read_array(const struct gguf_array *a) {
        size_t pos = 0;

        for (uint64_t i = 0; i < a->count && i < 1000; i++) {
                if (a->type == GGUF_STRING) {
                        struct gguf_str s = gguf_array_next_str(a, &pos);

                        for (size_t k = 0; k < s.size; k++)
                                sink += (uint8_t)s.data[k];
                } else {
                        sink += (uint64_t)gguf_array_int(a, i);
                        sink += gguf_array_f64(a, i) > 0;
                }
        }
}

static void read_value(const struct gguf *g, size_t i) {
        struct gguf_str key = gguf_kv_key(g, i), s;
        uint32_t layers[3], u;
        struct gguf_array a;
        char name[80];
        bool yes;
        float f;

        if (key.size >= sizeof(name) || memchr(key.data, 0, key.size))
                return;
        memcpy(name, key.data, key.size);
        name[key.size] = 0;
        if (gguf_get_u32(g, name, &u, NULL) == 0)
                sink += u;
        if (gguf_get_f32(g, name, &f, NULL) == 0)
                sink += f > 0;
        if (gguf_get_bool(g, name, &yes, NULL) == 0)
                sink += yes;
        if (gguf_get_str(g, name, &s, NULL) == 0 && s.size)
                sink += (uint8_t)s.data[s.size - 1];
        if (gguf_get_u32_per_layer(g, name, layers, 3, NULL) == 0)
                sink += layers[2];
        if (gguf_get_array(g, name, &a, NULL) == 0)
                read_array(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct gguf *g = NULL;
        uint64_t hash;

        if (gguf_parse(&g, data, size, NULL) < 0)
                return 0;
        for (size_t i = 0; i < gguf_n_kv(g); i++)
                read_value(g, i);
        for (size_t i = 0; i < gguf_n_tensors(g); i++) {
                const struct gguf_tensor *t = gguf_tensor_at(g, i);

                for (uint64_t k = 0; k < t->size; k++)
                        sink += ((const uint8_t *)t->data)[k];
        }
        sink += gguf_hash_meta(g);
        if (gguf_hash_data(g, NULL, &hash) == 0)
                sink += hash;
        gguf_free(g);
        return 0;
}
