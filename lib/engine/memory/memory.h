/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Moving the memory of conversations between the pool and the spill store. evict.c and
 * writebehind.c write (with disk/write.c). recall.c finds the memory of a prompt (share.c: in RAM,
 * also of other conversations), and pipeline.c reads it. edit.c puts an old end aside. grow.c makes
 * the pool larger and smaller. Engine thread, unless said otherwise.
 *
 * The life of a block of a conversation's memory; each transition is named after its function:
 *
 *         compute                  write_job_new           write_link
 *      ┌──────────→ DIRTY (RAM) ─────────────→ WRITING ────────────→ CLEAN (RAM and disk)
 *      │             │  ↑  ↑      tag: mark     │      tag: record    │  │  ↑
 *      │             │  │  └─────failed─────────┘     recs: record    │  │  │ finish (recall.c)
 *      │             │  │        take_item                            │  │  │ (verified)
 *      │  drop_memory│  └──── record forgotten (conv_forget_recs) ────┘  │  │
 *      │             │                                        drop_memory│  │
 *      │             ↓                                                   ↓  │
 *      └─────────── GONE ←──── damaged (cut_damaged), other model ──── HOLE (disk only)
 *                        ←──── reclaimed for others (store_reclaim) ────┘
 *      Adopted blocks (share.c) begin as DIRTY or CLEAN, as they are for their first owner. A CLEAN
 *      block that the conversation itself has not linked is linked, not written.
 *
 * This is the life of every cell (lib/seq): a block of attention over everything or over a window, or a
 * state. What differs between the classes is decided by lib/seq (which cells a position needs, and to
 * which positions a sequence can be cut) and by checkpoint.c (which positions are kept); everything else
 * treats cells alike. So the memory may at any time end before the place that was asked for, and what
 * is missing is computed.
 *
 * 1. Memory is a cache of tokens (I1): every failure here leads to a shorter memory, never to a
 *    lost conversation. A cell that cannot be written is dropped when it must go. A cell that
 *    cannot be read is forgotten, and what needs it is computed again. A counter records each such case.
 * 2. A block's tag is the id of the spill record that holds the same bytes, TAG_WRITING while a job
 *    writes it, or 0. If no loaded conversation refers to the tag's record, the tag is ignored: the
 *    block counts as not written. A record is accepted for a cell if it covers the same number of tokens
 *    and their chained hash is equal; or more tokens, of which so many are known to be this
 *    conversation's (conv_rec.n_valid): a cut inside a block does not lose the block.
 * 3. The recs of a conversation are the records of its cells. A linked one is also in the register, so
 *    that it lives as long as the conversation. The register by itself is always right. recs may lag
 *    behind it and is never trusted: reading verifies everything.
 * 4. Writing: the bytes → commit the links (one transaction, with the meters) → tags and recs →
 *    only then drop. A crash in between leaves bytes that no record claims (swept at the next
 *    start). Giving back space goes the other way: commit the removal of the links, then punch.
 * 5. A full block is written once in its life, by the first job that comes to write it and marks
 *    it. So is a state. Forks and sharers find the tag and link the record. A conversation that computed
 *    memory which another one already has on disk links that. A block that was computed again takes the
 *    record that it had. (The exceptions only cost a write: the record was damaged, reclaimed, or
 *    lost with its last conversation before it was linked.)
 * 6. A partial tail is written only at eviction (in models with states by write-behind, too), and
 *    replaced later, when it is found longer. The state of a request under way, which is no place to come
 *    back to, is written only at eviction.
 * 7. While n_io > 0 (an eviction, or the forgetting of damaged links), only the request that
 *    already holds the conversation acts on it. Write-behind does not count in n_io, see
 *    writebehind.c.
 * 8. Restoring: fresh blocks → read and verify → attach. Only cells that the end needs are read. The
 *    memory is cut at the first damaged one, to the last position that does not need it. Its links are
 *    forgotten in the register, then the space is given back (I5). pipeline.c tells how computing may
 *    begin before everything is read.
 * 9. Admission (run/sched.c) bounds the bytes that active conversations may come to need by the
 *    pool's capacity. Everything else can be evicted, or dropped: what an edit has put aside (edit.c),
 *    and checkpoints, which admission does not count. So waiting for room always ends. Blocks pinned by
 *    a job come back when the job ends.
 * 10. Room on disk: a write that a limit refuses takes the space of the conversations that were
 *     updated longest ago (store_reclaim: checkpoints first, then from their tails, shared records
 *     last), and tries once more. For the daily limit it does not: writing rests until tomorrow.
 *     Reclaimed blocks are not written again in the background, only when they were used and are evicted
 *     again. So a full disk does not lead to an endless exchange.
 * 11. Records of cells that the sequence has given up (behind windows, checkpoints that were thinned out)
 *     are unlinked by the next job that writes or links.
 */
