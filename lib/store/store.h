/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The register: what must survive (I4). One SQLite file in WAL mode with synchronous=FULL:
 * conversations, turns, tokens, and where the blocks of their memory lie in spill files.
 *
 * 1. Every call that changes something is one transaction: it happened completely if the call
 *    returned 0, and not at all otherwise, even after kill -9 or power loss. (Exception: if the
 *    disk failed in the middle of the commit and power is lost right then, the transaction can
 *    reappear.)
 * 2. A conversation's tokens are the concatenation of its turns' tokens; turns are [start, end)
 *    without gaps from 0. Its memory is of these tokens, or of these without one stretch of them
 *    (base/gap.h): cells, links and token hashes count in memory tokens, all else in transcript
 *    tokens. The gap changes only in transactions that change the turns, and links to memory of
 *    other tokens are removed in the same transaction.
 * 3. A conversation is reached by (owner, id) or (owner, name) and by nothing similar (I6).
 * 4. A spill record is in table `record` exactly while a conversation refers to it. Calls that
 *    remove the last reference report the removed records, and the caller then frees their space:
 *    a crash in between leaves unreferenced space, never a reference without data.
 * 5. The file is readable with the sqlite3 shell: texts are TEXT, roles and reasons are words.
 * 6. Memory reaches another conversation only through store_conv_fork(), within one owner, and
 *    store_prefix_find(), between equal tokens under one model, within one owner or within a prefix
 *    that an administrator published. Private memory goes to forks only.
 *
 * The register may also be on a PostgreSQL server that several daemons share: pg-driver.c says what differs. Calls that change a
 * conversation are then -ERR_MOVED if another machine holds it, and any call may be -ERR_UNAVAILABLE: the server can't be
 * reached. A writing call that fails so has changed nothing, unless its message says that nobody knows.
 *
 * Any thread: writing calls are serialised with each other, and so are reading calls; readers and
 * writers do not wait for each other. A reading call sees one moment of the register. store.c
 * begins with a record's state diagram and what a stop between any two steps leaves.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/about.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/figures.h"
#include "base/gap.h"
#include "base/ids.h"
#include "base/owner.h"
#include "base/quota.h"
#include "base/sampling.h"

struct store;

/*
 * Classes of memory, by the numbers of enum seq_class (lib/seq/seq.h): attention over everything,
 * attention over a window or a chunk, states. A record is a cell of one class. Cell i covers memory
 * tokens [i * n, (i + 1) * n), n = store_cell_tokens(); it has the first n_tokens of them. A state has one
 * token: it is the state after token i.
 */
enum { STORE_CLASS_ALL, STORE_CLASS_WINDOW, STORE_CLASS_STATE, STORE_N_CLASSES };
/* What a conversation's memory is made of: what lib/store knows of its model's struct seq_shape. */
struct store_shape {
        uint32_t block_tokens;  /* that a cell of attention covers; 0: nothing was ever linked */
        uint32_t classes;       /* bits 1 << STORE_CLASS_...: those that the model has */
        uint32_t window, chunk; /* of STORE_CLASS_WINDOW, as in struct seq_shape */
};
static inline bool store_has_class(const struct store_shape *shape, uint32_t block_class) {
        return block_class < STORE_N_CLASSES && (shape->classes & 1u << block_class);
}
static inline uint32_t store_cell_tokens(const struct store_shape *shape, uint32_t block_class) {
        return block_class == STORE_CLASS_STATE ? 1 : shape->block_tokens;
}

#define STORE_N_ROLES 5    /* roles of turns are below */
#define STORE_N_FINISHES 6 /* reasons for the end of a reply are below */
#define STORE_NAME_MAX 128 /* bytes of a conversation's name, or a tenant's label, without NUL */

/* What a conversation does when its memory would outgrow the context. */
enum store_overflow { STORE_OVERFLOW_ERROR, STORE_OVERFLOW_SHIFT, STORE_N_OVERFLOWS };
#define STORE_OVERFLOW_KEEP UINT32_MAX /* store_conv_update(): unchanged */

/* Of a register that several daemons share; of a file STORE_LEASE_HELD. */
enum store_lease {
        STORE_LEASE_HELD, /* by this machine */
        STORE_LEASE_FREE, /* nobody holds it, as far as this machine knows: store_lease_prepare() */
        STORE_LEASE_ELSEWHERE /* another machine holds it, or did when it was last seen */
};

struct store_conv {
        uint64_t id; /* from 1, never used again */
        uint64_t owner;
        char tenant[STORE_NAME_MAX +
                    1]; /* the owner's tenant, "" without one; read, never written */
        char name[STORE_NAME_MAX + 1];
        uint64_t parent; /* 0: none; see store_conv_delete() */
        uint32_t fork_pos;
        uint64_t revision; /* from 1 */
        uint32_t n_tokens, n_turns;
        uint64_t created_usec, updated_usec;
        struct fingerprint model; /* the model that made its memory */
        struct store_shape shape; /* of that model's memory, as store_link() was told last */
        uint64_t vocab;           /* hash of the vocabulary its tokens belong to */
        /* Tokens from the start whose memory every owner may use; 0: none. They end before the gap. */
        uint32_t n_published;
        bool private_memory; /* imported, unaudited: only forks inherit it */
        struct gap gap;      /* tokens that its memory leaves out */
        uint32_t overflow;   /* enum store_overflow */
        /* Its memory stays in RAM for longest. Only store_conv_update() sets it: what is made, copied or
         * imported is not pinned. */
        bool pinned;
        struct sampling sampling;
        /* Bytes of the definitions of tools that it was opened with; 0: none. store_tools() reads them. */
        uint32_t tools_size;
        bool unanswered; /* its last turn is the user's, or results; read, never written */
        /* Who may change it, and the number of the machine that holds it (0: none); read, never written, and
         * only of one conversation: store_conv_get(), store_read() and their like. */
        enum store_lease lease;
        uint64_t holder;
        /* For store_conv_create() only, borrowed: these definitions (UTF-8), or NULL. */
        const char *tools;
        /* For store_conv_create() and store_conv_fork() only, borrowed: what is noted, or NULL.
         * store_about() reads it. */
        const struct about *about;
};
/* Tokens that its memory is of. */
static inline uint32_t store_memory_tokens(const struct store_conv *c) {
        return c->n_tokens - gap_size(&c->gap);
}

