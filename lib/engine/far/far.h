/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Memory outside of this machine: the remote store (lib/remote), where machines that share a register find each other's blocks. It is the
 * level behind the own disk: names.c tells what a block is called there, push.c brings blocks there, find.c finds those of a prompt.
 * memory/fetch.c reads them.
 *
 * 1. What lies there is a cache of tokens, and nobody's truth (I1). Values may be gone, old, damaged, or somebody else's. A value is what
 *    lib/spill writes into files (spill_read_stored()), and behind it a seal, a MAC with the owner's secret (names.c). What arrives is
 *    looked at only if its seal is right, and then is checked like a file's (spill_unpack()). So who can write to the server but has no
 *    secret makes nothing worse than slower.
 * 2. A block's name is a keyed hash of everything that it depends on: the owner's secret, the model, all tokens up to its end, its class
 *    and its place. So who finds a value under a name has the same tokens (I6), and nobody can make the name of another owner's block.
 *    Private memory has the conversation in its name besides: it is found by its conversation alone.
 * 3. For each conversation there is a table of contents, the cells of its memory that were brought there (contents.c). It only proposes
 *    names: whoever reads it makes each name anew, from his own tokens.
 * 4. A closed conversation's blocks are removed there, but for those that other conversations of the owner link on some machine's disk.
 *    What is missed (a server that is away, a crash) ends by itself: every value has a time to live, which touching it begins anew.
 * 5. Nothing waits for the remote store but the request that wants memory from it, and that no longer than twice what computing
 *    would take for finding it, and as long for reading it (memory/fetch.c). Its calls are made on threads of their own (io/workers.c, rule 7).
 * 6. After a failure it is left alone for a while, longer each time.
 */
#include <stdatomic.h>

#include "engine/conv/conv.h"
#include "engine/disk/disk.h"
#include "engine/io/io.h"
#include "engine/parts.h"
#include "remote/remote.h"

/* What the remote store was used for, since the engine was opened. */
struct far_figures {
        bool is_used;
        uint64_t n_read, read_size; /* blocks that were read, bytes of their records */
        uint64_t n_damaged;         /* that were there, but not what they should be */
        uint64_t n_sent, sent_size, written_today;
        uint64_t n_failures; /* calls */
};

/* NULL without memory. */
struct far *far_new(void);
struct far *far_free(struct far *f);
/* If engine.o.remote.uri is set: makes engine.remote. Needs the spill store, and connects to nothing. Fails as remote_open(), or as
 * reading meters does. */
int far_open(struct engine *engine, struct err *e);
/* From now on calls under way and queued ones end soon. Any thread. */
void far_stop(struct engine *engine);

/* Whether it is left alone now, after a failure (rule 6). Any thread. */
bool far_rests(const struct engine *engine);
/* Whether there is a remote store that is to be asked now. Engine thread. */
bool far_is_up(const struct engine *engine);
/* A call has ended with @r. Engine thread. */
void far_note(struct engine *engine, int r, const struct err *e);
/* Bytes of the longest value. */
size_t far_value_max(const struct engine *engine);
/* How long a call may wait altogether, by clock_monotonic_usec(): for calls that nobody waits for. */
uint64_t far_deadline(const struct engine *engine);

/* --- names.c; any thread --- */

enum { FAR_DIGEST_SIZE = 32, FAR_NAME_SIZE = 16 };
struct far_name {
        uint8_t bytes[FAR_NAME_SIZE];
};
/* A cell of a conversation's memory (lib/seq). */
struct far_cell {
        enum seq_class class;
        uint32_t index;
        uint32_t n_tokens;   /* of the cell; 1 in a state */
        uint64_t token_hash; /* as in store_record */
        struct far_name name;
};
/* The position behind the cell. */
static inline uint32_t far_cell_end(const struct engine *engine, const struct far_cell *cell) {
        return cell->index * seq_cell_tokens(&engine->info.shape, cell->class) + cell->n_tokens;
}

/* Whose names: rule 2. */
struct far_scope {
        uint8_t secret[STORE_SECRET_SIZE];
        uint64_t owner;
        uint64_t conv; /* of this conversation alone; 0: the owner's */
};
/* Reads the register, if the secret is not known yet. -ERR_X as store_secret(). */
int far_scope(struct engine *engine, uint64_t owner, uint64_t conv, bool is_private,
        struct far_scope *ret, struct err *e);

