/* SPDX-License-Identifier: MIT */
/*
 * The schema of the register file.
 *
 * PRAGMA application_id marks a file as confab's; PRAGMA user_version is the number of migrations
 * below that the file has had. A schema change is a new entry at the end; released entries do not
 * change. Each migration runs in one transaction together with its user_version, so a crash leaves
 * the file before or after it. A new file gets all tables at once (tables.c). A file from a newer confab is refused.
 *
 * Numbers that use all 64 bits (hashes, seeds, keys) are stored as SQLite's signed integers, bit
 * for bit. Floats are REAL, exact except that -0 becomes 0. `parent` stays when a parent
 * that has none itself is closed: ids are never used again, so it cannot come to mean another conversation. Tokens
 * are little-endian int32, 4 bytes each; logit_bias is pairs of int32 and float. `block` is the index of a
 * cell in its class: of 32 tokens, or of one token in class 2. memory_classes is a sum of 1 (class 0), 2
 * (class 1) and 4 (class 2). `chain` is NULL if it is not known, see chain.c.
 */
#include "base/util.h"
#include "store/words.h"

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
        /* 3: a hash of each turn's tokens, by which damage is found when they are read; which
         * conversations have records, so that making room on disk begins with the right one; and
         * what lists and limits look through. Tokens from before are taken as they are. */
        "ALTER TABLE turn ADD COLUMN token_hash INTEGER NOT NULL DEFAULT 0;"
        "UPDATE turn SET token_hash = confab_turn_hash(tokens, first);"
        "ALTER TABLE conversation ADD COLUMN on_disk INTEGER NOT NULL DEFAULT 0"
        " CHECK (on_disk IN (0, 1));"
        "UPDATE conversation SET on_disk = 1 WHERE id IN (SELECT conversation FROM link);"
        "CREATE INDEX conversation_uid ON conversation (uid);"
        "CREATE INDEX conversation_on_disk ON conversation (updated_usec) WHERE on_disk = 1;"
        "CREATE INDEX conversation_uid_on_disk ON conversation (uid, updated_usec)"
        " WHERE on_disk = 1;"
        "CREATE INDEX record_uid ON record (uid, block);",
        /* 4: what happens at the end of the context, and the tokens that the memory leaves out. */
        "ALTER TABLE conversation ADD COLUMN gap_first INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE conversation ADD COLUMN gap_past INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE conversation ADD COLUMN overflow TEXT NOT NULL DEFAULT 'error'"
        " CHECK (overflow IN ('error', 'shift'));"
        "DROP VIEW transcript;"
        "CREATE VIEW transcript AS"
        " SELECT c.id AS id, c.uid AS uid, c.name AS conversation, t.n AS turn, t.role AS role,"
        "  CAST(t.text AS TEXT) AS text, t.finish AS finish, t.past - t.first AS n_tokens,"
        "  datetime(t.created_usec / 1000000, 'unixepoch') AS at,"
        "  max(0, min(t.past, c.gap_past) - max(t.first, c.gap_first)) AS n_dropped"
        " FROM conversation c JOIN turn t ON t.conversation = c.id ORDER BY c.id, t.n;",
        /* 5: tools: their definitions, the results of calls as turns, and calls that a message of the
         * assistant was given with. A check can't be changed, so the turns move to a new table. */
        "ALTER TABLE conversation ADD COLUMN tools TEXT;"
        "DROP VIEW transcript;"
        "CREATE TABLE turn_5 ("
        " conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,"
        " n INTEGER NOT NULL,"
        " role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'raw', 'tool')),"
        " first INTEGER NOT NULL,"
        " past INTEGER NOT NULL,"
        " finish TEXT CHECK (finish IN ('stop', 'stop_string', 'length', 'context', 'cancelled')),"
        " created_usec INTEGER NOT NULL,"
        " token_hash INTEGER NOT NULL,"
        " extra TEXT,"
        " text ANY NOT NULL CHECK (typeof(text) IN ('text', 'blob')),"
        " tokens BLOB NOT NULL,"
        " PRIMARY KEY (conversation, n)"
        ") STRICT;"
        "INSERT INTO turn_5 (conversation, n, role, first, past, finish, created_usec, token_hash,"
        " text, tokens) SELECT conversation, n, role, first, past, finish, created_usec, "
        "token_hash,"
        " text, tokens FROM turn;"
        "DROP TABLE turn;"
        "ALTER TABLE turn_5 RENAME TO turn;"
        "CREATE INDEX turn_extra ON turn (conversation, n) WHERE extra IS NOT NULL;"
        "CREATE VIEW transcript AS"
        " SELECT c.id AS id, c.uid AS uid, c.name AS conversation, t.n AS turn, t.role AS role,"
        "  CAST(t.text AS TEXT) AS text, t.finish AS finish, t.past - t.first AS n_tokens,"
        "  datetime(t.created_usec / 1000000, 'unixepoch') AS at,"
        "  max(0, min(t.past, c.gap_past) - max(t.first, c.gap_first)) AS n_dropped"
        " FROM conversation c JOIN turn t ON t.conversation = c.id ORDER BY c.id, t.n;",
        /* 6: classes of memory. All memory from before is blocks of 32 tokens, of one class. */
        "ALTER TABLE conversation ADD COLUMN block_tokens INTEGER NOT NULL DEFAULT 32;"
        "ALTER TABLE conversation ADD COLUMN memory_classes INTEGER NOT NULL DEFAULT 1"
        " CHECK (memory_classes BETWEEN 0 AND 7);"
        "ALTER TABLE conversation ADD COLUMN memory_window INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE conversation ADD COLUMN memory_chunk INTEGER NOT NULL DEFAULT 0;",
        /* 7: what is noted about conversations, and pages of them by time of change or by tag. A tag's
         * row follows its conversation's time. How a reply was made, beside its turn. Tenants: in
         * conversation and record, uid is an owner (base/owner.h) from now on: what it was, and above
         * these 32 bits the number of a tenant. */
        "ALTER TABLE conversation ADD COLUMN title TEXT;"
        "ALTER TABLE conversation ADD COLUMN metadata TEXT;"
        "ALTER TABLE conversation ADD COLUMN session TEXT;"
        "ALTER TABLE conversation ADD COLUMN expires_after INTEGER NOT NULL DEFAULT 0;"
        "CREATE INDEX conversation_due ON conversation (updated_usec + expires_after * 1000000)"
        " WHERE expires_after > 0;"
        "CREATE INDEX conversation_throwaway ON conversation (uid, updated_usec)"
        " WHERE expires_after > 0;"
        "CREATE INDEX conversation_session ON conversation (uid, session)"
        " WHERE session IS NOT NULL;"
        "CREATE INDEX conversation_updated ON conversation (uid, updated_usec);"
        "CREATE INDEX conversation_updated_any ON conversation (updated_usec);"
        "CREATE TABLE tag ("
        " conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,"
        " n INTEGER NOT NULL,"
        " tag TEXT NOT NULL,"
        " owner INTEGER NOT NULL,"
        " updated_usec INTEGER NOT NULL,"
        " PRIMARY KEY (conversation, n)"
        ") STRICT, WITHOUT ROWID;"
        "CREATE UNIQUE INDEX tag_id ON tag (tag, owner, conversation);"
        "CREATE INDEX tag_updated ON tag (tag, owner, updated_usec, conversation);"
        "CREATE TABLE turn_figures ("
        " conversation INTEGER NOT NULL,"
        " n INTEGER NOT NULL,"
        " model TEXT NOT NULL,"
        " seed INTEGER NOT NULL,"
        " n_prompt INTEGER NOT NULL, n_ram INTEGER NOT NULL, n_disk INTEGER NOT NULL,"
        " n_shared INTEGER NOT NULL, n_computed INTEGER NOT NULL, n_generated INTEGER NOT NULL,"
        " queued_usec INTEGER NOT NULL, restore_usec INTEGER NOT NULL,"
        " prefill_usec INTEGER NOT NULL, decode_usec INTEGER NOT NULL,"
        " PRIMARY KEY (conversation, n),"
        " FOREIGN KEY (conversation, n) REFERENCES turn (conversation, n) ON DELETE CASCADE"
        ") STRICT, WITHOUT ROWID;"
        "CREATE TRIGGER tag_follows AFTER UPDATE OF updated_usec ON conversation BEGIN"
        " UPDATE tag SET updated_usec = new.updated_usec WHERE conversation = new.id; END;"
        "CREATE TABLE tenant ("
        " number INTEGER PRIMARY KEY AUTOINCREMENT,"
        " uid INTEGER NOT NULL,"
        " label TEXT NOT NULL,"
        " UNIQUE (uid, label)"
        ") STRICT;"
        "DROP VIEW transcript;"
        "CREATE VIEW transcript AS"
        " SELECT c.id AS id, c.uid & 4294967295 AS uid, c.name AS conversation, t.n AS turn,"
        "  t.role AS role, CAST(t.text AS TEXT) AS text, t.finish AS finish,"
        "  t.past - t.first AS n_tokens, datetime(t.created_usec / 1000000, 'unixepoch') AS at,"
        "  max(0, min(t.past, c.gap_past) - max(t.first, c.gap_first)) AS n_dropped,"
        "  (SELECT label FROM tenant WHERE number = c.uid >> 32) AS tenant"
        " FROM conversation c JOIN turn t ON t.conversation = c.id ORDER BY c.id, t.n;"
        /* Chained hashes of what was said. Those of turns from before are not known: the engine makes
         * up for them (store_chains_missing()). */
        "ALTER TABLE turn ADD COLUMN chain INTEGER;"
        "CREATE INDEX turn_chain ON turn (chain, conversation, n) WHERE chain IS NOT NULL;"
        "CREATE INDEX turn_no_chain ON turn (conversation) WHERE chain IS NULL;"
        /* words_open() fills it. */
        WORDS_CREATE,
        /* 8: memory that is pinned. None is until somebody asks for it. */
        ("ALTER TABLE conversation ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0"
         " CHECK (pinned IN (0, 1));"),
        /* 9: closing one that was forked gives its forks to its own parent (conv.c). */
        "CREATE INDEX conversation_parent ON conversation (parent) WHERE parent > 0;",
        /* 10: limits that administrators set (quota.c); what each owner has, so that looking for it looks at one
         * row: the triggers keep the counts, whatever changes conversations. What was computed on `day`. */
        "CREATE TABLE quota ("
        " kind TEXT NOT NULL CHECK (kind IN ('user', 'group', 'tenants', 'tenant')),"
        " number INTEGER NOT NULL,"
        " label TEXT NOT NULL,"
        " name TEXT NOT NULL,"
        " value INTEGER,"
        " PRIMARY KEY (kind, number, label, name)"
        ") STRICT, WITHOUT ROWID;"
        "CREATE TABLE usage ("
        " owner INTEGER PRIMARY KEY,"
        " n_conversations INTEGER NOT NULL DEFAULT 0,"
        " n_tokens INTEGER NOT NULL DEFAULT 0,"
        " day INTEGER NOT NULL DEFAULT 0,"
        " day_tokens INTEGER NOT NULL DEFAULT 0"
        ") STRICT;"
        "INSERT INTO usage (owner, n_conversations, n_tokens)"
        " SELECT uid, count(*), sum(n_tokens) FROM conversation GROUP BY uid;"
        "CREATE TRIGGER usage_more AFTER INSERT ON conversation BEGIN"
        " INSERT INTO usage (owner, n_conversations, n_tokens) VALUES (new.uid, 1, new.n_tokens)"
        " ON CONFLICT (owner) DO UPDATE SET n_conversations = n_conversations + 1,"
        " n_tokens = n_tokens + excluded.n_tokens; END;"
        "CREATE TRIGGER usage_less AFTER DELETE ON conversation BEGIN"
        " UPDATE usage SET n_conversations = n_conversations - 1, n_tokens = n_tokens - "
        "old.n_tokens"
        " WHERE owner = old.uid; END;"
        "CREATE TRIGGER usage_changes AFTER UPDATE OF n_tokens ON conversation"
        " WHEN new.n_tokens <> old.n_tokens BEGIN"
        " UPDATE usage SET n_tokens = n_tokens + new.n_tokens - old.n_tokens"
        " WHERE owner = new.uid; END;",
        /* 11: secrets of owners (secret.c). */
        ("CREATE TABLE secret (owner INTEGER PRIMARY KEY, secret BLOB NOT NULL) STRICT;"),
};

