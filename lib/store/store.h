/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The register: what must survive (I4). One SQLite file in WAL mode with synchronous=FULL:
 * conversations, turns, tokens, and where the blocks of their memory lie in spill files.
 *
 * 1. Every call that changes something is one transaction: it happened whole when the call returned
 *    0, and not at all otherwise, also after kill -9 or power loss. (One that failed because the
 *    disk failed in the middle of its commit can come back whole if the power goes right then.)
 * 2. Tokens of a conversation are the concatenation of its turns' tokens; turns are [start, end)
 *    without gaps from 0.
 * 3. A conversation is reached by (uid, id) or (uid, name) and by nothing similar (I6).
 * 4. A spill record lives in table `record` exactly while a conversation refers to it. Calls that
 *    take the last reference away report the records that are gone, whose space the caller then
 *    gives back: a crash in between leaves space that nobody refers to, never a reference without
 *    data.
 * 5. The file is readable with the sqlite3 shell: texts are TEXT, roles and reasons are words.
 * 6. Memory reaches another conversation through store_conv_fork() and store_prefix_find() only:
 *    the first within one uid, the second between equal tokens, under one model, within one uid or
 *    below what an administrator published. Private memory goes to forks only.
 *
 * Any thread: calls that write are serialised inside, and so are calls that read; the two do not
 * wait for each other. A call that reads sees one moment of the register. The state diagram of a
 * record and what a stop between any two steps leaves is at the top of store.c.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/sampling.h"

struct store;

#define STORE_N_ROLES 4    /* roles of turns are below */
#define STORE_N_FINISHES 6 /* reasons for the end of a reply are below */
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
        uint32_t n_published; /* tokens from the start whose memory every uid may use; 0: none */
        bool private_memory;  /* came from outside, unaudited: forks inherit it, nobody else */
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
        uint32_t uid;    /* who pays for it: owner of the conversation that was first to write it */
        bool is_private; /* only for conversations of private memory */
        /* Of one conversation's link (store_links, store_prefix_find; else 0): as many tokens from
         * the block's start are this conversation's. Fewer than n_tokens after a rewind or fork
         * into the block: what comes behind may be another history, even where token_hash agrees.
         */
        uint32_t n_valid;
};

/* Opens or makes the file; runs migrations. The folder exists. -ERR_UNSUPPORTED if the file is from
 * a newer confab; -ERR_CORRUPT if it is no database, or one of another program; -ERR_STATE if it is
 * empty and its log is not. Nothing is changed then. */
int store_open(struct store **ret, const char *path, struct err *e);
/* Where there must be a register already: as store_open(), but one that is missing, or has no
 * tables, is -ERR_STATE instead of a new beginning. */
int store_open_existing(struct store **ret, const char *path, struct err *e);
/* For programs that only look while no daemon runs: changes nothing of the content (SQLite may
 * rebuild the index of a log that a crash left, register-shm). -ERR_SYS if there is no file,
 * -ERR_STATE for an older schema version, -ERR_UNSUPPORTED for a newer one: migrating is the
 * daemon's. Calls that write fail. */
int store_open_readonly(struct store **ret, const char *path, struct err *e);
/* Keep other programs from writing from now on (they may read). Calls that write then never wait
 * for another program's lock, but for the moment between two transactions (txn.c). -ERR_BUSY if
 * another one is writing now. */
int store_hold(struct store *s, struct err *e);
/* After something was removed: take it out of the log, and give free pages back, some at a time. 0;
 * 1: call again later (there is more, or a reader is in the way); or an error, likewise. */
int store_scrub(struct store *s, struct err *e);
/* Somebody removed the log while it was in use. Nothing is lost by that, but each commit takes
 * longer until the register is opened again. */
bool store_log_lost(struct store *s);
struct store *store_free(struct store *s);
DEFINE_CLEANUP(struct store *, store_free);

/* Insert @c (id, revision = 1, updated_usec are filled in; created_usec too unless given) with its
 * first turns and tokens (may be 0; a whole imported transcript: texts of any bytes, turns keep the
 * times given). @c's sampling, parent, model, vocab and private_memory are taken over; n_published
 * begins as 0. -ERR_EXISTS if the uid has a conversation of that name; an empty name is replaced by
 * "chat-<id>". */
int store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
/* A copy of the first @n_turns turns (and their tokens) of @parent as @child (name given or empty,
 * the rest is filled in), with the parent's records for these tokens linked. @last: NULL, or what
 * becomes of turn n_turns - 1 in the copy, see store_rewind(). -ERR_NOT_FOUND, -ERR_EXISTS,
 * -ERR_INVALID. */
int store_conv_fork(struct store *s, uint64_t parent, uint32_t n_turns,
        const struct store_turn *last, uint32_t block_tokens, struct store_conv *child,
        struct err *e);
/* By id, or by name when id is 0. uid STORE_UID_ANY: whoever owns it (administrators).
 * -ERR_NOT_FOUND; -ERR_INVALID if several users have one of that name. */
int store_conv_get(struct store *s, uint32_t uid, uint64_t id, const char *name,
        struct store_conv *ret, struct err *e);
