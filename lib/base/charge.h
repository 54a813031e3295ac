/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What one owner (a request, an event) holds in a ledger. Memory is charged before it is allocated;
 * growing buffers (struct buf, struct tok_ids) charge themselves once they have a charge.
 *
 * 1. `size` is the number of bytes that the owner has reserved in the ledger and not given back.
 * 2. A charge without a ledger grants everything and counts nothing.
 * 3. A charge is used by one thread at a time; a ledger by any number of threads.
 */
#include <stddef.h>

struct err;
struct ledger;

struct charge {
        struct ledger *ledger; /* outlives the charge */
        size_t size;           /* bytes */
};
#define CHARGE_NULL ((struct charge){0})

/* Reserve @n more bytes for @what (words for a message: "an answer"). 0; -ERR_LIMIT: they do not
 * fit now, because others hold too much; -ERR_TOO_LARGE: together with the owner's other bytes they
 * exceed the largest budget that the ledger ever had, so they never fit. On failure nothing is
 * reserved. */
int charge_take(struct charge *c, size_t n, const char *what, struct err *e);
/* Give @n of the bytes back. */
void charge_give(struct charge *c, size_t n);
/* Move @n bytes from @from to @to. Both have the same ledger; @to may still be empty. */
void charge_move(struct charge *to, struct charge *from, size_t n);
/* Give all bytes back. */
void charge_deinit(struct charge *c);
