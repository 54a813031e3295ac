/* SPDX-License-Identifier: MIT */
/* Registers of older versions, made with the SQL of those versions, become equal to a new one. */
#include "store-fixture.h"

static const char version_1[] =
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
        " FROM conversation c JOIN turn t ON t.conversation = c.id ORDER BY c.id, t.n;";

static void make_version_1(struct fixture *f) {
        fixture_sql(f, "PRAGMA journal_mode = WAL");
        fixture_sql(f, version_1);
        fixture_sql(f, "PRAGMA application_id = 1668179554; PRAGMA user_version = 1;");
}

/* The step to version 2, as it was. */
static const char version_2[] =
        "ALTER TABLE conversation ADD COLUMN n_published INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE conversation ADD COLUMN private_memory INTEGER NOT NULL DEFAULT 0"
        " CHECK (private_memory IN (0, 1));"
        "ALTER TABLE record ADD COLUMN uid INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE record ADD COLUMN private INTEGER NOT NULL DEFAULT 0"
        " CHECK (private IN (0, 1));"
        "ALTER TABLE link ADD COLUMN n_valid INTEGER NOT NULL DEFAULT 0;"
        "CREATE INDEX record_prefix ON record (uid, token_hash) WHERE private = 0;"
        "CREATE INDEX conversation_published ON conversation (n_published) WHERE n_published > 0;"
        "CREATE TABLE meter ("
        " name TEXT PRIMARY KEY NOT NULL,"
        " value INTEGER NOT NULL"
        ") STRICT, WITHOUT ROWID;"
        "PRAGMA user_version = 2;";

/* The step to version 3, as it was, but for the hashes of turns: these are the right ones of the
 * content below. */
static const char version_3[] =
        "ALTER TABLE turn ADD COLUMN token_hash INTEGER NOT NULL DEFAULT 0;"
        "UPDATE turn SET token_hash = CASE n WHEN 0 THEN -6680489046157900083 WHEN 1 THEN "
        "6514724804207875695 ELSE 5753683974312908913 END;"
        "ALTER TABLE conversation ADD COLUMN on_disk INTEGER NOT NULL DEFAULT 0"
        " CHECK (on_disk IN (0, 1));"
        "UPDATE conversation SET on_disk = 1 WHERE id IN (SELECT conversation FROM link);"
        "CREATE INDEX conversation_uid ON conversation (uid);"
        "CREATE INDEX conversation_on_disk ON conversation (updated_usec) WHERE on_disk = 1;"
        "CREATE INDEX conversation_uid_on_disk ON conversation (uid, updated_usec)"
        " WHERE on_disk = 1;"
        "CREATE INDEX record_uid ON record (uid, block);"
        "PRAGMA user_version = 3;";

static const char content_2[] =
        "INSERT INTO conversation (id, uid, name, parent, fork_pos, revision, n_tokens, n_turns,"
        " created_usec, updated_usec, model_weights, model_rules, vocab) VALUES"
        " (3, 1000, 'work', 0, 0, 5, 5, 3, 10, 20, 1, 2, 3),"
        " (4, 1000, 'bare', 0, 0, 1, 0, 0, 11, 21, 1, 2, 3);"
        "INSERT INTO turn (conversation, n, role, first, past, created_usec, text, tokens) VALUES"
        " (3, 0, 'user', 0, 2, 10, 'hello', x'0700000008000000'),"
        " (3, 1, 'assistant', 2, 2, 11, '', x''),"
        " (3, 2, 'user', 2, 5, 12, 'again', x'090000000a0000000b000000');"
        "INSERT INTO record (id, file_key, start, stored_size, raw_size, class, block, n_tokens,"
        " token_hash, uid) VALUES (8, 3, 4096, 4096, 9000, 0, 0, 2, -77, 1000);"
        "INSERT INTO link (conversation, block, class, record, n_valid) VALUES (3, 0, 0, 8, 1);";

