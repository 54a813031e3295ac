/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to lib/store: statements, transactions, and checked access to columns.
 *
 * The pattern of every call:
 *
 *     STORE_LOCK(s);                                      until the scope's end
 *     _cleanup_(txn_endp) struct store *txn = NULL;      calls that write: BEGIN IMMEDIATE
 *     r = txn_begin(s, &txn, e);
 *     ... queries ...
 *     r = txn_commit(&txn, e);                           without it the scope's end rolls back
 *
 * and of calls that read:
 *
 *     _cleanup_(read_endp) struct store *reading = NULL;
 *     r = read_begin(&s, &reading, e);                   s is the reading connection from here on
 *
 * A query lives in the scope of a function of its own, so that no statement is active at COMMIT.
 * Values from the file are not trusted: the query_* getters note a value of the wrong type or range
 * in the query, and query_check() turns that note into ERR_CORRUPT.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "base/hash.h"
#include "store/store.h"
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/types.h>

enum store_stmt {
        STMT_BEGIN,
        STMT_COMMIT,
        STMT_ROLLBACK,
        STMT_READ_BEGIN,
        STMT_AUTO_VACUUM,
        STMT_FREE_PAGES,
        STMT_PAGE_SIZE,
        STMT_VACUUM_SOME,
        STMT_CONV_NEXT_ID,
        STMT_CONV_LAST_ID,
        STMT_CONV_NAME_TAKEN,
        STMT_CONV_INSERT,
        STMT_CONV_BY_ID,
        STMT_CONV_BY_NAME,
        STMT_CONV_BY_NAME_ANY,
        STMT_CONV_LIST,
        STMT_CONV_LIST_ANY,
        STMT_LIST_ID_TAG,
        STMT_LIST_ID_TAG_ANY,
        STMT_LIST_UPDATED,
        STMT_LIST_UPDATED_ANY,
        STMT_LIST_UPDATED_TAG,
        STMT_LIST_UPDATED_TAG_ANY,
        STMT_CONV_COUNT,
        STMT_CONV_COUNT_ANY,
        STMT_CONV_SET_NAME,
        STMT_CONV_SET_SAMPLING,
        STMT_CONV_SET_OVERFLOW,
        STMT_CONV_SET_PINNED,
        STMT_CONV_SHAPE,
        STMT_CONV_SET_MODEL,
        STMT_CONV_SET_ORIGIN,
        STMT_CONV_SET_EXTENT,
        STMT_CONV_SET_ACCESS,
        STMT_CONV_SET_ON_DISK,
        STMT_CONV_COPY_TOOLS,
        STMT_CONV_TOOLS,
        STMT_CONV_BEQUEATH,
        STMT_CONV_DELETE,
        STMT_EXPIRE_LIST,
        STMT_EXPIRE_BEYOND,
        STMT_EXPIRE_GET,
        STMT_ABOUT_SET,
        STMT_ABOUT_GET,
        STMT_ABOUT_COPY,
        STMT_TAG_CLEAR,
        STMT_TAG_INSERT,
        STMT_TAG_COPY,
        STMT_TAG_LIST,
        STMT_TURN_INSERT,
        STMT_TURN_COPY,
        STMT_TURN_CUT,
        STMT_TURN_LIST,
        STMT_TURN_LIST_BARE,
        STMT_TURN_PAGE,
        STMT_TURN_PAGE_SIZES,
        STMT_TURN_RUN,
        STMT_TURN_TOKENS,
        STMT_TURN_TOKENS_OF,
        STMT_TURN_SIZES,
        STMT_TURN_GET,
        STMT_TURN_EXTRA,
        STMT_TURN_TOOLS,
        STMT_TURN_TEXT,
        STMT_TURN_SHORTEN,
        STMT_TURN_RENEW,
        STMT_FIGURES_INSERT,
        STMT_FIGURES_COPY,
        STMT_FIGURES_LIST,
        STMT_FIGURES_SIZES,
        STMT_CHAIN_GET,
        STMT_CHAIN_SET,
        STMT_CHAIN_MISSING,
        STMT_CHAIN_HAS,
        STMT_CHAIN_CONVS,
        STMT_CHAIN_OF,
        STMT_CHAIN_SESSION,
        STMT_RECORD_INSERT,
        STMT_RECORD_GET,
        STMT_RECORD_DELETE,
        STMT_RECORD_LIST,
        STMT_LINK_PUT,
        STMT_LINK_GET,
        STMT_LINK_COPY,
        STMT_LINK_SHORTEN,
        STMT_LINK_IDS_FROM,
        STMT_LINK_CUT,
        STMT_LINK_CUT_OWN,
        STMT_LINK_DROP,
        STMT_LINK_LIST,
        STMT_LINK_SIZE,
        STMT_LINK_RUN,
        STMT_LINK_REFERS,
        STMT_LINK_PRIVATE,
        STMT_LINK_BETWEEN,
        STMT_LINK_USERS,
        STMT_LINK_TAIL,
        STMT_PREFIX_HAS,
        STMT_PREFIX_DONORS,
        STMT_PREFIX_PUBLIC,
        STMT_PREFIX_PUBLIC_ANY,
        STMT_RECLAIM_CONVS,
        STMT_RECLAIM_CONVS_ANY,
        STMT_RECLAIM_RECORDS,
        STMT_CHECK_FILE,
        STMT_CHECK_CONVS,
        STMT_CHECK_TURNS,
        STMT_CHECK_LINKS,
        STMT_CHECK_RECORDS,
        STMT_CHECK_STRAYS,
        STMT_CHECK_ON_DISK,
        STMT_CHECK_COUNTERS,
        STMT_CHECK_TAGS,
        STMT_CHECK_USAGE,
        STMT_CHECK_TABLES,
        STMT_CHECK_NEXT_CONV,
        STMT_CHECK_TOTAL,
        STMT_CHECK_PAGE,
        STMT_CHECK_HAS,
        STMT_LIST_HELD,
        STMT_METER_GET,
        STMT_METER_SET,
        STMT_SECRET_GET,
        STMT_SECRET_ENTER,
        STMT_SECRET_FORGET,
        STMT_MEMORY_HAS,
        STMT_TENANT_FIND,
        STMT_TENANT_COUNT,
        STMT_TENANT_INSERT,
        STMT_TENANT_LABEL,
        STMT_TENANT_FORGET,
        STMT_TENANT_UNUSED,
        STMT_TENANT_REMOVE,
        STMT_OWNER_NEXT,
        STMT_OWNER_CONVS,
        STMT_ON_DISK_BEFORE,
        STMT_QUOTA_LIST,
        STMT_QUOTA_COUNT,
        STMT_QUOTA_SET,
        STMT_QUOTA_CLEAR,
        STMT_QUOTA_TELL,
        STMT_USAGE_GET,
        STMT_USAGE_WORK,
        STMT_USAGE_FORGET,
        STMT_USAGE_ENTER,
        STMT_USAGE_COUNT,
        STMT_METER_KEEP,
        STMT_METER_REMOVE,
        STMT_SEARCH_ADD,
        STMT_SEARCH_REMOVE,
        STMT_SEARCH_TURNS,
        STMT_SEARCH_NAMES,
        STMT_SEARCH_MERGE,
        STMT_SEARCH_FIND,
        STMT_SEARCH_IS,
        STMT_SEARCH_CONV,
        STMT_SEARCH_ROW,
        STMT_SEARCH_STRAYS,
        STMT_SEARCH_MISSING,
        /* With PostgreSQL alone. */
        STMT_LEASE_LOCK,
        STMT_LEASE_HOLDER,
        STMT_LEASE_TAKE,
        STMT_LEASE_DROP,
        STMT_LEASE_DROP_ALL,
        STMT_LEASE_ASK,
        STMT_LEASE_TELL,
        STMT_LOOSE_TAKE,
        STMT_LOOSE_KEEP,
        STMT_N
};

