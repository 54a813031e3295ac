/* SPDX-License-Identifier: MIT */
/*
 * A reply as Ollama's dialect tells it: lines of JSON, or one object.
 *
 * 1. What came since the last line is collected, and a line tells all of it: a stream has one for each delta, what is not
 *    streamed has the last one alone. The last line has done: true, why it ended, and the figures; without it clients
 *    take the reply for cut off.
 * 2. A call is told when it is whole, for its arguments are an object and not a text. One that broke off is left out.
 * 3. Reasoning is told as `thinking`, unless the client wants none.
 * 4. A failure behind the first line is a line with `error`.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/util.h"
#include "client/gateway/gateway.h"
#include "client/gateway/ollama.h"
#include <stdio.h>
#include <time.h>

#define REPLY_MAX ((size_t)256 << 20) /* what is not streamed; no context is that long */

struct ollama_writer {
        struct writer writer;
        enum ollama_kind kind;
        bool stream, thinking, gives_context, wants_logprobs;
        char *model;
        struct buf json; /* what is put */
        /* what no line has told yet; calls and logprobs are items of arrays */
        struct buf text, reasoning, calls, logprobs;
        /* logprobs of tokens that have told nothing yet: parts of characters, and the one that ends the reply */
        struct buf held;
        /* the call that is being written */
        struct buf arguments;
        char *call_id, *call_name;
        unsigned n_calls;
        /* of a reply whose end is not known yet */
        struct confab_done ended;
};

static struct ollama_writer *of(struct writer *writer) {
        return container_of(writer, struct ollama_writer, writer);
}

void ollama_time(char ret[OLLAMA_TIME_SIZE], uint64_t realtime_usec) {
        time_t seconds = (time_t)(realtime_usec / 1000000);
        struct tm tm = {0};
        char text[24] = "";

        gmtime_r(&seconds, &tm);
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(ret, OLLAMA_TIME_SIZE, "%s.%06uZ", text, (unsigned)(realtime_usec % 1000000));
}

/* --- a line --- */

static void put_text(struct json *j, const char *key, const struct buf *text) {
        json_put_key(j, key);
        json_put_string_n(j, text->data ? (const char *)text->data : "", text->size);
}

/* An array of items that are JSON already, if there are any. */
static void put_items(struct json *j, const char *key, const struct buf *items) {
        if (items->size == 0)
                return;
        json_put_key(j, key);
        json_array_begin(j);
        json_put_raw(j, (const char *)items->data, items->size);
        json_array_end(j);
}

static void put_head(struct json *j, const char *model) {
        char now[OLLAMA_TIME_SIZE];

        ollama_time(now, clock_realtime_usec());
        json_object_begin(j);
        json_put_key_string(j, "model", model);
        json_put_key_string(j, "created_at", now);
}

static void put_said(struct json *j, const struct ollama_writer *writer) {
        bool chats = writer->kind == OLLAMA_CHAT;

        if (chats) {
                json_put_key(j, "message");
                json_object_begin(j);
                json_put_key_string(j, "role", "assistant");
        }
        put_text(j, chats ? "content" : "response", &writer->text);
        if (writer->reasoning.size > 0)
                put_text(j, "thinking", &writer->reasoning);
        if (chats) {
                put_items(j, "tool_calls", &writer->calls);
                json_object_end(j);
        }
        put_items(j, "logprobs", &writer->logprobs);
}

static void forget_said(struct ollama_writer *writer) {
        writer->text.size = writer->reasoning.size = 0;
        writer->calls.size = writer->logprobs.size = 0;
}

static int put_line(struct ollama_writer *writer) {
        struct json j;
        int r;

        writer->json.size = 0;
        json_init(&j, &writer->json);
        put_head(&j, writer->model);
        put_said(&j, writer);
        json_put_key_bool(&j, "done", false);
        json_object_end(&j);
        forget_said(writer);
        r = json_finish(&j);
        return r < 0 ? r : writer->writer.put(writer->writer.userdata, NULL, &writer->json);
}

static const char *done_reason(enum confab_finish finish) {
        return finish == CONFAB_FINISH_LENGTH || finish == CONFAB_FINISH_CONTEXT ? "length"
                                                                                 : "stop";
}

static void put_nsec(struct json *j, const char *key, uint64_t usec) {
        json_put_key_u64(j, key, usec * 1000);
}

static void put_figures(struct json *j, const struct confab_done *done) {
        put_nsec(j, "total_duration",
                done->queued_usec + done->restore_usec + done->prefill_usec + done->decode_usec);
        put_nsec(j, "load_duration", done->queued_usec + done->restore_usec);
        json_put_key_u64(j, "prompt_eval_count", done->n_prompt);
        put_nsec(j, "prompt_eval_duration", done->prefill_usec);
        json_put_key_u64(j, "eval_count", done->n_generated);
        put_nsec(j, "eval_duration", done->decode_usec);
}

