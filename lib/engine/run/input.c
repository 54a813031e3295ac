/* SPDX-License-Identifier: MIT */
/*
 * The input of a Continue: which turns it becomes, their tokens, and their rows in the register.
 *
 * 1. Each message becomes a turn. Messages of tools that follow each other become one turn, since
 *    their results answer one reply. Raw text and tokens are a turn as well.
 * 2. The tokens of a turn follow from the turn and from what it is appended to (struct chat_tail).
 *    Behind the first turn this is the turn before. So several messages in one request have the same
 *    tokens and turns as the same messages in requests of their own.
 * 3. Definitions of tools are told with the first turn, and with no other.
 * 4. The register gets all turns of the input in one transaction.
 * 5. Many messages are rendered on the thread that tokenises, however short they are, since each is a
 *    run of the chat template.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/run/state.h"

#define MANY_MESSAGES 4 /* more of them are long */
#define TEXT_COST 4096  /* the allocator's overhead */

/* --- the turns --- */

enum engine_role input_first_role(const struct engine_request *r) {
        switch (r->input) {
        case ENGINE_INPUT_MESSAGE:
                return r->role;
        case ENGINE_INPUT_GIVEN:
                return ENGINE_ASSISTANT;
        case ENGINE_INPUT_RESULTS:
                return ENGINE_TOOL;
        case ENGINE_INPUT_MESSAGES:
                return r->messages[0].role;
        case ENGINE_INPUT_RAW:
        case ENGINE_INPUT_TOKENS:
        case ENGINE_INPUT_NONE:
                break;
        }
        return ENGINE_RAW;
}

bool input_tells(const struct engine_request *r) {
        enum engine_role role = input_first_role(r);

        return role != ENGINE_ASSISTANT && role != ENGINE_RAW;
}

static size_t calls_size(const struct engine_call *calls, size_t n) {
        size_t size = 0;

        for (size_t i = 0; i < n; i++)
                size += strlen(calls[i].arguments);
        return size;
}

static size_t results_size(const struct engine_result *results, size_t n) {
        size_t size = 0;

        for (size_t i = 0; i < n; i++)
                size += strlen(results[i].text);
        return size;
}

bool input_is_long(const struct engine_request *r) {
        size_t n = r->text_size + (r->reasoning ? strlen(r->reasoning) : 0) +
                   (r->tools ? strlen(r->tools) : 0);

        n += results_size(r->results, r->n_results) + calls_size(r->calls, r->n_calls);
        for (size_t i = 0; i < r->n_messages; i++) {
                const struct engine_message *m = &r->messages[i];

                n += m->text_size + (m->reasoning ? strlen(m->reasoning) : 0) +
                     results_size(m->results, m->n_results) + calls_size(m->calls, m->n_calls);
        }
        return text_is_long(n) || r->n_messages > MANY_MESSAGES;
}

/* The input as messages, or NULL: it has none. */
static const struct engine_message *messages_of(struct request *request, size_t *ret_n) {
        const struct engine_request *r = &request->r;
        struct engine_message *m = &generation_of(request)->single;

        *ret_n = 1;
        m->role = input_first_role(r);
        switch (r->input) {
        case ENGINE_INPUT_MESSAGES:
                *ret_n = r->n_messages;
                return r->messages;
        case ENGINE_INPUT_RESULTS:
                m->results = r->results;
                m->n_results = r->n_results;
                return m;
        case ENGINE_INPUT_GIVEN:
                m->reasoning = r->reasoning;
                m->calls = r->calls;
                m->n_calls = r->n_calls;
                m->text = r->text;
                m->text_size = r->text_size;
                return m;
        case ENGINE_INPUT_MESSAGE:
                m->text = r->text;
                m->text_size = r->text_size;
                return m;
        case ENGINE_INPUT_NONE:
                *ret_n = 0;
                return NULL;
        case ENGINE_INPUT_RAW:
        case ENGINE_INPUT_TOKENS:
                break;
        }
        return NULL;
}

/* Does message @i go into the turn of the one before? */
static bool is_joined(const struct engine_message *messages, size_t i) {
        return messages && i > 0 && messages[i].role == ENGINE_TOOL &&
               messages[i - 1].role == ENGINE_TOOL;
}