/* Which file a name stands for. */
struct file_id {
        dev_t dev;
        ino_t ino;
};

/* A value of a parameter or a column. Bytes are borrowed. */
enum value_type { VALUE_NULL, VALUE_INTEGER, VALUE_REAL, VALUE_TEXT, VALUE_BLOB };
struct value {
        enum value_type type;
        int64_t i;
        double d;
        const void *p; /* not NULL with VALUE_TEXT and VALUE_BLOB */
        size_t n;
};

struct query;
/*
 * What a backend does. All that is above (which statements there are, in which order they run, what their rows may
 * be) is the same for both: sqlite.c and pg-driver.c have one of these each.
 */
struct store_driver {
        int (*begin)(struct query *q, struct err *e);
        void (*end)(struct query *q);
        /* Parameter @n, from 1; a failure is noted with query_failed(). */
        void (*bind)(struct query *q, int n, const struct value *v);
        int (*step)(struct query *q, struct err *e);
        /* Instead of step(), for a statement that inserts a row with an id of its own. */
        int (*insert)(struct query *q, uint64_t *ret_id, struct err *e);
        int64_t (*changes)(struct query *q); /* rows that the statement has changed */
        int (*n_columns)(struct query *q);
        const char *(*name)(struct query *q, int col);
        void (*column)(struct query *q, int col, struct value *ret); /* valid until the next step */
        int (*fail)(struct query *q, const char *what, struct err *e); /* as q->rc says */
        int (*txn_begin)(struct store *s, struct err *e);
        int (*txn_commit)(struct store **txn, struct err *e); /* *txn is NULL once it is over */
        void (*txn_end)(struct store *s);                     /* roll back */
        int (*read_begin)(struct store *s, bool in_txn, struct err *e);
        void (*read_end)(struct store *s);
        /* The whole call is over with *r: is it worth while to make it once more? May wait. If not, *r
         * and @e say what the caller is told. NULL: never. */
        bool (*again)(struct store *s, int *r, struct err *e);
        int (*hold)(struct store *s, struct err *e); /* store_hold(), or NULL: needs nothing */
};
extern const struct store_driver sqlite_driver;

