/* SPDX-License-Identifier: MIT */
/* What only a register on a server has: machines that share it, and a server that goes away. */
#include "base/clock.h"
#include "pg-calls.h"
#include "pg-proxy.h"

#define LEASE 30000000
#define WAIT 20000000
#define SMALL_WAIT 300000 /* where a test waits until a call gives up */

static int open_at(struct fixture *f, const char *uri, const char *machine, uint64_t wait_usec,
        struct store **ret) {
        const struct store_server server = {.uri = uri,
                .machine = machine,
                .name = "host",
                .wait_usec = wait_usec,
                .lease_usec = LEASE};

        return store_open_server(ret, &server, &f->e);
}

static struct store *join(struct fixture *f, const char *machine) {
        struct store *s = NULL;
        int r = fixture_open_machine(f, machine, LEASE, &s);

        if (r < 0)
                fail_msg("%s", f->e.msg);
        return s;
}

static int64_t machine_number(struct fixture *f, const char *machine) {
        char sql[128];

        snprintf(sql, sizeof(sql), "SELECT number FROM machine WHERE id = '%s'", machine);
        return fixture_ask_server(f, sql);
}

/* None of them is let through, and nothing changes by them. */
static void expect_moved(struct fixture *f, struct store *s, uint64_t id) {
        int64_t before = everything(f);
        struct store_conv c;

        assert_int_equal(store_conv_get(s, OWNER_ANY, id, NULL, &c, &f->e), 0);
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                int r;

                /* Who does not know what it holds may give it up. */
                if (calls[i].fn == call_drop && c.lease != STORE_LEASE_ELSEWHERE)
                        continue;
                r = calls[i].fn(s, id, &f->e);
                if (r != -ERR_MOVED)
                        fail_msg("%s: %d (%s)", calls[i].name, r, r < 0 ? f->e.msg : "");
                assert_int_equal(f->e.code, ERR_MOVED);
        }
        assert_true(everything(f) == before);
}

static void expect_lease(struct fixture *f, struct store *s, uint64_t id, enum store_lease lease,
        const char *holder) {
        struct store_conv c;

        assert_int_equal(store_conv_get(s, OWNER_ANY, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.lease, lease);
        assert_int_equal(c.holder, holder ? machine_number(f, holder) : 0);
}

static void expect_turns(struct fixture *f, struct store *s, uint64_t id, uint32_t n) {
        struct store_turns turns = {};
        struct store_conv c;

        assert_int_equal(store_conv_get(s, OWNER_ANY, id, NULL, &c, &f->e), 0);
        assert_int_equal(c.n_turns, n);
        assert_int_equal(store_turns(s, id, true, &turns, &f->e), 0);
        assert_int_equal(turns.n, n);
        store_turns_deinit(&turns);
}

static void expect_sound(struct store *s) {
        struct fixture x = {.s = s};

        fixture_expect_sound(&x);
}

static void say(struct fixture *f, struct store *s, uint64_t id) {
        if (fixture_append(s, id, 1, 3, "more", &f->e) < 0)
                fail_msg("%s", f->e.msg);
}

/* --- opening --- */

static void test_open(void **state) {
        struct fixture *f = *state;
        struct store *other = join(f, "two");
        int64_t number = machine_number(f, "two");

        assert_int_equal(fixture_count(f, "SELECT count(*) FROM confab"), 1);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM machine"), 2);
        assert_true(number != machine_number(f, "one"));
        store_free(other);
        other = join(f, "two");
        assert_int_equal(machine_number(f, "two"), number);
        assert_int_equal(fixture_count(f, "SELECT sum(incarnation) FROM machine_txn"), 1 + 2);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM confab"), 1);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM machine"), 2);
        store_free(other);
}

static void test_open_other_version(void **state) {
        struct fixture *f = *state;
        struct store *other = NULL;
        int64_t before = everything(f);

        f->spoilt = true;
        (void)fixture_ask_server(f, "UPDATE confab SET version = 99");
        assert_int_equal(fixture_open_machine(f, "two", LEASE, &other), -ERR_UNSUPPORTED);
        assert_null(other);
        assert_int_equal(fixture_count(f, "SELECT version FROM confab"), 99);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM machine"), 1);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM machine_txn"), 1);
        assert_true(everything(f) == before);
}

static void test_open_identity(void **state) {
        struct fixture *f = *state;
        char id[66];
        static const char *const bad[] = {"", " ", "a b", "a\tb", "a\n", "\x7f", "caf\xc3\xa9"};
        struct store *other = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_int_equal(fixture_open_machine(f, bad[i], LEASE, &other), -ERR_INVALID);
        memset(id, '\'', 65);
        id[65] = '\0';
        assert_int_equal(fixture_open_machine(f, id, LEASE, &other), -ERR_INVALID);
        assert_null(other);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM machine"), 1);
        id[64] = '\0';
        other = join(f, id);
        store_free(other);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM machine"), 2);
}

static void test_open_unreachable(void **state) {
        static const char *const wrong[] = {"&dbname=nowhere", "&host=/nowhere"};
        struct fixture *f = *state;
        struct store *other = NULL;
        char uri[640];

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                uint64_t before = clock_monotonic_usec();

                snprintf(uri, sizeof(uri), "%s%s", f->uri, wrong[i]);
                assert_int_equal(open_at(f, uri, "two", 150000, &other), -ERR_UNAVAILABLE);
                assert_null(other);
                assert_true(strlen(f->e.msg) > 0);
                /* A server that is starting says such things, too. */
                assert_true(clock_monotonic_usec() - before >= 150000);
        }
}

enum { N_MACHINES = 8 };
struct opening {
        pthread_t thread;
        struct fixture f;
        struct store *s;
        char machine[8];
        int r;
};

static void *open_one(void *arg) {
        struct opening *x = arg;

        x->r = fixture_open_machine(&x->f, x->machine, LEASE, &x->s);
        return NULL;
}

/* Where there are no tables yet. */
static int setup_new(void **state) {
        unsigned n = fixture_n_spare;

        fixture_n_spare = 0;
        fixture_setup_closed(state);
        fixture_n_spare = n;
        return 0;
}

static void test_open_together(void **state) {
        struct fixture *f = *state;
        struct opening x[N_MACHINES] = {};

        for (unsigned i = 0; i < N_MACHINES; i++) {
                x[i].f = *f;
                snprintf(x[i].machine, sizeof(x[i].machine), "m%u", i);
                assert_int_equal(pthread_create(&x[i].thread, NULL, open_one, &x[i]), 0);
        }
        for (unsigned i = 0; i < N_MACHINES; i++)
                pthread_join(x[i].thread, NULL);
        for (unsigned i = 0; i < N_MACHINES; i++)
                if (x[i].r < 0)
                        fail_msg("%s: %s", x[i].machine, x[i].f.e.msg);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM confab"), 1);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM machine"), N_MACHINES);
        assert_int_equal(fixture_count(f, "SELECT sum(incarnation) FROM machine_txn"), N_MACHINES);
        for (unsigned i = 0; i < N_MACHINES; i++)
                store_free(x[i].s);
}

/* --- leases --- */

