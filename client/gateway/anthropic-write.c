/* SPDX-License-Identifier: MIT */
/*
 * A reply as Anthropic's dialect tells it: events of a stream, or one message.
 *
 *      message_start  ping  ( content_block_start  content_block_delta*  content_block_stop )*
 *      message_delta  message_stop                                        error, in place of what would follow
 *
 * 1. A part of the reply (text, reasoning, call) is one block; blocks have indices from 0 without gaps, and one ends
 *    before the next begins. A block begins with its first byte, so no block is empty, but a call that has no arguments.
 * 2. Reasoning is a block only for those who asked for thinking. Its signature says that confab made it, which
 *    clients keep and nobody needs.
 * 3. A call that breaks off was told already when it is streamed: its block ends where it broke, as the dialect has it of a
 *    reply that was cut. A whole message leaves it out, for there its input has to be an object.
 * 4. input_tokens does not count what was cached: those are cache_read_input_tokens.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/util.h"
#include "client/gateway/anthropic.h"
#include "client/gateway/gateway.h"
#include <stdio.h>
#include <string.h>

#define SIGNATURE "confab"
#define REPLY_MAX ((size_t)256 << 20) /* a whole message; no context is that long */

struct anthropic_writer {
        struct writer writer;
        bool stream, thinking;
        char id[48];
        char *model;
        struct talk_usage usage;
        struct buf json; /* of the event that is put */
        /* the open block */
        bool open;
        enum confab_part_kind kind;
        uint32_t part;
        unsigned n_blocks; /* begun */
        /* of a whole message: the blocks that have ended, as items of an array; what the open one says */
        struct buf content, text;
        char *call_id, *call_name;
};

static struct anthropic_writer *of(struct writer *writer) {
        return container_of(writer, struct anthropic_writer, writer);
}

/* --- pieces of JSON --- */

static void put_usage(struct json *j, const struct talk_usage *usage) {
        uint32_t n_cached = MIN(usage->n_cached, usage->n_prompt);

        json_object_begin(j);
        json_put_key_u64(j, "input_tokens", usage->n_prompt - n_cached);
        json_put_key_u64(j, "cache_creation_input_tokens", 0);
        json_put_key_u64(j, "cache_read_input_tokens", n_cached);
        json_put_key_u64(j, "output_tokens", usage->n_generated);
        json_object_end(j);
}

static const char *stop_reason(const struct confab_done *done) {
        switch (done->finish) {
        case CONFAB_FINISH_STOP_STRING:
                return "stop_sequence";
        case CONFAB_FINISH_LENGTH:
                return "max_tokens";
        case CONFAB_FINISH_CONTEXT:
                return "model_context_window_exceeded";
        case CONFAB_FINISH_STOP:
        case CONFAB_FINISH_NONE:
        case CONFAB_FINISH_CANCELLED:
                break;
        }
        return done->has_n_calls && done->n_calls > 0 ? "tool_use" : "end_turn";
}

static void put_stop(struct json *j, const struct confab_done *done) {
        json_put_key_string(j, "stop_reason", done ? stop_reason(done) : NULL);
        json_put_key_string(j, "stop_sequence",
                done && done->finish == CONFAB_FINISH_STOP_STRING ? done->stop : NULL);
}

/* The message but for its last bracket. @content: its items. */
static void put_message(struct json *j, const struct anthropic_writer *writer,
        const struct buf *content, const struct confab_done *done) {
        json_object_begin(j);
        json_put_key_string(j, "id", writer->id);
        json_put_key_string(j, "type", "message");
        json_put_key_string(j, "role", "assistant");
        json_put_key_string(j, "model", writer->model);
        json_put_key(j, "content");
        json_array_begin(j);
        if (content->size > 0)
                json_put_raw(j, (const char *)content->data, content->size);
        json_array_end(j);
        put_stop(j, done);
        json_put_key(j, "usage");
        put_usage(j, &writer->usage);
        json_object_end(j);
}

/* Begins an event's object; its other fields follow, then finish_event(). */
static void begin_event(struct json *j, struct anthropic_writer *writer, const char *type) {
        writer->json.size = 0;
        json_init(j, &writer->json);
        json_object_begin(j);
        json_put_key_string(j, "type", type);
}

static int finish_event(struct json *j, struct anthropic_writer *writer, const char *type) {
        int r;

        json_object_end(j);
        r = json_finish(j);
        return r < 0 ? r : writer->writer.put(writer->writer.userdata, type, &writer->json);
}

static int put_plain_event(struct anthropic_writer *writer, const char *type) {
        struct json j;

        begin_event(&j, writer, type);
        return finish_event(&j, writer, type);
}

/* --- blocks --- */

static const char *block_type(enum confab_part_kind kind) {
        return kind == CONFAB_PART_CALL        ? "tool_use"
               : kind == CONFAB_PART_REASONING ? "thinking"
                                               : "text";
}

