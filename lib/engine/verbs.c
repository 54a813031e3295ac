/* SPDX-License-Identifier: MIT */
/*
 * Requests other than the steps of generation.
 *
 * A request about a conversation goes: resolve (register: (uid, id or name) → row, I6) → load (if
 * it is not in RAM) → act. Acting waits until no job changes the conversation's blocks. Verbs that
 * change a conversation hold it (conv->busy) until they end; the second one gets ERR_BUSY.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/internal.h"

#define LIST_PAGE 256

/* The request's pointers are const for its submitter; these are our copies. */
static void free_copy(const void *p) {
        free((void *)(uintptr_t)p);
}

struct ereq *ereq_free(struct ereq *rq) {
        if (!rq)
                return NULL;
        free_copy(rq->r.conv_name);
        free_copy(rq->r.name);
        free_copy(rq->r.system);
        free_copy(rq->r.text);
        free_copy(rq->r.tokens);
        for (size_t i = 0; i < rq->r.n_stops; i++)
                free_copy(rq->r.stops[i]);
        store_turns_deinit(&rq->turns);
        free(rq->tokens);
        store_gone_deinit(&rq->links);
        free(rq->list);
        seq_free(rq->fork_seq);
        free(rq->fork_recs);
        tok_ids_deinit(&rq->input);
        gen_deinit(&rq->g);
        if (rq->error)
                engine_event_free(&rq->error->ev);
        free(rq);
        return NULL;
}

/* Let go of the conversation; what was not committed is cut off. */
static void release_conv(struct engine *en, struct ereq *rq) {
        struct conv *c = rq->conv;

        if (!c)
                return;
        if (c->busy == rq) {
                c->busy = NULL;
                c->n_all = c->n_tokens;
                seq_unreserve(c->seq);
                if (seq_n_tokens(c->seq) > c->n_tokens)
                        seq_cut(c->seq, c->n_tokens);
                c->n_known = MIN(c->n_known, c->n_tokens);
        }
        rq->conv = NULL;
        conv_unuse(en, c);
}

static void forget(struct engine *en, struct ereq *rq) {
        release_conv(en, rq);
        for (size_t i = 0; i < rq->n_fork_recs; i++)
                rec_put(en, rq->fork_recs[i]);
        rq->n_fork_recs = 0;
        pthread_mutex_lock(&en->lock);
        list_unlink(&rq->all);
        map_remove_u64(en->by_handle, rq->r.handle);
        en->n_requests--;
        if (--rq->usage->n_requests == 0) {
                map_remove_u64(en->usage, rq->usage->uid);
                free(rq->usage);
        }
        pthread_mutex_unlock(&en->lock);
        ledger_release(&en->req_ledger, rq->charged);
        en->again = true;
        ereq_free(rq);
}

void verb_finish(struct engine *en, struct ereq *rq, struct event_node *n) {
        /* First let go, then tell: whoever sees the event may ask for the conversation at once. */
        forget(en, rq);
        event_send(en, n);
}

void verb_fail(struct engine *en, struct ereq *rq, const struct err *e) {
        /* Made when the request came, so that failing can't fail. */
        struct event_node *n = TAKE_PTR(rq->error);

        n->ev.err = *e;
        verb_finish(en, rq, n);
}

/* The row's residency without the conversation in RAM. */
static void cold_residency(const struct store_conv *sc, uint64_t disk, struct engine_conv *out) {
        (void)sc;
        out->disk_size = disk;
        out->residency = disk > 0 ? ENGINE_SPILLED : ENGINE_COLD;
}

static void fill_residency(
        struct engine *en, const struct store_conv *sc, uint64_t disk, struct engine_conv *out) {
        struct conv *c = map_get_u64(en->convs, sc->id);

        if (c)
                conv_fill_residency(en, c, out);
        else
                cold_residency(sc, disk, out);
}

/* Moves texts and tokens from the request into the event. */
static int fill_turns(struct ereq *rq, struct engine_conv *out) {
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
        struct event_node *n = event_new(rq->r.handle, ENGINE_CONV, true);
        struct err e;

        err_set(&e, ERR_NOMEM, "no memory for the answer; the request was carried out");
        if (!n) {
                verb_fail(en, rq, &e);
                return;
        }
        if (event_conv(&n->ev.conv, &rq->sc) < 0 || fill_turns(rq, &n->ev.conv) < 0) {
                engine_event_free(&n->ev);
                verb_fail(en, rq, &e);
                return;
        }
        release_conv(en, rq); /* so that it is not shown as busy with this very request */
        fill_residency(en, &rq->sc, rq->disk_size, &n->ev.conv);
        verb_finish(en, rq, n);
}

