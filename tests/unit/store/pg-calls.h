/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * For tests of a register on a server: a conversation, every call that changes one, in one form; what became of it, by SQL; and
 * others on the server who hold a lock, break a transaction, or end all connections.
 */
#include "base/about.h"
#include "base/owner.h"
#include "base/util.h"
#include "store-fixture.h"
#include <pthread.h>
#include <stdatomic.h>

enum { N_TOKENS = 130, N_TURNS = 3, N_LINKED = 4 };

/* --- a conversation, and calls that change one --- */

static const struct fingerprint model = {11, 12};

static inline void fill(int32_t tokens[N_TOKENS]) {
        fixture_tokens(tokens, N_TOKENS, 1);
}

/* Three turns, and records of four blocks on the disk of machine one. */
static inline uint64_t make_conv(struct fixture *f, uint64_t owner, const char *name) {
        int32_t tokens[N_TOKENS];

        fill(tokens);
        return fixture_history(f, owner, name, tokens, N_TOKENS, N_LINKED, false);
}

static inline uint64_t owner_of(struct store *s, uint64_t id) {
        struct store_conv c = {};

        (void)store_conv_get(s, OWNER_ANY, id, NULL, &c, NULL);
        return c.owner;
}

static inline int call_append(struct store *s, uint64_t id, struct err *e) {
        static const int32_t tokens[] = {1, 2, 3};
        static const struct store_work work = {.day = 7, .n_tokens = 3};
        const struct store_turn t = {.role = 1,
                .start = N_TOKENS,
                .end = N_TOKENS + 3,
                .text = "more owls",
                .text_size = 9,
                .work = &work};
        uint64_t revision;

        return store_append(s, id, &t, 1, tokens, 3, &revision, e);
}

static inline int call_replace(struct store *s, uint64_t id, struct err *e) {
        static const int32_t tokens[] = {1, 2, 3};
        const struct store_turn t = {
                .role = 1, .start = 50, .end = 53, .text = "other", .text_size = 5};
        struct store_gone gone = {};
        uint64_t revision;
        int r = store_replace(s, id, 1, NULL, NULL, &t, 1, tokens, 3, &revision, &gone, e);

        store_gone_deinit(&gone);
        return r;
}

static inline int call_rewind(struct store *s, uint64_t id, struct err *e) {
        struct store_gone gone = {};
        uint64_t revision;
        int r = store_rewind(s, id, 1, NULL, NULL, &revision, &gone, e);

        store_gone_deinit(&gone);
        return r;
}

static inline int call_update(struct store *s, uint64_t id, struct err *e) {
        static const char *const tags[] = {"x", "y"};
        const struct about about = {
                .has = ABOUT_TITLE | ABOUT_TAGS, .title = "Title", .tags = tags, .n_tags = 2};

        return store_conv_update(s, id, "renamed", NULL, STORE_OVERFLOW_SHIFT, NULL, &about, e);
}

static inline int call_publish(struct store *s, uint64_t id, struct err *e) {
        return store_conv_publish(s, id, 40, e);
}

static inline int call_set_private(struct store *s, uint64_t id, struct err *e) {
        return store_conv_set_private(s, id, true, e);
}

/* A new record of the last block, in place of the one that is there. */
static inline int call_link(struct store *s, uint64_t id, struct err *e) {
        struct store_record link = {.file_key = id,
                .offset = (UINT64_C(1) << 40) + 4096 * id,
                .stored_size = 4096,
                .raw_size = 8192,
                .index = N_LINKED - 1,
                .n_tokens = 32};
        struct store_gone gone = {};
        int32_t tokens[N_TOKENS];
        int r;

        fill(tokens);
        for (uint32_t i = 0; i < N_LINKED; i++)
                link.token_hash = hash64_chain_tokens(tokens + 32 * i, 32, link.token_hash);
        r = store_link(s, id, &model, &fixture_shape, &link, 1, NULL, 0, &gone, e);
        store_gone_deinit(&gone);
        return r;
}

static inline int call_unlink_from(struct store *s, uint64_t id, struct err *e) {
        struct store_gone gone = {};
        int r = store_unlink_from(s, id, 64, &gone, e);

        store_gone_deinit(&gone);
        return r;
}

