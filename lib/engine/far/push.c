/* SPDX-License-Identifier: MIT */
/*
 * Bringing memory to the remote store, in the background, and removing what is closed. One push at a time, on a thread of its own.
 *
 *      written to disk (disk/write.c) ──→ convs.unsent ──→ push: which names are not there? ──→ their records, one after the other
 *      unloaded before, or written before there was a remote store: late.c ─┘                     │
 *                                              what was there and is not any more: removed ←── table of contents
 *
 * 1. What is brought is the records of the own disk, as they lie there, of committed tokens. So it follows write-behind and eviction,
 *    costs no memory but one record's, and a block that the disk refused is not brought.
 * 2. A conversation is pushed when nobody uses it and nothing of it is waiting to be written. Blocks that are there are only touched:
 *    others may have brought them.
 * 3. After each record the push rests, so that it sends during `write_share` percent of the time.
 * 4. No more than `writes_per_day` bytes go out on one day (quota_day()), as far as this machine's meters remember. Then nothing is
 *    pushed until that day is over.
 * 5. The table of contents is written last, and names what is there then. A cell that the old table had and the new one has not is
 *    removed, unless another conversation of the owner has the same memory (store_has_memory()).
 * 6. One that somebody waits for (far_hurry()) goes before others, and does not rest; nor does one that is under way then.
 * 7. A push that fails, or stops at the day's limit, is made again later; by late.c, if the conversation is not loaded any more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/budget/budget.h"
#include "engine/far/state.h"

#define REST_MAX_USEC 1000000
#define REGISTER_PAUSE_USEC 1000000
#define ROOM_PAUSE_USEC 1000000 /* until there may be memory for it */
#define HURRY_ALL UINT64_MAX    /* no conversation's number */

/* Rule 3. */
static void rest(struct far *f, uint64_t sent_usec) {
        uint64_t until = clock_monotonic_usec() +
                         MIN(sent_usec * (100 - f->share) / f->share, (uint64_t)REST_MAX_USEC);
        const struct timespec ts = {(time_t)(until / 1000000), (long)(until % 1000000 * 1000)};

        pthread_mutex_lock(&f->lock);
        while (!atomic_load(&f->stop) && f->hurry == 0 && clock_monotonic_usec() < until)
                if (pthread_cond_timedwait(&f->cond, &f->lock, &ts) == ETIMEDOUT)
                        break;
        pthread_mutex_unlock(&f->lock);
}

/* --- sending --- */

static int compare_records(const void *a, const void *b) {
        const struct store_record *x = a, *y = b;

        if (x->block_class != y->block_class)
                return x->block_class < y->block_class ? -1 : 1;
        return x->index < y->index ? -1 : x->index > y->index;
}

/* The cells of the records, with names. A record of other tokens than its cell's is passed over. */
static int list_cells(struct engine *engine, struct push *push, struct err *e) {
        struct far_names names;
        int r = far_names_make(engine, &push->scope, push->tokens, push->n_tokens, &names, e);

        if (r < 0)
                return r;
        qsort(push->records, push->n, sizeof(*push->records), compare_records);
        for (size_t i = 0; i < push->n; i++) {
                struct store_record *record = &push->records[i];
                struct far_cell cell = {.class = (enum seq_class)record->block_class,
                        .index = record->index,
                        .n_tokens = record->n_tokens};

                far_names_cell(engine, &names, &cell);
                if (cell.token_hash != record->token_hash)
                        continue;
                push->from[push->now.n] = record;
                push->now.cells[push->now.n++] = cell;
        }
        far_names_deinit(&names);
        return 0;
}

static int grow(struct push *push, size_t size, struct err *e) {
        uint8_t *p;

        if (size <= push->capacity)
                return 0;
        p = realloc(push->buffer, size);
        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for a record of %zu bytes", size);
        push->buffer = p;
        push->capacity = size;
        return 0;
}