static void submit(struct engine *en, struct ereq *rq, void (*run)(struct engine *, struct job *),
        void (*done)(struct engine *, struct job *)) {
        rq->phase = PHASE_IO;
        rq->job.run = run;
        rq->job.done = done;
        io_submit(en, &rq->job);
}

static struct ereq *of(struct job *j) {
        return container_of(j, struct ereq, job);
}

/* For verbs whose job left the row in rq->sc. */
static void row_done(struct engine *en, struct job *j) {
        if (j->r < 0)
                verb_fail(en, of(j), &j->err);
        else
                verb_finish_conv(en, of(j));
}

/* --- names --- */

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

static int copy_name(char *dst, const char *name, struct err *e) {
        int r;

        dst[0] = '\0';
        if (!name || !name[0])
                return 0; /* the register chooses one */
        r = check_name(name, e);
        if (r == 0)
                strcpy(dst, name);
        return r;
}

static int check_quota(struct engine *en, uint32_t uid, struct err *e) {
        uint64_t n;
        int r = store_conv_count(en->store, uid, &n, e);

        if (r < 0)
                return r;
        if (n >= en->o.max_conversations_per_uid)
                return err_set(e, ERR_LIMIT, "user %u has %llu conversations, the limit is %u", uid,
                        (unsigned long long)n, en->o.max_conversations_per_uid);
        return 0;
}

/* --- open --- */

static void open_run(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        struct store_turn turn = {.role = CHAT_SYSTEM,
                .end = (uint32_t)rq->input.n,
                .text = rq->r.system,
                .text_size = rq->r.system ? strlen(rq->r.system) : 0,
                .created_usec = clock_realtime_usec()};

        j->r = check_quota(en, rq->r.uid, &j->err);
        if (j->r == 0)
                j->r = store_conv_create(en->store, &rq->sc, &turn, rq->input.n > 0, rq->input.ids,
                        rq->input.n, &j->err);
}

static int check_sampling(struct engine *en, const struct sampling *s, struct err *e) {
        struct sample_params p = SAMPLE_PARAMS_DEFAULT;
        struct sample_bias biases[SAMPLING_MAX_BIASES];

#define TAKE(bit, field)                                                                           \
        if (s->has & (bit))                                                                        \
        p.field = s->field
        TAKE(SAMPLING_TEMPERATURE, temperature);
        TAKE(SAMPLING_TOP_K, top_k);
        TAKE(SAMPLING_TOP_P, top_p);
        TAKE(SAMPLING_MIN_P, min_p);
        TAKE(SAMPLING_REPETITION, repetition_penalty);
        TAKE(SAMPLING_PRESENCE, presence_penalty);
        TAKE(SAMPLING_FREQUENCY, frequency_penalty);
        TAKE(SAMPLING_LAST_N, penalty_last_n);
#undef TAKE
        if (s->has & SAMPLING_BIASES) {
                for (uint32_t i = 0; i < s->n_biases; i++)
                        biases[i] = (struct sample_bias){s->biases[i].token, s->biases[i].bias};
                p.biases = biases;
                p.n_biases = s->n_biases;
        }
        return sample_params_validate(&p, en->info.n_vocab, e);
}

static void open_start(struct engine *en, struct ereq *rq) {
        struct err e;
        int r;

        rq->sc = (struct store_conv){.uid = rq->r.uid,
                .model = en->info.fingerprint,
                .vocab = en->vocab_hash,
                .sampling = rq->r.sampling};
        r = copy_name(rq->sc.name, rq->r.name, &e);
        if (r == 0)
                r = check_sampling(en, &rq->r.sampling, &e);
        if (r == 0 && rq->r.system) {
                r = chat_append_message(en->chat, CHAT_EMPTY, CHAT_SYSTEM, rq->r.system,
                        strlen(rq->r.system), en->info.context, &rq->input, &e);
                if (r == -ERR_LIMIT)
                        r = err_set(&e, ERR_CONTEXT,
                                "the system message alone is longer than the context of %u tokens",
                                en->info.context);
        }
        if (r < 0)
                verb_fail(en, rq, &e);
        else
                submit(en, rq, open_run, row_done);
}

