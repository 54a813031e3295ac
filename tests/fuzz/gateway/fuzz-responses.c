/* SPDX-License-Identifier: MIT */
/*
 * One byte that says what follows, then bytes.
 *
 * A body of /v1/responses:
 * 1. reading it ends, with a form or with an error that has words;
 * 2. what is said to be wrong is named inside of the message;
 * 3. a form's messages have what their roles allow, and every pointer a size behind it;
 * 4. what was asked for can be told again: the Response is JSON.
 *
 * An id: it is none of ours, or the one text of what it says.
 *
 * Parts of a reply, in any order that a daemon could send or could not: events are whole, their numbers have no gaps, items
 * begin and end in turns, with indices from 0 without gaps, and all of them are in the last event.
 */
#include <string.h>

#include "base/cursor.h"
#include "base/util.h"
#include "fuzz/check.h"
#include "fuzz/gateway/part.h"
#include "unit/gateway/responses-rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- bodies ---- */

static size_t length(const char *s) {
        return s ? strlen(s) : 0;
}

static void check_message(const struct confab_message *message) {
        size_t n = message->text_size + length(message->reasoning);

        check(message->role >= CONFAB_ROLE_SYSTEM && message->role <= CONFAB_ROLE_TOOL);
        check(length(message->text) == message->text_size);
        for (size_t i = 0; i < message->n_calls; i++)
                n += length(message->calls[i].id) + strlen(message->calls[i].name) +
                     strlen(message->calls[i].arguments);
        for (size_t i = 0; i < message->n_results; i++)
                check(message->results[i].call_id && message->results[i].text);
        check(message->role == CONFAB_ROLE_ASSISTANT || message->n_calls == 0);
        check((message->role == CONFAB_ROLE_TOOL) == (message->n_results > 0));
        check(message->role != CONFAB_ROLE_ASSISTANT || n > 0);
}

static void check_object(const struct responses_body *body) {
        const struct responses_object object = {.id = &responses_rig_place.id,
                .status = "in_progress",
                .model = "m",
                .wish = &body->wish};
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        json_t *value;
        struct json j;

        json_init(&j, &out);
        responses_put_object(&j, &object);
        check(json_finish(&j) == 0);
        value = json_loadb((const char *)out.data, out.size, 0, NULL);
        check(value && json_equal(json_object_get(value, "metadata"),
                               json_object_get(body->json, "metadata")) ==
                               json_is_object(json_object_get(body->json, "metadata")));
        json_decref(value);
}

static void read_body(const char *text, size_t size) {
        struct responses_body body;
        json_t *json = NULL;
        struct err e = {0};

        if (fields_parse(&json, text, size, &e) < 0)
                return;
        responses_rig_read_json(&body, json);
        if (body.r < 0) {
                check(body.e.code == ERR_INVALID || body.e.code == ERR_UNSUPPORTED ||
                        body.e.code == ERR_NOT_FOUND);
                check(body.e.msg[0] && strlen(body.fields.wrong) < sizeof(body.fields.wrong));
                check(body.r == -ERR_NOT_FOUND ||
                        strncmp(body.e.msg, body.fields.wrong, strlen(body.fields.wrong)) == 0);
        } else {
                check(body.is->n == 1 && body.is->n_stops == 0);
                check(!(body.wish.previous && body.wish.conversation));
                for (size_t i = 0; i < body.is->n_messages; i++)
                        check_message(&body.is->messages[i]);
                check_object(&body);
        }
        responses_rig_free(&body);
}

/* ---- ids ---- */

static void read_id(const uint8_t *data, size_t size) {
        char text[2 * RESPONSES_ID_SIZE], again[RESPONSES_ID_SIZE];
        struct responses_id id;
        size_t n = MIN(size, sizeof(text) - 1);

        memcpy(text, data, n);
        text[n] = '\0';
        if (responses_id_decode(&id, text) < 0)
                return;
        responses_id_encode(&id, again);
        check(strcmp(again, text) == 0);
}

/* ---- replies ---- */

struct seen {
        json_int_t n_events, n_items;
        bool open;
        json_t *items;
};

static void check_event(struct seen *seen, const char *type, const json_t *event) {
        json_t *index = json_object_get(event, "output_index");

        check(json_integer_value(json_object_get(event, "sequence_number")) == seen->n_events++);
        check(!index || json_integer_value(index) == seen->n_items);
        if (strcmp(type, "response.output_item.added") == 0) {
                check(!seen->open);
                seen->open = true;
        } else if (index) {
                check(seen->open);
        }
        if (strcmp(type, "response.output_item.done") == 0) {
                seen->open = false;
                seen->n_items++;
                json_array_append(seen->items, json_object_get(event, "item"));
        }
        if (strcmp(type, "response.completed") == 0)
                check(!seen->open &&
                        json_equal(seen->items,
                                json_object_get(json_object_get(event, "response"), "output")));
}

static int put(void *userdata, const char *name, const struct buf *json) {
        json_t *value = json_loadb((const char *)json->data, json->size, JSON_ALLOW_NUL, NULL);
        struct seen *seen = userdata;

        check(value != NULL && !memchr(json->data, '\n', json->size));
        if (name) {
                check(strcmp(json_string_value(json_object_get(value, "type")), name) == 0);
                check_event(seen, name, value);
        } else {
                seen->n_events++;
        }
        json_decref(value);
        return 0;
}

static bool step(struct writer *writer, struct cursor *c) {
        struct fuzz_part read;
        struct confab_delta delta = {.parts = &read.part, .tokens = &read.token, .n_tokens = 1};

        if (!fuzz_read_part(&read, c))
                return false;
        delta.n_parts = read.what < 128;
        check(writer->ops->delta(writer, &delta) >= 0);
        return true;
}

static void tell(const uint8_t *data, size_t size) {
        static const char *const bodies[] = {"{\"stream\":true}", "{}",
                "{\"stream\":true,\"top_logprobs\":1,\"reasoning\":{\"summary\":\"auto\"}}",
                "{\"stream\":true,\"parallel_tool_calls\":false,\"top_logprobs\":1}"};
        const struct backend_model model = {.name = "m", .socket = "s"};
        const struct talk_place place = {.conversation = 1, .input_turn = 1, .reply_turn = 2};
        const struct confab_done done = {.finish = CONFAB_FINISH_STOP};
        const struct talk_usage usage = {.n_prompt = 1};
        struct seen seen = {.items = json_array()};
        struct cursor c = {data, data + size};
        struct responses_body body;
        struct writer *writer;
        uint8_t which;

        if (cursor_u8(&c, &which))
                which = 0;
        responses_rig_read(&body, bodies[which % 4]);
        check(body.r == 0);
        writer = responses_writer_new(&body.wish, &responses_rig_place);
        responses_rig_free(&body);
        check(writer != NULL);
        writer->put = put;
        writer->userdata = &seen;
        check(writer->ops->begin(writer, &model, &place, &usage) == 0);
        while (step(writer, &c))
                ;
        check(writer->ops->done(writer, &done, &usage) == 0);
        check(which % 4 == 1 ? seen.n_events == 1 : seen.n_items > 0);
        writer_free(writer);
        json_decref(seen.items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size < 1)
                return 0;
        if (data[0] == '1')
                read_id(data + 1, size - 1);
        else if (data[0] == '2')
                tell(data + 1, size - 1);
        else
                read_body((const char *)data + 1, size - 1);
        return 0;
}