#include "engine/conv/conv.h"
#include "engine/disk/disk.h"
#include "engine/io/io.h"
#include "engine/parts.h"

/* After engine.pool, engine.info and the budget: makes the prefix index. -ERR_NOMEM. */
int memory_new(struct engine *engine, struct err *e);
struct memory *memory_free(struct memory *m);

/* --- evict.c --- */

/* Waits for the end of an eviction. Owned by the caller, who keeps it until done() is called. */
struct eviction {
        struct list link; /* among evictions that wait for a job which writes their blocks */
        struct conv *c;
        /* @r: 0, or -ERR_NOMEM if the eviction could not be begun. */
        void (*done)(struct engine *engine, struct eviction *ev, int r, const struct err *e);
        uint32_t n_not_kept;     /* tokens whose memory was lost */
        struct err why_not_kept; /* and the reason */
};
/* Write and drop the blocks of the conversation, which the caller holds. If there is nothing to
 * write, done() is called before this returns. */
void evict_begin(struct engine *engine, struct conv *c, struct eviction *ev);
/* A job that wrote blocks has ended: begin the evictions again that waited for it. */
void evict_retry(struct engine *engine);

/* Evict an idle conversation for room. False: not now, since its blocks are being written. */
bool evict_idle(struct engine *engine, struct conv *c);

/* --- ration.c --- */

/* Hold owners' idle memory to their shares. In each round of the engine thread. */
void ration_step(struct engine *engine);
/* Percent of the memory that conversations may have, which the owner has; rounded up. */
uint64_t ration_used(struct engine *engine, uint64_t owner);

/* The pool is full: evict the conversation whose memory is worth least (evict.c). */
enum room {
        ROOM_NOW,   /* a block was dropped: try again at once */
        ROOM_LATER, /* an eviction is under way: try again after the next completion */
        ROOM_NEVER  /* nothing can be evicted and nothing is under way */
};
enum room memory_make_room(struct engine *engine);

/* --- writebehind.c --- */

/* Start the write that is due. Returns the time to call again at the latest
 * (clock_monotonic_usec()). */
uint64_t writebehind_step(struct engine *engine);

/* Places that a request's prompt leaves behind to come back to, in memory tokens; 0: none. */
#define CHECKPOINT_LATEST 3 /* turns whose checkpoints stay */
struct checkpoint_plan {
        uint32_t n_prompt;  /* tokens of the prompt */
        uint32_t input_end; /* of the message, before what invites the reply */
        uint32_t branch;    /* the tokens agree with another conversation's up to here */
        /* If the input has several turns: the end of the conversation's first turn, if that is one of
         * them; the ends of the latest before the last one. 0: none. */
        uint32_t first;
        uint32_t ends[CHECKPOINT_LATEST - 1];
};

/* --- recall.c, sources.c, plan.c, pipeline.c: bringing a prompt's memory into RAM --- */

/* Where memory came from; what came from farther is greater. */
enum source { SOURCE_NONE, SOURCE_RAM, SOURCE_SHARED, SOURCE_DISK, N_SOURCES };

