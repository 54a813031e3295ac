/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"
#include "client/lib-internal.h"
#include <string.h>

/* A request and all of its parts; the protobuf structs point at each other and at the caller's. */
struct draft {
        const struct confab_request *from;
        Confab__V1__Request request;
        Confab__V1__Ref ref;
        Confab__V1__Sampling sampling;
        Confab__V1__LogitBias *biases;    /* owned */
        Confab__V1__LogitBias **pointers; /* owned */
        Confab__V1__Tokens tokens;
        char *text; /* owned, NUL-terminated copy */
        Confab__V1__ToolResults results;
        Confab__V1__Given given;
        Confab__V1__Messages messages;
        Confab__V1__ToolChoice tool_choice;
        Confab__V1__About about;
        Confab__V1__Tags tags;
        void *items, *places; /* owned: results or calls, and pointers to them */
        union {
                Confab__V1__Open open;
                Confab__V1__Continue cont;
                Confab__V1__Fork fork;
                Confab__V1__Rewind rewind;
                Confab__V1__Close close;
                Confab__V1__Get get;
                Confab__V1__List list;
                Confab__V1__Update update;
                Confab__V1__Warm warm;
                Confab__V1__Evict evict;
                Confab__V1__Cancel cancel;
                Confab__V1__Tokenize tokenize;
                Confab__V1__ModelInfo model_info;
                Confab__V1__Stats stats;
                Confab__V1__Publish publish;
                Confab__V1__Export export;
                Confab__V1__Import import;
                Confab__V1__Carry carry;
                Confab__V1__Attach attach;
                Confab__V1__Watch watch;
                Confab__V1__Find find;
                Confab__V1__Settings settings;
                Confab__V1__Users users;
                Confab__V1__ActOnUser act_on_user;
                Confab__V1__Drain drain;
                Confab__V1__Check check;
                Confab__V1__Backup backup;
                Confab__V1__Quota quota;
        };
        Confab__V1__QuotaSubject subject;
};

#define CHUNK_SIZE (256u << 10)
#define CHUNK_MORE 64 /* bytes of a frame beside a chunk's data */

/* Set an optional scalar of a protobuf-c struct. */
#define PUT(message, field, value) ((message).field = (value), (message).has_##field = true)
/* Begin the verb of a draft. */
#define BEGIN(d, member, field, UPPER)                                                             \
        do {                                                                                       \
                (d)->member = (__typeof__((d)->member))CONFAB__V1__##UPPER##__INIT;                \
                (d)->request.field = &(d)->member;                                                 \
                (d)->request.verb_case = CONFAB__V1__REQUEST__VERB_##UPPER;                        \
        } while (0)

static int put_string(char **ret, const char *s, const char *what, struct err *e) {
        if (s && !utf8_valid(s, strlen(s)))
                return err_set(e, ERR_INVALID, "the %s is not valid UTF-8", what);
        *ret = proto_borrow(s);
        return 0;
}

static int put_ref(struct draft *d, Confab__V1__Ref **ret, struct err *e) {
        const struct confab_request *r = d->from;
        int k = 0;

        if (!r->conversation_id && !r->conversation)
                return err_set(e, ERR_INVALID, "no conversation is named");
        d->ref = (Confab__V1__Ref)CONFAB__V1__REF__INIT;
        if (r->conversation_id)
                PUT(d->ref, id, r->conversation_id);
        else
                k = put_string(&d->ref.name, r->conversation, "name of the conversation", e);
        *ret = &d->ref;
        return k;
}

/* The text as a NUL-terminated string that has no other NUL. */
static int put_text(struct draft *d, char **ret, struct err *e) {
        const struct confab_request *r = d->from;

        if (r->text_size && memchr(r->text, 0, r->text_size))
                return err_set(e, ERR_INVALID, "the text has a NUL byte");
        if (r->text_size && !utf8_valid(r->text, r->text_size))
                return err_set(e, ERR_INVALID, "the text is not valid UTF-8");
        d->text = malloc(r->text_size + 1);
        if (!d->text)
                return err_set(e, ERR_NOMEM, "no memory for the text");
        if (r->text_size)
                memcpy(d->text, r->text, r->text_size);
        d->text[r->text_size] = 0;
        *ret = d->text;
        return 0;
}