/* --- get, list --- */

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

static void get_run(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        struct engine_request *r = &rq->r;

        j->r = store_conv_get(en->store, r->uid, r->conv_id, r->conv_name, &rq->sc, &j->err);
        if (j->r == 0)
                j->r = links_size(en, rq->sc.id, &rq->disk_size, &j->err);
        if (j->r == 0 && r->want_turns)
                j->r = store_turns(en->store, rq->sc.id, true, &rq->turns, &j->err);
        if (j->r == 0 && r->want_tokens) {
                rq->tokens = calloc(rq->sc.n_tokens + 1, sizeof(*rq->tokens));
                if (!rq->tokens)
                        j->r = err_set(
                                &j->err, ERR_NOMEM, "no memory for %u tokens", rq->sc.n_tokens);
                else
                        j->r = store_tokens(
                                en->store, rq->sc.id, rq->tokens, rq->sc.n_tokens, &j->err);
        }
}

static void list_run(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        size_t max = rq->r.limit ? MIN(rq->r.limit, (uint32_t)LIST_PAGE) : LIST_PAGE;
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
        struct ereq *rq = of(j);
        struct event_node *n;
        struct err e;

        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        err_set(&e, ERR_NOMEM, "no memory for a list");
        n = event_new(rq->r.handle, ENGINE_CONVS, true);
        if (!n) {
                verb_fail(en, rq, &e);
                return;
        }
        n->ev.convs.more = rq->n_list > rq->r.limit;
        n->ev.convs.convs = calloc(rq->n_list + 1, sizeof(*n->ev.convs.convs));
        for (size_t i = 0; n->ev.convs.convs && i < MIN(rq->n_list, (size_t)rq->r.limit); i++) {
                struct engine_conv *out = &n->ev.convs.convs[i];

                if (event_conv(out, &rq->list[i].sc) < 0)
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

/* --- tokenize, info --- */

static void tokenize(struct engine *en, struct ereq *rq) {
        struct tok_fragment f = {rq->r.text, rq->r.text_size, rq->r.special};
        struct event_node *n = NULL;
        struct err e;
        int32_t bos = tok_bos(en->tok);
        int r = 0;

        if (rq->r.add_bos && bos >= 0)
                r = tok_ids_append(&rq->input, &bos, 1, &e);
        if (r == 0)
                r = tok_encode(en->tok, &f, 1, false, true, 0, &rq->input, &e);
        if (r == 0)
                n = event_new(rq->r.handle, ENGINE_TOKENS, true);
        if (n) {
                n->ev.tokens.n = rq->input.n;
                n->ev.tokens.ids = calloc(rq->input.n + 1, sizeof(int32_t));
                n->ev.tokens.pieces = calloc(rq->input.n + 1, sizeof(*n->ev.tokens.pieces));
        }
        if (r == 0 && (!n || !n->ev.tokens.ids || !n->ev.tokens.pieces))
                r = err_set(&e, ERR_NOMEM, "no memory for tokens");
        if (r < 0) {
                engine_event_free(n ? &n->ev : NULL);
                verb_fail(en, rq, &e);
                return;
        }
        for (size_t i = 0; i < rq->input.n; i++) {
                struct engine_logprob *p = &n->ev.tokens.pieces[i];

                n->ev.tokens.ids[i] = p->token = rq->input.ids[i];
                p->text_size = (uint8_t)MIN(
                        tok_piece(en->tok, p->token, true, (char *)p->text, sizeof(p->text)),
                        sizeof(p->text));
        }
        verb_finish(en, rq, n);
}

/* The protocol's strings are UTF-8; names in model files and paths need not be. */
static const char *clean(const char *s) {
        return utf8_valid(s, strlen(s)) ? s : "(not UTF-8)";
}

static void model_information(struct engine *en, struct ereq *rq) {
        struct event_node *n = event_new(rq->r.handle, ENGINE_INFO, true);
        const struct model_info *i = &en->info;
        struct err e;

        if (!n) {
                err_set(&e, ERR_NOMEM, "no memory for an answer");
                verb_fail(en, rq, &e);
                return;
        }
        n->ev.info = (struct engine_model_info){.name = clean(i->name),
                .arch = i->arch,
                .path = clean(en->model_path),
                .chat_family = chat_family(en->chat),
                .tokenizer = en->tokenizer_name,
                .isa = kern_isa_name(kern_isa(en->kern)),
                .kv_type = en->o.kv_f32 ? "f32" : "f16",
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
        verb_finish(en, rq, n);
}

/* --- resolve and load --- */

static void resolve_run(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);

        j->r = store_conv_get(
                en->store, rq->r.uid, rq->r.conv_id, rq->r.conv_name, &rq->sc, &j->err);
}

static void load_run(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        uint64_t id = rq->sc.id;
        struct store_gone gone = {0};

        j->r = store_conv_get(en->store, rq->r.uid, id, NULL, &rq->sc, &j->err);
        if (j->r < 0)
                return;
        if (!fingerprint_equal(&rq->sc.model, &en->info.fingerprint)) {
                /* Memory of other weights or rules: of no use here (I6). The tokens stay. */
                j->r = store_unlink_from(en->store, id, 0, &gone, &j->err);
                if (j->r < 0)
                        return;
                residency_release(en, &gone);
                store_gone_deinit(&gone);
        }
        free(rq->tokens);
        rq->tokens = calloc(rq->sc.n_tokens + 1, sizeof(*rq->tokens));
        if (!rq->tokens) {
                j->r = err_set(&j->err, ERR_NOMEM, "no memory for %u tokens", rq->sc.n_tokens);
                return;
        }
        j->r = store_tokens(en->store, id, rq->tokens, rq->sc.n_tokens, &j->err);
        if (j->r == 0)
                j->r = store_turns(en->store, id, false, &rq->turns, &j->err);
        if (j->r == 0)
                j->r = store_links(en->store, id, &rq->links, &j->err);
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

static void load_done(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        struct conv *c;

        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        /* Somebody else may have loaded it meanwhile. */
        c = map_get_u64(en->convs, rq->sc.id);
        if (!c) {
                j->r = conv_new(&c, en, &rq->sc, rq->tokens, &rq->turns, &j->err);
                if (j->r == 0) {
                        j->r = attach_links(en, c, &rq->links, &j->err);
                        if (j->r < 0)
                                conv_unload(en, c);
                }
                if (j->r < 0) {
                        verb_fail(en, rq, &j->err);
                        return;
                }
        }
        store_turns_deinit(&rq->turns);
        rq->turns = (struct store_turns){0};
        free(TAKE_PTR(rq->tokens));
        store_gone_deinit(&rq->links);
        rq->links = (struct store_gone){0};
        take_conv(en, rq, c);
}

static void resolve_done(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        struct conv *c;

        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        c = map_get_u64(en->convs, rq->sc.id);
        if (c)
                take_conv(en, rq, c);
        else
                submit(en, rq, load_run, load_done);
}

/* --- acting on a loaded conversation --- */

static int turns_kept(
        const struct conv *c, const struct engine_request *r, uint32_t *ret, struct err *e) {
        uint32_t keep = c->n_turns;

        if (r->at_turn != ENGINE_UNSET) {
                if (r->at_turn > c->n_turns)
                        return err_set(e, ERR_INVALID, "turn %u of %u", r->at_turn, c->n_turns);
                keep = r->at_turn;
        } else if (r->verb == ENGINE_REWIND) {
                if (r->drop_turns > c->n_turns)
                        return err_set(e, ERR_INVALID, "cannot drop %u turns of %u", r->drop_turns,
                                c->n_turns);
                keep = c->n_turns - r->drop_turns;
        }
        *ret = keep;
        return 0;
}

static void rewind_run(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        struct store_gone gone = {0};

        j->r = store_rewind(en->store, rq->sc.id, rq->keep_turns, en->info.block_tokens,
                &rq->revision, &gone, &j->err);
        if (j->r < 0)
                return;
        residency_release(en, &gone);
        store_gone_deinit(&gone);
        j->r = store_conv_get(en->store, rq->r.uid, rq->sc.id, NULL, &rq->sc, &j->err);
}

static void rewind_done(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        struct conv *c = rq->conv;
        uint32_t bt = en->info.block_tokens;

        if (j->r < 0) {
                c->stale = true; /* it may have happened, but not all of it came back */
                verb_fail(en, rq, &j->err);
                return;
        }
        c->n_turns = rq->keep_turns;
        c->n_tokens = c->n_all = rq->sc.n_tokens;
        c->revision = rq->revision;
        c->n_known = MIN(c->n_known, c->n_tokens);
        if (seq_n_tokens(c->seq) > c->n_tokens)
                seq_cut(c->seq, c->n_tokens);
        conv_drop_recs(en, c, (c->n_tokens + bt - 1) / bt);
        verb_finish_conv(en, rq);
}

static void close_run(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        struct store_gone gone = {0};

        j->r = store_conv_delete(en->store, rq->sc.id, &gone, &j->err);
        if (j->r < 0)
                return;
        residency_release(en, &gone);
        store_gone_deinit(&gone);
}

static void finish_empty(struct engine *en, struct ereq *rq) {
        struct event_node *n = event_new(rq->r.handle, ENGINE_EMPTY, true);
        struct err e;

        if (n) {
                verb_finish(en, rq, n);
                return;
        }
        err_set(&e, ERR_NOMEM, "no memory for an answer; the request was carried out");
        verb_fail(en, rq, &e);
}

static void close_done(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);

        if (j->r < 0) {
                verb_fail(en, rq, &j->err);
                return;
        }
        rq->conv->stale = true;
        finish_empty(en, rq);
}

static void fork_run(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        uint64_t parent = rq->sc.id;

        rq->sc = (struct store_conv){.uid = rq->r.uid};
        j->r = check_quota(en, rq->r.uid, &j->err);
        if (j->r == 0)
                j->r = copy_name(rq->sc.name, rq->r.name, &j->err);
        if (j->r == 0)
                j->r = store_conv_fork(en->store, parent, rq->keep_turns, &rq->sc, &j->err);
}

/* The child exists in the register; give it a life in RAM, too. If that fails it is loaded when
 * needed. */
static void fork_adopt(struct engine *en, struct ereq *rq) {
        struct conv *p = rq->conv, *c;
        struct store_turns none = {0};

        if (conv_new(&c, en, &rq->sc, p->tokens, &none, NULL) < 0)
                return;
        for (uint32_t i = 0; i < rq->keep_turns; i++)
                if (conv_add_turn(c, &p->turns[i], NULL) < 0) {
                        conv_unload(en, c);
                        return;
                }
        seq_free(c->seq);
        c->seq = TAKE_PTR(rq->fork_seq);
        free(c->recs);
        c->recs = TAKE_PTR(rq->fork_recs);
        c->n_recs = rq->n_fork_recs;
        rq->n_fork_recs = 0;
        c->n_known = MIN(p->n_known, c->n_tokens);
}

static void fork_done(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);

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
        uint32_t pos = rq->keep_turns ? p->turns[rq->keep_turns - 1].end : 0;
        size_t n = (pos + bt - 1) / bt;
        int r;

        pos = MIN(pos, seq_n_tokens(p->seq));
        r = seq_fork(&rq->fork_seq, p->seq, pos, e);
        if (r < 0)
                return r;
        rq->fork_recs = calloc(n + 1, sizeof(*rq->fork_recs));
        if (!rq->fork_recs)
                return err_set(e, ERR_NOMEM, "no memory to fork");
        rq->n_fork_recs = MIN(n, p->n_recs);
        for (size_t i = 0; i < rq->n_fork_recs; i++) {
                rq->fork_recs[i] = p->recs[i];
                if (rq->fork_recs[i])
                        rq->fork_recs[i]->n_refs++;
        }
        return 0;
}

static void update_run(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);
        struct sampling s = rq->sc.sampling;
        const char *name = rq->r.name && rq->r.name[0] ? rq->r.name : NULL;
        uint64_t id = rq->sc.id;

        if (name)
                j->r = check_name(name, &j->err);
        if (j->r < 0)
                return;
        j->r = store_conv_get(en->store, rq->r.uid, id, NULL, &rq->sc, &j->err);
        if (j->r < 0)
                return;
        s = rq->sc.sampling;
        sampling_merge(&s, &rq->r.sampling);
        j->r = store_conv_update(en->store, id, name, rq->r.sampling.has ? &s : NULL, &j->err);
        if (j->r == 0)
                j->r = store_conv_get(en->store, rq->r.uid, id, NULL, &rq->sc, &j->err);
}

