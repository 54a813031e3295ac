/* SPDX-License-Identifier: MIT */
/*
 * Fetching: memory of a prompt that the remote store has, beyond what is in RAM and on disk (far/far.h). It comes last in a recall, when
 * all that is here is in RAM.
 *
 *      fetch_begin() ──→ asking (far_find()) ──→ is it worth it? blocks are allocated ──→ reading, by IO_FETCH_LANES jobs ──→ attach()
 *                             │ nothing                │ no                                  │ gone, damaged, late: the part in front of it
 *                             └────────────────────────┴─────────────────────────────────────┴──→ the rest is computed
 *
 * 1. Reading pays if it is expected to take less time than computing the same tokens: running sums tell how fast blocks have come
 *    lately, and how fast tokens are computed (plan.c). What is not known yet is tried. Each time that reading is left out, the sums
 *    forget a little, so that a store that was slow once is tried again.
 * 2. While blocks come, each job compares: when what is left would take longer to come than to be computed, it stops. So a store that
 *    turns out slow costs no more than about the time of computing again.
 * 3. Blocks are fresh, and verified before they get into the sequence (I5). If the model's memory is SEQ_ALL alone, the blocks before the
 *    first that failed are used; else all or none, since windows and states belong to one position.
 * 4. The sequence is made anew: the cells that it has, and those that have come. Marks stay (lib/seq).
 * 5. Fetched blocks have no record here: write-behind writes them to the own disk like computed ones.
 * 6. A recall that lets go of its fetch need not wait for it: it is freed by the last job.
 * 7. Jobs wait for each other. After one has failed, those behind it end without asking, so requests do not wait for a server that
 *    says nothing one after the other.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/far/far.h"
#include "engine/memory/state.h"

#define RATES_FADE 0.9
#define FORGET 0.9            /* rule 1 */
#define LATE_USEC 20000       /* before that no job judges (rule 2) */
#define SLACK 2               /* a job waits so many times as long as computing takes, at most */
#define UNKNOWN_USEC 10000000 /* the same while it is not known how long that is */

struct fetch_item {
        struct far_cell cell;
        struct seq_block *block; /* new */
        int r;                   /* 0: it is there and whole */
};

struct fetch_run {
        struct job job;
        struct engine *engine;
        struct fetch *fetch;
        size_t first; /* items first, first + n_runs, ... */
        size_t n;
        uint64_t t_start;
        struct remote_key *keys; /* [n] */
        uint64_t size;           /* bytes of values that came */
        size_t n_damaged;
};

struct fetch {
        struct recall *recall; /* NULL: the recall let go */
        struct job ask;
        size_t n_jobs;       /* whose done() was not called yet */
        atomic_bool stop;    /* nobody wants it any more */
        atomic_size_t limit; /* items from here on are of no use: one in front of them has failed */
        size_t charged;
        uint64_t t_start, t_read; /* of asking and of reading */
        double token_usec;        /* computing one; 0: not known */

        struct far_wish wish;
        int32_t *tokens; /* of the wish */
        bool *has_window;
        struct far_found found;

        bool planned, over;
        struct fetch_item *items; /* [found.n] */
        size_t n, n_allocated, n_runs;
        struct fetch_run runs[IO_FETCH_LANES];
};

static void fetch_free(struct engine *engine, struct fetch *f) {
        conv_discharge(engine, f->charged);
        for (size_t i = 0; i < f->n_allocated; i++)
                seq_block_unref(f->items[i].block);
        for (size_t i = 0; i < ARRAY_SIZE(f->runs); i++)
                free(f->runs[i].keys);
        far_found_deinit(&f->found);
        free(f->tokens);
        free(f->has_window);
        free(f->items);
        free(f);
}

void fetch_let_go(struct engine *engine, struct recall *recall) {
        struct fetch *f = TAKE_PTR(recall->fetch);

        if (!f)
                return;
        f->recall = NULL;
        /* One that was cut short may be begun again. */
        recall->fetched = f->over;
        atomic_store(&f->stop, true);
        if (f->n_jobs == 0)
                fetch_free(engine, f);
}

/* --- whether it pays --- */

static uint32_t limit_of(const struct recall *recall) {
        uint32_t n = recall->conv->n_all;

        return n - (recall->wants_logits && n > 0);
}

/* Rule 1, of asking: it takes a moment, too. */
static bool worth_asking(const struct engine *engine, uint32_t n_tokens) {
        const struct rates *r = &engine->memory->rates;

        return engine->o.remote.always || r->n_asked == 0 || rates_token_usec(engine) == 0 ||
               r->ask_usec / r->n_asked < n_tokens * rates_token_usec(engine);
}

