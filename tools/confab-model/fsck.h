/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Shared by the parts of fsck: verb-fsck.c directs and reports, fsck-spill.c checks spill files,
 * fsck-audit.c computes memory again and compares.
 */
#include "base/buf.h"
#include "base/json.h"
#include "cli.h"
#include "spill/spill.h"
#include "store/store.h"

struct fsck {
        const char *state, *model; /* folder; file or NULL */
        bool json, kv_given;
        uint32_t audit;
        uint64_t seed;
        struct cli_engine_options engine;

        char spill_dir[4096];
        struct store *store;
        struct spill *spill;     /* NULL: there is no such folder */
        struct store_held *held; /* [n_held], owned */
        bool *good;              /* [n_held], owned: what lies on disk is what the register says */
        size_t n_held;

        /* What was found. */
        uint64_t n_findings, n_checked, n_unchecked, n_decoded, n_audited;
        uint64_t n_orphans, orphan_size, n_strange;
        struct store_census census;
        bool has_census;
        struct buf out; /* the JSON text; findings in the other form are printed at once */
        struct json j;
};

/* Report a finding; conv and record 0: of none in particular. */
void fsck_finding(struct fsck *f, const char *kind, uint64_t conv, uint64_t record, const char *fmt,
        ...) __attribute__((format(printf, 5, 6)));

/* Check places, headers and checksums of all records, and find unreferenced files and bytes.
 * Negative: the check could not be made. */
int fsck_spill(struct fsck *f, struct err *e);

/* Whether a record in its place is what the register says; with its model also whether it decodes,
 * into @raw [block_size]. 0, -ERR_CORRUPT, -ERR_NOT_FOUND, -ERR_SYS (it could not be read),
 * -ERR_NOMEM. */
int fsck_record_check(struct fsck *f, const struct store_held *h, const struct model *m, void *raw,
        struct err *e);

/* With the model: decode all of its records, compute f->audit random ones again and compare. */
int fsck_audit(struct fsck *f, struct err *e);
