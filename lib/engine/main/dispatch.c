/* SPDX-License-Identifier: MIT */
/*
 * The way of an arrived request to its verb: resolve, load, act.
 *
 *      dispatch_request() ─→ verb.start(), if the verb has one; else
 *          ↓
 *      resolve       register: (owner, id or name) → row (I6) ←─┐ take it, if this machine does not hold it (5)
 *          ↓      ───────────────────────────────────────────────┘
 *      find ──────→ load, if the conversation is not in RAM; or wait for the request that loads it
 *          ↓         │
 *      act() ←───────┘ wait for the conversation's I/O (2), or for a turn (4)
 *          ↓
 *      verb.act()
 *
 * The differences between verbs are in their rows (struct verb); only the table and dispatch_verb()
 * name verbs.
 *
 * 1. A conversation's rows change only while it is loaded. One request at a time loads it, and
 *    other requests for it wait. So the rows that load_run() reads belong together, and a
 *    conversation in RAM is never older than the register.
 * 2. Acting waits until no job changes the conversation's blocks (conv->waiters), unless a request
 *    holds the conversation.
 * 3. Verbs that change a conversation hold it (conv->busy) until they end; a second one gets
 *    ERR_BUSY. A fork changes nothing of the parent: it may run next to a Continue that only
 *    appends, and drops nothing from the memory, and next to an Update, which changes no token: its row in the
 *    register is the one before or the one behind.
 * 4. A Continue that is willing to wait (engine_request.wait) stands in the desk's turns instead.
 *    It holds nothing there, so the conversation's memory may be evicted as if nobody waited. When
 *    the conversation is free, the first of its requests in the list goes on; no other verb gets in
 *    before it.
 * 5. Where several daemons share the register, a conversation is in RAM only where it is held, and a row that says otherwise is
 *    no row to go on with: lease.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/main/main.h"

static const struct verb *const verbs[ENGINE_N_VERBS] = {
        [ENGINE_OPEN] = &verb_open,
        [ENGINE_CONTINUE] = &verb_continue,
        [ENGINE_FORK] = &verb_fork,
        [ENGINE_REWIND] = &verb_rewind,
        [ENGINE_CLOSE] = &verb_close,
        [ENGINE_GET] = &verb_get,
        [ENGINE_LIST] = &verb_list,
        [ENGINE_UPDATE] = &verb_update,
        [ENGINE_WARM] = &verb_warm,
        [ENGINE_EVICT] = &verb_evict,
        [ENGINE_CANCEL] = &verb_cancel,
        [ENGINE_TOKENIZE] = &verb_tokenize,
        [ENGINE_MODEL_INFO] = &verb_model_info,
        [ENGINE_STATS] = &verb_stats,
        [ENGINE_PUBLISH] = &verb_publish,
        [ENGINE_EXPORT] = &verb_export,
        [ENGINE_IMPORT] = &verb_import,
        [ENGINE_READ_FILE] = &verb_read_file,
        [ENGINE_WRITE_FILE] = &verb_write_file,
        [ENGINE_CARRY] = &verb_carry,
        [ENGINE_ATTACH] = &verb_attach,
        [ENGINE_TENANT] = &verb_tenant,
        [ENGINE_WATCH] = &verb_watch,
        [ENGINE_FIND] = &verb_find,
        [ENGINE_USERS] = &verb_users,
        [ENGINE_DRAIN] = &verb_drain,
        [ENGINE_BACKUP] = &verb_backup,
        [ENGINE_CHECK] = &verb_check,
        [ENGINE_ACT_ON_USER] = &verb_user_act,
        [ENGINE_USAGE] = &verb_usage,
        [ENGINE_OVERRIDE] = &verb_override,
        [ENGINE_LIMIT] = &verb_limit,
};

const struct verb *dispatch_verb(const struct engine_request *r) {
        return r->verb == ENGINE_CONTINUE && r->cuts ? &verb_edit : verbs[r->verb];
}

/* The request cannot act on its conversation. */
static void fail(struct engine *engine, struct request *request, const struct err *e) {
        if (request->verb->is_made)
                request_finish_conv(engine, request);
        else
                request_fail(engine, request, e);
}

/* --- resolving --- */

/* The user whose conversations the request may name. An administrator may name those of all users,
 * by id, to end what they do or hold. (I6 allows this for metadata; the text stays the owner's.) */
static uint64_t whose(const struct request *request) {
        const struct engine_request *r = &request->r;

        return r->admin && request->verb->by_admin && r->conv_id != 0 ? OWNER_ANY : r->owner;
}

