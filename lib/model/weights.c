/* SPDX-License-Identifier: MIT */
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gguf/gguf.h"
#include "quant/quant.h"

struct weights_vector {
        struct weights_vector *next;
        float data[];
};

void weights_deinit(struct weights *w) {
        while (w->vectors) {
                struct weights_vector *v = w->vectors;

                w->vectors = v->next;
                free(v);
        }
        *w = WEIGHTS_NULL;
}

struct kern_mat weights_rows(const struct kern_mat *m, size_t from, size_t n_out) {
        struct kern_mat r = *m;

        r.data = (const uint8_t *)m->data + from * m->row_size;
        r.n_out = n_out;
        return r;
}

struct kern_mat weights_stack_at(const struct weights_stack *s, size_t i) {
        struct kern_mat r = s->first;

        r.data = (const uint8_t *)s->first.data + i * s->stride;
        return r;
}

struct weights_name {
        char s[96];
};

static struct weights_name weights_name(int layer, const char *name) {
        struct weights_name n;

        if (layer >= 0)
                snprintf(n.s, sizeof(n.s), "blk.%d.%s", layer, name);
        else
                snprintf(n.s, sizeof(n.s), "%s", name);
        return n;
}

static int weights_shape_error(
        const struct gguf_tensor *t, const char *name, const size_t ne[4], struct err *e) {
        return err_set(e, ERR_FORMAT,
                "tensor '%s' has the shape {%llu, %llu, %llu, %llu}, expected {%zu, %zu, %zu, %zu}",
                name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
                (unsigned long long)t->ne[2], (unsigned long long)t->ne[3], ne[0], ne[1], ne[2],
                ne[3]);
}

/* 0, 1 absent, or an error. */
static int weights_find_shaped(const struct weights *w, const struct gguf_tensor **ret,
        const char *name, const size_t ne[4], struct err *e) {
        const struct gguf_tensor *t = gguf_tensor(w->gguf, name);
        const struct quant_info *q;
        size_t row;

        if (!t)
                return 1;
        for (int i = 0; i < 4; i++)
                if (t->ne[i] != ne[i])
                        return weights_shape_error(t, name, ne, e);
        q = quant_info(t->type);
        if (!q || !q->supported)
                return err_set(e, ERR_UNSUPPORTED,
                        "tensor '%s' has the type %s, which is not "
                        "supported",
                        name, q ? q->name : "?");
        row = quant_row_size(t->type, ne[0]);
        if (!row || t->size / row < ne[1] * ne[2] * ne[3])
                return err_set(e, ERR_FORMAT, "tensor '%s' has %llu bytes, too few for its shape",
                        name, (unsigned long long)t->size);
        *ret = t;
        return 0;
}

/* The same of the shape {ne0, ne1, ne2}. */
static int weights_find(const struct weights *w, const struct gguf_tensor **ret, const char *name,
        size_t ne0, size_t ne1, size_t ne2, struct err *e) {
        const size_t ne[4] = {ne0, ne1, ne2, 1};

        return weights_find_shaped(w, ret, name, ne, e);
}

int weights_missing(int layer, const char *name, struct err *e) {
        return err_set(e, ERR_FORMAT, "tensor '%s' is missing", weights_name(layer, name).s);
}

bool weights_has(const struct weights *w, int layer, const char *name) {
        return gguf_tensor(w->gguf, weights_name(layer, name).s);
}

static struct kern_mat weights_view(const struct gguf_tensor *t) {
        return (struct kern_mat){.data = t->data,
                .type = t->type,
                .n_in = t->ne[0],
                .n_out = t->ne[1],
                .row_size = quant_row_size(t->type, t->ne[0])};
}

static int weights_check_kernel(const struct gguf_tensor *t, const char *name, struct err *e) {
        if (kern_mat_supported(t->type))
                return 0;
        return err_set(e, ERR_UNSUPPORTED,
                "tensor '%s' has the type %s, which no matrix kernel handles", name,
                quant_info(t->type)->name);
}

int weights_stack_opt(struct weights *w, struct weights_stack *ret, int layer, const char *name,
        size_t n_in, size_t n_out, size_t n, struct err *e) {
        struct weights_name full = weights_name(layer, name);
        const struct gguf_tensor *t = NULL;
        int r;

        r = weights_find(w, &t, full.s, n_in, n_out, n, e);
        if (r)
                return r;
        r = weights_check_kernel(t, full.s, e);
        if (r < 0)
                return r;
        ret->first = weights_view(t);
        ret->n = n;
        ret->stride = ret->first.row_size * n_out;
        return 0;
}

int weights_stack(struct weights *w, struct weights_stack *ret, int layer, const char *name,
        size_t n_in, size_t n_out, size_t n, struct err *e) {
        int r = weights_stack_opt(w, ret, layer, name, n_in, n_out, n, e);

        return r == 1 ? weights_missing(layer, name, e) : r;
}

