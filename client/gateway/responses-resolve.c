/* SPDX-License-Identifier: MIT */
/* Where a response goes on: see responses-create.h. */
#include "base/util.h"
#include "client/gateway/responses-create.h"
#include <string.h>

#define LOOKS 8 /* at a response that is being written, again and again by somebody else */

static struct responses_creating *creating_of(struct asker *asker) {
        return container_of(asker, struct responses_creating, asker);
}

static void ask(
        struct responses_creating *creating, const struct confab_request *request, asker_fn fn) {
        asker_ask(&creating->asker, creating->backend, request, fn);
}

/* The event is a conversation. False: it was refused; what the client named is not there if the daemon says so. */
static bool was_found(struct responses_creating *creating, const struct confab_event *event,
        const char *what, const char *id, const char *param) {
        if (event->kind == CONFAB_EVENT_CONVERSATION)
                return true;
        if (confab_error_is(event->error, CONFAB_NOT_FOUND) ||
                confab_error_is(event->error, CONFAB_INVALID))
                responses_refuse_unknown(&creating->asker, what, id, param);
        else
                asker_failed(&creating->asker, event);
        return false;
}

/* ---- references that stand for what they say ---- */

struct matching {
        struct responses_creating *creating;
        const struct responses_id *id;
        struct responses_item *to; /* copied to this; or NULL */
};

/* 1: this is the item that is looked for. */
static int match(void *userdata, const struct responses_item *item) {
        struct matching *matching = userdata;
        struct form *memory = matching->creating->wish.memory;
        struct responses_item *to = matching->to;

        if (item->id.part != matching->id->part || item->id.kind != matching->id->kind ||
                item->id.check != matching->id->check)
                return 0;
        if (!to)
                return 1;
        *to = *item;
        to->text = form_text(memory, item->text, item->text_size);
        to->call_id = item->call_id ? form_strdup(memory, item->call_id) : NULL;
        to->name = item->name ? form_strdup(memory, item->name) : NULL;
        if (!to->text || (item->call_id && !to->call_id) || (item->name && !to->name))
                return -ERR_NOMEM;
        return 1;
}

/* The item of @id, into *@to if that is not NULL. 1: it is there. */
static int find_item(struct responses_creating *creating, const struct responses_id *id,
        const struct confab_conversation *c, struct responses_item *to) {
        struct matching matching = {.creating = creating, .id = id, .to = to};

        if (id->turn < c->first_turn || id->turn - c->first_turn >= c->n_turn_list)
                return 0;
        return responses_each_item(
                id, id->turn, &c->turns[id->turn - c->first_turn], match, &matching);
}

/* Those that follow each other in one conversation. */
static size_t count_run(const struct responses_creating *creating) {
        const struct responses_id *first =
                &creating->references[creating->n_leading + creating->n_known];
        size_t n = 1;

        while (creating->n_known + n < creating->known.n && first[n].daemon == first->daemon &&
                first[n].conversation == first->conversation)
                n++;
        return n;
}

static void read_references(struct responses_creating *creating);

static void on_items(struct asker *asker, const struct confab_event *event) {
        struct responses_creating *creating = creating_of(asker);
        size_t end = creating->n_known + count_run(creating);
        char id[RESPONSES_ID_SIZE];

        responses_id_encode(&creating->references[creating->n_leading + creating->n_known], id);
        if (!was_found(creating, event, "item", id, "input"))
                return;
        for (; creating->n_known < end; creating->n_known++) {
                const struct responses_id *wanted =
                        &creating->references[creating->n_leading + creating->n_known];
                int r = find_item(creating, wanted, event->conversation,
                        &creating->known.items[creating->n_known]);
                struct err e;

                if (r < 0) {
                        err_no_memory(&e);
                        asker_refuse_err(asker, &e);
                        return;
                }
                if (r == 0) {
                        responses_id_encode(wanted, id);
                        responses_refuse_unknown(asker, "item", id, "input");
                        return;
                }
        }
        read_references(creating);
}

