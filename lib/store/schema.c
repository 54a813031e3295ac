/* SPDX-License-Identifier: MIT */
/*
 * The form of the register file.
 *
 * PRAGMA application_id says that a file is ours, PRAGMA user_version how many of the migrations
 * below it has seen. A new form is a new entry at the end; entries that were released do not
 * change. Each runs in one transaction together with its user_version, so a crash leaves a file
 * before or after it. A file from a newer confab is refused rather than guessed at.
 *
 * Numbers that use all 64 bits (hashes, seeds, keys) are kept as SQLite's signed integers, bit for
 * bit. Floats are REAL, exact but for -0, which comes back as 0. `parent` stays when the parent is
 * closed: ids are never used again, so it cannot come to mean another. Tokens are little-endian
 * int32, 4 bytes each; logit_bias is pairs of int32 and float.
 */
#include "base/util.h"
#include "store/store-private.h"

#define APPLICATION_ID 0x636e6662 /* "cnfb" */

static const char *const migrations[] = {
        "CREATE TABLE conversation ("
        " id INTEGER PRIMARY KEY AUTOINCREMENT,"
        " uid INTEGER NOT NULL,"
        " name TEXT NOT NULL,"
        " parent INTEGER NOT NULL,"
        " fork_pos INTEGER NOT NULL,"
        " revision INTEGER NOT NULL,"
        " n_tokens INTEGER NOT NULL,"
        " n_turns INTEGER NOT NULL,"
        " created_usec INTEGER NOT NULL,"
        " updated_usec INTEGER NOT NULL,"
        " model_weights INTEGER NOT NULL,"
        " model_rules INTEGER NOT NULL,"
        " vocab INTEGER NOT NULL,"
        " temperature REAL, top_k INTEGER, top_p REAL, min_p REAL,"
        " repetition_penalty REAL, presence_penalty REAL, frequency_penalty REAL,"
        " penalty_last_n INTEGER, seed INTEGER, logit_bias BLOB,"
        " UNIQUE (uid, name)"
        ") STRICT;"
        "CREATE TABLE turn ("
        " conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,"
        " n INTEGER NOT NULL,"
        " role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'raw')),"
        " first INTEGER NOT NULL,"
        " past INTEGER NOT NULL,"
        " finish TEXT CHECK (finish IN ('stop', 'stop_string', 'length', 'context', 'cancelled')),"
        " created_usec INTEGER NOT NULL,"
        " text ANY NOT NULL CHECK (typeof(text) IN ('text', 'blob')),"
        " tokens BLOB NOT NULL,"
        " PRIMARY KEY (conversation, n)"
        ") STRICT;"
        "CREATE TABLE record ("
        " id INTEGER PRIMARY KEY AUTOINCREMENT,"
        " file_key INTEGER NOT NULL,"
        " start INTEGER NOT NULL,"
        " stored_size INTEGER NOT NULL,"
        " raw_size INTEGER NOT NULL,"
        " class INTEGER NOT NULL,"
        " block INTEGER NOT NULL,"
        " n_tokens INTEGER NOT NULL,"
        " token_hash INTEGER NOT NULL"
        ") STRICT;"
        "CREATE TABLE link ("
        " conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,"
        " block INTEGER NOT NULL,"
        " class INTEGER NOT NULL,"
        " record INTEGER NOT NULL REFERENCES record (id),"
        " PRIMARY KEY (conversation, block, class)"
        ") STRICT, WITHOUT ROWID;"
        "CREATE INDEX link_record ON link (record);"
        "CREATE VIEW transcript AS"
        " SELECT c.id AS id, c.uid AS uid, c.name AS conversation, t.n AS turn, t.role AS role,"
        "  CAST(t.text AS TEXT) AS text, t.finish AS finish, t.past - t.first AS n_tokens,"
        "  datetime(t.created_usec / 1000000, 'unixepoch') AS at"
        " FROM conversation c JOIN turn t ON t.conversation = c.id ORDER BY c.id, t.n;",
        /* 2: whose a record is, memory that is private or published, numbers that survive. Of links
         * from before it is not known how much of the record the conversation still has: 0 promises
         * nothing. */
        "ALTER TABLE conversation ADD COLUMN n_published INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE conversation ADD COLUMN private_memory INTEGER NOT NULL DEFAULT 0"
        " CHECK (private_memory IN (0, 1));"
        "ALTER TABLE record ADD COLUMN uid INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE record ADD COLUMN private INTEGER NOT NULL DEFAULT 0"
        " CHECK (private IN (0, 1));"
        "ALTER TABLE link ADD COLUMN n_valid INTEGER NOT NULL DEFAULT 0;"
        "UPDATE record SET uid = coalesce((SELECT c.uid FROM link l JOIN conversation c"
        " ON c.id = l.conversation WHERE l.record = record.id ORDER BY c.id LIMIT 1), 0);"
        "CREATE INDEX record_prefix ON record (uid, token_hash) WHERE private = 0;"
        "CREATE INDEX conversation_published ON conversation (n_published) WHERE n_published > 0;"
        "CREATE TABLE meter ("
        " name TEXT PRIMARY KEY NOT NULL,"
        " value INTEGER NOT NULL"
        ") STRICT, WITHOUT ROWID;",
};