/* A connection. For a register open for writing it owns a second connection that reads. */
struct store {
        const struct store_driver *driver;
        struct pg *pg; /* owned; NULL: the register is an SQLite file */
        sqlite3 *
                db; /* with PostgreSQL an empty one in memory, whose tokenizer splits texts (words.c) */
        pthread_mutex_t mutex;
        sqlite3_stmt *stmts[STMT_N]; /* prepared on first use, owned */
        int commit_errno;            /* of a failed COMMIT, after which SQLite does not keep it */
        bool writes;
        struct store *reader; /* owned; NULL: this connection reads too */
        bool hold, held;      /* txn.c: keep other writers out; the next transaction has begun */
        bool watches_log;     /* log.c */
        size_t migrated_from; /* schema version that it had when it was opened; 0: the present one, or none */
        struct file_id file, log;
        atomic_bool log_lost;
        struct words *words;  /* words.c, owned */
        uint64_t words_owner; /* whose words the search index takes or is asked for */
        bool words_broken;    /* nothing is written to the search index any more */
        bool merging;         /* what was removed from it is being merged away, since this open */
        uint64_t n_merged;    /* rows that this pass has written, of a page at most */
        uint64_t merge_due;   /* clock_monotonic_usec(): before that no pass begins */
};

#define STORE_BUSY_MSEC 5000 /* how long another program's lock is waited for */

struct store *store_lock(struct store *s);
static inline void store_unlockp(struct store **s) {
        if (*s)
                pthread_mutex_unlock(&(*s)->mutex);
}

#define STORE_LOCK(s)                                                                              \
        _cleanup_(store_unlockp) struct store *store_locked __attribute__((__unused__)) =          \
                store_lock(s)

/* The SQL of a statement; for tests of how SQLite would run it. */
const char *stmt_text(enum store_stmt which);
/* Turn SQLite's result into ours; @what begins the sentence. */
int store_fail(struct store *s, int rc, const char *what, struct err *e);
/* Run SQL of several statements without parameters. */
int store_exec(struct store *s, const char *sql, const char *what, struct err *e);
/* Another connection to the register of @s, for reading only. */
int store_connect_reader(struct store **ret, struct store *s, struct err *e);
/* Schema version, identity and migrations; schema.c. Unless @fresh a file without tables is
 * -ERR_STATE. */
int store_migrate(struct store *s, const char *path, bool fresh, struct err *e);
/* SQL that makes all tables of a new register; tables.c. */
extern const char store_tables[];
/* -ERR_STATE if it is a register of an older version, -ERR_UNSUPPORTED of a newer one. */
int store_expect_version(struct store *s, const char *path, struct err *e);

