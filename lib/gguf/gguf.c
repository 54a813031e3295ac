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

int gguf_open_one(struct gguf **ret, const char *path, struct err *e) {
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
        for (size_t i = 0; i < g->n_parts; i++)
                gguf_free(g->parts[i]);
        free(g->parts);
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

/* The file itself, then the other parts; NULL behind the last. */
static const struct gguf *part_at(const struct gguf *g, size_t i) {
        return i == 0 ? g : i <= g->n_parts ? g->parts[i - 1] : NULL;
}

size_t gguf_n_tensors(const struct gguf *g) {
        const struct gguf *part;
        size_t n = 0;

        for (size_t i = 0; (part = part_at(g, i)); i++)
                n += part->n_tensors;
        return n;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i) {
        const struct gguf *part = g;

        for (size_t k = 1; i >= part->n_tensors; k++) {
                i -= part->n_tensors;
                part = part_at(g, k);
        }
        return &part->tensors[i];
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
        const struct gguf *part;
        uint64_t size = 0;

        for (size_t i = 0; (part = part_at(g, i)); i++)
                size += part->size;
        return size;
}

uint64_t gguf_data_size(const struct gguf *g) {
        const struct gguf *part;
        uint64_t size = 0;

        for (size_t i = 0; (part = part_at(g, i)); i++)
                size += part->data_size;
        return size;
}

/* @before bytes of @total are done. */
static int hash_part(const struct gguf *part, struct hash64 *h, const struct gguf_progress *p,
        uint64_t before, uint64_t total) {
        for (size_t at = 0, n; at < part->data_size; at += n) {
                int r = p ? p->fn(p->arg, before + at, total) : 0;

                if (r != 0)
                        return r;
                n = MIN(part->data_size - at, (size_t)PROGRESS_SIZE);
                hash64_update(h, part->data_base + at, n);
        }
        return 0;
}

void gguf_forget(const struct gguf *g, const void *data, size_t size) {
        const struct gguf *part;

        for (size_t i = 0; (part = part_at(g, i)); i++)
                file_map_forget(&part->map, data, size);
}

int gguf_hash_data(const struct gguf *g, const struct gguf_progress *p, uint64_t *ret) {
        uint64_t total = gguf_data_size(g), before = 0;
        const struct gguf *part;
        struct hash64 h;

        hash64_init(&h, 0);
        for (size_t i = 0; (part = part_at(g, i)); i++) {
                int r = hash_part(part, &h, p, before, total);

                if (r != 0)
                        return r;
                before += part->data_size;
        }
        *ret = hash64_digest(&h);
        return 0;
}

static uint64_t nsec_of(struct timespec t) {
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int identify_part(const struct gguf *part, struct gguf_identity *ret, struct err *e) {
        struct stat st;

        if (part->map.fd < 0)
                return err_set(e, ERR_STATE, "the model is no file");
        if (fstat(part->map.fd, &st) < 0)
                return err_set(e, ERR_SYS, "cannot stat the model file");
        *ret = (struct gguf_identity){.device = st.st_dev,
                .inode = st.st_ino,
                .size = (uint64_t)st.st_size,
                .mtime_nsec = nsec_of(st.st_mtim),
                .ctime_nsec = nsec_of(st.st_ctim)};
        return 0;
}

int gguf_identify(const struct gguf *g, struct gguf_identity *ret, struct err *e) {
        struct gguf_identity all, one;
        const struct gguf *part;
        int r = identify_part(g, &all, e);

        if (r < 0)
                return r;
        for (size_t i = 1; (part = part_at(g, i)); i++) {
                r = identify_part(part, &one, e);
                if (r < 0)
                        return r;
                all.inode = hash64(&one, sizeof(one), all.inode);
                all.size += one.size;
                all.mtime_nsec = MAX(all.mtime_nsec, one.mtime_nsec);
                all.ctime_nsec = MAX(all.ctime_nsec, one.ctime_nsec);
        }
        *ret = all;
        return 0;
}

uint64_t gguf_hash_meta(const struct gguf *g) {
        uint64_t hash = hash64(g->data, g->meta_size, 0);
        const struct gguf *part;

        for (size_t i = 1; (part = part_at(g, i)); i++)
                hash = hash64(part->data, part->meta_size, hash);
        return hash;
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
