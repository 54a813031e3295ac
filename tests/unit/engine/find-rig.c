/* SPDX-License-Identifier: MIT */
#include "find-rig.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "util/test.h"

struct answer found;
static struct answer A;

/* --- messages --- */

void put(struct list_of *l, enum engine_role role, const char *text) {
        assert_true(l->n < 64);
        l->m[l->n++] =
                (struct engine_message){.role = role, .text = text, .text_size = strlen(text)};
}

void put_call(struct list_of *l, const char *name, const char *arguments) {
        struct engine_message *m = &l->m[l->n - 1];
        static unsigned id;
        static char ids[1024][16];

        assert_true(l->n_calls < 64);
        snprintf(ids[id % 1024], sizeof(ids[0]), "call_%u", id);
        l->calls[l->n_calls] = (struct engine_call){ids[id++ % 1024], name, arguments};
        if (m->n_calls++ == 0)
                m->calls = &l->calls[l->n_calls];
        l->n_calls++;
}

void put_said(struct list_of *l, const char *text, const char *reasoning, const char *name,
        const char *arguments) {
        put(l, ENGINE_ASSISTANT, text);
        l->m[l->n - 1].reasoning = reasoning;
        if (name)
                put_call(l, name, arguments);
}

void put_one_more(struct list_of *l, const char *text) {
        struct engine_message *m = &l->m[l->n - 1];

        assert_true(l->n_results < 64);
        l->results[l->n_results] = (struct engine_result){"another id", NULL, text};
        if (m->n_results++ == 0)
                m->results = &l->results[l->n_results];
        l->n_results++;
}

void put_result(struct list_of *l, const char *text) {
        put(l, ENGINE_TOOL, "");
        l->m[l->n - 1].text = NULL;
        put_one_more(l, text);
}

/* --- conversations --- */

static void go(struct erig *r, struct engine_request *q, const char *reply) {
        q->want_logprobs = false;
        q->max_tokens = reply ? 400 : 0;
        if (reply && *reply) {
                q->constraint = ENGINE_CONSTRAINT_GBNF;
                q->constraint_text = tools_just(reply);
                q->constraint_size = strlen(q->constraint_text);
        }
        if (erig_do(r, q, &A) != ENGINE_DONE)
                fail_msg("%s", A.err.msg);
        if (reply && *reply)
                assert_int_equal(A.finish, ENGINE_FINISH_STOP);
}

void find_say(struct erig *r, uint64_t conv, const char *message, const char *reply) {
        struct engine_request q = erig_say_request(conv, message ? message : "", 0);

        if (!message)
                q.input = ENGINE_INPUT_NONE;
        go(r, &q, reply);
}

void find_answer(
        struct erig *r, uint64_t conv, const char *const *texts, size_t n, const char *reply) {
        struct engine_request q = erig_request(ENGINE_GET, conv);
        struct engine_result results[8];
        const struct engine_turn *last;
        size_t k = 0;
        static struct answer G;

        q.want_turns = q.want_tokens = q.want_parts = true;
        assert_int_equal(erig_do(r, &q, &G), ENGINE_CONV);
        last = &G.turns[G.n_turns - 1];
        for (size_t i = 0; i < last->n_parts && k < n; i++)
                if (last->parts[i].kind == ENGINE_PART_CALL) {
                        results[k] = (struct engine_result){last->parts[i].call_id, NULL, texts[k]};
                        k++;
                }
        assert_int_equal(k, n);
        q = erig_say_request(conv, "", 0);
        q.input = ENGINE_INPUT_RESULTS;
        q.text = NULL;
        q.results = results;
        q.n_results = n;
        go(r, &q, reply);
        answer_reset(&G);
}

/* --- finding --- */

static void find(struct erig *r, uint64_t conv, const struct list_of *l, const char *tools,
        const char *session) {
        struct engine_request q = erig_request(ENGINE_FIND, conv);

        q.messages = l->m;
        q.n_messages = l->n;
        q.tools = tools;
        q.session = session;
        answer_reset(&found);
        if (erig_do(r, &q, &found) != ENGINE_FOUND)
                fail_msg("%s", found.err.msg);
}