bool fetch_is_wanted(struct engine *engine, const struct recall *recall) {
        const struct conv *c = recall->conv;
        uint32_t bt = engine->info.block_tokens, have = seq_n_tokens(c->seq);

        if (recall->fetched || !far_is_up(engine) || c->foreign_vocab ||
                seq_n_missing(c->seq) > 0 || have >= limit_of(recall))
                return false;
        /* As with the disk of others (share.c): a turn usually goes on with new text. */
        if (limit_of(recall) / bt <= have / bt + (have > 0))
                return false;
        if (worth_asking(engine, limit_of(recall) - have))
                return true;
        engine->memory->rates.ask_usec *= FORGET;
        engine->count.fetches_skipped++;
        return false;
}

static size_t raw_size(const struct engine *engine, const struct fetch *f) {
        size_t n = 0;

        for (size_t i = 0; i < f->found.n; i++)
                n += engine->info.shape.size[f->found.cells[i].class];
        return n;
}

static bool worth_reading(struct engine *engine, const struct fetch *f) {
        struct rates *r = &engine->memory->rates;
        double usec = rates_token_usec(engine), tokens = f->found.end - f->wish.have;

        if (engine->o.remote.always || r->fetched_bytes == 0 || usec == 0)
                return true;
        if ((double)raw_size(engine, f) * r->fetch_usec / r->fetched_bytes < tokens * usec)
                return true;
        r->fetch_usec *= FORGET;
        engine->count.fetches_skipped++;
        return false;
}

/* --- asking --- */

static uint64_t patience(const struct fetch *f, uint32_t n_tokens) {
        double usec = f->token_usec > 0 ? SLACK * f->token_usec * n_tokens : UNKNOWN_USEC;

        return clock_monotonic_usec() + (uint64_t)MAX(usec, (double)LATE_USEC);
}

/* Rule 7. */
static bool is_in_vain(const struct engine *engine, const struct fetch *f) {
        return atomic_load(&f->stop) || far_rests(engine);
}

static void ask_run(struct engine *engine, struct job *j) {
        struct fetch *f = container_of(j, struct fetch, ask);

        if (is_in_vain(engine, f)) {
                j->r = -ERR_CANCELLED;
                return;
        }
        j->r = far_find(
                engine, &f->wish, patience(f, f->wish.n_tokens - f->wish.have), &f->found, &j->err);
}

static void note_asked(struct engine *engine, const struct fetch *f) {
        struct rates *r = &engine->memory->rates;

        r->ask_usec = r->ask_usec * RATES_FADE + (double)(clock_monotonic_usec() - f->t_start);
        r->n_asked = r->n_asked * RATES_FADE + 1;
}

static void ask_done(struct engine *engine, struct job *j) {
        struct fetch *f = container_of(j, struct fetch, ask);

        f->n_jobs--;
        far_note(engine, j->r, &j->err);
        if (!f->recall) {
                fetch_free(engine, f);
                return;
        }
        f->recall->reading = false;
        f->over = j->r < 0 || f->found.n == 0;
        if (j->r == 0)
                note_asked(engine, f);
        engine->again = true;
}

static size_t fetch_size(const struct engine *engine, size_t n_tokens) {
        size_t n = n_tokens / engine->info.block_tokens + 1;

        return sizeof(struct fetch) + n_tokens * sizeof(int32_t) + n * sizeof(bool) +
               far_find_size(engine, (uint32_t)n_tokens) +
               2 * n * (sizeof(struct fetch_item) + sizeof(struct remote_key)) +
               /* what the connections hold of a reply (lib/remote) */
               IO_FETCH_LANES * 2 * far_value_max(engine) +
               /* the sequence that is made anew */
               2 * n * SEQ_N_CLASSES * 4 * sizeof(void *);
}

static void list_windows(const struct engine *engine, const struct conv *c, struct fetch *f) {
        struct seq_cell cell;
        size_t it = 0;

        while (seq_next_cell(c->seq, SEQ_WINDOW, &it, &cell))
                if (cell.block && cell.n_tokens == engine->info.block_tokens &&
                        cell.end <= f->wish.n_tokens)
                        f->has_window[cell.index] = true;
}

