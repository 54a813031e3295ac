/* SPDX-License-Identifier: MIT */
/* Pages of items: in both directions, of any size, behind any item; instructions are no items. */
#include "client/gateway/responses-list.h"

#include <stdio.h>
#include <string.h>

#include "unit/gateway/responses-rig.h"
#include "util/test.h"

enum { N_TURNS = 12 };

static const struct confab_part parts[] = {
        {.index = 0, .kind = CONFAB_PART_REASONING, .text = "hm", .text_size = 2},
        {.index = 1, .kind = CONFAB_PART_TEXT, .text = "", .text_size = 0},
        {.index = 2, .kind = CONFAB_PART_CALL, .text = "{}", .text_size = 2, .name = "f"},
        {.index = 3, .kind = CONFAB_PART_CALL, .text = "{}", .text_size = 2, .name = "g"},
};
static const struct confab_result results[] = {
        {.text = "1", .call_id = "c1"}, {.text = "2", .call_id = "c2"}};
static const struct responses_id of = {.daemon = 1, .conversation = 2};

static const struct confab_part empty = {.index = 2, .kind = CONFAB_PART_TEXT, .text = ""};

/* By their number: one text, three items of a reply, two results; reply 7 has said nothing, and is one item. */
static void fill_turns(struct confab_turn turns[N_TURNS]) {
        static const char text[] = "abc\n\ndef";

        for (uint32_t i = 0; i < N_TURNS; i++) {
                turns[i] = (struct confab_turn){.role = CONFAB_ROLE_USER,
                        .created_usec = i + 1,
                        .text = {(const uint8_t *)text, strlen(text)}};
                if (i % 3 == 1) {
                        turns[i].role = CONFAB_ROLE_ASSISTANT;
                        turns[i].parts = parts;
                        turns[i].n_parts = sizeof(parts) / sizeof(parts[0]);
                        if (i == 7) {
                                turns[i].parts = &empty;
                                turns[i].n_parts = 1;
                        }
                } else if (i % 3 == 2) {
                        turns[i].role = CONFAB_ROLE_TOOL;
                        turns[i].results = results;
                        turns[i].n_results = 2;
                }
        }
}

/* The page, of the turns that it asks for and of no others. To be freed. */
static json_t *page_of(const struct responses_page *page, const struct responses_range *range) {
        struct confab_turn turns[N_TURNS];
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct confab_conversation c = {.turns = turns};
        uint32_t from, before;
        json_t *list;

        fill_turns(turns);
        responses_page_turns(page, range, &from, &before);
        assert_true(range->from <= from && from <= before && before <= range->before);
        c.first_turn = from;
        c.turns = turns + from;
        c.n_turn_list = before - from;
        assert_int_equal(responses_write_page(&out, page, range, &of, &c), 0);
        list = json_loadb((const char *)out.data, out.size, 0, NULL);
        responses_assert_json(list, "object", "\"list\"");
        return list;
}

/* The ids of all items, page by page. */
static json_t *walk(unsigned limit, bool descending, const struct responses_range *range) {
        struct responses_page page = {.limit = limit, .descending = descending};
        json_t *ids = json_array();
        bool more = true;

        while (more) {
                json_t *list = page_of(&page, range), *item;
                const json_t *data = responses_at(list, "data");
                size_t i;

                more = json_is_true(json_object_get(list, "has_more"));
                assert_true(json_array_size(ids) < 1000);
                assert_int_equal(json_array_size(data) == limit || !more, true);
                json_array_foreach(data, i, item)
                        json_array_append(ids, json_object_get(item, "id"));
                if (json_array_size(data) == 0) {
                        responses_assert_json(list, "last_id", "null");
                        responses_assert_json(list, "first_id", "null");
                        json_decref(list);
                        break;
                }
                assert_true(json_equal(responses_at(list, "first_id"), responses_at(data, "0.id")));
                page.has_after = true;
                assert_int_equal(responses_id_decode(&page.after,
                                         json_string_value(responses_at(list, "last_id"))),
                        0);
                json_decref(list);
        }
        return ids;
}

static void test_walks(void **state) {
        const struct responses_range range = {.from = 1, .before = N_TURNS};
        json_t *all = walk(1000, false, &range);
        size_t n = json_array_size(all);

        assert_int_equal(n, 3 * 1 + 3 * 3 + 1 + 4 * 2);
        for (unsigned limit = 1; limit <= n + 1; limit++) {
                json_t *up = walk(limit, false, &range), *down = walk(limit, true, &range);

                assert_true(json_equal(up, all));
                assert_int_equal(json_array_size(down), n);
                for (size_t i = 0; i < n; i++)
                        assert_true(json_equal(
                                json_array_get(down, n - 1 - i), json_array_get(all, i)));
                json_decref(up);
                json_decref(down);
        }
        json_decref(all);
}

static void test_nothing(void **state) {
        const struct responses_range range = {.from = 4, .before = 4};
        json_t *up = walk(5, false, &range), *down = walk(5, true, &range);

        assert_int_equal(json_array_size(up) + json_array_size(down), 0);
        json_decref(up);
        json_decref(down);
}

/* A text that begins with the instructions is told without them; one that is nothing else is no item. */
static void test_instructions(void **state) {
        struct responses_range range = {
                .from = 3, .before = 7, .instructions_turn = 3, .instructions_size = 3};
        const struct responses_page page = {.limit = 100};
        json_t *list = page_of(&page, &range);

        responses_assert_json(list, "data.0.content.0.text", "\"def\"");
        responses_assert_json(list, "data.6.content.0.text", "\"abc\\n\\ndef\"");
        json_decref(list);
        range.instructions_size = 8;
        list = page_of(&page, &range);
        responses_assert_json(list, "data.0.type", "\"reasoning\"");
        json_decref(list);
        for (unsigned limit = 1; limit < 8; limit++) {
                json_t *up = walk(limit, false, &range), *down = walk(limit, true, &range);

                assert_int_equal(json_array_size(up), 6);
                assert_int_equal(json_array_size(down), 6);
                json_decref(up);
                json_decref(down);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_walks),
                cmocka_unit_test(test_nothing),
                cmocka_unit_test(test_instructions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