/* 0: it is there; 1: it is not, which is no failure. */
static int send(struct engine *engine, struct push *push, size_t i, struct err *e) {
        const struct store_record *record = push->from[i];
        struct spill_ref ref = record_ref(record);
        struct spill_meta meta = record_meta(record);
        struct remote_value value = {.size = (size_t)ref.stored_size + FAR_SEAL_SIZE};
        uint64_t t;
        int r;

        if (!far_day_allows(engine->far, ref.stored_size)) {
                push->day_is_full = true;
                return 1;
        }
        r = grow(push, value.size, e);
        if (r < 0)
                return r;
        /* It was let go meanwhile, or is damaged: whoever restores it finds out, and tells. */
        if (spill_read_stored(
                    engine->spill, &engine->info.fingerprint, &ref, &meta, push->buffer, NULL) < 0)
                return 1;
        r = far_seal(&push->scope, &push->now.cells[i].name, push->buffer, ref.stored_size,
                push->buffer + ref.stored_size, e);
        if (r < 0)
                return r;
        value.data = push->buffer;
        far_key(&push->now.cells[i].name, &value.key);
        t = clock_monotonic_usec();
        r = remote_put(engine->remote, &value, 1, engine->far->keep_sec, far_deadline(engine), e);
        if (r < 0)
                return r;
        far_note_sent(engine->far, ref.stored_size);
        rest(engine->far, clock_monotonic_usec() - t);
        return 0;
}

static int touch(struct engine *engine, struct push *push, struct err *e) {
        _cleanup_(freep) struct remote_key *keys = calloc(push->now.n + 1, sizeof(*keys));

        if (!keys)
                return err_no_memory(e);
        for (size_t i = 0; i < push->now.n; i++)
                far_key(&push->now.cells[i].name, &keys[i]);
        return remote_touch(engine->remote, keys, push->now.n, engine->far->keep_sec, push->there,
                far_deadline(engine), e);
}

static int send_missing(struct engine *engine, struct push *push, struct err *e) {
        int r = touch(engine, push, e);

        for (size_t i = 0; r == 0 && i < push->now.n && !push->day_is_full; i++) {
                if (push->there[i])
                        continue;
                if (atomic_load(&engine->far->stop))
                        return err_set(e, ERR_CANCELLED, "the daemon is stopping");
                r = send(engine, push, i, e);
                push->there[i] = r == 0;
                r = MIN(r, 0);
        }
        return r;
}

/* --- what is no longer there --- */

/* Rule 5. What cannot be found out stays, and ends by itself. */
static bool is_loose(struct engine *engine, const struct push *push, const struct far_cell *cell) {
        const struct store_record is = {.block_class = cell->class,
                .index = cell->index,
                .n_tokens = cell->n_tokens,
                .token_hash = cell->token_hash};

        if (far_contents_has(&push->now, cell))
                return false;
        return push->scope.conv != 0 ||
               store_has_memory(engine->store, push->owner, &is, NULL) == 0;
}

static int remove_old(struct engine *engine, struct push *push, struct err *e) {
        _cleanup_(freep) struct remote_key *keys = calloc(push->old.n + 2, sizeof(*keys));
        size_t n = 0;

        if (!keys)
                return err_no_memory(e);
        for (size_t i = 0; i < push->old.n && !atomic_load(&engine->far->stop); i++)
                if (is_loose(engine, push, &push->old.cells[i]))
                        far_key(&push->old.cells[i].name, &keys[n++]);
        if (push->removes) {
                struct far_name name;

                far_contents_name(engine, &push->scope, push->conv, &name);
                far_contents_key(&name, &keys[n++]);
        }
        return n > 0 ? remote_remove(engine->remote, keys, n, far_deadline(engine), e) : 0;
}

/* --- the job --- */

/* Leave in the table what is there. */
static void keep_there(struct push *push) {
        size_t n = 0;

        for (size_t i = 0; i < push->now.n; i++)
                if (push->there[i])
                        push->now.cells[n++] = push->now.cells[i];
        push->now.n = n;
}

static int prepare(struct engine *engine, struct push *push, struct err *e) {
        int r = far_scope(engine, push->owner, push->conv, push->is_private, &push->scope, e);

        if (r < 0) {
                push->register_failed = true;
                return r;
        }
        push->now.cells = calloc(push->n + 1, sizeof(*push->now.cells));
        push->there = calloc(push->n + 1, sizeof(*push->there));
        push->from = calloc(push->n + 1, sizeof(struct store_record *));
        return push->now.cells && push->there && push->from ? 0 : err_no_memory(e);
}

