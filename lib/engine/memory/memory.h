/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Moving the memory of conversations between the pool and the spill store: evict.c and
 * writebehind.c write (with disk/write.c), recall.c finds what a prompt has (share.c: in RAM, of
 * other conversations as well), pipeline.c reads it, edit.c keeps an old end aside, grow.c makes the
 * pool larger and smaller. Engine thread, unless said otherwise.
 *
 * The life of a block of a conversation's memory; the function that makes each transition:
 *
 *         compute                  write_job_new           write_link
 *      ┌──────────→ DIRTY (RAM) ─────────────→ WRITING ────────────→ CLEAN (RAM and disk)
 *      │              ↑ │  ↑      tag: mark     │      tag: record      │  │  ↑
 *      │              │ │  └─────failed─────────┘     recs: record      │  │  │ restore_finish
 *      │       forgets│ │        take_item                              │  │  │ (verified)
 *      │       (other)│ │drop_memory                         drop_memory│  │  │
 *      │              │ ↓                                               ↓  │  │
 *      └─────────── GONE ←──── damaged, other model (cut_damaged) ── HOLE (disk only)
 *                       ←──── reclaimed for others (store_reclaim) ────┘
 *      Adopted blocks (share.c) begin as DIRTY or CLEAN, whatever they are to their first owner;
 *      CLEAN without a link of this conversation's own is linked, not written.
 *
 * 1. Memory is a cache of tokens (I1): every failure here ends with a shorter memory, never with a
 *    lost conversation. What can't be written is dropped when it must go, what can't be read is cut
 *    off and computed again, and a counter says so.
 * 2. A block's tag is the id of the spill record that holds the same bytes, TAG_WRITING while a job
 *    writes it, or 0. A tag whose record no loaded conversation refers to means nothing: the block
 *    counts as not written. A record is taken for a conversation's memory only if it covers the
 *    same number of tokens of the block and their chained hash is equal.
 * 3. recs[i] of a conversation is the record of its block i; below link_from it is also linked in
 *    the register, so that the record lives as long as the conversation. The register is always
 *    right by itself; recs may lag behind it and is never believed: reading verifies all.
 * 4. Writing: the bytes → commit the links (one transaction, with the meters) → tags and recs →
 *    only then drop. A crash in between leaves bytes that no one claims (swept at the next start).
 *    Links go first when space is given back: commit, then punch.
 * 5. A full block is written once in its life: by the first that comes to write it, who marks it.
 *    Forks and sharers find the tag and link the record; a conversation that computed what somebody
 *    has on disk already links that; a block that was computed again takes the record that it had.
 *    (The exceptions cost a write, nothing else: the record was damaged, reclaimed, or lost with
 *    its last conversation before it was linked.)
 * 6. A partial tail is written at eviction only, and replaced at the next one that finds it longer.
 * 7. While n_io > 0 (an eviction, or the forgetting of damaged links) no request acts on the
 *    conversation that does not hold it already. Write-behind is not among these, see
 *    writebehind.c.
 * 8. Restoring: fresh blocks → read and verify → attach. The first damaged block cuts the memory
 *    there; its links are forgotten in the register, then the space is given back (I5). restore.c
 *    tells how computing may begin before all is read.
 * 9. Admission (sched.c) bounds the blocks that active conversations may come to need by the pool's
 *    capacity, and everything else can be evicted (or dropped: what edits have put aside, edit.c);
 *    so waiting for room always ends. Blocks that a job has pinned come back when it ends.
 * 10. Room on disk: a write that a limit refuses takes the space of the conversations that were
 *    updated longest ago (store_reclaim: from their tails, what several share last), and tries once
 *    more. The daily limit is not met that way: writing rests until tomorrow. What was reclaimed is
 *    not written again in the background, only when it was used and is evicted again; so a full
 *    disk leads to no endless exchange.
 */
#include "engine/conv/conv.h"
#include "engine/disk/disk.h"
#include "engine/io/io.h"
#include "engine/parts.h"

/* The pool, its index and tables; engine.info and engine.budget's slot size are known. */
int memory_new(struct engine *engine, struct err *e);
struct memory *memory_free(struct memory *m);

/* --- evict.c --- */

/* Somebody waits for the end of an eviction. Owned by whoever waits, until done() was called. */
struct eviction {
        struct list link; /* among those that wait for a job that writes blocks of theirs */
        struct conv *c;
        /* -ERR_NOMEM: it could not be begun. */
        void (*done)(struct engine *engine, struct eviction *ev, int r, const struct err *e);
        uint32_t n_not_kept;     /* tokens whose memory was lost, */
        struct err why_not_kept; /* and why */
};
/* Write and drop the conversation's blocks, which the caller holds. done() is called at once if
 * there is nothing to write. */
void evict_begin(struct engine *engine, struct conv *c, struct eviction *ev);
/* A job that wrote blocks is over: evictions that waited for it try again. */
void evict_retry(struct engine *engine);

/* The pool is full: evict the least recently used conversation. */
enum room {
        ROOM_NOW,   /* something was dropped: try again at once */
        ROOM_LATER, /* an eviction is under way: try again after the next completion */
        ROOM_NEVER  /* nothing can be evicted and nothing is under way */
};
enum room memory_make_room(struct engine *engine);

/* --- writebehind.c --- */

