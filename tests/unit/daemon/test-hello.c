/* SPDX-License-Identifier: MIT */
/* Hello that names a tenant: what waits for the engine's answer, and what becomes of it. The daemon's user is
 * the peer's, who may name tenants. */
#include "daemon-fixture.h"

/* Begin a Hello for tenant @label; returns when the engine has been asked. */
static uint64_t begin(struct fixture *f, struct wire *w, const char *label) {
        size_t n = fake.n;
        uint64_t id;

        fixture_connect(f, w);
        id = wire_send_hello_for(w, NULL, label);
        fixture_wait_requests(f, n + 1);
        assert_int_equal(fake.requests[n].r.verb, ENGINE_TENANT);
        assert_int_equal(fake.requests[n].r.owner, getuid());
        assert_string_equal(fake.requests[n].tenant, label);
        return id;
}

static struct user *user_of(struct fixture *f) {
        return list_entry(f->d->peers.next, struct peer, link)->user;
}

static void test_others_wait(void **state) {
        struct fixture *f = *state;
        const uint64_t owner = owner_make(getuid(), 9);
        struct proto_message *m;
        struct wire w;
        uint64_t id;

        id = begin(f, &w, "anna");
        for (int i = 0; i < 3; i++)
                fixture_send_stats(&w);
        fixture_steps(f, 50);
        assert_int_equal(fake.n, 1);
        assert_null(wire_event_now(&w));
        fake_emit_owner(fake.requests[0].r.handle, 9);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_HELLO);
        assert_int_equal(m->event->hello->act_uid, getuid());
        assert_string_equal(m->event->hello->tenant, "anna");
        proto_message_free(m);
        fixture_wait_requests(f, 4);
        for (int i = 1; i < 4; i++) {
                assert_true(fake.requests[i].r.owner == owner);
                assert_false(fake.requests[i].r.admin);
                assert_true(fake.requests[i].r.handle > fake.requests[i - 1].r.handle);
        }
        /* It reads on, and knows that Hello has been said. */
        fixture_send_stats(&w);
        fixture_wait_requests(f, 5);
        expect_error(&w, wire_send_hello(&w, PROTO_VERSION, 0), "state", false);
        wire_close(&w);
        fixture_wait_peers(f, 0);
}

/* Nothing that follows a refused Hello is done. */
static void test_refused(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t id;

        id = begin(f, &w, "anna");
        fixture_send_stats(&w);
        fixture_steps(f, 20);
        fake_emit_error(fake.requests[0].r.handle, ERR_LIMIT, "too many");
        expect_error(&w, id, "limit", true);
        assert_true(wire_wait_eof(&w));
        assert_int_equal(fake.n, 1);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        /* Nor is the engine asked when it takes no more. */
        fake_fail_submit(ERR_SHUTDOWN, "stopping");
        fixture_connect(f, &w);
        id = wire_send_hello_for(&w, NULL, "anna");
        fixture_send_stats(&w);
        expect_error(&w, id, "shutdown", true);
        assert_true(wire_wait_eof(&w));
        assert_int_equal(fake.n, 1);
        wire_close(&w);
        fixture_wait_peers(f, 0);
}

static void test_gone_meanwhile(void **state) {
        struct fixture *f = *state;
        struct wire w;

        begin(f, &w, "anna");
        wire_close(&w);
        fixture_steps(f, 20);
        /* It is seen when the peer is read again. */
        fake_emit_owner(fake.requests[0].r.handle, 9);
        fixture_wait_peers(f, 0);
        assert_int_equal(f->d->users.connections.used, 0);
        /* Or the daemon ends first. */
        begin(f, &w, "anna");
        peer_free(list_entry(f->d->peers.next, struct peer, link));
        assert_true(fake.requests[1].cancelled);
        fake_emit_owner(fake.requests[1].r.handle, 9);
        fixture_steps(f, 20);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
}

