/* SPDX-License-Identifier: MIT */
/* Called by the loop thread: check a request, and give it to the desk. */
#include <string.h>

#include "engine/main/main.h"

static int check_calls(const struct engine_request *r, struct err *e) {
        if (r->n_results > ENGINE_MAX_CALLS || r->n_calls > ENGINE_MAX_CALLS)
                return err_set(e, ERR_INVALID, "a message has at most %d calls or results",
                        ENGINE_MAX_CALLS);
        if (r->input == ENGINE_INPUT_RESULTS && r->n_results == 0)
                return err_set(e, ERR_INVALID, "no result is given");
        for (size_t i = 0; i < r->n_results; i++)
                if (!r->results[i].call_id || !*r->results[i].call_id || !r->results[i].text)
                        return err_set(e, ERR_INVALID,
                                "result %zu does not name the call that it answers", i + 1);
        for (size_t i = 0; i < r->n_calls; i++)
                if (!r->calls[i].name || !*r->calls[i].name || !r->calls[i].arguments)
                        return err_set(
                                e, ERR_INVALID, "call %zu has no name, or no arguments", i + 1);
        return 0;
}

static int check_request(const struct engine_request *r, struct err *e) {
        int k;

        if (!owner_possible(r->owner))
                return err_set(e, ERR_INVALID, "no user has the number %u", owner_uid(r->owner));
        if (r->handle == 0 || r->verb >= ENGINE_N_VERBS)
                return err_set(e, ERR_INVALID, "a request needs a handle and a verb");
        if (r->cursor && strlen(r->cursor) > ENGINE_CURSOR_MAX)
                return err_set(e, ERR_INVALID, "a cursor has at most %d bytes", ENGINE_CURSOR_MAX);
        if (r->limit > ENGINE_MAX_LIST)
                return err_set(
                        e, ERR_INVALID, "a list has at most %d conversations", ENGINE_MAX_LIST);
        if (r->n_stops > ENGINE_MAX_STOPS)
                return err_set(e, ERR_INVALID, "at most %d stop strings", ENGINE_MAX_STOPS);
        for (size_t i = 0; i < r->n_stops; i++)
                if (!r->stops[i])
                        return err_set(e, ERR_INVALID, "stop string %zu is missing", i + 1);
        if (r->n_logprobs > ENGINE_MAX_LOGPROBS)
                return err_set(e, ERR_INVALID, "at most %d log-probabilities per token",
                        ENGINE_MAX_LOGPROBS);
        if (r->sampling.n_biases > SAMPLING_MAX_BIASES)
                return err_set(e, ERR_INVALID, "at most %d logit biases", SAMPLING_MAX_BIASES);
        if ((r->text_size > 0 && !r->text) || (r->n_tokens > 0 && !r->tokens))
                return err_set(e, ERR_INVALID, "a size without its data");
        if (r->constraint > ENGINE_CONSTRAINT_CALL ||
                (r->constraint_size > 0 && !r->constraint_text))
                return err_set(e, ERR_INVALID, "unknown or missing constraint");
        if (r->constraint && r->ignore_eos)
                return err_set(e, ERR_INVALID,
                        "a constraint ends the reply: it cannot go with ignore_eos");
        if (r->constraint_size > ENGINE_MAX_CONSTRAINT)
                return err_set(e, ERR_TOO_LARGE, "a constraint of %zu bytes, more than %d",
                        r->constraint_size, ENGINE_MAX_CONSTRAINT);
        if (r->text_size > SIZE_MAX / 16 || r->n_tokens > SIZE_MAX / 64)
                return err_set(e, ERR_TOO_LARGE, "impossible size of a request");
        if (r->tools && strlen(r->tools) > ENGINE_MAX_TOOLS)
                return err_set(e, ERR_TOO_LARGE, "definitions of tools of %zu bytes, more than %d",
                        strlen(r->tools), ENGINE_MAX_TOOLS);
        if (r->input > ENGINE_INPUT_MESSAGES)
                return err_set(e, ERR_INVALID, "unknown kind %d of input", (int)r->input);
        if (r->overflow > ENGINE_OVERFLOW_SHIFT)
                return err_set(e, ERR_INVALID, "unknown overflow %d", (int)r->overflow);
        if (r->input == ENGINE_INPUT_MESSAGE && r->role > ENGINE_ASSISTANT)
                return err_set(e, ERR_INVALID, "a message's role is user, system or assistant");
        if (r->verb == ENGINE_CONTINUE && r->input == ENGINE_INPUT_MESSAGES && r->n_messages == 0)
                return err_set(e, ERR_INVALID, "no message is given");
        if ((r->verb == ENGINE_READ_FILE || r->verb == ENGINE_WRITE_FILE) && !r->file)
                return err_set(e, ERR_INVALID, "no file is named");
        if (r->verb == ENGINE_READ_FILE &&
                (r->n_bytes == 0 || r->n_bytes > ENGINE_MAX_BYTES || r->file->fd < 0 ||
                        r->offset > r->file->size || r->n_bytes > r->file->size - r->offset))
                return err_set(e, ERR_INVALID, "these bytes are not in the file");
        if (r->verb == ENGINE_WRITE_FILE && r->text_size > ENGINE_MAX_BYTES)
                return err_set(e, ERR_TOO_LARGE, "at most %u bytes at a time", ENGINE_MAX_BYTES);
        k = main_check_messages(r->messages, r->n_messages, e);
        return k < 0 ? k : check_calls(r, e);
}

int engine_submit(struct engine *engine, const struct engine_request *r, struct err *e) {
        struct request *request = NULL;
        int k = check_request(r, e);

        if (k == 0)
                k = request_new(&request, engine, dispatch_verb(r), r, e);
        if (k < 0)
                return k;
        k = desk_enter(engine, request, e);
        if (k < 0)
                request_free(engine, request);
        return k;
}