static void test_elsewhere(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *other = join(f, "two");

        expect_lease(f, f->s, id, STORE_LEASE_HELD, "one");
        expect_lease(f, other, id, STORE_LEASE_ELSEWHERE, "one");
        expect_moved(f, other, id);
        assert_int_equal(lease_take(other, id, NULL, &f->e), -ERR_MOVED);
        assert_int_equal(lease_take(other, id + 1, NULL, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(lease_take(other, UINT64_MAX, NULL, &f->e), -ERR_NOT_FOUND);
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), 0);
        say(f, f->s, id);
        store_free(other);
        expect_lease(f, f->s, id, STORE_LEASE_HELD, "one");
}

static void test_given_up(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *other = join(f, "two");

        assert_int_equal(store_lease_drop(f->s, id, 0, &f->e), 0);
        expect_lease(f, f->s, id, STORE_LEASE_FREE, NULL);
        expect_lease(f, other, id, STORE_LEASE_FREE, NULL);
        assert_int_equal(lease_take(other, id, NULL, &f->e), 1);
        assert_int_equal(lease_take(other, id, NULL, &f->e), 0);
        expect_lease(f, other, id, STORE_LEASE_HELD, "two");
        expect_lease(f, f->s, id, STORE_LEASE_ELSEWHERE, "two");
        say(f, other, id);
        expect_moved(f, f->s, id);
        expect_moved(f, f->s, id);
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), -ERR_MOVED);
        expect_moved(f, f->s, id);
        /* An orderly end gives up all that is held. */
        store_free(other);
        expect_lease(f, f->s, id, STORE_LEASE_FREE, NULL);
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), 1);
        expect_turns(f, f->s, id, N_TURNS + 1);
        say(f, f->s, id);
        expect_turns(f, f->s, id, N_TURNS + 2);
        fixture_expect_sound(f);
}

/* What nobody holds is taken by the first call that changes it. */
static void test_taken_by_a_change(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *other = join(f, "two");

        assert_int_equal(store_lease_drop(f->s, id, 0, &f->e), 0);
        say(f, other, id);
        expect_lease(f, other, id, STORE_LEASE_HELD, "two");
        expect_moved(f, f->s, id);
        assert_int_equal(store_lease_drop(other, id, 0, &f->e), 0);
        /* Not by one who has given it up: that one is to read it anew. */
        expect_moved(f, other, id);
        expect_moved(f, f->s, id);
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), 1);
        assert_int_equal(call_delete(f->s, id, &f->e), 0);
        assert_int_equal(lease_take(other, id, NULL, &f->e), -ERR_NOT_FOUND);
        store_free(other);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM record"), 0);
}

/* After a restart a machine has what it had, under another fence. */
static void test_own_of_an_earlier_life(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk"), crashed;
        struct store *other = join(f, "two");

        fixture_reopen(f);
        expect_lease(f, f->s, id, STORE_LEASE_FREE, NULL);
        say(f, f->s, id);
        expect_lease(f, f->s, id, STORE_LEASE_HELD, "one");
        crashed = make_conv(f, 7, "crashed");
        f->s = store_free(f->s);
        /* As if it had not ended in order. */
        (void)fixture_ask_server(f, "UPDATE conversation SET holder = (SELECT number FROM machine "
                                    "WHERE id = 'one') WHERE name = 'crashed'");
        fixture_open(f);
        expect_lease(f, other, crashed, STORE_LEASE_ELSEWHERE, "one");
        expect_lease(f, f->s, crashed, STORE_LEASE_FREE, "one");
        assert_int_equal(lease_take(f->s, crashed, NULL, &f->e), 1);
        say(f, f->s, crashed);
        store_free(other);
}

static void test_fork_elsewhere(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *other = join(f, "two");
        struct store_conv child = {.name = "child"};
        struct store_gone links = {};
        int32_t tokens[N_TOKENS], want[N_TOKENS];

        assert_int_equal(store_conv_fork(other, id, N_TURNS, NULL, NULL, &child, &f->e), 0);
        assert_int_equal(child.parent, id);
        expect_lease(f, other, child.id, STORE_LEASE_HELD, "two");
        expect_lease(f, f->s, child.id, STORE_LEASE_ELSEWHERE, "two");
        expect_lease(f, f->s, id, STORE_LEASE_HELD, "one");
        expect_turns(f, f->s, child.id, N_TURNS);
        fill(want);
        assert_int_equal(store_tokens(f->s, child.id, tokens, N_TOKENS, &f->e), 0);
        assert_memory_equal(tokens, want, sizeof(tokens));
        /* The memory lies on the other machine's disk. */
        assert_int_equal(store_links(other, child.id, &links, &f->e), 0);
        assert_int_equal(links.n, 0);
        assert_int_equal(store_links(f->s, child.id, &links, &f->e), 0);
        assert_int_equal(links.n, 0);
        assert_int_equal(store_links(f->s, id, &links, &f->e), 0);
        assert_int_equal(links.n, N_LINKED);
        store_gone_deinit(&links);
        say(f, other, child.id);
        expect_moved(f, f->s, child.id);
        say(f, f->s, id);
        expect_sound(f->s);
        expect_sound(other);
        store_free(other);
}

/* The fence alone tells that somebody had it meanwhile, though the row says once more that this machine holds it. */
static void test_fence_is_compared(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");

        fixture_sql(f, "UPDATE conversation SET fence = fence + 2");
        assert_int_equal(call_append(f->s, id, &f->e), -ERR_MOVED);
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), 1);
        assert_int_equal(call_append(f->s, id, &f->e), 0);
}

/* What is returned was read within the transaction that makes it held. */
static void test_lease_of_a_fork(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store_conv child = {.name = "child"};

        assert_int_equal(store_conv_fork(f->s, id, N_TURNS, NULL, NULL, &child, &f->e), 0);
        assert_int_equal(child.holder, machine_number(f, "one"));
        assert_int_equal(child.lease, STORE_LEASE_HELD);
}

/* Nobody needs a lease to read. */
static void test_read_elsewhere(void **state) {
        const unsigned all = STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOKENS |
                             STORE_READ_LINKS | STORE_READ_SIZE;
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk"), revision = 0;
        struct store *other = join(f, "two");
        const struct store_list list = {.owner = 7, .by_update = true, .search = "owls"};
        struct store_reading here = {}, there = {};
        struct store_listed found[2] = {};
        bool more;
        size_t n = 0;

        assert_int_equal(call_append(f->s, id, &f->e), 0);
        assert_int_equal(store_read(f->s, 7, id, NULL, all, &here, &f->e), 0);
        assert_int_equal(store_read(other, 7, id, NULL, all, &there, &f->e), 0);
        assert_int_equal(there.turns.n, N_TURNS + 1);
        assert_true(!here.damaged && !there.damaged);
        assert_true(here.n_tokens == N_TOKENS + 3 && there.n_tokens == here.n_tokens);
        assert_memory_equal(here.tokens, there.tokens, here.n_tokens * sizeof(*here.tokens));
        revision = here.conv.revision;
        assert_true(there.conv.revision == revision);
        assert_true(here.links.n == N_LINKED && there.links.n == 0);
        assert_true(here.disk_size > 0 && there.disk_size == 0);
        store_reading_deinit(&here);
        store_reading_deinit(&there);
        assert_int_equal(store_list(other, &list, NULL, NULL, found, 2, &n, &more, &f->e), 0);
        assert_true(n == 1 && found[0].conv.id == id && found[0].hit.turn == N_TURNS);
        for (size_t i = 0; i < 2; i++) {
                free(found[i].about);
                free(found[i].hit.snippet);
        }
        store_free(other);
}

struct heard {
        int wanted, given; /* eventfds */
        uint64_t id, machine;
};