/* Buffers and connections are counted for whom the peer acts, to the byte. */
static void test_shares_move(void **state) {
        enum { HALF = 200000 };
        static uint8_t half[HALF] = {0x80, 0x80, 0x40}; /* the beginning of 1 MiB */
        struct fixture *f = *state;
        struct proto_message *m;
        struct user *before, *after;
        struct wire w, other;
        uint64_t id, io;

        fixture_connect(f, &w);
        fixture_wait_peers(f, 1);
        before = user_of(f);
        assert_int_equal(before->connections.used, 1);
        /* In one go with Hello, so that it is read before reading stops. */
        id = wire_send_hello_for(&w, NULL, "anna");
        wire_send_some(&w, half, 60000);
        fixture_wait_requests(f, 1);
        io = f->d->users.io.used;
        assert_true(io > 0);
        assert_int_equal(before->io.used, io);
        fake_emit_owner(fake.requests[0].r.handle, 9);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_HELLO);
        proto_message_free(m);
        after = user_of(f);
        assert_true(after != before && after->owner == owner_make(getuid(), 9));
        assert_int_equal(before->n_refs, 0);
        assert_int_equal(before->io.used, 0);
        assert_int_equal(before->connections.used, 0);
        assert_int_equal(after->io.used, f->d->users.io.used);
        assert_int_equal(after->connections.used, 1);
        assert_int_equal(f->d->users.connections.used, 1);
        assert_false(after->io.exempt || after->connections.exempt);
        wire_send_some(&w, half + 60000, 60000);
        fixture_steps(f, 20);
        assert_true(after->io.used > io && after->io.used == f->d->users.io.used);
        /* A second one of the same owner meets its limits. */
        f->settings.max_user_connections = 1;
        id = begin(f, &other, "anna");
        fake_emit_owner(fake.requests[1].r.handle, 9);
        expect_error(&other, id, "limit", true);
        wire_close(&other);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_int_equal(f->d->users.io.used, 0);
        assert_int_equal(f->d->users.connections.used, 0);
        assert_int_equal(after->io.used + before->io.used, 0);
        assert_int_equal(after->connections.used + before->connections.used, 0);
}

/* What the new owner's share can't hold refuses the Hello. */
static void test_share_is_full(void **state) {
        static uint8_t half[60000] = {0x80, 0x80, 0x40};
        struct fixture *f = *state;
        struct wire w;
        uint64_t id;

        fixture_connect(f, &w);
        id = wire_send_hello_for(&w, NULL, "anna");
        wire_send_some(&w, half, sizeof(half));
        fixture_wait_requests(f, 1);
        assert_true(f->d->users.io.used > 0);
        f->d->users.io.total =
                f->d->users.io.used; /* all of it: the daemon's user may, a tenant not */
        fake_emit_owner(fake.requests[0].r.handle, 9);
        expect_error(&w, id, "limit", true);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_int_equal(f->d->users.io.used, 0);
        assert_int_equal(f->d->users.connections.used, 0);
}

/* To name oneself changes nothing, and asks nobody. */
static void test_own_uid(void **state) {
        const uint32_t own = getuid(), other = getuid() + 1;
        struct fixture *f = *state;
        struct proto_message *m;
        struct wire w;
        uint64_t id;

        fixture_connect(f, &w);
        id = wire_send_hello_for(&w, &own, NULL);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_HELLO);
        assert_true(m->event->hello->has_act_uid);
        assert_int_equal(m->event->hello->act_uid, own);
        assert_null(m->event->hello->tenant);
        proto_message_free(m);
        assert_int_equal(fake.n, 0);
        fixture_send_stats(&w);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.owner, own);
        assert_int_equal(fake.requests[0].r.admin, own == 0);
        wire_close(&w);
        fixture_connect(f, &w);
        id = wire_send_hello_for(&w, &other, NULL);
        if (own == 0) {
                m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_HELLO);
                proto_message_free(m);
                fixture_send_stats(&w);
                fixture_wait_requests(f, 2);
                assert_int_equal(fake.requests[1].r.owner, other);
                assert_false(fake.requests[1].r.admin);
        } else {
                expect_error(&w, id, "permission", false);
        }
        wire_close(&w);
        fixture_wait_peers(f, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_others_wait),
                daemon_test(test_refused),
                daemon_test(test_gone_meanwhile),
                daemon_test(test_shares_move),
                daemon_test(test_share_is_full),
                daemon_test(test_own_uid),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
