/* SPDX-License-Identifier: MIT */
#include "client/gateway/own-reply.h"
#include "base/err.h"
#include "base/json.h"
#include "base/util.h"
#include "client/event-json.h"

struct part {
        uint32_t index;
        enum confab_part_kind kind;
        bool ends;
        struct buf text;
        char *call_id, *name, *broken; /* owned, or NULL */
};

struct own_reply {
        struct buf accepted; /* an object, or empty */
        struct buf text;     /* without reasoning and calls */
        struct buf tokens;   /* an array that is being written */
        struct json tokens_json;
        struct part *parts; /* [n_parts] */
        size_t n_parts, room;
        size_t size; /* of texts and tokens */
};

struct own_reply *own_reply_new(void) {
        struct own_reply *reply = calloc(1, sizeof(*reply));

        if (!reply)
                return NULL;
        json_init(&reply->tokens_json, &reply->tokens);
        json_array_begin(&reply->tokens_json);
        return reply;
}

struct own_reply *own_reply_free(struct own_reply *reply) {
        if (!reply)
                return NULL;
        for (size_t i = 0; i < reply->n_parts; i++) {
                buf_deinit(&reply->parts[i].text);
                free(reply->parts[i].call_id);
                free(reply->parts[i].name);
                free(reply->parts[i].broken);
        }
        free(reply->parts);
        buf_deinit(&reply->accepted);
        buf_deinit(&reply->text);
        buf_deinit(&reply->tokens);
        free(reply);
        return NULL;
}

/* The part of @index, which may be a new one behind the last. NULL without memory. */
static struct part *find_part(struct own_reply *reply, const struct confab_part *news) {
        struct part *last = reply->n_parts > 0 ? &reply->parts[reply->n_parts - 1] : NULL;

        if (last && last->index == news->index)
                return last;
        if (reply->n_parts == reply->room) {
                size_t room = reply->room ? 2 * reply->room : 8;
                struct part *parts = reallocarray(reply->parts, room, sizeof(*parts));

                if (!parts)
                        return NULL;
                reply->parts = parts;
                reply->room = room;
        }
        last = &reply->parts[reply->n_parts++];
        *last = (struct part){.index = news->index, .kind = news->kind};
        return last;
}

/* @text in place of *ret, unless it is NULL. */
static int keep(char **ret, const char *text) {
        char *copy;

        if (!text)
                return 0;
        copy = strdup(text);
        if (!copy)
                return -ERR_NOMEM;
        free(*ret);
        *ret = copy;
        return 0;
}

static int add_part(struct own_reply *reply, const struct confab_part *news) {
        struct part *part = find_part(reply, news);
        int r;

        if (!part)
                return -ERR_NOMEM;
        r = buf_append(&part->text, news->text, news->text_size);
        if (r == 0 && part->kind == CONFAB_PART_TEXT)
                r = buf_append(&reply->text, news->text, news->text_size);
        if (r == 0)
                r = keep(&part->call_id, news->call_id);
        if (r == 0)
                r = keep(&part->name, news->name);
        if (r == 0)
                r = keep(&part->broken, news->broken);
        part->ends = part->ends || news->ends;
        reply->size += news->text_size + sizeof(*part);
        return r;
}

static int add_delta(struct own_reply *reply, const struct confab_delta *delta) {
        size_t before = reply->tokens.size;
        int r = buf_append(&reply->text, delta->text, delta->text_size);

        for (size_t i = 0; r == 0 && i < delta->n_parts; i++)
                r = add_part(reply, &delta->parts[i]);
        for (size_t i = 0; i < delta->n_tokens; i++)
                event_json_token(&reply->tokens_json, &delta->tokens[i]);
        if (r < 0 || reply->tokens_json.error < 0)
                return -ERR_NOMEM;
        reply->size += delta->text_size + reply->tokens.size - before;
        return reply->size > OWN_REPLY_MAX ? -ERR_TOO_LARGE : 0;
}

int own_reply_add(struct own_reply *reply, const struct confab_event *event) {
        struct json json;

        if (event->kind == CONFAB_EVENT_DELTA)
                return add_delta(reply, event->delta);
        if (event->kind != CONFAB_EVENT_ACCEPTED)
                return 0;
        json_init(&json, &reply->accepted);
        event_json_event(&json, event, EVENT_JSON_SEED_TEXT);
        return json_finish(&json);
}

static int write_parts(struct own_reply *reply, struct json *json) {
        struct confab_part *parts = calloc(reply->n_parts, sizeof(*parts));

        if (!parts)
                return -ERR_NOMEM;
        for (size_t i = 0; i < reply->n_parts; i++) {
                const struct part *part = &reply->parts[i];

                parts[i] = (struct confab_part){.index = part->index,
                        .kind = part->kind,
                        .ends = part->ends,
                        .text = part->text.data ? (const char *)part->text.data : "",
                        .text_size = part->text.size,
                        .call_id = part->call_id,
                        .name = part->name,
                        .broken = part->broken};
        }
        event_json_parts(json, parts, reply->n_parts);
        free(parts);
        return 0;
}

int own_reply_write(struct own_reply *reply, const struct confab_event *done, struct buf *out) {
        struct json json;

        json_array_end(&reply->tokens_json);
        if (json_finish(&reply->tokens_json) < 0)
                return -ERR_NOMEM;
        json_init(&json, out);
        json_object_begin(&json);
        if (reply->accepted.size > 0) {
                json_put_key(&json, "accepted");
                json_put_raw(&json, (char *)reply->accepted.data, reply->accepted.size);
        }
        json_put_key(&json, "text");
        json_put_string_n(
                &json, reply->text.data ? (char *)reply->text.data : "", reply->text.size);
        if (reply->n_parts > 0 && write_parts(reply, &json) < 0)
                return -ERR_NOMEM;
        json_put_key(&json, "tokens");
        json_put_raw(&json, (char *)reply->tokens.data, reply->tokens.size);
        json_put_key(&json, "done");
        event_json_event(&json, done, EVENT_JSON_SEED_TEXT);
        json_object_end(&json);
        return json_finish(&json);
}