static int put_last(struct ollama_writer *writer, const struct confab_done *done,
        const int32_t *tokens, size_t n_tokens) {
        struct json j;
        int r;

        writer->json.size = 0;
        json_init(&j, &writer->json);
        put_head(&j, writer->model);
        put_said(&j, writer);
        json_put_key_bool(&j, "done", true);
        json_put_key_string(&j, "done_reason", done_reason(done->finish));
        if (tokens) {
                json_put_key(&j, "context");
                json_array_begin(&j);
                for (size_t i = 0; i < n_tokens; i++)
                        json_put_i64(&j, tokens[i]);
                json_array_end(&j);
        }
        put_figures(&j, done);
        json_object_end(&j);
        r = json_finish(&j);
        return r < 0 ? r : writer->writer.put(writer->writer.userdata, NULL, &writer->json);
}

/* --- what comes --- */

/* The separator of items. */
static int next_item(struct buf *items) {
        return items->size > 0 ? buf_append(items, ",", 1) : 0;
}

static int end_call(struct ollama_writer *writer) {
        const struct buf *arguments = &writer->arguments;
        const char *text = arguments->size > 0 ? (const char *)arguments->data : "{}";
        size_t size = arguments->size > 0 ? arguments->size : 2;
        struct json j;
        int r;

        if (!writer->call_name)
                return 0;
        r = writer_is_object(text, size);
        if (r <= 0)
                return r;
        r = next_item(&writer->calls);
        if (r < 0)
                return r;
        json_init(&j, &writer->calls);
        json_object_begin(&j);
        json_put_key_string(&j, "id", writer->call_id);
        json_put_key(&j, "function");
        json_object_begin(&j);
        json_put_key_u64(&j, "index", writer->n_calls++);
        json_put_key_string(&j, "name", writer->call_name);
        json_put_key(&j, "arguments");
        json_put_raw(&j, text, size);
        json_object_end(&j);
        json_object_end(&j);
        return json_finish(&j);
}

static void drop_call(struct ollama_writer *writer) {
        free(TAKE_PTR(writer->call_id));
        free(TAKE_PTR(writer->call_name));
        writer->arguments.size = 0;
}

static int take_call(struct ollama_writer *writer, const struct confab_part *part) {
        int r = 0;

        if (part->name) {
                drop_call(writer);
                writer->call_id =
                        text_dup(part->call_id, part->call_id ? strlen(part->call_id) : 0);
                writer->call_name = text_dup(part->name, strlen(part->name));
                if (!writer->call_id || !writer->call_name)
                        return -ERR_NOMEM;
        }
        r = buf_append(&writer->arguments, part->text, part->text_size);
        if (r == 0 && part->ends) {
                r = part->broken ? 0 : end_call(writer);
                drop_call(writer);
        }
        return r;
}

static int take_part(struct ollama_writer *writer, const struct confab_part *part) {
        switch (part->kind) {
        case CONFAB_PART_CALL:
                return take_call(writer, part);
        case CONFAB_PART_REASONING:
                return writer->thinking
                               ? buf_append(&writer->reasoning, part->text, part->text_size)
                               : 0;
        case CONFAB_PART_TEXT:
                return buf_append(&writer->text, part->text, part->text_size);
        case CONFAB_PART_NONE:
                break;
        }
        return 0; /* of a newer daemon */
}

static void put_logprob(struct json *j, const struct confab_bytes *text, float logprob) {
        json_put_key(j, "token");
        json_put_string_n(j, text->data ? (const char *)text->data : "", text->size);
        json_put_key(j, "logprob");
        json_put_float(j, logprob);
        json_put_key(j, "bytes");
        json_array_begin(j);
        for (size_t i = 0; i < text->size; i++)
                json_put_u64(j, text->data[i]);
        json_array_end(j);
}

static int take_token(struct ollama_writer *writer, const struct confab_token *token) {
        struct json j;
        int r;

        if (!token->has_logprob)
                return 0;
        r = next_item(&writer->held);
        if (r < 0)
                return r;
        json_init(&j, &writer->held);
        json_object_begin(&j);
        put_logprob(&j, &token->text, token->logprob);
        if (token->n_top > 0) {
                json_put_key(&j, "top_logprobs");
                json_array_begin(&j);
                for (size_t i = 0; i < token->n_top; i++) {
                        json_object_begin(&j);
                        put_logprob(&j, &token->top[i].text, token->top[i].logprob);
                        json_object_end(&j);
                }
                json_array_end(&j);
        }
        json_object_end(&j);
        return json_finish(&j);
}

static bool tells_anything(const struct confab_delta *delta) {
        bool tells = delta->text_size > 0;

        for (size_t i = 0; i < delta->n_parts; i++)
                tells |= delta->parts[i].text_size > 0;
        return tells;
}

