/* SPDX-License-Identifier: MIT */
#pragma once
/* What opening, writing and reading share. */
#include <inttypes.h>

#include "spill/files.h"

struct err;

/* Offsets stay below this, so that page numbers and sums of offsets cannot overflow, and the page
 * map of a file stays below 64 MiB. */
#define SPILL_FILE_MAX ((uint64_t)1 << 40)

static inline size_t spill_first_page(const struct spill_ref *ref) {
        return ref->offset / SPILL_ALIGN;
}
static inline size_t spill_n_pages(const struct spill_ref *ref) {
        return ref->stored_size / SPILL_ALIGN;
}

/* A buffer of s->scratch_size bytes, from the free list if there is one. 0 or -ERR_NOMEM. Takes the
 * lock. */
int spill_scratch_get(struct spill *s, void **ret, struct err *e);
/* NULL is fine. Takes the lock. */
void spill_scratch_put(struct spill *s, void *p);

/* Whether a store can have given this ref: its numbers are in range. */
bool spill_ref_is_sane(const struct spill *s, const struct spill_ref *ref);
/* The file if @ref is a live record in it, else NULL. Any ref. Lock held. */
struct spill_file *spill_find_record(struct spill *s, const struct spill_ref *ref);
/* -ERR_NOT_FOUND for @ref. */
int spill_not_found(const struct spill_ref *ref, struct err *e);
/* Put file and offset in front of the message. */
int spill_wrap(int r, const struct spill_ref *ref, struct err *e);