/* Send, and tell what is there then. */
static int bring(struct engine *engine, struct push *push, struct err *e) {
        int r = send_missing(engine, push, e), k;
        struct err ignored;

        keep_there(push);
        /* After a failure, too: what was brought is found, if it was more than before. */
        if (r < 0 && (r != -ERR_LIMIT || push->now.n <= push->old.n))
                return r;
        k = push->is_late ? late_merge(engine, push, r == 0 ? e : &ignored) : 0;
        if (k == 0)
                k = far_contents_write(engine, &push->scope, push->conv, &push->now,
                        far_deadline(engine), r == 0 ? e : &ignored);
        return r == 0 ? k : r;
}

static int run(struct engine *engine, struct push *push, struct err *e) {
        int r = prepare(engine, push, e);

        if (r == 0 && !push->removes)
                r = list_cells(engine, push, e);
        if (r == 0)
                r = far_contents_read(
                        engine, &push->scope, push->conv, far_deadline(engine), &push->old, e);
        if (r == 0 && !push->removes)
                r = bring(engine, push, e);
        return r == 0 && !push->is_late ? remove_old(engine, push, e) : r;
}

static int run_late(struct engine *engine, struct push *push, struct err *e) {
        uint64_t t = clock_monotonic_usec();
        int r = late_read(engine, push, e);
        uint64_t read_usec = clock_monotonic_usec() - t;

        if (r == 0)
                r = run(engine, push, e);
        /* For what it has sent it has rested. */
        if (r == 0 || r == 1)
                rest(engine->far, read_usec);
        return MIN(r, 0);
}

static void push_run(struct engine *engine, struct job *j) {
        struct push *push = container_of(j, struct push, job);

        j->r = atomic_load(&engine->far->stop)
                       ? err_set(&j->err, ERR_CANCELLED, "the daemon is stopping")
               : push->is_late ? run_late(engine, push, &j->err)
                               : run(engine, push, &j->err);
        if (!push->removes)
                far_meters_write(engine);
}

/* Rule 7. Not of a late one: late_done(). */
static void push_again(struct engine *engine, const struct push *push) {
        struct conv *c = convs_find(engine, push->conv);

        if (push->removes)
                far_forget(engine, push->owner, push->conv, push->is_private);
        else if (c)
                conv_set_unsent(engine, c);
        else
                convs_note_left(engine, push->conv);
}

/* Rule 6. */
static void set_hurry(struct far *f, uint64_t conv) {
        pthread_mutex_lock(&f->lock);
        f->hurry = conv;
        pthread_cond_broadcast(&f->cond);
        pthread_mutex_unlock(&f->lock);
}

static void push_done(struct engine *engine, struct job *j) {
        struct push *push = container_of(j, struct push, job);
        struct far *f = engine->far;
        uint64_t now = clock_monotonic_usec(), today = clock_realtime_usec();
        bool again = j->r == -ERR_UNAVAILABLE || j->r == -ERR_LIMIT || push->day_is_full;

        if (!push->register_failed)
                far_note(engine, j->r, &j->err);
        else if (again)
                f->t_push = MAX(f->t_push, now + REGISTER_PAUSE_USEC);
        if (push->day_is_full)
                f->t_push = now + quota_day_ends(today) - today;
        if (push->is_late)
                late_done(engine, push, again);
        else if (again)
                push_again(engine, push);
        set_hurry(f, 0);
        f->push = push_free(push);
        engine->again = true;
}

/* --- engine thread --- */

static void start(struct engine *engine, struct push *push) {
        push->job.kind = JOB_PUSH;
        push->job.run = push_run;
        push->job.done = push_done;
        engine->far->push = push;
        io_submit(engine, &push->job);
}

/* Records that are all of the conversation's committed tokens, up to the first of SEQ_ALL that is missing. */
static size_t list_records(
        const struct engine *engine, const struct conv *c, struct store_record *out) {
        size_t n = 0;

        for (int class = 0; class < SEQ_N_CLASSES; class ++)
                for (size_t i = 0; i < c->recs.of[class].n; i++) {
                        const struct conv_rec *own = &c->recs.of[class].list[i];
                        const struct store_record *r = &own->rec->r;

                        if (own->rec->damaged || own->n_valid < r->n_tokens ||
                                record_end(engine, r) > c->n_tokens)
                                continue;
                        out[n++] = *r;
                }
        return n;
}

/* NULL: no room now. */
static struct push *push_of(struct engine *engine, struct conv *c) {
        struct push *push = push_new(engine, push_size(engine, c->n_tokens, recs_count(&c->recs)));

