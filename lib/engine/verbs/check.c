/* SPDX-License-Identifier: MIT */
/*
 * Check: the register's invariants, and every record on disk against its checksums, while everybody goes on.
 *
 *      OPEN ─→ REGISTER, slice by slice ─→ TOTAL ─→ RECORDS, some at a time ─→ Checked
 *                          │        ↑                       │       ↑
 *                          └ rests ─┘                       └ rests ┘      as the rate asks for it
 *
 * 1. Jobs of a check run on a thread of their own (io/workers.c), so no restore or commit waits for one to end. What they share
 *    with others is the disk: a restore that comes meanwhile waits for the read of one record at most. The register is read
 *    through a connection of its own (store/check-slices.c).
 * 2. After each slice the check rests until the bytes that it has read so far are within its rate. A slice is done at full
 *    speed: a record, a conversation, a table of the register.
 * 3. Records may go while they are read: their conversation is closed or rewound, or room is made. The register forgets them before
 *    their bytes go (store.c), and ids are never used again. So a record that cannot be read is damaged only if the register
 *    still has it afterwards; one that has gone is counted, and is no problem.
 * 4. A damaged record is forgotten as a restore that meets it does: each conversation that linked it computes anew what it
 *    lacks (I1). A failure that may pass (no descriptor is left, say) is told, and nothing is forgotten. Damage of the register
 *    is told alone: nothing is repaired.
 * 5. The first ENGINE_MAX_PROBLEMS problems are listed in the answer and told in the journal, the rest are counted: a disk that loses
 *    everything fills neither.
 * 6. One check at a time (ERR_BUSY). It ends early when it is cancelled or its connection ends. What was forgotten by then
 *    stays forgotten.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/disk/disk.h"
#include "engine/verbs/create.h"

#define SLICE ((uint64_t)1 << 20) /* bytes that one job reads, and the rest of the last record */
#define STEPS 64                  /* conversations that one job looks at */
#define PAGE 64                   /* records of which the register is asked at a time */
#define PROGRESS_USEC 250000
#define MINUTE 60e6 /* microseconds */

struct checking {
        struct engine *engine;
        bool counted; /* it is the one that is under way */
        enum { OPEN, REGISTER, TOTAL, RECORDS, OVER } stage;
        bool runs; /* a job is under way; else it rests until `due` */
        uint64_t due;
        double paid;         /* clock_monotonic_usec(): until then its bytes are paid for */
        uint64_t slice_size; /* bytes that the last job has read */
        uint64_t t_last_progress;

        struct store_checker *checker;
        size_t admitted; /* bytes charged for the tokens of a conversation, or for a record */
        uint64_t register_size, register_read;
        uint64_t done, total; /* bytes */
        struct store_held page[PAGE];
        size_t n, at;
        bool more;
        struct store_reclaimed cuts[PAGE]; /* [n_cuts]: of the last job */
        size_t n_cuts;
        struct engine_checked result;
};

static struct checking *checking_of(struct request *request) {
        return request_own(request);
}

static void deinit(struct engine *engine, struct request *request) {
        struct checking *x = checking_of(request);

        store_checker_free(x->checker);
        free(x->result.problems);
        for (size_t i = 0; i < x->n_cuts; i++)
                store_reclaimed_deinit(&x->cuts[i]);
        if (x->counted)
                engine->verbs->check = NULL;
}

/* --- what is found --- */

/* One line, in UTF-8, whatever the register says. */
static void clean(char *text) {
        size_t n = strlen(text);
        bool utf8;

        n -= utf8_incomplete_tail(text, n);
        text[n] = 0;
        utf8 = utf8_valid(text, n);
        for (unsigned char *p = (unsigned char *)text; *p; p++)
                if (*p < 0x20 || *p == 0x7f || (*p >= 0x80 && !utf8))
                        *p = '?';
}

