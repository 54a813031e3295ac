/* SPDX-License-Identifier: MIT */
/*
 * The way of a request that is not a step of generation: resolve, load, act, end.
 *
 * A request about a conversation is resolved (register: (uid, id or name) → row, I6), its
 * conversation is loaded if it is not in RAM, then it acts (verb-conv.c, prompt.c, residency.c).
 *
 * 1. A conversation's rows change only while it is loaded; it is loaded by one request at a time,
 *    for which others that need it wait. So what load_run() reads belongs together, and a
 *    conversation in RAM is never older than the register.
 * 2. Acting waits until no job changes the conversation's blocks (conv->waiters), unless a request
 *    holds it.
 * 3. Verbs that change a conversation hold it (conv->busy) until they end; the second one gets
 *    ERR_BUSY. A fork changes nothing of the parent: it goes together with a Continue that
 *    only appends.
 * 4. A Continue that is willing to wait (r.wait) stands in engine.turns instead. It holds nothing
 *    there, so the conversation's memory may be evicted as if nobody waited. When the conversation
 *    is free, the first of its requests in the list goes on; no other verb gets in before it.
 */
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "engine/internal.h"

/* The request's pointers are const for its submitter; these are our copies. */
static void free_copy(const void *p) {
        free((void *)(uintptr_t)p);
}

struct request *request_free(struct request *request) {
        struct charge charge;

        if (!request)
                return NULL;
        free_copy(request->r.conv_name);
        free_copy(request->r.name);
        free_copy(request->r.system);
        free_copy(request->r.text);
        free_copy(request->r.tokens);
        for (size_t i = 0; i < request->r.n_stops; i++)
                free_copy(request->r.stops[i]);
        store_reading_deinit(&request->reading);
        free(request->list);
        free(request->list_disk_size);
        text_answer_deinit(request);
        seq_free(request->fork_seq);
        free(request->fork_recs);
        tok_ids_deinit(&request->input);
        keep_deinit(&request->keep);
        transfer_free(request->transfer);
        if (request->r.fd >= 0)
                close(request->r.fd);
        gen_deinit(&request->g);
        if (request->final)
                engine_event_free(&request->final->ev);
        credit_unref(request->credit);
        charge = request->charge;
        free(request);
        charge_deinit(&charge);
        return NULL;
}

/* Let go of the conversation; what was not committed is cut off. */
void verb_release_conv(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;

        if (!c)
                return;
        if (c->busy == request) {
                edit_undo(engine, request);
                c->busy = NULL;
                c->n_all = c->n_tokens;
                seq_unreserve(c->seq);
                if (seq_n_tokens(c->seq) > c->n_tokens)
                        seq_cut(c->seq, c->n_tokens);
                c->n_known = MIN(c->n_known, c->n_tokens);
                c->n_entered = MIN(c->n_entered, (size_t)(c->n_tokens / engine->info.block_tokens));
        }
        request->conv = NULL;
        conv_unuse(engine, c);
}

static void forget(struct engine *engine, struct request *request) {
        verb_release_conv(engine, request);
        for (size_t i = 0; i < request->n_fork_recs; i++)
                rec_put(engine, request->fork_recs[i]);
        request->n_fork_recs = 0;
        pthread_mutex_lock(&engine->lock);
        list_unlink(&request->all);
        map_remove_u64(engine->by_handle, request->r.handle);
        engine->n_requests--;
        request->usage->n_requests--;
        usage_put(engine, request->usage);
        pthread_mutex_unlock(&engine->lock);
        engine->again = true;
        request_free(request);
}

struct engine_event *verb_answer(struct request *request, enum engine_event_kind kind) {
        event_reset(request->final, kind);
        return &request->final->ev;
}

void verb_finish(struct engine *engine, struct request *request) {
        struct event_node *n = TAKE_PTR(request->final);

        /* First let go, then tell: whoever sees the event may ask for the conversation at once. */
        forget(engine, request);
        engine_event_send(engine, n);
}

