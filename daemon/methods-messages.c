/* SPDX-License-Identifier: MIT */
/* Messages of any role, as Continue and Find take them. The engine checks what belongs to which role. */
#include "daemon/methods-private.h"
#include <stdlib.h>
#include <string.h>

/* An empty string in a message counts as none. */
static const char *some(const char *s) {
        return s && *s ? s : NULL;
}

static int take_role(
        const Confab__V1__Message *m, size_t number, enum engine_role *ret, struct err *e) {
        switch (m->role) {
        case CONFAB__V1__ROLE__ROLE_SYSTEM:
                *ret = ENGINE_SYSTEM;
                return 0;
        case CONFAB__V1__ROLE__ROLE_USER:
                *ret = ENGINE_USER;
                return 0;
        case CONFAB__V1__ROLE__ROLE_ASSISTANT:
                *ret = ENGINE_ASSISTANT;
                return 0;
        case CONFAB__V1__ROLE__ROLE_TOOL:
                *ret = ENGINE_TOOL;
                return 0;
        default:
                return err_set(e, ERR_INVALID,
                        "message %zu: its role is system, user, assistant or tool", number);
        }
}

/* The messages, and behind them their calls and results, in one block. */
struct block {
        struct engine_message *messages;
        struct engine_call *calls;
        struct engine_result *results;
};

static int make_block(Confab__V1__Message *const *in, size_t n, struct block *ret, struct err *e) {
        size_t n_calls = 0, n_results = 0;

        for (size_t i = 0; i < n; i++) {
                n_calls += in[i]->n_calls;
                n_results += in[i]->n_results;
        }
        /* The sums are bounded by the length of the frame. */
        ret->messages = calloc(1, n * sizeof(*ret->messages) + n_calls * sizeof(*ret->calls) +
                                          n_results * sizeof(*ret->results));
        if (!ret->messages)
                return err_set(e, ERR_NOMEM, "no memory for a request");
        ret->calls = (struct engine_call *)(ret->messages + n);
        ret->results = (struct engine_result *)(ret->calls + n_calls);
        return 0;
}

static int take_message(struct block *block, const Confab__V1__Message *in, size_t number,
        struct engine_message *out, struct err *e) {
        int r = take_role(in, number, &out->role, e);

        if (r < 0)
                return r;
        out->text = in->text ? in->text : "";
        out->text_size = strlen(out->text);
        out->reasoning = some(in->reasoning);
        out->calls = block->calls;
        out->n_calls = in->n_calls;
        for (size_t i = 0; i < in->n_calls; i++) {
                const Confab__V1__Call *call = in->calls[i];

                *block->calls++ = (struct engine_call){some(call->id), some(call->name),
                        some(call->arguments) ? call->arguments : "{}"};
        }
        out->results = block->results;
        out->n_results = in->n_results;
        for (size_t i = 0; i < in->n_results; i++) {
                const Confab__V1__ToolResult *result = in->results[i];

                *block->results++ = (struct engine_result){some(result->call_id),
                        some(result->name), result->text ? result->text : ""};
        }
        return 0;
}

int methods_take_messages(
        Confab__V1__Message *const *in, size_t n, struct engine_request *out, struct err *e) {
        struct block block = {};
        struct engine_message *messages;
        int r = 0;

        if (n == 0)
                return err_set(e, ERR_INVALID, "no message is given");
        if (n > ENGINE_MAX_MESSAGES)
                return err_set(
                        e, ERR_INVALID, "%zu messages, more than %d", n, ENGINE_MAX_MESSAGES);
        r = make_block(in, n, &block, e);
        if (r < 0)
                return r;
        messages = block.messages;
        out->messages = messages;
        out->n_messages = n;
        for (size_t i = 0; r == 0 && i < n; i++)
                r = take_message(&block, in[i], i + 1, &messages[i], e);
        return r;
}