/* turn_hash() for the migration. */
static void sql_turn_hash(sqlite3_context *context, int n, sqlite3_value **args) {
        const void *tokens = sqlite3_value_blob(args[0]);
        int size = sqlite3_value_bytes(args[0]);
        uint32_t first = (uint32_t)sqlite3_value_int64(args[1]);

        (void)n;
        sqlite3_result_int64(
                context, (int64_t)turn_hash(tokens ? tokens : "", (size_t)size, first));
}

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

/* One transaction: the file has @version then. */
static int apply(struct store *s, const char *sql, size_t version, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        char pragma[96];
        int r;

        r = txn_begin(s, &txn, e);
        if (r < 0)
                return r;
        r = store_exec(s, sql, "migration", e);
        if (r < 0)
                return r;
        snprintf(pragma, sizeof(pragma), "PRAGMA application_id = %d; PRAGMA user_version = %zu",
                APPLICATION_ID, version);
        r = store_exec(s, pragma, "migration", e);
        if (r < 0)
                return r;
        return txn_commit(&txn, e);
}

/* The schema version of a register, once the file is known to be one. */
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

/* Registers from before version 3 cannot return free pages to the file system, so they are
 * rewritten once. Without room for that they stay as they are until the next start. */
static int let_shrink(struct store *s, struct err *e) {
        int64_t mode;
        int r = read_number(s, "PRAGMA auto_vacuum", &mode, e);

        if (r == 0 && mode == 0)
                (void)store_exec(s, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM", "vacuum", NULL);
        return r;
}

int store_migrate(struct store *s, const char *path, bool fresh, struct err *e) {
        size_t version;
        int rc, r = read_version(s, path, &version, e);

        if (r < 0)
                return r;
        if (version == 0 && !fresh)
                return err_set(e, ERR_STATE, "the register is empty");
        rc = sqlite3_create_function_v2(
                s->db, "confab_turn_hash", 2, SQLITE_UTF8, NULL, sql_turn_hash, NULL, NULL, NULL);
        if (rc != SQLITE_OK)
                return store_fail(s, rc, "migration", e);
        /* Has an effect before the first table only. */
        r = version == 0 ? store_exec(s, "PRAGMA auto_vacuum = INCREMENTAL", "settings", e) : 0;
        if (r < 0)
                return r;
        if (version == 0) {
                r = apply(s, store_tables, ARRAY_SIZE(migrations), e);
                if (r < 0)
                        return err_wrap(e, r, "making its tables");
                version = ARRAY_SIZE(migrations);
        }
        s->migrated_from = version < ARRAY_SIZE(migrations) ? version : 0;
        for (size_t v = version; v < ARRAY_SIZE(migrations); v++) {
                r = apply(s, migrations[v], v + 1, e);
                if (r < 0)
                        return err_wrap(e, r, "to schema version %zu", v + 1);
        }
        r = words_open(s, e);
        return r < 0 ? r : let_shrink(s, e);
}

unsigned store_migrated_from(const struct store *s, unsigned *ret_now) {
        *ret_now = ARRAY_SIZE(migrations);
        return (unsigned)s->migrated_from;
}