/* Start what is due; returns when to call again at the latest (clock_monotonic_usec()). */
uint64_t writebehind_step(struct engine *engine);

/* --- recall.c, pipeline.c: what of a prompt's memory is there --- */

/* Where the memory of a block came from. */
enum source { SOURCE_NONE, SOURCE_RAM, SOURCE_SHARED, SOURCE_DISK, N_SOURCES };

/* The memory of the tokens of one conversation that is held by one request. All zeros at first. */
struct recall {
        /* The owner's, before recall_step(). */
        struct conv *conv;
        bool wants_logits; /* of the last token, which is computed in any case */
        bool again;        /* it was recalled before: others' memory on disk is not looked for */
        bool alone;        /* nobody else computes: it may compute while its memory arrives */
        /* What was found. */
        uint64_t *hashes; /* [n_blocks], chained; NULL when it is over */
        uint8_t *sources; /* [n_blocks], enum source; stays until recall_deinit() */
        size_t n_blocks;
        struct store_prefix found; /* what others have on disk */
        uint64_t t_read;           /* when the reading ended; 0: nothing was read */
        /* Inside. */
        bool gathered, searched;
        bool reading; /* a job is under way */
        bool done;    /* all that can be is there: the next recall_step() says so */
        struct restore *restore;
        struct job job;
};

/* Go on: allocate blocks, evicting where needed, then start to read. 0: all that there is is in
 * RAM; 1: not yet; -ERR_X. May be called in vain. */
int recall_step(struct engine *engine, struct recall *recall, struct err *e);
/* Forget all, also while a job is under way. */
void recall_abandon(struct engine *engine, struct recall *recall);
/* Read no more. When the workers are out of it `reading` is false, and it may begin anew. */
void recall_stop(struct recall *recall);
void recall_deinit(struct recall *recall);
/* So many tokens were computed by prefill: for the decision whether reading pays. */
void recall_note_computed(struct engine *engine, size_t n_tokens, uint64_t usec);

/* While the memory of a request that is alone still arrives: attach it on trial, with room for the
 * tokens behind it, at most @most. The number of them, or 0 if that should not be tried (now).
 * @wait is for model_forward(). Then trial_end(), before anything else runs. */
uint32_t trial_begin(
        struct engine *engine, struct recall *recall, uint32_t most, struct model_wait *wait);
/* @computed: the trial is final, and the recall over. */
void trial_end(struct engine *engine, struct recall *recall, bool computed);

/* --- share.c --- */

/* May its memory be shared at all? */
bool share_allowed(const struct conv *c);
/* The longest run of blocks that are the memory of its first tokens, of @n at most. Borrowed. */
size_t share_find(struct engine *engine, const struct conv *c, size_t n, struct seq_block **out);
/* Full blocks from @from on are new: enter what there is. */
void share_enter(struct engine *engine, struct conv *c, size_t from);
/* Blocks of the prompt that may come from elsewhere. */
size_t share_limit(const struct engine *engine, const struct recall *recall);
/* Take blocks behind the end, all that are in RAM. Returns how many tokens it has more or in
 * others' blocks now; they are the last ones of the sequence, and marked in the sources. */
uint32_t share_adopt(struct engine *engine, struct recall *recall);
/* May a look at what others have on disk pay? */
bool share_worth_search(const struct engine *engine, const struct recall *recall);
/* There is memory for the first @kept tokens of a prompt of @n_prompt: why not for more? *ret_at:
 * where it ends. */
enum engine_differs share_explain(struct engine *engine, const struct recall *recall,
        uint32_t n_prompt, uint32_t kept, uint32_t *ret_at);
/* The first c->n_published tokens of @c are everyone's: enter what is in RAM of them into the
 * public scope. Harmless to repeat. */
void share_publish(struct engine *engine, struct conv *c);
/* Some no longer are, or (c->n_published > 0) fewer: forget the public entries of the rest. */
void share_unpublish(struct engine *engine);

/* --- edit.c --- */

/* Shorten @c, which the caller holds, to what @keep says; the old end is put aside (c->edit). On
 * failure nothing was changed. 0 also if nothing is dropped. @keep stays valid until the end. */
int edit_begin(struct engine *engine, struct conv *c, const struct keep *keep, struct err *e);
/* The conversation is what it was before edit_begin(). Nothing if no edit is pending. */
void edit_undo(struct engine *engine, struct conv *c);
/* Worker: the commit, in place of store_append(). */
int edit_store(struct engine *engine, const struct conv *c, const struct store_turn *turns,
        size_t n_turns, uint64_t *ret_revision, struct err *e);
/* The commit went well: forget the old end. Nothing if no edit is pending. */
void edit_done(struct engine *engine, struct conv *c);

/* --- grow.c --- */

/* Go on towards the budget that was asked for. True while memory has to be let go first. */
bool grow_step(struct engine *engine);
/* Let the pool keep what it may of freed blocks, and give back what lies idle; returns when to call
 * again at the latest (clock_monotonic_usec()). @n_busy: blocks that requests have in use. */
uint64_t grow_spare(struct engine *engine, size_t n_busy);

/* --- figures, for `stats` --- */

struct memory_figures {
        struct seq_pool_stats pool;
        struct seq_index_stats index;
};
void memory_figures(struct engine *engine, struct memory_figures *ret);
