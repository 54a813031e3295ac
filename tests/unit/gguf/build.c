/* SPDX-License-Identifier: MIT */
#include "build.h"
#include <stdlib.h>
#include <string.h>

void put(struct buf *b, const void *p, size_t n) {
        if (buf_append(b, p, n) < 0)
                abort();
}

void put_u8(struct buf *b, uint8_t v) {
        put(b, &v, 1);
}

void put_u32(struct buf *b, uint32_t v) {
        if (buf_append_u32(b, v) < 0)
                abort();
}

void put_u64(struct buf *b, uint64_t v) {
        if (buf_append_u64(b, v) < 0)
                abort();
}

void put_str(struct buf *b, const char *s) {
        put_u64(b, strlen(s));
        put(b, s, strlen(s));
}

void put_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv) {
        put(b, MAGIC, 4);
        put_u32(b, version);
        put_u64(b, n_tensors);
        put_u64(b, n_kv);
}

void put_key(struct buf *b, const char *key, uint32_t type) {
        put_str(b, key);
        put_u32(b, type);
}

void put_kv_u32(struct buf *b, const char *key, uint32_t v) {
        put_key(b, key, GGUF_U32);
        put_u32(b, v);
}

void put_kv_str(struct buf *b, const char *key, const char *v) {
        put_key(b, key, GGUF_STRING);
        put_str(b, v);
}

void put_kv_array(struct buf *b, const char *key, uint32_t type, uint64_t count) {
        put_key(b, key, GGUF_ARRAY);
        put_u32(b, type);
        put_u64(b, count);
}

void put_tensor(struct buf *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type,
        uint64_t offset) {
        put_str(b, name);
        put_u32(b, n_dims);
        for (uint32_t i = 0; i < n_dims; i++)
                put_u64(b, ne[i]);
        put_u32(b, type);
        put_u64(b, offset);
}

void put_data(struct buf *b, size_t align, size_t n) {
        while (b->size % align)
                put_u8(b, 0);
        for (size_t i = 0; i < n; i++)
                put_u8(b, (uint8_t)i);
}