static void resolve_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        j->r = store_conv_get(engine->store, whose(request), request->r.conv_id,
                request->r.conv_name, &request->sc, &j->err);
        if (j->r == 0 && request->verb->computes)
                j->r = account_read(engine, request, &j->err);
        if (j->r == 0 && request->verb->answers_found)
                request_read_noted(engine, request);
}

static void log_admin(struct engine *engine, const struct request *request) {
        struct err e;

        err_set(&e, ERR_NONE, "%s, an administrator, %s conversation %llu of %s",
                OWNER_TEXT(request->r.owner), request->verb->by_admin,
                (unsigned long long)request->sc.id, OWNER_TEXT(request->sc.owner));
        event_log(engine, ENGINE_LOG_ADMIN, request->r.owner, request->sc.id, &e);
}

static void find(struct engine *engine, struct request *request);

static void resolve_done(struct engine *engine, struct job *j);
static void resolve(struct engine *engine, struct request *request) {
        account_look(request);
        request_submit(engine, request, resolve_run, resolve_done);
}

static void resolve_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        if (account_read_again(engine, request, resolve))
                return;
        if (request->sc.owner != request->r.owner)
                log_admin(engine, request);
        if (request->sc.lease != STORE_LEASE_HELD)
                lease_take(engine, request);
        else
                find(engine, request);
}

/* --- loading (1) --- */

/* The memory was computed with other weights or rules: useless here (I6). The tokens stay. */
static int forget_memory(struct engine *engine, struct request *request, struct err *e) {
        struct store_gone gone = {0};
        int r = store_unlink_from(engine->store, request->sc.id, 0, &gone, e);

        if (r < 0)
                return r;
        records_release(engine, &gone);
        store_gone_deinit(&gone);
        store_gone_deinit(&request->reading.links);
        /* New memory will be our own. */
        if (request->sc.private_memory &&
                store_conv_set_private(engine->store, request->sc.id, false, NULL) == 0)
                request->sc.private_memory = false;
        return 0;
}

static void load_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        unsigned what = STORE_READ_TURNS | STORE_READ_TOKENS | STORE_READ_LINKS;

        j->r = store_read_admitted(engine->store, whose(request), request->sc.id, NULL, what,
                request_admit_reading, request, &request->reading, &j->err);
        if (j->r < 0)
                return;
        request->sc = request->reading.conv;
        if (request->sc.lease != STORE_LEASE_HELD) {
                j->r = err_set(&j->err, ERR_MOVED, "the conversation was taken by another machine");
                return;
        }
        if (request->sc.vocab != engine->vocab_hash) {
                /* It can't be used, and nothing can take its place before the conversation is
                 * carried over. So it stays on disk, for the model that made it. */
                store_gone_deinit(&request->reading.links);
                return;
        }
        if (!fingerprint_equal(&request->sc.model, &engine->info.fingerprint))
                j->r = forget_memory(engine, request, &j->err);
}

/* The memory of a conversation that was just read, as the register knows it. */
struct links {
        uint32_t end;            /* blocks of SEQ_ALL reach so far, without a gap */
        struct seq_place *cells; /* [n]: of the other classes */
        size_t n;
};

/* A link to what the model's memory has no place for, or to tokens behind the end, is passed over. */
static bool is_sound(
        const struct engine *engine, const struct conv *c, const struct store_record *r) {
        uint32_t ct;

        if (r->block_class >= SEQ_N_CLASSES || !engine->info.shape.size[r->block_class])
                return false;
        ct = seq_cell_tokens(&engine->info.shape, (enum seq_class)r->block_class);
        return r->n_tokens > 0 && r->n_tokens <= ct && r->n_valid > 0 &&
               r->index < c->n_tokens / ct + (c->n_tokens % ct > 0);
}

static int attach_link(struct engine *engine, struct conv *c, const struct store_record *r,
        struct links *links, struct err *e) {
        enum seq_class class = (enum seq_class)r->block_class;
        uint32_t ct = seq_cell_tokens(&engine->info.shape, class);
        struct conv_rec entry = {
                .index = r->index, .n_valid = MIN(r->n_valid, r->n_tokens), .linked = true};
        int k;

        /* Rewound inside a block, and continued differently: only its beginning is ours. */
        if (class == SEQ_ALL && links->end != r->index * ct)
                return 0;
        entry.rec = rec_get(engine, r, e);
        if (!entry.rec)
                return -ERR_NOMEM;
        k = recs_set(engine, &c->recs, class, &entry, e);
        if (k < 0) {
                rec_put(engine, entry.rec);
                return k;
        }
        if (class == SEQ_ALL)
                links->end += entry.n_valid;
        else
                links->cells[links->n++] = (struct seq_place){class, r->index};
        return 0;
}