int input_begin(struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        size_t n_messages, n = 0;
        const struct engine_message *messages = messages_of(request, &n_messages);
        int r;

        for (size_t i = 0; i < n_messages; i++)
                n += !is_joined(messages, i);
        r = charge_take(&request->charge, (n + 1) * (sizeof(*g->input_turns) + sizeof(*g->rows)),
                "the turns of the input", e);
        if (r < 0)
                return r;
        g->input_turns = calloc(n + 1, sizeof(*g->input_turns));
        g->rows = calloc(n + 1, sizeof(*g->rows));
        if (!g->input_turns || !g->rows)
                return err_set(e, ERR_NOMEM, "no memory for the input");
        for (size_t i = 0; i < n_messages; i++) {
                struct input_turn *t = &g->input_turns[g->n_input_turns];

                if (is_joined(messages, i)) {
                        t[-1].n++;
                        continue;
                }
                t->turn.role = messages ? (enum chat_role)messages[i].role : CHAT_RAW;
                t->messages = messages ? &messages[i] : NULL;
                t->n = 1;
                t->said.charge = t->extra.charge = &request->charge;
                g->n_input_turns++;
        }
        return 0;
}

int input_wrap(
        const struct request *request, const struct engine_message *m, int r, struct err *e) {
        if (r >= 0 || request->r.input != ENGINE_INPUT_MESSAGES)
                return r;
        return err_wrap(e, r, "message %zu", (size_t)(m - request->r.messages) + 1);
}

void input_deinit(struct generation *g) {
        for (size_t i = 0; i < g->n_input_turns; i++) {
                free(g->input_turns[i].results);
                buf_deinit(&g->input_turns[i].said);
                buf_deinit(&g->input_turns[i].extra);
        }
        free(g->input_turns);
        free(g->rows);
        free(g->calls);
}

/* --- tokens --- */

size_t text_memory(const struct engine *engine, const void *text, size_t size, bool special) {
        struct tok_fragment f = {text, size, special};

        return tok_encode_memory(engine->tok, &f, 1) + TEXT_COST;
}

int input_raw(const struct engine *engine, const void *text, size_t size, bool first, size_t max,
        struct tok_ids *out, struct err *e) {
        struct tok_fragment f = {.text = text, .size = size};
        int32_t bos = tok_bos(engine->tok);
        int r;

        if (first && tok_add_bos(engine->tok) && bos >= 0) {
                r = tok_ids_append(out, &bos, 1, e);
                if (r < 0)
                        return r;
        }
        return tok_encode(engine->tok, &f, 1, false, first, max, out, e);
}

void input_results(const struct engine_result *results, size_t n,
        struct chat_message messages[ENGINE_MAX_CALLS]) {
        for (size_t i = 0; i < n; i++)
                messages[i] = (struct chat_message){.role = CHAT_TOOL,
                        .text = results[i].text,
                        .size = strlen(results[i].text),
                        .call_id = results[i].call_id,
                        .name = results[i].name};
}

void input_given(const struct given *given, struct chat_call calls[ENGINE_MAX_CALLS],
        struct chat_message *message) {
        for (size_t i = 0; i < given->n_calls; i++)
                calls[i] = (struct chat_call){.id = given->calls[i].id,
                        .name = given->calls[i].name,
                        .arguments = given->calls[i].arguments,
                        .arguments_size = strlen(given->calls[i].arguments)};
        message->role = CHAT_ASSISTANT;
        message->reasoning = given->reasoning;
        message->reasoning_size = given->reasoning ? strlen(given->reasoning) : 0;
        message->calls = calls;
        message->n_calls = given->n_calls;
}

/* The definitions to be told with the first turn, or NULL. */
static const char *input_tools(const struct request *request) {
        const struct generation *g = generation_in(request);

        if (!input_tells(&request->r))
                return NULL;
        return g->told ? g->told : request->conv->n_turns == 0 ? g->tools : NULL;
}

/* The most tokens of an input: one more than could fit, so that the context error can tell the
 * number. */
static size_t input_most(const struct engine *engine) {
        return (size_t)engine->info.context + 1;
}

/* What the memory ends with behind turn @i of the input. */
static struct chat_tail tail_behind(const struct engine *engine, const struct request *request,
        size_t i, const struct chat_tail *before) {
        const struct conv *c = request->conv;
        enum chat_role role = generation_in(request)->input_turns[i].turn.role;
        bool has_tools = i > 0            ? before->has_tools
                         : c->n_turns > 0 ? conv_begins_with_tools(c)
                                          : input_tools(request) != NULL;

        return (struct chat_tail){.state = chat_state_after(engine->chat, role, has_tools),
                .role = role,
                .created_usec = before->created_usec,
                .has_tools = has_tools};
}

