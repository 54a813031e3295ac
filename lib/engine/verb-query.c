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

static void fill_residency(struct engine *engine, const struct store_conv *sc, uint64_t disk,
        struct engine_conv *out) {
        struct conv *c = map_get_u64(engine->convs, sc->id);

        if (c) {
                conv_fill_residency(engine, c, out);
        } else {
                out->disk_size = disk;
                out->residency = disk > 0 ? ENGINE_SPILLED : ENGINE_COLD;
        }
}

/* Moves texts and tokens from the request into its final event, with what is charged for them. */
static int fill_turns(struct request *request, struct engine_conv *out, struct err *e) {
        struct store_reading *x = &request->reading;

        if (request->r.verb != ENGINE_GET)
                return 0;
        out->damaged = x->damaged;
        out->damaged_turn = x->damaged ? x->n_sound_turns : 0;
        if (request->r.want_turns) {
                out->turns = event_calloc(request->final, x->turns.n, sizeof(*out->turns), e);
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
        if (request->r.want_tokens) {
                out->tokens = TAKE_PTR(x->tokens);
                out->n_token_list = (uint32_t)x->n_tokens;
        }
        event_adopt(request->final, &request->charge, request->load_size);
        request->load_size = 0;
        return 0;
}

void verb_finish_conv(struct engine *engine, struct request *request) {
        struct engine_event *ev = verb_answer(request, ENGINE_CONV);
        struct err e;

        if (event_conv(request->final, &ev->conv, &request->sc, &e) < 0 ||
                fill_turns(request, &ev->conv, &e) < 0) {
                if (request->r.verb != ENGINE_GET)
                        err_wrap(&e, -(int)e.code, "the request was carried out");
                verb_fail(engine, request, &e);
                return;
        }
        ev->conv.n_not_kept = request->n_not_kept;
        if (request->n_not_kept > 0)
                ev->err = request->why_not_kept;
        verb_release_conv(
                engine, request); /* so that it is not shown as busy with this very request */
        fill_residency(engine, &request->sc, request->disk_size, &ev->conv);
        verb_finish(engine, request);
}

static void get_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        unsigned what = STORE_READ_SIZE;

        if (request->r.want_turns)
                what |= STORE_READ_TURNS | STORE_READ_TEXTS;
        if (request->r.want_tokens)
                what |= STORE_READ_TOKENS;
        j->r = store_read_admitted(engine->store, request->r.uid, request->r.conv_id,
                request->r.conv_name, what, verb_admit_reading, request, &request->reading,
                &j->err);
        if (j->r < 0)
                return;
        request->sc = request->reading.conv;
        request->disk_size = request->reading.disk_size;
}

static void get_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        if (j->r == 0 && request->reading.damaged)
                conv_tell_damage(engine, &request->reading);
        verb_row_done(engine, j);
}

void verb_get(struct engine *engine, struct request *request) {
        verb_submit(engine, request, get_run, get_done);
}

/* Rows that a page may have: no more than a part of the share of all requests can hold. */
static size_t page_size(struct engine *engine, const struct engine_request *r) {
        size_t fit = ledger_budget(&engine->req_ledger) / LIST_PART / ROW_SIZE;
        size_t max = r->limit ? r->limit : ENGINE_MAX_LIST;

        return MAX(MIN(max, fit), (size_t)1);
}

static void list_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        size_t max = page_size(engine, &request->r);
        uint32_t uid = request->r.all_users && request->r.admin ? STORE_UID_ANY : request->r.uid;

        /* One more than a page tells whether there are more. */
        j->r = charge_take(&request->charge,
                (max + 1) * (sizeof(*request->list) + sizeof(uint64_t)), "a list", &j->err);
        if (j->r < 0)
                return;
        request->list = calloc(max + 1, sizeof(*request->list));
        request->list_disk_size = calloc(max + 1, sizeof(*request->list_disk_size));
        if (!request->list || !request->list_disk_size) {
                j->r = err_set(&j->err, ERR_NOMEM, "no memory for a list");
                return;
        }
        j->r = store_conv_list(engine->store, uid, request->r.after_id, request->list,
                request->list_disk_size, max + 1, &request->n_list, &j->err);
        request->r.limit = (uint32_t)max;
}

static void list_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        size_t n = MIN(request->n_list, (size_t)request->r.limit);
        struct engine_event *ev;

        if (j->r < 0) {
                verb_fail(engine, request, &j->err);
                return;
        }
        ev = verb_answer(request, ENGINE_CONVS);
        ev->convs.more = request->n_list > request->r.limit;
        ev->convs.convs = event_calloc(request->final, n, sizeof(*ev->convs.convs), &j->err);
        if (!ev->convs.convs) {
                verb_fail(engine, request, &j->err);
                return;
        }
        while (ev->convs.n < n) {
                size_t i = ev->convs.n;
                struct engine_conv *out = &ev->convs.convs[i];

                if (event_conv(request->final, out, &request->list[i], &j->err) < 0) {
                        verb_fail(engine, request, &j->err);
                        return;
                }
                fill_residency(engine, &request->list[i], request->list_disk_size[i], out);
                ev->convs.n++;
        }
        verb_finish(engine, request);
}

void verb_list(struct engine *engine, struct request *request) {
        verb_submit(engine, request, list_run, list_done);
}

/* The protocol's strings are UTF-8; names in model files and paths need not be. */
static const char *clean(const char *s) {
        return utf8_valid(s, strlen(s)) ? s : "(not UTF-8)";
}

void engine_describe_model(struct engine *engine, struct engine_model_info *ret) {
        const struct model_info *i = &engine->info;

        *ret = (struct engine_model_info){.name = clean(i->name),
                .arch = i->arch,
                .path = clean(engine->model_path),
                .chat_family = chat_family(engine->chat),
                .tokenizer = engine->tokenizer_name,
                .isa = kern_isa_name(kern_isa(engine->kern)),
                .kv_type = engine_kv_name(engine),
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

void verb_model_info(struct engine *engine, struct request *request) {
        engine_describe_model(engine, &verb_answer(request, ENGINE_INFO)->info);
        verb_finish(engine, request);
}
