/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What of the engine is on disk: the register's room and leftovers (register.c), how blocks are cut
 * for the spill store (layout.c), blocks on their way there (write.c), and what is gone from there
 * (forget.c). memory/memory.h has the life of a block, and the rules that are named by number.
 */
#include "engine/conv/conv.h"
#include "engine/io/io.h"
#include "engine/parts.h"

/* NULL without memory. */
struct disk *disk_new(void);
struct disk *disk_free(struct disk *d);

/* --- register.c --- */

/* Opens the register (engine.store) and keeps others from writing. @fresh: it may be missing or
 * empty. */
int register_open(struct engine *engine, const char *path, bool fresh, struct err *e);
/* Worker: a call that writes into the register has ended with @r. True if that was for want of
 * space and something was done about it: call it again. @tries: 0 before the first call. */
bool register_retry(struct engine *engine, unsigned *tries, int r, const struct err *e);
/* From now on a register that another program keeps locked is not waited for. Any thread. */
void register_give_up(struct engine *engine);
/* Engine thread: what register_retry() took. */
void register_take_cuts(struct engine *engine);
/* Something is no longer to be found in the register's files, soon. */
void register_removed(struct engine *engine);
/* Start what is due; returns when to call again at the latest (clock_monotonic_usec()). */
uint64_t register_step(struct engine *engine);

/* --- forget.c --- */

/* Give back the space of records that are gone from the register. Any thread. */
void records_release(struct engine *engine, const struct store_gone *gone);
/* Records were taken from these conversations, which may be loaded. */
void records_cut(struct engine *engine, const struct store_cut *cuts, size_t n);

/* --- layout.c --- */

int layout_make(struct engine *engine, struct err *e);
/* Borrowed: valid as long as the engine. Any thread. */
struct spill_layout layout_of(const struct engine *engine);
size_t layout_n_sections(const struct engine *engine);
/* Where a section ends in a block, and the section that a layer is in. */
size_t layout_section_end(const struct engine *engine, size_t section);
size_t layout_section_of(const struct engine *engine, uint32_t layer);

/* --- write.c: what eviction and write-behind share --- */

/* What was written to disk today, as the register remembers it. */
int write_meters_read(struct engine *engine, uint64_t *written, uint64_t *day, struct err *e);
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
        void *owner;   /* for who made it */
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
/* It writes: until write_finish() its blocks are marked. Engine thread. */
void write_start(struct engine *engine, struct write_job *wj);
/* Worker: write the items that need it, making room where a limit is reached. */
void write_blocks(struct engine *engine, struct write_job *wj);
/* Worker: commit where they lie; what can't be linked is given back. */
int write_link(struct engine *engine, struct write_job *wj, struct err *e);
/* Engine thread: the items' records become the conversation's (if it is still there), the tags
 * theirs; tell of failures; take away what had to make room. */
void write_finish(struct engine *engine, struct write_job *wj);
