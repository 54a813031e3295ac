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

struct ereq *ereq_free(struct ereq *rq) {
        struct charge charge;

        if (!rq)
                return NULL;
        free_copy(rq->r.conv_name);
        free_copy(rq->r.name);
        free_copy(rq->r.system);
        free_copy(rq->r.text);
        free_copy(rq->r.tokens);
        for (size_t i = 0; i < rq->r.n_stops; i++)
                free_copy(rq->r.stops[i]);
        store_reading_deinit(&rq->reading);
        free(rq->list);
        free(rq->list_disk_size);
        text_answer_deinit(rq);
        seq_free(rq->fork_seq);
        free(rq->fork_recs);
        tok_ids_deinit(&rq->input);
        keep_deinit(&rq->keep);
        transfer_free(rq->transfer);
        if (rq->r.fd >= 0)
                close(rq->r.fd);
        gen_deinit(&rq->g);
        if (rq->final)
                engine_event_free(&rq->final->ev);
        credit_unref(rq->credit);
        charge = rq->charge;
        free(rq);
        charge_deinit(&charge);
        return NULL;
}

/* Let go of the conversation; what was not committed is cut off. */
void verb_release_conv(struct engine *en, struct ereq *rq) {
        struct conv *c = rq->conv;

        if (!c)
                return;
        if (c->busy == rq) {
                edit_undo(en, rq);
                c->busy = NULL;
                c->n_all = c->n_tokens;
                seq_unreserve(c->seq);
                if (seq_n_tokens(c->seq) > c->n_tokens)
                        seq_cut(c->seq, c->n_tokens);
                c->n_known = MIN(c->n_known, c->n_tokens);
                c->n_entered = MIN(c->n_entered, (size_t)(c->n_tokens / en->info.block_tokens));
        }
        rq->conv = NULL;
        conv_unuse(en, c);
}

static void forget(struct engine *en, struct ereq *rq) {
        verb_release_conv(en, rq);
        for (size_t i = 0; i < rq->n_fork_recs; i++)
                rec_put(en, rq->fork_recs[i]);
        rq->n_fork_recs = 0;
        pthread_mutex_lock(&en->lock);
        list_unlink(&rq->all);
        map_remove_u64(en->by_handle, rq->r.handle);
        en->n_requests--;
        rq->usage->n_requests--;
        usage_put(en, rq->usage);
        pthread_mutex_unlock(&en->lock);
        en->again = true;
        ereq_free(rq);
}

struct engine_event *verb_answer(struct ereq *rq, enum engine_event_kind kind) {
        event_reset(rq->final, kind);
        return &rq->final->ev;
}

void verb_finish(struct engine *en, struct ereq *rq) {
        struct event_node *n = TAKE_PTR(rq->final);

        /* First let go, then tell: whoever sees the event may ask for the conversation at once. */
        forget(en, rq);
        engine_event_send(en, n);
}

void verb_fail(struct engine *en, struct ereq *rq, const struct err *e) {
        struct err err = *e; /* which may be the request's own */

        struct engine_event *ev = verb_answer(rq, ENGINE_ERROR);

        ev->err = err;
        ev->told = rq->told;
        verb_finish(en, rq);
}

void verb_submit(struct engine *en, struct ereq *rq, void (*run)(struct engine *, struct job *),
        void (*done)(struct engine *, struct job *)) {
        verb_submit_as(en, rq, JOB_VERB, run, done);
}

void verb_submit_as(struct engine *en, struct ereq *rq, enum job_kind kind,
        void (*run)(struct engine *, struct job *), void (*done)(struct engine *, struct job *)) {
        rq->phase = PHASE_IO;
        rq->job.kind = kind;
        rq->job.run = run;
        rq->job.done = done;
        io_submit(en, &rq->job);
}

/* For verbs whose job left the row in rq->sc. */
void verb_row_done(struct engine *en, struct job *j) {
        if (j->r < 0)
                verb_fail(en, ereq_of(j), &j->err);
        else
                verb_finish_conv(en, ereq_of(j));
}

