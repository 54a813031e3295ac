/* SPDX-License-Identifier: MIT */
/*
 * Verbs that make, change or remove conversations: Open, Fork, Rewind, Close, Update. What the
 * register does is one transaction each; RAM follows when it is over.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/internal.h"

static int check_name(const char *name, struct err *e) {
        size_t n = strlen(name);
        bool digits = true;

        if (n == 0 || n > ENGINE_NAME_MAX)
                return err_set(e, ERR_INVALID, "a name has 1 to %d bytes", ENGINE_NAME_MAX);
        if (!utf8_valid(name, n))
                return err_set(e, ERR_INVALID, "the name is not UTF-8");
        for (size_t i = 0; i < n; i++) {
                unsigned char ch = (unsigned char)name[i];

                if (ch < 0x20 || ch == 0x7f || (ch == 0xc2 && (unsigned char)name[i + 1] < 0xa0))
                        return err_set(e, ERR_INVALID, "the name has a control character");
                digits = digits && ch >= '0' && ch <= '9';
        }
        if (digits || name[0] == '#')
                return err_set(e, ERR_INVALID, "a name is not a number and does not begin with #");
        return 0;
}

int verb_copy_name(char *dst, const char *name, struct err *e) {
        int r;

        dst[0] = '\0';
        if (!name || !name[0])
                return 0; /* the register chooses one */
        r = check_name(name, e);
        if (r == 0)
                memcpy(dst, name,
                        strlen(name) + 1); /* check_name() knows the room, engine.c the bound */
        return r;
}

int verb_check_quota(struct engine *engine, uint32_t uid, struct err *e) {
        uint64_t n;
        int r = store_conv_count(engine->store, uid, &n, e);

        if (r < 0)
                return r;
        if (n >= engine->o.max_conversations_per_uid)
                return err_set(e, ERR_LIMIT, "user %u has %llu conversations, the limit is %u", uid,
                        (unsigned long long)n, engine->o.max_conversations_per_uid);
        return 0;
}

static void open_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct store_turn turn = {.role = CHAT_SYSTEM,
                .end = (uint32_t)request->input.n,
                .text = request->r.system,
                .text_size = request->r.system ? strlen(request->r.system) : 0,
                .created_usec = clock_realtime_usec()};

        unsigned tries = 0;

        pthread_mutex_lock(&engine->create_lock);
        do {
                j->r = verb_check_quota(engine, request->r.uid, &j->err);
                if (j->r == 0)
                        j->r = store_conv_create(engine->store, &request->sc, &turn,
                                request->input.n > 0, request->input.ids, request->input.n,
                                &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        pthread_mutex_unlock(&engine->create_lock);
}

int verb_check_sampling(struct engine *engine, const struct sampling *s, struct err *e) {
        struct sample_params p = SAMPLE_PARAMS_DEFAULT;
        struct sample_bias biases[SAMPLING_MAX_BIASES];

        prompt_params(&p, s);
        if (s->has & SAMPLING_BIASES) {
                for (uint32_t i = 0; i < s->n_biases; i++)
                        biases[i] = (struct sample_bias){s->biases[i].token, s->biases[i].bias};
                p.biases = biases;
                p.n_biases = s->n_biases;
        }
        return sample_params_validate(&p, engine->info.n_vocab, e);
}

static int open_input(struct engine *engine, struct request *request, struct err *e) {
        size_t size = strlen(request->r.system),
               n = text_memory(engine, request->r.system, size, false);
        int r = charge_take(&request->charge, n, "tokenising the system message", e);

        if (r < 0)
                return r;
        r = chat_append_message(engine->chat, CHAT_EMPTY, CHAT_SYSTEM, request->r.system, size,
                engine->info.context, &request->input, e);
        charge_give(&request->charge, n);
        if (r == -ERR_LIMIT && !request->input.refused)
                r = err_set(e, ERR_CONTEXT,
                        "the system message alone is longer than the context of %u tokens",
                        engine->info.context);
        return r;
}

static void open_input_run(struct engine *engine, struct job *j) {
        j->r = open_input(engine, request_of(j), &j->err);
}

static void open_input_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                verb_fail(engine, request_of(j), &j->err);
        else
                verb_submit(engine, request_of(j), open_run, verb_row_done);
}