void verb_fail(struct engine *engine, struct request *request, const struct err *e) {
        struct err err = *e; /* which may be the request's own */

        struct engine_event *ev = verb_answer(request, ENGINE_ERROR);

        ev->err = err;
        ev->told = request->told;
        verb_finish(engine, request);
}

void verb_submit(struct engine *engine, struct request *request,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *)) {
        verb_submit_as(engine, request, JOB_VERB, run, done);
}

void verb_submit_as(struct engine *engine, struct request *request, enum job_kind kind,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *)) {
        request->phase = PHASE_IO;
        request->job.kind = kind;
        request->job.run = run;
        request->job.done = done;
        io_submit(engine, &request->job);
}

/* For verbs whose job left the row in request->sc. */
void verb_row_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                verb_fail(engine, request_of(j), &j->err);
        else
                verb_finish_conv(engine, request_of(j));
}

/* Whose conversation the request may name: an administrator's reaches those of all users, by id
 * and to end what they do or hold (I6 has it for metadata; what was said stays the owner's). */
static uint32_t whose(const struct engine_request *r) {
        bool ends = r->verb == ENGINE_CANCEL || r->verb == ENGINE_EVICT || r->verb == ENGINE_CLOSE;

        return r->admin && ends && r->conv_id != 0 ? STORE_UID_ANY : r->uid;
}

static void resolve_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        j->r = store_conv_get(engine->store, whose(&request->r), request->r.conv_id,
                request->r.conv_name, &request->sc, &j->err);
}

static void log_admin(struct engine *engine, const struct request *request) {
        struct err e;

        err_set(&e, ERR_NONE, "user %u, an administrator, %s conversation %llu of user %u",
                request->r.uid,
                request->r.verb == ENGINE_CANCEL  ? "cancels"
                : request->r.verb == ENGINE_EVICT ? "evicts"
                                                  : "closes",
                (unsigned long long)request->sc.id, request->sc.uid);
        engine_event_log(engine, LOG_NOTICE, &e);
}

/* Memory of other weights or rules: of no use here (I6). The tokens stay. */
static int forget_memory(struct engine *engine, struct request *request, struct err *e) {
        struct store_gone gone = {0};
        int r = store_unlink_from(engine->store, request->sc.id, 0, &gone, e);

        if (r < 0)
                return r;
        residency_release(engine, &gone);
        store_gone_deinit(&gone);
        store_gone_deinit(&request->reading.links);
        /* What comes in its place is our own. */
        if (request->sc.private_memory &&
                store_conv_set_private(engine->store, request->sc.id, false, NULL) == 0)
                request->sc.private_memory = false;
        return 0;
}

int verb_admit_reading(void *arg, size_t n, struct err *e) {
        struct request *request = arg;
        int r = charge_take(&request->charge, n, "reading the conversation", e);

        if (r == 0)
                request->load_size = n;
        return r;
}

static void load_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        unsigned what = STORE_READ_TURNS | STORE_READ_TOKENS | STORE_READ_LINKS;

        j->r = store_read_admitted(engine->store, whose(&request->r), request->sc.id, NULL, what,
                verb_admit_reading, request, &request->reading, &j->err);
        if (j->r < 0)
                return;
        request->sc = request->reading.conv;
        if (!fingerprint_equal(&request->sc.model, &engine->info.fingerprint))
                j->r = forget_memory(engine, request, &j->err);
}

/* Spilled memory as the register knows it: records from block 0 on, without gap. */
static int attach_links(
        struct engine *engine, struct conv *c, const struct store_gone *links, struct err *e) {
        uint32_t bt = engine->info.block_tokens, covered = 0;

        for (size_t i = 0; i < links->n && covered < c->n_tokens; i++) {
                const struct store_record *r = &links->records[i];
                struct rec *rec;
                int k;

                if (r->index != i || covered != i * bt || r->n_tokens == 0 || r->n_tokens > bt)
                        break;
                /* Rewound inside of it, and gone on differently: not its memory from there on. */
                if (r->n_valid < MIN(r->n_tokens, c->n_tokens - covered))
                        break;
                rec = rec_get(engine, r, e);
                if (!rec)
                        return -ERR_NOMEM;
                k = conv_set_rec(engine, c, i, rec, e);
                if (k < 0) {
                        rec_put(engine, rec);
                        return k;
                }
                covered += r->n_tokens;
        }
        covered = MIN(covered, c->n_tokens);
        c->n_known = covered;
        return covered ? seq_set_holes(c->seq, covered, e) : 0;
}

