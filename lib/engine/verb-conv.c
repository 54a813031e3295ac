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

int verb_check_quota(struct engine *en, uint32_t uid, struct err *e) {
        uint64_t n;
        int r = store_conv_count(en->store, uid, &n, e);

        if (r < 0)
                return r;
        if (n >= en->o.max_conversations_per_uid)
                return err_set(e, ERR_LIMIT, "user %u has %llu conversations, the limit is %u", uid,
                        (unsigned long long)n, en->o.max_conversations_per_uid);
        return 0;
}

static void open_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        struct store_turn turn = {.role = CHAT_SYSTEM,
                .end = (uint32_t)rq->input.n,
                .text = rq->r.system,
                .text_size = rq->r.system ? strlen(rq->r.system) : 0,
                .created_usec = clock_realtime_usec()};

        unsigned tries = 0;

        pthread_mutex_lock(&en->create_lock);
        do {
                j->r = verb_check_quota(en, rq->r.uid, &j->err);
                if (j->r == 0)
                        j->r = store_conv_create(en->store, &rq->sc, &turn, rq->input.n > 0,
                                rq->input.ids, rq->input.n, &j->err);
        } while (register_retry(en, &tries, j->r, &j->err));
        pthread_mutex_unlock(&en->create_lock);
}

int verb_check_sampling(struct engine *en, const struct sampling *s, struct err *e) {
        struct sample_params p = SAMPLE_PARAMS_DEFAULT;
        struct sample_bias biases[SAMPLING_MAX_BIASES];

        prompt_params(&p, s);
        if (s->has & SAMPLING_BIASES) {
                for (uint32_t i = 0; i < s->n_biases; i++)
                        biases[i] = (struct sample_bias){s->biases[i].token, s->biases[i].bias};
                p.biases = biases;
                p.n_biases = s->n_biases;
        }
        return sample_params_validate(&p, en->info.n_vocab, e);
}

static int open_input(struct engine *en, struct ereq *rq, struct err *e) {
        size_t size = strlen(rq->r.system), n = text_memory(en, rq->r.system, size, false);
        int r = charge_take(&rq->charge, n, "tokenising the system message", e);

        if (r < 0)
                return r;
        r = chat_append_message(en->chat, CHAT_EMPTY, CHAT_SYSTEM, rq->r.system, size,
                en->info.context, &rq->input, e);
        charge_give(&rq->charge, n);
        if (r == -ERR_LIMIT && !rq->input.refused)
                r = err_set(e, ERR_CONTEXT,
                        "the system message alone is longer than the context of %u tokens",
                        en->info.context);
        return r;
}

static void open_input_run(struct engine *en, struct job *j) {
        j->r = open_input(en, ereq_of(j), &j->err);
}

static void open_input_done(struct engine *en, struct job *j) {
        if (j->r < 0)
                verb_fail(en, ereq_of(j), &j->err);
        else
                verb_submit(en, ereq_of(j), open_run, verb_row_done);
}

void verb_open(struct engine *en, struct ereq *rq) {
        struct err e;
        int r;

        rq->sc = (struct store_conv){.uid = rq->r.uid,
                .model = en->info.fingerprint,
                .vocab = en->vocab_hash,
                .sampling = rq->r.sampling};
        r = verb_copy_name(rq->sc.name, rq->r.name, &e);
        if (r == 0)
                r = verb_check_sampling(en, &rq->r.sampling, &e);
        if (r == 0 && rq->r.system && text_is_long(strlen(rq->r.system)))
                return verb_submit_as(en, rq, JOB_TEXT, open_input_run, open_input_done);
        if (r == 0 && rq->r.system)
                r = open_input(en, rq, &e);
        if (r < 0)
                verb_fail(en, rq, &e);
        else
                verb_submit(en, rq, open_run, verb_row_done);
}

