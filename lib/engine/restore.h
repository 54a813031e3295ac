/* SPDX-License-Identifier: MIT */
#pragma once
/* One restore: what is read for a request, by several workers (pipeline.c). */
#include "engine/internal.h"

struct restore_item {
        uint32_t index;          /* of the block */
        uint32_t n_tokens;       /* in it */
        bool appended;           /* found through another conversation, lies behind our end */
        bool fresh;              /* its memory is not there yet */
        struct seq_block *block; /* new; a reference unless restore.attached */
        struct store_record record;
};

/* The share of one worker. */
struct restore_run {
        struct job job;
        struct restore *rs;
        size_t first, n;
};

struct restore {
        struct request *request; /* NULL: it was let go */
        struct restore_item *items;
        struct spill_item *reads; /* [n], for the same blocks */
        size_t n, n_allocated;
        struct restore_run runs[ENGINE_MAX_WORKERS];
        size_t n_runs, n_jobs; /* n_jobs: not done() yet */
        bool by_sections;      /* the first layers first */
        bool tried;            /* to compute meanwhile, and it came to nothing */
        bool attached;         /* the blocks are the sequence's, on trial */
        uint64_t t_start, t_end;
        size_t charged; /* bytes in the ledger */

        pthread_mutex_t lock;
        pthread_cond_t cond;
        /* under lock */
        size_t arrived[SPILL_MAX_SECTIONS]; /* runs that have read the section whole */
        bool failed, stop;
        struct err err; /* the first failure */
};

/* Room for @n items, none in it. NULL without memory. */
struct restore *restore_new(size_t n);
/* Its request has no more use of it: freed now, or when the last worker is out of it. */
void restore_let_go(struct engine *engine, struct restore *rs);
/* All blocks are allocated: begin to read. */
void restore_start(struct engine *engine, struct request *request);
/* Reading is over: take what is good. */
void restore_finish(struct engine *engine, struct restore *rs);