/* Brings the memory of one conversation into RAM for the request that holds it. Zeros at first. */
struct recall {
        /* Set by the owner before recall_step(). */
        struct conv *conv;
        bool wants_logits; /* of the last token, which is then computed in any case */
        bool again;        /* recalled before: do not search others' memory on disk again */
        bool shifted;      /* the memory was shortened for this request: conv/shift.c */
        bool alone;        /* no other request computes: this one may while its memory arrives */
        const struct checkpoint_plan *plan; /* borrowed from the request */
        /* Results. */
        uint64_t *hashes; /* [n_blocks], chained; NULL when the recall is over */
        /* enum source, kept until recall_deinit(): of the attention's memory of each block's tokens (the
         * farthest, if two classes differ), and of the state. */
        uint8_t *sources; /* [n_blocks] */
        uint8_t state_source;
        size_t n_blocks;
        struct store_prefix found; /* memory of others on disk */
        uint64_t t_read;           /* when reading ended; 0: nothing was read */
        /* Internal. */
        size_t charged; /* bytes in the ledger, for what stands above */
        bool gathered, searched;
        bool again_from_start; /* what was read was not all: gather once more */
        bool no_search;        /* what was found on disk could not be used */
        bool told;             /* RESTORED was told of this recall */
        bool reading;          /* a job is under way */
        bool done;             /* everything is there: the next recall_step() returns 0 */
        struct restore *restore;
        struct job job;
        struct fetch *fetch; /* fetch.c */
        bool fetched;        /* the remote store was asked */
};

/* The next step: allocate blocks, evicting where needed, then start to read. 0: all memory that
 * exists is in RAM; 1: not yet, call again; -ERR_NOMEM, -ERR_LIMIT. Extra calls do no harm. */
int recall_step(struct engine *engine, struct recall *recall, struct err *e);
/* Forget everything, even while a job is under way. */
void recall_abandon(struct engine *engine, struct recall *recall);
/* Stop reading. `reading` turns false when the workers are done, at once if they wait for the remote store; then the recall may begin
 * anew. */
void recall_stop(struct engine *engine, struct recall *recall);
void recall_deinit(struct engine *engine, struct recall *recall);
/* Where the first @kept tokens of the prompt came from, of the whole memory: tokens by source. A token counts
 * with its own blocks; where no class has any of it, with the state, or the window, that stands for it. */
void recall_count(const struct engine *engine, const struct recall *recall, uint32_t kept,
        uint32_t ret[N_SOURCES]);
/* Prefill computed @n_tokens in @usec: for deciding whether reading pays. */
void recall_note_computed(struct engine *engine, size_t n_tokens, uint64_t usec);

/* If the memory of a request that computes alone still arrives: attach it on trial and reserve room
 * for up to @most tokens behind it. Returns the number of these tokens; 0: do not compute (now).
 * @wait is for model_forward(). Call trial_end() before anything else. */
uint32_t trial_begin(
        struct engine *engine, struct recall *recall, uint32_t most, struct model_wait *wait);
/* @computed: the trial becomes final, and the recall is over. Else the blocks are detached. */
void trial_end(struct engine *engine, struct recall *recall, bool computed);

/* --- fetch.c, for recall.c: memory that the remote store has --- */

/* All that is here is in RAM: is there more to ask for? */
bool fetch_is_wanted(struct engine *engine, const struct recall *recall);
/* Ask for it. Without room for that recall->fetch stays NULL. */
void fetch_begin(struct engine *engine, struct recall *recall);
/* The next step, with recall->fetch. 0: it is over, and gone; 1: not yet. */
int fetch_step(struct engine *engine, struct recall *recall);
/* The recall does without: the fetch is freed now, or by its last job. Nothing is done without a fetch. */
void fetch_let_go(struct engine *engine, struct recall *recall);

/* --- part.c: before a conversation is given up to another machine --- */

/* It is idle here. True: its memory is on the way to the remote store; call again. */
bool part_step(struct engine *engine, struct conv *c);

/* --- share.c --- */

/* May the conversation's memory be shared at all? */
bool share_allowed(const struct conv *c);
/* What is in RAM of the memory of its first tokens, up to @n blocks. Borrowed. */
size_t share_find(struct engine *engine, const struct conv *c, size_t n, struct seq_step *out);
/* Full blocks from @from on are new: enter them into the index. */
void share_enter(struct engine *engine, struct conv *c, size_t from);
/* The number of the prompt's blocks that may come from elsewhere. */
size_t share_limit(const struct engine *engine, const struct recall *recall);
/* Append the blocks in RAM that continue the sequence. Returns how many tokens at its end are now
 * in adopted blocks, marked in the sources; tokens of a replaced tail are among them. */
