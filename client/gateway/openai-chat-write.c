/* SPDX-License-Identifier: MIT */
/*
 * Replies of chats. Each part of a delta is a chunk of its own: {"content"}, {"reasoning_content"}, or {"tool_calls"} with the
 * index of the call; the first news of a call have its id and name. In a whole answer all are collected.
 */
#include "client/gateway/openai-write.h"
#include "base/util.h"

static void delta_begin(struct openai_reply *reply, struct json *j, unsigned choice) {
        openai_chunk_begin(reply, j, choice);
        json_put_key(j, "delta");
        json_object_begin(j);
}

static int delta_end(struct openai_reply *reply, struct json *j, unsigned choice, bool with_tokens,
        const char *finish) {
        json_object_end(j);
        return openai_chunk_end(reply, j, choice, with_tokens, finish);
}

int openai_chat_begin(struct openai_reply *reply, unsigned choice) {
        struct json j;

        if (!reply->options.in_pieces)
                return 0;
        delta_begin(reply, &j, choice);
        json_put_key_string(&j, "role", "assistant");
        json_put_key_string(&j, "content", "");
        return delta_end(reply, &j, choice, false, NULL);
}

int openai_chat_done(struct openai_reply *reply, unsigned choice) {
        struct json j;

        delta_begin(reply, &j, choice);
        return delta_end(reply, &j, choice, false, reply->choices[choice].finish);
}

/* ---- texts ---- */

static int tell_text(struct openai_reply *reply, unsigned choice, const struct confab_part *part) {
        struct openai_choice *to = &reply->choices[choice];
        bool is_text = part->kind == CONFAB_PART_TEXT;
        struct json j;

        if (part->text_size == 0)
                return 0;
        if (!reply->options.in_pieces)
                return buf_append(
                        is_text ? &to->text : &to->reasoning, part->text, part->text_size);
        delta_begin(reply, &j, choice);
        json_put_key(&j, is_text ? "content" : "reasoning_content");
        json_put_string_n(&j, part->text, part->text_size);
        return delta_end(reply, &j, choice, is_text && to->tokens.n_listed > 0, NULL);
}

/* ---- calls ---- */

static void put_call(
        struct json *j, const char *id, const char *name, const void *arguments, size_t size) {
        if (name) {
                json_put_key_string(j, "id", id);
                json_put_key_string(j, "type", "function");
        }
        json_put_key(j, "function");
        json_object_begin(j);
        if (name) {
                json_put_key_string(j, "name", name);
        }
        json_put_key(j, "arguments");
        json_put_string_n(j, size > 0 ? arguments : "", size);
        json_object_end(j);
}

static int tell_call_piece(
        struct openai_reply *reply, unsigned choice, const struct confab_part *part) {
        struct json j;

        delta_begin(reply, &j, choice);
        json_put_key(&j, "tool_calls");
        json_array_begin(&j);
        json_object_begin(&j);
        json_put_key_u64(&j, "index", reply->choices[choice].n_calls - 1);
        put_call(&j, part->call_id ? part->call_id : "", part->name, part->text, part->text_size);
        json_object_end(&j);
        json_array_end(&j);
        return delta_end(reply, &j, choice, false, NULL);
}

static int keep_call(struct openai_choice *to, const struct confab_part *part) {
        struct openai_call *calls = reallocarray(to->calls, to->n_calls + 1, sizeof(*calls)), *call;

        if (!calls)
                return -ERR_NOMEM;
        to->calls = calls;
        call = &calls[to->n_calls];
        *call = (struct openai_call){
                .id = strdup(part->call_id ? part->call_id : ""), .name = strdup(part->name)};
        if (call->id && call->name) {
                to->n_calls++;
                return 0;
        }
        free(call->id);
        free(call->name);
        return -ERR_NOMEM;
}

static int tell_call(struct openai_reply *reply, unsigned choice, const struct confab_part *part) {
        struct openai_choice *to = &reply->choices[choice];
        int r = 0;

        if (part->name) {
                to->call_is_hidden = reply->options.one_call && to->call_ended;
                if (!to->call_is_hidden && reply->options.in_pieces)
                        to->n_calls++;
                else if (!to->call_is_hidden)
                        r = keep_call(to, part);
        }
        if (r < 0 || to->call_is_hidden || to->n_calls == 0)
                return r;
        if (!reply->options.in_pieces && part->text_size > 0)
                r = buf_append(&to->calls[to->n_calls - 1].arguments, part->text, part->text_size);
        else if (reply->options.in_pieces && (part->name || part->text_size > 0))
                r = tell_call_piece(reply, choice, part);
        if (part->ends && !part->broken)
                to->call_ended = true;
        return r;
}

int openai_chat_delta(
        struct openai_reply *reply, unsigned choice, const struct confab_delta *delta) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < delta->n_parts; i++)
                if (delta->parts[i].kind == CONFAB_PART_CALL)
                        r = tell_call(reply, choice, &delta->parts[i]);
                else if (!reply->said_enough)
                        r = tell_text(reply, choice, &delta->parts[i]);
        return r;
}

/* ---- the whole ---- */

static void put_calls(const struct openai_choice *choice, struct json *j) {
        json_put_key(j, "tool_calls");
        json_array_begin(j);
        for (size_t i = 0; i < choice->n_calls; i++) {
                const struct openai_call *call = &choice->calls[i];

                json_object_begin(j);
                put_call(j, call->id, call->name, call->arguments.data, call->arguments.size);
                json_object_end(j);
        }
        json_array_end(j);
}

void openai_chat_put_message(const struct openai_reply *reply, struct json *j, unsigned choice) {
        const struct openai_choice *from = &reply->choices[choice];

        json_put_key(j, "message");
        json_object_begin(j);
        json_put_key_string(j, "role", "assistant");
        json_put_key(j, "content");
        if (from->text.size == 0 && from->n_calls > 0)
                json_put_null(j);
        else
                json_put_string_n(j, from->text.data, from->text.size);
        json_put_key(j, "refusal");
        json_put_null(j);
        if (from->reasoning.size > 0) {
                json_put_key(j, "reasoning_content");
                json_put_string_n(j, from->reasoning.data, from->reasoning.size);
        }
        if (from->n_calls > 0)
                put_calls(from, j);
        json_object_end(j);
}
