/* SPDX-License-Identifier: MIT */
/*
 * Where blocks are stored. A record row lives exactly while a link refers to it: a function that
 * removes links collects their records, then drops those without a link, in the same transaction.
 */
#include "base/util.h"
#include "store/places.h"
#include <string.h>

void store_gone_deinit(struct store_gone *g) {
        if (!g)
                return;
        free(g->records);
        *g = (struct store_gone){};
}

int array_grow(void **items, size_t n, size_t size) {
        void *p;

        if (n && (n < 16 || (n & (n - 1))))
                return 0;
        p = reallocarray(*items, n ? n * 2 : 16, size);
        if (!p)
                return -ERR_NOMEM;
        *items = p;
        return 0;
}

int gone_push(struct store_gone *g, const struct store_record *rec, struct err *e) {
        void *p = g->records;

        if (array_grow(&p, g->n, sizeof(*rec)) < 0)
                return err_set(e, ERR_NOMEM, "no memory for spill records");
        g->records = p;
        g->records[g->n++] = *rec;
        return 0;
}

int ids_push(struct ids *ids, uint64_t id, struct err *e) {
        void *p = ids->v;

        if (array_grow(&p, ids->n, sizeof(*ids->v)) < 0)
                return err_set(e, ERR_NOMEM, "no memory for record ids");
        ids->v = p;
        ids->v[ids->n++] = id;
        return 0;
}

int record_read(struct query *q, struct store_record *ret, struct err *e) {
        struct store_record rec = {
                .id = query_number(q, 0, INT64_MAX),
                .file_key = query_u64(q, 1),
                .offset = query_number(q, 2, INT64_MAX),
                .stored_size = query_number(q, 3, INT64_MAX),
                .raw_size = query_number(q, 4, INT64_MAX),
                .block_class = query_u32(q, 5),
                .index = query_u32(q, 6),
                .n_tokens = query_u32(q, 7),
                .token_hash = query_u64(q, 8),
                .owner = query_number(q, 9, OWNER_MAX),
                .is_private = query_number(q, 10, 1),
                .n_valid = query_n_columns(q) > 11 ? query_u32(q, 11) : 0,
        };
        int r;

        if (rec.id == 0)
                query_bad(q, 0);
        r = query_check(q, e);
        if (r < 0)
                return r;
        *ret = rec;
        return 0;
}

/* Add all rows to @g. Those before a failure stay. */
static int read_records(struct query *q, struct store_gone *g, struct err *e) {
        for (;;) {
                struct store_record rec;
                int r = query_step(q, e);

                if (r <= 0)
                        return r;
                r = record_read(q, &rec, e);
                if (r < 0)
                        return r;
                r = gone_push(g, &rec, e);
                if (r < 0)
                        return r;
        }
}

int ids_read(struct query *q, struct ids *ids, struct err *e) {
        for (;;) {
                uint64_t id;
                int r = query_step(q, e);

                if (r <= 0)
                        return r;
                id = query_number(q, 0, INT64_MAX);
                r = query_check(q, e);
                if (r < 0)
                        return r;
                r = ids_push(ids, id, e);
                if (r < 0)
                        return r;
        }
}

