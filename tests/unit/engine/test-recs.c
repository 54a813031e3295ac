/* SPDX-License-Identifier: MIT */
/*
 * Where cells lie on disk (lib/engine/conv/recs.c), and what of a memory is left when only the disk has it
 * (conv_trim()): random operations, compared with tables that have a place for every cell.
 */
#include <string.h>

#include "base/ledger.h"
#include "base/util.h"
#include "engine/conv/tables.h"
#include "util/test.h"

enum { BT = 4, MAX_TOKENS = 40, N_LISTS = 3, N_RUNS = 300, N_STEPS = 60, N_TRIMS = 3000 };

static uint64_t rng = 1;

static uint32_t draw(uint32_t n) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)((rng >> 33) % n);
}

/* --- lists --- */

struct place {
        uint64_t id; /* of the record; 0: none */
        uint32_t n_valid, n_tokens;
        bool linked;
};
struct naive {
        struct place at[SEQ_N_CLASSES][MAX_TOKENS];
};

static uint32_t cell_tokens(int c) {
        return c == SEQ_STATE ? 1 : BT;
}

static struct store_record record_of(uint64_t id, int c, uint32_t index, uint32_t n_tokens) {
        return (struct store_record){.id = id,
                .block_class = (uint32_t)c,
                .index = index,
                .n_tokens = n_tokens,
                .stored_size = 100 + id};
}

static void set(struct engine *engine, struct recs_all *all, struct naive *want, int c,
        uint32_t index, uint64_t id) {
        uint32_t ct = cell_tokens(c), n_tokens = 1 + draw(ct);
        struct store_record r = record_of(id, c, index, n_tokens);
        struct conv_rec entry = {.index = index, .linked = draw(2)};

        entry.rec = rec_get(engine, &r, NULL);
        assert_non_null(entry.rec);
        n_tokens = entry.rec->r.n_tokens; /* it may have been there before */
        entry.n_valid = 1 + draw(n_tokens);
        assert_int_equal(recs_set(engine, all, (enum seq_class)c, &entry, NULL), 0);
        want->at[c][index] = (struct place){id, entry.n_valid, n_tokens, entry.linked};
}

static void cut(struct naive *want, uint32_t from) {
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                for (uint32_t i = 0, ct = cell_tokens(c); i < MAX_TOKENS; i++) {
                        struct place *p = &want->at[c][i];

                        if (i * ct >= from)
                                *p = (struct place){0};
                        else
                                p->n_valid = MIN(p->n_valid, from - i * ct);
                }
}

static void link_again(struct naive *want, uint32_t from) {
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                for (uint32_t i = 0; i < MAX_TOKENS; i++)
                        if (i * cell_tokens(c) + want->at[c][i].n_tokens > from)
                                want->at[c][i].linked = false;
}

static void check_list(const struct recs_all *all, const struct naive *want) {
        uint64_t size = 0;
        size_t n = 0;

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                for (uint32_t i = 0; i < MAX_TOKENS; i++) {
                        const struct place *p = &want->at[c][i];
                        const struct conv_rec *e = recs_at(all, (enum seq_class)c, i);

                        assert_int_equal(e ? e->rec->r.id : 0, p->id);
                        if (!e)
                                continue;
                        assert_int_equal(e->index, i);
                        assert_int_equal(e->n_valid, p->n_valid);
                        assert_int_equal(e->linked, p->linked);
                        size += e->rec->r.stored_size;
                        n++;
                }
        assert_int_equal(recs_count(all), n);
        assert_int_equal(recs_stored_size(all), size);
}

/* A record is known as often as it is referred to. */
static void check_references(struct engine *engine, const struct naive *want) {
        for (uint64_t id = 1; id <= SEQ_N_CLASSES * MAX_TOKENS * 2; id++) {
                const struct rec *rec = rec_find(engine, id);
                uint32_t n = 0;

                for (int k = 0; k < N_LISTS; k++)
                        for (int c = 0; c < SEQ_N_CLASSES; c++)
                                for (uint32_t i = 0; i < MAX_TOKENS; i++)
                                        n += want[k].at[c][i].id == id;
                assert_int_equal(rec ? rec->n_refs : 0, n);
        }
}