static void rewind_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        struct store_gone gone = {0};
        struct store_turn last;
        unsigned tries = 0;

        do {
                j->r = store_rewind(en->store, rq->sc.id, rq->keep.n_turns,
                        keep_last(&rq->keep, &last), en->info.block_tokens, &rq->revision, &gone,
                        &j->err);
        } while (register_retry(en, &tries, j->r, &j->err));
        if (j->r < 0)
                return;
        residency_release(en, &gone);
        store_gone_deinit(&gone);
        j->r = store_conv_get(en->store, rq->r.uid, rq->sc.id, NULL, &rq->sc, &j->err);
}

static void rewind_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        struct conv *c = rq->conv;
        uint32_t bt = en->info.block_tokens;

        if (j->r < 0) {
                c->stale = true; /* it may have happened, but not all of it came back */
                verb_fail(en, rq, &j->err);
                return;
        }
        register_removed(en);
        conv_forget_damage(en, c); /* it lay behind what is kept */
        c->n_turns = rq->keep.n_turns;
        if (rq->keep.inside)
                c->turns[c->n_turns - 1] = rq->keep.last;
        c->n_tokens = c->n_all = rq->sc.n_tokens;
        c->revision = rq->revision;
        c->n_known = MIN(c->n_known, c->n_tokens);
        c->n_entered = MIN(c->n_entered, (size_t)(c->n_tokens / bt));
        if (seq_n_tokens(c->seq) > c->n_tokens)
                seq_cut(c->seq, c->n_tokens);
        conv_drop_recs(en, c, (c->n_tokens + bt - 1) / bt);
        if (c->n_published > rq->sc.n_published) {
                c->n_published = rq->sc.n_published;
                share_unpublish(en, c);
        }
        verb_finish_conv(en, rq);
}

static void close_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        struct store_gone gone = {0};
        unsigned tries = 0;

        do {
                j->r = store_conv_delete(en->store, rq->sc.id, &gone, &j->err);
        } while (register_retry(en, &tries, j->r, &j->err));
        if (j->r < 0)
                return;
        residency_release(en, &gone);
        store_gone_deinit(&gone);
}

static void close_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);

        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        register_removed(en);
        rq->conv->stale = true;
        if (rq->conv->n_published > 0) {
                rq->conv->n_published = 0;
                share_unpublish(en, rq->conv);
        }
        verb_finish_empty(en, rq);
}

static void fork_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        uint64_t parent = rq->sc.id;
        struct store_turn last;
        unsigned tries = 0;

        rq->sc = (struct store_conv){.uid = rq->r.uid};
        j->r = verb_copy_name(rq->sc.name, rq->r.name, &j->err);
        if (j->r < 0)
                return;
        pthread_mutex_lock(&en->create_lock);
        do {
                j->r = verb_check_quota(en, rq->r.uid, &j->err);
                if (j->r == 0)
                        j->r = store_conv_fork(en->store, parent, rq->keep.n_turns,
                                keep_last(&rq->keep, &last), en->info.block_tokens, &rq->sc,
                                &j->err);
        } while (register_retry(en, &tries, j->r, &j->err));
        pthread_mutex_unlock(&en->create_lock);
}

/* The child exists in the register; give it a life in RAM, too. If that fails it is loaded when
 * needed, which may be happening already: its row can be seen since the transaction. */
static void fork_adopt(struct engine *en, struct ereq *rq) {
        struct conv *p = rq->conv, *c;
        struct store_turns none = {0};

        if (verb_loading(en, rq->sc.id) || map_get_u64(en->convs, rq->sc.id) ||
                conv_new(&c, en, &rq->sc, p->tokens, &none, NULL) < 0)
                return;
        conv_use(en, c); /* not to be unloaded for the sake of its own turns */
        for (uint32_t i = 0; i < rq->keep.n_turns && !c->stale; i++) {
                bool cut = rq->keep.inside && i + 1 == rq->keep.n_turns;

                if (conv_add_turn(en, c, cut ? &rq->keep.last : &p->turns[i], NULL) < 0)
                        c->stale = true;
        }
        if (!c->stale) {
                seq_free(c->seq);
                c->seq = TAKE_PTR(rq->fork_seq);
                free(c->recs);
                c->recs = TAKE_PTR(rq->fork_recs);
                c->n_recs = rq->n_fork_recs;
                rq->n_fork_recs = 0;
                c->link_from = rq->fork_link_from;
                c->n_known = MIN(p->n_known, c->n_tokens);
        }
        conv_unuse(en, c);
}

