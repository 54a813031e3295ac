/* SPDX-License-Identifier: MIT */
/* Open: make a new conversation, perhaps with a system message. */
#include <string.h>

#include "base/clock.h"
#include "engine/verbs/create.h"

/* The system message as tokens. */
static struct tok_ids *input_of(struct request *request) {
        return request_own(request);
}

/* The system message needs no tokens to be told. */
static void first_chain(struct engine *engine, struct request *request, struct store_turn *turn) {
        const struct conv_turn only = teller_turn(turn);
        const char *tools = request->r.tools;
        struct teller t = {.engine = engine,
                .charge = &request->charge,
                .said = {.turns = &only},
                .turns = turn,
                .tools = tools,
                .tools_size = tools ? strlen(tools) : 0,
                .owner = request->r.owner};

        (void)teller_chain_all(&t, 1, &turn->chain, NULL); /* or it is unknown */
}

static void open_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct store_turn turn = {.role = CHAT_SYSTEM,
                .end = (uint32_t)input_of(request)->n,
                .text = request->r.system,
                .text_size = request->r.system ? strlen(request->r.system) : 0,
                .created_usec = clock_realtime_usec()};

        unsigned tries = 0;

        request->sc.tools = request->r.tools;
        first_chain(engine, request, &turn);
        request->sc.about = request->r.about;
        pthread_mutex_lock(&engine->verbs->create_lock);
        do {
                j->r = create_check_quota(engine, request, (uint32_t)input_of(request)->n, &j->err);
                if (j->r == 0)
                        j->r = store_conv_create(engine->store, &request->sc, &turn,
                                input_of(request)->n > 0, input_of(request)->ids,
                                input_of(request)->n, &j->err);
        } while (register_retry(engine, &tries, j->r, &j->err));
        pthread_mutex_unlock(&engine->verbs->create_lock);
        if (j->r == 0)
                request_read_noted(engine, request);
}

static void open_done(struct engine *engine, struct job *j) {
        const struct store_conv *c = &request_of(j)->sc;

        if (j->r == 0)
                notice_conv(engine, ENGINE_NOTICE_OPENED, c->owner, c->id, c->revision);
        sweep_noted(engine, request_of(j));
        request_row_done(engine, j);
}

static int open_input(struct engine *engine, struct request *request, struct err *e) {
        const struct chat_tail tail = {
                .state = CHAT_EMPTY, .created_usec = request->sc.created_usec};
        const struct chat_message m = {
                .role = CHAT_SYSTEM, .text = request->r.system, .size = strlen(request->r.system)};
        const char *tools = request->r.tools;
        const struct chat_input in = {
                .messages = &m, .n = 1, .tools = tools, .tools_size = tools ? strlen(tools) : 0};
        int r = chat_append(engine->chat, &tail, &in, engine->info.context, input_of(request), e);

        if (r == -ERR_LIMIT && !input_of(request)->refused)
                r = err_set(e, ERR_CONTEXT,
                        "the system message alone is longer than the context of %u tokens",
                        engine->info.context);
        return r;
}

/* Definitions are checked even if nothing is said yet: they are told with the first message. */
static void open_input_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        const char *tools = request->r.tools;

        j->r = tools ? chat_check_tools(engine->chat, tools, strlen(tools), &j->err) : 0;
        if (j->r == 0 && request->r.system)
                j->r = open_input(engine, request, &j->err);
}

static void open_input_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                request_fail(engine, request_of(j), &j->err);
        else
                request_submit(engine, request_of(j), open_run, open_done);
}

static void start(struct engine *engine, struct request *request) {
        struct err e;
        int r;

        request->sc = (struct store_conv){.owner = request->r.owner,
                .model = engine->info.fingerprint,
                .vocab = engine->vocab_hash,
                .overflow = request->r.overflow == ENGINE_OVERFLOW_SHIFT ? STORE_OVERFLOW_SHIFT
                                                                         : STORE_OVERFLOW_ERROR,
                .sampling = request->r.sampling,
                .created_usec = clock_realtime_usec()};
        r = create_copy_name(request->sc.name, request->r.name, &e);
        if (r == 0)
                r = create_check_sampling(engine, &request->r.sampling, &e);
        if (r == 0 && (request->r.tools ||
                              (request->r.system && text_is_long(strlen(request->r.system)))))
                return request_submit_as(
                        engine, request, JOB_TEXT, open_input_run, open_input_done);
        if (r == 0 && request->r.system)
                r = open_input(engine, request, &e);
        if (r < 0)
                request_fail(engine, request, &e);
        else
                request_submit(engine, request, open_run, open_done);
}

static void init(struct request *request) {
        input_of(request)->charge = &request->charge;
        input_of(request)->stop = &request->cancel;
}

static void deinit(struct engine *engine, struct request *request) {
        (void)engine;
        tok_ids_deinit(input_of(request));
}

const struct verb verb_open = {.works = true,
        .own_size = sizeof(struct tok_ids),
        .init = init,
        .deinit = deinit,
        .start = start};