/* The block as it begins, or (@text) as it is in the end. */
static void put_block(struct json *j, enum confab_part_kind kind, const char *id, const char *name,
        const struct buf *text) {
        const char *type = block_type(kind);
        const char *said = text && text->data ? (const char *)text->data : "";
        size_t size = text ? text->size : 0;

        json_object_begin(j);
        json_put_key_string(j, "type", type);
        if (kind == CONFAB_PART_CALL) {
                json_put_key_string(j, "id", id ? id : "");
                json_put_key_string(j, "name", name ? name : "");
                json_put_key(j, "input");
                json_put_raw(j, size > 0 ? said : "{}", size > 0 ? size : 2);
        } else {
                json_put_key(j, type);
                json_put_string_n(j, said, size);
        }
        if (kind == CONFAB_PART_REASONING) {
                json_put_key_string(j, "signature", text ? SIGNATURE : "");
        }
        json_object_end(j);
}

static int put_delta(struct anthropic_writer *writer, const char *type, const char *key,
        const char *text, size_t size) {
        struct json j;

        begin_event(&j, writer, "content_block_delta");
        json_put_key_u64(&j, "index", writer->n_blocks - 1);
        json_put_key(&j, "delta");
        json_object_begin(&j);
        json_put_key_string(&j, "type", type);
        json_put_key(&j, key);
        json_put_string_n(&j, text, size);
        json_object_end(&j);
        return finish_event(&j, writer, "content_block_delta");
}

/* A whole message keeps id and name for the end of the block. */
static int keep_call(struct anthropic_writer *writer, const struct confab_part *part) {
        free(writer->call_id);
        free(writer->call_name);
        writer->call_id = text_dup(part->call_id, part->call_id ? strlen(part->call_id) : 0);
        writer->call_name = text_dup(part->name, part->name ? strlen(part->name) : 0);
        return writer->call_id && writer->call_name ? 0 : -ERR_NOMEM;
}

static int begin_block(struct anthropic_writer *writer, const struct confab_part *part) {
        struct json j;

        writer->open = true;
        writer->kind = part->kind;
        writer->part = part->index;
        writer->n_blocks++;
        if (!writer->stream) {
                writer->text.size = 0;
                return part->kind == CONFAB_PART_CALL ? keep_call(writer, part) : 0;
        }
        begin_event(&j, writer, "content_block_start");
        json_put_key_u64(&j, "index", writer->n_blocks - 1);
        json_put_key(&j, "content_block");
        put_block(&j, part->kind, part->call_id, part->name, NULL);
        return finish_event(&j, writer, "content_block_start");
}

static int say(struct anthropic_writer *writer, const char *text, size_t size) {
        if (size == 0)
                return 0;
        if (!writer->stream)
                return buf_append(&writer->text, text, size);
        switch (writer->kind) {
        case CONFAB_PART_CALL:
                return put_delta(writer, "input_json_delta", "partial_json", text, size);
        case CONFAB_PART_REASONING:
                return put_delta(writer, "thinking_delta", "thinking", text, size);
        case CONFAB_PART_TEXT:
        case CONFAB_PART_NONE:
                break;
        }
        return put_delta(writer, "text_delta", "text", text, size);
}

/* Into a whole message. No arguments are an empty object; others that are none can't be told. */
static int keep_block(struct anthropic_writer *writer, bool broken) {
        struct json j;
        int r = !broken;

        if (r > 0 && writer->kind == CONFAB_PART_CALL && writer->text.size > 0)
                r = writer_is_object((const char *)writer->text.data, writer->text.size);
        if (r <= 0)
                return r;
        r = writer->content.size > 0 ? buf_append(&writer->content, ",", 1) : 0;
        json_init(&j, &writer->content);
        put_block(&j, writer->kind, writer->call_id, writer->call_name, &writer->text);
        return r < 0 ? r : json_finish(&j);
}

static int end_block(struct anthropic_writer *writer, bool broken) {
        struct json j;
        int r = 0;

        if (!writer->open)
                return 0;
        writer->open = false;
        if (!writer->stream)
                return keep_block(writer, broken);
        if (writer->kind == CONFAB_PART_REASONING)
                r = put_delta(writer, "signature_delta", "signature", SIGNATURE, strlen(SIGNATURE));
        if (r < 0)
                return r;
        begin_event(&j, writer, "content_block_stop");
        json_put_key_u64(&j, "index", writer->n_blocks - 1);
        return finish_event(&j, writer, "content_block_stop");
}

static int take_part(struct anthropic_writer *writer, const struct confab_part *part) {
        bool begins = part->text_size > 0 || (part->kind == CONFAB_PART_CALL && part->name);
        int r = 0;

        if (part->kind == CONFAB_PART_REASONING && !writer->thinking)
                return 0;
        if (writer->open && writer->part != part->index)
                r = end_block(writer, writer->kind == CONFAB_PART_CALL);
        if (r == 0 && !writer->open && begins)
                r = begin_block(writer, part);
        if (r == 0)
                r = say(writer, part->text, part->text_size);
        if (r == 0 && part->ends)
                r = end_block(writer, part->broken != NULL);
        return r;
}

/* --- the operations --- */