static const char content[] =
        "INSERT INTO conversation (id, uid, name, parent, fork_pos, revision, n_tokens, n_turns,"
        " created_usec, updated_usec, model_weights, model_rules, vocab, top_k) VALUES"
        " (3, 1000, 'work', 0, 0, 5, 2, 1, 10, 20, -1, 2, 3, 40),"
        " (4, 1001, 'work', 3, 2, 1, 2, 1, 11, 21, -1, 2, 3, NULL),"
        " (5, 1001, 'play', 0, 0, 1, 0, 0, 12, 22, 0, 0, 3, NULL);"
        "INSERT INTO turn (conversation, n, role, first, past, created_usec, text, tokens) VALUES"
        " (3, 0, 'user', 0, 2, 10, 'hello', x'0700000008000000'),"
        " (4, 0, 'user', 0, 2, 10, 'hello', x'0700000008000000');"
        "INSERT INTO record (id, file_key, start, stored_size, raw_size, class, block, n_tokens,"
        " token_hash) VALUES (8, 1, 4096, 4096, 9000, 0, 0, 2, -77), (9, 1, 8192, 4096, 9000, 0, 0,"
        " 2, 5);"
        "INSERT INTO link (conversation, block, class, record) VALUES (3, 0, 0, 9), (4, 0, 0, 8);";

/* What was said is found, by its owner. */
static void expect_found(struct fixture *f, uint64_t owner, const char *words, uint64_t id) {
        const struct store_list list = {.owner = owner, .by_update = true, .search = words};
        struct store_listed found[4];
        size_t n = 0;
        bool more;

        assert_int_equal(store_list(f->s, &list, NULL, NULL, found, 4, &n, &more, &f->e), 0);
        assert_int_equal(n, 1);
        assert_int_equal(found[0].conv.id, id);
        free(found[0].hit.snippet);
        free(found[0].about);
}

static void test_content_stays(void **state) {
        struct fixture *f = *state;
        struct store_gone links = {}, all = {};
        struct store_conv c;
        int32_t tokens[2];
        int64_t meter = 1;

        make_version_1(f);
        fixture_sql(f, content);
        fixture_open(f);
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
        assert_int_equal(store_conv_get(f->s, 1000, 0, "work", &c, &f->e), 0);
        assert_int_equal(c.id, 3);
        assert_int_equal(c.revision, 5);
        expect_found(f, 1000, "hello", 3);
        expect_found(f, 1001, "hello", 4);
        expect_found(f, 1001, "play", 5);
        assert_int_equal(c.sampling.top_k, 40);
        assert_int_equal(c.n_published, 0);
        assert_false(c.private_memory);
        assert_true(c.model.weights == UINT64_MAX);
        assert_int_equal(store_tokens(f->s, 3, tokens, 2, &f->e), 0);
        assert_int_equal(tokens[1], 8);
        /* Each record belongs to the owner whose conversation has it. */
        assert_int_equal(store_records(f->s, &all, &f->e), 0);
        assert_int_equal(all.n, 2);
        assert_int_equal(all.records[0].owner, 1001);
        assert_int_equal(all.records[1].owner, 1000);
        assert_true(all.records[0].token_hash == (uint64_t)-77);
        assert_false(all.records[0].is_private);
        store_gone_deinit(&all);
        /* Nothing is known of how much of it is still the conversation's. */
        assert_int_equal(store_links(f->s, 3, &links, &f->e), 0);
        assert_int_equal(links.n, 1);
        assert_int_equal(links.records[0].n_valid, 0);
        store_gone_deinit(&links);
        assert_int_equal(store_meter_get(f->s, "written", &meter, &f->e), 0);
        assert_int_equal(meter, 0);
        fixture_expect_sound(f);
        assert_int_equal(fixture_conv(f, 1, "new"), 6);
        fixture_reopen(f);
        fixture_expect_sound(f);
}

/* Of version 2: tokens have hashes afterwards, by which damage is found; what has records is known;
 * pages can be given back. */