/* What the names of all cells of a prompt are made of. */
struct far_names {
        const struct far_scope *scope; /* borrowed, as the tokens */
        const int32_t *tokens;
        uint32_t n_tokens;
        size_t n_blocks;                     /* whole ones */
        uint8_t (*digests)[FAR_DIGEST_SIZE]; /* [n_blocks + 1], of all tokens before block i */
        uint64_t *hashes; /* [n_blocks + 1], chained: of all up to the end of block i */
};
/* -ERR_NOMEM. What it allocates is far_names_size(). */
int far_names_make(const struct engine *engine, const struct far_scope *scope,
        const int32_t *tokens, uint32_t n_tokens, struct far_names *ret, struct err *e);
void far_names_deinit(struct far_names *n);
size_t far_names_size(const struct engine *engine, uint32_t n_tokens);
/* Fill in the hash and the name of a cell (class, index, n_tokens), which ends within the tokens. */
void far_names_cell(const struct engine *engine, const struct far_names *n, struct far_cell *cell);
/* What a block, and the contents of a conversation, are called in the remote store. */
void far_key(const struct far_name *name, struct remote_key *ret);
void far_contents_name(const struct engine *engine, const struct far_scope *scope, uint64_t conv,
        struct far_name *ret);
void far_contents_key(const struct far_name *name, struct remote_key *ret);

/* What stands behind each value: that it was made by somebody who knows the secret, for this name. */
enum { FAR_SEAL_SIZE = 32 };
int far_seal(const struct far_scope *scope, const struct far_name *name, const void *data,
        size_t size, uint8_t ret[FAR_SEAL_SIZE], struct err *e);
/* Whether data[0..size) ends with the seal of what is before it. */
bool far_is_sealed(
        const struct far_scope *scope, const struct far_name *name, const void *data, size_t size);

/* --- contents.c; a thread of its own --- */

/* [n], by rising class, then index. */
struct far_contents {
        struct far_cell *cells;
        size_t n;
};
/* No table, or a damaged one, is an empty one. Fails as remote_get(). */
int far_contents_read(struct engine *engine, const struct far_scope *scope, uint64_t conv,
        uint64_t until, struct far_contents *ret, struct err *e);
int far_contents_write(struct engine *engine, const struct far_scope *scope, uint64_t conv,
        const struct far_contents *c, uint64_t until, struct err *e);
void far_contents_deinit(struct far_contents *c);
/* Cells that a table has at most, and bytes that reading or writing one takes at most. */
size_t far_contents_max(const struct engine *engine);
size_t far_contents_size(const struct engine *engine);

/* --- find.c; a thread of its own --- */

/* What a prompt lacks. */
struct far_wish {
        uint64_t owner, conv;
        bool is_private;
        const int32_t *tokens;
        uint32_t n_tokens; /* memory for more of them is of no use */
        uint32_t have;     /* the first so many have memory in RAM */
        /* Blocks of SEQ_WINDOW that are in RAM, whole: [n_tokens / block_tokens]. */
        const bool *has_window;
};
/* The farthest position that the cells of the wish together with those found make whole (lib/seq), and cells that it needs and
 * that are not there yet: states, then windows, then blocks of SEQ_ALL by rising index. n 0: nothing was found. */
struct far_found {
        struct far_scope scope;
        uint32_t end;
        struct far_cell *cells; /* [n] */
        size_t n;
};
/* Fails as remote_touch() and store_secret(). */
int far_find(struct engine *engine, const struct far_wish *wish, uint64_t until,
        struct far_found *ret, struct err *e);
void far_found_deinit(struct far_found *f);
/* Bytes that far_find() allocates at most. */
size_t far_find_size(const struct engine *engine, uint32_t n_tokens);

/* --- push.c; engine thread --- */

/* Start the next push that is due. Returns the time to call again at the latest (clock_monotonic_usec()). */
uint64_t far_step(struct engine *engine);
/* The conversation was closed: remove what lies there of it. */
void far_forget(struct engine *engine, uint64_t owner, uint64_t conv, bool is_private);

/* Whether pushing is possible now. */
bool far_may_send(const struct engine *engine);
/* Push the conversation before others, and without rests. False: there is nothing (more) to push of it. */
bool far_hurry(struct engine *engine, struct conv *c);
/* Push all that is waiting, without rests. True: nothing is, or the remote store can't take it now. Called again until then. */
bool far_hand_over(struct engine *engine);
/* Conversations of which something is still to be brought there, or removed; what is left of the walk (late.c) counts as one. Engine
 * thread. */
size_t far_n_pending(struct engine *engine);
/* Since the engine was opened, but for `written_today`. Engine thread. */
void far_figures(struct engine *engine, struct far_figures *ret);
/* memory/fetch.c: blocks were read, with so many bytes of values; of them so many were damaged. */
void far_note_read(struct engine *engine, uint64_t n_blocks, uint64_t size, uint64_t n_damaged);
