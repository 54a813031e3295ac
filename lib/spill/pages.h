/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Which 4 KiB pages of a spill file belong to live records, at two bits a page: live, and first of
 * a record. That is enough to know exactly whether a given range is one live record, so a ref that
 * was forged, released twice or adopted twice is recognised without a table of records.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct spill_pages {
        uint64_t *live, *first; /* bitmaps, [capacity / 64] */
        size_t capacity;        /* pages, multiple of 64; all beyond are dead */
};

void spill_pages_deinit(struct spill_pages *p);
/* Make room for pages [0, n). 0 or -ERR_NOMEM. */
int spill_pages_grow(struct spill_pages *p, size_t n, struct err *e);
/* Exactly one live record covers [first, first + n), n >= 1. Any range may be asked for. */
bool spill_pages_is_record(const struct spill_pages *p, size_t first, size_t n);
/* No live page in [first, first + n). */
bool spill_pages_is_dead(const struct spill_pages *p, size_t first, size_t n);
/* The range becomes a record, or dead. It lies within the capacity. */
void spill_pages_add(struct spill_pages *p, size_t first, size_t n);
void spill_pages_remove(struct spill_pages *p, size_t first, size_t n);
/* The next longest run of dead pages at or after *at and before @end: false if there is none, else
 * it starts at *at and has *ret_n pages. */
bool spill_pages_next_gap(const struct spill_pages *p, size_t *at, size_t end, size_t *ret_n);