/* Leave out what lies behind token @n: it is of no use without the blocks of SEQ_ALL. */
static void cut_links(const struct engine *engine, struct links *links, uint32_t n) {
        size_t kept = 0;

        for (size_t i = 0; i < links->n; i++) {
                uint32_t ct = seq_cell_tokens(&engine->info.shape, links->cells[i].class);

                if ((uint64_t)links->cells[i].index * ct < n)
                        links->cells[kept++] = links->cells[i];
        }
        links->n = kept;
}

/* Attach the spilled memory that the register knows. */
static int attach_links(
        struct engine *engine, struct conv *c, const struct store_gone *links, struct err *e) {
        struct links all = {.cells = calloc(links->n + 1, sizeof(*all.cells))};
        int r = all.cells ? 0 : err_set(e, ERR_NOMEM, "no memory for a conversation's memory");
        uint32_t n;

        for (size_t i = 0; r == 0 && i < links->n; i++)
                if (is_sound(engine, c, &links->records[i]))
                        r = attach_link(engine, c, &links->records[i], &all, e);
        n = engine->info.shape.size[SEQ_ALL] ? MIN(all.end, c->n_tokens) : c->n_tokens;
        cut_links(engine, &all, n);
        if (r == 0)
                r = seq_set_holes(c->seq, n, all.cells, all.n, e);
        free(all.cells);
        if (r < 0)
                return r;
        checkpoint_loaded(engine, c); /* first of all: what is not marked goes */
        conv_trim(engine, c);
        c->n_known = seq_n_tokens(c->seq);
        return 0;
}

static int load_conv(
        struct engine *engine, struct request *request, struct conv **ret, struct err *e) {
        struct store_reading *x = &request->reading;
        struct store_turns turns = {x->turns.turns, MIN(x->turns.n, (size_t)x->n_sound_turns)};
        struct store_conv sound = request->sc;
        struct transcript all = {.memory = x->tokens};
        struct conv *c;
        int r;

        /* Load a damaged history only up to the damage. */
        sound.n_turns = (uint32_t)turns.n;
        sound.n_tokens = (uint32_t)x->n_tokens;
        sound.gap = gap_cut(&sound.gap, sound.n_tokens);
        r = conv_new(&c, engine, &sound, &all, &turns, e);
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
                c->n_lost_tokens = request->sc.n_tokens - MIN(request->sc.n_tokens, sound.n_tokens);
        }
        *ret = c;
        return 0;
}

static void act(struct engine *engine, struct request *request);

static void take_conv(struct engine *engine, struct request *request, struct conv *c) {
        request->conv = c;
        conv_use(engine, c);
        if (c->owner == request->r.owner)
                conv_limit(c, &request->r.quotas);
        act(engine, request);
}

static void load_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct list followers;
        struct conv *c = NULL;

        conv_load_end(&request->load, &followers);
        if (j->r == 0)
                j->r = load_conv(engine, request, &c, &j->err);
        store_reading_deinit(&request->reading);
        charge_give(&request->charge, request->load_size);
        request->load_size = 0;
        if (j->r == -ERR_MOVED)
                lease_take(engine, request); /* another machine was faster */
        else if (j->r < 0)
                fail(engine, request, &j->err);
        else
                take_conv(engine, request, c);
        while (!list_empty(&followers)) {
                struct conv_load *load = list_entry(followers.next, struct conv_load, link);

                list_unlink(&load->link);
                find(engine, container_of(load, struct request, load));
        }
}

/* Take the conversation if it is loaded, or wait if another request loads it, or load it. */
static void find(struct engine *engine, struct request *request) {
        struct conv *c = convs_find(engine, request->sc.id);
        struct conv_load *loader = c ? NULL : conv_loader(engine, request->sc.id);

        if (c) {
                take_conv(engine, request, c);
        } else if (loader) {
                request->phase = PHASE_WAITS;
                list_append(&loader->followers, &request->load.link);
        } else {
                conv_load_begin(engine, &request->load, request->sc.id);
                request_submit(engine, request, load_run, load_done);
        }
}

/* --- taking turns (4) --- */

static void wait_for_turn(struct engine *engine, struct request *request) {
        struct conv *c = request->conv;

        request->sc.id = c->id;
        request->phase = PHASE_WAITS;
        request->has_turn = false;
        request->conv = NULL;
        list_append(desk_turns(engine), &request->link);
        conv_unuse(engine, c);
}