static void test_version_2(void **state) {
        struct fixture *f = *state;
        struct store_reading x = {};
        struct store_reclaimed got = {};
        int32_t tokens[5];
        unsigned now;

        make_version_1(f);
        fixture_sql(f, version_2);
        fixture_sql(f, content_2);
        fixture_open(f);
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
        /* It is told once: by the open that did it. */
        assert_int_equal(store_migrated_from(f->s, &now), 2);
        assert_int_equal(now, 11);
        fixture_reopen(f);
        assert_int_equal(store_migrated_from(f->s, &now), 0);
        expect_found(f, 1000, "again", 3);
        assert_int_equal(fixture_count(f, "PRAGMA auto_vacuum"), 2);
        assert_int_equal(store_tokens(f->s, 3, tokens, 5, &f->e), 0);
        for (int i = 0; i < 5; i++)
                assert_int_equal(tokens[i], 7 + i);
        assert_int_equal(
                fixture_count(
                        f, "SELECT count(DISTINCT token_hash) FROM turn WHERE token_hash <> 0"),
                3);
        assert_int_equal(fixture_count(f, "SELECT id FROM conversation WHERE on_disk"), 3);
        fixture_expect_sound(f);
        fixture_sql(f, "UPDATE turn SET tokens = x'09000000ff0000000b000000' WHERE n = 2");
        assert_int_equal(store_tokens(f->s, 3, tokens, 5, &f->e), -ERR_CORRUPT);
        assert_int_equal(store_read(f->s, 1000, 3, NULL, STORE_READ_TOKENS, &x, &f->e), 0);
        assert_true(x.damaged);
        assert_int_equal(x.n_sound_turns, 2);
        assert_int_equal(x.n_tokens, 2);
        store_reading_deinit(&x);
        assert_int_equal(store_reclaim(f->s, 1000, 1, 0, &got, &f->e), 0);
        assert_int_equal(got.gone.n, 1);
        store_reclaimed_deinit(&got);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM conversation WHERE on_disk"), 0);
}

/* Of version 3, as that version made it: no memory leaves anything out, and at the end of the context
 * there is an error, as before. */
static void test_version_3(void **state) {
        struct fixture *f = *state;
        struct store_conv c;

        make_version_1(f);
        fixture_sql(f, version_2);
        fixture_sql(f, content_2);
        fixture_sql(f, version_3);
        fixture_open(f);
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
        expect_found(f, 1000, "again", 3);
        assert_int_equal(store_conv_get(f->s, 1000, 0, "work", &c, &f->e), 0);
        assert_int_equal(c.n_tokens, 5);
        assert_true(gap_is_none(&c.gap));
        assert_int_equal(c.overflow, STORE_OVERFLOW_ERROR);
        assert_int_equal(fixture_count(f, "SELECT sum(n_dropped) FROM transcript"), 0);
        assert_int_equal(
                store_conv_update(f->s, c.id, NULL, NULL, STORE_OVERFLOW_SHIFT, NULL, NULL, &f->e),
                0);
        fixture_reopen(f);
        assert_int_equal(store_conv_get(f->s, 1000, 0, "work", &c, &f->e), 0);
        assert_int_equal(c.overflow, STORE_OVERFLOW_SHIFT);
        fixture_expect_sound(f);
}

/* The step to version 4, as it was. */
static const char version_4[] =
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
        " FROM conversation c JOIN turn t ON t.conversation = c.id ORDER BY c.id, t.n;"
        "PRAGMA user_version = 4;";

/* Of version 4: the turns, which move to another table, are what they were, and there are no tools.
 * From now on a turn may be of a tool's results. */
static void test_version_4(void **state) {
        struct fixture *f = *state;
        struct store_turns turns = {};
        struct store_conv c;
        char *tools = NULL;
        size_t size = 0;

        make_version_1(f);
        fixture_sql(f, version_2);
        fixture_sql(f, content_2);
        fixture_sql(f, version_3);
        fixture_sql(f, version_4);
        fixture_sql(f, "UPDATE conversation SET gap_first = 2, gap_past = 3, overflow = 'shift'"
                       " WHERE id = 3; UPDATE turn SET finish = 'length' WHERE n = 1;"
                       "UPDATE turn SET text = x'ff00' WHERE n = 2;");
        fixture_open(f);
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
        expect_found(f, 1000, "hello", 3);
        assert_int_equal(store_conv_get(f->s, 1000, 0, "work", &c, &f->e), 0);
        assert_int_equal(c.tools_size, 0);
        assert_int_equal(c.gap.to, 3);
        assert_int_equal(store_turns(f->s, c.id, true, &turns, &f->e), 0);
        assert_int_equal(turns.n, 3);
        assert_int_equal(turns.turns[0].role, 1);
        assert_string_equal(turns.turns[0].text, "hello");
        assert_int_equal(turns.turns[1].finish, 3);
        assert_int_equal(turns.turns[2].created_usec, 12);
        assert_int_equal(turns.turns[2].text_size, 2);
        assert_null(turns.turns[2].extra);
        store_turns_deinit(&turns);
        assert_int_equal(store_tools(f->s, c.id, 3, NULL, NULL, &tools, &size, &f->e), 0);
        assert_null(tools);
        assert_int_equal(fixture_count(f, "SELECT sum(n_dropped) FROM transcript"), 1);
        assert_int_equal(fixture_append(f->s, c.id, 4, 1, "[]", &f->e), 0);
        assert_int_equal(
                fixture_count(f, "SELECT count(*) FROM transcript WHERE role = 'tool'"), 1);
}

