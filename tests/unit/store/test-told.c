/* SPDX-License-Identifier: MIT */
/* What machines that share a register tell each other: who holds a conversation and where that is, that limits have changed. And a
 * register from before they did. */
#include <poll.h>
#include <sys/eventfd.h>

#include "pg-calls.h"

static struct store *join(struct fixture *f, const char *machine, const char *address,
        const char *socket, const char *host) {
        const struct store_server server = {.uri = f->uri,
                .machine = machine,
                .name = "the second",
                .address = address,
                .socket = socket,
                .host = host,
                .wait_usec = 20000000,
                .lease_usec = 3600000000};
        struct store *s = NULL;

        if (store_open_server(&s, &server, &f->e) < 0)
                fail_msg("%s", f->e.msg);
        return s;
}

static struct store_holder holder_of(struct store *s, uint64_t id, struct err *e) {
        struct store_holder holder = {};

        assert_int_equal(lease_take(s, id, &holder, e), -ERR_MOVED);
        return holder;
}

static void test_holder(void **state) {
        struct fixture *f = *state;
        char path[128];
        struct store *there, *here;
        struct store_holder holder;
        uint64_t id;
        FILE *socket;

        /* It is only looked whether the path is there, so a plain file will do. */
        snprintf(path, sizeof(path), "/tmp/confab-test-told-%d", (int)getpid());
        socket = fopen(path, "w");
        assert_non_null(socket);
        fclose(socket);
        there = join(f, "two", "https://two.example:8443", path, "this kernel");
        here = join(f, "three", NULL, NULL, "this kernel");
        id = make_conv(f, 7, "talk");
        assert_int_equal(store_lease_drop(f->s, id, 0, &f->e), 0);
        assert_int_equal(lease_take(there, id, &holder, &f->e), 1);
        /* On the same kernel by its socket, if that is there; from elsewhere by its address. */
        holder = holder_of(here, id, &f->e);
        assert_string_equal(holder.name, "the second");
        assert_int_equal(strncmp(holder.address, "unix:/tmp/confab-test-told-", 27), 0);
        assert_non_null(strstr(f->e.msg, "in use at machine 'the second'"));
        assert_int_equal(unlink(path), 0);
        holder = holder_of(here, id, &f->e);
        assert_string_equal(holder.address, "https://two.example:8443");
        holder = holder_of(f->s, id, &f->e);
        assert_string_equal(holder.address, "https://two.example:8443");
        /* One that is nowhere: after a start without these. */
        store_free(there);
        there = join(f, "two", NULL, NULL, NULL);
        assert_int_equal(lease_take(there, id, NULL, &f->e), 1);
        holder = holder_of(here, id, &f->e);
        assert_string_equal(holder.name, "the second");
        assert_string_equal(holder.address, "");
        store_free(there);
        store_free(here);
}

/* What is taken can't be changed before it is confirmed that nothing of an earlier lease is in RAM. */
static void test_confirmed(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk"), fence = 0, later = 0;
        struct store *other = join(f, "two", NULL, NULL, NULL);
        struct store_conv c;

        assert_int_equal(store_lease_drop(f->s, id, 0, &f->e), 0);
        assert_int_equal(store_lease_prepare(other, id, &fence, NULL, &f->e), 1);
        assert_int_equal(call_append(other, id, &f->e), -ERR_MOVED);
        assert_int_equal(store_conv_get(other, 7, id, NULL, &c, &f->e), 0);
        assert_int_not_equal(c.lease, STORE_LEASE_HELD);
        assert_false(store_lease_confirm(other, id, fence + 1));
        assert_int_equal(call_append(other, id, &f->e), -ERR_MOVED);
        /* Taken once more meanwhile: the first one is not the one to be confirmed. */
        assert_int_equal(store_lease_prepare(other, id, &later, NULL, &f->e), 1);
        assert_true(later > fence);
        assert_false(store_lease_confirm(other, id, fence));
        assert_true(store_lease_confirm(other, id, later));
        assert_int_equal(call_append(other, id, &f->e), 0);
        assert_int_equal(store_lease_prepare(other, id, &later, NULL, &f->e), 0);
        /* It was lost, and nobody has noticed: whoever began under it commits no more, also when it is taken again. */
        (void)fixture_ask_server(f, "UPDATE conversation SET holder = NULL, fence = fence + 1");
        assert_int_equal(store_lease_prepare(other, id, &later, NULL, &f->e), 1);
        assert_int_equal(call_append(other, id, &f->e), -ERR_MOVED);
        store_free(other);
}

/* --- times --- */

static atomic_bool jumps;
uint64_t __real_clock_realtime_usec(void);
uint64_t __wrap_clock_realtime_usec(void);
uint64_t __wrap_clock_realtime_usec(void) {
        static atomic_uint_fast64_t n;

        /* An hour ahead and back again, with each look at it. */
        return __real_clock_realtime_usec() +
               (atomic_load(&jumps) ? (atomic_fetch_add(&n, 1) % 2) * 3600000000u : 0);
}

