/* SPDX-License-Identifier: MIT */
/*
 * Models in several files. The first file has the metadata, and says in split.count how many there are;
 * each has tensors and a data section of its own. Names end in -00001-of-00003.gguf, counted from 1.
 *
 * 1. The user names the first file. The others lie beside it, and all of them must be there.
 * 2. Every file says which one it is (split.no, from 0) and how many there are, in agreement with its
 *    name.
 * 3. No tensor name occurs twice in all files, and together they have split.tensors.count tensors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/map.h"
#include "gguf/gguf-impl.h"

#define MAX_PARTS 4096 /* descriptors and maps of a process are bounded as well */

/* "-00001-of-00003.gguf" */
struct part_name {
        char s[48];
};

static struct part_name part_name(uint32_t no, uint32_t count) {
        struct part_name n;

        snprintf(n.s, sizeof(n.s), "-%05u-of-%05u.gguf", no + 1, count);
        return n;
}

/* 0 parts: a file of its own. */
static int read_numbers(
        const struct gguf *g, uint32_t *ret_no, uint32_t *ret_count, struct err *e) {
        uint32_t no = 0, count = 0;
        int r;

        r = gguf_get_u32(g, "split.count", &count, e);
        if (r < 0)
                return r;
        r = gguf_get_u32(g, "split.no", &no, e);
        if (r < 0)
                return r;
        if (count > MAX_PARTS)
                return err_set(e, ERR_FORMAT, "split.count is %u, at most %d files are allowed",
                        count, MAX_PARTS);
        if (count && no >= count)
                return err_set(e, ERR_FORMAT, "split.no is %u of %u files", no, count);
        *ret_no = no;
        *ret_count = count;
        return 0;
}

/* Where the part's own ending begins in the path of the first part. */
static int find_ending(const char *path, uint32_t no, uint32_t count, size_t *ret, struct err *e) {
        struct part_name want = part_name(no, count);
        size_t size = strlen(path), ending = strlen(want.s);

        if (size <= ending || strcmp(path + size - ending, want.s))
                return err_set(e, ERR_FORMAT,
                        "this is file %u of %u of a model, so its name must end in '%s'", no + 1,
                        count, want.s);
        *ret = size - ending;
        return 0;
}

/* The tensors of a part join those of the model. */
static int adopt(struct gguf *g, struct gguf *part, struct err *e) {
        for (size_t i = 0; i < part->n_tensors; i++) {
                struct gguf_tensor *t = &part->tensors[i];
                char name[GGUF_SHOWN_SIZE];
                int r = map_add(g->tensors_by_name, t->name.data, t->name.size, t, e);

                if (r > 0)
                        return err_set(e, ERR_FORMAT, "tensor '%s' occurs in another file as well",
                                gguf_show(t->name, name));
                if (r < 0)
                        return r;
        }
        g->parts[g->n_parts++] = part;
        return 0;
}

static int open_part(
        struct gguf *g, const char *path, uint32_t want_no, uint32_t count, struct err *e) {
        _cleanup_(gguf_freep) struct gguf *part = NULL;
        uint32_t no, n;
        int r;

        r = gguf_open_one(&part, path, e);
        if (r < 0)
                return r;
        r = read_numbers(part, &no, &n, e);
        if (r == 0 && (n != count || no != want_no))
                r = err_set(e, ERR_FORMAT, "the file says that it is number %u of %u, not %u of %u",
                        no + 1, n, want_no + 1, count);
        if (r == 0)
                r = adopt(g, part, e);
        if (r < 0)
                return err_wrap(e, r, "'%s'", path);
        TAKE_PTR(part);
        return 0;
}

static int check_total(const struct gguf *g, struct err *e) {
        uint32_t want = 0;
        int r = gguf_get_u32(g, "split.tensors.count", &want, e);

        if (r < 0)
                return r;
        if (r == 0 && want != gguf_n_tensors(g))
                return err_set(e, ERR_FORMAT,
                        "split.tensors.count is %u, but the files have %zu tensors", want,
                        gguf_n_tensors(g));
        return 0;
}

static int open_parts(struct gguf *g, const char *path, uint32_t count, struct err *e) {
        _cleanup_(freep) char *name = NULL;
        size_t stem = 0;
        int r;

        r = find_ending(path, 0, count, &stem, e);
        if (r < 0)
                return r;
        g->parts = calloc(count - 1, sizeof(struct gguf *));
        name = malloc(stem + sizeof(struct part_name));
        if (!g->parts || !name)
                return err_set(e, ERR_NOMEM, "no memory for %u files", count);
        memcpy(name, path, stem);
        for (uint32_t i = 1; i < count; i++) {
                struct part_name ending = part_name(i, count);

                memcpy(name + stem, ending.s, strlen(ending.s) + 1);
                r = open_part(g, name, i, count, e);
                if (r < 0)
                        return r;
        }
        return check_total(g, e);
}

static int open_others(struct gguf *g, const char *path, struct err *e) {
        uint32_t no, count;
        int r = read_numbers(g, &no, &count, e);

        if (r == 0 && no > 0)
                r = err_set(e, ERR_INVALID,
                        "this is file %u of %u of a model; name the first one, '...%s'", no + 1,
                        count, part_name(0, count).s);
        if (r == 0 && count > 1)
                r = open_parts(g, path, count, e);
        return r;
}

int gguf_open(struct gguf **ret, const char *path, struct err *e) {
        _cleanup_(gguf_freep) struct gguf *g = NULL;
        int r = gguf_open_one(&g, path, e);

        if (r < 0)
                return r;
        r = open_others(g, path, e);
        if (r < 0)
                return err_wrap(e, r, "'%s'", path);
        *ret = TAKE_PTR(g);
        return 0;
}