/* 1 with *ret filled, 0 if there is no such record. */
static int get_record(struct store *s, uint64_t id, struct store_record *ret, struct err *e) {
        _query_ q = {};
        int r;

        if (!store_id_possible(id))
                return 0;
        r = query_begin(&q, s, STMT_RECORD_GET, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        r = query_step(&q, e);
        if (r <= 0)
                return r;
        r = record_read(&q, ret, e);
        return r < 0 ? r : 1;
}

static int run_with_id(struct store *s, enum store_stmt which, uint64_t id, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, which, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        return query_step(&q, e);
}

/* Delete the records in @ids that nothing refers to any more, noting them in @gone. */
static int drop_unreferred(
        struct store *s, const struct ids *ids, struct store_gone *gone, struct err *e) {
        for (size_t i = 0; i < ids->n; i++) {
                struct store_record rec;
                int r;

                r = run_with_id(s, STMT_LINK_REFERS, ids->v[i], e);
                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                r = get_record(s, ids->v[i], &rec, e);
                if (r < 0)
                        return r;
                if (r == 0) /* listed twice, and dropped the first time */
                        continue;
                r = gone_push(gone, &rec, e);
                if (r < 0)
                        return r;
                r = run_with_id(s, STMT_RECORD_DELETE, ids->v[i], e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int linked_ids(struct store *s, uint64_t id, uint64_t from_block, uint64_t from_state,
        struct ids *ids, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LINK_IDS_FROM, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_u64(&q, from_block);
        query_bind_u64(&q, from_state);
        for (;;) {
                uint64_t record;

                r = query_step(&q, e);
                if (r <= 0)
                        return r;
                record = query_number(&q, 0, INT64_MAX);
                r = query_check(&q, e);
                if (r < 0)
                        return r;
                r = ids_push(ids, record, e);
                if (r < 0)
                        return r;
        }
}

static int delete_links(struct store *s, enum store_stmt cut, uint64_t id, uint64_t from_block,
        uint64_t from_state, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, cut, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_u64(&q, from_block);
        query_bind_u64(&q, from_state);
        return query_run(&q, e);
}

/* The row of @id tells whether it has links. */
static int note_on_disk(struct store *s, uint64_t id, struct err *e) {
        return run_with_id(s, STMT_CONV_SET_ON_DISK, id, e);
}

int links_cut(struct store *s, enum store_stmt cut, uint64_t id, uint64_t from_block,
        uint64_t from_state, struct store_gone *gone, struct err *e) {
        _cleanup_(ids_deinit) struct ids ids = {};
        int r;

        r = linked_ids(s, id, from_block, from_state, &ids, e);
        if (r < 0)
                return r;
        r = delete_links(s, cut, id, from_block, from_state, e);
        if (r == 0)
                r = note_on_disk(s, id, e);
        if (r < 0)
                return r;
        return drop_unreferred(s, &ids, gone, e);
}

/* The record that a cell of @id has now, or 0. */
static int present_link(
        struct store *s, uint64_t id, const struct store_cell *cell, uint64_t *ret, struct err *e) {
        _query_ q = {};
        uint64_t record = 0;
        int r = query_begin(&q, s, STMT_LINK_GET, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, cell->index);
        query_bind_i64(&q, cell->block_class);
        r = query_step(&q, e);
        if (r < 0)
                return r;
        if (r > 0) {
                record = query_number(&q, 0, INT64_MAX);
                r = query_check(&q, e);
                if (r < 0)
                        return r;
        }
        *ret = record;
        return 0;
}

static int delete_link(struct store *s, uint64_t id, const struct store_cell *cell, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LINK_DROP, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, cell->index);
        query_bind_i64(&q, cell->block_class);
        return query_run(&q, e);
}

/* Remove one link and note its record, if there is one. */
static int drop_one(struct store *s, uint64_t id, const struct store_cell *cell, struct ids *ids,
        struct err *e) {
        uint64_t record;
        int r = present_link(s, id, cell, &record, e);

        if (r < 0 || record == 0)
                return r;
        r = ids_push(ids, record, e);
        return r < 0 ? r : delete_link(s, id, cell, e);
}

int links_drop(struct store *s, uint64_t id, const struct store_cell *cells, size_t n,
        struct store_gone *gone, struct err *e) {
        _cleanup_(ids_deinit) struct ids ids = {};
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++)
                r = drop_one(s, id, &cells[i], &ids, e);
        if (r == 0)
                r = note_on_disk(s, id, e);
        return r < 0 ? r : drop_unreferred(s, &ids, gone, e);
}

/*
 * A fork gets its parent's links for blocks that begin before the fork position, and for states that
 * end there or before. In the last of these blocks only the tokens before that position are the child's.
 */
int links_copy(struct store *s, uint64_t from, const struct store_conv *to, uint32_t n_tokens,
        struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LINK_COPY, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, to->id);
        query_bind_u64(&q, from);
        query_bind_i64(&q, n_tokens);
        query_bind_i64(&q, to->shape.block_tokens);
        r = query_run(&q, e);
        query_end(&q);
        return r < 0 ? r : note_on_disk(s, to->id, e);
}

int links_shorten(struct store *s, const struct store_conv *c, uint32_t n_tokens,
        struct store_gone *gone, struct err *e) {
        uint32_t block_tokens = c->shape.block_tokens;
        uint64_t blocks = 0; /* nothing was linked, or so the row says */
        _query_ q = {};
        int r;

        if (block_tokens > 0)
                blocks = ((uint64_t)n_tokens + block_tokens - 1) / block_tokens;
        r = links_cut(s, STMT_LINK_CUT, c->id, blocks, n_tokens, gone, e);
        if (r < 0 || block_tokens == 0 || n_tokens % block_tokens == 0)
                return r;
        r = query_begin(&q, s, STMT_LINK_SHORTEN, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        query_bind_i64(&q, n_tokens);
        query_bind_i64(&q, block_tokens);
        return query_run(&q, e);
}

int links_any_private(struct store *s, uint64_t id, struct err *e) {
        return run_with_id(s, STMT_LINK_PRIVATE, id, e);
}

static int insert_record(
        struct store *s, const struct store_record *rec, uint64_t *ret_id, struct err *e) {
        _query_ q = {};
        int r;

        if (rec->offset > INT64_MAX || rec->stored_size > INT64_MAX || rec->raw_size > INT64_MAX)
                return err_set(e, ERR_INVALID, "impossible place of a spill record");
        r = query_begin(&q, s, STMT_RECORD_INSERT, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, rec->file_key);
        query_bind_u64(&q, rec->offset);
        query_bind_u64(&q, rec->stored_size);
        query_bind_u64(&q, rec->raw_size);
        query_bind_i64(&q, rec->block_class);
        query_bind_i64(&q, rec->index);
        query_bind_i64(&q, rec->n_tokens);
        query_bind_u64(&q, rec->token_hash);
        query_bind_i64(&q, rec->owner);
        query_bind_i64(&q, rec->is_private);
        return query_insert(&q, ret_id, e);
}

static int put_link(struct store *s, uint64_t id, const struct store_record *rec, uint64_t record,
        struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LINK_PUT, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, rec->index);
        query_bind_i64(&q, rec->block_class);
        query_bind_u64(&q, record);
        query_bind_i64(&q, rec->n_valid);
        return query_run(&q, e);
}

/* Read an existing record that @c is going to link. */
static int get_shared(struct store *s, const struct store_conv *c, const struct store_record *rec,
        struct store_record *ret, struct err *e) {
        struct store_record there;
        int r = get_record(s, rec->id, &there, e);

        if (r < 0)
                return r;
        if (r == 0)
                return err_set(
                        e, ERR_NOT_FOUND, "no spill record %llu", (unsigned long long)rec->id);
        if (there.index != rec->index || there.block_class != rec->block_class)
                return err_set(e, ERR_INVALID,
                        "spill record %llu is of cell %u of class %u, not %u of %u",
                        (unsigned long long)rec->id, there.index, there.block_class, rec->index,
                        rec->block_class);
        if (there.is_private && !c->private_memory)
                return err_set(e, ERR_INVALID, "spill record %llu is private",
                        (unsigned long long)rec->id);
        *ret = there;
        return 0;
}

/* Whether memory of this shape has such a cell. */
static int check_cell(
        const struct store_shape *shape, const struct store_record *rec, struct err *e) {
        uint64_t n = store_cell_tokens(shape, rec->block_class);

        if (store_has_class(shape, rec->block_class) && rec->n_tokens >= 1 && rec->n_tokens <= n &&
                rec->index * n + rec->n_tokens <= UINT32_MAX)
                return 0;
        return err_set(e, ERR_INVALID,
                "the model's memory has no cell %u of class %u with %u tokens", rec->index,
                rec->block_class, rec->n_tokens);
}

/* Link one cell of @c to @rec, which is completed; the record linked before goes to @replaced. */
static int link_one(struct store *s, const struct store_conv *c, const struct store_shape *shape,
        struct store_record *rec, struct ids *replaced, struct err *e) {
        uint32_t n_ahead = rec->n_ahead;
        uint64_t old;
        int r;

        if (rec->id == 0) {
                rec->owner = c->owner;
                rec->is_private = rec->is_private || c->private_memory;
                if (rec->is_private && !c->private_memory)
                        return err_set(e, ERR_INVALID, "private memory of a public conversation");
                r = check_cell(shape, rec, e);
                if (r == 0)
                        r = insert_record(s, rec, &rec->id, e);
        } else {
                r = get_shared(s, c, rec, rec, e);
                if (r == 0)
                        r = check_cell(shape, rec, e);
        }
        if (r < 0)
                return r;
        rec->n_valid = rec->n_tokens - MIN(n_ahead, rec->n_tokens);
        r = present_link(s, c->id, &(struct store_cell){rec->block_class, rec->index}, &old, e);
        if (r < 0)
                return r;
        if (old && old != rec->id) {
                r = ids_push(replaced, old, e);
                if (r < 0)
                        return r;
        }
        return put_link(s, c->id, rec, rec->id, e);
}

static int set_model(struct store *s, uint64_t id, const struct fingerprint *model,
        const struct store_shape *shape, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_SET_MODEL, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, model->weights);
        query_bind_u64(&q, model->rules);
        shape_bind(&q, shape);
        query_bind_u64(&q, id);
        return query_run(&q, e);
}

