/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Pages of items: what a response was given, or what a conversation has.
 *
 * A page is a range of items of turns [from, before). Each turn has an item or more (responses-turns.c), so that many turns
 * have as many items as a page, and one more which tells whether more follow.
 */
#include "client/gateway/http.h"
#include "client/gateway/responses.h"

struct responses_range {
        uint32_t from, before; /* turns */
        /* The turn that begins with instructions, which are no item, and how many bytes they are; 0: none. */
        uint32_t instructions_turn, instructions_size;
};

struct responses_page {
        unsigned limit;
        bool descending, has_after;
        struct responses_id after; /* the item in front of the page */
};

/* The query's limit (1..100, 20), order (asc, desc: the default) and after. -ERR_INVALID; -ERR_NOT_FOUND: `after` is no item. */
int responses_read_page(
        const struct http_exchange *exchange, struct responses_page *ret, struct err *e);
/* Which turns of @range to look at for @page. */
void responses_page_turns(const struct responses_page *page, const struct responses_range *range,
        uint32_t *ret_from, uint32_t *ret_before);
/* The list. @c has the turns that responses_page_turns() tells; @of: daemon and conversation. -ERR_NOMEM. */
int responses_write_page(struct buf *out, const struct responses_page *page,
        const struct responses_range *range, const struct responses_id *of,
        const struct confab_conversation *c);