/* The step to version 5, as it was. */
static const char version_5[] =
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
        " FROM conversation c JOIN turn t ON t.conversation = c.id ORDER BY c.id, t.n;"
        "PRAGMA user_version = 5;";

/* Of version 5: memory is of one class, in blocks of 32 tokens, and stays usable: it is found as a
 * prefix, cut by a rewind, and joined by memory of the same model. */
static void test_version_5(void **state) {
        struct fixture *f = *state;
        const struct fingerprint model = {1, 2};
        struct store_record more = {.index = 1, .n_tokens = 8};
        struct store_gone gone = {}, links = {};
        struct store_prefix found = {};
        int32_t tokens[40];
        uint64_t hash, revision;
        struct store_conv c;
        char sql[1024], hex[40 * 8 + 1];

        for (int i = 0; i < 40; i++) {
                tokens[i] = i;
                snprintf(hex + 8 * i, 9, "%02x000000", i);
        }
        hash = hash64_chain_tokens(tokens, 32, 0);
        make_version_1(f);
        fixture_sql(f, version_2);
        fixture_sql(f, version_3);
        fixture_sql(f, version_4);
        fixture_sql(f, version_5);
        snprintf(sql, sizeof(sql),
                "INSERT INTO conversation (id, uid, name, parent, fork_pos, revision, n_tokens,"
                " n_turns, created_usec, updated_usec, model_weights, model_rules, vocab, on_disk)"
                " VALUES (3, 1000, 'work', 0, 0, 5, 40, 1, 10, 20, 1, 2, 3, 1);"
                "INSERT INTO turn VALUES (3, 0, 'user', 0, 40, NULL, 10, %lld, NULL, 'x', x'%s');"
                "INSERT INTO record (id, file_key, start, stored_size, raw_size, class, block,"
                " n_tokens, token_hash, uid) VALUES (8, 3, 4096, 4096, 9000, 0, 0, 32, %lld, 1000);"
                "INSERT INTO link VALUES (3, 0, 0, 8, 32)",
                (long long)hash64(tokens, sizeof(tokens), 0), hex, (long long)hash);
        fixture_sql(f, sql);
        fixture_open(f);
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
        expect_found(f, 1000, "x", 3);
        fixture_expect_sound(f);
        assert_int_equal(store_conv_get(f->s, 1000, 3, NULL, &c, &f->e), 0);
        assert_memory_equal(&c.shape, &fixture_shape, sizeof(c.shape));
        assert_int_equal(store_prefix_find(f->s, 1000, &model, 3, &fixture_shape, tokens, &hash, 1,
                                 &found, &f->e),
                0);
        assert_int_equal(found.n, 1);
        assert_int_equal(found.records[STORE_CLASS_ALL][0].id, 8);
        store_prefix_deinit(&found);
        more.token_hash = hash64_chain_tokens(tokens + 32, 8, hash);
        assert_int_equal(
                store_link(f->s, 3, &model, &fixture_shape, &more, 1, NULL, 0, &gone, &f->e), 0);
        fixture_expect_sound(f);
        assert_int_equal(store_rewind(f->s, 3, 1,
                                 &(struct store_turn){.role = 1, .start = 0, .end = 30, .text = ""},
                                 NULL, &revision, &gone, &f->e),
                0);
        assert_int_equal(gone.n, 1);
        store_gone_deinit(&gone);
        assert_int_equal(store_links(f->s, 3, &links, &f->e), 0);
        assert_int_equal(links.n, 1);
        assert_int_equal(links.records[0].n_valid, 30);
        store_gone_deinit(&links);
}

/* The step to version 6, as it was. */
static const char version_6[] =
        "ALTER TABLE conversation ADD COLUMN block_tokens INTEGER NOT NULL DEFAULT 32;"
        "ALTER TABLE conversation ADD COLUMN memory_classes INTEGER NOT NULL DEFAULT 1"
        " CHECK (memory_classes BETWEEN 0 AND 7);"
        "ALTER TABLE conversation ADD COLUMN memory_window INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE conversation ADD COLUMN memory_chunk INTEGER NOT NULL DEFAULT 0;"
        "PRAGMA user_version = 6;";