static void take_conv(struct engine *engine, struct request *request, struct conv *c) {
        request->conv = c;
        conv_use(engine, c);
        verb_act(engine, request);
}

struct request *verb_loading(struct engine *engine, uint64_t id) {
        struct list *it;

        list_for_each (it, &engine->loading) {
                struct request *request = list_entry(it, struct request, link);

                if (request->loading == id)
                        return request;
        }
        return NULL;
}

static void load_done(struct engine *engine, struct job *j);

/* It is loaded, or being loaded by another request, or this request loads it. */
void verb_find_conv(struct engine *engine, struct request *request) {
        struct conv *c = map_get_u64(engine->convs, request->sc.id);
        struct request *loader = c ? NULL : verb_loading(engine, request->sc.id);

        if (c) {
                take_conv(engine, request, c);
        } else if (loader) {
                request->phase = PHASE_PARKED;
                list_append(&loader->followers, &request->link);
        } else {
                request->loading = request->sc.id;
                list_append(&engine->loading, &request->link);
                verb_submit(engine, request, load_run, load_done);
        }
}

static int load_conv(
        struct engine *engine, struct request *request, struct conv **ret, struct err *e) {
        struct store_reading *x = &request->reading;
        struct store_turns turns = {x->turns.turns, MIN(x->turns.n, (size_t)x->n_sound_turns)};
        struct store_conv sound = request->sc;
        struct conv *c;
        int r;

        /* Of a damaged history what comes before the damage. */
        sound.n_turns = (uint32_t)turns.n;
        sound.n_tokens = (uint32_t)x->n_tokens;
        r = conv_new(&c, engine, &sound, x->tokens, &turns, e);
        if (r < 0)
                return r;
        r = attach_links(engine, c, &x->links, e);
        if (r == 0 && x->damaged) {
                conv_tell_damage(engine, x);
                c->damage = malloc(sizeof(*c->damage));
                if (!c->damage)
                        r = err_set(e, ERR_NOMEM, "no memory for a damaged conversation");
        }
        if (r < 0) {
                conv_unload(engine, c);
                return r;
        }
        if (c->damage) {
                *c->damage = x->damage;
                c->n_lost_turns = request->sc.n_turns - MIN(request->sc.n_turns, c->n_turns);
                c->n_lost_tokens = request->sc.n_tokens - MIN(request->sc.n_tokens, c->n_tokens);
        }
        *ret = c;
        return 0;
}

/* An imported conversation exists: without the memory that was to follow. */
static void load_failed(struct engine *engine, struct request *request, const struct err *e) {
        if (request->r.verb == ENGINE_IMPORT)
                verb_finish_conv(engine, request);
        else
                verb_fail(engine, request, e);
}

static void load_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct list followers;
        struct conv *c = NULL;

        list_unlink(&request->link);
        list_move_all(&followers, &request->followers);
        if (j->r == 0)
                j->r = load_conv(engine, request, &c, &j->err);
        store_reading_deinit(&request->reading);
        charge_give(&request->charge, request->load_size);
        request->load_size = 0;
        if (j->r < 0)
                load_failed(engine, request, &j->err);
        else
                take_conv(engine, request, c);
        while (!list_empty(&followers)) {
                request = list_entry(followers.next, struct request, link);
                list_unlink(&request->link);
                verb_find_conv(engine, request);
        }
}

static void resolve_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r < 0) {
                verb_fail(engine, request, &j->err);
                return;
        }
        if (request->sc.uid != request->r.uid)
                log_admin(engine, request);
        verb_find_conv(engine, request);
}