/* Whatever this machine's clock does, times are the server's. */
static void test_clock(void **state) {
        const struct store_server server = {.uri = ((struct fixture *)*state)->uri,
                .machine = "two",
                .name = "two",
                .wait_usec = 20000000,
                .lease_usec = 20000}; /* beats of 5 ms */
        struct fixture *f = *state;
        struct store *other = NULL;

        atomic_store(&jumps, true);
        assert_int_equal(store_open_server(&other, &server, &f->e), 0);
        for (unsigned i = 0; i < 300; i++) {
                int64_t there = fixture_ask_server(f,
                        "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)");
                int64_t off = (int64_t)store_now_usec(other) - there;

                assert_true(off > -1200000000 && off < 1200000000);
        }
        atomic_store(&jumps, false);
        store_free(other);
}

static void note_limits(void *arg) {
        (void)eventfd_write(*(int *)arg, 1);
}

static bool is_told(int fd, int msec) {
        struct pollfd event = {.fd = fd, .events = POLLIN};
        eventfd_t n;

        return poll(&event, 1, msec) == 1 && eventfd_read(fd, &n) == 0;
}

static void test_limits(void **state) {
        const struct store_override_change set = {.quota = QUOTA_TOKENS, .value = 5};
        const struct quota_subject user = {QUOTA_OF_USER, 7, ""};
        struct fixture *f = *state;
        struct store *other = join(f, "two", NULL, NULL, NULL);
        int fds[2] = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};

        store_listen(f->s, &(struct store_listener){.limits = note_limits, .arg = &fds[0]});
        store_listen(other, &(struct store_listener){.limits = note_limits, .arg = &fds[1]});
        assert_int_equal(store_overrides_change(f->s, &user, &set, 1, &f->e), 0);
        assert_true(is_told(fds[1], 60000));
        /* Not the one that has changed them. */
        assert_int_equal(store_overrides_change(other, &user, &set, 1, &f->e), 0);
        assert_true(is_told(fds[0], 60000));
        assert_false(is_told(fds[1], 0));
        /* Whoever could not hear looks. */
        end_backends(f);
        assert_int_equal(store_overrides_change(f->s, &user, &set, 1, &f->e), 0);
        assert_true(is_told(fds[1], 60000));
        store_listen(f->s, NULL);
        store_listen(other, NULL);
        store_free(other);
        close(fds[0]);
        close(fds[1]);
}

/* Version 1 had no secrets and no addresses, or (the first of them) one that was always empty. What was there stays. */
static void open_older_version(void **state, const char *columns) {
        struct fixture *f = *state;
        uint64_t c = fixture_conv(f, 7, "kept");
        uint8_t secret[STORE_SECRET_SIZE];
        struct store *other = NULL;
        struct store_conv got;

        f->spoilt = true;
        (void)fixture_ask_server(f,
                "DROP TABLE secret; ALTER TABLE machine DROP address, DROP host, DROP socket; "
                "UPDATE confab SET version = 1");
        (void)fixture_ask_server(f, columns);
        assert_int_equal(fixture_open_machine(f, "two", 3600000000, &other), 0);
        assert_int_equal(store_secret(other, 7, secret, &f->e), 0);
        assert_int_equal(store_conv_get(other, 7, c, NULL, &got, &f->e), 0);
        store_free(other);
}

static void test_open_older_version(void **state) {
        open_older_version(state, "SELECT 0");
}

static void test_open_first_version(void **state) {
        open_older_version(state,
                "ALTER TABLE machine ADD address text COLLATE \"C\" NOT NULL DEFAULT '', "
                "ADD draining boolean NOT NULL DEFAULT false");
}

/* Whoever held a conversation has turns of it in RAM, and gives the child these: so not when others may have changed it. */
static void test_fork_of_what_was_lost(void **state) {
        struct fixture *f = *state;
        uint64_t id = make_conv(f, 7, "talk");
        struct store *other = join(f, "two", NULL, NULL, NULL);
        struct store_conv child = {.name = "child"};
        int r;

        (void)fixture_ask_server(f, "UPDATE machine SET seen_usec = 0 WHERE id = 'one'");
        assert_int_equal(lease_take(other, id, NULL, &f->e), 1);
        assert_int_equal(call_append(other, id, &f->e), 0);
        for (int i = 0; i < 2; i++) { /* also when it knows */
                r = store_conv_fork(f->s, id, N_TURNS, NULL, NULL, &child, &f->e);
                assert_int_equal(r, -ERR_MOVED);
        }
        assert_int_equal(fixture_count(f, "SELECT count(*) FROM conversation"), 1);
        assert_int_equal(store_lease_drop(other, id, 0, &f->e), 0);
        assert_int_equal(lease_take(f->s, id, NULL, &f->e), 1);
        assert_int_equal(store_conv_fork(f->s, id, N_TURNS, NULL, NULL, &child, &f->e), 0);
        assert_true(child.parent == id);
        store_free(other);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                store_test(test_holder),
                store_test(test_confirmed),
                store_test(test_fork_of_what_was_lost),
                store_test(test_clock),
                store_test(test_limits),
                store_test(test_open_older_version),
                store_test(test_open_first_version),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