void verb_open(struct engine *engine, struct request *request) {
        struct err e;
        int r;

        request->sc = (struct store_conv){.uid = request->r.uid,
                .model = engine->info.fingerprint,
                .vocab = engine->vocab_hash,
                .sampling = request->r.sampling};
        r = verb_copy_name(request->sc.name, request->r.name, &e);
        if (r == 0)
                r = verb_check_sampling(engine, &request->r.sampling, &e);
        if (r == 0 && request->r.system && text_is_long(strlen(request->r.system)))
                return verb_submit_as(engine, request, JOB_TEXT, open_input_run, open_input_done);
        if (r == 0 && request->r.system)
                r = open_input(engine, request, &e);
        if (r < 0)
                verb_fail(engine, request, &e);
        else
                verb_submit(engine, request, open_run, verb_row_done);
}

static void rewind_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct store_gone gone = {0};
        struct store_turn last;
        unsigned tries = 0;

        do {
                j->r = store_rewind(engine->store, request->sc.id, request->keep.n_turns,
                        keep_last(&request->keep, &last), engine->info.block_tokens,
                        &request->revision, &gone, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        if (j->r < 0)
                return;
        residency_release(engine, &gone);
        store_gone_deinit(&gone);
        j->r = store_conv_get(
                engine->store, request->r.uid, request->sc.id, NULL, &request->sc, &j->err);
}

static void rewind_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct conv *c = request->conv;
        uint32_t bt = engine->info.block_tokens;

        if (j->r < 0) {
                c->stale = true; /* it may have happened, but not all of it came back */
                verb_fail(engine, request, &j->err);
                return;
        }
        register_removed(engine);
        conv_forget_damage(engine, c); /* it lay behind what is kept */
        c->n_turns = request->keep.n_turns;
        if (request->keep.inside)
                c->turns[c->n_turns - 1] = request->keep.last;
        c->n_tokens = c->n_all = request->sc.n_tokens;
        c->revision = request->revision;
        c->n_known = MIN(c->n_known, c->n_tokens);
        c->n_entered = MIN(c->n_entered, (size_t)(c->n_tokens / bt));
        if (seq_n_tokens(c->seq) > c->n_tokens)
                seq_cut(c->seq, c->n_tokens);
        conv_drop_recs(engine, c, (c->n_tokens + bt - 1) / bt);
        if (c->n_published > request->sc.n_published) {
                c->n_published = request->sc.n_published;
                share_unpublish(engine, c);
        }
        verb_finish_conv(engine, request);
}

static void close_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct store_gone gone = {0};
        unsigned tries = 0;

        do {
                j->r = store_conv_delete(engine->store, request->sc.id, &gone, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        if (j->r < 0)
                return;
        residency_release(engine, &gone);
        store_gone_deinit(&gone);
}

static void close_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r < 0) {
                verb_fail(engine, request, &j->err);
                return;
        }
        register_removed(engine);
        request->conv->stale = true;
        if (request->conv->n_published > 0) {
                request->conv->n_published = 0;
                share_unpublish(engine, request->conv);
        }
        verb_finish_empty(engine, request);
}

static void fork_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        uint64_t parent = request->sc.id;
        struct store_turn last;
        unsigned tries = 0;

        request->sc = (struct store_conv){.uid = request->r.uid};
        j->r = verb_copy_name(request->sc.name, request->r.name, &j->err);
        if (j->r < 0)
                return;
        pthread_mutex_lock(&engine->create_lock);
        do {
                j->r = verb_check_quota(engine, request->r.uid, &j->err);
                if (j->r == 0)
                        j->r = store_conv_fork(engine->store, parent, request->keep.n_turns,
                                keep_last(&request->keep, &last), engine->info.block_tokens,
                                &request->sc, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        pthread_mutex_unlock(&engine->create_lock);
}

/* The child exists in the register; give it a life in RAM, too. If that fails it is loaded when
 * needed, which may be happening already: its row can be seen since the transaction. */
static void fork_adopt(struct engine *engine, struct request *request) {
        struct conv *p = request->conv, *c;
        struct store_turns none = {0};

        if (verb_loading(engine, request->sc.id) || map_get_u64(engine->convs, request->sc.id) ||
                conv_new(&c, engine, &request->sc, p->tokens, &none, NULL) < 0)
                return;
        conv_use(engine, c); /* not to be unloaded for the sake of its own turns */
        for (uint32_t i = 0; i < request->keep.n_turns && !c->stale; i++) {
                bool cut = request->keep.inside && i + 1 == request->keep.n_turns;

                if (conv_add_turn(engine, c, cut ? &request->keep.last : &p->turns[i], NULL) < 0)
                        c->stale = true;
        }
        if (!c->stale) {
                seq_free(c->seq);
                c->seq = TAKE_PTR(request->fork_seq);
                free(c->recs);
                c->recs = TAKE_PTR(request->fork_recs);
                c->n_recs = request->n_fork_recs;
                request->n_fork_recs = 0;
                c->link_from = request->fork_link_from;
                c->n_known = MIN(p->n_known, c->n_tokens);
        }
        conv_unuse(engine, c);
}

static void fork_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        request->conv->n_forks--;
        if (j->r < 0) {
                verb_fail(engine, request, &j->err);
                return;
        }
        engine->count.forks++;
        fork_adopt(engine, request);
        verb_finish_conv(engine, request);
}