/* The message, or the results, which lib/chat charges itself. */
static int append_messages(struct engine *engine, struct request *request, size_t i,
        const struct chat_tail *tail, size_t max, struct err *e) {
        struct generation *g = generation_of(request);
        const struct input_turn *t = &g->input_turns[i];
        const struct engine_message *m = t->messages;
        const struct given given = {
                m->reasoning, (struct engine_call *)(uintptr_t)m->calls, m->n_calls};
        const char *tools = i == 0 ? input_tools(request) : NULL;
        struct chat_message messages[ENGINE_MAX_CALLS];
        struct chat_call calls[ENGINE_MAX_CALLS];
        struct chat_input in = {.messages = messages,
                .n = 1,
                .tools = tools,
                .tools_size = tools ? strlen(tools) : 0};

        if (t->turn.role == CHAT_TOOL) {
                input_results(t->results, t->n_results, messages);
                in.n = t->n_results;
        } else {
                messages[0] = (struct chat_message){.role = t->turn.role,
                        .text = m->text_size > 0 ? m->text : "",
                        .size = m->text_size};
                if (t->turn.role == CHAT_ASSISTANT)
                        input_given(&given, calls, &messages[0]);
        }
        return chat_append(engine->chat, tail, &in, max, &g->input, e);
}

static int append_tokens(struct engine *engine, struct request *request, struct err *e) {
        for (size_t i = 0; i < request->r.n_tokens; i++)
                if (request->r.tokens[i] < 0 ||
                        (uint32_t)request->r.tokens[i] >= engine->info.n_vocab)
                        return err_set(e, ERR_INVALID,
                                "token %d at %zu is not in the vocabulary of %u",
                                request->r.tokens[i], i, engine->info.n_vocab);
        return tok_ids_append(
                &generation_of(request)->input, request->r.tokens, request->r.n_tokens, e);
}

static int append_turn(struct engine *engine, struct request *request, size_t i,
        const struct chat_tail *tail, struct err *e) {
        struct generation *g = generation_of(request);
        size_t most = input_most(engine);
        int r;

        if (request->r.input == ENGINE_INPUT_TOKENS)
                return append_tokens(engine, request, e);
        if (request->r.input == ENGINE_INPUT_RAW)
                return input_raw(engine, request->r.text, request->r.text_size,
                        tail->state == CHAT_EMPTY, most, &g->input, e);
        if (g->input.n >= most)
                return -ERR_LIMIT;
        r = append_messages(engine, request, i, tail, most - g->input.n, e);
        return r == -ERR_LIMIT ? r : input_wrap(request, g->input_turns[i].messages, r, e);
}

/* Results behind a gap would not stand behind the calls that they answer. */
static int check_gap(const struct request *request, uint32_t at, struct err *e) {
        const struct gap *gap = &request->conv->gap;

        if (gap_is_none(gap) || gap->to != at)
                return 0;
        if (request->r.input == ENGINE_INPUT_NONE)
                return err_set(e, ERR_CONTEXT,
                        "the memory leaves out tokens %u to %u, which the reply would go on from",
                        gap->from, gap->to);
        if (input_first_role(&request->r) != ENGINE_TOOL)
                return 0;
        return err_set(e, ERR_CONTEXT,
                "the memory leaves out tokens %u to %u, in which the calls are that the results "
                "answer",
                gap->from, gap->to);
}

/* What invites a reply without input. */
static int invite_only(struct engine *engine, struct request *request, const struct chat_tail *tail,
        struct err *e) {
        struct generation *g = generation_of(request);
        const struct conv *c = request->conv;
        const struct conv_turn *last = c->n_turns ? &c->turns[c->n_turns - 1] : NULL;

        if (!last || request->r.max_tokens == 0)
                return err_set(e, ERR_INVALID,
                        last ? "nothing to do: no input and max_tokens 0"
                             : "the conversation is empty: nothing to continue");
        if (tail->state == CHAT_OPEN_SYSTEM)
                return err_set(
                        e, ERR_INVALID, "only a system message was said: nothing to reply to");
        if (last->role == CHAT_RAW)
                g->reply_turn.role = CHAT_RAW;
        else if (tail->state == CHAT_CLOSED)
                return chat_append_reply_start(
                        engine->chat, tail, input_most(engine) + 64, &g->input, e);
        return 0;
}