/* Tokens that were computed for an owner on a day (quota_day()). */
struct store_work {
        uint64_t day, n_tokens;
};

struct store_turn {
        uint32_t role; /* enum chat_role's numbers: 0 system, 1 user, 2 assistant, 3 raw, 4 tool */
        uint32_t start, end;
        uint32_t finish;  /* 0 none, else the protocol's FinishReason numbers */
        const char *text; /* content without template; any bytes (stored as a BLOB if not
                             UTF-8) */
        size_t text_size;
        uint64_t created_usec;
        /* What was given with the message besides its text, or NULL: UTF-8 without NUL. Of the
         * assistant: the reasoning and the calls that the message was given with. Of other roles: the
         * definitions of tools that were told with it, which hold from this turn on. */
        const char *extra;
        size_t extra_size;
        /* How it was made, or NULL. When turns are read: one block, owned; NULL also if it was not asked
         * for. */
        const struct figures *figures;
        uint64_t chain; /* STORE_CHAIN_... below; reading calls do not fill it in */
        /* To be counted for the owner when the turn is stored; NULL: nothing. Borrowed. */
        const struct store_work *work;
};
/*
 * The chain of a turn is a hash of what was said from the beginning to its end, as whoever writes the
 * turn defines it; equal hashes only lead to candidates. Two values are no hashes.
 */
#define STORE_CHAIN_UNKNOWN 0 /* to be made up for: store_chains_missing() */
#define STORE_CHAIN_NEVER 1   /* no list of messages says the same */

/* Where the memory of one cell is stored. */
struct store_record {
        uint64_t id;       /* from 1, never used again */
        uint64_t file_key; /* spill file */
        uint64_t offset;
        uint64_t stored_size, raw_size;
        uint32_t block_class; /* STORE_CLASS_... */
        uint32_t index;       /* of the cell in its class */
        uint32_t n_tokens;    /* valid tokens in it; 1 in a state */
        /* hash64_chain_tokens() of all tokens up to the end of these, block_tokens at a time (the last
         * time perhaps fewer); so of a state, too. */
        uint64_t token_hash;
        uint64_t owner;  /* pays for it: the owner of the conversation that first wrote it */
        bool is_private; /* only for conversations with private memory */
        /* For one conversation's link (store_links, store_prefix_find; else 0): the number of
         * tokens from the cell's start that belong to this conversation. Less than n_tokens after
         * a rewind or fork into the cell: the tokens after these may be another history, even if
         * token_hash agrees. */
        uint32_t n_valid;
        /* For store_link(), else 0: so many tokens at the end are those of a request that has not
         * committed them. n_valid leaves them out, also when they are committed: then the record is
         * to be linked once more. */
        uint32_t n_ahead;
};

/* Open or create the file and run migrations. The folder must exist. -ERR_UNSUPPORTED if the file
 * is from a newer confab; -ERR_CORRUPT if it is no database or another program's; -ERR_STATE if it
 * is empty but its log is not. A failed call changes nothing. */
int store_open(struct store **ret, const char *path, struct err *e);

/* A register on PostgreSQL, which several daemons share (pg-driver.c). */
struct store_server {
        const char *uri; /* as libpq takes it: postgresql://... */
        const char *
                machine; /* identity of this machine, the same after a restart, of no other one: 1 to 64 printable bytes */
        const char *name; /* what people call it: the host's name */
        /* Where programs elsewhere reach it, and programs on this host, which has this identity; NULL: nowhere. */
        const char *address, *socket, *host;
        uint64_t wait_usec; /* how long calls wait for a server that does not answer */
        /* After so long without a sign of life others may take what this machine holds. The same on all. */
        uint64_t lease_usec;
};
/* Connect, make the tables if there are none, and enter this machine. Strings are copied. A thread tells the server from
 * now on that the machine lives. -ERR_UNAVAILABLE: the server can't be reached (waits for it so long), or refuses;
 * -ERR_UNSUPPORTED: a version that is not known. */
int store_open_server(struct store **ret, const struct store_server *o, struct err *e);
/* For programs that only look: connects, and sees that the register can be read. It is machine @o->machine's, if that was ever
 * entered, but does not enter it: a daemon that runs is not disturbed. Writing calls fail. -ERR_STATE: there are no tables yet. */
int store_look_server(struct store **ret, const struct store_server *o, struct err *e);
/* Now, in microseconds since 1970, by the clock that is the same for all who share the register. */
uint64_t store_now_usec(struct store *s);
/* Take a conversation that nobody else holds, or whose holder has given no sign of life for lease_usec. 0: it was held here,
 * and what is known of it is right; 1: it was taken, and nothing here can change it until store_lease_confirm() with *ret_fence. -ERR_MOVED: another
 * machine holds it, and has been asked for it: *ret_holder (may be NULL) is filled; -ERR_NOT_FOUND. Of a file always 0. */
enum { STORE_MACHINE_MAX = 64, STORE_ADDRESS_MAX = 256 };
struct store_holder { /* of a conversation that another machine has */
        char name[STORE_MACHINE_MAX + 1];
        char address[STORE_ADDRESS_MAX + 1]; /* unix:PATH, if it is on this host; or empty */
};
int store_lease_prepare(struct store *s, uint64_t id, uint64_t *ret_fence,
        struct store_holder *ret_holder, struct err *e);
