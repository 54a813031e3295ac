/* SPDX-License-Identifier: MIT */
#include "client/gateway/openai-answer.h"
#include "base/clock.h"
#include "base/util.h"
#include "client/gateway/openai-handle.h"
#include <string.h>

struct openai_answer {
        struct gateway_call *call;
        enum openai_kind kind;
        struct openai_options options;
        struct openai_prompts prompts; /* NULL: of talks that were begun */
        unsigned n_prompts, prompt;    /* the one that is answered */
        uint64_t created;              /* seconds */
        struct buf echo;               /* of the prompt, if it is to be told */
        struct talk *talk;
        struct openai_reply *reply; /* from the first acceptance on */
        struct stream *stream;      /* likewise, of a streamed one */
        bool cancelled, ends_early; /* by another request; by us */
};

static struct openai_answer *answer_free(struct openai_answer *answer) {
        talk_free(answer->talk);
        stream_free(answer->stream);
        openai_reply_free(answer->reply);
        openai_prompts_deinit(&answer->prompts);
        buf_deinit(&answer->echo);
        free(answer);
        return NULL;
}

static void abort_answer(struct openai_answer *answer) {
        struct http_exchange *exchange = answer->call->exchange;

        answer_free(answer);
        http_abort(exchange);
}

/* ---- the client's side ---- */

static void on_closed(void *userdata) {
        answer_free(userdata);
}

static void on_drained(void *userdata) {
        struct openai_answer *answer = userdata;

        if (answer->talk)
                talk_resume(answer->talk);
}

static const struct http_answer_ops http_ops = {on_closed, on_drained};

static int emit(void *userdata, const struct buf *json) {
        struct openai_answer *answer = userdata;

        stream_event(answer->stream, NULL, json);
        return 0;
}

static void end_stream(struct openai_answer *answer) {
        stream_end(TAKE_PTR(answer->stream));
        answer_free(answer);
}

static void fail_answer(struct openai_answer *answer, const struct talk_error *error) {
        _cleanup_(buf_deinit) struct buf json = BUF_NULL;
        struct talk_error own = *error;

        own.param = openai_error_param(error);
        if (answer->kind == OPENAI_TEXT && own.param && strcmp(own.param, "messages") == 0)
                own.param = "prompt";
        if (!answer->stream) {
                gateway_refuse(answer->call, &gateway_openai, &own);
                answer_free(answer);
        } else if (openai_error_body(&json, own.status, own.code, own.message, own.param) < 0) {
                abort_answer(answer);
        } else {
                stream_event(answer->stream, NULL, &json);
                end_stream(answer);
        }
}

static void end_answer(struct openai_answer *answer) {
        static char done[] = "[DONE]";
        const struct buf last = {.data = (uint8_t *)done, .size = 6};
        _cleanup_(buf_deinit) struct buf json = BUF_NULL;

        if (openai_reply_finish(answer->reply) < 0) {
                abort_answer(answer);
        } else if (answer->stream) {
                stream_event(answer->stream, NULL, &last);
                end_stream(answer);
        } else if (openai_reply_whole(answer->reply, &json) < 0) {
                abort_answer(answer);
        } else {
                gateway_reply_json(answer->call, &json);
                answer_free(answer);
        }
}

/* ---- the talk's side ---- */

/* The number of a talk's choice among all of the answer. */
static unsigned number(const struct openai_answer *answer, unsigned choice) {
        return answer->prompt * answer->prompts.n + choice;
}

/* The reply, and the stream if it is one. -ERR_NOMEM: the exchange is to be aborted; 1: it was. */
static int begin_reply(struct openai_answer *answer) {
        const struct backend_model *model = talk_model(answer->talk);
        const struct openai_reply_options options = {.kind = answer->kind,
                .in_pieces = answer->options.stream,
                .include_usage = answer->options.include_usage,
                .want_logprobs = answer->options.want_logprobs,
                .one_call = answer->options.one_call,
                .n = answer->n_prompts * answer->prompts.n,
                .created = answer->created,
                .model = model->name,
                .fingerprint = model->fingerprint};

        if (openai_reply_new(&answer->reply, &options, emit, answer) < 0)
                return -ERR_NOMEM;
        if (!answer->options.stream)
                return 0;
        answer->stream = stream_new_events(answer->call, &http_ops, answer);
        return answer->stream ? 0 : 1;
}