static int link_once(struct store *s, uint64_t id, const struct fingerprint *model,
        const struct store_shape *shape, struct store_record *links, size_t n,
        const struct store_meter *meters, size_t n_meters, struct store_gone *gone, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(store_gone_deinit) struct store_gone lost = {};
        _cleanup_(ids_deinit) struct ids replaced = {};
        _cleanup_(freep) struct store_record *made = NULL;
        struct store_conv c;
        int r;

        if (!store_shape_is_possible(shape))
                return err_set(e, ERR_INVALID, "no model's memory is like that");
        made = calloc(MAX(n, (size_t)1), sizeof(*made));
        if (!made)
                return err_set(e, ERR_NOMEM, "no memory for links");
        r = conv_begin(s, &txn, id, &c, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                made[i] = links[i];
                r = link_one(s, &c, shape, &made[i], &replaced, e);
                if (r < 0)
                        return r;
        }
        r = drop_unreferred(s, &replaced, &lost, e);
        if (r == 0)
                r = note_on_disk(s, id, e);
        if (r < 0)
                return r;
        r = set_model(s, id, model, shape, e);
        if (r < 0)
                return r;
        r = meters_set(s, meters, n_meters, e);
        if (r < 0)
                return r;
        r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                links[i] = made[i];
        *gone = lost;
        lost = (struct store_gone){};
        return 0;
}