static void note_wanted(void *arg, uint64_t id, uint64_t machine) {
        struct heard *x = arg;

        x->id = id;
        x->machine = machine;
        (void)eventfd_write(x->wanted, 1);
}

static void note_given(void *arg) {
        struct heard *x = arg;

        (void)eventfd_write(x->given, 1);
}

static void wait_for(int fd) {
        struct pollfd event = {.fd = fd, .events = POLLIN};
        eventfd_t n;

        assert_int_equal(poll(&event, 1, 60000), 1);
        assert_int_equal(eventfd_read(fd, &n), 0);
}

/* Who wants what another machine holds asks for it, and hears when it is given up. */
static void test_asked_for(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *other = join(f, "two");
        struct heard x = {.wanted = eventfd(0, EFD_CLOEXEC), .given = eventfd(0, EFD_CLOEXEC)};
        const struct store_listener listener = {note_wanted, note_given, NULL, &x};

        store_listen(f->s, &listener);
        store_listen(other, &listener);
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(lease_take(other, id, NULL, &f->e), -ERR_MOVED);
                wait_for(x.wanted);
                assert_int_equal(x.id, id);
                assert_int_equal(x.machine, machine_number(f, "two"));
        }
        assert_int_equal(store_lease_drop(f->s, id, x.machine, &f->e), 0);
        wait_for(x.given);
        assert_int_equal(lease_take(other, id, NULL, &f->e), 1);
        say(f, other, id);
        /* The other way round. */
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), -ERR_MOVED);
        wait_for(x.wanted);
        assert_int_equal(x.machine, machine_number(f, "one"));
        store_listen(f->s, NULL);
        store_listen(other, NULL);
        store_free(other);
        close(x.wanted);
        close(x.given);
}

/* --- a machine that gives no sign of life --- */

/* Whatever the machine's keeper writes, it was last seen so long ago. */
static void silence(struct fixture *f, const char *machine, uint64_t usec) {
        char sql[768];

        f->spoilt = true;
        snprintf(sql, sizeof(sql),
                "CREATE OR REPLACE FUNCTION silence() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "NEW.seen_usec = CAST(extract(epoch FROM now()) * 1000000 AS bigint) - %llu; "
                "RETURN NEW; END $$;"
                "CREATE OR REPLACE TRIGGER silence BEFORE UPDATE ON machine FOR EACH ROW "
                "WHEN (NEW.id = '%s') EXECUTE FUNCTION silence();"
                "UPDATE machine SET seen_usec = 0 WHERE id = '%s'",
                (unsigned long long)usec, machine, machine);
        (void)fixture_ask_server(f, sql);
}

static void unsilence(struct fixture *f) {
        (void)fixture_ask_server(f, "DROP TRIGGER silence ON machine; DROP FUNCTION silence");
        f->spoilt = false;
}

static void test_fenced(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk"), revision;
        struct store *other = join(f, "two");
        struct store_conv c;

        silence(f, "one", LEASE / 2);
        assert_int_equal(lease_take(other, id, NULL, &f->e), -ERR_MOVED);
        silence(f, "one", LEASE * 2);
        /* A change alone takes nothing away from anybody. */
        expect_moved(f, other, id);
        say(f, f->s, id);
        assert_int_equal(lease_take(other, id, NULL, &f->e), 1);
        say(f, other, id);
        assert_int_equal(store_conv_get(other, 7, id, NULL, &c, &f->e), 0);
        revision = c.revision;
        expect_lease(f, f->s, id, STORE_LEASE_ELSEWHERE, "two");
        expect_moved(f, f->s, id);
        expect_moved(f, f->s, id);
        /* The new holder lives. */
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), -ERR_MOVED);
        assert_int_equal(store_conv_get(f->s, 7, id, NULL, &c, &f->e), 0);
        assert_true(c.revision == revision && c.n_turns == N_TURNS + 2);
        say(f, other, id);
        unsilence(f);
        /* What was lost stays so, though nobody holds it, until it is taken: it may be another by now. */
        store_free(other);
        expect_moved(f, f->s, id);
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), 1);
        say(f, f->s, id);
        expect_turns(f, f->s, id, N_TURNS + 4);
        fixture_expect_sound(f);
}

static void test_take_waits(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *other = join(f, "two");
        struct blocker b;

        silence(f, "one", LEASE * 2);
        block(&b, f, "SELECT 1 FROM conversation FOR UPDATE", 1, "COMMIT");
        assert_int_equal(lease_take(other, id, NULL, &f->e), 1);
        expect_blocked(&b);
        say(f, other, id);
        expect_moved(f, f->s, id);
        store_free(other);
        unsilence(f);
}

struct appending {
        pthread_t thread;
        struct store *s;
        uint64_t id;
        int r;
};

static void *append_there(void *arg) {
        struct appending *x = arg;

        x->r = call_append(x->s, x->id, NULL);
        return NULL;
}

/* A holder that seems dead is in the middle of a transaction: this one comes first, as a whole. */
static void test_take_waits_for_a_transaction(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *other = join(f, "two");
        struct appending x = {.s = f->s, .id = id};
        struct blocker b, first;

        silence(f, "one", LEASE * 2);
        break_turns(f, "PERFORM pg_advisory_xact_lock(77)", 1, true);
        /* Both are at their locks: the append at this one, the taking at the row. */
        block(&b, f, "SELECT pg_advisory_xact_lock(77)", 2, "COMMIT");
        /* The append is to be there first. */
        block(&first, f, "SELECT 1", 1, "COMMIT");
        assert_int_equal(pthread_create(&x.thread, NULL, append_there, &x), 0);
        pthread_join(first.thread, NULL);
        assert_int_equal(lease_take(other, id, NULL, &f->e), 1);
        pthread_join(x.thread, NULL);
        assert_int_equal(x.r, 0);
        PQfinish(first.conn);
        PQfinish(first.watch);
        expect_blocked(&b);
        expect_turns(f, other, id, N_TURNS + 1);
        say(f, other, id);
        expect_moved(f, f->s, id);
        store_free(other);
        (void)mend_turns(f);
        f->spoilt = true;
        unsilence(f);
}

/* The folder was copied: the later one has the machine's identity from now on. */
static void test_copied_identity(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *copy = join(f, "one");
        int64_t before = everything(f);

        assert_int_equal(call_append(f->s, id, &f->e), -ERR_STATE);
        assert_non_null(strstr(f->e.msg, "'one'"));
        assert_int_equal(call_append(f->s, id, &f->e), -ERR_STATE);
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), -ERR_STATE);
        assert_true(everything(f) == before);
        expect_turns(f, f->s, id, N_TURNS);
        say(f, copy, id);
        assert_int_equal(lease_take(copy, id, NULL, &f->e), 0);
        /* Its end gives up nothing. */
        f->s = store_free(f->s);
        expect_lease(f, copy, id, STORE_LEASE_HELD, "one");
        say(f, copy, id);
        expect_turns(f, copy, id, N_TURNS + 2);
        store_free(copy);
}

/* --- a server that goes away --- */

static int read_conv(struct store *s, uint64_t id, struct err *e) {
        struct store_conv c;

        return store_conv_get(s, OWNER_ANY, id, NULL, &c, e);
}

static int read_turns(struct store *s, uint64_t id, struct err *e) {
        struct store_turns turns = {};
        int r = store_turns(s, id, true, &turns, e);

        store_turns_deinit(&turns);
        return r;
}