static int put_biases(struct draft *d, const struct confab_sampling *s, struct err *e) {
        if (s->n_biases == 0)
                return 0;
        d->biases = calloc(s->n_biases, sizeof(*d->biases));
        d->pointers = calloc(s->n_biases, sizeof(*d->pointers));
        if (!d->biases || !d->pointers)
                return err_set(e, ERR_NOMEM, "no memory for logit biases");
        for (size_t i = 0; i < s->n_biases; i++) {
                d->biases[i] = (Confab__V1__LogitBias)CONFAB__V1__LOGIT_BIAS__INIT;
                PUT(d->biases[i], token, s->biases[i].token);
                PUT(d->biases[i], bias, s->biases[i].bias);
                d->pointers[i] = &d->biases[i];
        }
        d->sampling.logit_bias = d->pointers;
        d->sampling.n_logit_bias = s->n_biases;
        return 0;
}

static int put_sampling(struct draft *d, Confab__V1__Sampling **ret, struct err *e) {
        const struct confab_sampling *s = d->from->sampling;

        if (!s)
                return 0;
        d->sampling = (Confab__V1__Sampling)CONFAB__V1__SAMPLING__INIT;
        if (s->has & CONFAB_HAS_TEMPERATURE)
                PUT(d->sampling, temperature, s->temperature);
        if (s->has & CONFAB_HAS_TOP_K)
                PUT(d->sampling, top_k, s->top_k);
        if (s->has & CONFAB_HAS_TOP_P)
                PUT(d->sampling, top_p, s->top_p);
        if (s->has & CONFAB_HAS_MIN_P)
                PUT(d->sampling, min_p, s->min_p);
        if (s->has & CONFAB_HAS_REPETITION_PENALTY)
                PUT(d->sampling, repetition_penalty, s->repetition_penalty);
        if (s->has & CONFAB_HAS_PRESENCE_PENALTY)
                PUT(d->sampling, presence_penalty, s->presence_penalty);
        if (s->has & CONFAB_HAS_FREQUENCY_PENALTY)
                PUT(d->sampling, frequency_penalty, s->frequency_penalty);
        if (s->has & CONFAB_HAS_PENALTY_LAST_N)
                PUT(d->sampling, penalty_last_n, s->penalty_last_n);
        if (s->has & CONFAB_HAS_SEED)
                PUT(d->sampling, seed, s->seed);
        *ret = &d->sampling;
        return put_biases(d, s, e);
}

static int put_about(struct draft *d, Confab__V1__About **ret, struct err *e) {
        const struct confab_about *about = d->from->about;
        int r;

        if (!about)
                return 0;
        d->about = (Confab__V1__About)CONFAB__V1__ABOUT__INIT;
        r = put_string(&d->about.title, about->title, "title", e);
        if (r == 0)
                r = put_string(&d->about.metadata, about->metadata, "metadata", e);
        if (r == 0)
                r = put_string(&d->about.session, about->session, "session", e);
        for (size_t i = 0; r == 0 && about->has_tags && i < about->n_tags; i++)
                if (!about->tags[i] || !utf8_valid(about->tags[i], strlen(about->tags[i])))
                        r = err_set(e, ERR_INVALID, "a tag is not valid UTF-8");
        if (about->has_tags) {
                d->tags = (Confab__V1__Tags)CONFAB__V1__TAGS__INIT;
                d->tags.tags = proto_borrow(about->tags);
                d->tags.n_tags = about->n_tags;
                d->about.tags = &d->tags;
        }
        if (about->has_expires_after)
                PUT(d->about, expires_after, about->expires_after);
        *ret = &d->about;
        return r;
}

static int draft_open(struct draft *d, struct err *e) {
        int r;

        BEGIN(d, open, open, OPEN);
        r = put_string(&d->open.name, d->from->name, "name", e);
        if (r == 0)
                r = put_string(&d->open.system, d->from->system, "system message", e);
        if (r == 0)
                r = put_string(&d->open.tools, d->from->tools, "definitions of tools", e);
        if (d->from->overflow)
                PUT(d->open, overflow, (Confab__V1__Overflow)d->from->overflow);
        if (r == 0)
                r = put_about(d, &d->open.about, e);
        return r < 0 ? r : put_sampling(d, &d->open.sampling, e);
}