/* The turns of the next references that are not known. */
static void read_references(struct responses_creating *creating) {
        const struct responses_id *first =
                &creating->references[creating->n_leading + creating->n_known];
        struct backend *backend;
        struct confab_request request;
        uint32_t from, before;
        char id[RESPONSES_ID_SIZE];

        if (creating->n_known == creating->known.n) {
                responses_create_start(creating);
                return;
        }
        from = before = first->turn;
        for (size_t i = count_run(creating); i-- > 0;) {
                from = MIN(from, first[i].turn);
                before = MAX(before, first[i].turn);
        }
        backend = responses_backend(gateway_call_backends(creating->asker.call), first);
        if (!backend || before == UINT32_MAX) {
                responses_id_encode(first, id);
                responses_refuse_unknown(&creating->asker, "item", id, "input");
                return;
        }
        responses_fill_turns(&request, first->conversation, from, before + 1);
        asker_ask(&creating->asker, backend, &request, on_items);
}

/* ---- other instructions ---- */

static int add_item(void *userdata, const struct responses_item *item) {
        struct responses_creating *creating = userdata;

        return responses_add_item(creating->form, item, NULL);
}

/* Turn 0 without the @size bytes of instructions that it begins with, and the empty line behind them. */
static int tell_first(
        struct responses_creating *creating, const struct confab_turn *turn, uint32_t size) {
        struct confab_turn rest = *turn;

        if (size >= turn->text.size)
                return 0;
        rest.text.data += size;
        rest.text.size -= size;
        while (rest.text.size > 0 && rest.text.data[0] == '\n') {
                rest.text.data++;
                rest.text.size--;
        }
        return responses_each_item(&creating->at, 0, &rest, add_item, creating);
}

static int tell_turns(struct responses_creating *creating, const struct confab_conversation *c) {
        uint32_t size = creating->at.kind == RESPONSES_ID_RESPONSE &&
                                        !(creating->at.flags & RESPONSES_LATE_INSTRUCTIONS)
                                ? creating->at.instructions_size
                                : 0;
        int r = 0;

        if (creating->wish.instructions)
                r = responses_add_instructions(creating->form, creating->wish.instructions, NULL);
        for (size_t i = 0; r == 0 && i < c->n_turn_list; i++)
                if (i == 0 && size > 0)
                        r = tell_first(creating, &c->turns[i], size);
                else
                        r = responses_each_item(
                                &creating->at, (uint32_t)i, &c->turns[i], add_item, creating);
        return r;
}

/* The history is told anew: it is found as such, or a conversation is made of it. */
static void on_history(struct asker *asker, const struct confab_event *event) {
        struct responses_creating *creating = creating_of(asker);
        struct form_fields *fields = form_fields(creating->form);
        struct err e;

        if (asker_failed(asker, event))
                return;
        if (tell_turns(creating, event->conversation) < 0) {
                err_no_memory(&e);
                asker_refuse_err(asker, &e);
                return;
        }
        fields->place = FORM_FIND;
        creating->n_told = fields->n_messages;
        if (creating->wish.instructions)
                creating->place.id.instructions_size =
                        (uint32_t)strlen(creating->wish.instructions);
        read_references(creating);
}

static void go_on(struct responses_creating *creating) {
        struct form_fields *fields = form_fields(creating->form);

        fields->place = FORM_AT;
        fields->conversation_id = creating->at.conversation;
        fields->at_turn = creating->at_turn;
        read_references(creating);
}

/* Does the text begin with the instructions, as it does where it has been told with them? @size: those in front, if that is
 * known. */
static bool begins_with(const struct confab_turn *turn, const char *instructions, uint32_t size) {
        size_t n = strlen(instructions);

        if (n > turn->text.size || memcmp(turn->text.data, instructions, n) != 0)
                return false;
        if (size > 0)
                return n == size;
        return turn->role == CONFAB_ROLE_SYSTEM && n == turn->text.size;
}