static int read_check(struct store *s, uint64_t id, struct err *e) {
        struct store_census census;

        (void)id;
        return store_check(s, NULL, NULL, &census, e);
}

static int read_records(struct store *s, uint64_t id, struct err *e) {
        struct store_gone records = {};
        int r = store_records(s, &records, e);

        (void)id;
        store_gone_deinit(&records);
        return r;
}

static int read_held(struct store *s, uint64_t id, struct err *e) {
        struct store_held *held = NULL;
        size_t n;
        int r = store_list_held(s, &held, &n, e);

        (void)id;
        free(held);
        return r;
}

static int read_meter(struct store *s, uint64_t id, struct err *e) {
        int64_t v;

        (void)id;
        return store_meter_get(s, "some", &v, e);
}

static int write_meter(struct store *s, uint64_t id, struct err *e) {
        const struct store_meter meter = {.name = "some", .value = 3};

        (void)id;
        return store_meter_set(s, &meter, 1, e);
}

static int write_loose(struct store *s, uint64_t id, struct err *e) {
        struct store_gone gone = {};
        int r = store_loose(s, &gone, e);

        (void)id;
        store_gone_deinit(&gone);
        return r;
}

static void expect_all_work(struct fixture *f, uint64_t id, const struct call *list, size_t n) {
        for (size_t i = 0; i < n; i++) {
                int r;

                end_backends(f);
                r = list[i].fn(f->s, id, &f->e);
                if (r < 0)
                        fail_msg("%s: %s", list[i].name, f->e.msg);
        }
}

/* A connection that was idle when it was lost is made anew, and nobody hears of it. */
static void test_idle_connections_lost(void **state) {
        static const struct call list[] = {
                {"conv_get", read_conv},
                {"turns", read_turns},
                {"check", read_check},
                {"append", call_append},
                {"meter_set", write_meter},
                {"loose", write_loose},
                {"take", call_take},
                {"delete", call_delete},
        };
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");

        expect_all_work(f, id, list, ARRAY_SIZE(list));
}

/* Without a transaction, on the connection that writes. */
static void test_idle_connections_lost_then_read_by_the_writer(void **state) {
        static const struct call list[] = {
                {"records", read_records}, {"list_held", read_held}, {"meter_get", read_meter}};
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");

        expect_all_work(f, id, list, ARRAY_SIZE(list));
}

#define TERMINATE "PERFORM pg_terminate_backend(pg_backend_pid())"
#define CONFLICT "RAISE EXCEPTION USING ERRCODE = '40001'"
#define DEADLOCK "RAISE EXCEPTION USING ERRCODE = '40P01'"
#define DISK_FULL "RAISE EXCEPTION USING ERRCODE = '53100'"

/* A call is made as often as it takes, and what it does is done once. */
static void test_broken_transactions(void **state) {
        static const struct {
                const char *what;
                unsigned n;
        } list[] = {{TERMINATE, 1}, {TERMINATE, 2}, {CONFLICT, 3}, {DEADLOCK, 3}, {DISK_FULL, 3}};
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store_usage usage;
        struct store_conv c;

        for (unsigned i = 0; i < 2 * ARRAY_SIZE(list); i++) {
                break_turns(f, list[i / 2].what, list[i / 2].n, i % 2);
                say(f, f->s, id);
                assert_int_equal(mend_turns(f), list[i / 2].n + 1);
                assert_int_equal(store_conv_get(f->s, 7, id, NULL, &c, &f->e), 0);
                assert_int_equal(c.revision, 2 + i);
                assert_int_equal(c.n_tokens, N_TOKENS + 3 * (i + 1));
                expect_turns(f, f->s, id, N_TURNS + 1 + i);
        }
        assert_int_equal(store_usage(f->s, 7, &usage, &f->e), 0);
        assert_int_equal(usage.n_tokens, c.n_tokens);
        fixture_expect_sound(f);
}

/* In the end it is told, and nothing has happened. */
static void test_always_broken(void **state) {
        static const char *const list[] = {CONFLICT, DISK_FULL};
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *other = NULL;
        int64_t before;

        assert_int_equal(open_at(f, f->uri, "two", SMALL_WAIT, &other), 0);
        assert_int_equal(store_lease_drop(f->s, id, 0, &f->e), 0);
        assert_int_equal(lease_take(other, id, NULL, &f->e), 1);
        before = everything(f);
        for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
                break_turns(f, list[i], 1000000000, i == 0);
                assert_int_equal(call_append(other, id, &f->e), -ERR_UNAVAILABLE);
                assert_int_equal(f->e.code, ERR_UNAVAILABLE);
                assert_true(mend_turns(f) > 1);
                assert_true(everything(f) == before);
                expect_lease(f, other, id, STORE_LEASE_HELD, "two");
        }
        assert_int_equal(call_append(other, id, &f->e), 0);
        expect_turns(f, other, id, N_TURNS + 1);
        store_free(other);
}

/* --- a COMMIT whose answer does not come --- */

/* The owner of one conversation has done what the other's call has, whose commit was disturbed. */
static void expect_once(struct fixture *f, const struct call *call, enum pg_proxy_fault fault) {
        static uint64_t owner = 100;
        uint64_t plain = make_conv(f, ++owner, "talk"), disturbed = make_conv(f, ++owner, "talk");
        unsigned n = atomic_load(&proxy.n_faults);
        int64_t before = digest(f, owner), after;
        int r;

        assert_int_equal(call->fn(f->s, plain, &f->e), 0);
        pg_proxy_arm(&proxy, fault, false);
        r = call->fn(f->s, disturbed, &f->e);
        if (r < 0)
                fail_msg("%s: %s", call->name, f->e.msg);
        assert_int_equal(atomic_load(&proxy.n_faults), n + 1);
        after = digest(f, owner);
        if (after != digest(f, owner - 1) || after == before)
                fail_msg("%s is not done once", call->name);
        if (call->fn == call_append) {
                say(f, f->s, disturbed);
                expect_lease(f, f->s, disturbed, STORE_LEASE_HELD, "one");
        }
}

static void expect_all_once(struct fixture *f, enum pg_proxy_fault fault) {

        assert_int_equal(open_at(f, proxy.uri, "one", WAIT, &f->s), 0);
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                expect_once(f, &calls[i], fault);
        for (size_t i = 0; i < ARRAY_SIZE(more_calls); i++)
                expect_once(f, &more_calls[i], fault);
        fixture_expect_sound(f);
}

static void test_answer_lost(void **state) {
        expect_all_once(*state, PG_PROXY_LOSE_ANSWER);
}

static void test_commit_lost(void **state) {
        expect_all_once(*state, PG_PROXY_LOSE_COMMIT);
}

/* Taking a conversation is a change, too. */
static void test_take_disturbed(void **state) {
        struct fixture *f = *state;
        uint64_t id;

        assert_int_equal(open_at(f, proxy.uri, "one", WAIT, &f->s), 0);
        id = make_conv(f, 7, "talk");
        for (int fault = PG_PROXY_LOSE_ANSWER; fault <= PG_PROXY_LOSE_COMMIT; fault++) {
                assert_int_equal(store_lease_drop(f->s, id, 0, &f->e), 0);
                pg_proxy_arm(&proxy, (enum pg_proxy_fault)fault, false);
                assert_int_equal(lease_take(f->s, id, NULL, &f->e), 1);
                expect_lease(f, f->s, id, STORE_LEASE_HELD, "one");
                assert_int_equal(lease_take(f->s, id, NULL, &f->e), 0);
                say(f, f->s, id);
        }
        assert_int_equal(atomic_load(&proxy.n_faults), 2);
        assert_int_equal(fixture_count(f, "SELECT fence FROM conversation"), 3);
}