/* Room for @n messages of @size bytes, and for pointers to them. */
static int make_items(struct draft *d, size_t n, size_t size, struct err *e) {
        d->items = calloc(n + 1, size);
        d->places = calloc(n + 1, sizeof(void *));
        return d->items && d->places ? 0 : err_set(e, ERR_NOMEM, "no memory for a request");
}

static int put_results(struct draft *d, struct err *e) {
        const struct confab_request *r = d->from;
        Confab__V1__ToolResult *items;
        int k = make_items(d, r->n_results, sizeof(*items), e);

        if (k < 0)
                return k;
        items = d->items;
        d->results = (Confab__V1__ToolResults)CONFAB__V1__TOOL_RESULTS__INIT;
        d->results.results = d->places;
        d->results.n_results = r->n_results;
        for (size_t i = 0; k == 0 && i < r->n_results; i++) {
                items[i] = (Confab__V1__ToolResult)CONFAB__V1__TOOL_RESULT__INIT;
                d->results.results[i] = &items[i];
                k = put_string(&items[i].call_id, r->results[i].call_id, "id of a call", e);
                if (k == 0)
                        k = put_string(&items[i].name, r->results[i].name, "name of a function", e);
                if (k == 0)
                        k = put_string(&items[i].text, r->results[i].text, "result of a call", e);
        }
        d->cont.results = &d->results;
        return k;
}

static int put_given(struct draft *d, struct err *e) {
        const struct confab_request *r = d->from;
        Confab__V1__Call *items;
        int k = make_items(d, r->n_calls, sizeof(*items), e);

        if (k < 0)
                return k;
        items = d->items;
        d->given = (Confab__V1__Given)CONFAB__V1__GIVEN__INIT;
        d->given.calls = d->places;
        d->given.n_calls = r->n_calls;
        for (size_t i = 0; k == 0 && i < r->n_calls; i++) {
                items[i] = (Confab__V1__Call)CONFAB__V1__CALL__INIT;
                d->given.calls[i] = &items[i];
                k = put_string(&items[i].id, r->calls[i].id, "id of a call", e);
                if (k == 0)
                        k = put_string(&items[i].name, r->calls[i].name, "name of a function", e);
                if (k == 0)
                        k = put_string(&items[i].arguments, r->calls[i].arguments,
                                "arguments of a call", e);
        }
        d->cont.given = &d->given;
        if (k == 0)
                k = put_string(&d->given.reasoning, r->reasoning, "reasoning", e);
        return k < 0 || r->text_size == 0 ? k : put_text(d, &d->given.text, e);
}

static int put_input(struct draft *d, struct err *e) {
        const struct confab_request *r = d->from;
        Confab__V1__Continue *c = &d->cont;

        switch (r->input) {
        case CONFAB_INPUT_NONE:
                c->input_case = CONFAB__V1__CONTINUE__INPUT_NOTHING;
                c->nothing = true;
                return 0;
        case CONFAB_INPUT_MESSAGE:
                c->input_case = CONFAB__V1__CONTINUE__INPUT_MESSAGE;
                return put_text(d, &c->message, e);
        case CONFAB_INPUT_RAW:
                c->input_case = CONFAB__V1__CONTINUE__INPUT_RAW;
                c->raw = (ProtobufCBinaryData){r->text_size, proto_borrow(r->text)};
                return 0;
        case CONFAB_INPUT_TOKENS:
                c->input_case = CONFAB__V1__CONTINUE__INPUT_TOKENS;
                d->tokens = (Confab__V1__Tokens)CONFAB__V1__TOKENS__INIT;
                d->tokens.ids = proto_borrow(r->tokens);
                d->tokens.n_ids = r->n_tokens;
                c->tokens = &d->tokens;
                return 0;
        case CONFAB_INPUT_RESULTS:
                c->input_case = CONFAB__V1__CONTINUE__INPUT_RESULTS;
                return put_results(d, e);
        case CONFAB_INPUT_GIVEN:
                c->input_case = CONFAB__V1__CONTINUE__INPUT_GIVEN;
                return put_given(d, e);
        case CONFAB_INPUT_MESSAGES:
                c->input_case = CONFAB__V1__CONTINUE__INPUT_MESSAGES;
                d->messages = (Confab__V1__Messages)CONFAB__V1__MESSAGES__INIT;
                d->messages.n_messages = r->n_messages;
                c->messages = &d->messages;
                return messages_put(&d->messages.messages, r->messages, r->n_messages, e);
        }
        return err_set(e, ERR_INVALID, "unknown kind of input");
}