/* Take the snapshot before the transaction: the parent may go on growing meanwhile. */
static int fork_snapshot(struct engine *engine, struct request *request, struct err *e) {
        struct conv *p = request->conv;
        uint32_t bt = engine->info.block_tokens;
        uint32_t pos = request->keep.n_tokens;
        size_t n = (pos + bt - 1) / bt;
        int r;

        /* Tables of the child, until it has been charged for as a conversation. */
        r = charge_take(&request->charge, (n + 1) * (sizeof(struct rec *) + 4 * sizeof(void *)),
                "a fork", e);
        if (r < 0)
                return r;
        pos = MIN(pos, seq_n_tokens(p->seq));
        r = seq_fork(&request->fork_seq, p->seq, pos, e);
        if (r < 0)
                return r;
        request->fork_recs = calloc(n + 1, sizeof(*request->fork_recs));
        if (!request->fork_recs)
                return err_set(e, ERR_NOMEM, "no memory to fork");
        request->n_fork_recs = MIN(n, p->n_recs);
        request->fork_link_from = p->link_from;
        for (size_t i = 0; i < request->n_fork_recs; i++) {
                request->fork_recs[i] = p->recs[i];
                if (request->fork_recs[i])
                        request->fork_recs[i]->n_refs++;
        }
        return 0;
}

static void update_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct sampling s = request->sc.sampling;
        const char *name = request->r.name && request->r.name[0] ? request->r.name : NULL;
        uint64_t id = request->sc.id;
        unsigned tries = 0;

        if (name)
                j->r = check_name(name, &j->err);
        if (j->r < 0)
                return;
        j->r = store_conv_get(engine->store, request->r.uid, id, NULL, &request->sc, &j->err);
        if (j->r < 0)
                return;
        s = request->sc.sampling;
        sampling_merge(&s, &request->r.sampling);
        do {
                j->r = store_conv_update(
                        engine->store, id, name, request->r.sampling.has ? &s : NULL, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        if (j->r == 0)
                j->r = store_conv_get(
                        engine->store, request->r.uid, id, NULL, &request->sc, &j->err);
}

static void update_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r == 0)
                request->conv->sampling = request->sc.sampling;
        verb_row_done(engine, j);
}

int verb_fork(struct engine *engine, struct request *request, struct err *e) {
        int r = keep_resolve(engine, request->conv, &request->r, &request->keep, e);

        request->told = r == -ERR_CORRUPT;
        if (r == 0)
                r = fork_snapshot(engine, request, e);
        if (r < 0)
                return r;
        request->sc.id = request->conv->id;
        request->conv->n_forks++;
        verb_submit(engine, request, fork_run, fork_done);
        return 0;
}

int verb_rewind(struct engine *engine, struct request *request, struct err *e) {
        int r = keep_resolve(engine, request->conv, &request->r, &request->keep, e);

        request->told = r == -ERR_CORRUPT;
        if (r == 0)
                verb_submit(engine, request, rewind_run, rewind_done);
        return r;
}

void verb_close(struct engine *engine, struct request *request) {
        verb_submit(engine, request, close_run, close_done);
}

int verb_update(struct engine *engine, struct request *request, struct err *e) {
        int r = verb_check_sampling(engine, &request->r.sampling, e);

        if (r == 0)
                verb_submit(engine, request, update_run, update_done);
        return r;
}