/* Whose conversation the request may name: an administrator's reaches those of all users, by id
 * and to end what they do or hold (I6 has it for metadata; what was said stays the owner's). */
static uint32_t whose(const struct engine_request *r) {
        bool ends = r->verb == ENGINE_CANCEL || r->verb == ENGINE_EVICT || r->verb == ENGINE_CLOSE;

        return r->admin && ends && r->conv_id != 0 ? STORE_UID_ANY : r->uid;
}

static void resolve_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);

        j->r = store_conv_get(
                en->store, whose(&rq->r), rq->r.conv_id, rq->r.conv_name, &rq->sc, &j->err);
}

static void log_admin(struct engine *en, const struct ereq *rq) {
        struct err e;

        err_set(&e, ERR_NONE, "user %u, an administrator, %s conversation %llu of user %u",
                rq->r.uid,
                rq->r.verb == ENGINE_CANCEL  ? "cancels"
                : rq->r.verb == ENGINE_EVICT ? "evicts"
                                             : "closes",
                (unsigned long long)rq->sc.id, rq->sc.uid);
        engine_event_log(en, LOG_NOTICE, &e);
}

/* Memory of other weights or rules: of no use here (I6). The tokens stay. */
static int forget_memory(struct engine *en, struct ereq *rq, struct err *e) {
        struct store_gone gone = {0};
        int r = store_unlink_from(en->store, rq->sc.id, 0, &gone, e);

        if (r < 0)
                return r;
        residency_release(en, &gone);
        store_gone_deinit(&gone);
        store_gone_deinit(&rq->reading.links);
        /* What comes in its place is our own. */
        if (rq->sc.private_memory && store_conv_set_private(en->store, rq->sc.id, false, NULL) == 0)
                rq->sc.private_memory = false;
        return 0;
}

int verb_admit_reading(void *arg, size_t n, struct err *e) {
        struct ereq *rq = arg;
        int r = charge_take(&rq->charge, n, "reading the conversation", e);

        if (r == 0)
                rq->load_size = n;
        return r;
}

static void load_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        unsigned what = STORE_READ_TURNS | STORE_READ_TOKENS | STORE_READ_LINKS;

        j->r = store_read_admitted(en->store, whose(&rq->r), rq->sc.id, NULL, what,
                verb_admit_reading, rq, &rq->reading, &j->err);
        if (j->r < 0)
                return;
        rq->sc = rq->reading.conv;
        if (!fingerprint_equal(&rq->sc.model, &en->info.fingerprint))
                j->r = forget_memory(en, rq, &j->err);
}

/* Spilled memory as the register knows it: records from block 0 on, without gap. */
static int attach_links(
        struct engine *en, struct conv *c, const struct store_gone *links, struct err *e) {
        uint32_t bt = en->info.block_tokens, covered = 0;

        for (size_t i = 0; i < links->n && covered < c->n_tokens; i++) {
                const struct store_record *r = &links->records[i];
                struct rec *rec;
                int k;

                if (r->index != i || covered != i * bt || r->n_tokens == 0 || r->n_tokens > bt)
                        break;
                /* Rewound inside of it, and gone on differently: not its memory from there on. */
                if (r->n_valid < MIN(r->n_tokens, c->n_tokens - covered))
                        break;
                rec = rec_get(en, r, e);
                if (!rec)
                        return -ERR_NOMEM;
                k = conv_set_rec(en, c, i, rec, e);
                if (k < 0) {
                        rec_put(en, rec);
                        return k;
                }
                covered += r->n_tokens;
        }
        covered = MIN(covered, c->n_tokens);
        c->n_known = covered;
        return covered ? seq_set_holes(c->seq, covered, e) : 0;
}

static void take_conv(struct engine *en, struct ereq *rq, struct conv *c) {
        rq->conv = c;
        conv_use(en, c);
        verb_act(en, rq);
}

