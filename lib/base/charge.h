/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What one owner (a request, an event) holds in a ledger. Memory is charged before it is allocated;
 * buffers that grow (struct buf, struct tok_ids) do it by themselves once they have a charge.
 *
 * 1. `size` is what the owner has reserved in the ledger, and not given back.
 * 2. A charge without a ledger takes everything and counts nothing.
 * 3. One thread at a time; the ledger below serves any number of them.
 */
#include <stddef.h>

struct err;
struct ledger;

struct charge {
        struct ledger *ledger; /* outlives the charge */
        size_t size;           /* bytes */
};
#define CHARGE_NULL ((struct charge){0})

/* Reserve @n bytes more for @what (words for a message: "an answer"). 0; -ERR_LIMIT: others hold so
 * much that it does not fit now; -ERR_TOO_LARGE: with what the owner has already it would be more
 * than the ledger ever had, so it never fits. Nothing is reserved then. */
int charge_take(struct charge *c, size_t n, const char *what, struct err *e);
/* Give @n of the bytes back. */
void charge_give(struct charge *c, size_t n);
/* @n of the bytes of @from are @to's now. Both have the same ledger; @to may be empty still. */
void charge_move(struct charge *to, struct charge *from, size_t n);
/* Give all back. */
void charge_deinit(struct charge *c);
