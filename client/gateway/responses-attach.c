/* SPDX-License-Identifier: MIT */
/*
 * GET /v1/responses/{id}?stream=true: the events of a response again, and those to come, by Attach.
 *
 *      being written, or the last reply ──→ Attach
 *      the conversation went on         ──→ Fork behind the reply, Attach to the fork, Close
 *      ended before it said anything    ──→ events without a reply
 *
 * The daemon tells a reply in the same pieces each time, so the events are the same and have the same numbers; but
 * log-probabilities are told only while it is written. `starting_after` leaves out those that the client has. A stream
 * that reads slowly pauses the line. The reply goes on whether or not somebody reads.
 */
#include "base/util.h"
#include "client/gateway/responses-fetch.h"

#define FORK_SECONDS 60 /* if this process ends before it is closed */

struct following {
        struct gateway_call *call;
        struct line *line;
        struct writer *writer;
        struct stream *stream; /* from Accepted on */
        char model[256];
        uint64_t fork; /* to be closed, or 0 */
        bool in_reasoning;
        struct talk_usage usage;
};

static void following_free(struct following *following) {
        line_put(following->line);
        stream_free(following->stream);
        writer_free(following->writer);
        free(following);
}

static void abort_following(struct following *following) {
        struct http_exchange *exchange = following->call->exchange;

        following_free(following);
        http_abort(exchange);
}

/* ---- the client's side ---- */

static void on_closed(void *userdata) {
        following_free(userdata);
}

static void on_drained(void *userdata) {
        line_resume(((struct following *)userdata)->line);
}

static const struct http_answer_ops http_ops = {on_closed, on_drained};

static int put(void *userdata, const char *name, const struct buf *json) {
        struct following *following = userdata;

        stream_event(following->stream, name, json);
        return 0;
}

static bool begin(struct following *following) {
        following->stream = stream_new_events(following->call, &http_ops, following);
        if (!following->stream) {
                following_free(following);
                return false;
        }
        following->writer->put = put;
        following->writer->userdata = following;
        if (responses_writer_begin(following->writer, following->model) == 0)
                return true;
        abort_following(following);
        return false;
}

/* ---- the end ---- */

static void on_fork_closed(void *userdata, const struct confab_event *event) {
        if (event->final)
                following_free(userdata);
}

/* The answer is complete. */
static void end(struct following *following) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        following->stream = stream_end(following->stream);
        request.verb = CONFAB_CLOSE;
        request.conversation_id = following->fork;
        if (following->fork == 0 ||
                line_submit(following->line, &request, on_fork_closed, following, NULL, NULL) < 0)
                following_free(following);
}

static void fail(struct following *following, const struct confab_error *error) {
        struct gateway_call *call = following->call;
        struct talk_error refusal;

        talk_error_from(&refusal, error);
        if (!following->stream) {
                gateway_refuse(call, &gateway_responses, &refusal);
                following_free(following);
        } else if (following->writer->ops->failed(following->writer, &refusal) < 0) {
                abort_following(following);
        } else {
                end(following);
        }
}

/* ---- the daemon's side ---- */

static void on_delta(struct following *following, const struct confab_delta *delta) {
        talk_usage_delta(&following->usage, &following->in_reasoning, delta);
        if (following->writer->ops->delta(following->writer, delta) < 0)
                abort_following(following);
        else if (stream_is_slow(following->stream))
                line_pause(following->line);
}

static void on_done(struct following *following, const struct confab_done *done) {
        talk_usage_prompt(&following->usage, done->n_prompt, done->n_computed);
        following->usage.n_generated = done->n_generated;
        following->usage.n_reasoning = MIN(following->usage.n_reasoning, done->n_generated);
        if (following->writer->ops->done(following->writer, done, &following->usage) < 0)
                abort_following(following);
        else
                end(following);
}

static void on_event(void *userdata, const struct confab_event *event) {
        struct following *following = userdata;

        switch (event->kind) {
        case CONFAB_EVENT_ACCEPTED:
                (void)begin(following);
                break;
        case CONFAB_EVENT_DELTA:
                on_delta(following, event->delta);
                break;
        case CONFAB_EVENT_DONE:
                on_done(following, event->done);
                break;
        case CONFAB_EVENT_ERROR:
                fail(following, event->error);
                break;
        default:
                break;
        }
}

/* ---- beginning ---- */

/* Everything of @fetching goes over, and its asker ends. NULL: the call was refused. */
static struct following *take_over(struct responses_fetching *fetching) {
        struct following *following = calloc(1, sizeof(*following));
        struct backend *backend = fetching->backend;
        struct err e = {0};
        int r;

        if (!following) {
                err_no_memory(&e);
                asker_refuse_err(&fetching->asker, &e);
                return NULL;
        }
        fetching->wish.instructions = fetching->instructions;
        following->writer =
                responses_writer_resume(&fetching->wish, &fetching->place, fetching->after);
        memcpy(following->model, fetching->model, sizeof(following->model));
        following->call = asker_end(&fetching->asker);
        r = following->writer ? line_get(&following->line, backend, &following->call->owner, &e)
                              : err_no_memory(&e);
        if (r < 0) {
                gateway_refuse_err(following->call, &gateway_responses, &e);
                following_free(following);
                return NULL;
        }
        http_set_ops(following->call->exchange, &http_ops, following);
        return following;
}

static void attach(struct responses_fetching *fetching, uint64_t fork) {
        bool writing = fetching->fate == RESPONSES_WRITING;
        struct confab_request request = CONFAB_REQUEST_INIT;
        struct following *following;
        struct confab_error error;

        request.verb = CONFAB_ATTACH;
        request.conversation_id = fork > 0 ? fork : fetching->id.conversation;
        request.want_parts = true;
        request.has_expect_revision = fork == 0;
        request.expect_revision = writing ? fetching->id.revision : fetching->revision - 1;
        following = take_over(fetching);
        if (!following)
                return;
        following->fork = fork;
        if (line_submit(following->line, &request, on_event, following, NULL, &error) < 0)
                fail(following, &error);
}

static void on_forked(struct asker *asker, const struct confab_event *event) {
        if (!asker_failed(asker, event))
                attach(container_of(asker, struct responses_fetching, asker),
                        event->conversation->id);
}

static void fork_at(struct responses_fetching *fetching) {
        const struct confab_about about = {
                .has_expires_after = true, .expires_after = FORK_SECONDS};
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_FORK;
        request.conversation_id = fetching->id.conversation;
        request.has_at_turn = true;
        request.at_turn = fetching->id.turn + 1;
        request.has_expect_revision = true;
        request.expect_revision = fetching->revision;
        request.about = &about;
        asker_ask(&fetching->asker, fetching->backend, &request, on_forked);
}

static void tell_without_reply(struct responses_fetching *fetching) {
        static const struct talk_error cancelled = {
                .code = CONFAB_CANCELLED, .message = "the reply ended before it said anything"};
        struct following *following = take_over(fetching);

        if (!following || !begin(following))
                return;
        if (following->writer->ops->failed(following->writer, &cancelled) < 0)
                abort_following(following);
        else
                end(following);
}

void responses_attach(struct responses_fetching *fetching) {
        if (fetching->fate == RESPONSES_UNANSWERED)
                tell_without_reply(fetching);
        else if (fetching->fate == RESPONSES_STORED && !fetching->is_last)
                fork_at(fetching);
        else
                attach(fetching, 0);
}
