/* SPDX-License-Identifier: MIT */
/*
 * What is known of a response again: its reply, from the turn; how it was asked for, as far as its id says; its
 * instructions, from the turn that begins with them; the tools that hold, and metadata if it made the conversation.
 */
#include "client/gateway/responses-fetch.h"
#include "base/util.h"
#include "client/gateway/form-json.h"
#include "client/gateway/jansson-read.h"
#include <string.h>

static struct responses_fetching *fetching_of(struct asker *asker) {
        return container_of(asker, struct responses_fetching, asker);
}

static void fetching_free(struct asker *asker) {
        struct responses_fetching *fetching = fetching_of(asker);

        responses_wish_deinit(&fetching->wish);
        buf_deinit(&fetching->output);
        free(fetching);
}

/* ---- the reply ---- */

static int put_output(void *userdata, const struct responses_item *item) {
        struct responses_fetching *fetching = userdata;
        struct json j;
        int r = fetching->output.size > 0 ? buf_append_str(&fetching->output, ",") : 0;

        if (r < 0)
                return r;
        if (item->id.kind == RESPONSES_ID_CALL && item->state == RESPONSES_COMPLETE)
                fetching->said_enough = fetching->wish.options.one_call;
        json_init(&j, &fetching->output);
        responses_put_item(&j, item, fetching->wish.summary, NULL);
        return json_finish(&j);
}

static int take_reply(struct responses_fetching *fetching, const struct confab_turn *turn) {
        const struct confab_run *run = turn->run;

        fetching->finish = turn->finish;
        fetching->completed = turn->created_usec / 1000000;
        fetching->place.seed = run->seed;
        talk_usage_prompt(&fetching->usage, run->n_prompt, run->n_computed);
        fetching->usage.n_generated = run->n_generated;
        if (run->model && strlen(run->model) < sizeof(fetching->model))
                memcpy(fetching->model, run->model, strlen(run->model) + 1);
        fetching->output.size = 0;
        return responses_each_output(&fetching->id, turn, put_output, fetching);
}

/* ---- how it was asked for ---- */

/* {"type":"function","name",...} of a definition as chats have it, or of its inner object alone. NULL: without memory. */
static json_t *flatten(json_t *tool) {
        json_t *function = json_object_get(tool, "function");
        json_t *flat = json_pack("{s:s}", "type", "function");

        if (flat && json_object_update(flat, function ? function : tool) == 0 &&
                json_object_set_new(flat, "type", json_string("function")) == 0)
                return flat;
        json_decref(flat);
        return NULL;
}

static int take_tools(struct responses_fetching *fetching, const char *tools) {
        json_t *list, *tool;
        size_t i;
        int r = jansson_read(&list, tools, strlen(tools), NULL);

        if (r < 0)
                return r == -ERR_INVALID ? 0 : r;
        json_array_foreach(list, i, tool) {
                json_t *flat = json_is_object(tool) ? flatten(tool) : json_incref(tool);

                r = json_array_set_new(list, i, flat) < 0 ? -ERR_NOMEM : 0;
                if (r < 0)
                        break;
        }
        if (r == 0)
                r = form_dump(fetching->wish.memory, list, &fetching->wish.tools, NULL);
        json_decref(list);
        return r;
}

static int take_wish(struct responses_fetching *fetching, const struct confab_conversation *c) {
        struct responses_wish *wish = &fetching->wish;
        uint32_t flags = fetching->id.flags;
        int r = wish->memory ? 0 : form_new(&wish->memory, NULL);

        wish->store = !(flags & RESPONSES_NOT_STORED);
        wish->background = flags & RESPONSES_BACKGROUND;
        wish->summary = flags & RESPONSES_SUMMARY;
        wish->truncates = flags & RESPONSES_TRUNCATES;
        wish->options.one_call = flags & RESPONSES_ONE_CALL;
        if (r == 0 && c->tools)
                r = take_tools(fetching, c->tools);
        if (r == 0 && c->about && c->about->metadata && fetching->id.n_new == fetching->id.turn &&
                !(flags & RESPONSES_IN_CONVERSATION)) {
                wish->metadata = form_strdup(wish->memory, c->about->metadata);
                r = wish->metadata ? 0 : -ERR_NOMEM;
        }
        return r;
}

/* ---- looking ---- */

static void without_memory(struct responses_fetching *fetching) {
        struct err e;

        err_no_memory(&e);
        asker_refuse_err(&fetching->asker, &e);
}

