/* SPDX-License-Identifier: MIT */
#include "client/gateway/answer.h"
#include "base/clock.h"
#include "base/util.h"

struct answer {
        struct gateway_call *call;
        const struct answer_kind *kind;
        void *userdata;
        struct writer *writer;
        struct talk *talk;     /* NULL: it has ended */
        struct stream *stream; /* of a streamed reply, from its acceptance on */
        bool streams;
        bool waits;        /* for finish() */
        bool cancelled;    /* the reply was */
        bool enough;       /* it said enough, so that we have cancelled it */
        struct buf body;   /* of a reply that is not streamed */
        uint64_t put_usec; /* when something was last put */
        struct talk_place place;
        uint64_t revision;
};

static void answer_free(struct answer *answer) {
        talk_free(answer->talk);
        stream_free(answer->stream);
        writer_free(answer->writer);
        buf_deinit(&answer->body);
        if (answer->kind->ended)
                answer->kind->ended(answer->userdata);
        free(answer);
}

/* --- the client's side --- */

static void on_closed(void *userdata) {
        answer_free(userdata);
}

static void on_drained(void *userdata) {
        struct answer *answer = userdata;

        if (answer->talk)
                talk_resume(answer->talk);
}

static const struct http_answer_ops http_ops = {on_closed, on_drained};

static int put(void *userdata, const char *name, const struct buf *json) {
        struct answer *answer = userdata;

        answer->put_usec = clock_monotonic_usec();
        if (!answer->streams)
                return buf_append(&answer->body, json->data, json->size);
        if (answer->kind->lines)
                stream_line(answer->stream, json);
        else
                stream_event(answer->stream, name, json);
        return 0;
}

/* The client must not take what it has for the whole reply. */
static void abort_answer(struct answer *answer) {
        struct http_exchange *exchange = answer->call->exchange;

        answer_free(answer);
        http_abort(exchange);
}

static void end_answer(struct answer *answer) {
        struct gateway_call *call = answer->call;
        struct buf body = answer->body;

        if (answer->stream) {
                stream_end(TAKE_PTR(answer->stream));
                answer_free(answer);
                return;
        }
        answer->body = BUF_NULL;
        answer_free(answer);
        gateway_reply_json(call, &body);
        buf_deinit(&body);
}

void answer_refuse(
        struct gateway_call *call, const struct answer_kind *kind, const struct talk_error *error) {
        struct talk_error own = *error;

        if (kind->status)
                own.status = kind->status(error);
        gateway_refuse(call, kind->dialect, &own);
}

void answer_refuse_start(
        struct gateway_call *call, const struct answer_kind *kind, const struct err *e) {
        struct talk_error error;

        gateway_error_from(&error, e);
        if (e->code == ERR_NOT_FOUND)
                error.param = "model";
        answer_refuse(call, kind, &error);
}

/* The exchange ends with an error; @error is the talk's, and ends with it. */
static void fail_answer(struct answer *answer, const struct talk_error *error) {
        if (!answer->stream) {
                answer_refuse(answer->call, answer->kind, error);
                answer_free(answer);
                return;
        }
        if (answer->writer->ops->failed(answer->writer, error) < 0) {
                abort_answer(answer);
                return;
        }
        end_answer(answer);
}

/* --- the talk's side --- */

static void on_accepted(void *userdata, unsigned choice, const struct talk_place *place,
        const struct talk_usage *usage) {
        struct answer *answer = userdata;
        int r;

        answer->place = *place;
        if (answer->streams) {
                answer->stream = answer->kind->lines
                                         ? stream_new_lines(answer->call, &http_ops, answer)
                                         : stream_new_events(answer->call, &http_ops, answer);
                if (!answer->stream) { /* the exchange was aborted */
                        answer_free(answer);
                        return;
                }
        }
        answer->put_usec = clock_monotonic_usec();
        r = answer->writer->ops->begin(answer->writer, talk_model(answer->talk), place, usage);
        if (r < 0) {
                abort_answer(answer);
        } else if (r > 0) {
                answer->talk = talk_leave(answer->talk);
                end_answer(answer);
        }
}

