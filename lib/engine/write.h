/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Blocks on their way to disk: what eviction (evict.c) and write-behind (writebehind.c) share. The
 * order of things, and why it is right, is in residency.c.
 */
#include "engine/internal.h"

/* The tag of a block that a job is writing now: it must not be written a second time. Means nothing
 * while engine.n_writers is 0. */
#define TAG_WRITING UINT64_MAX

/* For the transaction that links what was written: what the register has to remember of it. */
enum { WRITE_N_METERS = 2 };
void write_meters(struct engine *engine, struct store_meter out[WRITE_N_METERS]);

struct write_item {
        uint32_t index;
        bool write;              /* else it is only linked */
        bool written;            /* record names bytes on disk that nobody else knows yet */
        bool ok;                 /* is to be linked; then: is linked */
        struct seq_block *block; /* pinned */
        struct rec *pinned;      /* of a link */
        struct store_record record;
};

struct write_job {
        struct job job;
        struct conv *c; /* write-behind: NULL when it was unloaded meanwhile */
        uint64_t conv_id;
        uint32_t uid;
        void (*then)(struct engine *engine, struct request *request); /* evict: or NULL */
        struct request *request;
        bool complete; /* nothing is left that had to be written or linked when it was made */
        bool waits;    /* write-behind: for a Rewind or Close to end, before it is linked */
        /* Copies, so that the conversation may go on: tokens of the first n_blocks blocks, and
         * their chained hashes. */
        int32_t *tokens;
        uint64_t *hashes;
        size_t n_blocks;
        bool find; /* look for others' records of the same tokens first */
        /* The first failure. */
        bool failed;
        enum spill_refusal why;
        struct err write_err;
        /* What was taken from conversations to make room. */
        struct store_cut *cuts;
        size_t n_cuts;
        uint64_t reclaimed;
        size_t n;
        struct write_item items[];
};

/* What of the conversation's memory has no linked record yet: at most @max blocks, of these only
 * full ones if @full_only. 0 and *ret (NULL: there is nothing), 1 if one of the blocks is being
 * written by another job (try again when a job has ended), or -ERR_NOMEM. */
int write_job_new(struct write_job **ret, struct engine *engine, struct conv *c, bool full_only,
        size_t max, struct err *e);
/* Unpins. Engine thread. */
struct write_job *write_job_free(struct engine *engine, struct write_job *wj);
/* Worker: write the items that need it, making room where a limit is reached. */
void write_blocks(struct engine *engine, struct write_job *wj);
/* Worker: commit where they lie; what can't be linked is given back. */
int write_link(struct engine *engine, struct write_job *wj, struct err *e);
/* Engine thread: the items' records become the conversation's (if it is still there), the tags
 * theirs; tell of failures; take away what had to make room. */
void write_finish(struct engine *engine, struct write_job *wj);