/* The server still works on the COMMIT when the store looks for it: it waits until that is over. */
static void expect_slow_commit(struct fixture *f, const char *what, unsigned n_tries) {
        struct blocker b;
        uint64_t id;

        assert_int_equal(open_at(f, proxy.uri, "one", WAIT, &f->s), 0);
        id = make_conv(f, 7, "talk");
        break_turns(f, what, 1, true);
        block(&b, f, "SELECT pg_advisory_xact_lock(77)", 2, "COMMIT");
        pg_proxy_arm(&proxy, PG_PROXY_HANG_UP, false);
        assert_int_equal(call_append(f->s, id, &f->e), 0);
        expect_blocked(&b);
        assert_int_equal(mend_turns(f), n_tries);
        expect_turns(f, f->s, id, N_TURNS + 1);
        expect_lease(f, f->s, id, STORE_LEASE_HELD, "one");
        say(f, f->s, id);
        fixture_expect_sound(f);
}

static void test_slow_commit(void **state) {
        expect_slow_commit(*state, "PERFORM pg_advisory_xact_lock(77)", 1);
}

static void test_slow_commit_that_fails(void **state) {
        expect_slow_commit(*state, "PERFORM pg_advisory_xact_lock(77); " CONFLICT, 2);
}

/* The number of a daemon that has taken the identity goes on behind the same one: it tells nothing of the append that was lost. */
static void test_commit_lost_and_identity_taken(void **state) {
        struct fixture *f = *state;
        struct appending x = {};
        struct store *copy = NULL;

        assert_int_equal(open_at(f, proxy.uri, "one", WAIT, &f->s), 0);
        x.s = f->s;
        x.id = make_conv(f, 7, "talk");
        pg_proxy_arm(&proxy, PG_PROXY_LOSE_COMMIT, true);
        assert_int_equal(pthread_create(&x.thread, NULL, append_there, &x), 0);
        while (atomic_load(&proxy.n_faults) == 0)
                (void)sched_yield();
        copy = join(f, "one");
        assert_int_equal(write_meter(copy, 0, &f->e), 0);
        pg_proxy_heal(&proxy);
        pthread_join(x.thread, NULL);
        expect_turns(f, copy, x.id, N_TURNS);
        store_free(copy);
        assert_true(x.r < 0);
}

/* A server that has come back is tried once a second only. */
static int when_back(call_fn *fn, struct store *s, uint64_t id, struct err *e) {
        uint64_t until = clock_monotonic_usec() + 60000000;
        int r;

        while ((r = fn(s, id, e)) == -ERR_UNAVAILABLE && clock_monotonic_usec() < until)
                (void)poll(NULL, 0, 10);
        return r;
}

/* The append of a store that is cut off in the middle of its COMMIT. */
static void cut_off(struct fixture *f, struct store *s, uint64_t id, enum pg_proxy_fault fault) {
        unsigned n = atomic_load(&proxy.n_faults);

        pg_proxy_arm(&proxy, fault, true);
        assert_int_equal(call_append(s, id, &f->e), -ERR_UNAVAILABLE);
        assert_int_equal(f->e.code, ERR_UNAVAILABLE);
        assert_non_null(strstr(f->e.msg, "not known"));
        assert_int_equal(atomic_load(&proxy.n_faults), n + 1);
}

/* Nobody knows: what the store knew of the conversation counts no more, until it is taken and read anew. */
static void expect_found_out(struct fixture *f, struct store *s, uint64_t id, uint32_t n_turns) {
        assert_int_equal(when_back(call_append, s, id, &f->e), -ERR_MOVED);
        expect_moved(f, s, id);
        assert_int_equal(lease_take(s, id, NULL, &f->e), 1);
        assert_int_equal(lease_take(s, id, NULL, &f->e), 0);
        expect_turns(f, s, id, n_turns);
        say(f, s, id);
        expect_turns(f, s, id, n_turns + 1);
        expect_sound(s);
}

static void test_nobody_knows(void **state) {
        struct fixture *f = *state;
        struct store *s[2] = {};
        uint64_t id[2];

        fixture_open(f);
        /* Two machines, so that both wait at the same time until the server is tried again. */
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(open_at(f, proxy.uri, i ? "two" : "three", SMALL_WAIT, &s[i]), 0);
                id[i] = make_conv(f, 7, i ? "a" : "b");
                assert_int_equal(store_lease_drop(f->s, id[i], 0, &f->e), 0);
                assert_int_equal(lease_take(s[i], id[i], NULL, &f->e), 1);
        }
        cut_off(f, s[0], id[0], PG_PROXY_LOSE_ANSWER);
        pg_proxy_heal(&proxy);
        /* The first one's connections come later. */
        assert_int_equal(when_back(read_turns, s[1], id[1], &f->e), 0);
        cut_off(f, s[1], id[1], PG_PROXY_LOSE_COMMIT);
        pg_proxy_heal(&proxy);
        expect_found_out(f, s[0], id[0], N_TURNS + 1);
        expect_found_out(f, s[1], id[1], N_TURNS);
        for (unsigned i = 0; i < 2; i++)
                store_free(s[i]);
}

/* Connections are there, and nobody answers. */
static void test_stall(void **state) {
        struct fixture *f = *state;
        struct store *s = NULL;
        char uri[700];
        uint64_t id, begun;

        fixture_open(f);
        snprintf(uri, sizeof(uri), "%s&connect_timeout=2", proxy.uri);
        assert_int_equal(open_at(f, uri, "two", SMALL_WAIT, &s), 0);
        id = make_conv(f, 7, "talk");
        assert_int_equal(store_lease_drop(f->s, id, 0, &f->e), 0);
        assert_int_equal(lease_take(s, id, NULL, &f->e), 1);
        pg_proxy_stall(&proxy);
        assert_int_equal(call_append(s, id, &f->e), -ERR_UNAVAILABLE);
        /* From now on calls fail at once, but for one each second that tries. */
        begun = clock_monotonic_usec();
        for (unsigned i = 0; i < 20; i++)
                assert_int_equal(call_append(s, id, &f->e), -ERR_UNAVAILABLE);
        assert_true(clock_monotonic_usec() - begun < (uint64_t)20 * SMALL_WAIT);
        pg_proxy_heal(&proxy);
        assert_int_equal(when_back(call_append, s, id, &f->e), 0);
        expect_turns(f, s, id, N_TURNS + 1);
        expect_lease(f, s, id, STORE_LEASE_HELD, "two");
        say(f, s, id);
        store_free(s);
}

/* --- records that another machine makes loose --- */

static void expect_links(struct fixture *f, struct store *s, uint64_t id, size_t n) {
        struct store_gone links = {};

        assert_int_equal(store_links(s, id, &links, &f->e), 0);
        assert_int_equal(links.n, n);
        store_gone_deinit(&links);
}

static void expect_loose(struct fixture *f, struct store *s, const uint64_t *ids, size_t n) {
        struct store_gone gone = {};

        assert_int_equal(store_loose(s, &gone, &f->e), 0);
        assert_int_equal(gone.n, n);
        for (size_t i = 0; i < n; i++) {
                bool found = false;

                for (size_t k = 0; k < n; k++)
                        found = found || gone.records[k].id == ids[i];
                assert_true(found);
        }
        store_gone_deinit(&gone);
}

