/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A register in a folder of its own, and helpers to fill it. With CONFAB_TEST_POSTGRESQL=URI in the environment it is a schema
 * of its own on that server (tests/util/with-postgres.py), and the same tests are of the other backend.
 */
#include "base/err.h"
#include "base/hash.h"
#include "store/store.h"
#include "util/test.h"
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of a model with attention over everything alone. */
static const struct store_shape fixture_shape = {
        .block_tokens = 32, .classes = 1u << STORE_CLASS_ALL};

struct fixture {
        char dir[64], path[96];
        char uri[512]; /* of the schema; empty: the register is a file */
        unsigned schema;
        bool spoilt; /* its tables are not what they were */
        struct store *s;
        struct err e;
};

static inline bool fixture_is_server(const struct fixture *f) {
        return f->uri[0];
}

/* What is of files alone, or would damage what a server does not let one damage. with-postgres.py does not count it. */
#define fixture_of_file(f)                                                                         \
        do {                                                                                       \
                if (fixture_is_server(f)) {                                                        \
                        printf("SKIP: of a file\n");                                               \
                        skip();                                                                    \
                }                                                                                  \
        } while (0)

/* Another daemon's store on the same register: of machine @machine. */
static inline int fixture_open_machine(
        struct fixture *f, const char *machine, uint64_t lease_usec, struct store **ret) {
        const struct store_server server = {.uri = f->uri,
                .machine = machine,
                .name = "host",
                .wait_usec = 20000000,
                .lease_usec = lease_usec};

        return store_open_server(ret, &server, &f->e);
}

/* A connection past the store. */
static inline PGconn *fixture_connect(const struct fixture *f) {
        PGconn *conn = PQconnectdb(f->uri);

        if (PQstatus(conn) != CONNECTION_OK)
                fail_msg("%s", PQerrorMessage(conn));
        return conn;
}

/* The first value of the answer; -1: there is none. */
static inline int64_t fixture_ask_server(const struct fixture *f, const char *sql) {
        PGconn *conn = fixture_connect(f);
        PGresult *result = PQexec(conn, sql);
        int64_t v = -1;

        if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
                fail_msg("%s: %s", sql, PQerrorMessage(conn));
        if (PQntuples(result) > 0)
                v = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
        PQfinish(conn);
        return v;
}

/* SQL of SQLite's as PostgreSQL has it, as far as tests need it: x'00' and BLOB. */
static inline char *fixture_translate(const char *sql) {
        char *out = calloc(1, 2 * strlen(sql) + 1), *to = out;

        assert_non_null(out);
        while (*sql) {
                bool begins = sql[0] == 'x' && sql[1] == '\'';

                if (begins)
                        to = stpcpy(to, "'\\x");
                else if (strncmp(sql, " BLOB", 5) == 0)
                        to = stpcpy(to, " bytea");
                else
                        *to++ = *sql;
                sql += begins ? 2 : strncmp(sql, " BLOB", 5) == 0 ? 5 : 1;
        }
        return out;
}

/* Schemas that no test uses now: making all tables takes longer than most tests do. */
static unsigned fixture_spare[16], fixture_n_spare, fixture_n_schemas;

/* As new: no rows, and the first numbers. */
#define FIXTURE_CLEAR                                                                              \
        "DO $$ DECLARE t text; BEGIN "                                                             \
        "FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() "            \
        "AND tablename NOT IN ('confab', 'conversation', 'turn', 'machine') LOOP "                 \
        "EXECUTE 'DELETE FROM ' || t; END LOOP; "                                                  \
        "DELETE FROM turn; DELETE FROM conversation; DELETE FROM usage; DELETE FROM machine; "     \
        "FOR t IN SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema() LOOP " \
        "EXECUTE 'ALTER SEQUENCE ' || t || ' RESTART'; END LOOP; END $$"