static void tell(struct engine *engine, const struct engine_problem *problem) {
        enum engine_log what = strcmp(problem->kind, "turn") == 0 ? ENGINE_LOG_TURN_DAMAGED
                                                                  : ENGINE_LOG_REGISTER_DAMAGED;
        struct err e;

        if (problem->record)
                err_set(&e, ERR_CORRUPT, "check: conversation %llu, record %llu%s: %s",
                        (unsigned long long)problem->conv, (unsigned long long)problem->record,
                        problem->is_forgotten ? " (forgotten, will be computed anew)" : "",
                        problem->text);
        else if (problem->conv)
                err_set(&e, ERR_CORRUPT, "check: conversation %llu: %s",
                        (unsigned long long)problem->conv, problem->text);
        else
                err_set(&e, ERR_CORRUPT, "check: register: %s", problem->text);
        /* Of a record that cannot be read now nothing follows: it may be read later. */
        if (problem->record && !problem->is_forgotten && strcmp(problem->kind, "spill") == 0)
                what = ENGINE_LOG_HOUSEKEEPING;
        else if (problem->is_forgotten)
                what = ENGINE_LOG_RECORD_DAMAGED;
        event_log(engine, what, OWNER_ANY, problem->conv, &e);
}

static void note(struct engine *engine, struct checking *x, const char *kind, uint64_t conv,
        uint64_t record, bool forgotten, const char *text) {
        struct engine_problem *problem;

        x->result.n_problems++;
        if (x->result.n_listed == ENGINE_MAX_PROBLEMS)
                return;
        problem = &x->result.problems[x->result.n_listed++];
        *problem = (struct engine_problem){
                .kind = kind, .conv = conv, .record = record, .is_forgotten = forgotten};
        snprintf(problem->text, sizeof(problem->text), "%s", text);
        clean(problem->text);
        tell(engine, problem);
}

/* The register's slices run in a job of the request, which their callbacks have. */
static void found(void *arg, const struct store_finding *f) {
        struct checking *x = checking_of(arg);

        note(x->engine, x, store_finding_name(f->kind), f->conv, f->record, false, f->text);
}

/* In place of what was admitted before. */
static int admit(void *arg, size_t n, struct err *e) {
        struct request *request = arg;
        struct checking *x = checking_of(request);
        int r;

        charge_give(&request->charge, x->admitted);
        x->admitted = 0;
        r = charge_take(&request->charge, n, "a check", e);
        if (r == 0)
                x->admitted = n;
        return r;
}

static bool is_cancelled(void *arg) {
        struct request *request = arg;

        return atomic_load(&request->cancel);
}

/* --- the register --- */

/* What the checker has read since the last time, and found so far. */
static void note_register(struct checking *x) {
        struct store_census census;
        uint64_t read_size;

        store_checker_tell(x->checker, &census, &read_size);
        x->slice_size += read_size - x->register_read;
        x->result.read_size += read_size - x->register_read;
        x->register_read = read_size;
        x->result.n_convs = census.n_convs;
        x->result.n_turns = census.n_turns;
        x->result.n_tokens = census.n_tokens;
}

static int open_checker(struct engine *engine, struct request *request, struct err *e) {
        const struct store_check_options o = {.found = found,
                .arg = request,
                .admit = admit,
                .admit_arg = request,
                .stop = is_cancelled,
                .stop_arg = request};
        struct checking *x = checking_of(request);
        uint64_t n, size = 0;
        int r = store_size(engine->store, &x->register_size, e);

        if (r == 0)
                r = store_checker_new(&x->checker, engine->store, &o, e);
        if (r == 0)
                r = store_checker_total(x->checker, &n, &size, e);
        x->total = x->register_size + size;
        x->stage = REGISTER;
        return r;
}

static int check_register(struct request *request, struct err *e) {
        struct checking *x = checking_of(request);
        int r = 1;

        for (unsigned i = 0; r > 0 && i < STEPS && x->slice_size < SLICE; i++) {
                r = store_checker_step(x->checker, e);
                note_register(x);
                x->done = MIN(x->register_read, x->register_size);
                if (atomic_load(&request->cancel))
                        break;
        }
        if (r == 0)
                x->stage = TOTAL;
        return MIN(r, 0);
}

/* --- records --- */

static int count_records(struct checking *x, struct err *e) {
        uint64_t n, size;
        int r = store_checker_total(x->checker, &n, &size, e);

        if (r < 0)
                return r;
        x->done = x->register_size;
        x->total = x->register_size + size;
        x->stage = RECORDS;
        x->more = true;
        return 0;
}

