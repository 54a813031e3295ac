/* SPDX-License-Identifier: MIT */
#pragma once
/* What the files that check the register share (check.c, check-conv.c, check-slices.c). */
#include "store/store-private.h"

struct check {
        struct store *s; /* the connection that reads; in a transaction where a check says so */
        void (*found)(void *arg, const struct store_finding *f); /* or NULL */
        void *arg;
        store_admit_fn
                *admit; /* what the tokens of a conversation take, before they are read; or NULL */
        void *admit_arg;
        struct store_census census;
        struct err err; /* of the step that is going on */
};

__attribute__((format(printf, 5, 6))) void check_report(struct check *x,
        enum store_finding_kind kind, uint64_t conv, uint64_t record, const char *fmt, ...);
/* Damage is a finding; everything else ends the check. */
int check_absorb(
        struct check *x, int r, enum store_finding_kind kind, uint64_t conv, uint64_t record);

/* The rows of a PRAGMA integrity_check of whatever: each but "ok" is a finding. Not absorbed, as the checks below: damage
 * may be their result. */
int check_integrity(struct check *x, struct query *q);
/* One conversation, in a transaction. It counts among the conversations of the census. */
int check_conv(struct check *x, uint64_t id);
/* The search index finds its last turn. In a transaction; not if the index is going to be made again. */
int check_conv_words(struct check *x, uint64_t id);
/* What is checked of all rows with one statement each, or two. In a transaction. */
extern int (*const check_tables[])(struct check *x);
extern const size_t check_n_tables;