static void on_first_turn(struct asker *asker, const struct confab_event *event) {
        struct responses_creating *creating = creating_of(asker);
        const struct confab_conversation *c = event->conversation;
        const char *instructions = creating->wish.instructions;
        bool is_response = creating->at.kind == RESPONSES_ID_RESPONSE;
        struct confab_request request;

        if (asker_failed(asker, event))
                return;
        if (instructions && c->n_turn_list > 0 &&
                (!is_response || creating->at.instructions_size > 0) &&
                begins_with(&c->turns[0], instructions,
                        is_response ? creating->at.instructions_size : 0)) {
                creating->place.id.instructions_size = (uint32_t)strlen(instructions);
                go_on(creating);
                return;
        }
        responses_fill_turns(&request, creating->at.conversation, 0, creating->at_turn);
        ask(creating, &request, on_history);
}

/* Behind a response or an item: are the instructions those that the conversation began with? */
static void compare_instructions(struct responses_creating *creating) {
        const struct responses_id *at = &creating->at;
        bool is_response = at->kind == RESPONSES_ID_RESPONSE;
        struct confab_request request;

        if (is_response && at->flags & RESPONSES_IN_CONVERSATION) {
                form_fields(creating->form)->fork = true;
                creating->says_instructions = creating->wish.instructions != NULL;
                go_on(creating);
        } else if (!creating->wish.instructions && (!is_response || at->instructions_size == 0)) {
                go_on(creating);
        } else {
                responses_fill_turns(&request, at->conversation, 0, 1);
                ask(creating, &request, on_first_turn);
        }
}

/* ---- previous_response_id ---- */

static void look_at_previous(struct responses_creating *creating);

/* It was written meanwhile, or another one is: look again. What would only be refused again is told. */
static void on_written(struct asker *asker, const struct confab_event *event) {
        static const struct confab_error busy = {
                .code = CONFAB_BUSY, .message = "the response is still being written"};
        struct responses_creating *creating = creating_of(asker);
        bool is_error = event->kind == CONFAB_EVENT_ERROR;
        struct talk_error error;

        if (!event->final)
                return;
        if (is_error && (confab_error_is(event->error, CONFAB_LIMIT) ||
                                confab_error_is(event->error, CONFAB_NO_MEMORY))) {
                asker_failed(asker, event);
        } else if (creating->n_looks < LOOKS) {
                look_at_previous(creating);
        } else {
                talk_error_from(&error, &busy);
                asker_refuse(asker, &error);
        }
}

static void on_previous(struct asker *asker, const struct confab_event *event) {
        struct responses_creating *creating = creating_of(asker);
        const struct confab_turn *turn = NULL;
        struct confab_request request = CONFAB_REQUEST_INIT;

        if (!was_found(
                    creating, event, "response", creating->wish.previous, "previous_response_id"))
                return;
        switch (responses_look(&creating->at, event->conversation, &turn)) {
        case RESPONSES_STORED:
                creating->at_turn = creating->at.turn + 1;
                compare_instructions(creating);
                break;
        case RESPONSES_UNANSWERED:
                creating->at_turn = creating->at.turn;
                compare_instructions(creating);
                break;
        case RESPONSES_WRITING:
                request.verb = CONFAB_ATTACH;
                request.conversation_id = creating->at.conversation;
                request.has_expect_revision = true;
                request.expect_revision = creating->at.revision;
                ask(creating, &request, on_written);
                break;
        case RESPONSES_GONE:
                responses_refuse_unknown(
                        asker, "response", creating->wish.previous, "previous_response_id");
                break;
        }
}

static void look_at_previous(struct responses_creating *creating) {
        struct confab_request request;

        creating->n_looks++;
        responses_fill_look(&request, &creating->at);
        ask(creating, &request, on_previous);
}

/* ---- conversation ---- */

/* Are these the instructions that were told last? They may have become a message of the user, or a part of one (see
 * talk-messages.c). */
