/* SPDX-License-Identifier: MIT */
#include "gguf/gguf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/util.h"
#include "gguf/gguf-impl.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROGRESS_SIZE (16u << 20) /* between two words of a read's progress */

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

uint64_t gguf_data_size(const struct gguf *g) {
        return g->data_size;
}

int gguf_hash_data(const struct gguf *g, const struct gguf_progress *p, uint64_t *ret) {
        struct hash64 h;

        hash64_init(&h, 0);
        for (size_t at = 0, n; at < g->data_size; at += n) {
                int r = p ? p->fn(p->arg, at, g->data_size) : 0;

                if (r != 0)
                        return r;
                n = MIN(g->data_size - at, (size_t)PROGRESS_SIZE);
                hash64_update(&h, g->data_base + at, n);
        }
        *ret = hash64_digest(&h);
        return 0;
}

static uint64_t nsec_of(struct timespec t) {
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int gguf_identify(const struct gguf *g, struct gguf_identity *ret, struct err *e) {
        struct stat st;

        if (g->map.fd < 0)
                return err_set(e, ERR_STATE, "the model is no file");
        if (fstat(g->map.fd, &st) < 0)
                return err_set(e, ERR_SYS, "cannot stat the model file");
        *ret = (struct gguf_identity){.device = st.st_dev,
                .inode = st.st_ino,
                .size = (uint64_t)st.st_size,
                .mtime_nsec = nsec_of(st.st_mtim),
                .ctime_nsec = nsec_of(st.st_ctim)};
        return 0;
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