static void update_done(struct engine *en, struct job *j) {
        struct ereq *rq = of(j);

        if (j->r == 0)
                rq->conv->sampling = rq->sc.sampling;
        row_done(en, j);
}

static void evict_then(struct engine *en, struct ereq *rq) {
        verb_finish_conv(en, rq);
}

static void act_cancel(struct engine *en, struct ereq *rq) {
        if (rq->conv->busy) {
                atomic_store(&rq->conv->busy->cancel, true);
                en->again = true;
        }
        finish_empty(en, rq);
}

static int expect(const struct ereq *rq, struct err *e) {
        if (rq->r.has_expect_revision && rq->r.expect_revision != rq->conv->revision)
                return err_set(e, ERR_CONFLICT, "the conversation is at revision %llu, not %llu",
                        (unsigned long long)rq->conv->revision,
                        (unsigned long long)rq->r.expect_revision);
        return 0;
}

/* Fork changes nothing of the parent, and a Continue only appends: they go together. */
static int act_fork(struct engine *en, struct ereq *rq, struct err *e) {
        struct conv *c = rq->conv;
        int r = expect(rq, e);

        if (r == 0 && c->busy && c->busy->r.verb != ENGINE_CONTINUE &&
                c->busy->r.verb != ENGINE_WARM)
                r = err_set(e, ERR_BUSY, "the conversation is being changed by another request");
        if (r == 0)
                r = turns_kept(c, &rq->r, &rq->keep_turns, e);
        if (r == 0)
                r = fork_snapshot(en, rq, e);
        if (r < 0)
                return r;
        rq->sc.id = c->id;
        c->n_forks++;
        submit(en, rq, fork_run, fork_done);
        return 0;
}