int weights_n_in(
        struct weights *w, size_t *ret, int layer, const char *name, size_t max, struct err *e) {
        const struct gguf_tensor *t = gguf_tensor(w->gguf, weights_name(layer, name).s);

        if (!t)
                return weights_missing(layer, name, e);
        if (t->ne[0] < 1 || t->ne[0] > max)
                return err_set(e, ERR_FORMAT, "tensor '%s' has rows of %llu, outside 1 to %zu",
                        weights_name(layer, name).s, (unsigned long long)t->ne[0], max);
        *ret = t->ne[0];
        return 0;
}

int weights_mat_opt(struct weights *w, struct kern_mat *ret, int layer, const char *name,
        size_t n_in, size_t n_out, struct err *e) {
        struct weights_stack s;
        int r = weights_stack_opt(w, &s, layer, name, n_in, n_out, 1, e);

        if (r == 0)
                *ret = s.first;
        return r;
}

int weights_mat(struct weights *w, struct kern_mat *ret, int layer, const char *name, size_t n_in,
        size_t n_out, struct err *e) {
        int r = weights_mat_opt(w, ret, layer, name, n_in, n_out, e);

        return r == 1 ? weights_missing(layer, name, e) : r;
}

int weights_table(struct weights *w, struct kern_mat *ret, const char *name, size_t n_in,
        size_t n_out, struct err *e) {
        const struct gguf_tensor *t = NULL;
        int r = weights_find(w, &t, name, n_in, n_out, 1, e);

        if (r == 0)
                *ret = weights_view(t);
        return r == 1 ? weights_missing(-1, name, e) : r;
}

int weights_vec_shaped_opt(struct weights *w, const float **ret, int layer, const char *name,
        const size_t ne[4], struct err *e) {
        struct weights_name full = weights_name(layer, name);
        const struct gguf_tensor *t = NULL;
        size_t n = ne[0], n_rows = ne[1] * ne[2] * ne[3], all = n * n_rows;
        struct weights_vector *v;
        int r;

        r = weights_find_shaped(w, &t, full.s, ne, e);
        if (r)
                return r;
        v = malloc(sizeof(*v) + all * sizeof(float));
        if (!v)
                return err_set(e, ERR_NOMEM, "no memory for tensor '%s'", full.s);
        for (size_t i = 0; i < n_rows; i++)
                quant_dequantize(t->type, (const uint8_t *)t->data + i * quant_row_size(t->type, n),
                        v->data + i * n, n);
        for (size_t i = 0; i < all; i++)
                if (!isfinite(v->data[i])) {
                        free(v);
                        return err_set(e, ERR_FORMAT,
                                "tensor '%s' has a value that is not finite at %zu", full.s, i);
                }
        v->next = w->vectors;
        w->vectors = v;
        *ret = v->data;
        return 0;
}

int weights_rows_vec_opt(struct weights *w, const float **ret, int layer, const char *name,
        size_t n, size_t n_rows, struct err *e) {
        const size_t ne[4] = {n, n_rows, 1, 1};

        return weights_vec_shaped_opt(w, ret, layer, name, ne, e);
}

int weights_tiles(struct weights *w, const float **ret, int layer, const char *name, size_t n,
        size_t n_rows, size_t lanes, struct err *e) {
        size_t n_tiles = (n_rows + lanes - 1) / lanes;
        const struct gguf_tensor *t = gguf_tensor(w->gguf, weights_name(layer, name).s);
        bool apart = t && t->ne[2] > 1;
        const size_t ne[4] = {n, apart ? 1 : n_rows, apart ? n_rows : 1, 1};
        struct weights_vector *rows, *v;
        const float *plain;
        int r = weights_vec_shaped_opt(w, &plain, layer, name, ne, e);

        if (r)
                return r == 1 ? weights_missing(layer, name, e) : r;
        v = calloc(1, sizeof(*v) + n_tiles * lanes * n * sizeof(float));
        if (!v)
                return err_set(e, ERR_NOMEM, "no memory for tensor '%s'", name);
        for (size_t row = 0; row < n_rows; row++)
                for (size_t i = 0; i < n; i++)
                        v->data[(row / lanes * n + i) * lanes + row % lanes] = plain[row * n + i];
        /* The newest vector, which nothing else refers to. */
        rows = w->vectors;
        v->next = rows->next;
        w->vectors = v;
        free(rows);
        *ret = v->data;
        return 0;
}

int weights_vec_opt(struct weights *w, const float **ret, int layer, const char *name, size_t n,
        struct err *e) {
        return weights_rows_vec_opt(w, ret, layer, name, n, 1, e);
}

int weights_vec(struct weights *w, const float **ret, int layer, const char *name, size_t n,
        struct err *e) {
        int r = weights_vec_opt(w, ret, layer, name, n, e);

        return r == 1 ? weights_missing(layer, name, e) : r;
}

int weights_bias(struct weights *w, const float **ret, int layer, const char *name, size_t n,
        bool required, struct err *e) {
        int r = weights_vec_opt(w, ret, layer, name, n, e);

        if (r == 1)
                return required ? weights_missing(layer, name, e) : 0;
        return r;
}