/* Nothing of an earlier lease is in RAM, so it is held here, to be read anew. False: it was lost, or taken once more, meanwhile. No waiting; any thread. */
bool store_lease_confirm(struct store *s, uint64_t id, uint64_t fence);
/* What the other machines say, on a thread of the store: short, and without a call of the store. */
struct store_listener {
        /* Machine @machine wants conversation @id: store_lease_drop() as soon as nobody needs it here. It asks again. */
        void (*wanted)(void *arg, uint64_t id, uint64_t machine);
        /* A conversation that this machine wanted was given up: try store_lease_prepare() once more. */
        void (*given)(void *arg);
        /* Overrides of limits may be other ones (store_overrides()): another machine has changed them, or has perhaps. */
        void (*limits)(void *arg);
        void *arg;
};
/* From now on; NULL: no more (no call is under way when this returns). Of a file nothing is ever said. */
void store_listen(struct store *s, const struct store_listener *listener);
/* Give up a conversation, between two turns, also one of which nobody knows what became of the last transaction. @machine: who wants
 * it is told; 0: nobody. It has to be taken before it is changed again. -ERR_MOVED: another machine holds it. */
int store_lease_drop(struct store *s, uint64_t id, uint64_t machine, struct err *e);
/* Give up all that this machine holds, so that others need not ask for it. What is used here afterwards is taken anew. 0 without
 * other machines. */
int store_leases_release(struct store *s, struct err *e);
/* Records of this machine that another one has removed the last link of: to be freed by the caller. Of a file none. */
struct store_gone;
int store_loose(struct store *s, struct store_gone *gone, struct err *e);
/* As store_open(), for a register that must exist already: one that is missing or has no tables is
 * -ERR_STATE instead of being created. */
int store_open_existing(struct store **ret, const char *path, struct err *e);
/* For programs that only look while no daemon runs: changes nothing in the folder, even after a
 * crash left a log (its index is made in memory). -ERR_SYS if there is no file, -ERR_STATE for an
 * older schema version, -ERR_UNSUPPORTED for a newer one: only the daemon migrates. Writing calls
 * fail. */
int store_open_readonly(struct store **ret, const char *path, struct err *e);
/* Keep other programs from writing from now on (they may read). Writing calls then never wait for
 * another program's lock, except in the moment between two transactions (txn.c). -ERR_BUSY if
 * another program is writing now. */
int store_hold(struct store *s, struct err *e);
/* After content was removed: erase it from the log, and return some free pages to the file system.
 * 0; 1: call again later (there are more, or a reader is in the way); on error, likewise. */
int store_scrub(struct store *s, struct err *e);
/* Whether the log was removed while it was in use. That loses nothing, but each commit takes longer
 * until the register is opened again. */
bool store_log_lost(struct store *s);
/* The schema version that the register had before it was opened, if that was an older one; else 0. *ret_now is the one
 * that it has now. */
unsigned store_migrated_from(const struct store *s, unsigned *ret_now);
/* Bytes that the register takes, on the disk or on the server. -ERR_SYS. */
int store_size(struct store *s, uint64_t *ret, struct err *e);
struct store *store_free(struct store *s);
DEFINE_CLEANUP(struct store *, store_free);

/*
 * A copy of the register of one moment, made in slices while others read and write (backup.c). One thread at a time.
 */
struct store_backup;
/* Begin a copy into the new file @path, 0600. The moment is now. -ERR_SYS, -ERR_NOMEM, ... */
int store_backup_new(struct store_backup **ret, struct store *s, const char *path, struct err *e);
/* Copy at most @n pages. 1: there are more; 0: all are copied. */
int store_backup_step(struct store_backup *b, unsigned n, struct err *e);
/* After the last step: make the copy a file that stands alone. Unless @with_records links and records are left out: it has the
 * conversations, and no memory. *ret_n_convs: conversations that it has. */
int store_backup_finish(
        struct store_backup *b, bool with_records, uint64_t *ret_n_convs, struct err *e);
/* Once a copy was opened as a register (store_open_existing()) and freed: let it stand alone again. */
int store_backup_seal(const char *path, struct err *e);
/* The files stay. Returns NULL. */
struct store_backup *store_backup_free(struct store_backup *b);
DEFINE_CLEANUP(struct store_backup *, store_backup_free);

/* Insert @c (id, revision = 1 and updated_usec are filled in; created_usec too unless given) with
 * its first turns and tokens (may be 0; or a whole imported transcript: texts of any bytes, turns
 * keep the times given). @c's sampling, parent, model, vocab, private_memory, gap and overflow are
 * stored, its tools and what is noted about it; n_published starts at 0, and it is not pinned.
 * -ERR_EXISTS if the owner has a conversation of that name; an empty name is replaced by "chat-<id>". */
int store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
/* Copy the first @n_turns turns (and their tokens) of @parent to @child (name given or empty, the
 * rest is filled in), and link the parent's records for these tokens: cells of attention that begin
 * before the end, states that end there or before. @last: NULL, or the new form of turn n_turns - 1 in
 * the copy, see store_rewind(). @gap: of the child, see store_rewind(). The child has the parent's title,
 * tags and metadata, except for fields that child->about sets; its session and expiry are of child->about
 * alone.
 * -ERR_NOT_FOUND, -ERR_EXISTS, -ERR_INVALID. */
int store_conv_fork(struct store *s, uint64_t parent, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, struct store_conv *child,
        struct err *e);
/* The number of @uid's tenant of this label (1 to STORE_NAME_MAX bytes of UTF-8). If there is none, it is made;
 * with @max == 0, -ERR_NOT_FOUND. -ERR_LIMIT: the uid has @max tenants already. -ERR_INVALID. */