static inline void fixture_make_schema(struct fixture *f) {
        const char *server = getenv("CONFAB_TEST_POSTGRESQL");
        bool spare = fixture_n_spare > 0;
        char sql[128];

        if (!server)
                return;
        f->schema = spare ? fixture_spare[--fixture_n_spare] : ++fixture_n_schemas;
        snprintf(f->uri, sizeof(f->uri), "%s", server);
        snprintf(sql, sizeof(sql), "CREATE SCHEMA t%d_%u", (int)getpid(), f->schema);
        if (!spare)
                (void)fixture_ask_server(f, sql);
        snprintf(f->uri, sizeof(f->uri), "%s%coptions=-csearch_path%%3Dt%d_%u", server,
                strchr(server, '?') ? '&' : '?', (int)getpid(), f->schema);
        (void)fixture_ask_server(
                f, spare ? FIXTURE_CLEAR
                         : "CREATE FUNCTION zeroblob(integer) RETURNS bytea LANGUAGE "
                           "sql AS 'SELECT decode(repeat(''00'', $1), ''hex'')'");
}

static inline void fixture_open(struct fixture *f) {
        int r = fixture_is_server(f) ? fixture_open_machine(f, "one", 30000000, &f->s)
                                     : store_open(&f->s, f->path, &f->e);

        if (r < 0)
                print_error("%s\n", f->e.msg);
        assert_int_equal(r, 0);
}

static inline void fixture_reopen(struct fixture *f) {
        f->s = store_free(f->s);
        fixture_open(f);
}

static inline int fixture_setup_closed(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        strcpy(f->dir, "/tmp/confab-store-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        snprintf(f->path, sizeof(f->path), "%s/register.db", f->dir);
        fixture_make_schema(f);
        *state = f;
        return 0;
}

static inline int fixture_setup(void **state) {
        fixture_setup_closed(state);
        fixture_open(*state);
        return 0;
}

static inline int fixture_teardown(void **state) {
        static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
        struct fixture *f = *state;
        char path[128];

        store_free(f->s);
        if (fixture_is_server(f) && !f->spoilt && fixture_n_spare < 16)
                fixture_spare[fixture_n_spare++] = f->schema;
        for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
                snprintf(path, sizeof(path), "%s%s", f->path, suffixes[i]);
                unlink(path);
        }
        rmdir(f->dir);
        free(f);
        return 0;
}

#define store_test(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
#define store_test_closed(f)                                                                       \
        cmocka_unit_test_setup_teardown(f, fixture_setup_closed, fixture_teardown)

/* SQL past the store, as a damaged disk or a curious administrator would. */
static inline void fixture_sql(struct fixture *f, const char *sql) {
        char *msg = NULL;
        sqlite3 *db;

        if (fixture_is_server(f)) {
                char *translated = fixture_translate(sql);

                (void)fixture_ask_server(f, translated);
                free(translated);
                return;
        }
        assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
        sqlite3_busy_timeout(db, 5000);
        if (sqlite3_exec(db, sql, NULL, NULL, &msg) != SQLITE_OK)
                fail_msg("%s: %s", sql, msg);
        sqlite3_close(db);
}

/* The same past the rules of the tables, as a damaged disk would; false: a server does not let that happen. */
static inline bool fixture_damage(struct fixture *f, const char *sql) {
        char all[1024], *translated;
        PGresult *result;
        PGconn *conn;
        bool done;

        if (!fixture_is_server(f)) {
                snprintf(all, sizeof(all),
                        "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; %s", sql);
                fixture_sql(f, all);
                return true;
        }
        f->spoilt = strstr(sql, "TABLE");
        translated = fixture_translate(sql);
        snprintf(all, sizeof(all), "SET session_replication_role = replica; %s", translated);
        conn = fixture_connect(f);
        result = PQexec(conn, all);
        done = PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
        PQfinish(conn);
        free(translated);
        return done;
}

static inline int64_t fixture_count(struct fixture *f, const char *sql) {
        sqlite3_stmt *st;
        sqlite3 *db;
        int64_t v;

        if (fixture_is_server(f))
                return fixture_ask_server(f, sql);
        assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(st), SQLITE_ROW);
        v = sqlite3_column_int64(st, 0);
        sqlite3_finalize(st);
        sqlite3_close(db);
        return v;
}

static inline uint64_t fixture_conv(struct fixture *f, uint64_t owner, const char *name) {
        struct store_conv c = {.owner = owner};

        snprintf(c.name, sizeof(c.name), "%s", name);
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        return c.id;
}