static void on_instructions(struct asker *asker, const struct confab_event *event) {
        struct responses_fetching *fetching = fetching_of(asker);
        const struct confab_turn *turn;

        if (asker_failed(asker, event))
                return;
        turn = event->conversation->n_turn_list > 0 ? &event->conversation->turns[0] : NULL;
        if (turn && turn->text.size >= fetching->id.instructions_size) {
                fetching->instructions_size = fetching->id.instructions_size;
                fetching->instructions = form_text(
                        fetching->wish.memory, turn->text.data, fetching->instructions_size);
                if (!fetching->instructions) {
                        without_memory(fetching);
                        return;
                }
        }
        fetching->then(fetching);
}

static void look_at_instructions(struct responses_fetching *fetching) {
        const struct responses_id *id = &fetching->id;
        uint32_t turn = id->flags & RESPONSES_LATE_INSTRUCTIONS ? id->turn - id->n_new : 0;
        struct confab_request request;

        responses_fill_turns(&request, id->conversation, turn, turn + 1);
        asker_ask(&fetching->asker, fetching->backend, &request, on_instructions);
}

static void on_look(struct asker *asker, const struct confab_event *event) {
        struct responses_fetching *fetching = fetching_of(asker);
        const struct confab_conversation *c = event->conversation;
        const struct confab_turn *turn = NULL;
        int r;

        if (event->kind == CONFAB_EVENT_ERROR && !confab_error_is(event->error, CONFAB_NOT_FOUND) &&
                !confab_error_is(event->error, CONFAB_INVALID)) {
                asker_failed(asker, event);
                return;
        }
        fetching->fate = event->kind == CONFAB_EVENT_ERROR
                                 ? RESPONSES_GONE
                                 : responses_look(&fetching->id, c, &turn);
        if (fetching->fate == RESPONSES_GONE) {
                responses_refuse_unknown(asker, "response", asker->call->arg[0], NULL);
                return;
        }
        fetching->revision = c->revision;
        fetching->is_last = fetching->id.turn + (turn != NULL) == c->n_turns;
        if (fetching->id.flags & RESPONSES_IN_CONVERSATION)
                responses_name_conversation(fetching->id.daemon, c, fetching->place.conversation);
        r = take_wish(fetching, c);
        if (r == 0 && turn)
                r = take_reply(fetching, turn);
        if (r < 0)
                without_memory(fetching);
        else if (fetching->id.instructions_size > 0)
                look_at_instructions(fetching);
        else
                fetching->then(fetching);
}

void responses_fetch_again(struct responses_fetching *fetching) {
        struct confab_request request;

        responses_fill_look(&request, &fetching->id);
        asker_ask(&fetching->asker, fetching->backend, &request, on_look);
}

void responses_fetch(struct gateway_call *call, void (*then)(struct responses_fetching *fetching)) {
        struct responses_fetching *fetching = calloc(1, sizeof(*fetching));
        const struct backend_model *model;
        struct err e = {0};

        if (!fetching) {
                err_no_memory(&e);
                gateway_refuse_err(call, &gateway_responses, &e);
                return;
        }
        fetching->then = then;
        fetching->wish = RESPONSES_WISH_NULL;
        asker_init(&fetching->asker, call, &gateway_responses, fetching_free);
        if (!responses_take_arg(&fetching->asker, 0, RESPONSES_ID_RESPONSE, "response",
                    &fetching->id, &fetching->backend))
                return;
        fetching->place.id = fetching->id;
        model = backend_model(fetching->backend);
        memcpy(fetching->model, model->name, sizeof(fetching->model));
        responses_fetch_again(fetching);
}

/* ---- the answer ---- */

void responses_fetch_reply(struct responses_fetching *fetching) {
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct responses_object object = {.id = &fetching->id,
                .status = "in_progress",
                .model = fetching->model,
                .wish = &fetching->wish,
                .instructions = fetching->instructions,
                .instructions_size = fetching->instructions_size};
        struct json j;

        if (fetching->place.conversation[0])
                object.conversation = fetching->place.conversation;
        if (fetching->fate == RESPONSES_STORED) {
                object.status = responses_status(
                        fetching->finish, fetching->said_enough, &object.incomplete);
                object.output = &fetching->output;
                object.usage = &fetching->usage;
                object.completed = fetching->completed;
        } else if (fetching->fate == RESPONSES_UNANSWERED) {
                object.status = "cancelled";
        }
        json_init(&j, &out);
        responses_put_object(&j, &object);
        asker_reply(&fetching->asker, &out, json_finish(&j));
}