static inline int call_unlink_cells(struct store *s, uint64_t id, struct err *e) {
        const struct store_cell cell = {.block_class = STORE_CLASS_ALL, .index = 3};
        struct store_gone gone = {};
        int r = store_unlink_cells(s, id, &cell, 1, &gone, e);

        store_gone_deinit(&gone);
        return r;
}

static inline int call_carry(struct store *s, uint64_t id, struct err *e) {
        static const uint32_t ends[] = {20, 20, 75};
        int32_t tokens[75];
        const struct store_carried x = {.model = {3, 4},
                .vocab = 5,
                .ends = ends,
                .n_turns = N_TURNS,
                .tokens = tokens,
                .n_tokens = 75};
        struct store_gone gone = {};
        uint64_t revision;
        int r;

        fixture_tokens(tokens, 75, 9);
        r = store_carry(s, id, &x, &revision, &gone, e);
        store_gone_deinit(&gone);
        return r;
}

/* For who has nothing of it in RAM. */
static inline int lease_take(
        struct store *s, uint64_t id, struct store_holder *ret_holder, struct err *e) {
        uint64_t fence;
        int r = store_lease_prepare(s, id, &fence, ret_holder, e);

        return r == 1 && !store_lease_confirm(s, id, fence)
                       ? err_set(e, ERR_MOVED, "it was lost meanwhile")
                       : r;
}

static inline int call_take(struct store *s, uint64_t id, struct err *e) {
        return lease_take(s, id, NULL, e);
}

static inline int call_delete(struct store *s, uint64_t id, struct err *e) {
        struct store_gone gone = {};
        int r = store_conv_delete(s, id, &gone, e);

        store_gone_deinit(&gone);
        return r;
}

static inline int call_drop(struct store *s, uint64_t id, struct err *e) {
        return store_lease_drop(s, id, 0, e);
}

typedef int call_fn(struct store *s, uint64_t id, struct err *e);
struct call {
        const char *name;
        call_fn *fn;
};

/* Those that only the holder may make. */
static const struct call calls[] = {
        {"append", call_append},
        {"replace", call_replace},
        {"rewind", call_rewind},
        {"update", call_update},
        {"publish", call_publish},
        {"set_private", call_set_private},
        {"link", call_link},
        {"unlink_from", call_unlink_from},
        {"unlink_cells", call_unlink_cells},
        {"carry", call_carry},
        {"drop", call_drop},
        {"delete", call_delete},
};

static inline int call_create(struct store *s, uint64_t id, struct err *e) {
        static const int32_t tokens[] = {1, 2, 3};
        const struct store_turn t = {.role = 1, .end = 3, .text = "new", .text_size = 3};
        struct store_conv c = {.owner = owner_of(s, id), .name = "new"};

        return store_conv_create(s, &c, &t, 1, tokens, 3, e);
}

static inline int call_fork(struct store *s, uint64_t id, struct err *e) {
        struct store_conv child = {.name = "child"};

        return store_conv_fork(s, id, 2, NULL, NULL, &child, e);
}

static inline int call_tenant(struct store *s, uint64_t id, struct err *e) {
        uint32_t number = 0;
        int r = store_tenant(s, owner_uid(owner_of(s, id)), "pat", 9, &number, e);

        return r == 0 && number == 0 ? -ERR_CORRUPT : r;
}

static inline int call_overrides(struct store *s, uint64_t id, struct err *e) {
        const struct quota_subject subject = {
                .kind = QUOTA_OF_USER, .number = owner_uid(owner_of(s, id)), .label = ""};
        const struct store_override_change changes[] = {
                {.quota = QUOTA_TOKENS, .value = 1000}, {.quota = QUOTA_DISK, .value = QUOTA_NONE}};

        return store_overrides_change(s, &subject, changes, 2, e);
}

static inline int call_work(struct store *s, uint64_t id, struct err *e) {
        const struct store_work work = {.day = 3, .n_tokens = 5};

        return store_work(s, owner_of(s, id), &work, e);
}

static inline int call_chains(struct store *s, uint64_t id, struct err *e) {
        const struct store_chain_of chain = {.conv = id, .turn = 1, .chain = 4711};

        return store_chains_set(s, &chain, 1, e);
}