void dispatch_turns(struct engine *engine) {
        struct list *it, *tmp, *turns = desk_turns(engine);

        list_for_each_safe (it, tmp, turns) {
                struct request *request = list_entry(it, struct request, link);
                const struct conv *c = convs_find(engine, request->sc.id);
                bool cancelled = atomic_load(&request->cancel);
                struct err e;

                if (c && c->busy && !cancelled && !engine->stopping)
                        continue;
                list_unlink(&request->link);
                request->has_turn = true;
                if (cancelled) {
                        err_set(&e, ERR_CANCELLED,
                                "cancelled before the reply began; nothing was changed");
                        request_fail(engine, request, &e);
                } else if (c && c->stale) {
                        /* closed, or to be loaded anew */
                        resolve(engine, request);
                } else {
                        find(engine, request);
                }
        }
}

/* --- acting (2, 3) --- */

static int check_revision(const struct request *request, struct err *e) {
        if (request->r.has_expect_revision && request->r.expect_revision != request->conv->revision)
                return err_set(e, ERR_CONFLICT, "the conversation is at revision %llu, not %llu",
                        (unsigned long long)request->conv->revision,
                        (unsigned long long)request->r.expect_revision);
        return 0;
}

/* A verb that goes on from the end of the history, or gives all of it away, needs it whole. Other
 * verbs check for themselves that the part they keep is sound. */
static int check_history(struct request *request, struct err *e) {
        if (!request->conv->damage || !request->verb->needs_all)
                return 0;
        request->told = true;
        *e = *request->conv->damage;
        return -ERR_CORRUPT;
}

static int act_beside(struct engine *engine, struct request *request, struct err *e) {
        const struct request *busy = request->conv->busy;
        int r = check_revision(request, e);

        if (r == 0 && busy && (busy->verb->hold != HOLD_FORKS || request->conv->edit))
                r = err_set(e, ERR_BUSY, "the conversation is being changed by another request");
        return r < 0 ? r : request->verb->act(engine, request, e);
}

static int act_alone(struct engine *engine, struct request *request, struct err *e) {
        const struct verb *verb = request->verb;
        struct conv *c = request->conv;
        int r;

        if (c->busy || (c->n_forks > 0 && verb->hold != HOLD_FORKS) ||
                (!request->has_turn && desk_turn_waits(engine, c->id))) {
                if (!request->r.wait || !verb->may_wait)
                        return err_set(e, ERR_BUSY, "another request holds the conversation");
                wait_for_turn(engine, request);
                return 0;
        }
        r = check_revision(request, e);
        if (r == 0)
                r = check_history(request, e);
        if (r < 0)
                return r;
        c->busy = request;
        c->generates = verb->generates;
        c->removes = verb->removes;
        request->sc.id = c->id;
        return verb->act(engine, request, e);
}

/* Write-behind relies on the tokens that it has checked: see memory/writebehind.c. And when a Close
 * is over, nothing of the conversation may be left anywhere. */
static bool waits_for_writing(const struct conv *c, const struct verb *verb) {
        switch (verb->after) {
        case AFTER_LINKS:
                return c->n_links > 0;
        case AFTER_WRITING:
                return c->writer != NULL;
        default:
                return false;
        }
}

/* The request's conversation is loaded: act, wait, or fail. */
static void act(struct engine *engine, struct request *request) {
        const struct verb *verb = request->verb;
        struct conv *c = request->conv;
        struct err e;
        int r = 0;

        if (c->busy == request) {
                verb->resume(engine, request);
        } else if (c->stale) {
                r = err_set(&e, ERR_BUSY, "the conversation is being closed or loaded anew");
        } else if (verb->at_once) {
                r = verb->act(engine, request, &e);
        } else if (engine->stopping) {
                r = err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
        } else if ((c->n_io > 0 || waits_for_writing(c, verb)) && !c->busy) {
                request->phase = PHASE_WAITS;
                list_append(&c->waiters, &request->link);
        } else if (verb->hold == HOLD_NOT) {
                r = act_beside(engine, request, &e);
        } else {
                r = act_alone(engine, request, &e);
        }
        if (r < 0)
                fail(engine, request, &e);
}

void dispatch_ready(struct engine *engine) {
        struct list ready;

        convs_take_ready(engine, &ready);
        while (!list_empty(&ready)) {
                struct request *request = list_entry(ready.next, struct request, link);

                list_unlink(&request->link);
                if (request->conv)
                        act(engine, request);
                else
                        find(engine, request);
        }
}

void dispatch_request(struct engine *engine, struct request *request) {
        struct err e;

        engine->count.requests++;
        if (request->r.has_quotas) /* of a client, not of the daemon or the engine */
                meters_count(engine, request, RATE_REQUESTS, 1, clock_monotonic_usec());
        if (engine->stopping) {
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
                request_fail(engine, request, &e);
        } else if (drain_refuses(engine, request->verb, &e)) {
                request_fail(engine, request, &e);
        } else if (request->verb->start) {
                request->verb->start(engine, request);
        } else {
                resolve(engine, request);
        }
}