        if (!push)
                return NULL;
        push->owner = c->owner;
        push->conv = c->id;
        push->is_private = c->private_memory;
        push->n_tokens = c->n_tokens;
        push->tokens = malloc(c->n_tokens * sizeof(*push->tokens) + 1);
        push->records = calloc(recs_count(&c->recs) + 1, sizeof(*push->records));
        if (!push->tokens || !push->records)
                return push_free(push);
        memcpy(push->tokens, c->tokens, c->n_tokens * sizeof(*push->tokens));
        push->n = list_records(engine, c, push->records);
        return push;
}

static struct push *push_gone(struct engine *engine) {
        struct far *f = engine->far;
        const struct gone *gone = &f->gone[0];
        struct push *push = push_new(engine, sizeof(*push) + 2 * far_contents_size(engine));

        if (!push)
                return NULL;
        push->owner = gone->owner;
        push->conv = gone->conv;
        push->is_private = gone->is_private;
        push->removes = true;
        memmove(f->gone, f->gone + 1, --f->n_gone * sizeof(*gone));
        return push;
}

/* Rule 2. */
static bool may_be_pushed(const struct engine *engine, const struct conv *c) {
        bool is_written = list_empty(&c->dirty) || engine->o.spill_delay_ms == UINT32_MAX;

        return c->n_users == 0 && c->n_links == 0 && !c->writer && is_written && !c->edit &&
               !c->foreign_vocab && !c->stale;
}

/* NULL with *ret_room: there is nothing to push now. */
static struct push *next(struct engine *engine, bool *ret_room) {
        struct far *f = engine->far;
        struct push *push = NULL;
        struct conv *c = NULL;

        *ret_room = true;
        while ((c = convs_next_unsent(engine, c)))
                if (may_be_pushed(engine, c))
                        break;
        if (f->n_gone > 0 && f->hurry == 0)
                push = push_gone(engine);
        else if (c && push_size(engine, c->n_tokens, recs_count(&c->recs)) >
                              ledger_most(&engine->budget->requests))
                list_unlink(&c->unsent); /* there will never be room */
        else if (c)
                push = push_of(engine, c);
        else if (late_n_pending(engine) > 0)
                push = late_next(engine);
        else
                return NULL;
        *ret_room = push != NULL;
        if (push && c && !push->removes)
                list_unlink(&c->unsent);
        return push;
}

uint64_t far_step(struct engine *engine) {
        struct far *f = engine->far;
        uint64_t now = clock_monotonic_usec(), due = MAX(atomic_load(&f->t_up), f->t_push);
        struct push *push;
        bool room;

        if (!engine->remote || f->push || engine->stopping || far_n_pending(engine) == 0)
                return UINT64_MAX;
        if (now < due)
                return due;
        push = next(engine, &room);
        if (push)
                start(engine, push);
        if (push || room)
                return UINT64_MAX;
        f->t_push = now + ROOM_PAUSE_USEC;
        return f->t_push;
}

void far_forget(struct engine *engine, uint64_t owner, uint64_t conv, bool is_private) {
        struct far *f = engine->far;

        if (engine->remote && f->n_gone < FAR_FORGET_MAX)
                f->gone[f->n_gone++] = (struct gone){owner, conv, is_private};
}

size_t far_n_pending(struct engine *engine) {
        size_t n = engine->far->n_gone + (engine->far->push != NULL) + late_n_pending(engine);
        struct conv *c = NULL;

        while ((c = convs_next_unsent(engine, c)))
                n++;
        return n;
}

bool far_may_send(const struct engine *engine) {
        return far_is_up(engine) && clock_monotonic_usec() >= engine->far->t_push;
}

bool far_hurry(struct engine *engine, struct conv *c) {
        struct far *f = engine->far;
        bool is_waiting = !list_empty(&c->unsent);

        if (!far_may_send(engine) || (!is_waiting && !(f->push && f->push->conv == c->id)))
                return false;
        if (is_waiting)
                conv_set_unsent_first(engine, c);
        set_hurry(f, c->id);
        return true;
}

bool far_hand_over(struct engine *engine) {
        if (!far_may_send(engine) || far_n_pending(engine) == 0) {
                set_hurry(engine->far, 0);
                return true;
        }
        set_hurry(engine->far, HURRY_ALL);
        return false;
}