/* One integer that a PRAGMA or SELECT gives. */
static int read_number(struct store *s, const char *sql, int64_t *ret, struct err *e) {
        sqlite3_stmt *st = NULL;
        int64_t v = 0;
        int rc;

        rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);
        if (rc == SQLITE_OK) {
                rc = sqlite3_step(st);
                if (rc == SQLITE_ROW) {
                        v = sqlite3_column_int64(st, 0);
                        rc = SQLITE_OK;
                } else if (rc == SQLITE_DONE)
                        rc = SQLITE_CORRUPT;
        }
        sqlite3_finalize(st);
        if (rc != SQLITE_OK)
                return store_fail(s, rc, sql, e);
        *ret = v;
        return 0;
}

static int apply(struct store *s, size_t version, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        char pragma[96];
        int r;

        r = txn_begin(s, &txn, e);
        if (r < 0)
                return r;
        r = store_exec(s, migrations[version], "migration", e);
        if (r < 0)
                return r;
        snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d; PRAGMA user_version = %zu",
                APPLICATION_ID, version + 1);
        r = store_exec(s, pragma, "migration", e);
        if (r < 0)
                return r;
        return txn_commit(&txn, e);
}

/* The version of a register of ours. */
static int read_version(struct store *s, const char *path, size_t *ret, struct err *e) {
        int64_t version = 0, app = 0, tables = 0;
        int r;

        r = read_number(s, "PRAGMA user_version", &version, e);
        if (r < 0)
                return r;
        r = read_number(s, "PRAGMA application_id", &app, e);
        if (r < 0)
                return r;
        r = read_number(s, "SELECT count(*) FROM sqlite_schema", &tables, e);
        if (r < 0)
                return r;
        if (app == 0 && version == 0 && tables == 0)
                app = APPLICATION_ID;
        if (app != APPLICATION_ID || version < 0)
                return err_set(e, ERR_CORRUPT, "'%s' is not a register of confab", path);
        if ((uint64_t)version > ARRAY_SIZE(migrations))
                return err_set(e, ERR_UNSUPPORTED,
                        "'%s' has schema version %lld, this confab knows up to %zu", path,
                        (long long)version, ARRAY_SIZE(migrations));
        *ret = (size_t)version;
        return 0;
}

int store_expect_version(struct store *s, const char *path, struct err *e) {
        size_t version;
        int r = read_version(s, path, &version, e);

        if (r < 0)
                return r;
        if (version != ARRAY_SIZE(migrations))
                return err_set(e, ERR_STATE,
                        "'%s' has schema version %zu, not %zu: the daemon brings it up to date",
                        path, version, ARRAY_SIZE(migrations));
        return 0;
}

int store_migrate(struct store *s, const char *path, bool fresh, struct err *e) {
        size_t version;
        int r = read_version(s, path, &version, e);

        if (r < 0)
                return r;
        if (version == 0 && !fresh)
                return err_set(e, ERR_STATE, "the register is empty");
        for (size_t v = version; v < ARRAY_SIZE(migrations); v++) {
                r = apply(s, v, e);
                if (r < 0)
                        return err_wrap(e, r, "to schema version %zu", v + 1);
        }
        return 0;
}