/* Up to @max conversations of @uid (or STORE_UID_ANY) with id > @after, rising. *ret_n of them.
 * @disk_sizes: [max], stored_size of all records of each, or NULL. */
int store_conv_list(struct store *s, uint32_t uid, uint64_t after, struct store_conv *out,
        uint64_t *disk_sizes, size_t max, size_t *ret_n, struct err *e);
int store_conv_count(struct store *s, uint32_t uid, uint64_t *ret, struct err *e);
/* Name (NULL: unchanged; -ERR_EXISTS) and sampling defaults (NULL: unchanged). */
int store_conv_update(struct store *s, uint64_t id, const char *name,
        const struct sampling *sampling, struct err *e);
/* Let every uid use the memory of the first @n_tokens tokens (0: of none). Policy (who may) is the
 * caller's. The revision stays. -ERR_INVALID if it has fewer tokens, -ERR_STATE for private memory.
 */
int store_conv_publish(struct store *s, uint64_t id, uint32_t n_tokens, struct err *e);
/* After an audit, or once all foreign memory is gone: false is -ERR_STATE while private records are
 * linked. */
int store_conv_set_private(struct store *s, uint64_t id, bool is_private, struct err *e);

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
 * before the kept end stays); revision + 1; n_published shrinks with it. @last: NULL, or the new
 * form of turn n_turns - 1 for an end inside it: start and role are the old turn's, end is not
 * behind its end, text and finish are new, created_usec 0 keeps the old time. */
int store_rewind(struct store *s, uint64_t id, uint32_t n_turns, const struct store_turn *last,
        uint32_t block_tokens, uint64_t *ret_revision, struct store_gone *gone, struct err *e);

/* What store_rewind() does and then what store_append() does (turns[0].start == the tokens that are
 * kept), as one step: revision + 1, one transaction. */
int store_replace(struct store *s, uint64_t id, uint32_t n_kept, const struct store_turn *last,
        uint32_t block_tokens, const struct store_turn *turns, size_t n_turns,
        const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision, struct store_gone *gone,
        struct err *e);

/* All tokens (@n must be the conversation's n_tokens) / all turns (owned array; texts belong to the
 * array and are freed with store_turns_deinit). -ERR_CORRUPT, naming the turn, if a turn cannot be
 * or its tokens are not those that were written. */
int store_tokens(struct store *s, uint64_t id, int32_t *out, size_t n, struct err *e);
/* How much there is of a conversation: bytes of all texts, links, turns, bytes of all tokens. */
struct store_sizes {
        uint64_t texts_size, n_links, n_turns, tokens_size;
};
int store_sizes(struct store *s, uint64_t id, struct store_sizes *ret, struct err *e);
struct store_turns {
        struct store_turn *turns;
        size_t n;
};
int store_turns(
        struct store *s, uint64_t id, bool with_text, struct store_turns *ret, struct err *e);
void store_turns_deinit(struct store_turns *t);

/* A small number that survives, by name (1 to 64 bytes). The later of two calls wins. */
struct store_meter {
        const char *name;
        int64_t value;
};
int store_meter_get(
        struct store *s, const char *name, int64_t *ret /* 0: never set */, struct err *e);
int store_meter_set(struct store *s, const struct store_meter *meters, size_t n, struct err *e);

/* What writing blocks ends with: for conversation @id, blocks links[i].index now lie in links[i] (a
 * record with id 0 is new: inserted, its id, uid (the conversation's) and is_private (also set if
 * the conversation's memory is private) filled in; else it exists already and is only referred to:
 * -ERR_NOT_FOUND if not, -ERR_INVALID if it is private and the conversation's memory is not).
 * Replaced records without further references come back in @gone. Also sets the conversation's
 * model fingerprint, and @meters. One transaction. */
int store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        struct store_record *links, size_t n, const struct store_meter *meters, size_t n_meters,
        struct store_gone *gone, struct err *e);
/* Forget the links of blocks from @from_index on (a damaged record, another model). */
int store_unlink_from(
        struct store *s, uint64_t id, uint32_t from_index, struct store_gone *gone, struct err *e);
/* The records of one conversation by rising index (owned, in ret). */
int store_links(struct store *s, uint64_t id, struct store_gone *ret, struct err *e);
/* Every record that exists, for the sweep at start (owned). */
int store_records(struct store *s, struct store_gone *ret, struct err *e);

enum { /* what store_read() gives beside the row */
        STORE_READ_TURNS = 1,
        STORE_READ_TEXTS = 2, /* with the turns; else their texts are empty */
        STORE_READ_TOKENS = 4,
        STORE_READ_LINKS = 8,
        STORE_READ_SIZE = 16,
};
/* A conversation, all of one moment. Owned: to be freed with store_reading_deinit(). */
struct store_reading {
        struct store_conv conv;
        struct store_turns turns; /* all whose rows can be read */
        int32_t *tokens;          /* [n_tokens]; NULL if there are none */
        size_t n_tokens;          /* n_sound_tokens if they were asked for */
        struct store_gone links;  /* by rising index */
        uint64_t disk_size;       /* of its records */
        /* The history is believed up to here: all of it, unless it is damaged. (Looked at only if
         * turns or tokens were asked for.) */
        uint32_t n_sound_turns, n_sound_tokens;
        bool damaged;
        struct err damage; /* if so: ERR_CORRUPT, and the turn */
};
void store_reading_deinit(struct store_reading *x);
/* As store_conv_get(), and what more is asked for (STORE_READ_*). A damaged history is no failure;
 * read.c says what is given of one. */
