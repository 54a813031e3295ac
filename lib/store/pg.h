/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to lib/store: the register on a PostgreSQL server. pg-driver.c begins with what is promised.
 */
#include "base/map.h"
#include "store/store-private.h"
#include <libpq-fe.h>

#define PG_MAX_PARAMS 40
#define PG_MACHINE_MAX 64 /* bytes of a machine's identity, without NUL */

/* What the connections of one store have in common. */
struct pg_shared {
        char *uri; /* owned, as the strings below */
        char *machine_id, *name;
        char *address, *socket, *host; /* or NULL */
        uint64_t wait_usec, lease_usec;
        uint64_t machine, incarnation; /* this daemon's; 0: not entered yet */
        uint64_t txn;                  /* the last number; the writing connection's lock */
        atomic_int_fast64_t
                clock_ahead; /* the server's clock less CLOCK_BOOTTIME, microseconds; 0: not known */
        pthread_mutex_t lock;     /* of leases */
        bool forgets;             /* under the lock: there was no memory for one of them */
        struct map *leases;       /* by id: lease_value() */
        struct pg_keeper *keeper; /* pg-keeper.c, owned */
};

struct pg_statement {
        bool prepared; /* on the present connection */
        int n_params;
        Oid params[PG_MAX_PARAMS];
};

/* A connection. Used under the mutex of its struct store. */
struct pg {
        struct pg_shared *shared;
        bool owns_shared;
        PGconn *conn;                    /* NULL: not connected */
        uint64_t t_down, t_tried;        /* since when it can't be had; when it was tried last */
        struct pg_statement *statements; /* [STMT_N], owned */
        bool in_txn;
        /* Of the transaction. */
        uint64_t txn;     /* its number */
        uint64_t touched; /* the conversation that it changes; 0: none */
        uint64_t fence;   /* if it has taken the conversation, the new fence; else 0 */
        bool removed;     /* it removes the conversation */
        bool given;       /* it gives the conversation up */
        bool taking;      /* it takes one: for use when that is confirmed */
        /* Of a call. */
        bool again;       /* what failed may work at once */
        uint64_t t_first; /* when the call failed first; 0: it has not */
        unsigned n_tries;
        /* Of a search that has a bound (prefix.c): statements that are left. */
        bool bounded;
        uint64_t n_left;
        uint64_t received; /* bytes of results, of what is checked in slices (check-slices.c) */
};

/* A statement that is used. */
struct pg_query {
        struct value bound[PG_MAX_PARAMS];
        PGresult *result; /* NULL: not run yet */
        int row;
};

/* Statements that differ from SQLite's, as PostgreSQL has them; NULL: the same (pg-stmt.c). */
extern const char *const pg_stmt_sql[STMT_N];
/* All tables of a new register, and their version (pg-tables.c). */
extern const char pg_tables[];
extern const int pg_schema_version;
/* pg_migrations[v] makes of version v the version behind it; v from 1. */
extern const char *const pg_migrations[];
extern const struct store_driver pg_driver;

/* --- pg-conn.c: connections --- */

/* Connect if need be; waits for the server as long as wait_usec since it went away. -ERR_UNAVAILABLE. */
int pg_ready(struct pg *pg, struct err *e);
/* Connect, one attempt. */
int pg_connect(struct pg *pg, struct err *e);
void pg_disconnect(struct pg *pg);
/* SQL without parameters, perhaps several statements; *ret: the last result, owned (or NULL). A failure
 * is told with pg_fail(). */
int pg_exec(struct pg *pg, const char *sql, PGresult **ret, struct err *e);
/* Send and receive, after a PQsend...(). @sent: its result. */
int pg_receive(struct pg *pg, int sent, const char *what, PGresult **ret, struct err *e);
/* Integer in the first row, in text; -1: NULL, or no row. */
int64_t pg_number(const PGresult *result, int col);
struct pg *pg_new(struct pg_shared *shared);
struct pg *pg_free(struct pg *pg);
struct pg_shared *pg_shared_free(struct pg_shared *shared);

/* --- pg-txn.c --- */

int pg_txn_begin(struct store *s, struct err *e);
int pg_txn_commit(struct store **txn, struct err *e);
void pg_txn_end(struct store *s);
int pg_read_begin(struct store *s, bool in_txn, struct err *e);
void pg_read_end(struct store *s);
bool pg_again(struct store *s, int *r, struct err *e);

/* --- pg-lease.c --- */

/* In a transaction: lock the row of conversation @id, and see that this machine holds it. */
int pg_own(struct store *s, uint64_t id, struct err *e);
/* In a transaction: nobody changes conversation @id until it is over. Whoever holds it, but if this machine did and lost it:
 * what it knows of it may be old. */
int pg_lock(struct store *s, uint64_t id, struct err *e);
/* Conversation @id is new, and held from the start. */
void pg_made(struct store *s, uint64_t id);
/* The conversation that the transaction changes is removed by it. */
void pg_removed(struct store *s);
/* The transaction is committed, or not, or nobody knows (@known false). */
void pg_leases_committed(struct pg *pg);
void pg_leases_dropped(struct pg *pg, bool known);
/* Fill in where a conversation is held, of its row's columns. */
void pg_lease_told(struct store *s, uint64_t holder, uint64_t fence, struct store_conv *c);
/* Give up all conversations. */
int pg_leases_release(struct store *s, struct err *e);

/* --- pg-keeper.c: a thread that tells the others that this machine lives, and hears what they say --- */

struct pg_keeper;
void pg_keeper_listen(struct pg_keeper *keeper, const struct store_listener *listener);

int pg_keeper_start(struct pg_shared *shared, struct err *e);
struct pg_keeper *pg_keeper_stop(struct pg_keeper *keeper);

/* --- pg-backup.c: as backup.c has it --- */

struct pg_backup;
int pg_backup_new(struct pg_backup **ret, struct store *s, const char *path, struct err *e);
int pg_backup_step(struct pg_backup *b, unsigned n_pages, struct err *e);
/* The file stands alone then but for its log, which store_backup_seal() ends. */
int pg_backup_finish(struct pg_backup *b, bool with_records, uint64_t *ret_n_convs, struct err *e);
struct pg_backup *pg_backup_free(struct pg_backup *b);

/* --- pg-open.c --- */

/* Another connection to the same register, for reading. */
int pg_connect_reader(struct store **ret, struct store *s, struct err *e);
/* store_size(). */
int pg_size(struct store *s, uint64_t *ret, struct err *e);
/* Closes what pg-open.c opened; gives up what is held. */
void pg_close(struct store *s);
