/* SPDX-License-Identifier: MIT */
/*
 * Turns as items. A message of the user or the system is one item, results are one each. Of the assistant each part is one:
 * its number in the reply is in the item's id, so that the id is the same in the stream, in the response and in lists.
 * Parts without text are no items, but for calls. A turn without any item has one: an empty text, which is part 0.
 */
#include "client/gateway/responses.h"
#include <string.h>

static struct responses_item item_of(const struct responses_id *of, uint32_t number,
        const struct confab_turn *turn, enum responses_id_kind kind, uint32_t part) {
        return (struct responses_item){.id = {.kind = kind,
                                               .daemon = of->daemon,
                                               .conversation = of->conversation,
                                               .turn = number,
                                               .part = part,
                                               .check = responses_check_turn(turn)},
                .role = turn->role};
}

static int tell_results(const struct responses_id *of, uint32_t number,
        const struct confab_turn *turn, responses_item_fn fn, void *userdata) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < turn->n_results; i++) {
                struct responses_item item =
                        item_of(of, number, turn, RESPONSES_ID_RESULT, (uint32_t)i);

                item.text = turn->results[i].text;
                item.text_size = item.text ? strlen(item.text) : 0;
                item.call_id = turn->results[i].call_id;
                item.name = turn->results[i].name;
                r = fn(userdata, &item);
        }
        return r;
}

/* A reply that was cut: its last part is not whole. */
static bool was_cut(const struct confab_turn *turn) {
        return turn->finish == CONFAB_FINISH_LENGTH || turn->finish == CONFAB_FINISH_CONTEXT ||
               turn->finish == CONFAB_FINISH_CANCELLED;
}

static int tell_part(const struct responses_id *of, uint32_t number, const struct confab_turn *turn,
        const struct confab_part *part, responses_item_fn fn, void *userdata) {
        static const enum responses_id_kind kinds[] = {
                [CONFAB_PART_NONE] = RESPONSES_ID_MESSAGE,
                [CONFAB_PART_TEXT] = RESPONSES_ID_MESSAGE,
                [CONFAB_PART_REASONING] = RESPONSES_ID_REASONING,
                [CONFAB_PART_CALL] = RESPONSES_ID_CALL,
        };
        bool is_call = part->kind == CONFAB_PART_CALL;
        struct responses_item item;

        if (part->kind > CONFAB_PART_CALL) /* of a newer daemon */
                return 0;
        item = item_of(of, number, turn, kinds[part->kind], part->index);
        item.text = part->text;
        item.text_size = part->text_size;
        item.call_id = part->call_id;
        item.name = part->name;
        if (is_call ? part->broken != NULL
                    : was_cut(turn) && part == &turn->parts[turn->n_parts - 1])
                item.state = RESPONSES_INCOMPLETE;
        return is_call || part->text_size > 0 ? fn(userdata, &item) : 0;
}

static int tell_text(const struct responses_id *of, uint32_t number, const struct confab_turn *turn,
        responses_item_fn fn, void *userdata) {
        struct responses_item item = item_of(of, number, turn, RESPONSES_ID_MESSAGE, 0);

        item.text = (const char *)turn->text.data;
        item.text_size = turn->text.size;
        return fn(userdata, &item);
}

/* What is told of a turn, and whether anything was. */
struct telling {
        responses_item_fn fn;
        void *userdata;
        bool one_call, any;
};

static int tell_item(void *userdata, const struct responses_item *item) {
        struct telling *telling = userdata;

        telling->any = true;
        return telling->fn(telling->userdata, item);
}

int responses_each_item(const struct responses_id *of, uint32_t number,
        const struct confab_turn *turn, responses_item_fn fn, void *userdata) {
        struct telling telling = {.fn = fn, .userdata = userdata};
        struct confab_turn empty = *turn;
        int r = 0;

        if (turn->role == CONFAB_ROLE_TOOL && turn->n_results > 0)
                return tell_results(of, number, turn, fn, userdata);
        if (turn->role != CONFAB_ROLE_ASSISTANT || turn->n_parts == 0)
                return tell_text(of, number, turn, fn, userdata);
        for (size_t i = 0; r == 0 && i < turn->n_parts; i++)
                r = tell_part(of, number, turn, &turn->parts[i], tell_item, &telling);
        empty.text.size = 0;
        return r != 0 || telling.any ? r : tell_text(of, number, &empty, fn, userdata);
}

/* 1: nothing more is told. */
static int tell_output(void *userdata, const struct responses_item *item) {
        struct telling *telling = userdata;
        int r = telling->fn(telling->userdata, item);

        if (r == 0 && telling->one_call && item->id.kind == RESPONSES_ID_CALL &&
                item->state == RESPONSES_COMPLETE)
                return 1;
        return r;
}

int responses_each_output(const struct responses_id *of, const struct confab_turn *turn,
        responses_item_fn fn, void *userdata) {
        struct telling telling = {
                .fn = fn, .userdata = userdata, .one_call = of->flags & RESPONSES_ONE_CALL};
        int r = responses_each_item(of, of->turn, turn, tell_output, &telling);

        return r < 0 ? r : 0;
}