static inline int call_reclaim(struct store *s, uint64_t id, struct err *e) {
        struct store_reclaimed x = {};
        int r = store_reclaim(s, owner_of(s, id), 5000, 0, &x, e);

        /* What is told is what the try that was committed has removed. */
        if (r == 0 && (x.gone.n != 2 || x.n_cuts != 1))
                r = -ERR_CORRUPT;
        store_reclaimed_deinit(&x);
        return r;
}

/* Those that change something else, or need no lease. */
static const struct call more_calls[] = {
        {"create", call_create},
        {"fork", call_fork},
        {"tenant", call_tenant},
        {"overrides", call_overrides},
        {"work", call_work},
        {"chains", call_chains},
        {"reclaim", call_reclaim},
};

/* --- what became of it --- */

/* A hash of all rows that are of conversations. */
static inline int64_t everything(const struct fixture *f) {
        static const char *const tables[] = {"conversation", "turn", "turn_figures", "tag",
                "record", "link", "on_disk", "usage", "search", "tenant", "quota"};
        char sql[2048] = "SELECT hashtextextended(concat_ws('|'";

        for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
                snprintf(sql + strlen(sql), sizeof(sql) - strlen(sql),
                        ", (SELECT string_agg(x::text, ';' ORDER BY x::text) FROM %s x)",
                        tables[i]);
        snprintf(sql + strlen(sql), sizeof(sql) - strlen(sql), "), 0)");
        return fixture_ask_server(f, sql);
}

/* What an owner's conversations have, without what differs from owner to owner (words begin with the owner). */
static const struct {
        const char *columns, *join, *order;
} digested[] = {
        {"c.fork_pos, c.parent > 0, c.revision, c.n_tokens, c.n_turns, c.vocab, c.model_weights, "
         "c.overflow, c.n_published, c.private_memory, c.title, c.holder, c.fence",
                "", "c.id"},
        {"x.n, x.role, x.first, x.past, encode(x.text, 'hex'), encode(x.tokens, 'hex'), x.chain",
                "JOIN turn x ON x.conversation = c.id", "x.n"},
        {"x.machine, x.block, x.n_valid, r.n_tokens, r.loose, r.start >> 40",
                "JOIN link x ON x.conversation = c.id JOIN record r ON r.id = x.record", "x.block"},
        {"x.tag", "JOIN tag x ON x.conversation = c.id", "x.tag"},
        {"x.place & 16777215, regexp_replace(x.words::text, '[0-9]+o', '', 'g')",
                "JOIN search x ON x.place >> 24 = c.id", "x.place"},
        {"x.machine", "JOIN on_disk x ON x.conversation = c.id", "x.machine"},
};

/* A hash of that, and of what else there is of the owner. */
static inline int64_t digest(const struct fixture *f, uint64_t owner) {
        char sql[4096] = "SELECT hashtextextended(concat_ws('|'";

        for (size_t i = 0; i < ARRAY_SIZE(digested); i++)
                snprintf(sql + strlen(sql), sizeof(sql) - strlen(sql),
                        ", (SELECT string_agg(concat_ws(',', c.name, %s), ';' ORDER BY c.name, %s) "
                        "FROM conversation c %s WHERE c.uid = o)",
                        digested[i].columns, digested[i].order, digested[i].join);
        snprintf(sql + strlen(sql), sizeof(sql) - strlen(sql),
                ", (SELECT count(*) FROM record WHERE uid = o)"
                ", (SELECT concat_ws(',', n_conversations, n_tokens, day, day_tokens) FROM usage "
                "WHERE owner = o), (SELECT count(*) FROM tenant WHERE uid = o)"
                ", (SELECT string_agg(concat_ws(',', name, value), ';' ORDER BY name) FROM quota "
                "WHERE number = o)), 0) FROM (SELECT %llu::bigint AS o) o",
                (unsigned long long)owner);
        return fixture_ask_server(f, sql);
}

/* --- the same in two registers --- */