uint32_t share_adopt(struct engine *engine, struct recall *recall);
/* Is it worth searching the memory that others have on disk? */
bool share_worth_search(const struct engine *engine, const struct recall *recall);
/* The memory for a prompt of @n_prompt tokens ends after @kept of them: why? *ret_at: the place
 * where the tokens begin to differ, or @kept. *ret_branch: so many tokens are those of another
 * conversation, if these are more than @kept; else 0. */
enum engine_differs share_explain(struct engine *engine, const struct recall *recall,
        uint32_t n_prompt, uint32_t kept, uint32_t *ret_at, uint32_t *ret_branch);
/* The first c->n_published tokens of @c are for all users: enter their blocks in RAM into the
 * public scope. May be repeated. */
void share_publish(struct engine *engine, struct conv *c);
/* Some conversation is no longer published, or (c->n_published > 0) a shorter part: forget the
 * public entries of the rest. */
void share_unpublish(struct engine *engine);

/* --- edit.c --- */

/* Shorten @c, which the caller holds, to the part that @keep tells, with the gap that it tells; what
 * differs is put aside (c->edit). c->n_tokens is then where the old and the new memory begin to
 * differ, and c->n_all the length of the new one. 0, also if nothing is dropped; on failure
 * (-ERR_LIMIT, -ERR_NOMEM) nothing was changed. The caller keeps @keep until the edit ends. */
int edit_begin(struct engine *engine, struct conv *c, const struct keep *keep, struct err *e);
/* Make the conversation what it was before edit_begin(). Does nothing if no edit is pending. */
void edit_undo(struct engine *engine, struct conv *c);
/* Worker: the commit of @turns with their @n_tokens tokens, in place of store_append(). */
int edit_store(struct engine *engine, const struct conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, uint32_t n_tokens, uint64_t *ret_revision,
        struct err *e);
/* The tokens of the old memory, borrowed, while an edit is pending; NULL: none is. *ret_common: so many
 * from the beginning are those of the new memory as well. */
const int32_t *edit_old_tokens(const struct conv *c, uint32_t *ret_n, uint32_t *ret_common);
/* The commit succeeded: forget the old end. Does nothing if no edit is pending. */
void edit_done(struct engine *engine, struct conv *c);

/* --- checkpoint.c: places to come back to --- */

/* Computing the conversation's memory further from its end, by at most @n tokens: how many may be
 * computed before the next place that is to be kept? @more: further tokens come after these. */
uint32_t checkpoint_limit(const struct engine *engine, const struct conv *c,
        const struct checkpoint_plan *plan, uint32_t n, bool more);
/* Tokens were computed, or taken over from others, up to the sequence's end: keep the place if it is one. */
void checkpoint_reached(struct engine *engine, struct conv *c, const struct checkpoint_plan *plan);
/* A turn ended, or the conversation was loaded: keep the ends of turns, and thin out what is more than
 * the conversation may have. */
void checkpoint_turn_ended(struct engine *engine, struct conv *c);
void checkpoint_loaded(struct engine *engine, struct conv *c);

/* --- what memory needs --- */

/* Bytes that a request needs for a memory of @n_tokens: what admission counts. */
size_t memory_need(const struct engine *engine, uint32_t n_tokens);
/* The number of tokens whose memory fits into @size bytes, at most @most. */
uint32_t memory_room(const struct engine *engine, size_t size, uint32_t most);

/* --- grow.c --- */

/* Move towards the budget that was asked for. True while memory must be freed first. */
bool grow_step(struct engine *engine);
/* Set how much freed memory the pool may keep, and give back idle spares. @busy_size: bytes that
 * requests have in use. Returns the time to call again at the latest (clock_monotonic_usec()). */
uint64_t grow_spare(struct engine *engine, size_t busy_size);

/* --- figures, for `stats` --- */

struct memory_figures {
        struct seq_pool_stats pool;
        struct seq_index_stats index;
        size_t n_writing_behind; /* write-behind jobs under way: 0 or 1 */
};
void memory_figures(struct engine *engine, struct memory_figures *ret);