int store_tenant(struct store *s, uint32_t uid, const char *label, uint64_t max, uint32_t *ret,
        struct err *e);
/* The label of the owner's tenant: "" without one; "#" and the number if the register has forgotten it. */
int store_tenant_label(
        struct store *s, uint64_t owner, char ret[STORE_NAME_MAX + 1], struct err *e);
/* Forget the tenants without a conversation. Before anybody acts for a tenant: a number that somebody holds
 * must stay known. */
int store_tenants_forget(struct store *s, struct err *e);
/* The same of one user's, or (number not 0) of this one; not those in keep[0 .. n_keep). Whoever holds the number of a tenant
 * that was forgotten can't make a conversation for it any more (-ERR_NOT_FOUND). */
int store_tenants_forget_of(struct store *s, uint32_t uid, uint32_t number, const uint32_t *keep,
        size_t n_keep, struct err *e);

/* --- who has what (owners.c). Each call looks at few rows, so a walk through all owners holds nobody up. --- */

/* *ret: the least owner from @from on that has a conversation. 1; 0: there is none. */
int store_owner_next(struct store *s, uint64_t from, uint64_t *ret, struct err *e);
/* Conversations of @owner behind @after by rising id: at most @max; sets *ret_n. */
struct store_owned {
        uint64_t id, updated_usec;
        uint32_t n_tokens;
};
int store_owned(struct store *s, uint64_t owner, uint64_t after, struct store_owned *out,
        size_t max, size_t *ret_n, struct err *e);
/* *ret: the highest id below @before of a conversation that has memory on this machine's disk. 1; 0: there is none. */
int store_on_disk_before(struct store *s, uint64_t before, uint64_t *ret, struct err *e);
/* The highest id that a conversation ever had; 0: there was none. */
int store_last_id(struct store *s, uint64_t *ret, struct err *e);

/* --- limits, and what they limit (quota.c) --- */

/* What an owner has, as the register knows. */
struct store_usage {
        uint64_t n_conversations, n_tokens; /* of their transcripts */
        uint64_t day, day_tokens; /* tokens that were computed for the owner on this day */
};
/* One look-up, however much there is; all 0 if nothing is known of the owner. */
int store_usage(struct store *s, uint64_t owner, struct store_usage *ret, struct err *e);
/* Count work by itself, which otherwise is counted with a turn. One transaction. */
int store_work(struct store *s, uint64_t owner, const struct store_work *work, struct err *e);
/* At the start: forget what owners without conversations have computed on other days than @day, and if the numbers
 * are not those of the conversations (a damaged file), count anew. */
int store_usage_tidy(struct store *s, uint64_t day, struct err *e);
#define STORE_MAX_OVERRIDES 65536
/* All overrides: an owned array, one block together with the labels. */
int store_overrides(struct store *s, struct quota_override **ret, size_t *ret_n, struct err *e);
/* A change of one limit of @subject. */
struct store_override_change {
        enum quota quota;
        bool clear;     /* no override any more */
        uint64_t value; /* QUOTA_NONE: no limit */
};
/* Make all of them, or none: -ERR_INVALID (a label that a tenant cannot have), -ERR_LIMIT (STORE_MAX_OVERRIDES). One
 * transaction. */
int store_overrides_change(struct store *s, const struct quota_subject *subject,
        const struct store_override_change *changes, size_t n, struct err *e);

/* Get a conversation by id, or by name if id is 0. owner OWNER_ANY: any owner (administrators).
 * -ERR_NOT_FOUND; -ERR_INVALID if several users have a conversation of that name. */
int store_conv_get(struct store *s, uint64_t owner, uint64_t id, const char *name,
        struct store_conv *ret, struct err *e);
/* A page of conversations. Its cost does not depend on how many there are. */
struct store_list_place {      /* of a conversation in an order */
        uint64_t updated_usec; /* by time of change only */
        uint64_t id;
};
struct store_list {
        uint64_t owner; /* or OWNER_ANY */
        bool by_update; /* latest change first; false: oldest id first */
        bool goes_on;   /* behind @after; false: from the beginning */
        struct store_list_place after;
        const char *tag; /* only those with this tag; NULL: all */
        /* Only those that have all of these words, or words that begin with them, in one turn, or in what
         * they are called; NULL: all. Of one owner and by time of change. Text without words finds
         * nothing. -ERR_INVALID; -ERR_TOO_LARGE: far too much was found. */
        const char *search;
};
#define STORE_SEARCH_MAX 1024 /* bytes */
/* Where the words were found. */
struct store_hit {
        bool is;       /* in lists with `search` */
        bool in_turn;  /* else in name, title or tags */
        uint32_t turn; /* the newest one that has them */
        char *snippet; /* the text around the first of them, store_snippet_size() bytes, owned */
};
size_t store_snippet_size(void);
struct store_listed {
        struct store_conv conv;
        uint64_t disk_size;  /* the stored_size of its records together */
        struct about *about; /* one block, owned; NULL: nothing is noted */
        struct store_hit hit;
};
/* Fill @out, [max], and set *ret_n; *ret_more: there are more behind these. A conversation that changes
 * between two pages by time of change is listed again at the front; all others are listed once. @admit is
 * asked for the bytes of each block before it is allocated. If it refuses one with -ERR_LIMIT or
 * -ERR_TOO_LARGE, the page ends before it, unless that is its first. What is noted but cannot be read is
 * left out. After a failure the blocks in @out are to be freed as well. */
typedef int store_admit_fn(void *arg, size_t n, struct err *e);
int store_list(struct store *s, const struct store_list *list, store_admit_fn *admit, void *arg,
        struct store_listed *out, size_t max, size_t *ret_n, bool *ret_more, struct err *e);