static int put_from(struct draft *d, struct err *e) {
        const struct confab_request *r = d->from;

        if (r->has_at_turn && r->has_at_position)
                return err_set(e, ERR_INVALID, "continue goes on from at_turn or at_position");
        if (r->has_at_turn) {
                d->cont.from_case = CONFAB__V1__CONTINUE__FROM_AT_TURN;
                d->cont.at_turn = r->at_turn;
        } else if (r->has_at_position) {
                d->cont.from_case = CONFAB__V1__CONTINUE__FROM_AT_POSITION;
                d->cont.at_position = r->at_position;
        }
        return 0;
}

static int put_constraint(struct draft *d, struct err *e) {
        const struct confab_request *r = d->from;
        Confab__V1__Continue *c = &d->cont;

        if ((r->json_schema != NULL) + (r->gbnf != NULL) + (r->call_of != NULL) > 1)
                return err_set(e, ERR_INVALID,
                        "a reply has one constraint: json_schema, gbnf, or call_of");
        if (r->json_schema) {
                c->constraint_case = CONFAB__V1__CONTINUE__CONSTRAINT_JSON_SCHEMA;
                return put_string(&c->json_schema, r->json_schema, "json_schema", e);
        }
        if (r->gbnf) {
                c->constraint_case = CONFAB__V1__CONTINUE__CONSTRAINT_GBNF;
                return put_string(&c->gbnf, r->gbnf, "gbnf", e);
        }
        if (r->call_of) {
                c->constraint_case = CONFAB__V1__CONTINUE__CONSTRAINT_TOOL_CHOICE;
                d->tool_choice = (Confab__V1__ToolChoice)CONFAB__V1__TOOL_CHOICE__INIT;
                c->tool_choice = &d->tool_choice;
                return put_string(&d->tool_choice.function, r->call_of, "call_of", e);
        }
        return 0;
}

static int put_stops(struct draft *d, char ***ret, size_t *ret_n, struct err *e) {
        const struct confab_request *r = d->from;

        for (size_t i = 0; i < r->n_stops; i++)
                if (!r->stops[i] || !utf8_valid(r->stops[i], strlen(r->stops[i])))
                        return err_set(e, ERR_INVALID, "a stop string is not valid UTF-8");
        *ret = proto_borrow(r->stops);
        *ret_n = r->n_stops;
        return 0;
}

static int draft_attach(struct draft *d, struct err *e) {
        const struct confab_request *r = d->from;
        Confab__V1__Attach *a = &d->attach;
        int k;

        BEGIN(d, attach, attach, ATTACH);
        k = put_ref(d, &a->conversation, e);
        if (k == 0)
                k = put_stops(d, &a->stop, &a->n_stop, e);
        if (r->has_at_position)
                PUT(*a, position, r->at_position);
        if (r->has_expect_revision)
                PUT(*a, expect_revision, r->expect_revision);
        if (r->want_parts)
                PUT(*a, want_parts, true);
        return k;
}

static int draft_continue(struct draft *d, struct err *e) {
        const struct confab_request *r = d->from;
        Confab__V1__Continue *c = &d->cont;
        int k;

        BEGIN(d, cont, continue_, CONTINUE);
        k = put_ref(d, &c->conversation, e);
        if (k == 0)
                k = put_input(d, e);
        if (k == 0)
                k = put_from(d, e);
        if (k == 0)
                k = put_sampling(d, &c->sampling, e);
        if (k == 0)
                k = put_constraint(d, e);
        if (k == 0)
                k = put_string(&c->tools, r->tools, "definitions of tools", e);
        if (k < 0)
                return k;
        k = put_stops(d, &c->stop, &c->n_stop, e);
        if (k < 0)
                return k;
        if (r->has_max_tokens)
                PUT(*c, max_tokens, r->max_tokens);
        if (r->n_logprobs)
                PUT(*c, logprobs, r->n_logprobs);
        if (r->want_logprobs || r->n_logprobs)
                PUT(*c, want_logprobs, true);
        if (r->has_expect_revision)
                PUT(*c, expect_revision, r->expect_revision);
        if (r->role)
                PUT(*c, role, (Confab__V1__Role)r->role);
        if (r->detach)
                PUT(*c, detach, true);
        if (r->ignore_eos)
                PUT(*c, ignore_eos, true);
        if (r->background)
                PUT(*c, background, true);
        if (r->wait)
                PUT(*c, wait, true);
        if (r->want_parts)
                PUT(*c, want_parts, true);
        return 0;
}

