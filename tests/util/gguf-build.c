/* SPDX-License-Identifier: MIT */
#include "util/gguf-build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 32

struct bytes {
        uint8_t *data;
        size_t size, capacity;
};

struct tensor {
        char name[64];
        uint32_t type, n_dims;
        uint64_t ne[4];
        void *data;
        size_t size;
};

struct gguf_build {
        struct bytes kv;
        uint64_t n_kv;
        struct tensor *tensors;
        size_t n_tensors, capacity;
};

static void *need(void *p) {
        if (!p) {
                fputs("gguf-build: out of memory\n", stderr);
                exit(1);
        }
        return p;
}

static void put(struct bytes *b, const void *data, size_t n) {
        if (b->size + n > b->capacity) {
                b->capacity = 2 * (b->size + n);
                b->data = need(realloc(b->data, b->capacity));
        }
        if (n)
                memcpy(b->data + b->size, data, n);
        b->size += n;
}

static void put_u32(struct bytes *b, uint32_t v) {
        put(b, &v, sizeof(v));
}

static void put_u64(struct bytes *b, uint64_t v) {
        put(b, &v, sizeof(v));
}

static void put_str(struct bytes *b, const char *s) {
        put_u64(b, strlen(s));
        put(b, s, strlen(s));
}

struct gguf_build *gguf_build_new(void) {
        return need(calloc(1, sizeof(struct gguf_build)));
}

struct gguf_build *gguf_build_free(struct gguf_build *b) {
        if (!b)
                return NULL;
        for (size_t i = 0; i < b->n_tensors; i++)
                free(b->tensors[i].data);
        free(b->tensors);
        free(b->kv.data);
        free(b);
        return NULL;
}

static void put_key(struct gguf_build *b, const char *key, uint32_t type) {
        put_str(&b->kv, key);
        put_u32(&b->kv, type);
        b->n_kv++;
}

void gguf_build_u32(struct gguf_build *b, const char *key, uint32_t v) {
        put_key(b, key, 4);
        put_u32(&b->kv, v);
}

void gguf_build_f32(struct gguf_build *b, const char *key, float v) {
        put_key(b, key, 6);
        put(&b->kv, &v, sizeof(v));
}

void gguf_build_bool(struct gguf_build *b, const char *key, bool v) {
        uint8_t byte = v;

        put_key(b, key, 7);
        put(&b->kv, &byte, 1);
}

void gguf_build_str(struct gguf_build *b, const char *key, const char *v) {
        put_key(b, key, 8);
        put_str(&b->kv, v);
}

static void put_array(struct gguf_build *b, const char *key, uint32_t type, size_t n) {
        put_key(b, key, 9);
        put_u32(&b->kv, type);
        put_u64(&b->kv, n);
}

void gguf_build_u32_array(struct gguf_build *b, const char *key, const uint32_t *v, size_t n) {
        put_array(b, key, 4, n);
        put(&b->kv, v, n * sizeof(*v));
}

void gguf_build_i32_array(struct gguf_build *b, const char *key, const int32_t *v, size_t n) {
        put_array(b, key, 5, n);
        put(&b->kv, v, n * sizeof(*v));
}

void gguf_build_f32_array(struct gguf_build *b, const char *key, const float *v, size_t n) {
        put_array(b, key, 6, n);
        put(&b->kv, v, n * sizeof(*v));
}

void gguf_build_str_array(struct gguf_build *b, const char *key, const char *const *v, size_t n) {
        put_array(b, key, 8, n);
        for (size_t i = 0; i < n; i++)
                put_str(&b->kv, v[i]);
}

void gguf_build_tensor(struct gguf_build *b, const char *name, uint32_t type, uint32_t n_dims,
        const uint64_t *ne, void *data, size_t size) {
        struct tensor *t;

        if (b->n_tensors == b->capacity) {
                b->capacity = b->capacity ? 2 * b->capacity : 64;
                b->tensors = need(realloc(b->tensors, b->capacity * sizeof(*b->tensors)));
        }
        t = &b->tensors[b->n_tensors++];
        *t = (struct tensor){.type = type, .n_dims = n_dims, .data = data, .size = size};
        snprintf(t->name, sizeof(t->name), "%s", name);
        memcpy(t->ne, ne, n_dims * sizeof(*ne));
}

static size_t padded(size_t n) {
        return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Everything before the tensor data, padded. */
static struct bytes head(const struct gguf_build *b) {
        static const uint8_t zero[ALIGNMENT];
        struct bytes h = {0};
        uint64_t offset = 0;

        put(&h, "GGUF", 4);
        put_u32(&h, 3);
        put_u64(&h, b->n_tensors);
        put_u64(&h, b->n_kv);
        put(&h, b->kv.data, b->kv.size);
        for (size_t i = 0; i < b->n_tensors; i++) {
                const struct tensor *t = &b->tensors[i];

                put_str(&h, t->name);
                put_u32(&h, t->n_dims);
                put(&h, t->ne, t->n_dims * sizeof(*t->ne));
                put_u32(&h, t->type);
                put_u64(&h, offset);
                offset += padded(t->size);
        }
        put(&h, zero, padded(h.size) - h.size);
        return h;
}

uint8_t *gguf_build_bytes(const struct gguf_build *b, size_t *ret_size) {
        static const uint8_t zero[ALIGNMENT];
        struct bytes h = head(b);

        for (size_t i = 0; i < b->n_tensors; i++) {
                put(&h, b->tensors[i].data, b->tensors[i].size);
                put(&h, zero, padded(b->tensors[i].size) - b->tensors[i].size);
        }
        *ret_size = h.size;
        return h.data;
}

int gguf_build_write(const struct gguf_build *b, const char *path) {
        static const uint8_t zero[ALIGNMENT];
        struct bytes h = head(b);
        FILE *f = fopen(path, "wb");
        bool ok = f && fwrite(h.data, 1, h.size, f) == h.size;

        free(h.data);
        for (size_t i = 0; ok && i < b->n_tensors; i++) {
                const struct tensor *t = &b->tensors[i];
                size_t pad = padded(t->size) - t->size;

                ok = fwrite(t->data, 1, t->size, f) == t->size && fwrite(zero, 1, pad, f) == pad;
        }
        if (f && fclose(f))
                ok = false;
        return ok ? 0 : -1;
}
