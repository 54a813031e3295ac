/* SPDX-License-Identifier: MIT */
/*
 * Weights in the layout that a kern multiplies fastest (kern_repack()): a copy beside the file's map, made once
 * behind loading, whose rows are found by where they lie in the map.
 *
 * 1. Only matrices that work_matmul() multiplies are copied: loading names them (work_dims_mat(),
 *    work_dims_stack()). Tables that are read row by row, and products by heads, stay with the map.
 * 2. A matrix, or rows of one, that is not in the copy is computed from the map, with the same bits. So the copy
 *    is about speed alone: a model without it is whole.
 * 3. What was copied is given back to the system: its pages come from the file again if somebody reads them.
 *    In memory are the weights once, but for the time of one matrix.
 * 4. The copy asks for large pages: of small ones two processors read little more than half as much a
 *    second.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "model/internal.h"
#include "model/model.h"

/* Fewer rows are not worth the lanes that they would leave empty. */
#define LEAST_ROWS 64

/* One matrix: what it is in the map, and in the copy. */
struct repacked_mat {
        struct kern_mat from, to;
        size_t size; /* in the copy */
};

struct repack {
        struct repacked_mat *mats; /* owned; by from.data, rising */
        size_t n_mats;
        void *memory; /* owned (mmap) */
        size_t size;
        size_t tile_rows;
};

struct repack *repack_free(struct repack *r) {
        if (!r)
                return NULL;
        if (r->memory)
                munmap(r->memory, r->size);
        free(r->mats);
        free(r);
        return NULL;
}
DEFINE_CLEANUP(struct repack *, repack_free);

static size_t mat_size(const struct kern *k, const struct kern_mat *m) {
        return m->n_out < LEAST_ROWS ? 0 : align_up(kern_repacked_size(k, m), 64);
}

static int compare(const void *a, const void *b) {
        const uint8_t *x = ((const struct repacked_mat *)a)->from.data;
        const uint8_t *y = ((const struct repacked_mat *)b)->from.data;

        return x < y ? -1 : x > y;
}

/* The matrices of stack @s that are repacked; to @ret, if it is not NULL. */
static size_t collect(
        const struct kern *k, const struct weights_stack *s, struct repacked_mat *ret) {
        size_t size = mat_size(k, &s->first);

        if (size == 0)
                return 0;
        for (size_t i = 0; ret && i < s->n; i++)
                ret[i] = (struct repacked_mat){.from = weights_stack_at(s, i), .size = size};
        return s->n;
}

/* A matrix that is used twice is named twice. */
static void drop_doubles(struct repack *r) {
        size_t n = 0;

        for (size_t i = 0; i < r->n_mats; i++)
                if (n == 0 || r->mats[n - 1].from.data != r->mats[i].from.data)
                        r->mats[n++] = r->mats[i];
        r->n_mats = n;
}

/* What will be copied, and its size. */
static int repack_plan(
        struct repack **ret, const struct model *m, const struct kern *k, struct err *e) {
        _cleanup_(repack_freep) struct repack *r = calloc(1, sizeof(*r));
        size_t n = 0;

        if (!r)
                return err_set(e, ERR_NOMEM, "no memory for weights");
        for (size_t i = 0; i < m->dims.n_mats; i++)
                n += collect(k, &m->dims.mats[i], NULL);
        r->mats = calloc(MAX(n, (size_t)1), sizeof(*r->mats));
        if (!r->mats)
                return err_set(e, ERR_NOMEM, "no memory for weights");
        for (size_t i = 0; i < m->dims.n_mats; i++)
                r->n_mats += collect(k, &m->dims.mats[i], r->mats + r->n_mats);
        qsort(r->mats, r->n_mats, sizeof(*r->mats), compare);
        drop_doubles(r);
        for (size_t i = 0; i < r->n_mats; i++)
                r->size += r->mats[i].size;
        *ret = TAKE_PTR(r);
        return 0;
}

size_t model_repacked_size(const struct model *m, const struct kern *k) {
        struct repack *r = NULL;
        size_t size = repack_plan(&r, m, k, NULL) == 0 ? r->size : 0;

        repack_free(r);
        return size;
}

int model_repack(struct model *m, struct kern *k, struct err *e) {
        _cleanup_(repack_freep) struct repack *r = NULL;
        uint8_t *to;
        int status = k ? repack_plan(&r, m, k, e) : 0;

        if (status < 0)
                return status;
        if (!r || r->size == 0) {
                m->repack = repack_free(m->repack);
                return 0;
        }
        r->memory = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (r->memory == MAP_FAILED) {
                r->memory = NULL;
                return err_set(e, ERR_NOMEM, "no memory for %zu bytes of weights", r->size);
        }
        (void)madvise(r->memory, r->size, MADV_HUGEPAGE);
        r->tile_rows = kern_repacked_rows(k);
        to = r->memory;
        for (size_t i = 0; i < r->n_mats; i++) {
                struct repacked_mat *mat = &r->mats[i];

                kern_repack(k, &mat->from, to, &mat->to);
                gguf_forget(m->weights.gguf, mat->from.data, mat->from.n_out * mat->from.row_size);
                to += mat->size;
        }
        repack_free(m->repack);
        m->repack = TAKE_PTR(r);
        return 0;
}

uint64_t repack_source_size(const struct repack *r) {
        uint64_t size = 0;

        for (size_t i = 0; r && i < r->n_mats; i++)
                size += r->mats[i].from.n_out * r->mats[i].from.row_size;
        return size;
}

struct kern_mat repack_find(const struct repack *r, const struct kern_mat *m) {
        const uint8_t *at = m->data;
        size_t low = 0, high = r ? r->n_mats : 0, offset;
        const struct repacked_mat *mat;
        struct kern_mat found = *m;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if ((const uint8_t *)r->mats[middle].from.data <= at)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == 0)
                return *m;
        mat = &r->mats[low - 1];
        offset = (size_t)(at - (const uint8_t *)mat->from.data);
        /* Rows of a fused matrix: those of whole tiles stand where they stood. */
        if (offset + m->n_out * m->row_size > mat->from.n_out * mat->from.row_size ||
                offset % (r->tile_rows * m->row_size) != 0)
                return *m;
        found.data = (const uint8_t *)mat->to.data + offset;
        found.repacked = true;
        return found;
}
