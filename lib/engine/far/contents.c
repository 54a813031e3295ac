/* SPDX-License-Identifier: MIT */
/*
 * The table of contents of a conversation in the remote store. All integers are little-endian.
 *
 *      0  u32 magic "cKVt"     8  n × { u32 class, u32 index, u32 tokens, u32 zero, u64 token hash, 16 bytes name }
 *      4  u32 n                -32 seal (names.c)
 *
 * 1. Cells stand by rising class, then index; none twice.
 * 2. It is as long as n says, and n is at most what a conversation can have (far_contents_max()).
 * 3. Whoever reads it trusts nothing but the form: names are made anew, and what is read under them is checked (far.h, rule 3).
 */
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "engine/far/state.h"

enum {
        MAGIC = 0x74564b63, /* "cKVt" */
        HEAD_SIZE = 8,
        CELL_SIZE = 40,
};

/* Blocks of both classes of attention, and states: no more than blocks, and some (memory/checkpoint.c). */
size_t far_contents_max(const struct engine *engine) {
        return 3 * ((size_t)engine->info.context / engine->info.block_tokens + 16);
}

size_t far_contents_size(const struct engine *engine) {
        return far_contents_max(engine) * (CELL_SIZE + sizeof(struct far_cell));
}

void far_contents_deinit(struct far_contents *c) {
        free(c->cells);
        *c = (struct far_contents){0};
}

int far_compare_cells(const struct far_cell *a, const struct far_cell *b) {
        if (a->class != b->class)
                return a->class < b->class ? -1 : 1;
        return a->index < b->index ? -1 : a->index > b->index;
}

bool far_contents_has(const struct far_contents *c, const struct far_cell *cell) {
        for (size_t i = 0; i < c->n; i++)
                if (memcmp(&c->cells[i].name, &cell->name, sizeof(cell->name)) == 0)
                        return true;
        return false;
}

static bool is_possible(const struct engine *engine, const struct far_cell *cell) {
        uint32_t ct;

        if (cell->class >= SEQ_N_CLASSES || !engine->info.shape.size[cell->class])
                return false;
        ct = seq_cell_tokens(&engine->info.shape, cell->class);
        return cell->n_tokens >= 1 && cell->n_tokens <= ct &&
               (uint64_t)cell->index * ct + cell->n_tokens <= UINT32_MAX;
}

static int parse_cell(const struct engine *engine, struct cursor *c, struct far_cell *ret) {
        struct far_cell cell = {0};
        uint32_t class, zero;
        const uint8_t *name;

        if (cursor_u32(c, &class) || cursor_u32(c, &cell.index) || cursor_u32(c, &cell.n_tokens) ||
                cursor_u32(c, &zero) || cursor_u64(c, &cell.token_hash) ||
                cursor_bytes(c, FAR_NAME_SIZE, &name) || zero != 0 || class >= SEQ_N_CLASSES)
                return -ERR_CORRUPT;
        cell.class = (enum seq_class) class;
        memcpy(cell.name.bytes, name, FAR_NAME_SIZE);
        *ret = cell;
        return is_possible(engine, &cell) ? 0 : -ERR_CORRUPT;
}

/* 0, -ERR_CORRUPT or -ERR_NOMEM. */
static int parse(
        const struct engine *engine, const uint8_t *data, size_t size, struct far_contents *ret) {
        struct cursor c = {data, data + size};
        uint32_t magic, n;
        int r = 0;

        if (cursor_u32(&c, &magic) || cursor_u32(&c, &n) || magic != MAGIC ||
                n > far_contents_max(engine) || size != HEAD_SIZE + (size_t)n * CELL_SIZE)
                return -ERR_CORRUPT;
        ret->cells = calloc(n + 1, sizeof(*ret->cells));
        if (!ret->cells)
                return -ERR_NOMEM;
        for (; r == 0 && ret->n < n; ret->n++) {
                r = parse_cell(engine, &c, &ret->cells[ret->n]);
                if (r == 0 && ret->n > 0 &&
                        far_compare_cells(&ret->cells[ret->n], &ret->cells[ret->n - 1]) <= 0)
                        r = -ERR_CORRUPT;
        }
        return r;
}

struct reading {
        const struct engine *engine;
        const struct far_scope *scope;
        const struct far_name *name;
        struct far_contents *ret;
};

static int take(void *arg, size_t i, const void *data, size_t size, struct err *e) {
        struct reading *x = arg;

        (void)i;
        (void)e;
        if (data && far_is_sealed(x->scope, x->name, data, size) &&
                parse(x->engine, data, size - FAR_SEAL_SIZE, x->ret) < 0)
                far_contents_deinit(x->ret);
        return 0;
}

int far_contents_read(struct engine *engine, const struct far_scope *scope, uint64_t conv,
        uint64_t until, struct far_contents *ret, struct err *e) {
        struct far_name name;
        struct reading x = {engine, scope, &name, ret};
        const struct remote_reader reader = {take, &x};
        struct remote_key key;
        int r;

        *ret = (struct far_contents){0};
        far_contents_name(engine, scope, conv, &name);
        far_contents_key(&name, &key);
        r = remote_get(engine->remote, &key, 1, &reader, until, e);
        if (r < 0)
                far_contents_deinit(ret);
        return r;
}

int far_contents_write(struct engine *engine, const struct far_scope *scope, uint64_t conv,
        const struct far_contents *c, uint64_t until, struct err *e) {
        size_t n = MIN(c->n, far_contents_max(engine));
        size_t size = HEAD_SIZE + n * CELL_SIZE + FAR_SEAL_SIZE;
        _cleanup_(freep) uint8_t *data = malloc(size);
        struct remote_value value = {.data = data, .size = size};
        struct far_name name;
        uint8_t *p = data;
        int r;

        if (!data)
                return err_set(e, ERR_NOMEM, "no memory for %zu cells", n);
        p = put_le(p, MAGIC, 4);
        p = put_le(p, n, 4);
        for (size_t i = 0; i < n; i++) {
                const struct far_cell *cell = &c->cells[i];

                p = put_le(p, cell->class, 4);
                p = put_le(p, cell->index, 4);
                p = put_le(p, cell->n_tokens, 4);
                p = put_le(p, 0, 4);
                p = put_le(p, cell->token_hash, 8);
                memcpy(p, cell->name.bytes, FAR_NAME_SIZE);
                p += FAR_NAME_SIZE;
        }
        far_contents_name(engine, scope, conv, &name);
        far_contents_key(&name, &value.key);
        r = far_seal(scope, &name, data, size - FAR_SEAL_SIZE, p, e);
        if (r < 0)
                return r;
        return remote_put(engine->remote, &value, 1, engine->far->keep_sec, until, e);
}
