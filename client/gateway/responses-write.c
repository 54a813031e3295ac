/* SPDX-License-Identifier: MIT */
/* A reply as events, or as one Response: see responses-reply.h. */
#include "base/clock.h"
#include "base/util.h"
#include "client/gateway/responses-reply.h"
#include <string.h>

static struct responses_reply *reply_of(struct writer *writer) {
        return container_of(writer, struct responses_reply, writer);
}

static struct writer *reply_free(struct writer *writer) {
        struct responses_reply *reply = reply_of(writer);

        responses_wish_deinit(&reply->wish);
        free(reply->model);
        free(reply->call_id);
        free(reply->name);
        buf_deinit(&reply->text);
        buf_deinit(&reply->logprobs);
        openai_tokens_deinit(&reply->tokens);
        buf_deinit(&reply->output);
        buf_deinit(&reply->out);
        free(reply);
        return NULL;
}

static struct responses_object object_of(const struct responses_reply *reply, const char *status) {
        return (struct responses_object){.id = &reply->place.id,
                .status = status,
                .model = reply->model,
                .conversation = reply->place.conversation[0] ? reply->place.conversation : NULL,
                .wish = &reply->wish};
}

static int put_whole(struct responses_reply *reply, const struct responses_object *object) {
        struct json j;
        int r;

        reply->out.size = 0;
        json_init(&j, &reply->out);
        responses_put_object(&j, object);
        r = json_finish(&j);
        return r < 0 ? r : reply->writer.put(reply->writer.userdata, NULL, &reply->out);
}

/* ---- the beginning ---- */

int responses_writer_begin(struct writer *writer, const char *model) {
        struct responses_reply *reply = reply_of(writer);
        struct responses_object object;
        int r;

        reply->model = text_dup(model, strlen(model));
        if (!reply->model)
                return -ERR_NOMEM;
        object = object_of(reply, "in_progress");
        if (!reply->puts_events && !reply->wish.background)
                return 0;
        if (!reply->puts_events) {
                r = put_whole(reply, &object);
                return r < 0 ? r : 1;
        }
        r = responses_event_response(reply, "response.created", &object);
        return r < 0 ? r : responses_event_response(reply, "response.in_progress", &object);
}

static int reply_begin(struct writer *writer, const struct backend_model *model,
        const struct talk_place *place, const struct talk_usage *usage) {
        struct responses_reply *reply = reply_of(writer);
        struct responses_id *id = &reply->place.id;

        (void)usage;
        id->kind = RESPONSES_ID_RESPONSE;
        id->daemon = responses_daemon(model->socket);
        id->conversation = place->conversation;
        id->revision = place->revision;
        id->turn = place->reply_turn;
        id->n_new = place->reply_turn - place->input_turn;
        id->n_input = reply->place.n_given > 0 ? MIN(reply->place.n_given, id->turn) : id->n_new;
        id->check = responses_check(reply->place.seed);
        return responses_writer_begin(writer, model->name);
}

/* ---- items ---- */

static int end_item(struct responses_reply *reply, enum responses_state state) {
        struct json j;
        int r;

        if (!reply->is_open)
                return 0;
        reply->item.state = state;
        reply->item.text = (const char *)reply->text.data;
        reply->item.text_size = reply->text.size;
        r = responses_event_item_ends(reply);
        if (r == 0 && reply->output.size > 0)
                r = buf_append_str(&reply->output, ",");
        if (r < 0)
                return r;
        json_init(&j, &reply->output);
        responses_put_item(&j, &reply->item, reply->wish.summary, &reply->logprobs);
        reply->is_open = false;
        reply->n_items++;
        return json_finish(&j);
}

static int set_text(char **to, const char *text) {
        free(*to);
        *to = text_dup(text ? text : "", text ? strlen(text) : 0);
        return *to ? 0 : -ERR_NOMEM;
}

static int begin_item(struct responses_reply *reply, const struct confab_part *part) {
        const struct responses_id *id = &reply->place.id;
        bool is_call = part->kind == CONFAB_PART_CALL;
        int r = end_item(reply, RESPONSES_COMPLETE);

        if (r == 0 && is_call)
                r = set_text(&reply->call_id, part->call_id);
        if (r == 0 && is_call)
                r = set_text(&reply->name, part->name);
        if (r < 0)
                return r;
        reply->text.size = reply->logprobs.size = 0;
        reply->item = (struct responses_item){.id = {.kind = RESPONSES_ID_MESSAGE,
                                                      .daemon = id->daemon,
                                                      .conversation = id->conversation,
                                                      .turn = id->turn,
                                                      .part = part->index,
                                                      .check = id->check},
                .role = CONFAB_ROLE_ASSISTANT,
                .state = RESPONSES_BEGUN};
        if (part->kind == CONFAB_PART_REASONING)
                reply->item.id.kind = RESPONSES_ID_REASONING;
        if (is_call) {
                reply->item.id.kind = RESPONSES_ID_CALL;
                reply->item.call_id = reply->call_id;
                reply->item.name = reply->name;
        }
        reply->is_open = true;
        return responses_event_item_begins(reply);
}

/* The tokens that are told now are kept for the whole item: as a list, without its brackets. */
static int keep_logprobs(struct responses_reply *reply) {
        struct buf *list = &reply->out;
        struct json j;
        int r;

        if (reply->tokens.n_listed == 0)
                return 0;
        list->size = 0;
        json_init(&j, list);
        json_array_begin(&j);
        openai_tokens_write_items(&reply->tokens, &j);
        json_array_end(&j);
        openai_tokens_clear(&reply->tokens);
        r = json_finish(&j);
        if (r == 0 && reply->logprobs.size > 0)
                r = buf_append_str(&reply->logprobs, ",");
        return r < 0 ? r : buf_append(&reply->logprobs, list->data + 1, list->size - 2);
}