void find_as(struct erig *r, const struct list_of *l, const char *tools, const char *session) {
        find(r, 0, l, tools, session);
}

void find_in(struct erig *r, uint64_t conv, const struct list_of *l, const char *tools) {
        find(r, conv, l, tools, NULL);
}

static void check_found(uint64_t conv, uint32_t at_turn, uint32_t n) {
        if (found.conv.id != conv || found.found.at_turn != at_turn || found.found.n_messages != n)
                fail_msg("conversation %llu, turn %u, %u messages; not %llu, %u, %u",
                        (unsigned long long)found.conv.id, found.found.at_turn,
                        found.found.n_messages, (unsigned long long)conv, at_turn, n);
}

void expect_with(struct erig *r, const struct list_of *l, const char *tools, uint64_t conv,
        uint32_t at_turn, uint32_t n) {
        find_as(r, l, tools, NULL);
        check_found(conv, at_turn, n);
}

void expect_in(struct erig *r, uint64_t conv, const struct list_of *l, const char *tools,
        uint32_t at_turn, uint32_t n) {
        find_in(r, conv, l, tools);
        check_found(conv, at_turn, n);
}

void expect(struct erig *r, const struct list_of *l, uint64_t conv, uint32_t at_turn, uint32_t n) {
        expect_with(r, l, NULL, conv, at_turn, n);
}

/* --- the register --- */

static sqlite3 *open_register(struct erig *r) {
        char path[128];
        sqlite3 *db = NULL;

        snprintf(path, sizeof(path), "%s/register.db", r->dir);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        sqlite3_busy_timeout(db, 5000);
        return db;
}

int64_t find_sql(struct erig *r, const char *sql) {
        sqlite3 *db = open_register(r);
        sqlite3_stmt *st = NULL;
        int64_t v = 0;
        int rc;

        if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        rc = sqlite3_step(st);
        if (rc == SQLITE_ROW)
                v = sqlite3_column_int64(st, 0);
        else if (rc != SQLITE_DONE)
                fail_msg("%s: %s", sql, sqlite3_errmsg(db));
        sqlite3_finalize(st);
        sqlite3_close(db);
        return v;
}

struct chains {
        struct {
                int64_t conv, n, chain;
                bool known;
        } of[4096];
        size_t n;
};

static void read_chains(struct erig *r, struct chains *ret) {
        sqlite3 *db = open_register(r);
        sqlite3_stmt *st = NULL;

        ret->n = 0;
        assert_int_equal(sqlite3_prepare_v2(db,
                                 "SELECT conversation, n, chain, chain IS NOT NULL FROM turn "
                                 "ORDER BY conversation, n",
                                 -1, &st, NULL),
                SQLITE_OK);
        while (sqlite3_step(st) == SQLITE_ROW) {
                assert_true(ret->n < 4096);
                ret->of[ret->n].conv = sqlite3_column_int64(st, 0);
                ret->of[ret->n].n = sqlite3_column_int64(st, 1);
                ret->of[ret->n].chain = sqlite3_column_int64(st, 2);
                ret->of[ret->n++].known = sqlite3_column_int(st, 3);
        }
        sqlite3_finalize(st);
        sqlite3_close(db);
}

void find_check_chains(struct erig *r) {
        static struct chains before, after;

        erig_stop(r, true);
        read_chains(r, &before);
        find_sql(r, "UPDATE turn SET chain = NULL");
        erig_start(r);
        read_chains(r, &after);
        assert_int_equal(before.n, after.n);
        for (size_t i = 0; i < before.n; i++) {
                if (!before.of[i].known || !after.of[i].known)
                        fail_msg("turn %lld of %lld has no chain", (long long)before.of[i].n,
                                (long long)before.of[i].conv);
                if (before.of[i].chain != after.of[i].chain)
                        fail_msg("turn %lld of %lld: chain %llx, not %llx",
                                (long long)before.of[i].n, (long long)before.of[i].conv,
                                (unsigned long long)before.of[i].chain,
                                (unsigned long long)after.of[i].chain);
        }
}
