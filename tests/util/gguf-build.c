/* SPDX-License-Identifier: MIT */
#include "util/gguf-build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 32
#define TYPE_I32 26
#define TYPE_NONE 99

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
        enum gguf_damage damage;
        char damaged[64]; /* name of a tensor */
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

void gguf_build_u8_array(struct gguf_build *b, const char *key, const uint8_t *v, size_t n) {
        put_array(b, key, 0, n);
        put(&b->kv, v, n);
}

void gguf_build_f32_array(struct gguf_build *b, const char *key, const float *v, size_t n) {
        put_array(b, key, 6, n);
        put(&b->kv, v, n * sizeof(*v));
}

void gguf_build_bool_array(struct gguf_build *b, const char *key, const bool *v, size_t n) {
        put_array(b, key, 7, n);
        for (size_t i = 0; i < n; i++) {
                uint8_t byte = v[i];

                put(&b->kv, &byte, 1);
        }
}

void gguf_build_str_array(struct gguf_build *b, const char *key, const char *const *v, size_t n) {
        put_array(b, key, 8, n);
        for (size_t i = 0; i < n; i++)
                put_str(&b->kv, v[i]);
}

void gguf_build_spm(struct gguf_build *b, const char *const *tokens, const float *scores,
        const int32_t *types, size_t n, uint32_t eos) {
        gguf_build_str(b, "tokenizer.ggml.model", "llama");
        gguf_build_str_array(b, "tokenizer.ggml.tokens", tokens, n);
        gguf_build_f32_array(b, "tokenizer.ggml.scores", scores, n);
        gguf_build_i32_array(b, "tokenizer.ggml.token_type", types, n);
        gguf_build_u32(b, "tokenizer.ggml.bos_token_id", 1);
        gguf_build_u32(b, "tokenizer.ggml.eos_token_id", eos);
        gguf_build_u32(b, "tokenizer.ggml.unknown_token_id", 0);
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

size_t gguf_build_n_tensors(const struct gguf_build *b) {
        return b->n_tensors;
}

const char *gguf_build_tensor_name(const struct gguf_build *b, size_t i) {
        return b->tensors[i].name;
}

void gguf_build_damage(struct gguf_build *b, enum gguf_damage damage, const char *tensor) {
        b->damage = damage;
        snprintf(b->damaged, sizeof(b->damaged), "%s", tensor);
}

static size_t padded(size_t n) {
        return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The tensor as it is written: its data is @size bytes, of which those behind the end of @stored
 * are zeros. False: not at all. */
static bool written(const struct gguf_build *b, size_t i, struct tensor *ret, size_t *ret_stored) {
        struct tensor *t = ret;
        uint64_t *last;

        *t = b->tensors[i];
        *ret_stored = t->size;
        if (b->damage == GGUF_DAMAGE_NONE || strcmp(t->name, b->damaged) != 0)
                return true;
        if (b->damage == GGUF_DAMAGE_OMIT)
                return false;
        if (b->damage == GGUF_DAMAGE_NO_TYPE)
                t->type = TYPE_NONE;
        if (b->damage == GGUF_DAMAGE_RESHAPE) {
                last = &t->ne[t->n_dims - 1];
                t->size = *last > 1 ? t->size / *last * (*last - 1) : 2 * t->size;
                *last = *last > 1 ? *last - 1 : 2;
                if (*ret_stored > t->size)
                        *ret_stored = t->size;
        }
        if (b->damage == GGUF_DAMAGE_RETYPE) {
                t->type = TYPE_I32;
                t->size = 4;
                for (uint32_t k = 0; k < t->n_dims; k++)
                        t->size *= t->ne[k];
                *ret_stored = 0;
        }
        return true;
}

/* Everything before the tensor data, padded. */
static struct bytes head(const struct gguf_build *b) {
        static const uint8_t zero[ALIGNMENT];
        struct bytes h = {0};
        struct tensor t;
        uint64_t offset = 0, n = 0;
        size_t stored;

        for (size_t i = 0; i < b->n_tensors; i++)
                n += written(b, i, &t, &stored);
        put(&h, "GGUF", 4);
        put_u32(&h, 3);
        put_u64(&h, n);
        put_u64(&h, b->n_kv);
        put(&h, b->kv.data, b->kv.size);
        for (size_t i = 0; i < b->n_tensors; i++) {
                if (!written(b, i, &t, &stored))
                        continue;
                put_str(&h, t.name);
                put_u32(&h, t.n_dims);
                put(&h, t.ne, t.n_dims * sizeof(*t.ne));
                put_u32(&h, t.type);
                put_u64(&h, offset);
                offset += padded(t.size);
        }
        put(&h, zero, padded(h.size) - h.size);
        return h;
}

uint8_t *gguf_build_bytes(const struct gguf_build *b, size_t *ret_size) {
        struct bytes h = head(b);
        struct tensor t;
        size_t size = h.size, at = h.size, stored;

        for (size_t i = 0; i < b->n_tensors; i++)
                if (written(b, i, &t, &stored))
                        size += padded(t.size);
        h.data = need(realloc(h.data, size));
        memset(h.data + at, 0, size - at);
        for (size_t i = 0; i < b->n_tensors; i++) {
                if (!written(b, i, &t, &stored))
                        continue;
                memcpy(h.data + at, t.data, stored);
                at += padded(t.size);
        }
        *ret_size = size;
        return h.data;
}

static bool write_zeros(FILE *f, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (putc(0, f) == EOF)
                        return false;
        return true;
}

int gguf_build_write(const struct gguf_build *b, const char *path) {
        struct bytes h = head(b);
        FILE *f = fopen(path, "wb");
        bool ok = f && fwrite(h.data, 1, h.size, f) == h.size;
        struct tensor t;
        size_t stored;

        free(h.data);
        for (size_t i = 0; ok && i < b->n_tensors; i++)
                if (written(b, i, &t, &stored))
                        ok = fwrite(t.data, 1, stored, f) == stored &&
                             write_zeros(f, padded(t.size) - stored);
        if (f && fclose(f))
                ok = false;
        return ok ? 0 : -1;
}
