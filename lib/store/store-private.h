/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Inside of lib/store: statements, transactions, and checked access to columns.
 *
 * The pattern of every call:
 *
 *     STORE_LOCK(s);                                      until the scope's end
 *     _cleanup_(txn_endp) struct store *txn = NULL;      calls that write: BEGIN IMMEDIATE
 *     r = txn_begin(s, &txn, e);
 *     ... queries ...
 *     r = txn_commit(&txn, e);                           without it the scope's end rolls back
 *
 * A query lives in a scope of its own function, so that no statement is active at COMMIT. What
 * comes out of the file is not trusted: query_* getters note a value of the wrong type or range in
 * the query, and query_check() turns that into ERR_CORRUPT.
 */
#include "base/cleanup.h"
#include "base/err.h"
#include "store/store.h"
#include <pthread.h>
#include <sqlite3.h>

enum store_stmt {
        STMT_BEGIN,
        STMT_COMMIT,
        STMT_ROLLBACK,
        STMT_CONV_NEXT_ID,
        STMT_CONV_NAME_TAKEN,
        STMT_CONV_INSERT,
        STMT_CONV_BY_ID,
        STMT_CONV_BY_NAME,
        STMT_CONV_BY_NAME_ANY,
        STMT_CONV_LIST,
        STMT_CONV_LIST_ANY,
        STMT_CONV_COUNT,
        STMT_CONV_COUNT_ANY,
        STMT_CONV_SET_NAME,
        STMT_CONV_SET_SAMPLING,
        STMT_CONV_SET_MODEL,
        STMT_CONV_SET_EXTENT,
        STMT_CONV_DELETE,
        STMT_TURN_INSERT,
        STMT_TURN_COPY,
        STMT_TURN_CUT,
        STMT_TURN_LIST,
        STMT_TURN_LIST_BARE,
        STMT_TURN_TOKENS,
        STMT_TURN_EXTENT,
        STMT_RECORD_INSERT,
        STMT_RECORD_GET,
        STMT_RECORD_DELETE,
        STMT_RECORD_LIST,
        STMT_LINK_PUT,
        STMT_LINK_GET,
        STMT_LINK_COPY,
        STMT_LINK_BLOCK_TOKENS,
        STMT_LINK_IDS_FROM,
        STMT_LINK_CUT,
        STMT_LINK_LIST,
        STMT_LINK_REFERS,
        STMT_N
};

struct store {
        sqlite3 *db;
        pthread_mutex_t mutex;
        sqlite3_stmt *stmts[STMT_N]; /* prepared on first use, owned */
};

struct store *store_lock(struct store *s);
static inline void store_unlockp(struct store **s) {
        if (*s)
                pthread_mutex_unlock(&(*s)->mutex);
}

#define STORE_LOCK(s)                                                                              \
        _cleanup_(store_unlockp) struct store *store_locked __attribute__((__unused__)) =          \
                store_lock(s)

/* Turn SQLite's result into ours; @what begins the sentence. */
int store_fail(struct store *s, int rc, const char *what, struct err *e);
/* Run SQL of several statements without parameters. */
int store_exec(struct store *s, const char *sql, const char *what, struct err *e);
/* Schema version, identity and migrations; schema.c. */
int store_migrate(struct store *s, const char *path, struct err *e);

int txn_begin(struct store *s, struct store **ret, struct err *e);
int txn_commit(struct store **txn, struct err *e);
void txn_endp(struct store **txn);

/* One use of a prepared statement. Bound memory is borrowed until the query ends. */
struct query {
        struct store *s;
        sqlite3_stmt *st;
        int n_bound;
        int rc;          /* first failure of binding */
        const char *bad; /* name of the first column whose value cannot be, or NULL */
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
/* For statements without rows. */
int query_run(struct query *q, struct err *e);

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

/* An id that the file can hold: others are nobody's. */
static inline bool store_id_possible(uint64_t id) {
        return id >= 1 && id <= INT64_MAX;
}

/* Sampling settings, ten columns. @blob [SAMPLING_BLOB_SIZE] must live as long as the query. */
#define SAMPLING_BLOB_SIZE (SAMPLING_MAX_BIASES * 8)
int sampling_check(const struct sampling *s, struct err *e);
void sampling_bind(struct query *q, const struct sampling *s, uint8_t *blob);
void sampling_read(struct query *q, int col, struct sampling *ret);

/* Shared between the files; the lock is held. */
int conv_read(struct store *s, uint64_t id, struct store_conv *ret, struct err *e);
int conv_set_extent(struct store *s, const struct store_conv *c, struct err *e);
/* Turns and tokens behind what @c has: checked, inserted, @c's counts advanced. */
int turns_insert(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e);
/* Where turn @n_turns of @id would begin: tokens of the first @n_turns turns. */
int turns_extent(struct store *s, uint64_t id, uint32_t n_turns, uint32_t *ret, struct err *e);
int links_copy(struct store *s, uint64_t from, uint64_t to, uint32_t n_tokens, struct err *e);
/* Remove links of @id from @from_index on; records without further links go to @gone. */
int links_cut(
        struct store *s, uint64_t id, uint64_t from_index, struct store_gone *gone, struct err *e);