/* The tokens of all turns, and those that invite the reply. @at: the end of the transcript. */
static int append_all(struct engine *engine, struct request *request, uint32_t at,
        const struct chat_tail *tail, struct err *e) {
        struct generation *g = generation_of(request);
        struct chat_tail behind = *tail;
        size_t n_said;
        int r = 0;

        for (size_t i = 0; r == 0 && i < g->n_input_turns; i++) {
                struct input_turn *t = &g->input_turns[i];

                t->turn.start = at + (uint32_t)g->input.n;
                r = append_turn(engine, request, i, &behind, e);
                t->turn.end = at + (uint32_t)g->input.n;
                if (r == 0 && t->turn.end == t->turn.start)
                        r = input_wrap(request, t->messages,
                                err_set(e, ERR_INVALID, "the input is empty"), e);
                if (r == 0)
                        behind = tail_behind(engine, request, i, &behind);
        }
        if (r < 0)
                return r;
        n_said = g->input.n;
        if (request->r.input == ENGINE_INPUT_NONE)
                r = invite_only(engine, request, tail, e);
        else if (g->input_turns[0].messages && request->r.max_tokens != 0)
                r = chat_append_reply_start(
                        engine->chat, &behind, input_most(engine) + 64, &g->input, e);
        g->n_invites = g->input.n - n_said;
        g->reply_turn.start = at + (uint32_t)n_said;
        return r;
}

int input_make(struct engine *engine, struct request *request, const struct chat_tail *tail,
        struct err *e) {
        struct conv *c = request->conv;
        uint32_t at = c->n_all + gap_size(&c->gap); /* in the transcript */
        struct generation *g = generation_of(request);
        int r = check_gap(request, at, e);

        g->input.n = 0;
        g->reply_turn.role =
                g->n_input_turns > 0 && !g->input_turns[0].messages ? CHAT_RAW : CHAT_ASSISTANT;
        if (r == 0)
                r = append_all(engine, request, at, tail, e);
        if (r == -ERR_LIMIT && !g->input.refused)
                return err_set(e, ERR_CONTEXT,
                        "the conversation has %u tokens, and the input alone more than the context "
                        "of %u",
                        c->n_all, engine->info.context);
        return r;
}

void input_plan(const struct request *request, struct checkpoint_plan *plan) {
        const struct generation *g = generation_in(request);
        size_t n = g->n_input_turns;
        uint32_t shift; /* from the transcript to the memory */

        if (n == 0)
                return;
        shift = g->input_turns[n - 1].turn.end - plan->input_end;
        if (request->conv->n_turns == 0 && n > 1)
                plan->first = g->input_turns[0].turn.end - shift;
        for (size_t i = 0; i < ARRAY_SIZE(plan->ends) && i + 1 < n; i++)
                plan->ends[i] = g->input_turns[n - 2 - i].turn.end - shift;
}

/* --- the commit --- */

void input_fill_rows(struct request *request, uint64_t now_usec) {
        struct generation *g = generation_of(request);

        for (size_t i = 0; i < g->n_input_turns; i++) {
                const struct input_turn *t = &g->input_turns[i];
                bool tools = t->turn.role == CHAT_TOOL;
                const char *text = tools         ? (const char *)t->said.data
                                   : t->messages ? t->messages->text
                                                 : request->r.text;
                size_t size = tools         ? t->said.size
                              : t->messages ? t->messages->text_size
                                            : request->r.text_size;

                g->rows[i] = (struct store_turn){.role = t->turn.role,
                        .start = t->turn.start,
                        .end = t->turn.end,
                        .text = text ? text : "",
                        .text_size = size,
                        .extra = t->extra.size > 0 ? (const char *)t->extra.data : NULL,
                        .extra_size = t->extra.size,
                        .created_usec = now_usec};
        }
}

int input_add_turns(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        int r = 0;

        for (size_t i = 0; r == 0 && i < g->n_input_turns; i++) {
                g->input_turns[i].turn.extra = g->input_turns[i].extra.size > 0;
                r = conv_add_turn(engine, request->conv, &g->input_turns[i].turn, e);
        }
        return r;
}