static int draft_fork(struct draft *d, struct err *e) {
        int r;

        BEGIN(d, fork, fork, FORK);
        r = put_ref(d, &d->fork.conversation, e);
        if (r == 0)
                r = put_string(&d->fork.name, d->from->name, "name", e);
        if (d->from->has_at_turn)
                PUT(d->fork, at_turn, d->from->at_turn);
        if (d->from->has_at_position)
                PUT(d->fork, at_position, d->from->at_position);
        if (d->from->has_expect_revision)
                PUT(d->fork, expect_revision, d->from->expect_revision);
        return r < 0 ? r : put_about(d, &d->fork.about, e);
}

static int draft_rewind(struct draft *d, struct err *e) {
        BEGIN(d, rewind, rewind, REWIND);
        if (d->from->has_at_turn) {
                d->rewind.to_case = CONFAB__V1__REWIND__TO_AT_TURN;
                d->rewind.at_turn = d->from->at_turn;
        } else if (d->from->has_at_position) {
                d->rewind.to_case = CONFAB__V1__REWIND__TO_AT_POSITION;
                d->rewind.at_position = d->from->at_position;
        } else {
                d->rewind.to_case = CONFAB__V1__REWIND__TO_TURNS;
                d->rewind.turns = d->from->drop_turns;
        }
        if (d->from->has_expect_revision)
                PUT(d->rewind, expect_revision, d->from->expect_revision);
        return put_ref(d, &d->rewind.conversation, e);
}

static int draft_carry(struct draft *d, struct err *e) {
        BEGIN(d, carry, carry, CARRY);
        if (d->from->has_expect_revision)
                PUT(d->carry, expect_revision, d->from->expect_revision);
        return put_ref(d, &d->carry.conversation, e);
}

static int draft_close(struct draft *d, struct err *e) {
        BEGIN(d, close, close, CLOSE);
        return put_ref(d, &d->close.conversation, e);
}

static int draft_get(struct draft *d, struct err *e) {
        BEGIN(d, get, get, GET);
        if (d->from->want_turns)
                PUT(d->get, turns, true);
        if (d->from->want_tokens)
                PUT(d->get, tokens, true);
        if (d->from->want_parts)
                PUT(d->get, parts, true);
        if (d->from->max_turns)
                PUT(d->get, max_turns, d->from->max_turns);
        if (d->from->has_from_turn)
                PUT(d->get, from_turn, d->from->from_turn);
        if (d->from->has_before_turn)
                PUT(d->get, before_turn, d->from->before_turn);
        return put_ref(d, &d->get.conversation, e);
}

static int draft_list(struct draft *d, struct err *e) {
        int r;

        BEGIN(d, list, list, LIST);
        if (d->from->after_id)
                PUT(d->list, after_id, d->from->after_id);
        if (d->from->limit)
                PUT(d->list, limit, d->from->limit);
        if (d->from->all_users)
                PUT(d->list, all_users, true);
        if (d->from->order)
                PUT(d->list, order, (Confab__V1__Order)d->from->order);
        r = put_string(&d->list.cursor, d->from->cursor, "cursor", e);
        if (r == 0)
                r = put_string(&d->list.tag, d->from->tag, "tag", e);
        return r < 0 ? r : put_string(&d->list.search, d->from->search, "search", e);
}

