/* SPDX-License-Identifier: MIT */
/*
 * Tools in a Continue: the definitions that hold, and the results of calls.
 *
 * 1. Definitions are told with a message, once, and are tokens from then on (I1). Those that the
 *    conversation was opened with are told with its first message, if that is the system's or the
 *    user's. Those that a Continue gives are told with its input's first turn, and are stored with it: a
 *    rewind takes them back with the turn, a fork has them if it has the turn.
 * 2. A client may give the same definitions each time: those that hold already are not told again.
 * 3. A result answers a call of the last reply, or of the message that was given in its place. Of
 *    several messages in one request, a result answers a call of the message before it. No call is
 *    answered twice; turns of tools behind the reply have answered some. Calls may stay without a
 *    result.
 * 4. What the register has is read when it is needed, by a job: definitions may be long, and RAM is
 *    for memory.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/run/state.h"

bool tools_need_job(const struct request *request) {
        const struct engine_request *r = &request->r;
        const struct conv *c = request->conv;

        return input_first_role(r) == ENGINE_TOOL || r->tools ||
               (conv_has_tools(c) && (r->want_parts || c->n_turns == 0 ||
                                             r->constraint == ENGINE_CONSTRAINT_CALL));
}

static void *take_block(void *arg, size_t n, struct err *e) {
        struct request *request = arg;
        void *block;

        if (charge_take(&request->charge, n, "calls and their results", e) < 0)
                return NULL;
        block = malloc(MAX(n, (size_t)1));
        if (!block)
                err_set(e, ERR_NOMEM, "no memory for calls and their results");
        return block;
}

static int admit(void *arg, size_t n, struct err *e) {
        struct request *request = arg;

        return charge_take(&request->charge, n, "definitions of tools", e);
}

/* --- definitions --- */

static int take_definitions(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        const char *tools = request->r.tools;
        size_t n = tools ? strlen(tools) : 0;
        char *copy;
        int r;

        if (!tools || (g->tools && g->tools_size == n && memcmp(g->tools, tools, n) == 0))
                return 0;
        if (!input_tells(&request->r) && request->r.input != ENGINE_INPUT_RAW &&
                request->r.input != ENGINE_INPUT_TOKENS)
                return err_set(e, ERR_INVALID,
                        "definitions of tools are told with a message of the user, the system or "
                        "tools");
        r = chat_check_tools(engine->chat, tools, n, e);
        if (r < 0)
                return r;
        copy = take_block(request, n + 1, e);
        if (!copy)
                return -(int)e->code;
        memcpy(copy, tools, n + 1);
        free(g->tools);
        g->tools = copy;
        g->tools_size = n;
        g->told = tools;
        return 0;
}

/* --- results --- */

/* A call of the last reply, of the message that was given in its place, or of the message before. */
struct asked_call {
        const char *id; /* or NULL: nothing answers it */
        const char *name;
        bool answered;
};
struct asked {
        struct asked_call *calls; /* [n], for the caller to free */
        size_t n;
        uint32_t turn; /* of the conversation, if they are of one */
};

static int read_given(struct engine *engine, struct request *request, uint32_t turn,
        struct parts *parts, struct err *e) {
        const struct said_memory memory = {take_block, request, &request->charge};
        struct given given = {0};
        char *text = NULL;
        size_t size = 0;
        int r = store_turn_part(
                engine->store, request->conv->id, turn, true, admit, request, &text, &size, e);

        if (r == 0 && text)
                r = given_parse(text, size, &memory, &given, e);
        parts->at = request->conv->turns[turn].start;
        if (r == 0)
                r = parts_add_given(parts, "", 0, &given, e);
        free(given.calls);
        free(text);
        return r;
}