static void on_accepted(void *userdata, unsigned choice, const struct talk_place *place,
        const struct talk_usage *usage) {
        struct openai_answer *answer = userdata;
        int r = answer->reply ? 0 : begin_reply(answer);

        if (r == 0 && answer->options.echo)
                r = openai_reply_echo(answer->reply, number(answer, choice), answer->echo.data,
                        answer->echo.size);
        if (r == 0)
                r = openai_reply_accepted(answer->reply, number(answer, choice), place);
        if (r < 0)
                abort_answer(answer);
        else if (r > 0)
                answer_free(answer);
}

static void on_delta(void *userdata, unsigned choice, const struct confab_delta *delta) {
        struct openai_answer *answer = userdata;

        if (openai_reply_delta(answer->reply, number(answer, choice), delta) < 0) {
                abort_answer(answer);
                return;
        }
        if (answer->stream && stream_is_slow(answer->stream))
                talk_pause(answer->talk);
        if (openai_reply_is_enough(answer->reply)) {
                answer->ends_early = true;
                talk_cancel(answer->talk);
        }
}

static void on_done(void *userdata, unsigned choice, const struct confab_done *done,
        const struct talk_usage *usage) {
        struct openai_answer *answer = userdata;

        if (done->finish == CONFAB_FINISH_CANCELLED && !answer->ends_early)
                answer->cancelled = true;
        else if (openai_reply_done(
                         answer->reply, number(answer, choice), done, usage, choice == 0) < 0)
                abort_answer(answer);
}

static int begin_talk(struct openai_answer *answer, struct err *e);

static void on_ended(void *userdata, const struct talk_error *error) {
        struct openai_answer *answer = userdata;
        struct err e = {};

        if (error) {
                fail_answer(answer, error);
        } else if (answer->cancelled) {
                fail_answer(answer, &talk_error_cancelled);
        } else if (++answer->prompt == answer->n_prompts) {
                end_answer(answer);
        } else {
                answer->talk = talk_free(answer->talk);
                if (begin_talk(answer, &e) < 0) {
                        const struct talk_error failed = {.status = 503,
                                .code = CONFAB_UNAVAILABLE,
                                .message = e.msg,
                                .retry_after = 1};

                        fail_answer(answer, &failed);
                }
        }
}

/* ---- the caller's side ---- */

static const struct talk_ops talk_ops = {
        .accepted = on_accepted, .delta = on_delta, .done = on_done, .ended = on_ended};

/* Answer the present prompt. */
static int begin_talk(struct openai_answer *answer, struct err *e) {
        struct form *form = TAKE_PTR(answer->prompts.forms[answer->prompt]);
        const struct form_fields *fields = form_fields(form);

        answer->echo.size = 0;
        if (answer->options.echo && fields->raw_size > 0 &&
                buf_append(&answer->echo, fields->raw, fields->raw_size) < 0) {
                form_free(form);
                return err_no_memory(e);
        }
        return talk_new(&answer->talk, gateway_call_backends(answer->call),
                &gateway_settings(answer->call->gateway)->talk, &answer->call->owner, form,
                &talk_ops, answer, e);
}

void openai_answer_start(struct gateway_call *call, enum openai_kind kind,
        struct openai_prompts *prompts, const struct openai_options *options) {
        struct openai_answer *answer = calloc(1, sizeof(*answer));
        struct err e = {};
        int r;

        if (!answer) {
                openai_prompts_deinit(prompts);
                err_no_memory(&e);
                openai_refuse(call, NULL, &e);
                return;
        }
        *answer = (struct openai_answer){.call = call,
                .kind = kind,
                .options = *options,
                .prompts = *prompts,
                .n_prompts = (unsigned)prompts->n_forms,
                .created = clock_realtime_usec() / 1000000};
        *prompts = (struct openai_prompts){};
        r = begin_talk(answer, &e);
        if (r < 0) {
                answer_free(answer);
                openai_refuse(call, NULL, &e);
                return;
        }
        http_set_ops(call->exchange, &http_ops, answer);
}