void fetch_begin(struct engine *engine, struct recall *recall) {
        struct conv *c = recall->conv;
        uint32_t n = limit_of(recall);
        size_t size = fetch_size(engine, n);
        struct fetch *f;

        recall->fetched = true;
        if (conv_charge(engine, size) != 0)
                return;
        f = calloc(1, sizeof(*f));
        if (!f) {
                conv_discharge(engine, size);
                return;
        }
        f->charged = size;
        f->tokens = malloc(n * sizeof(*f->tokens) + 1);
        f->has_window = calloc(n / engine->info.block_tokens + 1, sizeof(*f->has_window));
        if (!f->tokens || !f->has_window) {
                fetch_free(engine, f);
                return;
        }
        memcpy(f->tokens, c->tokens, n * sizeof(*f->tokens));
        f->wish = (struct far_wish){.owner = c->owner,
                .conv = c->id,
                .is_private = c->private_memory,
                .tokens = f->tokens,
                .n_tokens = n,
                .have = seq_n_tokens(c->seq),
                .has_window = f->has_window};
        list_windows(engine, c, f);
        f->token_usec = engine->o.remote.always ? 0 : rates_token_usec(engine);
        f->t_start = clock_monotonic_usec();
        f->recall = recall;
        f->ask.kind = JOB_FETCH;
        f->ask.run = ask_run;
        f->ask.done = ask_done;
        f->n_jobs = 1;
        recall->fetch = f;
        recall->reading = true;
        io_submit(engine, &f->ask);
}

/* --- reading --- */

/* Of items the first @i are not to be waited for, or not to be had. */
static void fail_from(struct engine *engine, struct fetch *f, size_t i) {
        const size_t *size = engine->info.shape.size;
        size_t was = atomic_load(&f->limit);

        if (size[SEQ_WINDOW] || size[SEQ_STATE])
                i = 0; /* rule 3 */
        while (i < was && !atomic_compare_exchange_weak(&f->limit, &was, i))
                ;
}

/* Rule 2: of its items the job has @n. */
static bool is_late(const struct engine *engine, const struct fetch_run *run, size_t n) {
        const struct fetch *f = run->fetch;
        uint64_t spent = clock_monotonic_usec() - run->t_start;
        const struct far_cell *cell = &f->items[run->first + n * f->n_runs].cell;
        uint32_t from = f->wish.have;

        if (f->token_usec == 0 || spent < LATE_USEC || n == 0)
                return false;
        if (cell->class == SEQ_ALL)
                from = MAX(from, cell->index * engine->info.block_tokens);
        return (double)spent / (double)n * (double)(run->n - n) >
               f->token_usec * (f->found.end - from);
}

static int unpack(struct fetch_run *run, const struct fetch_item *it, const void *data, size_t size,
        struct err *e) {
        struct engine *engine = run->engine;
        const struct spill_meta meta = {
                it->cell.class, it->cell.index, it->cell.n_tokens, it->cell.token_hash};

        if (!far_is_sealed(&run->fetch->found.scope, &it->cell.name, data, size))
                return err_set(e, ERR_CORRUPT, "a value in the remote store has not our seal");
        return spill_unpack(engine->spill, &meta, data, size - FAR_SEAL_SIZE,
                seq_block_data(it->block), engine->info.shape.size[it->cell.class], e);
}

static int value(void *arg, size_t n, const void *data, size_t size, struct err *e) {
        struct fetch_run *run = arg;
        struct engine *engine = run->engine;
        struct fetch *f = run->fetch;
        size_t i = run->first + n * f->n_runs;
        struct fetch_item *it = &f->items[i];

        if (atomic_load(&f->stop) || i >= atomic_load(&f->limit))
                return 1;
        it->r = -ERR_NOT_FOUND;
        if (data && !is_late(engine, run, n)) {
                run->size += size;
                it->r = unpack(run, it, data, size, e);
                run->n_damaged += it->r == -ERR_CORRUPT;
        }
        if (it->r == 0)
                return 0;
        fail_from(engine, f, i);
        return 1;
}

static void read_run(struct engine *engine, struct job *j) {
        struct fetch_run *run = container_of(j, struct fetch_run, job);
        struct fetch *f = run->fetch;
        const struct remote_reader reader = {value, run};

        if (is_in_vain(engine, f)) {
                j->r = -ERR_CANCELLED;
                return;
        }
        run->t_start = clock_monotonic_usec();
        j->r = remote_get(engine->remote, run->keys, run->n, &reader,
                patience(f, f->found.end - f->wish.have), &j->err);
}

static void read_done(struct engine *engine, struct job *j);

