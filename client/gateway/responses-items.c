/* SPDX-License-Identifier: MIT */
/* Items as OpenAI's JSON. */
#include "client/gateway/responses.h"

void responses_put_id(struct json *j, const struct responses_id *id) {
        char text[RESPONSES_ID_SIZE];

        responses_id_encode(id, text);
        json_put_key_string(j, "id", text);
}

int responses_write_deleted(struct buf *out, const struct responses_id *id, const char *object) {
        struct json j;

        json_init(&j, out);
        json_object_begin(&j);
        responses_put_id(&j, id);
        json_put_key_string(&j, "object", object);
        json_put_key_bool(&j, "deleted", true);
        json_object_end(&j);
        return json_finish(&j);
}

static void put_text(struct json *j, const char *key, const struct responses_item *item) {
        json_put_key(j, key);
        json_put_string_n(j, item->text_size > 0 ? item->text : "", item->text_size);
}

static void put_empty(struct json *j, const char *key) {
        json_put_key(j, key);
        json_array_begin(j);
        json_array_end(j);
}

void responses_put_part(struct json *j, const struct responses_item *item, bool summary,
        const struct buf *logprobs) {
        bool is_output =
                item->id.kind == RESPONSES_ID_MESSAGE && item->role == CONFAB_ROLE_ASSISTANT;

        json_object_begin(j);
        if (item->id.kind == RESPONSES_ID_REASONING)
                json_put_key_string(j, "type", summary ? "summary_text" : "reasoning_text");
        else
                json_put_key_string(j, "type", is_output ? "output_text" : "input_text");
        put_text(j, "text", item);
        if (is_output) {
                put_empty(j, "annotations");
                json_put_key(j, "logprobs");
                json_array_begin(j);
                if (logprobs && logprobs->size > 0)
                        json_put_raw(j, (const char *)logprobs->data, logprobs->size);
                json_array_end(j);
        }
        json_object_end(j);
}

/* A list of the one part, if @is_there and the item is not just begun. */
static void put_parts(struct json *j, const char *key, const struct responses_item *item,
        bool is_there, bool summary, const struct buf *logprobs) {
        json_put_key(j, key);
        json_array_begin(j);
        if (is_there && item->state != RESPONSES_BEGUN)
                responses_put_part(j, item, summary, logprobs);
        json_array_end(j);
}

static void put_message(
        struct json *j, const struct responses_item *item, const struct buf *logprobs) {
        static const char *const roles[] = {
                [CONFAB_ROLE_SYSTEM] = "system", [CONFAB_ROLE_ASSISTANT] = "assistant"};
        const char *role = item->role <= CONFAB_ROLE_ASSISTANT ? roles[item->role] : NULL;

        json_put_key_string(j, "role", role ? role : "user");
        put_parts(j, "content", item, true, false, logprobs);
}

static void put_reasoning(struct json *j, const struct responses_item *item, bool summary) {
        put_parts(j, "summary", item, summary, true, NULL);
        put_parts(j, "content", item, !summary, false, NULL);
        json_put_key(j, "encrypted_content");
        json_put_null(j);
}

void responses_put_item(struct json *j, const struct responses_item *item, bool summary,
        const struct buf *logprobs) {
        static const char *const types[] = {
                [RESPONSES_ID_RESPONSE] = "message",
                [RESPONSES_ID_CONVERSATION] = "message",
                [RESPONSES_ID_MESSAGE] = "message",
                [RESPONSES_ID_REASONING] = "reasoning",
                [RESPONSES_ID_CALL] = "function_call",
                [RESPONSES_ID_RESULT] = "function_call_output",
        };
        static const char *const states[] = {[RESPONSES_COMPLETE] = "completed",
                [RESPONSES_INCOMPLETE] = "incomplete",
                [RESPONSES_BEGUN] = "in_progress"};

        json_object_begin(j);
        json_put_key_string(j, "type", types[item->id.kind]);
        responses_put_id(j, &item->id);
        json_put_key_string(j, "status", states[item->state]);
        if (item->id.kind == RESPONSES_ID_REASONING) {
                put_reasoning(j, item, summary);
        } else if (item->id.kind == RESPONSES_ID_CALL) {
                json_put_key_string(j, "call_id", item->call_id ? item->call_id : "");
                json_put_key_string(j, "name", item->name ? item->name : "");
                put_text(j, "arguments", item);
        } else if (item->id.kind == RESPONSES_ID_RESULT) {
                json_put_key_string(j, "call_id", item->call_id ? item->call_id : "");
                put_text(j, "output", item);
        } else {
                put_message(j, item, logprobs);
        }
        json_object_end(j);
}