int txn_begin(struct store *s, struct store **ret, struct err *e);
int txn_commit(struct store **txn, struct err *e);
void txn_endp(struct store **txn);
/* A writing call is over with *r, and has rolled back if it failed: whether it is to be made once more. */
bool txn_again(struct store *s, int *r, struct err *e);
/* Lock the connection that reads, which *s and *ret become, and begin a transaction. */
int read_begin(struct store **s, struct store **ret, struct err *e);
void read_endp(struct store **reading);

/* SQLite's, of the driver. */
int sqlite_txn_begin(struct store *s, struct err *e);
int sqlite_txn_commit(struct store **txn, struct err *e);
void sqlite_txn_end(struct store *s);
int sqlite_read_begin(struct store *s, bool in_txn, struct err *e);
void sqlite_read_end(struct store *s);
int sqlite_hold(struct store *s, struct err *e);
/* Between transactions, with the mutex held: take SQLite's lock for writers, or release it. */
void begin_hold(struct store *s);
void end_hold(struct store *s);

/* Remember which files the register and its log are. */
int log_watch(struct store *s, struct err *e);
/* After a commit: whether the files it went to will be found again. -ERR_STATE if not. */
int log_check(struct store *s, struct err *e);

/* One use of a prepared statement. Bound memory is borrowed until the query ends. */
struct query {
        struct store *s; /* NULL: not begun, or over */
        enum store_stmt which;
        sqlite3_stmt *st;
        struct pg_query *pg;
        int n_bound;
        int rc;          /* the driver's code of the first value that failed; 0: none */
        const char *bad; /* name of the first column with an impossible value, or NULL */
};
int query_begin(struct query *q, struct store *s, enum store_stmt which, struct err *e);
void query_end(struct query *q);
#define _query_ _cleanup_(query_end) struct query

void query_bind_null(struct query *q);
void query_bind_i64(struct query *q, int64_t v);
/* All 64 bits, as SQLite's signed integer. */
void query_bind_u64(struct query *q, uint64_t v);
void query_bind_float(struct query *q, float v);
void query_bind_text(struct query *q, const char *s, size_t n);
void query_bind_blob(struct query *q, const void *p, size_t n);

/* 1: a row; 0: no more; negative: failed. */
int query_step(struct query *q, struct err *e);
/* Up to @max rows: @take fills one of @size bytes at @out from the present row, and a row that cannot be so fails. */
typedef void query_take_fn(struct query *q, void *out);
int query_rows(struct query *q, query_take_fn *take, void *out, size_t size, size_t max,
        size_t *ret_n, struct err *e);
/* For statements without rows. */
int query_run(struct query *q, struct err *e);
/* Instead of a step: insert one row; its id. */
int query_insert(struct query *q, uint64_t *ret_id, struct err *e);
/* Rows that the statement has changed. */
int64_t query_changes(struct query *q);
int query_n_columns(struct query *q);
/* For drivers: a value could not be bound or read. */
void query_failed(struct query *q, int rc);

bool query_is_null(struct query *q, int col);
uint64_t query_u64(struct query *q, int col); /* all 64 bits */
/* 0..max, else bad. */
uint64_t query_number(struct query *q, int col, uint64_t max);
uint32_t query_u32(struct query *q, int col);
float query_float(struct query *q, int col);
/* Bytes of a TEXT or BLOB column, valid until the next step; NULL columns are empty. */
const void *query_bytes(struct query *q, int col, size_t *ret_size);
void query_bad(struct query *q, int col);
int query_check(struct query *q, struct err *e);

/* Whether the file can hold @id: nothing has an id that it cannot hold. */
static inline bool store_id_possible(uint64_t id) {
        return id >= 1 && id <= INT64_MAX;
}

/* Sampling settings, ten columns. @blob [SAMPLING_BLOB_SIZE] must live as long as the query. */
#define SAMPLING_BLOB_SIZE (SAMPLING_MAX_BIASES * 8)
int sampling_check(const struct sampling *s, struct err *e);
void sampling_bind(struct query *q, const struct sampling *s, uint8_t *blob);
void sampling_read(struct query *q, int col, struct sampling *ret);