static void expect_records(struct fixture *f, struct store *s, size_t n) {
        struct store_gone records = {};

        assert_int_equal(store_records(s, &records, &f->e), 0);
        assert_int_equal(records.n, n);
        store_gone_deinit(&records);
}

static void get_ids(struct fixture *f, uint64_t id, uint64_t ids[N_LINKED]) {
        struct store_gone links = {};

        assert_int_equal(store_links(f->s, id, &links, &f->e), 0);
        assert_int_equal(links.n, N_LINKED);
        for (size_t i = 0; i < N_LINKED; i++)
                ids[i] = links.records[i].id;
        store_gone_deinit(&links);
}

/* The other machine takes the conversation, and makes the call. */
static void change_there(struct fixture *f, struct store *other, uint64_t id, call_fn *fn) {
        assert_int_equal(store_lease_drop(f->s, id, 0, &f->e), 0);
        assert_int_equal(lease_take(other, id, NULL, &f->e), 1);
        assert_int_equal(fn(other, id, &f->e), 0);
}

static void test_loose(void **state) {
        struct fixture *f = *state;
        uint64_t alone = make_conv(f, 7, "alone"), shared = make_conv(f, 7, "shared");
        struct store *other = join(f, "two");
        struct store_conv child = {.name = "child"};
        uint64_t ids[N_LINKED], shared_ids[N_LINKED];

        assert_int_equal(store_conv_fork(f->s, shared, N_TURNS, NULL, NULL, &child, &f->e), 0);
        get_ids(f, alone, ids);
        get_ids(f, shared, shared_ids);
        expect_loose(f, f->s, NULL, 0);
        change_there(f, other, alone, call_rewind);
        change_there(f, other, shared, call_rewind);
        expect_links(f, f->s, alone, 2);
        expect_links(f, f->s, shared, 2);
        expect_links(f, f->s, child.id, N_LINKED);
        expect_records(f, f->s, 2 * N_LINKED);
        expect_records(f, other, 0);
        expect_loose(f, other, NULL, 0);
        /* What is loose is no finding. */
        expect_sound(f->s);
        expect_sound(other);
        expect_loose(f, f->s, ids + 2, 2);
        expect_loose(f, f->s, NULL, 0);
        expect_records(f, f->s, 2 * N_LINKED - 2);
        expect_sound(f->s);
        /* The fork had the others. Once it has gone they are loose again. */
        change_there(f, other, child.id, call_delete);
        expect_loose(f, f->s, shared_ids + 2, 2);
        expect_loose(f, f->s, NULL, 0);
        expect_links(f, f->s, shared, 2);
        expect_sound(f->s);
        store_free(other);
}

/* Each machine has memory of its own of the same conversation, and a cut is of both. */
static void test_memory_of_both(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk"), ids[N_LINKED];
        struct store *other = join(f, "two");
        struct store_gone links = {};

        get_ids(f, id, ids);
        change_there(f, other, id, call_link);
        expect_links(f, f->s, id, N_LINKED);
        assert_int_equal(store_links(other, id, &links, &f->e), 0);
        assert_int_equal(links.n, 1);
        expect_records(f, other, 1);
        expect_sound(f->s);
        expect_sound(other);
        assert_int_equal(store_lease_drop(other, id, 0, &f->e), 0);
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), 1);
        assert_int_equal(call_carry(f->s, id, &f->e), 0);
        expect_links(f, f->s, id, 0);
        expect_links(f, other, id, 0);
        expect_loose(f, other, &links.records[0].id, 1);
        expect_loose(f, f->s, NULL, 0); /* these the call itself has told */
        expect_records(f, f->s, 0);
        expect_sound(f->s);
        expect_sound(other);
        store_gone_deinit(&links);
        store_free(other);
}

/* --- several machines at once --- */

enum { N_TOGETHER = 3, N_ROUNDS = 40, N_SHARED = 4 };
struct working {
        pthread_t thread;
        struct store *s;
        const uint64_t *ids;
        unsigned number, n_appended[N_SHARED];
        const char *failed;
        struct err e;
};

static int change_some(struct working *w, uint64_t id, unsigned round) {
        static const struct call some[] = {{"rewind", call_rewind}, {"update", call_update},
                {"unlink_from", call_unlink_from}, {"fork", NULL}, {"loose", write_loose}};
        const struct call *call = &some[(round + w->number) % ARRAY_SIZE(some)];
        struct store_conv child = {};
        int r = call->fn ? call->fn(w->s, id, &w->e)
                         : store_conv_fork(w->s, id, 1, NULL, NULL, &child, &w->e);

        /* The name is taken by another of the owner's. */
        if (r < 0 && r != -ERR_EXISTS)
                w->failed = call->name;
        return r;
}

/* Take it if it is free, change it, and give it up. */
static void work_on(struct working *w, unsigned i, unsigned round) {
        uint64_t id = w->ids[i];
        int r = lease_take(w->s, id, NULL, &w->e);

        if (r == -ERR_MOVED)
                return;
        if (r < 0) {
                w->failed = "take";
                return;
        }
        (void)change_some(w, id, round);
        if (fixture_append(w->s, id, 1, 40, "together", &w->e) < 0)
                w->failed = "append";
        w->n_appended[i]++;
        if (store_lease_drop(w->s, id, 0, &w->e) < 0)
                w->failed = "drop";
}

static void *work_together(void *arg) {
        struct working *w = arg;

        for (unsigned round = 0; round < N_ROUNDS && !w->failed; round++)
                work_on(w, (round + w->number) % N_SHARED, round);
        return NULL;
}

static void test_together(void **state) {
        struct fixture *f = *state;
        struct working w[N_TOGETHER] = {};
        uint64_t ids[N_SHARED];

        for (unsigned i = 0; i < N_SHARED; i++) {
                ids[i] = make_conv(f, 7, "");
                assert_int_equal(store_lease_drop(f->s, ids[i], 0, &f->e), 0);
        }
        for (unsigned i = 0; i < N_TOGETHER; i++) {
                w[i] = (struct working){
                        .s = i ? join(f, i == 1 ? "two" : "three") : f->s, .ids = ids, .number = i};
                assert_int_equal(pthread_create(&w[i].thread, NULL, work_together, &w[i]), 0);
        }
        for (unsigned i = 0; i < N_TOGETHER; i++)
                pthread_join(w[i].thread, NULL);
        for (unsigned i = 0; i < N_TOGETHER; i++)
                if (w[i].failed)
                        fail_msg("%u: %s: %s", i, w[i].failed, w[i].e.msg);
        for (unsigned i = 0; i < N_SHARED; i++) {
                struct store_conv c;

                assert_int_equal(store_conv_get(f->s, 7, ids[i], NULL, &c, &f->e), 0);
                assert_true(c.revision >=
                            1 + w[0].n_appended[i] + w[1].n_appended[i] + w[2].n_appended[i]);
                expect_turns(f, f->s, ids[i], c.n_turns);
        }
        for (unsigned i = 0; i < N_TOGETHER; i++) {
                assert_int_equal(write_loose(w[i].s, 0, &f->e), 0);
                expect_sound(w[i].s);
        }
        store_free(w[1].s);
        store_free(w[2].s);
}