static int list_held(struct ollama_writer *writer) {
        int r;

        if (writer->held.size == 0)
                return 0;
        r = next_item(&writer->logprobs);
        if (r == 0)
                r = buf_append(&writer->logprobs, writer->held.data, writer->held.size);
        writer->held.size = 0;
        return r;
}

/* --- the operations --- */

static int begin(struct writer *base, const struct backend_model *model,
        const struct talk_place *place, const struct talk_usage *usage) {
        struct ollama_writer *writer = of(base);

        (void)place;
        (void)usage;
        writer->model = text_dup(model->name, strlen(model->name));
        return writer->model ? 0 : -ERR_NOMEM;
}

static int delta(struct writer *base, const struct confab_delta *delta) {
        struct ollama_writer *writer = of(base);
        int r = buf_append(&writer->text, delta->text, delta->text_size);

        for (size_t i = 0; r == 0 && i < delta->n_parts; i++)
                r = take_part(writer, &delta->parts[i]);
        for (size_t i = 0; r == 0 && writer->wants_logprobs && i < delta->n_tokens; i++)
                r = take_token(writer, &delta->tokens[i]);
        if (r == 0 && tells_anything(delta))
                r = list_held(writer);
        if (r < 0 || !writer->stream)
                return r;
        return writer->text.size + writer->reasoning.size + writer->calls.size +
                                       writer->logprobs.size >
                               0
                       ? put_line(writer)
                       : 0;
}

static int idle(struct writer *base) {
        return of(base)->stream ? put_line(of(base)) : 0;
}

static int done(
        struct writer *base, const struct confab_done *done, const struct talk_usage *usage) {
        struct ollama_writer *writer = of(base);

        (void)usage;
        if (!writer->gives_context)
                return put_last(writer, done, NULL, 0);
        writer->ended = *done;
        writer->ended.stop = NULL; /* the caller's */
        return 1;
}

int ollama_writer_end(struct writer *base, const int32_t *tokens, size_t n_tokens) {
        return put_last(of(base), &of(base)->ended, tokens, n_tokens);
}

static int failed(struct writer *base, const struct talk_error *error) {
        struct ollama_writer *writer = of(base);
        int r;

        writer->json.size = 0;
        r = ollama_error(&writer->json, error->status, error->code, error->message, error->param);
        return r < 0 ? r : base->put(base->userdata, NULL, &writer->json);
}

static struct writer *writer_end(struct writer *base) {
        struct ollama_writer *writer = of(base);
        struct buf *bufs[] = {&writer->json, &writer->text, &writer->reasoning, &writer->calls,
                &writer->logprobs, &writer->held, &writer->arguments};

        for (size_t i = 0; i < ARRAY_SIZE(bufs); i++)
                buf_deinit(bufs[i]);
        drop_call(writer);
        free(writer->model);
        free(writer);
        return NULL;
}

struct writer *ollama_writer_new(
        enum ollama_kind kind, bool stream, const struct ollama_wish *wish, bool logprobs) {
        static const struct writer_ops ops = {begin, delta, idle, done, failed, writer_end};
        struct ollama_writer *writer = calloc(1, sizeof(*writer));

        if (!writer)
                return NULL;
        writer->writer.ops = &ops;
        writer->kind = kind;
        writer->stream = stream;
        writer->thinking = wish->thinking;
        writer->gives_context = wish->gives_context;
        writer->wants_logprobs = logprobs;
        writer->json.max = writer->text.max = writer->reasoning.max = REPLY_MAX;
        writer->calls.max = writer->logprobs.max = REPLY_MAX;
        writer->held.max = writer->arguments.max = REPLY_MAX;
        return &writer->writer;
}

/* --- what is no reply --- */

int ollama_write_loaded(
        struct buf *out, enum ollama_kind kind, const char *model, const struct ollama_wish *wish) {
        const struct ollama_writer nothing = {.kind = kind};
        struct json j;

        json_init(&j, out);
        put_head(&j, model);
        put_said(&j, &nothing);
        json_put_key_bool(&j, "done", true);
        json_put_key_string(&j, "done_reason", wish->unloads ? "unload" : "load");
        json_object_end(&j);
        return json_finish(&j);
}

int ollama_error(struct buf *out, unsigned status, const char *code, const char *message,
        const char *param) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        int r = gateway_error_text(
                &text, code, "prompt too long; exceeded max context length: ", message);
        struct json j;

        (void)status;
        (void)param;
        if (r < 0)
                return r;
        json_init(&j, out);
        json_object_begin(&j);
        json_put_key(&j, "error");
        json_put_string_n(&j, text.data, text.size);
        json_object_end(&j);
        return json_finish(&j);
}