static int act_exclusive(struct engine *en, struct ereq *rq, struct err *e) {
        struct conv *c = rq->conv;
        int r;

        if (c->busy ||
                (c->n_forks > 0 && rq->r.verb != ENGINE_CONTINUE && rq->r.verb != ENGINE_WARM))
                return err_set(e, ERR_BUSY, "another request holds the conversation");
        r = expect(rq, e);
        if (r < 0)
                return r;
        c->busy = rq;
        rq->sc.id = c->id;
        switch (rq->r.verb) {
        case ENGINE_CONTINUE:
        case ENGINE_WARM:
                generate_start(en, rq);
                return 0;
        case ENGINE_REWIND:
                r = turns_kept(c, &rq->r, &rq->keep_turns, e);
                if (r == 0)
                        submit(en, rq, rewind_run, rewind_done);
                return r;
        case ENGINE_CLOSE:
                submit(en, rq, close_run, close_done);
                return 0;
        case ENGINE_UPDATE:
                r = check_sampling(en, &rq->r.sampling, e);
                if (r == 0)
                        submit(en, rq, update_run, update_done);
                return r;
        case ENGINE_EVICT:
                return residency_evict(en, c, evict_then, rq, e);
        default:
                return err_set(e, ERR_INVALID, "unknown verb %d", rq->r.verb);
        }
}

