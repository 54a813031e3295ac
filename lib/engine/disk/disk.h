/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The engine's use of the disk: the register's room and leftovers (register.c), the sections of
 * blocks for the spill store (layout.c), writing blocks (write.c), and forgetting records
 * (forget.c). memory/memory.h has the life of a block, and the rules that comments name by number.
 */
#include "engine/conv/conv.h"
#include "engine/io/io.h"
#include "engine/parts.h"

/* NULL without memory. */
struct disk *disk_new(void);
struct disk *disk_free(struct disk *d);

/* --- register.c --- */

/* Opens the register (engine.store) and keeps other programs from writing. @fresh: it may be
 * missing or empty. Fails as store_open() and store_hold() do, or -ERR_SYS. */
int register_open(struct engine *engine, const char *path, bool fresh, struct err *e);
/* The same for engine.o.register_uri. @look: only to look at it (engine_look()). Fails as store_open_server() and
 * store_look_server() do, or -ERR_SYS, -ERR_CORRUPT (the file of this machine's identity). */
int register_open_server(struct engine *engine, bool look, struct err *e);
/* Worker: after a call that wrote into the register, with its result @r. True: call it again,
 * because space was lacking and some was found, or because another program has the lock. @tries:
 * set to 0 before the first call. */
bool register_retry(struct engine *engine, unsigned *tries, int r, const struct err *e);
/* From now on do not wait for a register that another program keeps locked. Any thread. */
void register_give_up(struct engine *engine);
/* Engine thread: forget the records that register_retry() took. */
void register_take_cuts(struct engine *engine);
/* Something was removed from the register: soon scrub its traces from the files. Engine thread. */
void register_removed(struct engine *engine);
/* Start the work that is due. Returns the time to call again at the latest
 * (clock_monotonic_usec()). */
uint64_t register_step(struct engine *engine);

/* The longest prefix of tokens[0 .. n_blocks * block_tokens) whose memory is on disk, for @owner: as
 * store_prefix_find(), for this model. Any thread. */
int register_find_prefix(struct engine *engine, uint64_t owner, const int32_t *tokens,
        const uint64_t *hashes, size_t n_blocks, struct store_prefix *ret, struct err *e);

/* --- forget.c --- */

/* Give back the space of records that were removed from the register. Any thread. */
void records_release(struct engine *engine, const struct store_gone *gone);
/* Records of these conversations were removed from the register: forget them in RAM, where the
 * conversations are loaded. */
void records_cut(struct engine *engine, const struct store_cut *cuts, size_t n);

/* --- layout.c --- */

/* For each class of memory that the model has. */
int layout_make(struct engine *engine, struct err *e);
/* Borrowed; valid as long as the engine; no sections without such a class. Any thread, as the others. */
struct spill_layout layout_of(const struct engine *engine, enum seq_class c);
/* Blocks are read in stages, the first layers of all classes first. The number of stages; that of the
 * sections of the class in the first @n stages; and of the stages that must have arrived before the layer
 * computes. */
size_t layout_n_stages(const struct engine *engine);
size_t layout_stage_sections(const struct engine *engine, enum seq_class c, size_t n);
size_t layout_stages_of(const struct engine *engine, uint32_t layer);

/* --- codec.c --- */

/* What the register remembers of codecs, into figures and last_codec. */
int codec_meters_read(struct store *store, struct spill_options *so, struct err *e);
/* The same for the register to remember. */
enum { CODEC_N_METERS = 3 };
void codec_meters(struct engine *engine, struct store_meter out[CODEC_N_METERS]);
/* Write it into the register if it has changed by a tenth. Any thread; at the end of the engine too. */
void codec_remember(struct engine *engine);
/* Engine thread: measure the disk in the background, if that is due. Returns when it will be, by
 * clock_monotonic_usec(); UINT64_MAX: not as it looks now. */
uint64_t codec_step(struct engine *engine);
struct engine_codec codec_tell(const struct spill_choice *choice);

/* --- write.c: shared by eviction and write-behind --- */

/* Bytes written on the last day on which any were, and that day (quota_day()), as the register's meters of these names remember them. */
int day_meters_read(struct engine *engine, const char *written_name, const char *day_name,
        uint64_t *written, uint64_t *day, struct err *e);
/* The same of what is written to disk. */
int write_meters_read(struct engine *engine, uint64_t *written, uint64_t *day, struct err *e);
/* The same for the register to remember, in the transaction that links written blocks. */
enum { WRITE_N_METERS = 2 + CODEC_N_METERS };
void write_meters(struct engine *engine, struct store_meter out[WRITE_N_METERS]);

struct write_item {
        enum seq_class class;
        uint32_t index, end;     /* of the cell, and the position behind it */
        uint32_t n_tokens;       /* of the cell */
        uint32_t n_valid;        /* tokens of the record that are the conversation's */
        bool write;              /* false: only link it */
        bool written;            /* the bytes of `record` are on disk, but not linked */
        bool ok;                 /* to be linked; after write_link(): linked */
        struct seq_block *block; /* pinned */
        struct rec *pinned;      /* the pin, if only linked */
        struct store_record record;
};

struct write_job {
        struct job job;
        struct conv *c; /* write-behind: NULL if unloaded meanwhile */
        uint64_t conv_id;
        uint64_t owner;
        uint64_t disk_limit; /* of the owner: QUOTA_NONE: none */
        void *maker;         /* for the maker of the job */
        bool complete;       /* when made, it covered all that had to be written or linked */
        bool waits;          /* write-behind: a Rewind or Close must end before linking */
        /* Copies, so that the conversation may change meanwhile: all tokens of the memory, and the
         * chained hashes of its n_blocks whole blocks. */
        int32_t *tokens;
        uint64_t *hashes;
        size_t n_blocks;
        uint32_t n_committed; /* conv.n_tokens then: what is behind them a request may still drop */
        bool find;            /* first look for records of the same tokens in other conversations */
        /* Cells that the sequence has given up, for the register to forget. */
        struct store_cell *drops; /* [n_drops] */
        size_t n_drops;
        bool dropped; /* it has */
        /* The first failure to write. */
        bool failed;
        enum spill_refusal why;
        struct err write_err;
        /* Records taken from conversations to make room. */
        struct store_cut *cuts;
        size_t n_cuts;
        uint64_t reclaimed;
        size_t n;
        struct write_item items[];
};

/* A job for the blocks that have no linked record yet, at most @max of them, and for the records of
 * cells that the sequence has given up. @lasting_only: leave out what is still to change (partial blocks,
 * the state of a request under way). 0 and *ret (NULL: there is nothing to do); 1 if another job is
 * writing one of the blocks (try again when a job has ended); -ERR_NOMEM. Engine thread. */
int write_job_new(struct write_job **ret, struct engine *engine, struct conv *c, bool lasting_only,
        size_t max, struct err *e);
/* Unpins all blocks and records. Engine thread. */
struct write_job *write_job_free(struct engine *engine, struct write_job *writing);
/* Submit the job: its blocks are marked until write_finish(). Engine thread. */
void write_start(struct engine *engine, struct write_job *writing);
/* Worker: write the items that need it, making room where a limit is reached. */
void write_blocks(struct engine *engine, struct write_job *writing);
/* Worker: link the records in the register; give back the space of those that cannot be linked. */
int write_link(struct engine *engine, struct write_job *writing, struct err *e);
/* Engine thread: give the records to the conversation (if it is still loaded) and the tags to the
 * blocks, log failures, forget the records that had to make room. */
void write_finish(struct engine *engine, struct write_job *writing);