static int read_reply(struct engine *engine, struct request *request, uint32_t turn,
        struct parts *parts, struct err *e) {
        const struct generation *g = generation_in(request);
        const struct said said = conv_said(request->conv);
        struct chat_reply *reader = NULL;
        struct said_reply at;
        int r = chat_reply_new(&reader, engine->chat, g->tools, g->tools_size, &request->charge, e);

        if (r == 0)
                r = said_find_reply(engine, &said, turn, &at, e);
        if (r == 0)
                r = said_feed_header(&said, &at, reader, e);
        if (r == 0) {
                parts->at = at.begin;
                r = said_feed(&said, at.begin, said.turns[turn].end, reader, parts, e);
        }
        if (r == 0)
                r = chat_reply_finish(reader, parts_add, parts, e);
        chat_reply_free(reader);
        return r;
}

static int read_calls(
        struct engine *engine, struct request *request, struct asked *asked, struct err *e) {
        struct generation *g = generation_of(request);
        const struct conv *c = request->conv;
        const struct conv_turn *t;
        struct parts parts;
        uint32_t i = c->n_turns;
        size_t n = 0;
        int r;

        while (i > 0 && c->turns[i - 1].role == CHAT_TOOL)
                i--;
        if (i == 0 || c->turns[i - 1].role != CHAT_ASSISTANT)
                return err_set(e, ERR_INVALID,
                        "results answer the calls of the last reply, and there is none");
        asked->turn = i - 1;
        t = &c->turns[i - 1];
        parts_init(&parts, &request->charge);
        if (t->finish != ENGINE_FINISH_NONE)
                r = read_reply(engine, request, i - 1, &parts, e);
        else if (t->extra)
                r = read_given(engine, request, i - 1, &parts, e);
        else
                r = 0;
        if (r == 0)
                r = parts_take(&parts, take_block, request, &g->calls, &n, e);
        parts_deinit(&parts);
        if (r == 0)
                asked->calls = take_block(request, n * sizeof(*asked->calls), e);
        for (size_t k = 0; asked->calls && k < n; k++)
                if (g->calls[k].kind == ENGINE_PART_CALL)
                        asked->calls[asked->n++] =
                                (struct asked_call){g->calls[k].call_id, g->calls[k].name, false};
        return r < 0 || asked->calls ? r : -(int)e->code;
}

/* The first call with this id that waits; else the first with this id, or SIZE_MAX. (A model may give
 * an id twice.) */
static size_t find_call(const struct asked *asked, const char *id) {
        size_t found = SIZE_MAX;

        for (size_t i = asked->n; i-- > 0;) {
                const char *is = asked->calls[i].id;

                if (is && strcmp(is, id) == 0 && (!asked->calls[i].answered || found == SIZE_MAX))
                        found = i;
        }
        return found;
}

/* Mark the calls that turn @turn has answered. */
static int mark_answered(struct engine *engine, struct request *request, uint32_t turn,
        struct asked *asked, struct err *e) {
        const struct said_memory memory = {take_block, request, &request->charge};
        struct engine_result *results = NULL;
        size_t size = 0, n = 0;
        char *text = NULL;
        int r = store_turn_part(
                engine->store, request->conv->id, turn, false, admit, request, &text, &size, e);

        if (r == 0)
                r = results_parse(text ? text : "", size, &memory, &results, &n, e);
        for (size_t i = 0; r == 0 && i < n; i++) {
                size_t k = find_call(asked, results[i].call_id);

                if (k != SIZE_MAX)
                        asked->calls[k].answered = true;
        }
        free(results);
        free(text);
        return r;
}

/* "there is no call '…' that waits: those that do are a, b". Sentences are short: as many as fit. */
static int no_such_call(const struct asked *asked, const char *id, struct err *e) {
        char names[160] = "";
        size_t n = 0, k = find_call(asked, id);

        for (size_t i = 0; i < asked->n; i++) {
                const struct asked_call *call = &asked->calls[i];

                if (!call->id || call->answered)
                        continue;
                if (n + strlen(call->id) + 8 > sizeof(names)) {
                        strcat(names, ", ...");
                        break;
                }
                n += (size_t)snprintf(
                        names + n, sizeof(names) - n, "%s%s", n > 0 ? ", " : "", call->id);
        }
        if (k != SIZE_MAX)
                return err_set(e, ERR_INVALID, "call '%.40s' has a result already; %s%s", id,
                        n > 0 ? "waiting: " : "no call waits", names);
        return err_set(e, ERR_INVALID, "the last reply has no call '%.40s'; %s%s", id,
                n > 0 ? "waiting: " : "no call waits", names);
}