static inline uint32_t load_le32(const uint8_t *p) {
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Room for one more of @size-byte items; capacities are powers of two from 16. */
int array_grow(void **items, size_t n, size_t size);

/* Owned. */
struct ids {
        uint64_t *v;
        size_t n;
};
static inline void ids_deinit(struct ids *ids) {
        free(ids->v);
}
int ids_push(struct ids *ids, uint64_t id, struct err *e);
/* All rows' first column. Those before a failure stay. */
int ids_read(struct query *q, struct ids *ids, struct err *e);
int gone_push(struct store_gone *g, const struct store_record *rec, struct err *e);

/* Shared between the files; the lock is held. */
int conv_check_name(const char *name, struct err *e);
/* Fill in id, name and the label of the tenant for a new row. */
int conv_choose_identity(struct store *s, struct store_conv *c, struct err *e);
int conv_insert(struct store *s, const struct store_conv *c, struct err *e);
/* In a transaction: -ERR_STATE if the conversation is no throw-away one that is due. */
int expire_check(struct store *s, const struct store_conv *c, uint64_t now_usec, struct err *e);
int conv_read(struct store *s, uint64_t id, struct store_conv *ret, struct err *e);
/* The present row of a query over CONV_COLUMNS and CONV_TOOLS_SIZE. */
int conv_read_row(struct query *q, struct store_conv *c, struct err *e);
/* Of a query with the disk size as well: all of it, and what is noted. */
int listed_read(struct query *q, struct store *s, store_admit_fn *admit, void *arg,
        struct store_listed *out, struct err *e);
/* store_list() with words. */
int search_list(struct store *s, const struct store_list *list, store_admit_fn *admit, void *arg,
        struct store_listed *out, size_t max, size_t *ret_n, bool *ret_more, struct err *e);
#define CONV_DISK_SIZE_COLUMN 35 /* behind these, if the query has it */
/* There as well, with PostgreSQL: holder and fence, of queries for one conversation. */
#define CONV_LEASE_COLUMN 35
/* store_conv_get(). */
/* -ERR_NOT_FOUND if @owner is a tenant that the register has forgotten. In a transaction. */
int tenant_check(struct store *s, uint64_t owner, struct err *e);
/* The label of @owner's tenant, "" without one. "#" and its number if the register has lost it. */
int tenant_label(struct store *s, uint64_t owner, char ret[STORE_NAME_MAX + 1], struct err *e);
int conv_get(struct store *s, uint64_t owner, uint64_t id, const char *name, struct store_conv *ret,
        struct err *e);
/* store_links(); *ret is empty before. */
int links_read(struct store *s, uint64_t id, struct store_gone *ret, struct err *e);
/* In a transaction: the owner's work counts; NULL: none. */
int usage_work(struct store *s, uint64_t owner, const struct store_work *work, struct err *e);
/* In a transaction: what follows changes the conversation, which this machine must hold. -ERR_MOVED. */
int conv_own(struct store *s, uint64_t id, struct err *e);
/* Begin a transaction on an existing conversation. After a failure the transaction may be open:
 * txn_endp() ends it. */
int conv_begin(
        struct store *s, struct store **txn, uint64_t id, struct store_conv *ret, struct err *e);
int conv_set_extent(struct store *s, const struct store_conv *c, struct err *e);
/* Turns and tokens behind what @c has: checked, inserted, @c's counts advanced. */
int turns_insert(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
/* How many tokens the first @n_turns turns of @c have, the last of them as @last (checked; NULL: as
 * it is). */
int turns_extent(struct store *s, const struct store_conv *c, uint32_t n_turns,
        const struct store_turn *last, uint32_t *ret, struct err *e);
/* Cut @c, in RAM only: the first @n_turns turns are kept, the last of them as @last, and the memory
 * leaves out @gap (NULL: what it left out before, as far as it is kept). *ret: memory tokens from
 * the beginning that stay the same. */
int gap_apply(struct store *s, struct store_conv *c, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint32_t *ret, struct err *e);
/* Give turn @n the end, finish, text and time of @to, which turns_extent() has checked. */
int turn_shorten(
        struct store *s, uint64_t id, uint32_t n, const struct store_turn *to, struct err *e);
/* Give all turns other tokens and chains (NULL: not known): turn i has tokens ends[i - 1] to ends[i].
 * -ERR_CORRUPT if a turn is missing. */
int turns_renew(struct store *s, uint64_t id, const uint32_t *ends, const uint64_t *chains,
        size_t n_turns, const int32_t *tokens, struct err *e);
/* A chain as it is stored: STORE_CHAIN_UNKNOWN is NULL. */
void bind_chain(struct query *q, uint64_t chain);
/* A turn row's token_hash: of its tokens' bytes, seeded with their place in the conversation. */
static inline uint64_t turn_hash(const void *tokens, size_t size, uint32_t first) {
        return hash64(tokens, size, first);
}
/* The present row of a query over TURN_COLUMNS, text, tokens, token_hash and extra, which must be turn
 * @expected and begin at @pos. Text and extra are copies, to be freed with turn_deinit(). */
int turn_read(
        struct query *q, uint32_t expected, uint32_t pos, struct store_turn *ret, struct err *e);
void turn_deinit(struct store_turn *t);
/* The tokens of that row (4 bytes each). Their number and hash are checked. Valid until the next step. */
int turn_read_tokens(
        struct query *q, const struct store_turn *t, const uint8_t **ret, struct err *e);
/* The present row of a query over RECORD_COLUMNS, with n_valid if there is one more. */
int record_read(struct query *q, struct store_record *ret, struct err *e);
/* 1 if @id links private records, else 0. */
int links_any_private(struct store *s, uint64_t id, struct err *e);
/* store_sizes(). */
int sizes_read(struct store *s, uint64_t id, struct store_sizes *ret, struct err *e);
/* Give the row @to the definitions of tools of row @from. */
int conv_copy_tools(struct store *s, uint64_t from, uint64_t to, struct err *e);
/* The shape of the memory of @id; all zeros if there is no such conversation. */
int conv_shape(struct store *s, uint64_t id, struct store_shape *ret, struct err *e);
/* Four values. */
void shape_bind(struct query *q, const struct store_shape *shape);
/* Note the fields of @a that are set (checked) about @c, which changed at @updated_usec. */
int about_set(struct store *s, const struct store_conv *c, const struct about *a,
        uint64_t updated_usec, struct err *e);
/* A fork has the title, tags and metadata of its parent; @to has just been inserted. */
int about_inherit(struct store *s, uint64_t from, const struct store_conv *to, struct err *e);
/* Keep with turn @n how it was made. */
int figures_insert(
        struct store *s, uint64_t id, uint32_t n, const struct figures *f, struct err *e);
int figures_copy(struct store *s, uint64_t from, uint64_t to, uint32_t n_turns, struct err *e);
/* Fill in the figures of @turns, of which the first is turn @first. Rows that cannot be read are passed
 * over. */
int figures_read(
        struct store *s, uint64_t id, uint32_t first, struct store_turns *turns, struct err *e);
/* -ERR_CORRUPT if a row cannot be read. */
int figures_check(struct store *s, uint64_t id, struct err *e);
/* store_about(). */
int about_read(struct store *s, uint64_t id, store_admit_fn *admit, void *arg, struct about **ret,
        struct err *e);
int links_copy(struct store *s, uint64_t from, const struct store_conv *to, uint32_t n_tokens,
        struct err *e);
/* Only the first @n_tokens memory tokens of @c are left. */
int links_shorten(struct store *s, const struct store_conv *c, uint32_t n_tokens,
        struct store_gone *gone, struct err *e);
/* Secrets of tenants that are not there any more go. In a transaction. */
int secrets_forget(struct store *s, struct err *e);
int meters_set(struct store *s, const struct store_meter *meters, size_t n, struct err *e);
/* Remove links of @id: of states from @from_state on, of others from block @from_block on. Records
 * without further links go to @gone. @cut: STMT_LINK_CUT, on all machines that share the register: the tokens are
 * other ones; STMT_LINK_CUT_OWN: only what lies on this machine's disk is lost. */
int links_cut(struct store *s, enum store_stmt cut, uint64_t id, uint64_t from_block,
        uint64_t from_state, struct store_gone *gone, struct err *e);
/* Remove the links of these cells, as far as there are any. */
int links_drop(struct store *s, uint64_t id, const struct store_cell *cells, size_t n,
        struct store_gone *gone, struct err *e);