static bool was_told(const struct confab_conversation *c, const char *instructions) {
        size_t n = strlen(instructions);

        for (size_t i = c->n_turn_list; i-- > 0;) {
                const struct confab_turn *turn = &c->turns[i];
                bool begins = turn->text.size >= n && memcmp(turn->text.data, instructions, n) == 0;

                if (turn->role == CONFAB_ROLE_SYSTEM)
                        return begins && (turn->text.size == n || turn->text.data[n] == '\n');
                if (turn->role == CONFAB_ROLE_USER && begins &&
                        (turn->text.size == n ||
                                (i == 0 && turn->text.size > n + 1 && turn->text.data[n] == '\n' &&
                                        turn->text.data[n + 1] == '\n')))
                        return true;
        }
        return false;
}

static void on_conversation(struct asker *asker, const struct confab_event *event) {
        struct responses_creating *creating = creating_of(asker);
        const char *instructions = creating->wish.instructions;

        if (!was_found(
                    creating, event, "conversation", creating->wish.conversation, "conversation"))
                return;
        if (!responses_is_conversation(&creating->at, event->conversation)) {
                responses_refuse_unknown(
                        asker, "conversation", creating->wish.conversation, "conversation");
                return;
        }
        creating->says_instructions = instructions && !was_told(event->conversation, instructions);
        creating->at_turn = FORM_AT_END;
        go_on(creating);
}

static void look_at_conversation(struct responses_creating *creating) {
        struct confab_request request = CONFAB_REQUEST_INIT;

        request.verb = CONFAB_GET;
        request.conversation_id = creating->at.conversation;
        request.want_turns = creating->wish.instructions != NULL;
        ask(creating, &request, on_conversation);
}

/* ---- references in front ---- */

static void on_item(struct asker *asker, const struct confab_event *event) {
        struct responses_creating *creating = creating_of(asker);
        const struct confab_conversation *c = event->conversation;
        char id[RESPONSES_ID_SIZE];

        responses_id_encode(&creating->at, id);
        if (!was_found(creating, event, "item", id, "input"))
                return;
        if (find_item(creating, &creating->at, c, NULL) <= 0) {
                responses_refuse_unknown(asker, "item", id, "input");
                return;
        }
        creating->at_turn = creating->at.turn + 1;
        compare_instructions(creating);
}

static void look_at_item(struct responses_creating *creating) {
        struct confab_request request;

        responses_fill_turns(&request, creating->at.conversation, creating->at.turn, 0);
        request.has_before_turn = false;
        request.max_turns = 1;
        ask(creating, &request, on_item);
}

/* ---- which of them ---- */

/* The id that the client gave, and its daemon. False: there is none, and it was refused. */
static bool take_id(struct responses_creating *creating, const char *text,
        enum responses_id_kind kind, const char *what, const char *param) {
        struct backends *backends = gateway_call_backends(creating->asker.call);

        if (responses_id_decode(&creating->at, text) == 0 && creating->at.kind == kind &&
                (kind != RESPONSES_ID_RESPONSE || creating->at.turn > 0))
                creating->backend = responses_backend(backends, &creating->at);
        if (creating->backend)
                return true;
        responses_refuse_unknown(&creating->asker, what, text, param);
        return false;
}

void responses_resolve(struct responses_creating *creating) {
        const struct responses_wish *wish = &creating->wish;
        char id[RESPONSES_ID_SIZE];

        if (wish->previous) {
                if (take_id(creating, wish->previous, RESPONSES_ID_RESPONSE, "response",
                            "previous_response_id"))
                        look_at_previous(creating);
        } else if (wish->conversation) {
                if (take_id(creating, wish->conversation, RESPONSES_ID_CONVERSATION, "conversation",
                            "conversation"))
                        look_at_conversation(creating);
        } else if (creating->n_leading > 0) {
                responses_id_encode(&creating->references[creating->n_leading - 1], id);
                creating->at = creating->references[creating->n_leading - 1];
                creating->backend = responses_backend(
                        gateway_call_backends(creating->asker.call), &creating->at);
                if (creating->backend)
                        look_at_item(creating);
                else
                        responses_refuse_unknown(&creating->asker, "item", id, "input");
        } else {
                creating->says_instructions = wish->instructions != NULL;
                read_references(creating);
        }
}