/* The record will never be read again. Else the reason may pass. */
static bool is_lost(const struct err *why) {
        switch (why->code) {
        case ERR_CORRUPT:
        case ERR_NOT_FOUND:
                return true;
        case ERR_SYS:
                return why->sys == EIO || why->sys == ENOENT;
        default:
                return false;
        }
}

/* Of the page, leave out what the register has just forgotten: it did not go by itself. */
static void leave_out(struct checking *x, const struct store_gone *gone) {
        for (size_t i = x->at; i < x->n; i++)
                for (size_t k = 0; k < gone->n; k++)
                        if (x->page[i].record.id == gone->records[k].id)
                                x->page[i].record.id = 0;
}

static bool forget(struct engine *engine, struct checking *x, uint64_t record) {
        struct store_reclaimed *got = &x->cuts[x->n_cuts];
        struct err e;

        *got = (struct store_reclaimed){0};
        if (store_forget_record(engine->store, record, got, &e) < 0) {
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, OWNER_ANY, 0, &e);
                return false;
        }
        x->n_cuts++;
        records_release(engine, &got->gone);
        x->result.n_forgotten += got->gone.n;
        leave_out(x, &got->gone);
        return true;
}

/* It could not be read, for the reason @why: see 3 and 4. */
static int look_again(struct engine *engine, struct checking *x, const struct store_held *held,
        const struct err *why, struct err *e) {
        int r = store_checker_has(x->checker, held->record.id, e);

        if (r < 0)
                return r;
        if (r == 0) {
                x->result.n_gone++;
                return 0;
        }
        note(engine, x, "spill", held->conv, held->record.id,
                is_lost(why) && forget(engine, x, held->record.id), why->msg);
        return 0;
}

static int check_record(struct engine *engine, struct request *request,
        const struct store_held *held, struct err *e) {
        struct checking *x = checking_of(request);
        struct spill_meta meta = record_meta(&held->record);
        struct spill_ref ref = record_ref(&held->record);
        struct err why;
        int r;

        x->done = MIN(x->done + ref.stored_size, x->total);
        if (held->record.id == 0)
                return 0;
        /* A record of another model may be larger than what requests may hold. */
        if (ref.stored_size > SIZE_MAX || admit(request, (size_t)ref.stored_size, &why) < 0) {
                x->result.n_skipped++;
                return 0;
        }
        r = spill_inspect(engine->spill, &held->model, &ref, &meta, NULL, 0, NULL, &why);
        if (r == -ERR_NOMEM) {
                *e = why;
                return r;
        }
        x->slice_size += ref.stored_size;
        x->result.read_size += ref.stored_size;
        if (r < 0)
                return look_again(engine, x, held, &why, e);
        x->result.n_records++;
        return 0;
}

static int check_records(struct engine *engine, struct request *request, struct err *e) {
        struct checking *x = checking_of(request);
        int r = 0;

        while (r == 0 && x->slice_size < SLICE && x->n_cuts < PAGE &&
                !atomic_load(&request->cancel)) {
                if (x->at < x->n) {
                        r = check_record(engine, request, &x->page[x->at++], e);
                        continue;
                }
                if (!x->more) {
                        x->stage = OVER;
                        break;
                }
                x->at = 0;
                x->n = 0;
                r = store_checker_records(x->checker, x->page, PAGE, &x->n, &x->more, e);
        }
        return r;
}

/* --- slices --- */

static void slice_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct checking *x = checking_of(request);

        x->slice_size = 0;
        switch (x->stage) {
        case OPEN:
                j->r = open_checker(engine, request, &j->err);
                break;
        case REGISTER:
                j->r = check_register(request, &j->err);
                break;
        case TOTAL:
                j->r = count_records(x, &j->err);
                break;
        case RECORDS:
                j->r = check_records(engine, request, &j->err);
                break;
        case OVER:
                break;
        }
        if (x->checker)
                note_register(x);
}

static void slice_done(struct engine *engine, struct job *j);

static void go_on(struct engine *engine, struct request *request) {
        checking_of(request)->runs = true;
        request_submit_as(engine, request, JOB_CHECK, slice_run, slice_done);
}