static int tell_piece(struct responses_reply *reply, const struct confab_part *part) {
        bool is_call = part->kind == CONFAB_PART_CALL;
        int r = 0;

        if ((part->text_size == 0 && !is_call) || part->kind > CONFAB_PART_CALL)
                return 0;
        if (!reply->is_open || reply->item.id.part != part->index)
                r = begin_item(reply, part);
        if (r == 0 && part->text_size > 0)
                r = buf_append(&reply->text, part->text, part->text_size);
        if (r == 0 && part->text_size > 0)
                r = responses_event_delta(reply, part->text, part->text_size);
        if (r == 0 && part->kind == CONFAB_PART_TEXT)
                r = keep_logprobs(reply);
        if (r < 0 || !is_call || !part->ends)
                return r;
        reply->enough = reply->wish.options.one_call && !part->broken;
        return end_item(reply, part->broken ? RESPONSES_INCOMPLETE : RESPONSES_COMPLETE);
}

/* ---- deltas ---- */

/* Which tokens the texts of this delta have: see openai-reply.h, 4. */
static int take_tokens(struct responses_reply *reply, const struct confab_delta *delta) {
        bool text = false, other = false;
        int r = 0;

        for (size_t i = 0; r == 0 && i < delta->n_tokens; i++)
                r = openai_tokens_add(&reply->tokens, &delta->tokens[i]);
        for (size_t i = 0; i < delta->n_parts; i++) {
                bool is_text = delta->parts[i].kind == CONFAB_PART_TEXT;

                text = text || (is_text && delta->parts[i].text_size > 0);
                other = other || !is_text;
        }
        if (text)
                openai_tokens_list(&reply->tokens);
        else if (other)
                openai_tokens_drop(&reply->tokens);
        return r;
}

static int reply_delta(struct writer *writer, const struct confab_delta *delta) {
        struct responses_reply *reply = reply_of(writer);
        int r = 0;

        if (reply->enough)
                return 0;
        if (reply->wish.options.want_logprobs)
                r = take_tokens(reply, delta);
        for (size_t i = 0; r == 0 && !reply->enough && i < delta->n_parts; i++)
                r = tell_piece(reply, &delta->parts[i]);
        return r < 0 ? r : reply->enough;
}

/* ---- the end ---- */

/* @object has how it ended. @cut: the open item is not whole. */
static int end_reply(struct responses_reply *reply, struct responses_object *object, bool cut) {
        static const struct confab_part nothing = {.kind = CONFAB_PART_TEXT};
        const char *type = "response.failed";
        int r = 0;

        if (!reply->is_open && reply->n_items == 0 && !object->error_message)
                r = begin_item(reply, &nothing);
        if (r == 0)
                r = end_item(reply, cut ? RESPONSES_INCOMPLETE : RESPONSES_COMPLETE);
        if (r < 0)
                return r;
        object->output = &reply->output;
        if (!reply->puts_events)
                return put_whole(reply, object);
        if (strcmp(object->status, "completed") == 0)
                type = "response.completed";
        else if (strcmp(object->status, "incomplete") == 0)
                type = "response.incomplete";
        return responses_event_response(reply, type, object);
}

static int reply_done(
        struct writer *writer, const struct confab_done *done, const struct talk_usage *usage) {
        struct responses_reply *reply = reply_of(writer);
        bool cut = done->finish != CONFAB_FINISH_STOP && done->finish != CONFAB_FINISH_STOP_STRING;
        const char *incomplete;
        const char *status = responses_status(done->finish, reply->enough, &incomplete);
        struct responses_object object = object_of(reply, status);

        object.incomplete = incomplete;
        object.usage = usage;
        object.completed = clock_realtime_usec() / 1000000;
        return end_reply(reply, &object, cut && !reply->enough);
}

static const char *code_of(const struct talk_error *error) {
        if (error->code && strcmp(error->code, CONFAB_CONTEXT) == 0)
                return error->code;
        return error->code && strcmp(error->code, CONFAB_LIMIT) == 0 ? "rate_limit_exceeded"
                                                                     : "server_error";
}

static int reply_failed(struct writer *writer, const struct talk_error *error) {
        struct responses_reply *reply = reply_of(writer);
        bool cancelled = error->code && strcmp(error->code, CONFAB_CANCELLED) == 0;
        struct responses_object object = object_of(reply, cancelled ? "cancelled" : "failed");

        object.error_code = code_of(error);
        object.error_message = error->message ? error->message : "";
        return end_reply(reply, &object, true);
}

/* ---- making one ---- */

static const struct writer_ops ops = {
        .begin = reply_begin,
        .delta = reply_delta,
        .done = reply_done,
        .failed = reply_failed,
        .free = reply_free,
};

struct writer *responses_writer_new(
        struct responses_wish *wish, const struct responses_place *place) {
        struct responses_reply *reply = calloc(1, sizeof(*reply));

        if (!reply) {
                responses_wish_deinit(wish);
                return NULL;
        }
        reply->writer.ops = &ops;
        reply->wish = *wish;
        wish->memory = NULL;
        reply->place = *place;
        reply->puts_events = wish->options.stream;
        reply->after = -1;
        return &reply->writer;
}

struct writer *responses_writer_resume(
        struct responses_wish *wish, const struct responses_place *place, int64_t after) {
        struct writer *writer;

        wish->options.stream = true;
        writer = responses_writer_new(wish, place);
        if (writer)
                reply_of(writer)->after = after;
        return writer;
}
