/* SPDX-License-Identifier: MIT */
#pragma once
/* A store in a folder of its own, and blocks to put into it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/util.h"
#include "spill/spill.h"
#include "util/test.h"

enum { BLOCK = 40000 };

struct store {
        char dir[256];
        struct spill_options options;
        struct spill *s;
};

static inline void store_make(struct store *t) {
        const char *tmp = getenv("TMPDIR");

        *t = (struct store){.options = {
                                    .fingerprint = {0x1111, 0x2222},
                                    .max_raw_size = BLOCK,
                                    .codec = SPILL_CODEC_LZ4,
                            }};
        snprintf(t->dir, sizeof(t->dir), "%s/confab-spill-XXXXXX", tmp ? tmp : "/tmp");
        assert_non_null(mkdtemp(t->dir));
}

/* Blocks of all classes of meta_of() are divided so. */
static inline void store_divide(struct spill_options *o, struct spill_layout l) {
        for (int c = 0; c < 3; c++)
                o->layouts[c] = l;
}
/* The same sections of all of them. */
static inline int store_read(struct spill_load *l, size_t first, size_t n, struct err *e) {
        const struct spill_range r = {first, n}, all[SPILL_MAX_CLASSES] = {r, r, r};

        return spill_load_read(l, all, e);
}

static inline void store_open(struct store *t) {
        struct err e = {0};

        if (spill_open(&t->s, t->dir, &t->options, &e) != 0)
                fail_msg("%s", e.msg);
}

/* Open and sweep. */
static inline void store_start(struct store *t) {
        store_open(t);
        assert_int_equal(spill_sweep(t->s, NULL, NULL), 0);
}

/* A block of owner 0. */
static inline int store_write(struct spill *s, uint64_t key, const struct spill_meta *meta,
        const void *raw, size_t raw_size, struct spill_ref *ret, struct err *e) {
        struct spill_block b = {.file_key = key, .meta = *meta, .raw = raw, .raw_size = raw_size};

        return spill_write(s, &b, ret, NULL, e);
}

static inline void store_remove(struct store *t) {
        DIR *d = opendir(t->dir);
        struct dirent *e;

        t->s = spill_free(t->s);
        assert_non_null(d);
        while ((e = readdir(d)))
                if (e->d_name[0] != '.')
                        unlinkat(dirfd(d), e->d_name, 0);
        closedir(d);
        assert_int_equal(rmdir(t->dir), 0);
}

static inline struct spill_stats store_stats(struct store *t) {
        struct spill_stats st;

        spill_stats(t->s, &st);
        return st;
}

static inline const char *store_path(struct store *t, uint64_t key) {
        static char path[300];

        snprintf(path, sizeof(path), "%s/%016llx.kv", t->dir, (unsigned long long)key);
        return path;
}

/* Size of the file of @key, -1 if there is none. */
static inline long long store_file_size(struct store *t, uint64_t key) {
        struct stat st;

        return stat(store_path(t, key), &st) < 0 ? -1 : (long long)st.st_size;
}

/* Bytes that the file of @key takes on disk. */
static inline long long store_file_blocks(struct store *t, uint64_t key) {
        struct stat st;

        return stat(store_path(t, key), &st) < 0 ? 0 : (long long)st.st_blocks * 512;
}

/* Write the file of @key out: only then are its blocks known (delayed allocation). */
static inline void store_sync(struct store *t, uint64_t key) {
        int fd = open(store_path(t, key), O_RDONLY);

        assert_true(fd >= 0);
        assert_int_equal(fsync(fd), 0);
        close(fd);
}

enum kind { ZERO, RANDOM, FLOATS, N_KINDS };

/* Bytes that depend on @seed: nothing to gain, all to gain, something to gain. */
static inline void fill(void *dst, size_t n, enum kind kind, uint64_t seed) {
        uint8_t *p = dst;
        uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;

        memset(p, 0, n);
        for (size_t i = 0; kind != ZERO && i < n; i++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                /* As sparse floats: runs of zeros, and values whose upper halves hardly vary. */
                if (kind == RANDOM || (i % 4 < 2 && i / 64 % 3 > 0))
                        p[i] = (uint8_t)(x >> 40);
                else if (i / 64 % 3 > 0)
                        p[i] = (uint8_t)(0x3c + (x >> 63));
        }
}

static inline struct spill_meta meta_of(uint32_t i) {
        return (struct spill_meta){
                .class_id = i % 3, .position = i, .n_tokens = 32, .token_hash = i * 77 + 5};
}
