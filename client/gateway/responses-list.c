/* SPDX-License-Identifier: MIT */
#include "client/gateway/responses-list.h"
#include "base/util.h"
#include "client/gateway/openai-reply.h"
#include <stdlib.h>
#include <string.h>

#define LIMIT 20
#define LIMIT_MAX 100

/* ---- the query ---- */

static int read_limit(const char *text, unsigned *ret, struct err *e) {
        unsigned long number;
        char *end;

        if (!text)
                return 0;
        number = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || *end || number < 1 || number > LIMIT_MAX)
                return err_set(e, ERR_INVALID, "limit is not a number from 1 to %d", LIMIT_MAX);
        *ret = (unsigned)number;
        return 0;
}

int responses_read_page(
        const struct http_exchange *exchange, struct responses_page *ret, struct err *e) {
        const char *order = http_query(exchange, "order"), *after = http_query(exchange, "after");
        struct responses_page page = {.limit = LIMIT, .descending = true};
        int r = read_limit(http_query(exchange, "limit"), &page.limit, e);

        if (r < 0)
                return r;
        if (order && strcmp(order, "asc") == 0)
                page.descending = false;
        else if (order && strcmp(order, "desc") != 0)
                return err_set(e, ERR_INVALID, "order is not one of asc, desc");
        if (after && after[0]) {
                page.has_after = true;
                if (responses_id_decode(&page.after, after) < 0 ||
                        !responses_id_is_item(&page.after))
                        return err_set(e, ERR_NOT_FOUND, "there is no item %.150s", after);
        }
        *ret = page;
        return 0;
}

/* ---- which turns ---- */

void responses_page_turns(const struct responses_page *page, const struct responses_range *range,
        uint32_t *ret_from, uint32_t *ret_before) {
        uint32_t from = range->from, before = range->before;
        uint32_t n = page->limit +
                     3; /* one more item, the turn of `after`, and that of the instructions */

        if (page->has_after && page->descending)
                before = MIN(before, (uint64_t)page->after.turn + 1);
        else if (page->has_after)
                from = MAX(from, page->after.turn);
        from = MIN(from, before);
        if (before - from > n) {
                if (page->descending)
                        from = before - n;
                else
                        before = from + n;
        }
        *ret_from = from;
        *ret_before = before;
}

/* ---- items ---- */

struct without {
        const struct responses_range *range;
        responses_item_fn fn;
        void *userdata;
};

/* The item that begins with the instructions, without them. */
static int tell_rest(void *userdata, const struct responses_item *item) {
        const struct without *without = userdata;
        uint32_t size = without->range->instructions_size;
        struct responses_item rest = *item;

        if (size >= item->text_size)
                return 0;
        rest.text += size;
        rest.text_size -= size;
        while (rest.text_size > 0 && rest.text[0] == '\n') {
                rest.text++;
                rest.text_size--;
        }
        return without->fn(without->userdata, &rest);
}

/* Calls @fn for each item of a turn, without instructions. */
static int each_in_range(const struct responses_range *range, const struct responses_id *of,
        uint32_t number, const struct confab_turn *turn, responses_item_fn fn, void *userdata) {
        struct without without = {range, fn, userdata};

        if (range->instructions_size > 0 && number == range->instructions_turn)
                return responses_each_item(of, number, turn, tell_rest, &without);
        return responses_each_item(of, number, turn, fn, userdata);
}

/* Items of a page, in the order of the turns. */
struct collection {
        const struct responses_page *page;
        struct responses_item *items; /* owned */
        size_t n, room;
};

/* Whether the item stands behind (descending: in front of) the one that the page follows. */
static bool is_beyond(const struct responses_page *page, const struct responses_item *item) {
        const struct responses_id *after = &page->after, *id = &item->id;
        bool equal = id->turn == after->turn && id->part == after->part;
        bool greater =
                id->turn > after->turn || (id->turn == after->turn && id->part > after->part);

        return !page->has_after || (!equal && greater != page->descending);
}

static int collect(void *userdata, const struct responses_item *item) {
        struct collection *to = userdata;

        if (!is_beyond(to->page, item))
                return 0;
        if (to->n == to->room) {
                size_t room = to->room ? 2 * to->room : 64;
                struct responses_item *items = reallocarray(to->items, room, sizeof(*items));

                if (!items)
                        return -ERR_NOMEM;
                to->items = items;
                to->room = room;
        }
        to->items[to->n++] = *item;
        return 0;
}

static const struct responses_item *item_at(const struct collection *from, size_t i) {
        return &from->items[from->page->descending ? from->n - 1 - i : i];
}

static void put_named_id(struct json *j, const char *key, const struct responses_item *item) {
        char id[RESPONSES_ID_SIZE];

        if (item)
                responses_id_encode(&item->id, id);
        json_put_key_string(j, key, item ? id : NULL);
}

static int write_list(struct buf *out, const struct collection *from) {
        size_t n = MIN(from->n, (size_t)from->page->limit);
        struct json j;

        json_init(&j, out);
        openai_list_begin(&j);
        for (size_t i = 0; i < n; i++)
                responses_put_item(&j, item_at(from, i), false, NULL);
        json_array_end(&j);
        put_named_id(&j, "first_id", n > 0 ? item_at(from, 0) : NULL);
        put_named_id(&j, "last_id", n > 0 ? item_at(from, n - 1) : NULL);
        json_put_key_bool(&j, "has_more", from->n > n);
        json_object_end(&j);
        return json_finish(&j);
}

int responses_write_page(struct buf *out, const struct responses_page *page,
        const struct responses_range *range, const struct responses_id *of,
        const struct confab_conversation *c) {
        struct collection items = {.page = page};
        uint32_t from, before;
        int r = 0;

        responses_page_turns(page, range, &from, &before);
        for (size_t i = 0; r == 0 && i < c->n_turn_list; i++) {
                uint32_t number = c->first_turn + (uint32_t)i;

                if (number >= from && number < before)
                        r = each_in_range(range, of, number, &c->turns[i], collect, &items);
        }
        if (r == 0)
                r = write_list(out, &items);
        free(items.items);
        return r;
}
