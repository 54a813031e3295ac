/* SPDX-License-Identifier: MIT */
/* Events of a streamed response. */
#include "client/gateway/responses-reply.h"
#include <string.h>

/* False: it is counted, but not put. */
static bool event_begin(struct responses_reply *reply, struct json *j, const char *type) {
        int64_t number = reply->sequence++;

        if (!reply->puts_events || number <= reply->after)
                return false;
        reply->out.size = 0;
        json_init(j, &reply->out);
        json_object_begin(j);
        json_put_key_string(j, "type", type);
        json_put_key(j, "sequence_number");
        json_put_i64(j, number);
        return true;
}

static int event_end(struct responses_reply *reply, struct json *j, const char *type) {
        int r;

        json_object_end(j);
        r = json_finish(j);
        return r < 0 ? r : reply->writer.put(reply->writer.userdata, type, &reply->out);
}

static void put_index(struct responses_reply *reply, struct json *j) {
        json_put_key_u64(j, "output_index", reply->n_items);
}

int responses_event_response(
        struct responses_reply *reply, const char *type, const struct responses_object *object) {
        struct json j;

        if (!event_begin(reply, &j, type))
                return 0;
        json_put_key(&j, "response");
        responses_put_object(&j, object);
        return event_end(reply, &j, type);
}

/* ---- items ---- */

static int tell_item(struct responses_reply *reply, const char *type) {
        struct json j;

        if (!event_begin(reply, &j, type))
                return 0;
        put_index(reply, &j);
        json_put_key(&j, "item");
        responses_put_item(&j, &reply->item, reply->wish.summary, &reply->logprobs);
        return event_end(reply, &j, type);
}

/* What all events within an item have. */
static bool inner_begin(struct responses_reply *reply, struct json *j, const char *type) {
        char id[RESPONSES_ID_SIZE];

        if (!event_begin(reply, j, type))
                return false;
        responses_id_encode(&reply->item.id, id);
        json_put_key_string(j, "item_id", id);
        put_index(reply, j);
        if (reply->item.id.kind == RESPONSES_ID_CALL)
                return true;
        json_put_key_u64(j,
                reply->item.id.kind == RESPONSES_ID_REASONING && reply->wish.summary
                        ? "summary_index"
                        : "content_index",
                0);
        return true;
}

/* The names of events within an item. */
struct names {
        const char *part_added, *delta, *done, *part_done;
};

static const struct names *names_of(const struct responses_reply *reply) {
        static const struct names text = {"response.content_part.added",
                "response.output_text.delta", "response.output_text.done",
                "response.content_part.done"};
        static const struct names reasoning = {"response.content_part.added",
                "response.reasoning_text.delta", "response.reasoning_text.done",
                "response.content_part.done"};
        static const struct names summary = {"response.reasoning_summary_part.added",
                "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done",
                "response.reasoning_summary_part.done"};
        static const struct names call = {.delta = "response.function_call_arguments.delta",
                .done = "response.function_call_arguments.done"};

        switch (reply->item.id.kind) {
        case RESPONSES_ID_REASONING:
                return reply->wish.summary ? &summary : &reasoning;
        case RESPONSES_ID_CALL:
                return &call;
        default:
                return &text;
        }
}

static int tell_part(struct responses_reply *reply, const char *type) {
        struct json j;

        if (!type || !inner_begin(reply, &j, type))
                return 0;
        json_put_key(&j, "part");
        responses_put_part(&j, &reply->item, reply->wish.summary, &reply->logprobs);
        return event_end(reply, &j, type);
}

int responses_event_item_begins(struct responses_reply *reply) {
        int r = tell_item(reply, "response.output_item.added");

        return r < 0 ? r : tell_part(reply, names_of(reply)->part_added);
}

/* Log-probabilities, which only texts have. */
static void put_logprobs(
        const struct responses_reply *reply, struct json *j, const struct buf *logprobs) {
        if (reply->item.id.kind != RESPONSES_ID_MESSAGE)
                return;
        json_put_key(j, "logprobs");
        json_array_begin(j);
        if (!logprobs)
                openai_tokens_write_items(&reply->tokens, j);
        else if (logprobs->size > 0)
                json_put_raw(j, (const char *)logprobs->data, logprobs->size);
        json_array_end(j);
}

int responses_event_delta(struct responses_reply *reply, const char *text, size_t size) {
        const char *type = names_of(reply)->delta;
        struct json j;

        if (!inner_begin(reply, &j, type))
                return 0;
        json_put_key(&j, "delta");
        json_put_string_n(&j, text, size);
        put_logprobs(reply, &j, NULL);
        return event_end(reply, &j, type);
}

static int tell_whole(struct responses_reply *reply, const char *type) {
        bool is_call = reply->item.id.kind == RESPONSES_ID_CALL;
        struct json j;

        if (!inner_begin(reply, &j, type))
                return 0;
        if (is_call)
                json_put_key_string(&j, "name", reply->item.name);
        json_put_key(&j, is_call ? "arguments" : "text");
        json_put_string_n(
                &j, reply->item.text_size > 0 ? reply->item.text : "", reply->item.text_size);
        put_logprobs(reply, &j, &reply->logprobs);
        return event_end(reply, &j, type);
}

int responses_event_item_ends(struct responses_reply *reply) {
        const struct names *names = names_of(reply);
        int r = tell_whole(reply, names->done);

        if (r == 0)
                r = tell_part(reply, names->part_done);
        return r < 0 ? r : tell_item(reply, "response.output_item.done");
}