struct ereq *verb_loading(struct engine *en, uint64_t id) {
        struct list *it;

        list_for_each (it, &en->loading) {
                struct ereq *rq = list_entry(it, struct ereq, link);

                if (rq->loading == id)
                        return rq;
        }
        return NULL;
}

static void load_done(struct engine *en, struct job *j);

/* It is loaded, or being loaded by another request, or this request loads it. */
void verb_find_conv(struct engine *en, struct ereq *rq) {
        struct conv *c = map_get_u64(en->convs, rq->sc.id);
        struct ereq *loader = c ? NULL : verb_loading(en, rq->sc.id);

        if (c) {
                take_conv(en, rq, c);
        } else if (loader) {
                rq->phase = PHASE_PARKED;
                list_append(&loader->followers, &rq->link);
        } else {
                rq->loading = rq->sc.id;
                list_append(&en->loading, &rq->link);
                verb_submit(en, rq, load_run, load_done);
        }
}

static int load_conv(struct engine *en, struct ereq *rq, struct conv **ret, struct err *e) {
        struct store_reading *x = &rq->reading;
        struct store_turns turns = {x->turns.turns, MIN(x->turns.n, (size_t)x->n_sound_turns)};
        struct store_conv sound = rq->sc;
        struct conv *c;
        int r;

        /* Of a damaged history what comes before the damage. */
        sound.n_turns = (uint32_t)turns.n;
        sound.n_tokens = (uint32_t)x->n_tokens;
        r = conv_new(&c, en, &sound, x->tokens, &turns, e);
        if (r < 0)
                return r;
        r = attach_links(en, c, &x->links, e);
        if (r == 0 && x->damaged) {
                conv_tell_damage(en, x);
                c->damage = malloc(sizeof(*c->damage));
                if (!c->damage)
                        r = err_set(e, ERR_NOMEM, "no memory for a damaged conversation");
        }
        if (r < 0) {
                conv_unload(en, c);
                return r;
        }
        if (c->damage) {
                *c->damage = x->damage;
                c->n_lost_turns = rq->sc.n_turns - MIN(rq->sc.n_turns, c->n_turns);
                c->n_lost_tokens = rq->sc.n_tokens - MIN(rq->sc.n_tokens, c->n_tokens);
        }
        *ret = c;
        return 0;
}

/* An imported conversation exists: without the memory that was to follow. */
static void load_failed(struct engine *en, struct ereq *rq, const struct err *e) {
        if (rq->r.verb == ENGINE_IMPORT)
                verb_finish_conv(en, rq);
        else
                verb_fail(en, rq, e);
}

static void load_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        struct list followers;
        struct conv *c = NULL;

        list_unlink(&rq->link);
        list_move_all(&followers, &rq->followers);
        if (j->r == 0)
                j->r = load_conv(en, rq, &c, &j->err);
        store_reading_deinit(&rq->reading);
        charge_give(&rq->charge, rq->load_size);
        rq->load_size = 0;
        if (j->r < 0)
                load_failed(en, rq, &j->err);
        else
                take_conv(en, rq, c);
        while (!list_empty(&followers)) {
                rq = list_entry(followers.next, struct ereq, link);
                list_unlink(&rq->link);
                verb_find_conv(en, rq);
        }
}

static void resolve_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);

        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        if (rq->sc.uid != rq->r.uid)
                log_admin(en, rq);
        verb_find_conv(en, rq);
}

void verb_finish_empty(struct engine *en, struct ereq *rq) {
        verb_answer(rq, ENGINE_EMPTY);
        verb_finish(en, rq);
}

static void evict_then(struct engine *en, struct ereq *rq) {
        const struct conv *c = rq->conv;

        /* The row was read before the request had the conversation to itself. */
        rq->sc.revision = c->revision;
        rq->sc.n_tokens = c->n_tokens + c->n_lost_tokens;
        rq->sc.n_turns = c->n_turns + c->n_lost_turns;
        verb_finish_conv(en, rq);
}

