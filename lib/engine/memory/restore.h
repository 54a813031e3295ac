/* SPDX-License-Identifier: MIT */
#pragma once
/* One restore: what is read for a recall, by several workers (pipeline.c). */
#include <pthread.h>

#include "engine/memory/memory.h"

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
        struct recall *recall; /* NULL: it was let go */
        /* Engine thread, when the last worker is out of it; not if it was let go. */
        void (*ended)(struct engine *engine, struct restore *rs);
        struct restore_item *items;
        struct spill_item *reads; /* [n], for the same blocks */
        size_t n, n_allocated;
        struct restore_run runs[IO_MAX_WORKERS];
        size_t n_runs, n_jobs; /* n_jobs: not done() yet */
        bool by_sections;      /* the first layers first */
        bool tried;            /* to compute meanwhile, and it came to nothing */
        bool attached;         /* the blocks are the sequence's, on trial */
        uint64_t t_start, t_end;
        uint32_t n_tokens_before; /* of the sequence, before it was attached */
        size_t charged;           /* bytes in the ledger */

        pthread_mutex_t lock;
        pthread_cond_t cond;
        /* under lock */
        size_t arrived[SPILL_MAX_SECTIONS]; /* runs that have read the section whole */
        bool failed, stop;
        struct err err; /* the first failure */
};

/* Room for @n items, none in it. NULL without memory. */
struct restore *restore_new(size_t n);
/* Its recall has no more use of it: freed now, or when the last worker is out of it. */
void restore_let_go(struct engine *engine, struct restore *rs);
/* The workers read no more. */
void restore_stop(struct restore *rs);
/* All blocks are allocated: begin to read. */
void restore_start(struct engine *engine, struct restore *rs);
/* Tokens that the sequence has when all is restored. */
uint32_t restore_end(const struct engine *engine, const struct restore *rs);
/* The first layers are there in all blocks, and nothing went wrong so far. */
bool restore_has_begun(struct restore *rs);
/* The blocks become the sequence's, on trial. 0, -ERR_NOMEM: detach. */
int restore_attach(struct restore *rs);
/* Also after restore_attach() failed half way. @n_tokens: that the sequence had. */
void restore_detach(struct restore *rs, uint32_t n_tokens);
/* Wait until the layer's section is there in all blocks. 0; 1: damage, or somebody wants the engine
 * thread while the disk is slow. */
int restore_wait_layer(struct engine *engine, struct restore *rs, uint32_t layer);