/* Streams of events have comments; lines have none, so the writer has to say something. */
static void on_progress(void *userdata, uint32_t done, uint32_t total) {
        struct answer *answer = userdata;
        uint64_t wait_usec = gateway_settings(answer->call->gateway)->keepalive_usec;

        if (!answer->kind->lines || !answer->stream || !answer->writer->ops->idle ||
                wait_usec == 0 || clock_monotonic_usec() - answer->put_usec < wait_usec)
                return;
        if (answer->writer->ops->idle(answer->writer) < 0)
                abort_answer(answer);
}

static void on_delta(void *userdata, unsigned choice, const struct confab_delta *delta) {
        struct answer *answer = userdata;
        int r = answer->writer->ops->delta(answer->writer, delta);

        if (r < 0) {
                abort_answer(answer);
                return;
        }
        if (answer->stream && stream_is_slow(answer->stream))
                talk_pause(answer->talk);
        if (r > 0 && !answer->enough) {
                answer->enough = true;
                talk_cancel(answer->talk);
        }
}

static void on_done(void *userdata, unsigned choice, const struct confab_done *done,
        const struct talk_usage *usage) {
        struct answer *answer = userdata;
        int r;

        answer->revision = done->revision;
        answer->cancelled = done->finish == CONFAB_FINISH_CANCELLED && !answer->enough;
        if (answer->cancelled)
                return; /* what was said is no reply: `ended` makes an error of it */
        r = answer->writer->ops->done(answer->writer, done, usage);
        if (r < 0)
                abort_answer(answer);
        else
                answer->waits = r > 0;
}

static void on_ended(void *userdata, const struct talk_error *error) {
        struct answer *answer = userdata;

        if (error)
                fail_answer(answer, error);
        else if (answer->cancelled)
                fail_answer(answer, &talk_error_cancelled);
        else if (!answer->waits)
                end_answer(answer);
        else {
                answer->talk = talk_free(answer->talk);
                answer->kind->finish(answer->userdata, answer);
        }
}

/* --- the caller's side --- */

int answer_read_body(struct gateway_call *call, json_t **ret, struct err *e) {
        size_t size;
        const char *body = http_body(call->exchange, &size);
        int r = fields_parse(ret, body, size, e);

        http_drop_body(call->exchange);
        return r;
}

void answer_complete(struct answer *answer, int r) {
        if (r < 0)
                abort_answer(answer);
        else
                end_answer(answer);
}

const struct talk_place *answer_place(const struct answer *answer) {
        return &answer->place;
}

uint64_t answer_revision(const struct answer *answer) {
        return answer->revision;
}

void answer_start(struct gateway_call *call, const struct answer_kind *kind, void *userdata,
        struct form *form, struct writer *writer) {
        static const struct talk_ops ops = {
                .accepted = on_accepted,
                .progress = on_progress,
                .delta = on_delta,
                .done = on_done,
                .ended = on_ended,
        };
        struct answer *answer = writer ? calloc(1, sizeof(*answer)) : NULL;
        struct err e = {0};
        int r;

        if (!answer) {
                form_free(form);
                writer_free(writer);
                if (kind->ended)
                        kind->ended(userdata);
                err_no_memory(&e);
                gateway_refuse_err(call, kind->dialect, &e);
                return;
        }
        *answer = (struct answer){.call = call,
                .kind = kind,
                .userdata = userdata,
                .writer = writer,
                .streams = form_fields(form)->stream};
        writer->put = put;
        writer->userdata = answer;
        r = talk_new(&answer->talk, gateway_call_backends(call),
                &gateway_settings(call->gateway)->talk, &call->owner, form, &ops, answer, &e);
        if (r < 0) {
                answer_free(answer);
                answer_refuse_start(call, kind, &e);
                return;
        }
        http_set_ops(call->exchange, &http_ops, answer);
}