static void step(struct engine *engine, struct conv *convs, struct naive *want) {
        int k = (int)draw(N_LISTS), other = (int)draw(N_LISTS), c = (int)draw(SEQ_N_CLASSES);
        uint32_t n_cells = MAX_TOKENS / cell_tokens(c), i = draw(n_cells), to, from;
        struct recs_all *all = &convs[k].recs;

        switch (draw(12)) {
        case 0:
                from = draw(MAX_TOKENS + 1);
                recs_cut(engine, all, from);
                cut(&want[k], from);
                break;
        case 1:
                to = i + draw(4);
                recs_drop(engine, all, (enum seq_class)c, i, to);
                for (; i < MIN(to, n_cells); i++)
                        want[k].at[c][i] = (struct place){0};
                break;
        case 2:
                recs_drop_unlinked(engine, all);
                for (c = 0; c < SEQ_N_CLASSES; c++)
                        for (i = 0; i < MAX_TOKENS; i++)
                                if (!want[k].at[c][i].linked)
                                        want[k].at[c][i] = (struct place){0};
                break;
        case 3:
                from = draw(MAX_TOKENS + 1);
                conv_link_again(engine, &convs[k], from);
                link_again(&want[k], from);
                break;
        case 4:
                if (k == other)
                        break;
                from = draw(MAX_TOKENS + 1);
                recs_free(engine, all);
                assert_int_equal(recs_copy(engine, all, &convs[other].recs, from, NULL), 0);
                want[k] = want[other];
                cut(&want[k], from);
                break;
        default:
                set(engine, all, &want[k], c, i, 1 + ((uint64_t)c * MAX_TOKENS + i) * 2 + draw(2));
        }
}

static void open_engine(struct engine *engine, bool windows) {
        *engine = (struct engine){.info.shape = {.size = {4096, windows ? 4096 : 0, 4096},
                                          .block_tokens = BT,
                                          .window = windows ? 6 : 0},
                .info.block_tokens = BT};
        assert_int_equal(convs_new(&engine->convs, NULL), 0);
}

static void test_lists(void **state) {
        (void)state;
        for (int run = 0; run < N_RUNS; run++) {
                struct naive want[N_LISTS] = {0};
                struct conv convs[N_LISTS] = {0};
                struct engine engine;

                open_engine(&engine, true);
                for (int i = 0; i < N_STEPS; i++) {
                        step(&engine, convs, want);
                        for (int k = 0; k < N_LISTS; k++)
                                check_list(&convs[k].recs, &want[k]);
                }
                check_references(&engine, want);
                for (int k = 0; k < N_LISTS; k++) {
                        recs_free(&engine, &convs[k].recs);
                        want[k] = (struct naive){0};
                }
                check_references(&engine, want);
                convs_free(engine.convs);
        }
}

/* --- what is left --- */

/* What there is of a conversation, all of it on disk; of SEQ_ALL everything has a cell. */
struct memory_on_disk {
        bool cell[SEQ_N_CLASSES][MAX_TOKENS];
        uint32_t n_valid[SEQ_N_CLASSES][MAX_TOKENS]; /* of its record; 0: none */
};

/* Whether position @p has all it needs, in cells that can be read. */
static bool can_go_on(const struct seq_shape *shape, const struct memory_on_disk *m, uint32_t p) {
        for (uint32_t i = 0; i * BT < p; i++)
                if (m->n_valid[SEQ_ALL][i] < MIN((uint32_t)BT, p - i * BT))
                        return false;
        for (uint32_t i = seq_window_start(shape, p) / BT; shape->size[SEQ_WINDOW] && i * BT < p;
                i++)
                if (m->n_valid[SEQ_WINDOW][i] == 0)
                        return false;
        return p == 0 || m->n_valid[SEQ_STATE][p - 1] > 0;
}