static inline void same_row(const struct store_conv *x, const struct store_conv *y) {
        assert_true(x->id == y->id && x->owner == y->owner && x->parent == y->parent);
        assert_string_equal(x->name, y->name);
        assert_string_equal(x->tenant, y->tenant);
        assert_true(x->fork_pos == y->fork_pos && x->revision == y->revision);
        assert_true(x->n_tokens == y->n_tokens && x->n_turns == y->n_turns);
        assert_true(x->created_usec == y->created_usec && x->updated_usec == y->updated_usec);
        assert_true(fingerprint_equal(&x->model, &y->model) && x->vocab == y->vocab);
        assert_memory_equal(&x->shape, &y->shape, sizeof(x->shape));
        assert_true(x->n_published == y->n_published && x->private_memory == y->private_memory);
        assert_true(gap_equal(&x->gap, &y->gap) && x->overflow == y->overflow);
        assert_true(x->pinned == y->pinned && x->tools_size == y->tools_size);
        assert_true(x->unanswered == y->unanswered && x->sampling.has == y->sampling.has);
        assert_memory_equal(&x->sampling.temperature, &y->sampling.temperature, sizeof(float));
        assert_true(x->sampling.seed == y->sampling.seed);
        assert_true(x->sampling.n_biases == y->sampling.n_biases);
}

static inline void same_turn(const struct store_turn *x, const struct store_turn *y) {
        assert_true(x->role == y->role && x->start == y->start && x->end == y->end);
        assert_true(x->finish == y->finish && x->created_usec == y->created_usec);
        assert_int_equal(x->text_size, y->text_size);
        assert_memory_equal(x->text, y->text, x->text_size);
        assert_true(!x->extra == !y->extra && !x->figures == !y->figures);
        if (x->extra)
                assert_string_equal(x->extra, y->extra);
        if (x->figures) {
                assert_string_equal(x->figures->model, y->figures->model);
                assert_true(x->figures->seed == y->figures->seed);
                assert_int_equal(x->figures->n_generated, y->figures->n_generated);
        }
}

static inline void same_links(const struct store_gone *x, const struct store_gone *y) {
        assert_int_equal(x->n, y->n);
        for (size_t i = 0; i < x->n; i++) {
                const struct store_record *a = &x->records[i], *b = &y->records[i];

                assert_true(a->id == b->id && a->file_key == b->file_key);
                assert_true(a->offset == b->offset && a->stored_size == b->stored_size);
                assert_true(a->index == b->index && a->n_valid == b->n_valid);
                assert_true(a->token_hash == b->token_hash && a->is_private == b->is_private);
                assert_true(a->owner == b->owner);
        }
}

static inline void same_about(struct fixture *f, struct store *x, struct store *y, uint64_t id) {
        struct about *a = NULL, *b = NULL;

        assert_int_equal(store_about(x, id, NULL, NULL, &a, &f->e), 0);
        assert_int_equal(store_about(y, id, NULL, NULL, &b, &f->e), 0);
        assert_true(!a == !b);
        if (a) {
                assert_string_equal(a->title, b->title);
                assert_string_equal(a->metadata, b->metadata);
                assert_string_equal(a->session, b->session);
                assert_int_equal(a->n_tags, b->n_tags);
                for (size_t i = 0; i < a->n_tags; i++)
                        assert_string_equal(a->tags[i], b->tags[i]);
        }
        free(a);
        free(b);
}

static inline void same_conv(
        struct fixture *f, struct store *x, struct store *y, uint64_t id, bool links) {
        const unsigned all = STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOKENS |
                             STORE_READ_FIGURES | STORE_READ_TOOLS;
        struct store_reading a = {}, b = {};
        struct store_gone none = {};
        uint64_t chain[2];

        assert_int_equal(store_read(x, OWNER_ANY, id, NULL, all | STORE_READ_LINKS, &a, &f->e), 0);
        assert_int_equal(store_read(y, OWNER_ANY, id, NULL, all | STORE_READ_LINKS, &b, &f->e), 0);
        assert_true(!a.damaged && !b.damaged);
        same_row(&a.conv, &b.conv);
        assert_int_equal(a.turns.n, b.turns.n);
        for (size_t i = 0; i < a.turns.n; i++) {
                same_turn(&a.turns.turns[i], &b.turns.turns[i]);
                assert_int_equal(store_chain(x, id, (uint32_t)i + 1, &chain[0], &f->e), 0);
                assert_int_equal(store_chain(y, id, (uint32_t)i + 1, &chain[1], &f->e), 0);
                assert_true(chain[0] == chain[1]);
        }
        assert_int_equal(a.n_tokens, b.n_tokens);
        assert_memory_equal(a.tokens, b.tokens, a.n_tokens * sizeof(*a.tokens));
        same_links(links ? &a.links : &none, &b.links);
        assert_int_equal(a.tools_size, b.tools_size);
        if (a.tools)
                assert_string_equal(a.tools, b.tools);
        same_about(f, x, y, id);
        store_reading_deinit(&a);
        store_reading_deinit(&b);
}

