/* SPDX-License-Identifier: MIT */
/* Verbs that only look: Get, List, Tokenize, ModelInfo; and a conversation as an answer. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/util.h"
#include "engine/internal.h"

#define GET_TRIES 16

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
        if (rq->r.verb != ENGINE_GET)
                return 0;
        if (rq->r.want_turns) {
                out->turns = calloc(rq->turns.n + 1, sizeof(*out->turns));
                if (!out->turns)
                        return -ERR_NOMEM;
                out->n_turns = (uint32_t)rq->turns.n;
                for (size_t i = 0; i < rq->turns.n; i++) {
                        const struct store_turn *t = &rq->turns.turns[i];
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
        if (rq->r.want_tokens)
                out->tokens = TAKE_PTR(rq->tokens);
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

static int links_size(struct engine *en, uint64_t id, uint64_t *ret, struct err *e) {
        struct store_gone links = {0};
        int r = store_links(en->store, id, &links, e);

        if (r < 0)
                return r;
        *ret = 0;
        for (size_t i = 0; i < links.n; i++)
                *ret += links.records[i].stored_size;
        store_gone_deinit(&links);
        return 0;
}

/* One look at everything that was asked for. Not one transaction: *ret_moved tells whether a commit
 * came between. */
static int get_once(struct engine *en, struct ereq *rq, bool *ret_moved, struct err *e) {
        struct engine_request *r = &rq->r;
        struct store_conv after;
        int k = store_conv_get(en->store, r->uid, r->conv_id, r->conv_name, &rq->sc, e);

        *ret_moved = false;
        if (k == 0)
                k = links_size(en, rq->sc.id, &rq->disk_size, e);
        if (k < 0 || !(r->want_turns || r->want_tokens))
                return k;
        store_turns_deinit(&rq->turns);
        free(TAKE_PTR(rq->tokens));
        if (r->want_turns)
                k = store_turns(en->store, rq->sc.id, true, &rq->turns, e);
        if (k == 0 && r->want_tokens) {
                rq->tokens = calloc((size_t)rq->sc.n_tokens + 1, sizeof(*rq->tokens));
                if (!rq->tokens)
                        return err_set(e, ERR_NOMEM, "no memory for %u tokens", rq->sc.n_tokens);
                k = store_tokens(en->store, rq->sc.id, rq->tokens, rq->sc.n_tokens, e);
        }
        if (store_conv_get(en->store, r->uid, rq->sc.id, NULL, &after, NULL) == 0)
                *ret_moved = after.revision != rq->sc.revision;
        return k;
}

static void get_run(struct engine *en, struct job *j) {
        bool moved = true;

        for (int i = 0; moved && i < GET_TRIES; i++)
                j->r = get_once(en, ereq_of(j), &moved, &j->err);
        if (j->r == 0 && moved)
                j->r = err_set(&j->err, ERR_BUSY, "the conversation changes too fast to be read");
}

void verb_get(struct engine *en, struct ereq *rq) {
        verb_submit(en, rq, get_run, verb_row_done);
}

static void list_run(struct engine *en, struct job *j) {
        struct ereq *rq = ereq_of(j);
        size_t max = rq->r.limit ? rq->r.limit : ENGINE_MAX_LIST;
        uint32_t uid = rq->r.all_users && rq->r.admin ? STORE_UID_ANY : rq->r.uid;
        _cleanup_(freep) struct store_conv *rows = NULL;

        /* One more than a page tells whether there are more. */
        rows = calloc(max + 1, sizeof(*rows));
        rq->list = calloc(max + 1, sizeof(*rq->list));
        if (!rows || !rq->list) {
                j->r = err_set(&j->err, ERR_NOMEM, "no memory for a list");
                return;
        }
        j->r = store_conv_list(en->store, uid, rq->r.after_id, rows, max + 1, &rq->n_list, &j->err);
        for (size_t i = 0; j->r == 0 && i < rq->n_list; i++) {
                rq->list[i].sc = rows[i];
                j->r = links_size(en, rows[i].id, &rq->list[i].disk_size, &j->err);
        }
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