int store_conv_count(struct store *s, uint64_t owner, uint64_t *ret, struct err *e);
/* Set the name (NULL: unchanged; -ERR_EXISTS), sampling defaults (NULL: unchanged), the overflow
 * (STORE_OVERFLOW_KEEP: unchanged), whether its memory is pinned (NULL: unchanged; the caller decides who
 * may pin) and what is noted (fields that are not set, or NULL: unchanged). The revision stays. */
int store_conv_update(struct store *s, uint64_t id, const char *name,
        const struct sampling *sampling, uint32_t overflow, const bool *pinned,
        const struct about *about, struct err *e);
/* Let every owner use the memory of the first @n_tokens tokens (0: of none). The caller decides who
 * may do this. The revision stays. -ERR_INVALID if the conversation has fewer tokens, -ERR_STATE if
 * its memory is private, or leaves out some of these tokens. */
int store_conv_publish(struct store *s, uint64_t id, uint32_t n_tokens, struct err *e);
/* Set or clear private_memory: cleared after an audit, or once all foreign memory is gone. Clearing
 * is -ERR_STATE while private records are linked. */
int store_conv_set_private(struct store *s, uint64_t id, bool is_private, struct err *e);

/* Records that lost their last reference: an owned array to be freed. */
struct store_gone {
        struct store_record *records;
        size_t n;
};
void store_gone_deinit(struct store_gone *g);

/* What was forked from it has its parent as parent then; one without a parent leaves its id there. */
int store_conv_delete(struct store *s, uint64_t id, struct store_gone *gone, struct err *e);
/* A throw-away conversation: one with expires_after. */
struct store_throwaway {
        uint64_t id, owner;
        uint32_t expires_after; /* seconds */
        uint64_t due_usec;      /* realtime: so long after its last change */
};
/* Throw-away conversations by the time when they are due: behind @after (by due_usec and id) up to @max
 * of them. */
int store_throwaways(struct store *s, const struct store_throwaway *after,
        struct store_throwaway *out, size_t max, size_t *ret_n, struct err *e);
/* Of each owner that has more than @most of them, all but the @most that were changed last; by id,
 * behind @after's. */
int store_throwaways_beyond(struct store *s, uint32_t most, const struct store_throwaway *after,
        struct store_throwaway *out, size_t max, size_t *ret_n, struct err *e);
/* store_conv_delete() if the conversation is a throw-away one that is due at @now_usec (UINT64_MAX: that
 * it is one is enough); else -ERR_STATE. */
int store_conv_expire(
        struct store *s, uint64_t id, uint64_t now_usec, struct store_gone *gone, struct err *e);
/* One acknowledged step: append turns and tokens (turns[0].start must equal n_tokens, checked),
 * increment the revision and return it. */
int store_append(struct store *s, uint64_t id, const struct store_turn *turns, size_t n_turns,
        const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision, struct err *e);
/* Keep the first @n_turns turns and remove later tokens and records (a cell of attention that begins
 * before the new end stays, and a state that ends there or before); revision + 1; n_published shrinks
 * to the new end. @last: NULL, or the new form of turn n_turns - 1 to end inside it: start and role as
 * before, end not after the old end, text and finish new, created_usec 0 keeps the old time. @gap: what the memory of the kept
 * turns leaves out, from now on; NULL: what it left out before, as far as it is kept. Links to
 * memory of other tokens than before are removed. */
int store_rewind(struct store *s, uint64_t id, uint32_t n_turns, const struct store_turn *last,
        const struct gap *gap, uint64_t *ret_revision, struct store_gone *gone, struct err *e);

/* store_rewind() followed by store_append() (turns[0].start == the number of tokens kept) as one
 * step: revision + 1, one transaction. */
int store_replace(struct store *s, uint64_t id, uint32_t n_kept, const struct store_turn *last,
        const struct gap *gap, const struct store_turn *turns, size_t n_turns,
        const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision, struct store_gone *gone,
        struct err *e);

/* Carry the conversation over to another vocabulary: its turns get other tokens; their roles, texts,
 * reasons and times stay. The links to memory are removed, since it is of other tokens. Logit biases
 * are dropped, since they name tokens of the old vocabulary. private_memory ends. revision + 1. One
 * transaction. -ERR_INVALID if the conversation has not just so many turns; -ERR_CORRUPT. */
struct store_carried {
        struct fingerprint model; /* of the memory to come */
        uint64_t vocab;
        const uint32_t *ends;   /* [n_turns], in the new tokens */
        const uint64_t *chains; /* [n_turns], or NULL: unknown */
        size_t n_turns;
        const int32_t *tokens; /* [n_tokens] */
        size_t n_tokens;
        struct gap gap;
        uint32_t fork_pos, n_published; /* in the new tokens */
};
int store_carry(struct store *s, uint64_t id, const struct store_carried *x, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e);

/* All tokens (@n must be the conversation's n_tokens). -ERR_CORRUPT, naming the turn, if a turn is
 * impossible or its tokens are not those that were written. store_turns() fails likewise. */
int store_tokens(struct store *s, uint64_t id, int32_t *out, size_t n, struct err *e);
/* The definitions of tools that hold behind the first @n_turns turns: those told with the last turn
 * that told any, or those that the conversation was opened with. Owned and NUL-terminated; NULL: none.
 * @admit is asked before they are copied; NULL: none is asked. */
int store_tools(struct store *s, uint64_t id, uint32_t n_turns, store_admit_fn *admit, void *arg,
        char **ret, size_t *ret_size, struct err *e);
/* What is noted about a conversation: one block, owned; NULL: nothing. @admit is asked with its size
 * before it is allocated; NULL: none is asked. -ERR_NOT_FOUND; -ERR_CORRUPT. */
int store_about(struct store *s, uint64_t id, store_admit_fn *admit, void *arg, struct about **ret,
        struct err *e);
