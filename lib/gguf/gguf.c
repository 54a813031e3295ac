/* SPDX-License-Identifier: MIT */
#include "gguf/gguf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/map.h"
#include "gguf/gguf-impl.h"
#include <stdlib.h>
#include <string.h>

int gguf_parse(struct gguf **ret, const void *data, size_t size, struct err *e) {
        _cleanup_(gguf_freep) struct gguf *g = calloc(1, sizeof(*g));
        int r;

        if (!g)
                return err_set(e, ERR_NOMEM, "no memory for a model file");
        g->map = FILE_MAP_NULL;
        g->data = data;
        g->size = size;
        r = gguf_parse_into(g, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(g);
        return 0;
}

int gguf_open(struct gguf **ret, const char *path, struct err *e) {
        struct file_map map = FILE_MAP_NULL;
        struct gguf *g = NULL;
        int r;

        r = file_map_open(&map, path, e);
        if (r < 0)
                return r;
        r = gguf_parse(&g, map.data, map.size, e);
        if (r < 0) {
                file_map_close(&map);
                return err_wrap(e, r, "'%s'", path);
        }
        g->map = map;
        *ret = g;
        return 0;
}

struct gguf *gguf_free(struct gguf *g) {
        if (!g)
                return NULL;
        map_free(g->kv_by_key);
        map_free(g->tensors_by_name);
        free(g->kv);
        free(g->tensors);
        file_map_close(&g->map);
        free(g);
        return NULL;
}

size_t gguf_n_kv(const struct gguf *g) {
        return g->n_kv;
}

struct gguf_str gguf_kv_key(const struct gguf *g, size_t i) {
        return g->kv[i].key;
}

enum gguf_type gguf_kv_type(const struct gguf *g, size_t i) {
        return g->kv[i].type;
}

size_t gguf_n_tensors(const struct gguf *g) {
        return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i) {
        return &g->tensors[i];
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name) {
        return map_get(g->tensors_by_name, name, strlen(name));
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key) {
        return map_get(g->kv_by_key, key, strlen(key));
}

uint32_t gguf_version(const struct gguf *g) {
        return g->version;
}

uint64_t gguf_file_size(const struct gguf *g) {
        return g->size;
}

uint64_t gguf_hash_data(const struct gguf *g) {
        return hash64(g->data_base, g->data_size, 0);
}

uint64_t gguf_hash_meta(const struct gguf *g) {
        return hash64(g->data, g->meta_size, 0);
}

const char *gguf_show(struct gguf_str s, char out[GGUF_SHOWN_SIZE]) {
        size_t room = GGUF_SHOWN_SIZE - 4, n = s.size < room ? s.size : room;

        for (size_t i = 0; i < n; i++)
                out[i] = s.data[i] >= 0x20 && s.data[i] < 0x7F ? s.data[i] : '?';
        memcpy(out + n, "...", 4);
        if (n == s.size)
                out[n] = 0;
        return out;
}