static int draft_update(struct draft *d, struct err *e) {
        int r;

        BEGIN(d, update, update, UPDATE);
        r = put_ref(d, &d->update.conversation, e);
        if (r == 0)
                r = put_string(&d->update.name, d->from->name, "name", e);
        if (d->from->overflow)
                PUT(d->update, overflow, (Confab__V1__Overflow)d->from->overflow);
        if (d->from->has_pinned)
                PUT(d->update, pinned, d->from->pinned);
        if (d->from->reset_sampling)
                PUT(d->update, reset_sampling, true);
        if (r == 0)
                r = put_about(d, &d->update.about, e);
        return r < 0 ? r : put_sampling(d, &d->update.sampling, e);
}

static int draft_warm(struct draft *d, struct err *e) {
        BEGIN(d, warm, warm, WARM);
        return put_ref(d, &d->warm.conversation, e);
}

static int draft_evict(struct draft *d, struct err *e) {
        BEGIN(d, evict, evict, EVICT);
        return put_ref(d, &d->evict.conversation, e);
}

static int draft_cancel(struct draft *d, struct err *e) {
        BEGIN(d, cancel, cancel, CANCEL);
        if (d->from->cancel_request) {
                PUT(d->cancel, request, d->from->cancel_request);
                return 0;
        }
        return put_ref(d, &d->cancel.conversation, e);
}

static int draft_tokenize(struct draft *d, struct err *e) {
        BEGIN(d, tokenize, tokenize, TOKENIZE);
        if (d->from->special)
                PUT(d->tokenize, special, true);
        if (d->from->add_bos)
                PUT(d->tokenize, add_bos, true);
        return put_text(d, &d->tokenize.text, e);
}

static int draft_model_info(struct draft *d, struct err *e) {
        BEGIN(d, model_info, model_info, MODEL_INFO);
        return 0;
}

static int draft_stats(struct draft *d, struct err *e) {
        BEGIN(d, stats, stats, STATS);
        if (d->from->want_users)
                PUT(d->stats, with_users, true);
        if (d->from->has_uid)
                PUT(d->stats, uid, d->from->uid);
        return put_string(&d->stats.tenant, d->from->tenant, "tenant", e);
}

static int draft_publish(struct draft *d, struct err *e) {
        BEGIN(d, publish, publish, PUBLISH);
        if (d->from->has_at_turn)
                PUT(d->publish, at_turn, d->from->at_turn);
        if (d->from->off)
                PUT(d->publish, off, true);
        return put_ref(d, &d->publish.conversation, e);
}

static int draft_export(struct draft *d, struct err *e) {
        BEGIN(d, export, export, EXPORT);
        if (d->from->without_memory)
                PUT(d->export, without_memory, true);
        if (d->from->in_stream)
                PUT(d->export, in_stream, true);
        return put_ref(d, &d->export.conversation, e);
}

static int draft_import(struct draft *d, struct err *e) {
        BEGIN(d, import, import, IMPORT);
        if (d->from->in_stream)
                PUT(d->import, in_stream, true);
        else if (!d->from->has_fd || d->from->fd < 0)
                return err_set(e, ERR_INVALID, "no file descriptor is given");
        return put_string(&d->import.name, d->from->name, "name", e);
}

static int draft_watch(struct draft *d, struct err *e) {
        BEGIN(d, watch, watch, WATCH);
        if (d->from->all_users)
                PUT(d->watch, all_users, true);
        return put_string(&d->watch.cursor, d->from->cursor, "cursor", e);
}

static int draft_find(struct draft *d, struct err *e) {
        const struct confab_request *r = d->from;
        int k;

        BEGIN(d, find, find, FIND);
        k = put_string(&d->find.tools, r->tools, "definitions of tools", e);
        if (k == 0 && (r->conversation_id || r->conversation))
                k = put_ref(d, &d->find.conversation, e);
        if (k == 0)
                k = put_string(&d->find.session, r->session, "session", e);
        if (k == 0)
                k = messages_put(&d->messages.messages, r->messages, r->n_messages, e);
        d->find.messages = d->messages.messages;
        d->find.n_messages = k == 0 ? r->n_messages : 0;
        return k;
}

static int draft_settings(struct draft *d, struct err *e) {
        BEGIN(d, settings, settings, SETTINGS);
        return 0;
}