static int begin(struct writer *base, const struct backend_model *model,
        const struct talk_place *place, const struct talk_usage *usage) {
        struct anthropic_writer *writer = of(base);
        struct json j;
        int r;

        writer->model = text_dup(model->name, strlen(model->name));
        if (!writer->model)
                return -ERR_NOMEM;
        snprintf(writer->id, sizeof(writer->id), "msg_%016llx%08x",
                (unsigned long long)place->conversation, place->reply_turn);
        writer->usage = *usage;
        if (!writer->stream)
                return 0;
        begin_event(&j, writer, "message_start");
        json_put_key(&j, "message");
        put_message(&j, writer, &writer->content, NULL);
        r = finish_event(&j, writer, "message_start");
        return r < 0 ? r : put_plain_event(writer, "ping");
}

static int delta(struct writer *base, const struct confab_delta *delta) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < delta->n_parts; i++)
                r = take_part(of(base), &delta->parts[i]);
        return r;
}

static int idle(struct writer *base) {
        return of(base)->stream ? put_plain_event(of(base), "ping") : 0;
}

/* A call that is still open when the reply ends was cut off. */
static int done(
        struct writer *base, const struct confab_done *done, const struct talk_usage *usage) {
        struct anthropic_writer *writer = of(base);
        int r = end_block(writer, writer->kind == CONFAB_PART_CALL);
        struct json j;

        if (r < 0)
                return r;
        writer->usage = *usage;
        if (!writer->stream) {
                writer->json.size = 0;
                json_init(&j, &writer->json);
                put_message(&j, writer, &writer->content, done);
                r = json_finish(&j);
                return r < 0 ? r : base->put(base->userdata, NULL, &writer->json);
        }
        begin_event(&j, writer, "message_delta");
        json_put_key(&j, "delta");
        json_object_begin(&j);
        put_stop(&j, done);
        json_object_end(&j);
        json_put_key(&j, "usage");
        put_usage(&j, usage);
        r = finish_event(&j, writer, "message_delta");
        return r < 0 ? r : put_plain_event(writer, "message_stop");
}

static int failed(struct writer *base, const struct talk_error *error) {
        struct anthropic_writer *writer = of(base);
        int r;

        writer->json.size = 0;
        r = anthropic_error(
                &writer->json, error->status, error->code, error->message, error->param);
        return r < 0 ? r : base->put(base->userdata, "error", &writer->json);
}

static struct writer *writer_end(struct writer *base) {
        struct anthropic_writer *writer = of(base);

        buf_deinit(&writer->json);
        buf_deinit(&writer->content);
        buf_deinit(&writer->text);
        free(writer->model);
        free(writer->call_id);
        free(writer->call_name);
        free(writer);
        return NULL;
}

struct writer *anthropic_writer_new(bool stream, const struct anthropic_wish *wish) {
        static const struct writer_ops ops = {begin, delta, idle, done, failed, writer_end};
        struct anthropic_writer *writer = calloc(1, sizeof(*writer));

        if (!writer)
                return NULL;
        writer->writer.ops = &ops;
        writer->stream = stream;
        writer->thinking = wish->thinking;
        writer->json.max = writer->content.max = writer->text.max = REPLY_MAX;
        return &writer->writer;
}

/* --- what is no reply --- */

static const char *error_type(unsigned status) {
        static const struct {
                unsigned status;
                const char *type;
        } types[] = {{401, "authentication_error"}, {403, "permission_error"},
                {404, "not_found_error"}, {408, "timeout_error"}, {413, "request_too_large"},
                {429, "rate_limit_error"}, {503, "overloaded_error"}, {504, "timeout_error"},
                {529, "overloaded_error"}};

        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if (types[i].status == status)
                        return types[i].type;
        return status >= 500 && status != 501 ? "api_error" : "invalid_request_error";
}

unsigned anthropic_status(const struct talk_error *error) {
        bool full = error->status == 503 ||
                    (error->status == 429 && error->code && strcmp(error->code, CONFAB_LIMIT) == 0);

        return full ? 529 : error->status;
}

/* The word by which SDKs know that they have to send the whole history. */
static void put_no_thread(struct json *j) {
        json_put_key(j, "details");
        json_object_begin(j);
        json_put_key_string(j, "error_code", "thread_not_found");
        json_object_end(j);
}

int anthropic_error(struct buf *out, unsigned status, const char *code, const char *message,
        const char *param) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        int r = gateway_error_text(&text, code, "prompt is too long: ", message);
        struct json j;

        if (r < 0)
                return r;
        json_init(&j, out);
        json_object_begin(&j);
        json_put_key_string(&j, "type", "error");
        json_put_key(&j, "error");
        json_object_begin(&j);
        json_put_key_string(&j, "type", error_type(status));
        json_put_key(&j, "message");
        json_put_string_n(&j, text.data, text.size);
        /* Messages name the field; the dialect has no place of its own for it. */
        if (param && strcmp(param, ANTHROPIC_THREAD) == 0)
                put_no_thread(&j);
        json_object_end(&j);
        json_object_end(&j);
        return json_finish(&j);
}

int anthropic_write_count(struct buf *out, uint32_t n_tokens) {
        struct json j;

        json_init(&j, out);
        json_object_begin(&j);
        json_put_key_u64(&j, "input_tokens", n_tokens);
        json_object_end(&j);
        return json_finish(&j);
}