/* --- names that another one takes in the same moment --- */

#define INSERT_NAMED                                                                               \
        "INSERT INTO conversation SELECT (jsonb_populate_record(c, jsonb_build_object('id', "      \
        "nextval('conversation_id'), 'name', 'taken'))).* FROM conversation c WHERE c.name = 'a'"

static void test_name_in_the_same_moment(void **state) {
        struct fixture *f = *state;
        struct store_conv c = {.owner = 7, .name = "taken"};
        struct blocker b;
        uint64_t id = fixture_conv(f, 7, "a");

        block(&b, f, INSERT_NAMED, 1, "ROLLBACK");
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), 0);
        expect_blocked(&b);
        assert_int_equal(call_delete(f->s, c.id, &f->e), 0);
        block(&b, f, INSERT_NAMED, 1, "COMMIT");
        c = (struct store_conv){.owner = 7, .name = "taken"};
        assert_int_equal(store_conv_create(f->s, &c, NULL, 0, NULL, 0, &f->e), -ERR_EXISTS);
        expect_blocked(&b);
        assert_int_equal(f->e.code, ERR_EXISTS);
        (void)fixture_ask_server(f, "DELETE FROM conversation WHERE name = 'taken'");
        block(&b, f, INSERT_NAMED, 1, "COMMIT");
        assert_int_equal(
                store_conv_update(f->s, id, "taken", NULL, STORE_OVERFLOW_KEEP, NULL, NULL, &f->e),
                -ERR_EXISTS);
        expect_blocked(&b);
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM conversation"), 2);
}

static void test_tenant_in_the_same_moment(void **state) {
        struct fixture *f = *state;
        struct blocker b;
        uint32_t number = 0;

        block(&b, f, "INSERT INTO tenant (number, uid, label) VALUES (99, 7, 'pat')", 1, "COMMIT");
        assert_int_equal(store_tenant(f->s, 7, "pat", 9, &number, &f->e), 0);
        expect_blocked(&b);
        assert_int_equal(number, 99);
}

/* --- a copy in a file --- */

static const char odd[] = "caf\xc3\xa9 \xff\xfe owls", with_nul[] = "a\0owls";

/* Turns of all kinds, with all that can be noted. */
static uint64_t make_odd(struct fixture *f, uint64_t owner, const char *name) {
        static const char *const tags[] = {"red", "gr\xc3\xbcn"};
        static const char tools[] = "[{\"name\": \"look\"}]";
        const struct about about = {
                .has = ABOUT_TITLE | ABOUT_TAGS | ABOUT_METADATA | ABOUT_SESSION,
                .title = "A title",
                .metadata = "{\"k\": 1}",
                .session = "session",
                .tags = tags,
                .n_tags = 2};
        const struct figures figures = {.model = "a model", .seed = UINT64_MAX, .n_generated = 2};
        const struct store_turn turns[] = {
                {.role = 0, .end = 1, .text = "", .chain = STORE_CHAIN_NEVER},
                {.role = 1, .start = 1, .end = 3, .text = odd, .text_size = sizeof(odd) - 1},
                {.role = 2,
                        .start = 3,
                        .end = 5,
                        .finish = 1,
                        .text = with_nul,
                        .text_size = sizeof(with_nul) - 1,
                        .extra = "[]",
                        .extra_size = 2,
                        .chain = UINT64_MAX - 7,
                        .figures = &figures}};
        static const int32_t tokens[] = {INT32_MAX, -1, 0, INT32_MIN, 7};
        struct store_conv c = {.owner = owner,
                .vocab = UINT64_MAX,
                .model = {UINT64_MAX, 3},
                .overflow = STORE_OVERFLOW_SHIFT,
                .sampling = {.has = SAMPLING_TEMPERATURE | SAMPLING_SEED | SAMPLING_BIASES,
                        .temperature = 0.3f,
                        .seed = UINT64_MAX,
                        .n_biases = 1,
                        .biases = {{-4, 1.5f}}},
                .tools = tools,
                .about = &about};

        snprintf(c.name, sizeof(c.name), "%s", name);
        assert_int_equal(store_conv_create(f->s, &c, turns, 3, tokens, 5, &f->e), 0);
        return c.id;
}

struct register_ids {
        uint64_t published, fork, odd, tenants, private, gap, elsewhere, later, victim, last;
};

static void make_register(struct fixture *f, struct store *other, struct register_ids *x) {
        const struct gap gap = {50, 100};
        struct store_conv child = {.name = "fork"};
        struct store_gone gone = {};
        int32_t tokens[N_TOKENS];
        uint64_t revision;
        uint32_t tenant;
        bool pinned = true;

        fill(tokens);
        x->published = make_conv(f, 7, "published");
        assert_int_equal(call_publish(f->s, x->published, &f->e), 0);
        assert_int_equal(store_conv_fork(f->s, x->published, 2, NULL, NULL, &child, &f->e), 0);
        x->fork = child.id;
        x->odd = make_odd(f, 7, "odd");
        assert_int_equal(store_conv_update(f->s, x->odd, NULL, NULL, STORE_OVERFLOW_KEEP, &pinned,
                                 NULL, &f->e),
                0);
        assert_int_equal(store_tenant(f->s, 7, "p\xc3\xa4t", 9, &tenant, &f->e), 0);
        x->tenants = make_odd(f, owner_make(7, tenant), "odd");
        x->private = fixture_history(f, 8, "private", tokens, N_TOKENS, N_LINKED, true);
        x->gap = make_conv(f, 7, "gap");
        assert_int_equal(
                store_rewind(f->s, x->gap, N_TURNS, NULL, &gap, &revision, &gone, &f->e), 0);
        store_gone_deinit(&gone);
        x->elsewhere = make_conv(f, 7, "elsewhere");
        change_there(f, other, x->elsewhere, call_link);
        x->later = make_conv(f, 7, "later");
        x->victim = make_conv(f, 7, "victim");
        x->last = make_conv(f, 7, "last");
        assert_int_equal(call_overrides(f->s, x->published, &f->e), 0);
        assert_int_equal(call_work(f->s, x->private, &f->e), 0);
        /* The highest ids are of what has gone. */
        assert_int_equal(call_delete(f->s, x->last, &f->e), 0);
}

/* Which conversations have the words, newest first; a hash of these and of where. */
static uint64_t found(struct fixture *f, struct store *s, const char *words, size_t n_want) {
        const struct store_list list = {.owner = 7, .by_update = true, .search = words};
        struct store_listed rows[16] = {};
        uint64_t hash = 0;
        size_t n = 0;
        bool more;

        assert_int_equal(store_list(s, &list, NULL, NULL, rows, 16, &n, &more, &f->e), 0);
        assert_int_equal(n, n_want);
        for (size_t i = 0; i < n; i++) {
                hash = hash64(&rows[i].conv.id, sizeof(uint64_t), hash + rows[i].hit.turn);
                hash = hash64(rows[i].hit.snippet, strlen(rows[i].hit.snippet), hash);
        }
        for (size_t i = 0; i < 16; i++) {
                free(rows[i].about);
                free(rows[i].hit.snippet);
        }
        return hash;
}