static int draft_users(struct draft *d, struct err *e) {
        BEGIN(d, users, users, USERS);
        if (d->from->user_order)
                PUT(d->users, order, (Confab__V1__UserOrder)d->from->user_order);
        if (d->from->limit)
                PUT(d->users, limit, d->from->limit);
        if (d->from->has_uid)
                PUT(d->users, uid, d->from->uid);
        return put_string(&d->users.cursor, d->from->cursor, "cursor", e);
}

static int draft_act_on_user(struct draft *d, struct err *e) {
        BEGIN(d, act_on_user, act_on_user, ACT_ON_USER);
        if (!d->from->has_uid)
                return err_set(e, ERR_INVALID, "no user is given");
        PUT(d->act_on_user, uid, d->from->uid);
        PUT(d->act_on_user, act, (Confab__V1__UserAct)d->from->user_act);
        if (d->from->dry_run)
                PUT(d->act_on_user, dry_run, true);
        return put_string(&d->act_on_user.tenant, d->from->tenant, "tenant", e);
}

static int draft_drain(struct draft *d, struct err *e) {
        BEGIN(d, drain, drain, DRAIN);
        if (d->from->off)
                PUT(d->drain, off, true);
        if (d->from->has_timeout)
                PUT(d->drain, timeout_usec, d->from->timeout_usec);
        return 0;
}

static int draft_backup(struct draft *d, struct err *e) {
        BEGIN(d, backup, backup, BACKUP);
        if (d->from->with_memory)
                PUT(d->backup, with_memory, true);
        return 0;
}

static int draft_check(struct draft *d, struct err *e) {
        BEGIN(d, check, check, CHECK);
        if (d->from->has_rate)
                PUT(d->check, rate, d->from->rate);
        return 0;
}

static int put_subject(struct draft *d, struct err *e) {
        const struct confab_quota_subject *s = d->from->quota_subject;

        if (!s)
                return 0;
        if (s->has_uid == s->has_gid)
                return err_set(e, ERR_INVALID, "limits are those of a user or of a group");
        d->subject = (Confab__V1__QuotaSubject)CONFAB__V1__QUOTA_SUBJECT__INIT;
        if (s->has_uid)
                PUT(d->subject, uid, s->uid);
        if (s->has_gid)
                PUT(d->subject, gid, s->gid);
        if (s->all_tenants)
                PUT(d->subject, all_tenants, true);
        d->quota.subject = &d->subject;
        return put_string(&d->subject.tenant, s->tenant, "tenant's label", e);
}

static int put_change(
        Confab__V1__QuotaChange *ret, const struct confab_quota_change *change, struct err *e) {
        *ret = (Confab__V1__QuotaChange)CONFAB__V1__QUOTA_CHANGE__INIT;
        switch (change->to) {
        case CONFAB_QUOTA_VALUE:
                ret->to_case = CONFAB__V1__QUOTA_CHANGE__TO_VALUE;
                ret->value = change->value;
                break;
        case CONFAB_QUOTA_NONE:
                ret->to_case = CONFAB__V1__QUOTA_CHANGE__TO_NONE;
                ret->none = true;
                break;
        case CONFAB_QUOTA_CLEAR:
                ret->to_case = CONFAB__V1__QUOTA_CHANGE__TO_CLEAR;
                ret->clear = true;
                break;
        default:
                return err_set(e, ERR_INVALID, "unknown kind of change of a limit");
        }
        return put_string(&ret->name, change->name, "name of a limit", e);
}

static int put_changes(struct draft *d, struct err *e) {
        const struct confab_request *r = d->from;
        Confab__V1__QuotaChange *items;
        int k;

        if (r->n_quota_changes == 0)
                return 0;
        k = make_items(d, r->n_quota_changes, sizeof(*items), e);
        if (k < 0)
                return k;
        items = d->items;
        d->quota.changes = d->places;
        d->quota.n_changes = r->n_quota_changes;
        for (size_t i = 0; k == 0 && i < r->n_quota_changes; i++) {
                d->quota.changes[i] = &items[i];
                k = put_change(&items[i], &r->quota_changes[i], e);
        }
        return k;
}

static int draft_quota(struct draft *d, struct err *e) {
        int r;

        BEGIN(d, quota, quota, QUOTA);
        if (d->from->all_overrides)
                PUT(d->quota, overrides, true);
        if (d->from->all_overrides && d->from->limit)
                PUT(d->quota, limit, d->from->limit);
        r = d->from->all_overrides ? put_string(&d->quota.cursor, d->from->cursor, "cursor", e) : 0;
        if (r == 0)
                r = put_subject(d, e);
        return r < 0 ? r : put_changes(d, e);
}

