/* SPDX-License-Identifier: MIT */
#pragma once
/* One restore: the blocks that a recall reads, by several workers (plan.c, pipeline.c). */
#include <pthread.h>

#include "engine/memory/memory.h"

struct restore_item {
        enum seq_class class;
        uint32_t index, end;     /* of the cell, and the position behind its tokens */
        bool appended;           /* from another conversation, behind our end */
        bool given;              /* the sequence has our reference to the block */
        struct seq_block *block; /* new */
        struct store_record record;
};

/* The share of one worker. */
struct restore_run {
        struct job job;
        struct restore *restore;
        size_t first, n;
};

struct restore {
        struct recall *recall; /* NULL: the recall let go of the restore */
        /* Engine thread: called after the last worker is done, unless the recall let go. */
        void (*ended)(struct engine *engine, struct restore *restore);
        struct restore_item *items;
        struct spill_item *reads; /* [n], for the same blocks */
        size_t n, n_allocated;
        /* Appended items bring the sequence to so many blocks; 0: none are. */
        size_t n_found;
        struct restore_run runs[IO_MAX_WORKERS];
        size_t n_runs, n_jobs; /* n_jobs: done() not yet called */
        bool by_stages;        /* the first layers first */
        bool tried;            /* computing meanwhile was tried, in vain */
        bool attached;         /* the blocks are in the sequence */
        struct seq *before;    /* the sequence before blocks were appended on trial */
        uint64_t t_start, t_end;
        size_t charged; /* bytes in the ledger */

        pthread_mutex_t lock;
        pthread_cond_t cond;
        /* under lock */
        size_t arrived[SPILL_MAX_SECTIONS]; /* runs that have read all of the stage */
        bool failed, stop;
        struct err err; /* the first failure */
};

/* --- plan.c --- */

/* What the recall has to read becomes its restore. None, if there is nothing to read; or if there is no
 * room for the bookkeeping or reading does not pay: then the memory is cut at the first hole. */
void restore_plan(struct engine *engine, struct recall *recall);
/* Do not read: shorten the sequence to what is in RAM. The records stay. */
void restore_give_up(struct engine *engine, struct conv *c);
/* All was read: for deciding whether reading pays. */
void restore_note(struct engine *engine, const struct restore *restore);

/* --- pipeline.c --- */

/* A restore with room for @n items, and no item. NULL without memory. */
struct restore *restore_new(size_t n);
/* The recall no longer needs the restore: free it now, or when the last worker is done. */
void restore_let_go(struct engine *engine, struct restore *restore);
/* Make the workers stop reading. */
void restore_stop(struct restore *restore);
/* All blocks are allocated: start reading. */
void restore_start(struct engine *engine, struct restore *restore);
/* The number of tokens in the sequence once everything is restored. */
uint32_t restore_end(const struct engine *engine, const struct restore *restore);
/* Raw bytes of all items. */
size_t restore_size(const struct engine *engine, const struct restore *restore);
/* True if the first layers of all blocks have arrived, and nothing went wrong so far. */
bool restore_has_begun(struct restore *restore);
/* Put the blocks into the sequence: those that were read without a fault, or (@trial) all, which may
 * still arrive. 0, or -ERR_NOMEM (what is appended is missing). */
int restore_attach(struct engine *engine, struct restore *restore, bool trial);
/* After a trial: make the sequence what it was. */
void restore_detach(struct restore *restore);
/* Wait until the layer's memory has arrived in all blocks. 0; 1: damage, or other work waits for
 * the engine thread while the disk is slow. */
int restore_wait_layer(struct engine *engine, struct restore *restore, uint32_t layer);