int store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        const struct store_shape *shape, struct store_record *links, size_t n,
        const struct store_meter *meters, size_t n_meters, struct store_gone *gone, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = link_once(s, id, model, shape, links, n, meters, n_meters, gone, e);
        while (txn_again(s, &r, e));
        return r;
}

static int unlink_from_once(
        struct store *s, uint64_t id, uint32_t pos, struct store_gone *gone, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(store_gone_deinit) struct store_gone lost = {};
        struct store_conv c;
        int r;

        r = conv_begin(s, &txn, id, &c, e);
        if (r == 0)
                r = links_cut(s, STMT_LINK_CUT, id,
                        c.shape.block_tokens ? pos / c.shape.block_tokens : 0, pos, &lost, e);
        if (r == 0)
                r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        *gone = lost;
        lost = (struct store_gone){};
        return 0;
}

int store_unlink_from(
        struct store *s, uint64_t id, uint32_t pos, struct store_gone *gone, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = unlink_from_once(s, id, pos, gone, e);
        while (txn_again(s, &r, e));
        return r;
}

static int unlink_cells_once(struct store *s, uint64_t id, const struct store_cell *cells, size_t n,
        struct store_gone *gone, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(store_gone_deinit) struct store_gone lost = {};
        struct store_conv c;
        int r;

        r = conv_begin(s, &txn, id, &c, e);
        if (r == 0)
                r = links_drop(s, id, cells, n, &lost, e);
        if (r < 0)
                return r;
        r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        *gone = lost;
        lost = (struct store_gone){};
        return 0;
}

int store_unlink_cells(struct store *s, uint64_t id, const struct store_cell *cells, size_t n,
        struct store_gone *gone, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = unlink_cells_once(s, id, cells, n, gone, e);
        while (txn_again(s, &r, e));
        return r;
}

/* Class by class, since the table's order is by block first, and nothing is to be sorted. */
int links_read(struct store *s, uint64_t id, struct store_gone *ret, struct err *e) {
        _cleanup_(store_gone_deinit) struct store_gone got = {};

        for (uint32_t c = 0; c < STORE_N_CLASSES; c++) {
                _query_ q = {};
                int r = query_begin(&q, s, STMT_LINK_LIST, e);

                if (r < 0)
                        return r;
                query_bind_u64(&q, id);
                query_bind_i64(&q, c);
                r = read_records(&q, &got, e);
                if (r < 0)
                        return r;
        }
        *ret = got;
        got = (struct store_gone){};
        return 0;
}

int store_links(struct store *s, uint64_t id, struct store_gone *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        struct store_conv c;
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = conv_read(s, id, &c, e);
        return r < 0 ? r : links_read(s, id, ret, e);
}

int store_records(struct store *s, struct store_gone *ret, struct err *e) {
        STORE_LOCK(s);
        _cleanup_(store_gone_deinit) struct store_gone got = {};
        _query_ q = {};
        int r = query_begin(&q, s, STMT_RECORD_LIST, e);

        if (r < 0)
                return r;
        r = read_records(&q, &got, e);
        if (r < 0)
                return r;
        *ret = got;
        got = (struct store_gone){};
        return 0;
}