/* Draw it, and give it to @c: holes, records, and marks wherever there may be one. */
static void draw_memory(
        struct engine *engine, struct conv *c, struct memory_on_disk *m, uint32_t n) {
        uint32_t often = 2 + draw(30), n_places = 0;
        struct seq_place places[2 * MAX_TOKENS];

        *m = (struct memory_on_disk){0};
        for (int k = 0; k < SEQ_N_CLASSES; k++)
                for (uint32_t i = 0, ct = cell_tokens(k); i * ct < n; i++) {
                        if (engine->info.shape.size[k] == 0 || (k != SEQ_ALL && draw(often) == 0) ||
                                (k == SEQ_STATE && draw(2)))
                                continue;
                        m->cell[k][i] = true;
                        if (k != SEQ_ALL)
                                places[n_places++] = (struct seq_place){(enum seq_class)k, i};
                        if (draw(often) == 0)
                                continue;
                        m->n_valid[k][i] = k == SEQ_ALL && draw(often) == 0 ? 1 + draw(ct) : ct;
                }
        assert_int_equal(seq_set_holes(c->seq, n, places, n_places, NULL), 0);
        for (uint32_t p = 1; p <= seq_n_tokens(c->seq); p++)
                assert_true(seq_mark(c->seq, p, NULL) >= 0);
        for (int k = 0; k < SEQ_N_CLASSES; k++)
                for (uint32_t i = 0; i < MAX_TOKENS; i++) {
                        uint64_t id = 1 + (uint64_t)k * MAX_TOKENS + i;
                        struct store_record r = record_of(id, k, i, cell_tokens(k));
                        struct conv_rec entry = {
                                rec_get(engine, &r, NULL), i, m->n_valid[k][i], true};

                        assert_non_null(entry.rec);
                        if (entry.n_valid == 0)
                                rec_put(engine, entry.rec);
                        else
                                assert_int_equal(
                                        recs_set(engine, &c->recs, (enum seq_class)k, &entry, NULL),
                                        0);
                }
}

static void test_trim(void **state) {
        struct ledger ledger = LEDGER_INIT(1 << 20);
        size_t n_shortened = 0, n_left = 0;

        (void)state;
        for (int run = 0; run < N_TRIMS; run++) {
                uint32_t n = 1 + draw(MAX_TOKENS), had, want;
                struct memory_on_disk m;
                struct engine engine;
                struct conv c = {0};

                open_engine(&engine, run % 3 > 0);
                assert_int_equal(seq_pool_new(&engine.pool, &ledger, &engine.info.shape, NULL), 0);
                assert_int_equal(seq_new(&c.seq, engine.pool, NULL), 0);
                draw_memory(&engine, &c, &m, n);
                had = want = seq_n_tokens(c.seq);
                while (!can_go_on(&engine.info.shape, &m, want))
                        want--;
                conv_trim(&engine, &c);
                assert_int_equal(seq_n_tokens(c.seq), want);
                n_shortened += want < had;
                n_left += want > 0;
                /* Every hole that is left can be read, and every place to come back to is kept. */
                for (int k = 0; k < SEQ_N_CLASSES; k++) {
                        struct seq_cell cell;
                        size_t it = 0;

                        while (seq_next_cell(c.seq, (enum seq_class)k, &it, &cell))
                                assert_true(conv_cell_on_disk(&c, (enum seq_class)k, &cell));
                }
                for (uint32_t p = 0; p <= want; p++)
                        assert_int_equal(
                                seq_whole(c.seq, p) == p, can_go_on(&engine.info.shape, &m, p));
                recs_free(&engine, &c.recs);
                seq_free(c.seq);
                seq_pool_free(engine.pool);
                convs_free(engine.convs);
        }
        assert_true(n_shortened > N_TRIMS / 5);
        assert_true(n_left > N_TRIMS / 5);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lists),
                cmocka_unit_test(test_trim),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
