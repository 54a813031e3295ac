/* SPDX-License-Identifier: MIT */
/*
 * How replies were made: a row beside the reply's turn, with columns that the sqlite3 shell can add up.
 *
 * 1. A row goes with its turn (the schema's foreign key): when the turn is cut, and when the
 *    conversation is closed. Carry keeps the turns, and with them the rows.
 * 2. A row that cannot be read hides nothing but itself: its turn is read without it. store_check()
 *    finds it.
 */
#include "base/utf8.h"
#include "base/util.h"
#include "store/store-private.h"
#include <string.h>

int figures_insert(
        struct store *s, uint64_t id, uint32_t n, const struct figures *f, struct err *e) {
        _query_ q = {};
        int r;

        if (!utf8_valid(f->model, strlen(f->model)))
                return err_set(e, ERR_INVALID, "the name of a model is not UTF-8");
        r = query_begin(&q, s, STMT_FIGURES_INSERT, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, n);
        query_bind_text(&q, f->model, strlen(f->model));
        query_bind_u64(&q, f->seed);
        query_bind_i64(&q, f->n_prompt);
        query_bind_i64(&q, f->n_ram);
        query_bind_i64(&q, f->n_disk);
        query_bind_i64(&q, f->n_shared);
        query_bind_i64(&q, f->n_computed);
        query_bind_i64(&q, f->n_generated);
        query_bind_u64(&q, MIN(f->queued_usec, (uint64_t)INT64_MAX));
        query_bind_u64(&q, MIN(f->restore_usec, (uint64_t)INT64_MAX));
        query_bind_u64(&q, MIN(f->prefill_usec, (uint64_t)INT64_MAX));
        query_bind_u64(&q, MIN(f->decode_usec, (uint64_t)INT64_MAX));
        return query_run(&q, e);
}

int figures_copy(struct store *s, uint64_t from, uint64_t to, uint32_t n_turns, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_FIGURES_COPY, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, to);
        query_bind_u64(&q, from);
        query_bind_i64(&q, n_turns);
        return query_run(&q, e);
}

/* The present row, behind the turn's number. The name is valid until the next step. */
static int read_row(struct query *q, struct figures *ret, struct err *e) {
        size_t size;

        *ret = (struct figures){.model = query_bytes(q, 1, &size),
                .seed = query_u64(q, 2),
                .n_prompt = query_u32(q, 3),
                .n_ram = query_u32(q, 4),
                .n_disk = query_u32(q, 5),
                .n_shared = query_u32(q, 6),
                .n_computed = query_u32(q, 7),
                .n_generated = query_u32(q, 8),
                .queued_usec = query_number(q, 9, INT64_MAX),
                .restore_usec = query_number(q, 10, INT64_MAX),
                .prefill_usec = query_number(q, 11, INT64_MAX),
                .decode_usec = query_number(q, 12, INT64_MAX)};
        if (memchr(ret->model, 0, size) || !utf8_valid(ret->model, size))
                query_bad(q, 1);
        return query_check(q, e);
}

static int attach(const struct figures *f, struct store_turn *to, struct err *e) {
        void *block = malloc(figures_size(f));

        if (!block)
                return err_set(e, ERR_NOMEM, "no memory for the figures of a turn");
        to->figures = figures_put(block, f);
        return 0;
}

int figures_read(
        struct store *s, uint64_t id, uint32_t first, struct store_turns *turns, struct err *e) {
        _query_ q = {};
        struct err why;
        int r = query_begin(&q, s, STMT_FIGURES_LIST, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, first);
        query_bind_u64(&q, (uint64_t)first + turns->n);
        while ((r = query_step(&q, &why)) > 0) {
                uint64_t n = query_number(&q, 0, UINT32_MAX);
                struct figures f;

                r = read_row(&q, &f, &why);
                if (r == 0 && n >= first && n - first < turns->n)
                        r = attach(&f, &turns->turns[n - first], &why);
                if (r == -ERR_CORRUPT)
                        q.bad = NULL;
                else if (r < 0)
                        break;
        }
        if (r < 0 && r != -ERR_CORRUPT) {
                if (e)
                        *e = why;
                return r;
        }
        return 0;
}

int store_figures(struct store *s, uint64_t id, uint32_t n, struct figures *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        struct store_turn turn = {};
        struct store_turns turns = {&turn, 1};
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = figures_read(s, id, n, &turns, e);
        if (r < 0)
                return r;
        *ret = turn.figures ? *turn.figures : (struct figures){0};
        ret->model = NULL;
        free((void *)(uintptr_t)turn.figures);
        return 0;
}

int figures_check(struct store *s, uint64_t id, struct err *e) {
        struct figures f;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_FIGURES_LIST, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, 0);
        query_bind_i64(&q, INT64_MAX);
        while ((r = query_step(&q, e)) > 0) {
                r = read_row(&q, &f, e);
                if (r < 0)
                        return r;
        }
        return r;
}