/* The results of a message, behind those that the turn has already. */
static int match_results(
        struct input_turn *t, const struct engine_message *m, struct asked *asked, struct err *e) {
        for (size_t i = 0; i < m->n_results; i++) {
                size_t k = find_call(asked, m->results[i].call_id);
                struct engine_result *result = &t->results[t->n_results];

                if (k == SIZE_MAX || asked->calls[k].answered)
                        return no_such_call(asked, m->results[i].call_id, e);
                asked->calls[k].answered = true;
                *result = m->results[i];
                if (!result->name && *asked->calls[k].name)
                        result->name = asked->calls[k].name;
                t->n_results++;
        }
        return 0;
}

/* The calls of the message in front of turn @i of the input. */
static int take_calls(struct request *request, size_t i, struct asked *asked, struct err *e) {
        const struct input_turn *before = &generation_in(request)->input_turns[i - 1];
        const struct engine_message *m = before->messages;

        if (before->turn.role != CHAT_ASSISTANT)
                return err_set(e, ERR_INVALID,
                        "results answer the calls of the message before, and it is not the "
                        "assistant's");
        asked->calls = take_block(request, m->n_calls * sizeof(*asked->calls), e);
        if (!asked->calls)
                return -(int)e->code;
        for (size_t k = 0; k < m->n_calls; k++)
                asked->calls[asked->n++] =
                        (struct asked_call){m->calls[k].id, m->calls[k].name, false};
        return 0;
}

/* The results of turn @i of the input. */
static int take_results(struct engine *engine, struct request *request, size_t i, struct err *e) {
        struct input_turn *t = &generation_of(request)->input_turns[i];
        struct asked asked = {0};
        size_t n = 0;
        int r = i > 0 ? take_calls(request, i, &asked, e) : read_calls(engine, request, &asked, e);

        for (uint32_t k = asked.turn + 1; r == 0 && i == 0 && k < request->conv->n_turns; k++)
                r = mark_answered(engine, request, k, &asked, e);
        r = input_wrap(request, t->messages, r, e);
        for (size_t k = 0; k < t->n; k++)
                n += t->messages[k].n_results;
        if (r == 0) {
                t->results = take_block(request, n * sizeof(*t->results), e);
                r = t->results ? 0 : -(int)e->code;
        }
        for (size_t k = 0; r == 0 && k < t->n; k++)
                r = input_wrap(
                        request, &t->messages[k], match_results(t, &t->messages[k], &asked, e), e);
        free(asked.calls);
        return r < 0 ? r : results_format(&t->said, t->results, t->n_results, e);
}

/* --- both --- */

/* What the register gets of turn @i besides its text. */
static int prepare_turn(struct engine *engine, struct request *request, size_t i, struct err *e) {
        struct input_turn *t = &generation_of(request)->input_turns[i];
        const struct engine_message *m = t->messages;

        if (t->turn.role == CHAT_TOOL)
                return take_results(engine, request, i, e);
        if (t->turn.role == CHAT_ASSISTANT && (m->reasoning || m->n_calls > 0))
                return given_format(&t->extra, m->reasoning, m->calls, m->n_calls, e);
        return 0;
}

int tools_prepare(struct engine *engine, struct request *request, struct err *e) {
        struct generation *g = generation_of(request);
        int k = 0;

        if (conv_has_tools(request->conv) && tools_need_job(request))
                k = store_tools(engine->store, request->conv->id, request->conv->n_turns, admit,
                        request, &g->tools, &g->tools_size, e);
        if (k == 0)
                k = take_definitions(engine, request, e);
        for (size_t i = 0; k == 0 && i < g->n_input_turns; i++)
                k = prepare_turn(engine, request, i, e);
        if (k == 0 && g->told)
                k = buf_append_str(&g->input_turns[0].extra, g->told) < 0
                            ? err_set(e, ERR_NOMEM, "no memory for definitions of tools")
                            : 0;
        return k;
}