/* The slice's bytes are paid for at the rate, from now on or from when those before them are. */
static void rest(struct request *request) {
        struct checking *x = checking_of(request);
        double now = (double)clock_monotonic_usec();

        request->phase = PHASE_WAITS;
        x->runs = false;
        x->due = 0;
        if (request->r.rate == 0)
                return;
        x->paid = MAX(x->paid, now) + (double)x->slice_size * MINUTE / (double)request->r.rate;
        x->due = (uint64_t)MIN(x->paid, (double)INT64_MAX);
}

static void tell_progress(struct engine *engine, struct request *request) {
        struct checking *x = checking_of(request);
        uint64_t now = clock_monotonic_usec();
        struct event_node *node;
        bool full;

        if (now - x->t_last_progress < PROGRESS_USEC || request_is_paused(request))
                return;
        node = event_new_lent(engine, request->credit, request->r.handle, ENGINE_PROGRESS, &full);
        if (!node)
                return; /* the peer does not read, or there is no memory: the next one will do */
        x->t_last_progress = now;
        node->ev.progress.done_size = x->done;
        node->ev.progress.total_size = x->total;
        event_send(engine, node);
}

static void finish(struct engine *engine, struct request *request) {
        struct checking *x = checking_of(request);
        struct engine_event *ev = request_answer(request, ENGINE_CHECKED);

        ev->checked = x->result;
        event_adopt(request->final, &request->charge,
                ENGINE_MAX_PROBLEMS * sizeof(struct engine_problem));
        x->result.problems = NULL;
        request_finish(engine, request);
}

/* It is to end early. */
static bool is_over(struct engine *engine, struct request *request, struct err *e) {
        const struct checking *x = checking_of(request);

        if (engine->stopping)
                err_set(e, ERR_SHUTDOWN, "the daemon is stopping");
        else if (atomic_load(&request->cancel))
                err_set(e, ERR_CANCELLED,
                        "cancelled when %llu of %llu bytes were checked, with %llu problems so far",
                        (unsigned long long)x->done, (unsigned long long)x->total,
                        (unsigned long long)x->result.n_problems);
        else
                return false;
        return true;
}

static void slice_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct checking *x = checking_of(request);

        for (size_t i = 0; i < x->n_cuts; i++) {
                records_cut(engine, x->cuts[i].cuts, x->cuts[i].n_cuts);
                store_reclaimed_deinit(&x->cuts[i]);
        }
        x->n_cuts = 0;
        if (is_over(engine, request, &j->err) || j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        if (x->stage == OVER) {
                finish(engine, request);
                return;
        }
        tell_progress(engine, request);
        rest(request);
        engine->again = true;
}

uint64_t check_step(struct engine *engine) {
        struct request *request = engine->verbs->check;
        struct checking *x = request ? checking_of(request) : NULL;
        struct err e;

        if (!request || x->runs)
                return UINT64_MAX;
        if (is_over(engine, request, &e)) {
                request_fail(engine, request, &e);
                return UINT64_MAX;
        }
        if (clock_monotonic_usec() < x->due)
                return x->due;
        go_on(engine, request);
        return UINT64_MAX;
}

static int begin(struct engine *engine, struct request *request, struct err *e) {
        struct checking *x = checking_of(request);
        int r;

        if (engine->verbs->check)
                return err_set(e, ERR_BUSY, "another check is under way");
        engine->verbs->check = request;
        x->counted = true;
        x->engine = engine;
        r = charge_take(&request->charge,
                STORE_CHECKER_SIZE + ENGINE_MAX_PROBLEMS * sizeof(struct engine_problem), "a check",
                e);
        if (r < 0)
                return r;
        x->result.problems = calloc(ENGINE_MAX_PROBLEMS, sizeof(struct engine_problem));
        return x->result.problems ? 0 : err_set(e, ERR_NOMEM, "no memory for a check");
}

static void start(struct engine *engine, struct request *request) {
        struct err e;

        if (begin(engine, request, &e) < 0)
                request_fail(engine, request, &e);
        else
                go_on(engine, request);
}

const struct verb verb_check = {.own_size = sizeof(struct checking),
        .deinit = deinit,
        .start = start,
        .is_long = true,
        .in_pieces = true};