/* By rising id, behind @after; at most 16. */
static inline int fixture_list(struct store *s, uint64_t owner, uint64_t after,
        struct store_conv *out, size_t max, size_t *ret_n, struct err *e) {
        const struct store_list list = {.owner = owner, .goes_on = true, .after = {.id = after}};
        struct store_listed listed[16];
        bool more;
        int r = store_list(s, &list, NULL, NULL, listed, max, ret_n, &more, e);

        for (size_t i = 0; i < max; i++)
                free(listed[i].about);
        for (size_t i = 0; r == 0 && i < *ret_n; i++)
                out[i] = listed[i].conv;
        return r;
}

/* Token @pos of every conversation here: any function of the position will do. */
static inline int32_t fixture_token(uint32_t pos) {
        return (int32_t)((pos * 2654435761u) >> 1);
}

/* One turn of @n tokens at the end. */
static inline int fixture_append(
        struct store *s, uint64_t id, uint32_t role, uint32_t n, const char *text, struct err *e) {
        const struct figures figures = {.model = "a model", .seed = UINT64_MAX, .n_generated = n};
        struct store_conv c;
        struct store_turn t;
        int32_t *tokens;
        uint64_t revision;
        int r = store_conv_get(s, OWNER_ANY, id, NULL, &c, e);

        if (r < 0)
                return r;
        tokens = calloc(n + 1, sizeof(*tokens));
        if (!tokens)
                return -ERR_NOMEM;
        for (uint32_t i = 0; i < n; i++)
                tokens[i] = fixture_token(c.n_tokens + i);
        t = (struct store_turn){.role = role,
                .start = c.n_tokens,
                .end = c.n_tokens + n,
                .finish = role == 2,
                .figures = role == 2 ? &figures : NULL,
                .text = text,
                .text_size = strlen(text)};
        r = store_append(s, id, &t, 1, tokens, n, &revision, e);
        free(tokens);
        if (r == 0)
                assert_int_equal(revision, c.revision + 1);
        return r;
}

static inline void fixture_say(struct fixture *f, uint64_t id, uint32_t n, const char *text) {
        assert_int_equal(fixture_append(f->s, id, 1, n, text, &f->e), 0);
}

/* All turns and tokens of @id are readable, and the tokens are what fixture_say() wrote. */
static inline void fixture_verify(
        struct store *s, uint64_t id, uint32_t n_turns, uint32_t n_tokens) {
        struct store_turns ts = {};
        struct store_conv c;
        struct err e = {};
        int32_t *tokens = calloc(n_tokens + 1, sizeof(*tokens));

        assert_non_null(tokens);
        assert_int_equal(store_conv_get(s, OWNER_ANY, id, NULL, &c, &e), 0);
        assert_int_equal(c.n_turns, n_turns);
        assert_int_equal(c.n_tokens, n_tokens);
        assert_int_equal(store_tokens(s, id, tokens, n_tokens, &e), 0);
        for (uint32_t i = 0; i < n_tokens; i++)
                assert_int_equal(tokens[i], fixture_token(i));
        assert_int_equal(store_turns(s, id, true, &ts, &e), 0);
        assert_int_equal(ts.n, n_turns);
        store_turns_deinit(&ts);
        free(tokens);
}

/* Let blocks [from, to) of class 0 lie in new records of file @key; ids go to @ids[index]. */
static inline void fixture_link(struct fixture *f, uint64_t id, uint64_t key, uint32_t from,
        uint32_t to, uint64_t *ids, size_t want_gone) {
        struct store_record links[64] = {};
        struct fingerprint model = {11, 12};
        struct store_gone gone = {};

        for (uint32_t i = from; i < to; i++)
                links[i - from] = (struct store_record){.file_key = key,
                        .offset = 4096 * (uint64_t)i,
                        .stored_size = 4096,
                        .raw_size = 8192,
                        .index = i,
                        .n_tokens = 32,
                        .token_hash = UINT64_MAX - i};
        assert_int_equal(store_link(f->s, id, &model, &fixture_shape, links, to - from, NULL, 0,
                                 &gone, &f->e),
                0);
        assert_int_equal(gone.n, want_gone);
        for (uint32_t i = from; i < to; i++) {
                assert_int_not_equal(links[i - from].id, 0);
                if (ids)
                        ids[i] = links[i - from].id;
        }
        store_gone_deinit(&gone);
}

/* A conversation of these tokens, in turns of 50, whose first @n_linked blocks (of 32, the last
 * perhaps not full) have records with their true hashes. */