void verb_finish_empty(struct engine *engine, struct request *request) {
        verb_answer(request, ENGINE_EMPTY);
        verb_finish(engine, request);
}

static void evict_then(struct engine *engine, struct request *request) {
        const struct conv *c = request->conv;

        /* The row was read before the request had the conversation to itself. */
        request->sc.revision = c->revision;
        request->sc.n_tokens = c->n_tokens + c->n_lost_tokens;
        request->sc.n_turns = c->n_turns + c->n_lost_turns;
        verb_finish_conv(engine, request);
}

/* ---- taking turns (4) ---- */

static bool turn_waits(const struct engine *engine, uint64_t conv) {
        struct list *it;

        list_for_each (it, &engine->turns)
                if (list_entry(it, struct request, link)->sc.id == conv)
                        return true;
        return false;
}

static void wait_for_turn(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;

        request->sc.id = c->id;
        request->phase = PHASE_PARKED;
        request->has_turn = false;
        request->conv = NULL;
        list_append(&engine->turns, &request->link);
        conv_unuse(engine, c);
}

void verb_turns(struct engine *engine) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &engine->turns) {
                struct request *request = list_entry(it, struct request, link);
                const struct conv *c = map_get_u64(engine->convs, request->sc.id);
                bool cancelled = atomic_load(&request->cancel);
                struct err e;

                if (c && c->busy && !cancelled && !engine->stopping)
                        continue;
                list_unlink(&request->link);
                request->has_turn = true;
                if (cancelled) {
                        err_set(&e, ERR_CANCELLED,
                                "cancelled before the reply began; nothing was changed");
                        verb_fail(engine, request, &e);
                } else if (c && c->stale) {
                        verb_submit(engine, request, resolve_run,
                                resolve_done); /* closed, or loaded anew */
                } else {
                        verb_find_conv(engine, request);
                }
        }
}

/* Also what waits for the conversation's I/O, or for its turn, is something that it is doing. */
static void act_cancel(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;
        struct list *it;

        if (c->busy)
                atomic_store(&c->busy->cancel, true);
        list_for_each (it, &c->waiters)
                atomic_store(&list_entry(it, struct request, link)->cancel, true);
        list_for_each (it, &engine->turns)
                if (list_entry(it, struct request, link)->sc.id == c->id)
                        atomic_store(&list_entry(it, struct request, link)->cancel, true);
        engine->again = true;
        verb_finish_empty(engine, request);
}

static int expect(const struct request *request, struct err *e) {
        if (request->r.has_expect_revision && request->r.expect_revision != request->conv->revision)
                return err_set(e, ERR_CONFLICT, "the conversation is at revision %llu, not %llu",
                        (unsigned long long)request->conv->revision,
                        (unsigned long long)request->r.expect_revision);
        return 0;
}

/* A Continue only appends (but for one that cuts), a Warm or Export changes nothing: forks go
 * together with them. */
static bool goes_with_forks(const struct request *request) {
        enum engine_verb v = request->r.verb;

        return (v == ENGINE_CONTINUE && !request->r.cuts) || v == ENGINE_WARM || v == ENGINE_EXPORT;
}

/* What goes on from the end of the history, or gives all of it away, needs it whole. Fork, Rewind
 * and a Continue that cuts see for themselves what they keep. */
static int need_history(struct request *request, struct err *e) {
        enum engine_verb v = request->r.verb;

        if (!request->conv->damage || v == ENGINE_REWIND ||
                (v == ENGINE_CONTINUE && request->r.cuts) || v == ENGINE_CLOSE ||
                v == ENGINE_UPDATE || v == ENGINE_EVICT ||
                (v == ENGINE_PUBLISH && !request->r.publish))
                return 0;
        request->told = true;
        *e = *request->conv->damage;
        return -ERR_CORRUPT;
}

