/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The register: what must survive (I4). One SQLite file in WAL mode with synchronous=FULL:
 * conversations, turns, tokens, and where the blocks of their memory lie in spill files.
 *
 * 1. Every call that changes something is one transaction: it happened whole when the call returned
 * 0, and not at all otherwise, also after kill -9 or power loss. (One that failed because the disk
 * failed in the middle of its commit can come back whole if the power goes right then.)
 * 2. Tokens of a conversation are the concatenation of its turns' tokens; turns are [start, end)
 * without gaps from 0.
 * 3. A conversation is reached by (uid, id) or (uid, name) and by nothing similar (I6).
 * 4. A spill record lives in table `record` exactly while a conversation refers to it. Calls that
 * take the last reference away report the records that are gone, whose space the caller then gives
 * back: a crash in between leaves space that nobody refers to, never a reference without data.
 * 5. The file is readable with the sqlite3 shell: texts are TEXT, roles and reasons are words.
 *
 * Any thread: calls are serialised inside.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"
#include "base/sampling.h"

struct err;
struct store;

#define STORE_NAME_MAX 128 /* bytes of a conversation's name, without NUL */
#define STORE_UID_ANY UINT32_MAX

struct store_conv {
        uint64_t id; /* from 1, never used again */
        uint32_t uid;
        char name[STORE_NAME_MAX + 1];
        uint64_t parent; /* 0: none; stays when the parent is deleted */
        uint32_t fork_pos;
        uint64_t revision; /* from 1 */
        uint32_t n_tokens, n_turns;
        uint64_t created_usec, updated_usec;
        struct fingerprint model; /* that made its memory */
        uint64_t vocab;           /* hash of the vocabulary its tokens belong to */
        struct sampling sampling;
};

struct store_turn {
        uint32_t role; /* enum chat_role's numbers: 0 system, 1 user, 2 assistant, 3 raw */
        uint32_t start, end;
        uint32_t finish;  /* 0 none, else the protocol's FinishReason numbers */
        const char *text; /* what was said, without template; may hold any bytes (as BLOB if not
                             UTF-8) */
        size_t text_size;
        uint64_t created_usec;
};

/* Where the memory of one block lies. */
struct store_record {
        uint64_t id;       /* from 1, never used again */
        uint64_t file_key; /* spill file */
        uint64_t offset;
        uint64_t stored_size, raw_size;
        uint32_t block_class;
        uint32_t index;    /* block index within its sequence */
        uint32_t n_tokens; /* that are valid in it */
        uint64_t token_hash;
};

/* Opens or makes the file; runs migrations; -ERR_UNSUPPORTED if it is from a newer confab,
 * -ERR_CORRUPT if SQLite says that it is not a database. The folder exists. */
int store_open(struct store **ret, const char *path, struct err *e);
struct store *store_free(struct store *s);
DEFINE_CLEANUP(struct store *, store_free);

/* Insert @c (id, revision = 1, times are filled in) with its first turns and tokens (may be 0).
 * -ERR_EXISTS if the uid has a conversation of that name; an empty name is replaced by "chat-<id>".
 */
int store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
/* A copy of the first @n_turns turns (and their tokens) of @parent as @child (name given or empty,
 * the rest is filled in), with the parent's records for these tokens linked. -ERR_NOT_FOUND,
 * -ERR_EXISTS. */
int store_conv_fork(struct store *s, uint64_t parent, uint32_t n_turns, struct store_conv *child,
        struct err *e);
/* By id, or by name when id is 0. uid STORE_UID_ANY: whoever owns it (administrators).
 * -ERR_NOT_FOUND; -ERR_INVALID if several users have one of that name. */
int store_conv_get(struct store *s, uint32_t uid, uint64_t id, const char *name,
        struct store_conv *ret, struct err *e);
/* Up to @max conversations of @uid (or STORE_UID_ANY) with id > @after, rising. *ret_n of them. */
int store_conv_list(struct store *s, uint32_t uid, uint64_t after, struct store_conv *out,
        size_t max, size_t *ret_n, struct err *e);
int store_conv_count(struct store *s, uint32_t uid, uint64_t *ret, struct err *e);
/* Name (NULL: unchanged; -ERR_EXISTS) and sampling defaults (NULL: unchanged). */
int store_conv_update(struct store *s, uint64_t id, const char *name,
        const struct sampling *sampling, struct err *e);

/* Records that lost their last reference: an owned array to be freed. */
struct store_gone {
        struct store_record *records;
        size_t n;
};
void store_gone_deinit(struct store_gone *g);

int store_conv_delete(struct store *s, uint64_t id, struct store_gone *gone, struct err *e);
/* One acknowledged step: append turns and tokens (turns[0].start == the present n_tokens, checked),
 * set revision to old + 1, return it. */
int store_append(struct store *s, uint64_t id, const struct store_turn *turns, size_t n_turns,
        const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision, struct err *e);
/* Keep the first @n_turns turns; tokens and records behind them go (a record whose block begins
 * before the kept end stays); revision + 1. */
int store_rewind(struct store *s, uint64_t id, uint32_t n_turns, uint32_t block_tokens,
        uint64_t *ret_revision, struct store_gone *gone, struct err *e);

/* All tokens (@n must be the conversation's n_tokens) / all turns (owned array; texts belong to the
 * array and are freed with store_turns_free). */
int store_tokens(struct store *s, uint64_t id, int32_t *out, size_t n, struct err *e);
struct store_turns {
        struct store_turn *turns;
        size_t n;
};
int store_turns(
        struct store *s, uint64_t id, bool with_text, struct store_turns *ret, struct err *e);
void store_turns_deinit(struct store_turns *t);

/* What eviction writes: for conversation @id, blocks links[i].index now lie in links[i] (a record
 * with id 0 is new: inserted, its id filled in; else it exists already and is only referred to).
 * Replaced records without further references come back in @gone. Also sets the conversation's
 * model fingerprint. One transaction. */
int store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        struct store_record *links, size_t n, struct store_gone *gone, struct err *e);
/* Forget the links of blocks from @from_index on (a damaged record, another model). */
int store_unlink_from(
        struct store *s, uint64_t id, uint32_t from_index, struct store_gone *gone, struct err *e);
/* The records of one conversation by rising index (owned, in ret). */
int store_links(struct store *s, uint64_t id, struct store_gone *ret, struct err *e);
/* Every record that exists, for the sweep at start (owned). */
int store_records(struct store *s, struct store_gone *ret, struct err *e);