static inline uint64_t fixture_history(struct fixture *f, uint64_t owner, const char *name,
        const int32_t *tokens, uint32_t n, uint32_t n_linked, bool private_memory) {
        struct store_conv c = {.owner = owner, .private_memory = private_memory};
        struct fingerprint model = {11, 12};
        static uint64_t place;
        struct store_gone gone = {};
        struct store_record links[64] = {};
        struct store_turn turns[64] = {};
        uint32_t n_turns = 0;
        uint64_t hash = 0;

        snprintf(c.name, sizeof(c.name), "%s", name);
        for (uint32_t at = 0; at < n; at += 50, n_turns++)
                turns[n_turns] = (struct store_turn){
                        .role = n_turns % 2 ? 2 : 1, .start = at, .end = at + 50 < n ? at + 50 : n};
        assert_int_equal(store_conv_create(f->s, &c, turns, n_turns, tokens, n, &f->e), 0);
        for (uint32_t i = 0; i < n_linked; i++) {
                uint32_t in_block = n - 32 * i < 32 ? n - 32 * i : 32;

                hash = hash64_chain_tokens(tokens + 32 * i, in_block, hash);
                links[i] = (struct store_record){.file_key = c.id,
                        .offset = 4096 * place++,
                        .stored_size = 4096,
                        .raw_size = 8192,
                        .index = i,
                        .n_tokens = in_block,
                        .token_hash = hash};
        }
        assert_int_equal(store_link(f->s, c.id, &model, &fixture_shape, links, n_linked, NULL, 0,
                                 &gone, &f->e),
                0);
        assert_int_equal(gone.n, 0);
        return c.id;
}

/* Link these cells of @id, with the true hashes of its memory @tokens; a cell of attention is as full as
 * @n tokens make it. */
static inline void fixture_link_cells(struct fixture *f, uint64_t id,
        const struct store_shape *shape, const int32_t *tokens, uint32_t n,
        const struct store_cell *cells, size_t n_cells) {
        struct fingerprint model = {11, 12};
        struct store_record links[64] = {};
        struct store_gone gone = {};
        static uint64_t place = 1 << 20;

        assert_true(n_cells <= 64);
        for (size_t i = 0; i < n_cells; i++) {
                uint32_t ct = store_cell_tokens(shape, cells[i].block_class);
                uint32_t start = cells[i].index * ct, end = start + ct < n ? start + ct : n;
                uint64_t hash = 0;

                for (uint32_t at = 0; at < end; at += shape->block_tokens)
                        hash = hash64_chain_tokens(tokens + at,
                                end - at < shape->block_tokens ? end - at : shape->block_tokens,
                                hash);
                links[i] = (struct store_record){.file_key = id,
                        .offset = 4096 * place++,
                        .stored_size = 4096,
                        .raw_size = 8192,
                        .block_class = cells[i].block_class,
                        .index = cells[i].index,
                        .n_tokens = end - start,
                        .token_hash = hash};
        }
        assert_int_equal(
                store_link(f->s, id, &model, shape, links, n_cells, NULL, 0, &gone, &f->e), 0);
        store_gone_deinit(&gone);
}

/* @n tokens that only @stream has. */
static inline void fixture_tokens(int32_t *out, uint32_t n, uint32_t stream) {
        for (uint32_t i = 0; i < n; i++)
                out[i] = (int32_t)((i * 2654435761u + stream * 40503u) >> 1);
}

/* A finding of the check, as counted by kind. */
struct fixture_findings {
        unsigned n, of[16];
        char first[256];
};
static inline void fixture_note(void *arg, const struct store_finding *f) {
        struct fixture_findings *x = arg;

        if (x->n++ == 0)
                snprintf(x->first, sizeof(x->first), "%s", f->text);
        assert_true(f->kind < 16 && strlen(f->text) > 0);
        x->of[f->kind]++;
}
static inline void fixture_expect_sound(struct fixture *f) {
        struct fixture_findings x = {};
        struct store_census census;

        assert_int_equal(store_check(f->s, fixture_note, &x, &census, &f->e), 0);
        if (x.n)
                fail_msg("%u findings, the first: %s", x.n, x.first);
        assert_int_equal(census.n_findings, 0);
}