/* Interleaved, so that blocks come about in order whatever the jobs do. -ERR_NOMEM. */
static int make_runs(struct engine *engine, struct fetch *f) {
        f->n_runs = MIN(f->n, (size_t)IO_FETCH_LANES);
        for (size_t k = 0; k < f->n_runs; k++) {
                struct fetch_run *run = &f->runs[k];

                *run = (struct fetch_run){.engine = engine, .fetch = f, .first = k};
                run->n = (f->n - k + f->n_runs - 1) / f->n_runs;
                run->keys = calloc(run->n, sizeof(*run->keys));
                if (!run->keys)
                        return -ERR_NOMEM;
                for (size_t i = 0; i < run->n; i++)
                        far_key(&f->items[k + i * f->n_runs].cell.name, &run->keys[i]);
                run->job.kind = JOB_FETCH;
                run->job.run = read_run;
                run->job.done = read_done;
        }
        return 0;
}

/* What was found becomes items, if reading it pays. */
static void plan(struct engine *engine, struct fetch *f) {
        f->planned = true;
        f->over = true;
        if (!worth_reading(engine, f))
                return;
        f->items = calloc(f->found.n, sizeof(*f->items));
        if (!f->items)
                return;
        f->n = f->found.n;
        for (size_t i = 0; i < f->n; i++)
                f->items[i] = (struct fetch_item){.cell = f->found.cells[i], .r = -ERR_CANCELLED};
        atomic_store(&f->limit, f->n);
        f->over = make_runs(engine, f) < 0;
}

/* 0; 1: later; 2: there is no room. */
static int allocate(struct engine *engine, struct fetch *f) {
        while (f->n_allocated < f->n) {
                struct fetch_item *it = &f->items[f->n_allocated];
                int r = seq_block_new(&it->block, engine->pool, it->cell.class, NULL);
                enum room room;

                if (r == 0) {
                        f->n_allocated++;
                        continue;
                }
                room = r < 0 ? ROOM_NEVER : memory_make_room(engine);
                if (room == ROOM_LATER)
                        return 1;
                if (room == ROOM_NEVER)
                        return 2;
        }
        return 0;
}

static void start(struct engine *engine, struct fetch *f) {
        f->t_read = clock_monotonic_usec();
        f->recall->reading = true;
        f->n_jobs = f->n_runs;
        for (size_t k = 0, n = f->n_runs; k < n; k++)
                io_submit(engine, &f->runs[k].job);
}

int fetch_step(struct engine *engine, struct recall *recall) {
        struct fetch *f = recall->fetch;
        int r;

        if (recall->reading)
                return 1;
        if (!f->over && !f->planned)
                plan(engine, f);
        if (!f->over) {
                r = allocate(engine, f);
                if (r == 1)
                        return 1;
                f->over = r == 2;
        }
        if (f->over) {
                fetch_let_go(engine, recall);
                return 0;
        }
        start(engine, f);
        return 1;
}

/* --- the end --- */

/* How far the sequence gets by what has come (rule 3). */
static uint32_t reached(const struct engine *engine, const struct fetch *f) {
        const size_t *size = engine->info.shape.size;
        uint32_t bt = engine->info.block_tokens, end = f->found.end;

        for (size_t i = 0; i < f->n; i++) {
                if (f->items[i].r == 0)
                        continue;
                if (size[SEQ_WINDOW] || size[SEQ_STATE])
                        return f->wish.have;
                end = MIN(end, f->items[i].cell.index * bt);
        }
        return MAX(end, f->wish.have);
}

static const struct fetch_item *fetched(
        const struct fetch *f, enum seq_class class, uint32_t index) {
        for (size_t i = 0; i < f->n; i++)
                if (f->items[i].cell.class == class && f->items[i].cell.index == index)
                        return &f->items[i];
        return NULL;
}

static int compare_places(const void *a, const void *b) {
        const struct seq_place *x = a, *y = b;

        if (x->class != y->class)
                return x->class < y->class ? -1 : 1;
        return x->index < y->index ? -1 : x->index > y->index;
}

/* The cells of windows and states that the new sequence has. */
static size_t list_places(const struct seq *old, const struct fetch *f, struct seq_place *out) {
        size_t n = 0;

        for (int class = SEQ_WINDOW; class < SEQ_N_CLASSES; class ++) {
                struct seq_cell cell;
                size_t it = 0;

                while (seq_next_cell(old, (enum seq_class) class, &it, &cell))
                        if (!fetched(f, (enum seq_class) class, cell.index))
                                out[n++] = (struct seq_place){(enum seq_class) class, cell.index};
        }
        for (size_t i = 0; i < f->n; i++)
                if (f->items[i].cell.class != SEQ_ALL)
                        out[n++] =
                                (struct seq_place){f->items[i].cell.class, f->items[i].cell.index};
        qsort(out, n, sizeof(*out), compare_places);
        return n;
}