/* The text of turn @n, or (@extra) what was given besides, likewise. -ERR_NOT_FOUND without the turn. */
int store_turn_part(struct store *s, uint64_t id, uint32_t n, bool extra, store_admit_fn *admit,
        void *arg, char **ret, size_t *ret_size, struct err *e);
/* How the reply of turn @n was made, but for the model's name; all 0 if that is not known. */
int store_figures(struct store *s, uint64_t id, uint32_t n, struct figures *ret, struct err *e);
/* The size of a conversation: bytes of all texts (with what was given besides, and the definitions it
 * was opened with), links, turns, bytes of all tokens. */
struct store_sizes {
        uint64_t texts_size, n_links, n_turns, tokens_size;
};
int store_sizes(struct store *s, uint64_t id, struct store_sizes *ret, struct err *e);
struct store_turns {
        struct store_turn *turns;
        size_t n;
};
/* All turns: an owned array, with its texts to be freed with store_turns_deinit(). */
int store_turns(
        struct store *s, uint64_t id, bool with_text, struct store_turns *ret, struct err *e);
void store_turns_deinit(struct store_turns *t);

/* --- what was said (chain.c) --- */

/* The chain of the first @n_turns turns, at least one; STORE_CHAIN_UNKNOWN also without such a turn. */
int store_chain(struct store *s, uint64_t id, uint32_t n_turns, uint64_t *ret, struct err *e);
/* Conversations with an unknown chain and an id > @after, by rising id: at most @max; sets *ret_n. */
int store_chains_missing(
        struct store *s, uint64_t after, uint64_t *out, size_t max, size_t *ret_n, struct err *e);
/* Set the chains of turns that exist; others are passed over. The revision stays. One transaction. */
struct store_chain_of {
        uint64_t conv;
        uint32_t turn;
        uint64_t chain;
};
int store_chains_set(struct store *s, const struct store_chain_of *chains, size_t n, struct err *e);
/* *ret: the greatest k <= @n with a turn of chain chains[k - 1], in conversation @id, or (0) in any; 0: none.
 * @chains must be such that a conversation with one of them has a turn with each one before it: then 2 log n
 * look-ups at most, 2 if only the last one is not there, find the greatest. (Else a smaller k is found.) */
int store_chain_longest(
        struct store *s, uint64_t id, const uint64_t *chains, size_t n, size_t *ret, struct err *e);
/* *ret: so many turns of conversation @id have this chain, of several such numbers the least; 0: none. */
int store_chain_turns(struct store *s, uint64_t id, uint64_t chain, uint32_t *ret, struct err *e);
/* A conversation whose first n_turns turns have a chain; of several such places the first one. */
struct store_candidate {
        uint64_t conv;
        uint32_t n_turns;
        bool session;   /* it is of the session that was asked for */
        bool own_vocab; /* its tokens are of the wanted vocabulary */
        bool ends;      /* it has no later turns */
        uint64_t updated_usec;
};
/* The conversations of @owner with this chain: those of @session (or NULL) first, then those of the
 * vocabulary @vocab, then those that end there, then by the latest change. At most @max; sets *ret_n. No
 * more than STORE_CANDIDATES_SEEN of the session and as many others are looked at, those with the
 * highest ids, so the cost has a bound. */
#define STORE_CANDIDATES_SEEN 64
int store_chain_candidates(struct store *s, uint64_t owner, uint64_t vocab, const char *session,
        uint64_t chain, struct store_candidate *out, size_t max, size_t *ret_n, struct err *e);

/* A small persistent number, by name (1 to 64 bytes). The later of two calls wins. */
struct store_meter {
        const char *name;
        int64_t value;
};
int store_meter_get(
        struct store *s, const char *name, int64_t *ret /* 0: never set */, struct err *e);
int store_meter_set(struct store *s, const struct store_meter *meters, size_t n, struct err *e);

/* The last step of writing cells: link cell links[i].index of class links[i].block_class of
 * conversation @id to record links[i]. A record with id 0 is new and is inserted; its id, owner (the
 * conversation's) and is_private (also set if the conversation's memory is private) are filled in. A
 * record with an id must exist and is only linked: -ERR_NOT_FOUND if it does not, -ERR_INVALID if it is
 * private and the conversation's memory is not. -ERR_INVALID also for a cell that @shape does not
 * have. Replaced records without further references are returned in @gone. Also sets the
 * conversation's model fingerprint, shape and @meters. (Links of another model or shape must be gone
 * before.) One transaction. */
int store_link(struct store *s, uint64_t id, const struct fingerprint *model,
        const struct store_shape *shape, struct store_record *links, size_t n,
        const struct store_meter *meters, size_t n_meters, struct store_gone *gone, struct err *e);
/* Remove the links of all cells that cover tokens from memory token @pos on (a damaged record, another
 * model). */
int store_unlink_from(
        struct store *s, uint64_t id, uint32_t pos, struct store_gone *gone, struct err *e);
struct store_cell {
        uint32_t block_class, index;
};
/* Remove the links of these cells, as far as there are any: of what the conversation has no use for any
 * more. One transaction. */
int store_unlink_cells(struct store *s, uint64_t id, const struct store_cell *cells, size_t n,
        struct store_gone *gone, struct err *e);
/* The records of one conversation by class, then by rising index; *ret is owned by the caller. */
int store_links(struct store *s, uint64_t id, struct store_gone *ret, struct err *e);
/* Every record that exists, for the sweep at startup; *ret is owned by the caller. */
int store_records(struct store *s, struct store_gone *ret, struct err *e);