int store_read(struct store *s, uint32_t uid, uint64_t id, const char *name, unsigned what,
        struct store_reading *ret, struct err *e);
/* The same for callers who reserve memory first: @admit is called once, before anything is
 * allocated, with the bytes that the reading takes at most. Its negative result ends it. */
typedef int store_admit_fn(void *arg, size_t n, struct err *e);
int store_read_admitted(struct store *s, uint32_t uid, uint64_t id, const char *name, unsigned what,
        store_admit_fn *admit, void *arg, struct store_reading *ret, struct err *e);

/* Memory of a prefix that some conversation has on disk. */
struct store_prefix {
        struct store_record *records; /* [n], owned: blocks 0..n-1 of class 0, all full */
        size_t n;
        uint64_t donor; /* 0 if n == 0 */
        bool is_public; /* @uid has it through a publication only */
        /* The first so many tokens are equal; the donor, as far as it may be seen, has
         * donor_tokens. Where both are more, it goes on differently. */
        uint32_t n_common, donor_tokens;
};
void store_prefix_deinit(struct store_prefix *p);
/* The longest run of full blocks from 0 whose records a conversation of @uid links, or any one up
 * to its n_published; same model and vocab; never private memory. hashes[i] is
 * hash64_chain_tokens() of block i; they lead to candidates, whose tokens are then compared with
 * tokens[0 .. n_blocks * block_tokens) (I6). What @uid does not pay for is found through its
 * publication. n == 0: none, which costs two index look-ups. The work is limited: in a register
 * made to mislead it a shorter run, or none, is found. */
int store_prefix_find(struct store *s, uint32_t uid, const struct fingerprint *model,
        uint64_t vocab, const int32_t *tokens, const uint64_t *hashes, size_t n_blocks,
        uint32_t block_tokens, struct store_prefix *ret, struct err *e);

/* What store_reclaim() took. */
struct store_cut {
        uint64_t conv;
        uint32_t from_index; /* blocks from here on have no record any more */
};
struct store_reclaimed {
        struct store_gone gone; /* their space is the caller's to give back */
        struct store_cut *cuts; /* [n_cuts], one per conversation */
        size_t n_cuts;
        uint64_t bytes; /* stored_size of gone records that count */
};
void store_reclaimed_deinit(struct store_reclaimed *r);
/* Let records go until at least @bytes of stored_size are free, or no more can: of those that @uid
 * pays for (or STORE_UID_ANY: of all). Least recently updated conversations first, each from its
 * tail; records of one conversation before any that several share or that are published. Nothing
 * that @keep_conv (0: none) links. One transaction. Less than asked for is no error. */
int store_reclaim(struct store *s, uint32_t uid, uint64_t bytes, uint64_t keep_conv,
        struct store_reclaimed *ret, struct err *e);

/* A record turned out to be damaged: take it, and what lies behind it, from all conversations that
 * link it. A record that is gone already is no error. */
int store_forget_record(
        struct store *s, uint64_t record, struct store_reclaimed *ret, struct err *e);

/* A record and one conversation that links it: one that has all its tokens, if there is one. */
struct store_held {
        struct store_record record; /* n_valid of that conversation */
        uint64_t conv;
        struct fingerprint model; /* that conversation's */
};
/* All records by rising id (owned, to be freed). Unlike store_records() it leaves out rows that
 * cannot be and records that nothing links, which store_check() tells of. */
int store_list_held(struct store *s, struct store_held **ret, size_t *ret_n, struct err *e);

/* Every invariant of the register, for fsck. */
enum store_finding_kind {
        STORE_FINDING_FILE,   /* SQLite's own integrity check */
        STORE_FINDING_CONV,   /* a conversation's row, or its sums */
        STORE_FINDING_TURN,   /* turns do not join, or a wrong number of tokens */
        STORE_FINDING_LINK,   /* a link to nothing, or to a record of another block */
        STORE_FINDING_RECORD, /* a row that cannot be, or that nothing links */
        STORE_FINDING_PLACE,  /* two records overlap in one file */
        STORE_FINDING_HASH,   /* a record is of other tokens than its conversation has */
        STORE_FINDING_ACCESS, /* private or published memory where it must not be */
};
struct store_finding {
        enum store_finding_kind kind;
        uint64_t conv, record; /* 0: none in particular */
        const char *text;      /* one sentence, valid during the call */
};
struct store_census {
        uint64_t n_convs, n_turns, n_tokens, n_links, n_records, stored_size, raw_size, n_findings;
};
/* Calls @found (any number of times, under the register's lock: no calls back into it) and fills
 * @ret. Negative only if it could not look. */
int store_check(struct store *s, void (*found)(void *arg, const struct store_finding *f), void *arg,
        struct store_census *ret, struct err *e);