/* --- others on the server --- */

static inline int64_t ask(PGconn *conn, const char *sql) {
        PGresult *result = PQexec(conn, sql);
        int64_t v = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0
                            ? strtoll(PQgetvalue(result, 0, 0), NULL, 10)
                            : -1;

        PQclear(result);
        return v;
}

/* Somebody with a lock, who ends the transaction as soon as so many wait for locks. */
struct blocker {
        PGconn *conn, *watch;
        const char *end;
        int64_t n;
        pthread_t thread;
        atomic_bool over;
        bool seen; /* they have waited */
};

static inline void *hold(void *arg) {
        struct blocker *b = arg;

        while (!b->seen && !atomic_load(&b->over))
                b->seen = ask(b->watch, "SELECT count(*) FROM pg_stat_activity "
                                        "WHERE wait_event_type = 'Lock'") >= b->n;
        PQclear(PQexec(b->conn, b->end));
        return NULL;
}

static inline void block(
        struct blocker *b, struct fixture *f, const char *sql, int64_t n, const char *end) {
        PGresult *result;

        *b = (struct blocker){
                .conn = fixture_connect(f), .watch = fixture_connect(f), .end = end, .n = n};
        PQclear(PQexec(b->conn, "BEGIN"));
        result = PQexec(b->conn, sql);
        if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
                fail_msg("%s", PQerrorMessage(b->conn));
        PQclear(result);
        assert_int_equal(pthread_create(&b->thread, NULL, hold, b), 0);
}

static inline void expect_blocked(struct blocker *b) {
        atomic_store(&b->over, true);
        pthread_join(b->thread, NULL);
        PQfinish(b->conn);
        PQfinish(b->watch);
        assert_true(b->seen);
}

/* With each of the next @n turns that are inserted, or (@deferred) with the COMMIT behind, this happens on the server. A sequence
 * counts, since no rollback takes that back. */
static inline void break_turns(struct fixture *f, const char *what, unsigned n, bool deferred) {
        char sql[1024];

        f->spoilt = true;
        snprintf(sql, sizeof(sql),
                "CREATE SEQUENCE n_broken;"
                "CREATE FUNCTION break_turn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "IF nextval('n_broken') <= %u THEN %s; END IF; RETURN NULL; END $$;"
                "CREATE CONSTRAINT TRIGGER break_turn AFTER INSERT ON turn %s "
                "FOR EACH ROW EXECUTE FUNCTION break_turn()",
                n, what, deferred ? "DEFERRABLE INITIALLY DEFERRED" : "");
        (void)fixture_ask_server(f, sql);
}

/* How often it has happened, or was about to. */
static inline int64_t mend_turns(struct fixture *f) {
        int64_t n = fixture_ask_server(f, "SELECT last_value FROM n_broken");

        (void)fixture_ask_server(f, "DROP TRIGGER break_turn ON turn; DROP FUNCTION break_turn; "
                                    "DROP SEQUENCE n_broken");
        f->spoilt = false;
        return n;
}

/* The connections of all stores, as a server that restarts does. */
static inline void end_backends(const struct fixture *f) {
#define OTHERS                                                                                     \
        "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        PGconn *conn = fixture_connect(f);

        (void)ask(conn, "SELECT count(pg_terminate_backend(pid)) " OTHERS);
        while (ask(conn, "SELECT count(*) " OTHERS) > 0)
                ;
        PQfinish(conn);
#undef OTHERS
}