enum { /* what store_read() returns in addition to the row */
        STORE_READ_TURNS = 1,
        STORE_READ_TEXTS = 2, /* with the turns; else their texts are empty */
        STORE_READ_TOKENS = 4,
        STORE_READ_LINKS = 8,
        STORE_READ_SIZE = 16,
        STORE_READ_TOOLS = 32,   /* the definitions that hold at the end */
        STORE_READ_FIGURES = 64, /* with the turns: how they were made */
        STORE_READ_RUN =
                128, /* of a page, with the turns: the tokens that its replies are read from */
};
/* A conversation as of one moment. To be freed with store_reading_deinit(). */
struct store_reading {
        struct store_conv conv;
        struct store_turns turns; /* all turns whose rows can be read */
        /* Of a page: turns [page_first, page_past) have texts, as far as they can be read; turns.turns[0] is
         * turn turns_first. Without a page: 0, all turns, 0. */
        uint32_t page_first, page_past, turns_first;
        int32_t *
                tokens; /* [n_tokens]; NULL if there are none. With STORE_READ_RUN: from turns.turns[0] on */
        size_t n_tokens;         /* n_sound_tokens if all tokens were asked for */
        struct store_gone links; /* by class, then by rising index */
        uint64_t disk_size;      /* of its records */
        /* NUL-terminated; NULL: none, or not asked for. Those that hold at the end, and those that hold before
         * the page (without one: those that the conversation was opened with). */
        char *tools, *first_tools;
        size_t tools_size, first_tools_size;
        /* How much of the history is sound: all of it, unless it is damaged. (Checked only if turns
         * or tokens were asked for.) */
        uint32_t n_sound_turns, n_sound_tokens;
        bool damaged;
        struct err damage; /* if damaged: ERR_CORRUPT, naming the turn */
};
void store_reading_deinit(struct store_reading *x);
/* As store_conv_get(), plus the parts in @what (STORE_READ_*). A damaged history is no failure;
 * read.c says which parts of it are returned. */
int store_read(struct store *s, uint64_t owner, uint64_t id, const char *name, unsigned what,
        struct store_reading *ret, struct err *e);
/* Turns [first, past) of a conversation, told from either end. */
struct store_turn_page {
        uint32_t max;    /* turns at most; 0: any number */
        uint32_t from;   /* from this turn on; STORE_TURN_UNSET: the last ones before `before` */
        uint32_t before; /* none from this turn on; STORE_TURN_UNSET: to the end */
};
#define STORE_TURN_UNSET UINT32_MAX
/* The same for callers that reserve memory first: before anything is allocated, @admit is called
 * once with an upper bound of the bytes needed. If it returns an error, the call returns that. */
int store_read_admitted(struct store *s, uint64_t owner, uint64_t id, const char *name,
        unsigned what, store_admit_fn *admit, void *arg, struct store_reading *ret, struct err *e);
/* The same with the texts, figures and definitions of the turns of @page only. Which other rows are read,
 * without texts:
 *   - with STORE_READ_TOKENS all of them;
 *   - with STORE_READ_RUN those that tell how the replies of the page are read: if it begins with a turn of the
 *     assistant, those of the assistant right before it and the one before these; and the one behind the page;
 *   - else none.
 * `turns` begins with the first row that is read, and only what is read is known to be sound. -ERR_INVALID: @page
 * names turns that the conversation does not have. */
int store_read_page(struct store *s, uint64_t owner, uint64_t id, const char *name, unsigned what,
        const struct store_turn_page *page, store_admit_fn *admit, void *arg,
        struct store_reading *ret, struct err *e);
/* As store_read_admitted() with turns, texts and tokens, but only of the first @n_turns turns; first_tools
 * are the definitions that the conversation was opened with. */
int store_read_head(struct store *s, uint64_t owner, uint64_t id, uint32_t n_turns,
        store_admit_fn *admit, void *arg, struct store_reading *ret, struct err *e);

enum { STORE_SECRET_SIZE = 32 };
/* The secret of @owner, drawn with the first call: the same for all who share the register, and no other owner's. Any thread. */
int store_secret(struct store *s, uint64_t owner, uint8_t ret[STORE_SECRET_SIZE], struct err *e);
/* 1 if some conversation links memory that @owner pays for, is not private, and is that of @cell (class, index, n_tokens,
 * token_hash), on any machine; else 0. */
int store_has_memory(
        struct store *s, uint64_t owner, const struct store_record *cell, struct err *e);

/* Memory of a prefix that some conversation has on disk. */
struct store_prefix {
        /* By class, owned, [n] each; NULL without such a class. records[c][i] is cell i of attention, or
         * the state after the last token of that cell; it is full, or has id 0 if the donor has none. */
        struct store_record *records[STORE_N_CLASSES];
        size_t n;       /* position n * block_tokens is whole with these records (lib/seq/seq.h) */
        uint64_t donor; /* 0 if n == 0 */
        bool is_public; /* @owner may use it only because it is published */
        /* Of the candidate that has most in common, whether it has memory of it or not: the first n_common
         * tokens are equal, and donor_tokens is its length as far as @owner may see it. If it and the wanted
         * prefix are both longer than n_common, they differ after n_common. */
        uint32_t n_common, donor_tokens;
};
void store_prefix_deinit(struct store_prefix *p);
/* Find the longest prefix of full blocks that is whole with the records of one conversation of @owner, or
 * of any user up to its n_published; same model and vocab; never private memory. @shape is the
 * model's. hashes[i] is hash64_chain_tokens() of block i. The hashes lead to candidates, whose tokens are
 * compared with tokens[0 .. n_blocks * block_tokens) (I6). Records that @owner does not pay for are found
 * through their publication. n == 0: none found, which costs two index look-ups, or one for each block
 * if the model has no STORE_CLASS_ALL. The work is bounded: in a register made to mislead the search, it
 * finds a shorter prefix or none. */
int store_prefix_find(struct store *s, uint64_t owner, const struct fingerprint *model,
        uint64_t vocab, const struct store_shape *shape, const int32_t *tokens,
        const uint64_t *hashes, size_t n_blocks, struct store_prefix *ret, struct err *e);