/* Of version 6: nothing is noted, and can be from now on; what uids had is theirs, without a tenant, and
 * tenants of theirs may come. */
static void test_version_6(void **state) {
        static const char *const tags[] = {"old"};
        const struct about about = {
                .has = ABOUT_TITLE | ABOUT_TAGS, .title = "Work", .tags = tags, .n_tags = 1};
        struct fixture *f = *state;
        struct about *got = NULL;
        struct store_conv c;
        uint32_t number;

        make_version_1(f);
        fixture_sql(f, version_2);
        fixture_sql(f, content_2);
        fixture_sql(f, version_3);
        fixture_sql(f, version_4);
        fixture_sql(f, version_5);
        fixture_sql(f, version_6);
        fixture_open(f);
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
        expect_found(f, 1000, "hell", 3);
        fixture_expect_sound(f);
        assert_int_equal(store_about(f->s, 3, NULL, NULL, &got, &f->e), 0);
        assert_null(got);
        assert_int_equal(
                store_conv_update(f->s, 3, NULL, NULL, STORE_OVERFLOW_KEEP, NULL, &about, &f->e),
                0);
        assert_int_equal(store_about(f->s, 3, NULL, NULL, &got, &f->e), 0);
        assert_string_equal(got->title, "Work");
        assert_string_equal(got->tags[0], "old");
        free(got);
        assert_int_equal(store_conv_get(f->s, 1000, 0, "work", &c, &f->e), 0);
        assert_int_equal(c.owner, 1000);
        assert_string_equal(c.tenant, "");
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM transcript WHERE uid = 1000"), 3);
        assert_int_equal(fixture_count(f, "SELECT count(tenant) FROM transcript"), 0);
        assert_int_equal(store_tenant(f->s, 1000, "anna", 1, &number, &f->e), 0);
        fixture_conv(f, owner_make(1000, number), "work");
        fixture_expect_sound(f);
}

/* The step to version 7, as it was, but for the table of the search index, which needs confab's tokenizer: one
 * that is not there is made when the register is opened. */
static const char version_7[] =
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
        "ALTER TABLE turn ADD COLUMN chain INTEGER;"
        "CREATE INDEX turn_chain ON turn (chain, conversation, n) WHERE chain IS NOT NULL;"
        "CREATE INDEX turn_no_chain ON turn (conversation) WHERE chain IS NULL;"
        "PRAGMA user_version = 7;";

/* Of version 7: nothing is pinned, and can be from now on; all else stays. */
static void test_version_7(void **state) {
        struct fixture *f = *state;
        struct store_conv c;
        bool pinned = true;

        make_version_1(f);
        fixture_sql(f, version_2);
        fixture_sql(f, content_2);
        fixture_sql(f, version_3);
        fixture_sql(f, version_4);
        fixture_sql(f, version_5);
        fixture_sql(f, version_6);
        fixture_sql(f, version_7);
        fixture_sql(f, "UPDATE conversation SET title = 'Work', expires_after = 9 WHERE id = 3");
        fixture_open(f);
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
        expect_found(f, 1000, "hell", 3);
        fixture_expect_sound(f);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM conversation WHERE pinned"), 0);
        assert_int_equal(fixture_count(f, "SELECT sum(expires_after) FROM conversation"), 9);
        assert_int_equal(store_conv_get(f->s, 1000, 0, "work", &c, &f->e), 0);
        assert_false(c.pinned);
        assert_int_equal(store_conv_update(
                                 f->s, c.id, NULL, NULL, STORE_OVERFLOW_KEEP, &pinned, NULL, &f->e),
                0);
        fixture_reopen(f);
        assert_int_equal(store_conv_get(f->s, 1000, 0, "work", &c, &f->e), 0);
        assert_true(c.pinned);
        assert_int_equal(c.updated_usec > 20, 1);
        fixture_expect_sound(f);
}

/* The steps to versions 8 and 9, as they were. */
static const char version_9[] =
        "ALTER TABLE conversation ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0"
        " CHECK (pinned IN (0, 1));"
        "CREATE INDEX conversation_parent ON conversation (parent) WHERE parent > 0;"
        "PRAGMA user_version = 9;";

