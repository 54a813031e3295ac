/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Drafts: what may come next in a text, guessed from what came before (prompt lookup). Tokens in,
 * tokens out; knows no model. Whoever uses a draft checks it, so a bad one costs time alone.
 *
 * An index holds the latest tokens of some texts, one behind the other. The last one, the open text, may
 * grow. A draft is what followed where the tokens at the end of the open text stood before: DRAFT_LEAST
 * of them or more, the more the better, of equally many the latest place.
 *
 * One thread at a time.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct draft;

#define DRAFT_LEAST 3         /* tokens that a draft must follow */
#define DRAFT_MOST 32         /* tokens that are compared */
#define DRAFT_CAPACITY 65536u /* tokens that an index holds at most */

/* Make an index that holds the latest @n_tokens tokens, or DRAFT_CAPACITY if that is less. -ERR_NOMEM. */
int draft_new(struct draft **ret, size_t n_tokens, struct err *e);
/* Bytes that draft_new() allocates: it never takes more later. */
size_t draft_size(size_t n_tokens);
struct draft *draft_free(struct draft *d);
DEFINE_CLEANUP(struct draft *, draft_free);

/* The open text goes on with @tokens [n], all of them >= 0. Tokens beyond the capacity push the oldest
 * ones out. O(n). */
void draft_append(struct draft *d, const int32_t *tokens, size_t n);
/* The open text is over; the next one begins. Nothing that is found reaches over the border. */
void draft_end_text(struct draft *d);

/* Guess up to @most tokens behind the open text. Returns how many are in @out [most]; 0: nothing is known.
 * *ret_match: so many tokens in front of the draft are the same in both places, DRAFT_LEAST to DRAFT_MOST.
 * Compares at most a fixed number of places. */
size_t draft_find(const struct draft *d, size_t most, int32_t *out, size_t *ret_match);
