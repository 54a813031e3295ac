/* SPDX-License-Identifier: MIT */
#pragma once
/* A register in a folder of its own, and helpers to fill it. */
#include "base/err.h"
#include "base/hash.h"
#include "store/store.h"
#include "util/test.h"
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
        struct store *s;
        struct err e;
};

static inline void fixture_open(struct fixture *f) {
        int r = store_open(&f->s, f->path, &f->e);

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

        assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
        sqlite3_busy_timeout(db, 5000);
        if (sqlite3_exec(db, sql, NULL, NULL, &msg) != SQLITE_OK)
                fail_msg("%s: %s", sql, msg);
        sqlite3_close(db);
}

static inline int64_t fixture_count(struct fixture *f, const char *sql) {
        sqlite3_stmt *st;
        sqlite3 *db;
        int64_t v;

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