/* Of version 9: what each owner has is counted once, and kept from then on. */
static void test_version_9(void **state) {
        struct fixture *f = *state;
        struct store_gone gone = {};
        struct store_usage u;

        make_version_1(f);
        fixture_sql(f, version_2);
        fixture_sql(f, content_2);
        fixture_sql(f, version_3);
        fixture_sql(f, version_4);
        fixture_sql(f, version_5);
        fixture_sql(f, version_6);
        fixture_sql(f, version_7);
        fixture_sql(f, version_9);
        fixture_open(f);
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 11);
        fixture_expect_sound(f);
        assert_int_equal(store_usage(f->s, 1000, &u, &f->e), 0);
        assert_int_equal(u.n_conversations, 2);
        assert_int_equal(u.n_tokens, 5);
        assert_int_equal(u.day_tokens, 0);
        assert_int_equal(store_conv_delete(f->s, 3, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        assert_int_equal(store_usage(f->s, 1000, &u, &f->e), 0);
        assert_int_equal(u.n_conversations, 1);
        assert_int_equal(u.n_tokens, 0);
        fixture_expect_sound(f);
}

/* Nor does a stop in the step that moves the turns lose any of them. */
static void test_stopped_move(void **state) {
        struct fixture *f = *state;
        struct store *s = NULL;

        make_version_1(f);
        fixture_sql(f, version_2);
        fixture_sql(f, content_2);
        fixture_sql(f, version_3);
        fixture_sql(f, version_4);
        fixture_sql(f, "CREATE TABLE turn_extra (x)"); /* its name is that of the new index */
        assert_int_equal(store_open(&s, f->path, &f->e), -ERR_CORRUPT);
        assert_non_null(strstr(f->e.msg, "schema version 5"));
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 4);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM turn"), 3);
        fixture_sql(f, "DROP TABLE turn_extra");
        fixture_open(f);
        fixture_expect_sound(f);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM turn"), 3);
}

/* A migrated register has the same tables and indices as a new one. */
static void test_same_form(void **state) {
        struct fixture *f = *state;
        char attach[640];

        make_version_1(f);
        fixture_open(f);
        f->s = store_free(f->s);
        /* A new register beside it. */
        f->path[strlen(f->path) - 1] = 'c';
        fixture_open(f);
        f->s = store_free(f->s);
        snprintf(attach, sizeof(attach),
                "ATTACH '%s' AS new; CREATE TEMP TABLE t (x NOT NULL CHECK (x = 0));"
                "INSERT INTO t SELECT count(*) FROM (SELECT type, name, sql FROM new.sqlite_schema"
                " EXCEPT SELECT type, name, sql FROM main.sqlite_schema);"
                "INSERT INTO t SELECT count(*) FROM (SELECT type, name, sql FROM main.sqlite_schema"
                " EXCEPT SELECT type, name, sql FROM new.sqlite_schema);",
                f->path);
        f->path[strlen(f->path) - 1] = 'b';
        fixture_sql(f, attach);
        f->path[strlen(f->path) - 1] = 'c';
        assert_int_equal(unlink(f->path), 0);
        f->path[strlen(f->path) - 1] = 'b';
}

/* The step is one transaction: what stops in it leaves version 1, which the next start takes on. */
static void test_stopped_migration(void **state) {
        struct fixture *f = *state;
        struct store *s = NULL;

        make_version_1(f);
        fixture_sql(f, content);
        fixture_sql(f, "CREATE TABLE meter (x)"); /* the last statement fails */
        assert_int_equal(store_open(&s, f->path, &f->e), -ERR_CORRUPT);
        assert_non_null(strstr(f->e.msg, "schema version 2"));
        assert_int_equal(fixture_count(f, "PRAGMA user_version"), 1);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM pragma_table_info('record')"), 9);
        fixture_sql(f, "DROP TABLE meter");
        fixture_open(f);
        fixture_expect_sound(f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test_closed(test_content_stays),
                store_test_closed(test_version_2),
                store_test_closed(test_version_3),
                store_test_closed(test_version_4),
                store_test_closed(test_version_5),
                store_test_closed(test_version_6),
                store_test_closed(test_version_7),
                store_test_closed(test_version_9),
                store_test_closed(test_stopped_move),
                store_test_closed(test_same_form),
                store_test_closed(test_stopped_migration),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
