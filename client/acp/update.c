/* SPDX-License-Identifier: MIT */
#include "client/acp/update.h"
#include "base/cleanup.h"
#include "base/err.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void put_text(struct json *j, const char *text, size_t size) {
        json_object_begin(j);
        json_put_key_string(j, "type", "text");
        json_put_key(j, "text");
        json_put_string_n(j, text, size);
        json_object_end(j);
}

void acp_update_chunk(
        struct acp_out *out, const char *session, const char *kind, const char *text, size_t size) {
        if (size == 0)
                return;
        acp_update_begin(out, session, kind);
        json_put_key(&out->json, "content");
        put_text(&out->json, text, size);
        acp_update_end(out);
}

void acp_update_usage(struct acp_out *out, const char *session, uint64_t used, uint64_t size) {
        acp_update_begin(out, session, "usage_update");
        json_put_key_u64(&out->json, "used", used);
        json_put_key_u64(&out->json, "size", size);
        acp_update_end(out);
}

void acp_update_title(struct acp_out *out, const char *session, const char *title) {
        acp_update_begin(out, session, "session_info_update");
        json_put_key_string(&out->json, "title", title);
        acp_update_end(out);
}

void acp_put_time(struct json *j, uint64_t usec) {
        time_t seconds = (time_t)(usec / 1000000);
        char date[40], text[64];
        struct tm tm;

        /* a year beyond int, which no clock has */
        if (!gmtime_r(&seconds, &tm) || !strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm)) {
                json_put_null(j);
                return;
        }
        snprintf(text, sizeof(text), "%s.%03uZ", date, (unsigned)(usec / 1000 % 1000));
        json_put_string(j, text);
}

/* ---- calls ---- */

/* "content": [one text] */
static void put_content(struct json *j, const char *text, size_t size) {
        json_put_key(j, "content");
        json_array_begin(j);
        json_object_begin(j);
        json_put_key_string(j, "type", "content");
        json_put_key(j, "content");
        put_text(j, text, size);
        json_object_end(j);
        json_array_end(j);
}

#define DEPTH_MAX 32 /* of arguments that are told as JSON; base/json.h writes 63 */

static bool is_shallow(const struct json_value *value, unsigned depth) {
        if (depth > DEPTH_MAX)
                return false;
        for (const struct json_value *v = value->first; v; v = v->next)
                if (!is_shallow(v, depth + 1))
                        return false;
        return true;
}

/* Arguments as JSON; as text if they are none, or nested too deep. 0 or -ERR_NOMEM. */
static int put_arguments(struct json *j, const char *text, size_t size) {
        _cleanup_(json_tree_freep) struct json_value *value = NULL;
        int r = json_tree_parse(&value, text, size, NULL);

        if (value && is_shallow(value, 0))
                json_tree_put(j, value);
        else
                json_put_string_n(j, text, size);
        return r == -ERR_NOMEM ? r : 0;
}

static void put_call(struct acp_out *out, const char *session, const struct acp_reply *reply,
        const char *broken) {
        struct json *j = &out->json;
        int r;

        acp_update_begin(out, session, "tool_call");
        json_put_key_string(j, "toolCallId", reply->call_id);
        json_put_key_string(j, "title", reply->name);
        json_put_key_string(j, "kind", "other");
        json_put_key_string(j, "status", broken ? "failed" : "pending");
        json_put_key(j, "rawInput");
        r = put_arguments(j, reply->arguments.data ? (const char *)reply->arguments.data : "",
                reply->arguments.size);
        if (r < 0 && out->error == 0)
                out->error = r;
        if (broken)
                put_content(j, broken, strlen(broken));
        acp_update_end(out);
}

void acp_reply_deinit(struct acp_reply *reply) {
        free(reply->call_id);
        free(reply->name);
        buf_deinit(&reply->arguments);
        *reply = (struct acp_reply){.open = false};
}

/* 0 or -ERR_NOMEM. */
static int take_call(struct acp_reply *reply, const struct confab_part *part) {
        if (!reply->open) {
                reply->call_id = strdup(part->call_id ? part->call_id : "");
                reply->name = strdup(part->name ? part->name : "");
                reply->open = true;
        }
        if (!reply->call_id || !reply->name)
                return -ERR_NOMEM;
        return buf_append(&reply->arguments, part->text, part->text_size);
}

static void update_call(struct acp_out *out, const char *session, struct acp_reply *reply,
        const struct confab_part *part) {
        int r = take_call(reply, part);

        if (r < 0 && out->error == 0)
                out->error = r;
        if (r == 0 && part->ends)
                put_call(out, session, reply, part->broken);
        if (r < 0 || part->ends)
                acp_reply_deinit(reply);
}

void acp_update_parts(struct acp_out *out, const char *session, struct acp_reply *reply,
        const struct confab_part *parts, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (parts[i].kind == CONFAB_PART_CALL)
                        update_call(out, session, reply, &parts[i]);
                else
                        acp_update_chunk(out, session,
                                parts[i].kind == CONFAB_PART_REASONING ? "agent_thought_chunk"
                                                                       : "agent_message_chunk",
                                parts[i].text, parts[i].text_size);
}

/* ---- histories ---- */

static void update_result(
        struct acp_out *out, const char *session, const struct confab_result *result) {
        struct json *j = &out->json;

        acp_update_begin(out, session, "tool_call_update");
        json_put_key_string(j, "toolCallId", result->call_id);
        json_put_key_string(j, "status", "completed");
        put_content(j, result->text, strlen(result->text));
        json_put_key_string(j, "rawOutput", result->text);
        acp_update_end(out);
}

void acp_update_turn(struct acp_out *out, const char *session, const struct confab_turn *turn) {
        const char *text = (const char *)turn->text.data;
        struct acp_reply reply = {.open = false};

        switch (turn->role) {
        case CONFAB_ROLE_SYSTEM:
                break;
        case CONFAB_ROLE_ASSISTANT:
                if (turn->n_parts > 0)
                        acp_update_parts(out, session, &reply, turn->parts, turn->n_parts);
                else
                        acp_update_chunk(
                                out, session, "agent_message_chunk", text, turn->text.size);
                break;
        case CONFAB_ROLE_TOOL:
                for (size_t i = 0; i < turn->n_results; i++)
                        update_result(out, session, &turn->results[i]);
                break;
        default: /* a user's, or a text without template, which users give */
                acp_update_chunk(out, session, "user_message_chunk", text, turn->text.size);
                break;
        }
        acp_reply_deinit(&reply);
}
