/* SPDX-License-Identifier: MIT */
/* Verbs that only look: Get, List, Tokenize, ModelInfo; and a conversation as an answer. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/util.h"
#include "engine/internal.h"


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

/* Moves texts and tokens from the request into the event. */
static int fill_turns(struct ereq *rq, struct engine_conv *out) {
        struct store_reading *x = &rq->reading;

        if (rq->r.verb != ENGINE_GET)
                return 0;
        out->damaged = x->damaged;
        out->damaged_turn = x->damaged ? x->n_sound_turns : 0;
        if (rq->r.want_turns) {
                out->turns = calloc(x->turns.n + 1, sizeof(*out->turns));
                if (!out->turns)
                        return -ERR_NOMEM;
                out->n_turn_list = (uint32_t)x->turns.n;
                for (size_t i = 0; i < x->turns.n; i++) {
                        const struct store_turn *t = &x->turns.turns[i];
                        struct engine_turn *to = &out->turns[i];

                        *to = (struct engine_turn){.role = (enum engine_role)t->role,
                                .start = t->start,
                                .end = t->end,
                                .finish = (enum engine_finish)t->finish,
                                .text = malloc(t->text_size + 1),
                                .text_size = t->text_size,
                                .created_usec = t->created_usec};
                        if (!to->text)
                                return -ERR_NOMEM;
                        if (t->text_size > 0)
                                memcpy(to->text, t->text, t->text_size);
                        to->text[t->text_size] = '\0';
                }
        }
        if (rq->r.want_tokens) {
                out->tokens = TAKE_PTR(x->tokens);
                out->n_token_list = (uint32_t)x->n_tokens;
        }
        return 0;
}

void verb_finish_conv(struct engine *en, struct ereq *rq) {
        struct event_node *n = engine_event_new(rq->r.handle, ENGINE_CONV, true);
        struct err e;

        err_set(&e, ERR_NOMEM, "no memory for the answer; the request was carried out");
        if (!n) {
                verb_fail(en, rq, &e);
                return;
        }
        if (engine_event_conv(&n->ev.conv, &rq->sc) < 0 || fill_turns(rq, &n->ev.conv) < 0) {
                engine_event_free(&n->ev);
                verb_fail(en, rq, &e);
                return;
        }
        n->ev.conv.n_not_kept = rq->n_not_kept;
        if (rq->n_not_kept > 0)
                n->ev.err = rq->why_not_kept;
        verb_release_conv(en, rq); /* so that it is not shown as busy with this very request */
        fill_residency(en, &rq->sc, rq->disk_size, &n->ev.conv);
        verb_finish(en, rq, n);
}

static void get_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        unsigned what = STORE_READ_SIZE;

        if (rq->r.want_turns)
                what |= STORE_READ_TURNS | STORE_READ_TEXTS;
        if (rq->r.want_tokens)
                what |= STORE_READ_TOKENS;
        j->r = store_read(
                en->store, rq->r.uid, rq->r.conv_id, rq->r.conv_name, what, &rq->reading, &j->err);
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

static void list_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        size_t max = rq->r.limit ? rq->r.limit : ENGINE_MAX_LIST;
        uint32_t uid = rq->r.all_users && rq->r.admin ? STORE_UID_ANY : rq->r.uid;
        _cleanup_(freep) struct store_conv *rows = NULL;
        uint64_t sizes[ENGINE_MAX_LIST + 1];

        /* One more than a page tells whether there are more. */
        rows = calloc(max + 1, sizeof(*rows));
        rq->list = calloc(max + 1, sizeof(*rq->list));
        if (!rows || !rq->list) {
                j->r = err_set(&j->err, ERR_NOMEM, "no memory for a list");
                return;
        }
        j->r = store_conv_list(
                en->store, uid, rq->r.after_id, rows, sizes, max + 1, &rq->n_list, &j->err);
        for (size_t i = 0; j->r == 0 && i < rq->n_list; i++)
                rq->list[i] = (struct list_row){.sc = rows[i], .disk_size = sizes[i]};
        rq->r.limit = (uint32_t)max;
}

static void list_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        struct event_node *n;
        struct err e;

        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        err_set(&e, ERR_NOMEM, "no memory for a list");
        n = engine_event_new(rq->r.handle, ENGINE_CONVS, true);
        if (!n) {
                verb_fail(en, rq, &e);
                return;
        }
        n->ev.convs.more = rq->n_list > rq->r.limit;
        n->ev.convs.convs = calloc(rq->n_list + 1, sizeof(*n->ev.convs.convs));
        for (size_t i = 0; n->ev.convs.convs && i < MIN(rq->n_list, (size_t)rq->r.limit); i++) {
                struct engine_conv *out = &n->ev.convs.convs[i];

                if (engine_event_conv(out, &rq->list[i].sc) < 0)
                        break;
                fill_residency(en, &rq->list[i].sc, rq->list[i].disk_size, out);
                n->ev.convs.n++;
        }
        if (n->ev.convs.n != MIN(rq->n_list, (size_t)rq->r.limit)) {
                engine_event_free(&n->ev);
                verb_fail(en, rq, &e);
                return;
        }
        verb_finish(en, rq, n);
}

void verb_list(struct engine *en, struct ereq *rq) {
        verb_submit(en, rq, list_run, list_done);
}

/* On a worker: a long text must not hold up the others' generation. */
static void tokenize_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        struct tok_fragment f = {rq->r.text, rq->r.text_size, rq->r.special};
        struct event_node *n;
        int32_t bos = tok_bos(en->tok);

        if (rq->r.add_bos && bos >= 0)
                j->r = tok_ids_append(&rq->input, &bos, 1, &j->err);
        if (j->r == 0)
                j->r = tok_encode(en->tok, &f, 1, false, true, 0, &rq->input, &j->err);
        if (j->r < 0)
                return;
        n = rq->answer = engine_event_new(rq->r.handle, ENGINE_TOKENS, true);
        if (n) {
                n->ev.tokens.n = rq->input.n;
                n->ev.tokens.ids = calloc(rq->input.n + 1, sizeof(int32_t));
                n->ev.tokens.pieces = calloc(rq->input.n + 1, sizeof(*n->ev.tokens.pieces));
        }
        if (!n || !n->ev.tokens.ids || !n->ev.tokens.pieces) {
                j->r = err_set(&j->err, ERR_NOMEM, "no memory for tokens");
                return;
        }
        for (size_t i = 0; i < rq->input.n; i++) {
                n->ev.tokens.ids[i] = rq->input.ids[i];
                event_fill_piece(en, &n->ev.tokens.pieces[i], rq->input.ids[i]);
        }
}

static void tokenize_done(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);

        if (j->r < 0)
                verb_fail(en, rq, &j->err);
        else
                verb_finish(en, rq, TAKE_PTR(rq->answer));
}

void verb_tokenize(struct engine *en, struct ereq *rq) {
        verb_submit(en, rq, tokenize_run, tokenize_done);
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
        struct event_node *n = engine_event_new(rq->r.handle, ENGINE_INFO, true);
        struct err e;

        if (!n) {
                err_set(&e, ERR_NOMEM, "no memory for an answer");
                verb_fail(en, rq, &e);
                return;
        }
        engine_describe_model(en, &n->ev.info);
        verb_finish(en, rq, n);
}