static void fork_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);

        rq->conv->n_forks--;
        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        en->count.forks++;
        fork_adopt(en, rq);
        verb_finish_conv(en, rq);
}

/* Take the snapshot before the transaction: the parent may go on growing meanwhile. */
static int fork_snapshot(struct engine *en, struct ereq *rq, struct err *e) {
        struct conv *p = rq->conv;
        uint32_t bt = en->info.block_tokens;
        uint32_t pos = rq->keep.n_tokens;
        size_t n = (pos + bt - 1) / bt;
        int r;

        /* Tables of the child, until it has been charged for as a conversation. */
        r = charge_take(
                &rq->charge, (n + 1) * (sizeof(struct rec *) + 4 * sizeof(void *)), "a fork", e);
        if (r < 0)
                return r;
        pos = MIN(pos, seq_n_tokens(p->seq));
        r = seq_fork(&rq->fork_seq, p->seq, pos, e);
        if (r < 0)
                return r;
        rq->fork_recs = calloc(n + 1, sizeof(*rq->fork_recs));
        if (!rq->fork_recs)
                return err_set(e, ERR_NOMEM, "no memory to fork");
        rq->n_fork_recs = MIN(n, p->n_recs);
        rq->fork_link_from = p->link_from;
        for (size_t i = 0; i < rq->n_fork_recs; i++) {
                rq->fork_recs[i] = p->recs[i];
                if (rq->fork_recs[i])
                        rq->fork_recs[i]->n_refs++;
        }
        return 0;
}

static void update_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        struct sampling s = rq->sc.sampling;
        const char *name = rq->r.name && rq->r.name[0] ? rq->r.name : NULL;
        uint64_t id = rq->sc.id;
        unsigned tries = 0;

        if (name)
                j->r = check_name(name, &j->err);
        if (j->r < 0)
                return;
        j->r = store_conv_get(en->store, rq->r.uid, id, NULL, &rq->sc, &j->err);
        if (j->r < 0)
                return;
        s = rq->sc.sampling;
        sampling_merge(&s, &rq->r.sampling);
        do {
                j->r = store_conv_update(
                        en->store, id, name, rq->r.sampling.has ? &s : NULL, &j->err);
        } while (register_retry(en, &tries, j->r, &j->err));
        if (j->r == 0)
                j->r = store_conv_get(en->store, rq->r.uid, id, NULL, &rq->sc, &j->err);
}

static void update_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);

        if (j->r == 0)
                rq->conv->sampling = rq->sc.sampling;
        verb_row_done(en, j);
}

int verb_fork(struct engine *en, struct ereq *rq, struct err *e) {
        int r = keep_resolve(en, rq->conv, &rq->r, &rq->keep, e);

        rq->told = r == -ERR_CORRUPT;
        if (r == 0)
                r = fork_snapshot(en, rq, e);
        if (r < 0)
                return r;
        rq->sc.id = rq->conv->id;
        rq->conv->n_forks++;
        verb_submit(en, rq, fork_run, fork_done);
        return 0;
}

int verb_rewind(struct engine *en, struct ereq *rq, struct err *e) {
        int r = keep_resolve(en, rq->conv, &rq->r, &rq->keep, e);

        rq->told = r == -ERR_CORRUPT;
        if (r == 0)
                verb_submit(en, rq, rewind_run, rewind_done);
        return r;
}

void verb_close(struct engine *en, struct ereq *rq) {
        verb_submit(en, rq, close_run, close_done);
}

int verb_update(struct engine *en, struct ereq *rq, struct err *e) {
        int r = verb_check_sampling(en, &rq->r.sampling, e);

        if (r == 0)
                verb_submit(en, rq, update_run, update_done);
        return r;
}