/* ---- taking turns (4) ---- */

static bool turn_waits(const struct engine *en, uint64_t conv) {
        struct list *it;

        list_for_each (it, &en->turns)
                if (list_entry(it, struct ereq, link)->sc.id == conv)
                        return true;
        return false;
}

static void wait_for_turn(struct engine *en, struct ereq *rq) {
        struct conv *c = rq->conv;

        rq->sc.id = c->id;
        rq->phase = PHASE_PARKED;
        rq->has_turn = false;
        rq->conv = NULL;
        list_append(&en->turns, &rq->link);
        conv_unuse(en, c);
}

void verb_turns(struct engine *en) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &en->turns) {
                struct ereq *rq = list_entry(it, struct ereq, link);
                const struct conv *c = map_get_u64(en->convs, rq->sc.id);
                bool cancelled = atomic_load(&rq->cancel);
                struct err e;

                if (c && c->busy && !cancelled && !en->stopping)
                        continue;
                list_unlink(&rq->link);
                rq->has_turn = true;
                if (cancelled) {
                        err_set(&e, ERR_CANCELLED,
                                "cancelled before the reply began; nothing was changed");
                        verb_fail(en, rq, &e);
                } else if (c && c->stale) {
                        verb_submit(en, rq, resolve_run, resolve_done); /* closed, or loaded anew */
                } else {
                        verb_find_conv(en, rq);
                }
        }
}

/* Also what waits for the conversation's I/O, or for its turn, is something that it is doing. */
static void act_cancel(struct engine *en, struct ereq *rq) {
        struct conv *c = rq->conv;
        struct list *it;

        if (c->busy)
                atomic_store(&c->busy->cancel, true);
        list_for_each (it, &c->waiters)
                atomic_store(&list_entry(it, struct ereq, link)->cancel, true);
        list_for_each (it, &en->turns)
                if (list_entry(it, struct ereq, link)->sc.id == c->id)
                        atomic_store(&list_entry(it, struct ereq, link)->cancel, true);
        en->again = true;
        verb_finish_empty(en, rq);
}

static int expect(const struct ereq *rq, struct err *e) {
        if (rq->r.has_expect_revision && rq->r.expect_revision != rq->conv->revision)
                return err_set(e, ERR_CONFLICT, "the conversation is at revision %llu, not %llu",
                        (unsigned long long)rq->conv->revision,
                        (unsigned long long)rq->r.expect_revision);
        return 0;
}

/* A Continue only appends (but for one that cuts), a Warm or Export changes nothing: forks go
 * together with them. */
static bool goes_with_forks(const struct ereq *rq) {
        enum engine_verb v = rq->r.verb;

        return (v == ENGINE_CONTINUE && !rq->r.cuts) || v == ENGINE_WARM || v == ENGINE_EXPORT;
}

/* What goes on from the end of the history, or gives all of it away, needs it whole. Fork, Rewind
 * and a Continue that cuts see for themselves what they keep. */
static int need_history(struct ereq *rq, struct err *e) {
        enum engine_verb v = rq->r.verb;

        if (!rq->conv->damage || v == ENGINE_REWIND || (v == ENGINE_CONTINUE && rq->r.cuts) ||
                v == ENGINE_CLOSE || v == ENGINE_UPDATE || v == ENGINE_EVICT ||
                (v == ENGINE_PUBLISH && !rq->r.publish))
                return 0;
        rq->told = true;
        *e = *rq->conv->damage;
        return -ERR_CORRUPT;
}

static int act_fork(struct engine *en, struct ereq *rq, struct err *e) {
        struct conv *c = rq->conv;
        int r = expect(rq, e);

        if (r == 0 && c->busy && !goes_with_forks(c->busy))
                r = err_set(e, ERR_BUSY, "the conversation is being changed by another request");
        return r < 0 ? r : verb_fork(en, rq, e);
}

