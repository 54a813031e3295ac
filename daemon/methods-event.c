/* SPDX-License-Identifier: MIT */
/*
 * Turns the engine's events into messages. Each message is assembled in a scratch area from pieces
 * that borrow from the event, then packed and dropped.
 */
#include "base/util.h"
#include "daemon/methods-private.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Enumerators that are sent unchanged, or increased by one. */
#define SAME(engine, wire) static_assert((int)(engine) == (int)(wire), #engine)
SAME(ENGINE_FINISH_NONE, CONFAB__V1__FINISH_REASON__FINISH_UNSPECIFIED);
SAME(ENGINE_FINISH_STOP, CONFAB__V1__FINISH_REASON__FINISH_STOP);
SAME(ENGINE_FINISH_STOP_STRING, CONFAB__V1__FINISH_REASON__FINISH_STOP_STRING);
SAME(ENGINE_FINISH_LENGTH, CONFAB__V1__FINISH_REASON__FINISH_LENGTH);
SAME(ENGINE_FINISH_CONTEXT, CONFAB__V1__FINISH_REASON__FINISH_CONTEXT);
SAME(ENGINE_FINISH_CANCELLED, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
SAME(ENGINE_RESIDENCY_NONE, CONFAB__V1__RESIDENCY__RESIDENCY_UNSPECIFIED);
SAME(ENGINE_RESIDENT, CONFAB__V1__RESIDENCY__RESIDENCY_RESIDENT);
SAME(ENGINE_PARTIAL, CONFAB__V1__RESIDENCY__RESIDENCY_PARTIAL);
SAME(ENGINE_SPILLED, CONFAB__V1__RESIDENCY__RESIDENCY_SPILLED);
SAME(ENGINE_COLD, CONFAB__V1__RESIDENCY__RESIDENCY_COLD);
SAME(ENGINE_SYSTEM + 1, CONFAB__V1__ROLE__ROLE_SYSTEM);
SAME(ENGINE_USER + 1, CONFAB__V1__ROLE__ROLE_USER);
SAME(ENGINE_ASSISTANT + 1, CONFAB__V1__ROLE__ROLE_ASSISTANT);
SAME(ENGINE_RAW + 1, CONFAB__V1__ROLE__ROLE_RAW);
SAME(ENGINE_TOOL + 1, CONFAB__V1__ROLE__ROLE_TOOL);
SAME(ENGINE_PART_TEXT + 1, CONFAB__V1__PART_KIND__PART_TEXT);
SAME(ENGINE_PART_REASONING + 1, CONFAB__V1__PART_KIND__PART_REASONING);
SAME(ENGINE_PART_CALL + 1, CONFAB__V1__PART_KIND__PART_CALL);
SAME(ENGINE_DIFFERS_END + 1, CONFAB__V1__DIFFERS__DIFFERS_END);
SAME(ENGINE_DIFFERS_NEW + 1, CONFAB__V1__DIFFERS__DIFFERS_NEW);
SAME(ENGINE_DIFFERS_TOKEN + 1, CONFAB__V1__DIFFERS__DIFFERS_TOKEN);
SAME(ENGINE_DIFFERS_LOST + 1, CONFAB__V1__DIFFERS__DIFFERS_LOST);
SAME(ENGINE_DIFFERS_PARTIAL + 1, CONFAB__V1__DIFFERS__DIFFERS_PARTIAL);
SAME(ENGINE_DIFFERS_PRIVATE + 1, CONFAB__V1__DIFFERS__DIFFERS_PRIVATE);
#undef SAME

static int no_memory(struct err *e) {
        return err_set(e, ERR_NOMEM, "no memory for an answer");
}

#define SET(m, field, value)                                                                       \
        do {                                                                                       \
                (m)->has_##field = true;                                                           \
                (m)->field = (value);                                                              \
        } while (0)

static int put_biases(
        struct scratch *s, const struct sampling *in, Confab__V1__Sampling *m, struct err *e) {
        Confab__V1__LogitBias *items;

        if (!(in->has & SAMPLING_BIASES) || in->n_biases == 0)
                return 0;
        items = scratch_alloc(s, in->n_biases, sizeof(*items));
        m->logit_bias = scratch_alloc(s, in->n_biases, sizeof(*m->logit_bias));
        if (!items || !m->logit_bias)
                return no_memory(e);
        for (uint32_t i = 0; i < in->n_biases; i++) {
                confab__v1__logit_bias__init(&items[i]);
                SET(&items[i], token, in->biases[i].token);
                SET(&items[i], bias, in->biases[i].bias);
                m->logit_bias[i] = &items[i];
        }
        m->n_logit_bias = in->n_biases;
        return 0;
}

static int put_sampling(
        struct scratch *s, const struct sampling *in, Confab__V1__Sampling **ret, struct err *e) {
        Confab__V1__Sampling *m;

        if (!in->has)
                return 0;
        m = scratch_alloc(s, 1, sizeof(*m));
        if (!m)
                return no_memory(e);
        confab__v1__sampling__init(m);
#define PUT(bit, field, from)                                                                      \
        if (in->has & (bit))                                                                       \
        SET(m, field, in->from)
        PUT(SAMPLING_TEMPERATURE, temperature, temperature);
        PUT(SAMPLING_TOP_K, top_k, top_k);
        PUT(SAMPLING_TOP_P, top_p, top_p);
        PUT(SAMPLING_MIN_P, min_p, min_p);
        PUT(SAMPLING_REPETITION, repetition_penalty, repetition_penalty);
        PUT(SAMPLING_PRESENCE, presence_penalty, presence_penalty);
        PUT(SAMPLING_FREQUENCY, frequency_penalty, frequency_penalty);
        PUT(SAMPLING_LAST_N, penalty_last_n, penalty_last_n);
        PUT(SAMPLING_SEED, seed, seed);
#undef PUT
        *ret = m;
        return put_biases(s, in, m, e);
}

static int put_turn(
        struct scratch *s, const struct engine_turn *t, Confab__V1__Turn *m, struct err *e) {
        confab__v1__turn__init(m);
        SET(m, role, (Confab__V1__Role)((unsigned)t->role + 1));
        SET(m, start, t->start);
        SET(m, end, t->end);
        if (t->finish)
                SET(m, finish, (Confab__V1__FinishReason)t->finish);
        if (t->created_usec)
                SET(m, created_usec, t->created_usec);
        m->has_text = t->text != NULL;
        m->text.data = t->text;
        m->text.len = t->text_size;
        m->tools = t->tools;
        if (methods_put_results(s, t->results, t->n_results, &m->results, &m->n_results, e) < 0 ||
                methods_put_parts(s, t->parts, t->n_parts, &m->parts, &m->n_parts, e) < 0 ||
                methods_put_run(s, t->figures, &m->run, e) < 0)
                return -ERR_NOMEM;
        return 0;
}

/* A reply that is not done. */
static int put_writing(struct scratch *s, const struct engine_writing *w,
        Confab__V1__Conversation *conv, struct err *e) {
        Confab__V1__Writing *m;

        if (!w)
                return 0;
        m = scratch_alloc(s, 1, sizeof(*m));
        if (!m)
                return no_memory(e);
        confab__v1__writing__init(m);
        m->turn = scratch_alloc(s, 1, sizeof(*m->turn));
        if (!m->turn)
                return no_memory(e);
        SET(m, state, (Confab__V1__WritingState)w->state);
        SET(m, revision, w->revision);
        SET(m, done, w->done);
        SET(m, total, w->total);
        SET(m, n_generated, w->n_generated);
        conv->writing = m;
        return put_turn(s, &w->turn, m->turn, e);
}

static int put_turns(struct scratch *s, const struct engine_conv *c, Confab__V1__Conversation *m,
        struct err *e) {
        Confab__V1__Turn *items;

        if (!c->turns || c->n_turn_list == 0)
                return 0;
        items = scratch_alloc(s, c->n_turn_list, sizeof(*items));
        m->turn_list = scratch_alloc(s, c->n_turn_list, sizeof(*m->turn_list));
        if (!items || !m->turn_list)
                return no_memory(e);
        for (uint32_t i = 0; i < c->n_turn_list; i++) {
                if (put_turn(s, &c->turns[i], &items[i], e) < 0)
                        return -ERR_NOMEM;
                m->turn_list[i] = &items[i];
        }
        m->n_turn_list = c->n_turn_list;
        return 0;
}

static Confab__V1__Hit *put_hit(struct scratch *s, const struct engine_conv *c) {
        Confab__V1__Hit *m = scratch_alloc(s, 1, sizeof(*m));

        if (!m)
                return NULL;
        confab__v1__hit__init(m);
        m->snippet = c->snippet;
        if (c->hit_turn != ENGINE_UNSET)
                SET(m, turn, c->hit_turn);
        return m;
}

static int put_conv(struct scratch *s, const struct engine_conv *c, Confab__V1__Conversation *m,
        struct err *e) {
        int r;

        confab__v1__conversation__init(m);
        SET(m, id, c->id);
        m->name = c->name;
        SET(m, uid, owner_uid(c->owner));
        m->tenant = c->tenant;
        SET(m, parent, c->parent);
        SET(m, fork_pos, c->fork_pos);
        SET(m, revision, c->revision);
        SET(m, n_tokens, c->n_tokens);
        SET(m, n_turns, c->n_turns);
        SET(m, residency, (Confab__V1__Residency)c->residency);
        SET(m, ram_bytes, c->ram_size);
        SET(m, disk_bytes, c->disk_size);
        SET(m, created_usec, c->created_usec);
        SET(m, updated_usec, c->updated_usec);
        SET(m, busy, c->busy);
        SET(m, generating, c->generating);
        SET(m, n_published, c->n_published);
        SET(m, private_memory, c->private_memory);
        SET(m, pinned, c->pinned);
        SET(m, overflow, (Confab__V1__Overflow)c->overflow);
        SET(m, dropped_from, c->dropped_from);
        SET(m, dropped_to, c->dropped_to);
        m->tools = c->tools;
        if (c->damaged)
                SET(m, damaged_turn, c->damaged_turn);
        SET(m, other_vocabulary, c->other_vocab);
        SET(m, unusable_bytes, c->unusable_size);
        SET(m, unanswered, c->unanswered);
        if (c->carried) {
                SET(m, carried, true);
                SET(m, n_tokens_before, c->n_tokens_before);
                SET(m, n_biases_dropped, c->n_biases_dropped);
        }
        r = put_sampling(s, &c->sampling, &m->sampling, e);
        if (r == 0)
                r = methods_put_about(s, c->about, &m->about, e);
        if (r == 0)
                r = put_turns(s, c, m, e);
        if (r == 0)
                r = put_writing(s, c->writing, m, e);
        if (r < 0)
                return r;
        if (c->snippet && !(m->hit = put_hit(s, c)))
                return no_memory(e);
        if (c->is_page)
                SET(m, first_turn, c->first_turn);
        if (c->tokens) {
                m->token_list = c->tokens;
                m->n_token_list = c->n_token_list;
        }
        return 0;
}

static void send_conv(struct request *r, const struct engine_event *in) {
        _cleanup_(scratch_deinit) struct scratch s = {};
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation m;
        struct err e;

        if (put_conv(&s, &in->conv, &m, &e) < 0) {
                reply_error(r->peer, r->id, &e);
                return;
        }
        if (in->conv.n_not_kept > 0) {
                SET(&m, n_not_kept, in->conv.n_not_kept);
                m.why_not_kept = proto_borrow(in->err.msg);
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        ev.conversation = &m;
        reply_send(r->peer, r->id, &ev, true);
}

static void send_found(struct request *r, const struct engine_event *in) {
        _cleanup_(scratch_deinit) struct scratch s = {};
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Found m = CONFAB__V1__FOUND__INIT;
        Confab__V1__Conversation conversation;
        struct err e;

        if (in->conv.id != 0) {
                if (put_conv(&s, &in->conv, &conversation, &e) < 0) {
                        reply_error(r->peer, r->id, &e);
                        return;
                }
                m.conversation = &conversation;
                SET(&m, at_turn, in->found.at_turn);
                SET(&m, n_messages, in->found.n_messages);
                SET(&m, other_session, in->found.other_session);
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_FOUND;
        ev.found = &m;
        reply_send(r->peer, r->id, &ev, true);
}

/* Send as many as fit into the peer's longest message; "more" tells it to ask again. */
static void send_convs(struct request *r, const struct engine_event *in) {
        char cursor[METHODS_CURSOR_SIZE];
        _cleanup_(scratch_deinit) struct scratch s = {};
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversations m = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Conversation *items;
        size_t n = in->convs.n;
        struct err e;

        items = scratch_alloc(&s, n + 1, sizeof(*items));
        m.conversations = scratch_alloc(&s, n + 1, sizeof(*m.conversations));
        if (!items || !m.conversations) {
                no_memory(&e);
                reply_error(r->peer, r->id, &e);
                return;
        }
        for (size_t i = 0; i < n; i++) {
                if (put_conv(&s, &in->convs.convs[i], &items[i], &e) < 0) {
                        reply_error(r->peer, r->id, &e);
                        return;
                }
                m.conversations[i] = &items[i];
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATIONS;
        ev.conversations = &m;
        ev.has_request = true;
        ev.request = r->id;
        m.has_more = true;
        do {
                m.n_conversations = n;
                m.more = in->convs.more || n < in->convs.n;
                m.cursor = m.more ? methods_put_cursor(in, n, cursor) : NULL;
        } while (protobuf_c_message_get_packed_size(&ev.base) > r->peer->max_event && (n /= 2));
        if (n == 0 && in->convs.n > 0) {
                err_set(&e, ERR_TOO_LARGE,
                        "conversation %llu alone is larger than the %u bytes that this connection "
                        "takes",
                        (unsigned long long)in->convs.convs[0].id, r->peer->max_event);
                reply_error(r->peer, r->id, &e);
                return;
        }
        reply_send(r->peer, r->id, &ev, true);
}

/* Borrows the bytes. */
static ProtobufCBinaryData piece_of(const struct engine_piece *piece) {
        return (ProtobufCBinaryData){
                MIN((size_t)piece->size, sizeof(piece->bytes)), proto_borrow(piece->bytes)};
}

static int put_top(struct scratch *s, const struct engine_event *in, Confab__V1__DeltaToken *m,
        struct err *e) {
        Confab__V1__TokenLogprob *items;
        size_t n = in->delta.n_top;

        if (n == 0)
                return 0;
        items = scratch_alloc(s, n, sizeof(*items));
        m->top = scratch_alloc(s, n, sizeof(*m->top));
        if (!items || !m->top)
                return no_memory(e);
        for (size_t i = 0; i < n; i++) {
                const struct engine_logprob *l = &in->delta.top[i];

                confab__v1__token_logprob__init(&items[i]);
                SET(&items[i], token, l->token);
                SET(&items[i], logprob, l->logprob);
                SET(&items[i], text, piece_of(&l->text));
                m->top[i] = &items[i];
        }
        m->n_top = n;
        return 0;
}

static void send_delta(struct request *r, const struct engine_event *in) {
        _cleanup_(scratch_deinit) struct scratch s = {};
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Delta m = CONFAB__V1__DELTA__INIT;
        Confab__V1__DeltaToken token = CONFAB__V1__DELTA_TOKEN__INIT, *tokens[] = {&token};
        struct err e;

        m.text = in->delta.text ? in->delta.text : proto_borrow("");
        SET(&m, position, in->delta.position);
        if (in->delta.has_token) {
                SET(&token, token, in->delta.token);
                if (in->delta.has_logprob) {
                        SET(&token, logprob, in->delta.logprob);
                        SET(&token, text, piece_of(&in->delta.token_text));
                }
                m.tokens = tokens;
                m.n_tokens = 1;
        }
        if (put_top(&s, in, &token, &e) < 0 ||
                methods_put_parts(
                        &s, in->delta.parts, in->delta.n_parts, &m.parts, &m.n_parts, &e) < 0) {
                /* A gap in the stream would go unnoticed: let it end instead. */
                conn_fail(&r->peer->conn, &e);
                return;
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_DELTA;
        ev.delta = &m;
        reply_send(r->peer, r->id, &ev, false);
}

/* The protocol's numbers are one higher: they begin with "unspecified". */
static Confab__V1__Differs differs_of(enum engine_differs why) {
        return (Confab__V1__Differs)((unsigned)why + 1);
}

static void send_accepted(struct request *r, const struct engine_event *in) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Accepted m = CONFAB__V1__ACCEPTED__INIT;

        SET(&m, conversation, in->accepted.conv);
        SET(&m, revision, in->accepted.revision);
        SET(&m, n_prompt, in->accepted.n_prompt);
        SET(&m, n_ram, in->accepted.n_ram);
        SET(&m, n_disk, in->accepted.n_disk);
        SET(&m, n_shared, in->accepted.n_shared);
        SET(&m, n_computed, in->accepted.n_computed);
        SET(&m, differs_at, in->accepted.differs_at);
        SET(&m, differs_why, differs_of(in->accepted.differs_why));
        SET(&m, n_dropped, in->accepted.n_dropped);
        ev.kind_case = CONFAB__V1__EVENT__KIND_ACCEPTED;
        ev.accepted = &m;
        reply_send(r->peer, r->id, &ev, false);
}

static void send_progress(struct request *r, const struct engine_event *in) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Progress m = CONFAB__V1__PROGRESS__INIT;

        if (in->progress.total_size > 0) {
                SET(&m, done_bytes, in->progress.done_size);
                SET(&m, total_bytes, in->progress.total_size);
        } else {
                SET(&m, done, in->progress.done);
                SET(&m, total, in->progress.total);
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_PROGRESS;
        ev.progress = &m;
        reply_send(r->peer, r->id, &ev, false);
}

static void count_done(struct user_figures *f, const struct engine_event *in) {
        f->prefilled += in->done.n_computed;
        f->decoded += in->done.n_generated;
        f->drafted += in->done.n_drafted;
        f->accepted += in->done.n_accepted;
        f->reused_ram += in->done.n_ram;
        f->reused_disk += in->done.n_disk;
        f->reused_shared += in->done.n_shared;
}

static void send_done(struct request *r, const struct engine_event *in) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Done m = CONFAB__V1__DONE__INIT;

        if (r->verb == ENGINE_CONTINUE)
                count_done(&r->peer->user->figures, in);
        SET(&m, finish, (Confab__V1__FinishReason)in->done.finish);
        SET(&m, revision, in->done.revision);
        SET(&m, n_prompt, in->done.n_prompt);
        SET(&m, n_generated, in->done.n_generated);
        SET(&m, n_ram, in->done.n_ram);
        SET(&m, n_disk, in->done.n_disk);
        SET(&m, n_shared, in->done.n_shared);
        SET(&m, n_computed, in->done.n_computed);
        SET(&m, differs_at, in->done.differs_at);
        SET(&m, differs_why, differs_of(in->done.differs_why));
        SET(&m, n_dropped, in->done.n_dropped);
        if (in->done.has_n_calls)
                SET(&m, n_calls, in->done.n_calls);
        SET(&m, n_drafted, in->done.n_drafted);
        SET(&m, n_accepted, in->done.n_accepted);
        SET(&m, queued_usec, in->done.queued_usec);
        SET(&m, restore_usec, in->done.restore_usec);
        SET(&m, prefill_usec, in->done.prefill_usec);
        SET(&m, decode_usec, in->done.decode_usec);
        SET(&m, seed, in->done.seed);
        m.stop = in->done.stop;
        ev.kind_case = CONFAB__V1__EVENT__KIND_DONE;
        ev.done = &m;
        reply_send(r->peer, r->id, &ev, true);
}

static void send_tokens(struct request *r, const struct engine_event *in) {
        _cleanup_(scratch_deinit) struct scratch s = {};
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__TokenizeResult m = CONFAB__V1__TOKENIZE_RESULT__INIT;
        struct err e;

        m.tokens = in->tokens.ids;
        m.n_tokens = in->tokens.n;
        m.pieces = scratch_alloc(&s, in->tokens.n, sizeof(*m.pieces));
        if (!m.pieces) {
                no_memory(&e);
                reply_error(r->peer, r->id, &e);
                return;
        }
        m.n_pieces = in->tokens.piece_ends ? in->tokens.n : 0;
        for (size_t i = 0; i < m.n_pieces; i++) {
                uint32_t start = i > 0 ? in->tokens.piece_ends[i - 1] : 0;

                m.pieces[i].data = in->tokens.pieces + start;
                m.pieces[i].len = in->tokens.piece_ends[i] - start;
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_TOKENIZE;
        ev.tokenize = &m;
        reply_send(r->peer, r->id, &ev, true);
}

static void send_info(struct request *r, const struct engine_event *in) {
        const struct engine_model_info *i = &in->info;
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__ModelInfoResult m = CONFAB__V1__MODEL_INFO_RESULT__INIT;
        char fingerprint[33];

        snprintf(fingerprint, sizeof(fingerprint), "%016llx%016llx",
                (unsigned long long)i->fingerprint[0], (unsigned long long)i->fingerprint[1]);
        m.name = proto_borrow(i->name);
        m.architecture = proto_borrow(i->arch);
        m.path = proto_borrow(i->path);
        m.chat_family = proto_borrow(i->chat_family);
        m.tokenizer = proto_borrow(i->tokenizer);
        m.isa = proto_borrow(i->isa);
        m.kv_type = proto_borrow(i->kv_type);
        m.fingerprint = fingerprint;
        m.reply_format = proto_borrow(i->reply_format);
        SET(&m, takes_tools, i->takes_tools);
        SET(&m, reasons, i->reasons);
        SET(&m, n_vocab, i->n_vocab);
        SET(&m, n_layer, i->n_layer);
        SET(&m, n_embd, i->n_embd);
        SET(&m, context, i->context);
        SET(&m, context_train, i->context_train);
        SET(&m, n_params, i->n_params);
        SET(&m, weights_bytes, i->weights_size);
        SET(&m, block_tokens, i->block_tokens);
        SET(&m, block_bytes, i->block_size);
        SET(&m, state_bytes, i->state_size);
        SET(&m, window, i->window);
        SET(&m, window_block_bytes, i->window_block_size);
        ev.kind_case = CONFAB__V1__EVENT__KIND_MODEL_INFO;
        ev.model_info = &m;
        reply_send(r->peer, r->id, &ev, true);
}

void methods_send_event(struct request *r, struct engine_event *ev) {
        switch (ev->kind) {
        case ENGINE_ERROR:
                reply_failed(r->peer, r->id, ev);
                break;
        case ENGINE_ACCEPTED:
                send_accepted(r, ev);
                break;
        case ENGINE_PROGRESS:
                send_progress(r, ev);
                break;
        case ENGINE_DELTA:
                send_delta(r, ev);
                break;
        case ENGINE_DONE:
                send_done(r, ev);
                break;
        case ENGINE_EMPTY:
                reply_empty(r->peer, r->id);
                break;
        case ENGINE_CONV:
                send_conv(r, ev);
                break;
        case ENGINE_FOUND:
                send_found(r, ev);
                break;
        case ENGINE_CONVS:
                send_convs(r, ev);
                break;
        case ENGINE_TOKENS:
                send_tokens(r, ev);
                break;
        case ENGINE_INFO:
                send_info(r, ev);
                break;
        case ENGINE_STATS_RESULT:
                methods_send_stats(r, ev);
                break;
        case ENGINE_EXPORTED:
                methods_send_exported(r, ev);
                break;
        case ENGINE_NOTICE:
                methods_send_notice(r, ev);
                break;
        case ENGINE_USERS_RESULT:
                methods_send_users(r, ev);
                break;
        case ENGINE_USER_ACTED:
                methods_send_user_acted(r, ev);
                break;
        case ENGINE_DRAINED:
                methods_send_drained(r, ev);
                break;
        case ENGINE_CHECKED:
                methods_send_checked(r, ev);
                break;
        case ENGINE_USED:  /* methods-quota.c takes it */
        case ENGINE_OWNER: /* methods-hello.c takes it */
        case ENGINE_BYTES: /* of the daemon's own requests */
        case ENGINE_OVERRIDES:
        case ENGINE_LOG:
        case ENGINE_STOPPED:
                break;
        }
}