static void fill(const struct engine *engine, const struct fetch *f, const struct seq *old,
        struct seq *s, uint32_t end) {
        struct seq_cell cell, was;
        size_t it;

        for (size_t i = 0; i < f->n; i++) {
                const struct fetch_item *item = &f->items[i];

                if (item->r == 0 && far_cell_end(engine, &item->cell) <= end &&
                        seq_cell_at(s, item->cell.class, item->cell.index, &cell) && !cell.block)
                        seq_attach(s, item->cell.class, item->cell.index, item->block);
        }
        for (int class = 0; class < SEQ_N_CLASSES; class ++)
                for (it = 0; seq_next_cell(s, (enum seq_class) class, &it, &cell);)
                        if (!cell.block &&
                                seq_cell_at(old, (enum seq_class) class, cell.index, &was) &&
                                was.block && was.n_tokens >= cell.n_tokens)
                                seq_attach(s, (enum seq_class) class, cell.index, was.block);
}

/* Rule 4. */
static int attach(struct engine *engine, struct fetch *f, uint32_t end) {
        struct conv *c = f->recall->conv;
        _cleanup_(seq_freep) struct seq *s = NULL;
        _cleanup_(freep) struct seq_place *places =
                calloc(seq_n_cells(c->seq) + f->n + 1, sizeof(*places));
        size_t n, it = 0;
        uint32_t pos;
        int r;

        if (!places)
                return -ERR_NOMEM;
        if (seq_n_tokens(c->seq) != f->wish.have || seq_n_missing(c->seq) > 0)
                return -ERR_STATE;
        seq_unreserve(c->seq);
        n = list_places(c->seq, f, places);
        r = seq_new(&s, engine->pool, NULL);
        if (r == 0)
                r = seq_set_holes(s, end, places, n, NULL);
        if (r < 0)
                return r;
        while (seq_next_mark(c->seq, &it, &pos))
                if (seq_mark(s, pos, NULL) < 0)
                        return -ERR_NOMEM;
        fill(engine, f, c->seq, s, end);
        if (seq_n_tokens(s) != end || seq_n_missing(s) > 0)
                return -ERR_STATE;
        seq_free(c->seq);
        c->seq = TAKE_PTR(s);
        return 0;
}

static void note_fetched(struct engine *engine, const struct fetch *f) {
        struct rates *r = &engine->memory->rates;
        size_t size = 0;

        for (size_t i = 0; i < f->n; i++)
                size += f->items[i].r == 0 ? engine->info.shape.size[f->items[i].cell.class] : 0;
        if (size == 0)
                return;
        r->fetched_bytes = r->fetched_bytes * RATES_FADE + (double)size;
        r->fetch_usec = r->fetch_usec * RATES_FADE + (double)(clock_monotonic_usec() - f->t_read);
}

static void finish(struct engine *engine, struct fetch *f) {
        struct recall *recall = f->recall;
        struct conv *c = recall->conv;
        uint32_t end = reached(engine, f);

        note_fetched(engine, f);
        if (end <= f->wish.have || attach(engine, f, end) < 0)
                return;
        for (size_t i = 0; i < f->n; i++)
                if (far_cell_end(engine, &f->items[i].cell) <= end)
                        recall_note_source(engine, recall, f->items[i].cell.class,
                                far_cell_end(engine, &f->items[i].cell), SOURCE_DISK);
        c->n_entered = MIN(c->n_entered, (size_t)f->wish.have / engine->info.block_tokens);
        c->n_known = MAX(c->n_known, end);
        share_enter(engine, c, 0);
        if (!recall->told) {
                recall->told = true;
                notice_conv(engine, ENGINE_NOTICE_RESTORED, c->owner, c->id, c->revision);
        }
}

static void note_runs(struct engine *engine, const struct fetch *f) {
        size_t n = 0, n_damaged = 0;
        uint64_t size = 0;

        for (size_t i = 0; i < f->n; i++)
                n += f->items[i].r == 0;
        for (size_t i = 0; i < f->n_runs; i++) {
                size += f->runs[i].size;
                n_damaged += f->runs[i].n_damaged;
        }
        far_note_read(engine, n, size, n_damaged);
}

static void read_done(struct engine *engine, struct job *j) {
        struct fetch *f = container_of(j, struct fetch_run, job)->fetch;
        struct recall *recall;

        far_note(engine, MIN(j->r, 0), &j->err);
        if (--f->n_jobs > 0)
                return;
        engine->again = true;
        recall = f->recall;
        note_runs(engine, f);
        if (!recall) {
                fetch_free(engine, f);
                return;
        }
        f->over = true;
        finish(engine, f);
        recall->reading = false;
}