void verb_act(struct engine *en, struct ereq *rq) {
        struct conv *c = rq->conv;
        struct err e;
        int r;

        if (c->stale) {
                err_set(&e, ERR_BUSY, "the conversation is being closed or loaded anew");
                verb_fail(en, rq, &e);
                return;
        }
        if (rq->r.verb == ENGINE_CANCEL) {
                act_cancel(en, rq);
                return;
        }
        if (en->stopping) {
                err_set(&e, ERR_SHUTDOWN, "the daemon is stopping");
                verb_fail(en, rq, &e);
                return;
        }
        if (c->n_io > 0 && !c->busy) {
                rq->phase = PHASE_PARKED;
                list_append(&c->waiters, &rq->link);
                return;
        }
        r = rq->r.verb == ENGINE_FORK ? act_fork(en, rq, &e) : act_exclusive(en, rq, &e);
        if (r < 0)
                verb_fail(en, rq, &e);
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
                open_start(en, rq);
                break;
        case ENGINE_GET:
                submit(en, rq, get_run, row_done);
                break;
        case ENGINE_LIST:
                submit(en, rq, list_run, list_done);
                break;
        case ENGINE_TOKENIZE:
                tokenize(en, rq);
                break;
        case ENGINE_MODEL_INFO:
                model_information(en, rq);
                break;
        case ENGINE_STATS:
                stats_answer(en, rq);
                break;
        default:
                submit(en, rq, resolve_run, resolve_done);
        }
}
