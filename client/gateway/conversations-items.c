/* SPDX-License-Identifier: MIT */
/* Items of conversations: listed, added, looked at, deleted. */
#include "client/gateway/conversations.h"
#include "base/util.h"
#include <string.h>

#define ALL_ITEMS 1000000

static struct conversing *conversing_of(struct asker *asker) {
        return container_of(asker, struct conversing, asker);
}

/* ---- pages ---- */

static void reply_page(struct conversing *conversing, const struct confab_conversation *c) {
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        int r = responses_write_page(
                &out, &conversing->page, &conversing->range, &conversing->id, c);

        asker_reply(&conversing->asker, &out, r);
}

static void on_page(struct asker *asker, const struct confab_event *event) {
        if (!asker_failed(asker, event))
                reply_page(conversing_of(asker), event->conversation);
}

/* The page of the range. */
static void ask_page(struct conversing *conversing) {
        static const struct confab_conversation empty = {.id = 0};
        struct confab_request request;
        uint32_t from, before;

        responses_page_turns(&conversing->page, &conversing->range, &from, &before);
        if (from == before) {
                reply_page(conversing, &empty);
                return;
        }
        responses_fill_turns(&request, conversing->id.conversation, from, before);
        asker_ask(&conversing->asker, conversing->backend, &request, on_page);
}

static void list(struct conversing *conversing, const struct confab_conversation *c) {
        conversing->range.before = c->n_turns;
        ask_page(conversing);
}

void conversations_handle_list(struct gateway_call *call) {
        struct conversing *conversing = conversing_new(call);
        struct err e = {0};

        if (!conversing)
                return;
        if (responses_read_page(call->exchange, &conversing->page, &e) < 0)
                asker_refuse_err(&conversing->asker, &e);
        else
                conversing_look(conversing, list);
}

/* ---- adding ---- */

static void list_added(struct conversing *conversing) {
        conversing->page = (struct responses_page){.limit = ALL_ITEMS};
        conversing->range.from = conversing->place.input_turn;
        conversing->range.before = conversing->place.reply_turn;
        ask_page(conversing);
}

static void add(struct conversing *conversing, const struct confab_conversation *c) {
        struct form_fields *fields = form_fields(conversing->form);

        fields->place = FORM_AT;
        fields->conversation_id = c->id;
        fields->at_turn = FORM_AT_END;
        conversing_say(conversing, list_added);
}

void conversations_handle_add(struct gateway_call *call) {
        struct conversing *conversing = conversing_new(call);
        struct err e = {0};

        if (!conversing || !conversing_read(conversing) || !conversing_read_items(conversing))
                return;
        if (form_fields(conversing->form)->n_messages == 0) {
                fields_wrong(&conversing->fields, "items", "a list with an item in it", &e);
                responses_refuse_body(&conversing->asker, &conversing->fields, &e);
                return;
        }
        conversing_look(conversing, add);
}

/* ---- one item ---- */

/* Takes the item that the path names. 1: it is there. */
static int match(void *userdata, const struct responses_item *item) {
        struct conversing *conversing = userdata;

        conversing->n_items++;
        if (item->id.part == conversing->item_id.part &&
                item->id.kind == conversing->item_id.kind &&
                item->id.check == conversing->item_id.check) {
                conversing->item = *item;
                conversing->has_item = true;
        }
        return 0;
}

/* The item of the turns that were got. False: there is none, and it was refused. */
static bool find_item(struct conversing *conversing, const struct confab_event *event) {
        const struct confab_conversation *c = event->conversation;

        if (event->kind == CONFAB_EVENT_ERROR && !confab_error_is(event->error, CONFAB_INVALID)) {
                asker_failed(&conversing->asker, event);
                return false;
        }
        if (event->kind == CONFAB_EVENT_CONVERSATION && c->n_turn_list > 0 &&
                c->first_turn == conversing->item_id.turn)
                (void)responses_each_item(
                        &conversing->item_id, c->first_turn, &c->turns[0], match, conversing);
        if (conversing->has_item)
                return true;
        responses_refuse_unknown(&conversing->asker, "item", conversing->asker.call->arg[1], NULL);
        return false;
}

static void ask_item(struct conversing *conversing, asker_fn fn) {
        struct confab_request request;

        responses_fill_turns(&request, conversing->id.conversation, conversing->item_id.turn, 0);
        request.has_before_turn = false;
        request.max_turns = 1;
        asker_ask(&conversing->asker, conversing->backend, &request, fn);
}

static bool take_item_id(struct conversing *conversing) {
        struct backend *backend;

        return responses_take_arg(&conversing->asker, 1, RESPONSES_ID_MESSAGE, "item",
                &conversing->item_id, &backend);
}

static bool is_of_conversation(struct conversing *conversing) {
        if (conversing->item_id.conversation == conversing->id.conversation &&
                conversing->item_id.daemon == conversing->id.daemon)
                return true;
        responses_refuse_unknown(&conversing->asker, "item", conversing->asker.call->arg[1], NULL);
        return false;
}

static void on_item(struct asker *asker, const struct confab_event *event) {
        struct conversing *conversing = conversing_of(asker);
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct json j;

        if (!find_item(conversing, event))
                return;
        json_init(&j, &out);
        responses_put_item(&j, &conversing->item, false, NULL);
        asker_reply(asker, &out, json_finish(&j));
}

static void look_at_item(struct conversing *conversing, const struct confab_conversation *c) {
        (void)c;
        if (is_of_conversation(conversing))
                ask_item(conversing, on_item);
}

void conversations_handle_item(struct gateway_call *call) {
        struct conversing *conversing = conversing_new(call);

        if (conversing && take_item_id(conversing))
                conversing_look(conversing, look_at_item);
}

/* ---- deleting ---- */

static void on_rewound(struct asker *asker, const struct confab_event *event) {
        if (!asker_failed(asker, event))
                conversing_reply(conversing_of(asker), event->conversation);
}

static void on_item_to_remove(struct asker *asker, const struct confab_event *event) {
        struct conversing *conversing = conversing_of(asker);
        struct confab_request request = CONFAB_REQUEST_INIT;

        if (!find_item(conversing, event))
                return;
        if (conversing->n_items > 1 ||
                event->conversation->n_turns != conversing->item_id.turn + 1 ||
                event->conversation->writing) {
                responses_refuse(asker, NULL,
                        "only an item that is the last one, and all of its turn, can be deleted");
                return;
        }
        request.verb = CONFAB_REWIND;
        request.conversation_id = conversing->id.conversation;
        request.has_at_turn = request.has_expect_revision = true;
        request.at_turn = conversing->item_id.turn;
        request.expect_revision = event->conversation->revision;
        asker_ask(asker, conversing->backend, &request, on_rewound);
}

static void remove_item(struct conversing *conversing, const struct confab_conversation *c) {
        (void)c;
        if (is_of_conversation(conversing))
                ask_item(conversing, on_item_to_remove);
}

void conversations_handle_remove(struct gateway_call *call) {
        struct conversing *conversing = conversing_new(call);

        if (conversing && take_item_id(conversing))
                conversing_look(conversing, remove_item);
}