/* What a conversation lost: cells of one class whose links were removed. */
struct store_cut {
        uint64_t conv;
        uint32_t block_class;
        uint32_t from, to; /* cells [from, to); to is UINT32_MAX if it lost all from there on */
};
/* What store_reclaim() removed. */
struct store_reclaimed {
        struct store_gone gone; /* the caller frees their space */
        struct store_cut *cuts; /* [n_cuts], by conversation, class and index; none overlap */
        size_t n_cuts;
        uint64_t bytes; /* stored_size of the removed records that count towards @bytes */
};
void store_reclaimed_deinit(struct store_reclaimed *r);
/* Remove records until at least @bytes of stored_size are free, or no more can be: counting records
 * that @owner pays for (OWNER_ANY: all). Least recently updated conversations first; of each
 * what it can do without, then from its tail, until what is left is of use again (reclaim.c has the
 * order). Records of one conversation go before shared or published ones. Records that @keep_conv
 * (0: none) links stay. One transaction. Freeing less than @bytes is no error. */
int store_reclaim(struct store *s, uint64_t owner, uint64_t bytes, uint64_t keep_conv,
        struct store_reclaimed *ret, struct err *e);

/* A record turned out to be damaged: unlink it in every conversation that links it, and of
 * STORE_CLASS_ALL all cells that cover tokens from its start on. (A conversation without a state or
 * a cell of a window still has the positions that do not need it.) A record that is gone already is no
 * error. */
int store_forget_record(
        struct store *s, uint64_t record, struct store_reclaimed *ret, struct err *e);

/* A record and one conversation that links it, preferably one that has all its tokens. */
struct store_held {
        struct store_record record; /* with that conversation's n_valid */
        uint64_t conv;
        struct fingerprint model; /* that conversation's */
};
/* All records by rising id (owned, to be freed). Unlike store_records() this omits impossible rows
 * and records that nothing links; store_check() reports those. */
int store_list_held(struct store *s, struct store_held **ret, size_t *ret_n, struct err *e);

/* What store_check() looks for, for fsck: every invariant of the register. */
enum store_finding_kind {
        STORE_FINDING_FILE,   /* SQLite's own integrity check */
        STORE_FINDING_CONV,   /* a conversation's row, or its sums */
        STORE_FINDING_TURN,   /* turns do not join, or a wrong number of tokens */
        STORE_FINDING_LINK,   /* a link to nothing, to a record of another cell, or of no cell */
        STORE_FINDING_RECORD, /* an impossible row, or one that nothing links */
        STORE_FINDING_PLACE,  /* two records overlap in one file */
        STORE_FINDING_HASH,   /* a record's tokens are not those of its conversation */
        STORE_FINDING_ACCESS, /* private or published memory where it must not be */
};
/* In one word, for people: "turn". Static. */
const char *store_finding_name(enum store_finding_kind kind);
struct store_finding {
        enum store_finding_kind kind;
        uint64_t conv, record; /* 0: none in particular */
        const char *text;      /* one sentence, valid during the call */
};
struct store_census {
        uint64_t n_convs, n_turns, n_tokens, n_links, n_records, stored_size, raw_size, n_findings;
};
/* Check the whole register as it is at one moment, whoever writes meanwhile: call @found for each finding (under a lock
 * of the register, so @found must not call back into it) and fill @ret. Negative only if the check itself failed. */
int store_check(struct store *s, void (*found)(void *arg, const struct store_finding *f), void *arg,
        struct store_census *ret, struct err *e);

/* The same in slices, while a daemon writes (check-slices.c has the rules), and the records for whoever reads what they
 * refer to. One thread at a time, any one; not under a lock of the register. */
struct store_checker;
struct store_check_options {
        void (*found)(void *arg, const struct store_finding *f); /* or NULL */
        void *arg;
        /* Called before the tokens of a conversation are read, with the bytes that these take until the next call, in place
         * of those of the call before; NULL: they may always. */
        store_admit_fn *admit;
        void *admit_arg;
        /* Called often: true ends the slice that is going on. On the thread that checks; may be NULL. */
        bool (*stop)(void *arg);
        void *stop_arg;
};
/* Bytes that a checker takes beside what it asks admit() for: SQLite's cache of pages, which is small here, and statements. */
enum { STORE_CHECKER_SIZE = 512 << 10 };
/* @s outlives it. -ERR_NOMEM, -ERR_SYS, -ERR_CORRUPT. */
int store_checker_new(struct store_checker **ret, struct store *s,
        const struct store_check_options *o, struct err *e);
struct store_checker *store_checker_free(struct store_checker *c);
DEFINE_CLEANUP(struct store_checker *, store_checker_free);
/* One slice. 1: there are more; 0: the register is checked; -ERR_CANCELLED (stop()), what admit() fails with, or as
 * store_check(). */
int store_checker_step(struct store_checker *c, struct err *e);
/* What was found so far (stored_size and raw_size count the records), and the bytes that were read of the file for it. */
void store_checker_tell(
        const struct store_checker *c, struct store_census *ret, uint64_t *ret_read_size);
/* When the register is checked: how many records there are now, and their bytes on disk. */
int store_checker_total(
        struct store_checker *c, uint64_t *ret_n, uint64_t *ret_size, struct err *e);
/* The next @max records, by rising id, or fewer: impossible rows, and records that nothing links, are left out (the slices
 * have told them). *ret_more: there may be more. The moment is that of the call. */
int store_checker_records(struct store_checker *c, struct store_held *out, size_t max,
        size_t *ret_n, bool *ret_more, struct err *e);
/* 1: the register has this record now; 0: it has gone, for good. */
int store_checker_has(struct store_checker *c, uint64_t record, struct err *e);