static int act_exclusive(struct engine *en, struct ereq *rq, struct err *e) {
        struct conv *c = rq->conv;
        int r;

        if (c->busy || (c->n_forks > 0 && !goes_with_forks(rq)) ||
                (!rq->has_turn && turn_waits(en, c->id))) {
                if (!rq->r.wait || rq->r.verb != ENGINE_CONTINUE)
                        return err_set(e, ERR_BUSY, "another request holds the conversation");
                wait_for_turn(en, rq);
                return 0;
        }
        r = expect(rq, e);
        if (r == 0)
                r = need_history(rq, e);
        if (r < 0)
                return r;
        c->busy = rq;
        rq->sc.id = c->id;
        switch (rq->r.verb) {
        case ENGINE_CONTINUE:
                r = rq->r.cuts ? edit_begin(en, rq, e) : 0;
                if (r == 0)
                        generate_start(en, rq);
                return r;
        case ENGINE_WARM:
                generate_start(en, rq);
                return 0;
        case ENGINE_REWIND:
                return verb_rewind(en, rq, e);
        case ENGINE_CLOSE:
                verb_close(en, rq);
                return 0;
        case ENGINE_UPDATE:
                return verb_update(en, rq, e);
        case ENGINE_EVICT:
                return residency_evict(en, c, evict_then, rq, e);
        case ENGINE_PUBLISH:
                return verb_publish(en, rq, e);
        case ENGINE_EXPORT:
                return verb_export(en, rq, e);
        case ENGINE_IMPORT:
                return verb_import_memory(en, rq, e);
        default:
                return err_set(e, ERR_INVALID, "unknown verb %d", rq->r.verb);
        }
}

/* Write-behind counts on the tokens that it has looked at: see writebehind.c. And when a Close is
 * over, nothing of the conversation is left anywhere. */
static bool waits_for_writing(const struct conv *c, const struct ereq *rq) {
        bool cuts = rq->r.verb == ENGINE_REWIND || (rq->r.verb == ENGINE_CONTINUE && rq->r.cuts);

        return rq->r.verb == ENGINE_CLOSE ? c->writing != NULL : cuts && c->n_links > 0;
}

void verb_act(struct engine *en, struct ereq *rq) {
        struct conv *c = rq->conv;
        struct err e;
        int r;

        if (c->stale) {
                err_set(&e, ERR_BUSY, "the conversation is being closed or loaded anew");
                load_failed(en, rq, &e);
                return;
        }
        if (rq->r.verb == ENGINE_CANCEL) {
                act_cancel(en, rq);
                return;
        }
        if (en->stopping) {
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
                load_failed(en, rq, &e);
                return;
        }
        if ((c->n_io > 0 || waits_for_writing(c, rq)) && !c->busy) {
                rq->phase = PHASE_PARKED;
                list_append(&c->waiters, &rq->link);
                return;
        }
        r = rq->r.verb == ENGINE_FORK ? act_fork(en, rq, &e) : act_exclusive(en, rq, &e);
        if (r < 0)
                load_failed(en, rq, &e);
}

void verb_start(struct engine *en, struct ereq *rq) {
        struct err e;

        en->count.requests++;
        if (en->stopping) {
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
                verb_fail(en, rq, &e);
                return;
        }
        switch (rq->r.verb) {
        case ENGINE_OPEN:
                verb_open(en, rq);
                break;
        case ENGINE_GET:
                verb_get(en, rq);
                break;
        case ENGINE_LIST:
                verb_list(en, rq);
                break;
        case ENGINE_IMPORT:
                verb_import(en, rq);
                break;
        case ENGINE_TOKENIZE:
                verb_tokenize(en, rq);
                break;
        case ENGINE_MODEL_INFO:
                verb_model_info(en, rq);
                break;
        case ENGINE_STATS:
                stats_answer(en, rq);
                break;
        default:
                verb_submit(en, rq, resolve_run, resolve_done);
        }
}