static int (*const drafts[])(struct draft *d, struct err *e) = {
        [CONFAB_OPEN] = draft_open,
        [CONFAB_CONTINUE] = draft_continue,
        [CONFAB_FORK] = draft_fork,
        [CONFAB_REWIND] = draft_rewind,
        [CONFAB_CLOSE] = draft_close,
        [CONFAB_GET] = draft_get,
        [CONFAB_LIST] = draft_list,
        [CONFAB_UPDATE] = draft_update,
        [CONFAB_WARM] = draft_warm,
        [CONFAB_EVICT] = draft_evict,
        [CONFAB_CANCEL] = draft_cancel,
        [CONFAB_TOKENIZE] = draft_tokenize,
        [CONFAB_MODEL_INFO] = draft_model_info,
        [CONFAB_STATS] = draft_stats,
        [CONFAB_PUBLISH] = draft_publish,
        [CONFAB_EXPORT] = draft_export,
        [CONFAB_IMPORT] = draft_import,
        [CONFAB_CARRY] = draft_carry,
        [CONFAB_ATTACH] = draft_attach,
        [CONFAB_WATCH] = draft_watch,
        [CONFAB_FIND] = draft_find,
        [CONFAB_SETTINGS] = draft_settings,
        [CONFAB_USERS] = draft_users,
        [CONFAB_ACT_ON_USER] = draft_act_on_user,
        [CONFAB_DRAIN] = draft_drain,
        [CONFAB_CHECK] = draft_check,
        [CONFAB_BACKUP] = draft_backup,
        [CONFAB_QUOTA] = draft_quota,
};

int request_normalise(struct confab_request *ret, const struct confab_request *r, struct err *e) {
        size_t known = MIN(r->size, sizeof(*ret));

        if (r->size < offsetof(struct confab_request, conversation_id))
                return err_set(e, ERR_INVALID, "request without its size");
        for (size_t i = sizeof(*ret); i < r->size; i++)
                if (((const char *)r)[i])
                        return err_set(e, ERR_UNSUPPORTED,
                                "the request has fields that this libconfab does not know");
        *ret = (struct confab_request){0};
        memcpy(ret, r, known);
        return 0;
}

int request_append_chunk(struct buf *out, uint64_t id, const void *data, size_t size, bool last,
        uint32_t max_frame, struct err *e) {
        Confab__V1__Request request = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Chunk chunk = CONFAB__V1__CHUNK__INIT;
        size_t before = out->size, at = 0;
        size_t piece = max_frame > 2 * CHUNK_MORE ? max_frame - CHUNK_MORE : CHUNK_MORE;
        int r;

        PUT(request, id, id);
        request.verb_case = CONFAB__V1__REQUEST__VERB_CHUNK;
        request.chunk = &chunk;
        piece = MIN(piece, (size_t)CHUNK_SIZE);
        do {
                size_t n = MIN(size - at, piece);

                PUT(chunk, data, ((ProtobufCBinaryData){n, proto_borrow((const char *)data + at)}));
                at += n;
                if (last && at == size)
                        PUT(chunk, last, true);
                r = proto_append_frame(out, &request.base, max_frame, e);
        } while (r == 0 && at < size);
        if (r < 0)
                out->size = before;
        return r;
}

int request_append(struct buf *out, const struct confab_request *from, uint64_t id,
        uint32_t max_frame, struct err *e) {
        struct draft d = {.from = from, .request = CONFAB__V1__REQUEST__INIT};
        int r;

        if ((unsigned)from->verb >= ARRAY_SIZE(drafts) || !drafts[from->verb])
                return err_set(e, ERR_INVALID, "unknown verb");
        PUT(d.request, id, id);
        r = drafts[from->verb](&d, e);
        if (r == 0)
                r = proto_append_frame(out, &d.request.base, max_frame, e);
        free(d.biases);
        free(d.pointers);
        free(d.items);
        free(d.places);
        free(d.messages.messages);
        free(d.text);
        return r;
}