static int act_fork(struct engine *engine, struct request *request, struct err *e) {
        struct conv *c = request->conv;
        int r = expect(request, e);

        if (r == 0 && c->busy && !goes_with_forks(c->busy))
                r = err_set(e, ERR_BUSY, "the conversation is being changed by another request");
        return r < 0 ? r : verb_fork(engine, request, e);
}

static int act_exclusive(struct engine *engine, struct request *request, struct err *e) {
        struct conv *c = request->conv;
        int r;

        if (c->busy || (c->n_forks > 0 && !goes_with_forks(request)) ||
                (!request->has_turn && turn_waits(engine, c->id))) {
                if (!request->r.wait || request->r.verb != ENGINE_CONTINUE)
                        return err_set(e, ERR_BUSY, "another request holds the conversation");
                wait_for_turn(engine, request);
                return 0;
        }
        r = expect(request, e);
        if (r == 0)
                r = need_history(request, e);
        if (r < 0)
                return r;
        c->busy = request;
        request->sc.id = c->id;
        switch (request->r.verb) {
        case ENGINE_CONTINUE:
                r = request->r.cuts ? edit_begin(engine, request, e) : 0;
                if (r == 0)
                        generate_start(engine, request);
                return r;
        case ENGINE_WARM:
                generate_start(engine, request);
                return 0;
        case ENGINE_REWIND:
                return verb_rewind(engine, request, e);
        case ENGINE_CLOSE:
                verb_close(engine, request);
                return 0;
        case ENGINE_UPDATE:
                return verb_update(engine, request, e);
        case ENGINE_EVICT:
                return residency_evict(engine, c, evict_then, request, e);
        case ENGINE_PUBLISH:
                return verb_publish(engine, request, e);
        case ENGINE_EXPORT:
                return verb_export(engine, request, e);
        case ENGINE_IMPORT:
                return verb_import_memory(engine, request, e);
        default:
                return err_set(e, ERR_INVALID, "unknown verb %d", request->r.verb);
        }
}

/* Write-behind counts on the tokens that it has looked at: see writebehind.c. And when a Close is
 * over, nothing of the conversation is left anywhere. */
static bool waits_for_writing(const struct conv *c, const struct request *request) {
        bool cuts = request->r.verb == ENGINE_REWIND ||
                    (request->r.verb == ENGINE_CONTINUE && request->r.cuts);

        return request->r.verb == ENGINE_CLOSE ? c->writing != NULL : cuts && c->n_links > 0;
}

void verb_act(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;
        struct err e;
        int r;

        if (c->stale) {
                err_set(&e, ERR_BUSY, "the conversation is being closed or loaded anew");
                load_failed(engine, request, &e);
                return;
        }
        if (request->r.verb == ENGINE_CANCEL) {
                act_cancel(engine, request);
                return;
        }
        if (engine->stopping) {
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
                load_failed(engine, request, &e);
                return;
        }
        if ((c->n_io > 0 || waits_for_writing(c, request)) && !c->busy) {
                request->phase = PHASE_PARKED;
                list_append(&c->waiters, &request->link);
                return;
        }
        r = request->r.verb == ENGINE_FORK ? act_fork(engine, request, &e)
                                           : act_exclusive(engine, request, &e);
        if (r < 0)
                load_failed(engine, request, &e);
}

void verb_start(struct engine *engine, struct request *request) {
        struct err e;

        engine->count.requests++;
        if (engine->stopping) {
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
                verb_fail(engine, request, &e);
                return;
        }
        switch (request->r.verb) {
        case ENGINE_OPEN:
                verb_open(engine, request);
                break;
        case ENGINE_GET:
                verb_get(engine, request);
                break;
        case ENGINE_LIST:
                verb_list(engine, request);
                break;
        case ENGINE_IMPORT:
                verb_import(engine, request);
                break;
        case ENGINE_TOKENIZE:
                verb_tokenize(engine, request);
                break;
        case ENGINE_MODEL_INFO:
                verb_model_info(engine, request);
                break;
        case ENGINE_STATS:
                stats_answer(engine, request);
                break;
        default:
                verb_submit(engine, request, resolve_run, resolve_done);
        }
}
