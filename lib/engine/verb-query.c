/* SPDX-License-Identifier: MIT */
/* Verbs that only look: Get, List, ModelInfo; and a conversation as an answer. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/util.h"
#include "engine/internal.h"

#define LIST_PART 4 /* of the share of all requests: a page */
/* A row as it is read, and in the answer, with its name. */
#define ROW_SIZE                                                                                   \
        (sizeof(struct store_conv) + sizeof(struct engine_conv) + sizeof(uint64_t) + STORE_NAME_MAX)

static void fill_residency(
        struct engine *en, const struct store_conv *sc, uint64_t disk, struct engine_conv *out) {
        struct conv *c = map_get_u64(en->convs, sc->id);

        if (c) {
                conv_fill_residency(en, c, out);
        } else {
                out->disk_size = disk;
                out->residency = disk > 0 ? ENGINE_SPILLED : ENGINE_COLD;
        }
}

/* Moves texts and tokens from the request into its final event, with what is charged for them. */
static int fill_turns(struct ereq *rq, struct engine_conv *out, struct err *e) {
        struct store_reading *x = &rq->reading;

        if (rq->r.verb != ENGINE_GET)
                return 0;
        out->damaged = x->damaged;
        out->damaged_turn = x->damaged ? x->n_sound_turns : 0;
        if (rq->r.want_turns) {
                out->turns = event_calloc(rq->final, x->turns.n, sizeof(*out->turns), e);
                if (!out->turns)
                        return -(int)e->code;
                out->n_turn_list = (uint32_t)x->turns.n;
                for (size_t i = 0; i < x->turns.n; i++) {
                        struct store_turn *t = &x->turns.turns[i];

                        out->turns[i] = (struct engine_turn){.role = (enum engine_role)t->role,
                                .start = t->start,
                                .end = t->end,
                                .finish = (enum engine_finish)t->finish,
                                .text = (uint8_t *)(uintptr_t)t->text,
                                .text_size = t->text_size,
                                .created_usec = t->created_usec};
                        t->text = NULL;
                }
        }
        if (rq->r.want_tokens) {
                out->tokens = TAKE_PTR(x->tokens);
                out->n_token_list = (uint32_t)x->n_tokens;
        }
        event_adopt(rq->final, &rq->charge, rq->load_size);
        rq->load_size = 0;
        return 0;
}

void verb_finish_conv(struct engine *en, struct ereq *rq) {
        struct engine_event *ev = verb_answer(rq, ENGINE_CONV);
        struct err e;

        if (event_conv(rq->final, &ev->conv, &rq->sc, &e) < 0 ||
                fill_turns(rq, &ev->conv, &e) < 0) {
                if (rq->r.verb != ENGINE_GET)
                        err_wrap(&e, -(int)e.code, "the request was carried out");
                verb_fail(en, rq, &e);
                return;
        }
        ev->conv.n_not_kept = rq->n_not_kept;
        if (rq->n_not_kept > 0)
                ev->err = rq->why_not_kept;
        verb_release_conv(en, rq); /* so that it is not shown as busy with this very request */
        fill_residency(en, &rq->sc, rq->disk_size, &ev->conv);
        verb_finish(en, rq);
}

static void get_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        unsigned what = STORE_READ_SIZE;

        if (rq->r.want_turns)
                what |= STORE_READ_TURNS | STORE_READ_TEXTS;
        if (rq->r.want_tokens)
                what |= STORE_READ_TOKENS;
        j->r = store_read_admitted(en->store, rq->r.uid, rq->r.conv_id, rq->r.conv_name, what,
                verb_admit_reading, rq, &rq->reading, &j->err);
        if (j->r < 0)
                return;
        rq->sc = rq->reading.conv;
        rq->disk_size = rq->reading.disk_size;
}

static void get_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);

        if (j->r == 0 && rq->reading.damaged)
                conv_tell_damage(en, &rq->reading);
        verb_row_done(en, j);
}

void verb_get(struct engine *en, struct ereq *rq) {
        verb_submit(en, rq, get_run, get_done);
}

/* Rows that a page may have: no more than a part of the share of all requests can hold. */
static size_t page_size(struct engine *en, const struct engine_request *r) {
        size_t fit = ledger_budget(&en->req_ledger) / LIST_PART / ROW_SIZE;
        size_t max = r->limit ? r->limit : ENGINE_MAX_LIST;

        return MAX(MIN(max, fit), (size_t)1);
}

static void list_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        size_t max = page_size(en, &rq->r);
        uint32_t uid = rq->r.all_users && rq->r.admin ? STORE_UID_ANY : rq->r.uid;

        /* One more than a page tells whether there are more. */
        j->r = charge_take(
                &rq->charge, (max + 1) * (sizeof(*rq->list) + sizeof(uint64_t)), "a list", &j->err);
        if (j->r < 0)
                return;
        rq->list = calloc(max + 1, sizeof(*rq->list));
        rq->list_disk_size = calloc(max + 1, sizeof(*rq->list_disk_size));
        if (!rq->list || !rq->list_disk_size) {
                j->r = err_set(&j->err, ERR_NOMEM, "no memory for a list");
                return;
        }
        j->r = store_conv_list(en->store, uid, rq->r.after_id, rq->list, rq->list_disk_size,
                max + 1, &rq->n_list, &j->err);
        rq->r.limit = (uint32_t)max;
}

static void list_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        size_t n = MIN(rq->n_list, (size_t)rq->r.limit);
        struct engine_event *ev;

        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        ev = verb_answer(rq, ENGINE_CONVS);
        ev->convs.more = rq->n_list > rq->r.limit;
        ev->convs.convs = event_calloc(rq->final, n, sizeof(*ev->convs.convs), &j->err);
        if (!ev->convs.convs) {
                verb_fail(en, rq, &j->err);
                return;
        }
        while (ev->convs.n < n) {
                size_t i = ev->convs.n;
                struct engine_conv *out = &ev->convs.convs[i];

                if (event_conv(rq->final, out, &rq->list[i], &j->err) < 0) {
                        verb_fail(en, rq, &j->err);
                        return;
                }
                fill_residency(en, &rq->list[i], rq->list_disk_size[i], out);
                ev->convs.n++;
        }
        verb_finish(en, rq);
}

void verb_list(struct engine *en, struct ereq *rq) {
        verb_submit(en, rq, list_run, list_done);
}

/* The protocol's strings are UTF-8; names in model files and paths need not be. */
static const char *clean(const char *s) {
        return utf8_valid(s, strlen(s)) ? s : "(not UTF-8)";
}

void engine_describe_model(struct engine *en, struct engine_model_info *ret) {
        const struct model_info *i = &en->info;

        *ret = (struct engine_model_info){.name = clean(i->name),
                .arch = i->arch,
                .path = clean(en->model_path),
                .chat_family = chat_family(en->chat),
                .tokenizer = en->tokenizer_name,
                .isa = kern_isa_name(kern_isa(en->kern)),
                .kv_type = engine_kv_name(en),
                .n_vocab = i->n_vocab,
                .n_layer = i->n_layer,
                .n_embd = i->n_embd,
                .context = i->context,
                .context_train = i->context_train,
                .block_tokens = i->block_tokens,
                .n_params = i->n_params,
                .weights_size = i->weights_size,
                .block_size = i->block_size,
                .fingerprint = {i->fingerprint.weights, i->fingerprint.rules}};
}

void verb_model_info(struct engine *en, struct ereq *rq) {
        engine_describe_model(en, &verb_answer(rq, ENGINE_INFO)->info);
        verb_finish(en, rq);
}