static void same_limits(struct fixture *f, struct store *x, struct store *y) {
        struct quota_override *a = NULL, *b = NULL;
        struct store_usage of_a, of_b;
        size_t n_a, n_b;

        assert_int_equal(store_overrides(x, &a, &n_a, &f->e), 0);
        assert_int_equal(store_overrides(y, &b, &n_b, &f->e), 0);
        assert_true(n_a == 2 && n_b == 2);
        for (size_t i = 0; i < n_a; i++) {
                assert_int_equal(quota_subject_compare(&a[i].subject, &b[i].subject), 0);
                assert_true(a[i].quota == b[i].quota && a[i].value == b[i].value);
        }
        free(a);
        free(b);
        assert_int_equal(store_usage(x, 8, &of_a, &f->e), 0);
        assert_int_equal(store_usage(y, 8, &of_b, &f->e), 0);
        assert_memory_equal(&of_a, &of_b, sizeof(of_a));
        assert_int_equal(of_b.day_tokens, 5);
}

/* The register changes after the copy's moment. */
static void change_meanwhile(struct fixture *f, const struct register_ids *x) {
        assert_int_equal(call_append(f->s, x->later, &f->e), 0);
        assert_int_equal(call_delete(f->s, x->victim, &f->e), 0);
}

static void copy_register(
        struct fixture *f, const struct register_ids *x, const char *path, bool with_records) {
        struct store_backup *b = NULL;
        uint64_t n_convs = 0;
        unsigned n_steps = 0;
        int r;

        assert_int_equal(store_backup_new(&b, f->s, path, &f->e), 0);
        assert_int_equal(store_backup_step(b, 1, &f->e), 1);
        if (with_records)
                change_meanwhile(f, x);
        while ((r = store_backup_step(b, 1, &f->e)) > 0)
                n_steps++;
        if (r < 0)
                fail_msg("%s", f->e.msg);
        assert_true(n_steps > 10);
        assert_int_equal(store_backup_finish(b, with_records, &n_convs, &f->e), 0);
        store_backup_free(b);
        assert_int_equal(n_convs, with_records ? 9 : 8);
}

static void expect_copy(
        struct fixture *f, const struct register_ids *x, struct store *copy, bool with_records) {
        const uint64_t same[] = {
                x->published, x->fork, x->odd, x->tenants, x->private, x->gap, x->elsewhere};
        struct store_conv c = {.owner = 7, .name = "new"};
        uint64_t last;

        expect_sound(copy);
        for (size_t i = 0; i < ARRAY_SIZE(same); i++)
                same_conv(f, f->s, copy, same[i], with_records);
        same_limits(f, f->s, copy);
        /* The tenant's are not the user's; "later" is, and has said it on the server alone. */
        assert_true(found(f, copy, "caf\xc3\xa9", 1) == found(f, f->s, "caf\xc3\xa9", 1));
        (void)found(f, copy, "owls", with_records ? 1 : 2);
        (void)found(f, f->s, "owls", 2);
        assert_int_equal(store_last_id(f->s, &last, &f->e), 0);
        assert_int_equal(store_conv_create(copy, &c, NULL, 0, NULL, 0, &f->e), 0);
        assert_int_equal(c.id, last + 1);
        expect_lease(f, f->s, x->elsewhere, STORE_LEASE_ELSEWHERE, "two");
        say(f, copy, x->elsewhere);
        expect_records(f, copy, with_records ? 6 * N_LINKED - 2 : 0);
        expect_sound(copy);
}

static void remove_copy(const char *path) {
        static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
        char name[160];

        for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
                snprintf(name, sizeof(name), "%s%s", path, ends[i]);
                unlink(name);
        }
}

static void test_backup(void **state) {
        struct fixture *f = *state;
        struct store *other = join(f, "two"), *copy = NULL;
        struct register_ids x;
        char path[128];

        make_register(f, other, &x);
        snprintf(path, sizeof(path), "%s/copy.db", f->dir);
        copy_register(f, &x, path, true);
        assert_int_equal(store_open_existing(&copy, path, &f->e), 0);
        expect_turns(f, copy, x.later, N_TURNS);
        expect_turns(f, copy, x.victim, N_TURNS);
        expect_copy(f, &x, copy, true);
        copy = store_free(copy);
        assert_int_equal(store_backup_seal(path, &f->e), 0);
        remove_copy(path);
        copy_register(f, &x, path, false);
        assert_int_equal(store_open_existing(&copy, path, &f->e), 0);
        same_conv(f, f->s, copy, x.later, false);
        assert_int_equal(read_conv(copy, x.victim, &f->e), -ERR_NOT_FOUND);
        expect_copy(f, &x, copy, false);
        store_free(copy);
        remove_copy(path);
        store_free(other);
}

/* It is that of store_backup_new(), not of the first step. */
static void test_backup_moment(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "a"), n_convs = 0;
        struct store_backup *b = NULL;
        char path[128];
        int r;

        make_conv(f, 7, "b");
        snprintf(path, sizeof(path), "%s/copy.db", f->dir);
        assert_int_equal(store_backup_new(&b, f->s, path, &f->e), 0);
        assert_int_equal(call_delete(f->s, id, &f->e), 0);
        while ((r = store_backup_step(b, 1000, &f->e)) > 0)
                ;
        assert_int_equal(r, 0);
        assert_int_equal(store_backup_finish(b, true, &n_convs, &f->e), 0);
        store_backup_free(b);
        remove_copy(path);
        assert_int_equal(n_convs, 2);
}

/* --- very long turns --- */

static void test_very_long_turn(void **state) {
        enum { N_WORDS = 200000, WORD = 10 };
        struct fixture *f = *state;
        uint64_t id = fixture_conv(f, 7, "long");
        char *text = malloc(N_WORDS * WORD + 1);

        assert_non_null(text);
        for (unsigned i = 0; i < N_WORDS; i++)
                snprintf(text + (size_t)i * WORD, WORD + 1, "w%08u ", i);
        fixture_say(f, id, 4, text);
        (void)found(f, f->s, "w00000000", 1);
        (void)found(f, f->s, "w00000001 w00000000", 1);
        expect_turns(f, f->s, id, 1);
        fixture_expect_sound(f);
        free(text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_open_together, setup_new, fixture_teardown),
                store_test(test_open),
                store_test(test_open_other_version),
                store_test(test_open_identity),
                store_test(test_open_unreachable),
                store_test(test_elsewhere),
                store_test(test_given_up),
                store_test(test_taken_by_a_change),
                store_test(test_own_of_an_earlier_life),
                store_test(test_fork_elsewhere),
                store_test(test_fence_is_compared),
                store_test(test_lease_of_a_fork),
                store_test(test_read_elsewhere),
                store_test(test_asked_for),
                store_test(test_fenced),
                store_test(test_take_waits),
                store_test(test_take_waits_for_a_transaction),
                store_test(test_copied_identity),
                store_test(test_idle_connections_lost),
                store_test(test_idle_connections_lost_then_read_by_the_writer),
                store_test(test_broken_transactions),
                store_test(test_always_broken),
                proxy_test(test_answer_lost),
                proxy_test(test_commit_lost),
                proxy_test(test_take_disturbed),
                proxy_test(test_slow_commit),
                proxy_test(test_slow_commit_that_fails),
                proxy_test(test_commit_lost_and_identity_taken),
                proxy_test(test_nobody_knows),
                proxy_test(test_stall),
                store_test(test_loose),
                store_test(test_memory_of_both),
                store_test(test_together),
                store_test(test_name_in_the_same_moment),
                store_test(test_tenant_in_the_same_moment),
                store_test(test_backup),
                store_test(test_backup_moment),
                store_test(test_very_long_turn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
