/* SPDX-License-Identifier: MIT */
/* Peers that do not read, go away, flood, come in numbers, or stay silent. */
#include "daemon-fixture.h"
#include <event2/event.h>

static const char lump[2000] = {[0 ... 1998] = 'x'};

static void test_slow_reader_is_paused(void **state) {
        struct fixture *f = *state;
        struct wire slow, other;
        struct proto_message *m;
        unsigned sent = 0, got = 0;
        uint64_t id;

        f->d->limits = (struct conn_limits){
                .output_high = 100000, .output_low = 20000, .output_limit = 10000000};
        fixture_client(f, &slow);
        fixture_client(f, &other);
        fixture_send_continue(&slow, "Hi", false);
        id = fixture_send_continue(&other, "Hi", false);
        fixture_wait_requests(f, 2);
        /* It does not read: the socket fills, then the buffer, then it is paused. */
        while (!fake.requests[0].paused) {
                assert_true(sent < 10000);
                fake_emit_delta(fake.requests[0].r.handle, lump, 1);
                sent++;
                fixture_steps(f, 2);
        }
        assert_false(fake.requests[1].paused);
        /* Others don't notice. */
        fake_emit_done(fake.requests[1].r.handle);
        proto_message_free(expect_kind(&other, id, CONFAB__V1__EVENT__KIND_DONE));
        /* Its further requests wait as well. */
        fixture_send_stats(&slow);
        fixture_steps(f, 20);
        assert_int_equal(fake.n, 2);
        /* It reads again: all is there, in order, and it goes on. */
        while (got < sent) {
                m = wire_event(&slow);
                assert_non_null(m);
                assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_DELTA);
                got++;
                proto_message_free(m);
        }
        fixture_wait_requests(f, 3);
        assert_false(fake.requests[0].paused);
        assert_int_equal(fake.requests[0].n_pauses, 1);
        wire_close(&slow);
        wire_close(&other);
}

static void test_output_is_bounded(void **state) {
        struct fixture *f = *state;
        struct wire w;

        f->d->limits = (struct conn_limits){
                .output_high = 100000, .output_low = 20000, .output_limit = 500000};
        fixture_client(f, &w);
        fixture_send_continue(&w, "Hi", true);
        fixture_wait_requests(f, 1);
        /* An engine that does not heed the pause. */
        for (unsigned i = 0; f->d->n_peers; i++) {
                assert_true(i < 10000);
                fake_emit_delta(fake.requests[0].r.handle, lump, 1);
                fixture_steps(f, 2);
        }
        assert_false(fake.requests[0].paused);
        wire_close(&w);
}

static void test_io_memory_is_bounded(void **state) {
        struct fixture *f = *state;
        static uint8_t part[100000] = {0xff, 0xff, 0x7f}; /* begin of a frame of 2 MiB - 1 */
        struct wire w[4];

        f->d->users.io.total = 300000;
        for (unsigned i = 0; i < 4; i++) {
                fixture_client(f, &w[i]);
                wire_send_some(&w[i], part, sizeof(part));
                fixture_steps(f, 10);
        }
        assert_true(f->d->users.io.peak <= 300000);
        /* Who gets no more is told so, in the middle of its message. */
        expect_error(&w[3], 0, "limit", true);
        assert_true(wire_send_some(&w[3], part, sizeof(part)) > 0);
        assert_true(wire_wait_eof(&w[3]));
        for (unsigned i = 0; i < 4; i++)
                wire_close(&w[i]);
        fixture_wait_peers(f, 0);
        assert_int_equal(f->d->users.io.used, 0);
}

static void test_hang_up_cancels(void **state) {
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        fixture_send_continue(&w, "one", false);
        fixture_send_continue(&w, "two", true);
        fixture_wait_requests(f, 2);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_true(fake.requests[0].cancelled);
        assert_false(fake.requests[1].cancelled);
        /* Both end by themselves; their last events go nowhere. */
        fake_emit_delta(fake.requests[1].r.handle, "more", 1);
        fake_emit_done(fake.requests[0].r.handle);
        fake_emit_done(fake.requests[1].r.handle);
        fixture_steps(f, 5);
        fixture_client(f, &w);
        fake_answer(ENGINE_STATS, true);
        proto_message_free(expect_kind(&w, fixture_send_stats(&w), CONFAB__V1__EVENT__KIND_STATS));
        wire_close(&w);
}

static void test_hang_up_with_unread_output(void **state) {
        struct fixture *f = *state;
        struct wire w;

        f->d->limits = (struct conn_limits){
                .output_high = 100000, .output_low = 20000, .output_limit = 10000000};
        fixture_client(f, &w);
        fixture_send_continue(&w, "Hi", true);
        fixture_wait_requests(f, 1);
        while (!fake.requests[0].paused) {
                fake_emit_delta(fake.requests[0].r.handle, lump, 1);
                fixture_steps(f, 2);
        }
        wire_close(&w);
        fixture_wait_peers(f, 0);
        /* Nobody reads any more: what was to go on goes on. */
        assert_false(fake.requests[0].paused);
        assert_false(fake.requests[0].cancelled);
}

static void test_half_a_frame_then_gone(void **state) {
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        wire_send_bytes(&w, "\x50half", 5);
        fixture_steps(f, 3);
        wire_close(&w);
        fixture_wait_peers(f, 0);
}

/* Requests byte by byte, and many in one write. */
static void test_any_cut(void **state) {
        struct fixture *f = *state;
        struct buf out = BUF_NULL;
        struct wire w;
        REQUEST(r, STATS, Stats, stats, m);

        fixture_client(f, &w);
        r.has_id = true;
        for (r.id = 100; r.id < 150; r.id++)
                assert_int_equal(proto_append_frame(&out, &r.base, 1000, NULL), 0);
        for (size_t i = 0; i < out.size / 2; i++) {
                wire_send_bytes(&w, out.data + i, 1);
                daemon_step(f->d);
        }
        wire_send_bytes(&w, out.data + out.size / 2, out.size - out.size / 2);
        fixture_wait_requests(f, 50);
        buf_deinit(&out);
        wire_close(&w);
}

/* A flood of requests whose answers are not read: memory stays bounded, and all are answered. */
static void test_flood_of_errors(void **state) {
        struct fixture *f = *state;
        struct buf out = BUF_NULL;
        struct proto_message *m;
        struct wire w;
        unsigned got = 0;
        size_t at = 0;
        REQUEST(r, CLOSE, Close, close, c); /* names no conversation: an error each */

        f->d->limits = (struct conn_limits){
                .output_high = 50000, .output_low = 10000, .output_limit = 1000000};
        fixture_client(f, &w);
        r.has_id = true;
        for (r.id = 1; r.id <= 20000; r.id++)
                assert_int_equal(proto_append_frame(&out, &r.base, 1000, NULL), 0);
        for (unsigned i = 0; i < 2000; i++) {
                at += wire_send_some(&w, out.data + at, out.size - at);
                daemon_step(f->d);
        }
        assert_int_equal(f->d->n_peers, 1);
        assert_true(f->d->users.io.used < 1000000);
        while (got < 20000) {
                if (at < out.size)
                        at += wire_send_some(&w, out.data + at, out.size - at);
                m = wire_event_now(&w);
                if (!m) {
                        assert_false(w.eof);
                        daemon_step(f->d);
                        continue;
                }
                assert_int_equal(m->event->request, ++got);
                proto_message_free(m);
        }
        buf_deinit(&out);
        wire_close(&w);
}

static void test_connection_limits(void **state) {
        struct fixture *f = *state;
        struct wire w[4];

        f->settings.max_user_connections = 2;
        fixture_client(f, &w[0]);
        fixture_client(f, &w[1]);
        fixture_connect(f, &w[2]);
        expect_error(&w[2], 0, "limit", true);
        assert_true(wire_wait_eof(&w[2]));
        wire_close(&w[2]);
        wire_close(&w[0]);
        fixture_wait_peers(f, 1);
        fixture_client(f, &w[0]);
        f->settings.max_user_connections = 10;
        f->settings.max_connections = 2;
        fixture_connect(f, &w[3]);
        expect_error(&w[3], 0, "limit", true);
        assert_true(wire_wait_eof(&w[3]));
        for (unsigned i = 0; i < 4; i++)
                wire_close(&w[i]);
        fixture_wait_peers(f, 0);
}

static void test_hundreds_of_connections(void **state) {
        struct fixture *f = *state;
        static struct wire w[250];

        fake_answer(ENGINE_STATS, true);
        for (unsigned i = 0; i < 250; i++)
                fixture_client(f, &w[i]);
        assert_int_equal(f->d->n_peers, 250);
        for (unsigned i = 0; i < 250; i++)
                proto_message_free(expect_kind(
                        &w[i], fixture_send_stats(&w[i]), CONFAB__V1__EVENT__KIND_STATS));
        for (unsigned i = 0; i < 250; i++)
                wire_close(&w[i]);
        fixture_wait_peers(f, 0);
}

/* The next event, while time passes for the daemon, too. */
static struct proto_message *event_in_time(struct fixture *f, struct wire *w) {
        struct proto_message *m;

        while (!(m = wire_event_now(w)) && !w->eof)
                event_base_loop(f->d->base, EVLOOP_ONCE);
        return m;
}

static void expect_state_error(struct fixture *f, struct wire *w, const char *word) {
        struct proto_message *m = event_in_time(f, w);

        assert_non_null(m);
        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_ERROR);
        assert_int_equal(m->event->request, 0);
        assert_string_equal(m->event->error->code, "state");
        assert_non_null(strstr(m->event->error->message, word));
        proto_message_free(m);
        assert_null(event_in_time(f, w));
        assert_true(w->eof);
}

static void test_silent_peer_is_closed(void **state) {
        struct fixture *f = *state;
        struct wire w;

        f->settings.hello_timeout = 1000;
        fixture_connect(f, &w);
        expect_state_error(f, &w, "hello-timeout");
        wire_close(&w);
}

/* Half a message holds memory for as long as it is half. */
static void test_half_a_frame_ends_in_time(void **state) {
        struct fixture *f = *state;
        struct wire w, slow;
        uint64_t id;
        REQUEST(r, STATS, Stats, stats, m);

        f->d->limits.frame_usec = 20000;
        fixture_client(f, &w);
        assert_true(wire_send_bytes(&w, "\x50half", 5));
        expect_state_error(f, &w, "frame-timeout");
        wire_close(&w);
        /* Nor is it longer for one that adds a byte now and then. */
        fixture_client(f, &w);
        assert_true(wire_send_bytes(&w, "\xff\xff\x01", 3));
        for (struct proto_message *got = NULL; !got; proto_message_free(got)) {
                assert_true(wire_send_bytes(&w, "x", 1));
                event_base_loop(f->d->base, EVLOOP_NONBLOCK);
                got = wire_event_now(&w);
                if (got)
                        assert_string_equal(got->event->error->code, "state");
        }
        wire_close(&w);
        /* A connection without a message may rest for as long as it likes. */
        f->d->limits.frame_usec = 1;
        fixture_client(f, &slow);
        fake_answer(ENGINE_STATS, true);
        id = wire_send(&slow, &r);
        proto_message_free(expect_kind(&slow, id, CONFAB__V1__EVENT__KIND_STATS));
        fixture_client(f, &w);
        assert_true(wire_send_bytes(&w, "\x50half", 5));
        expect_state_error(f, &w, "frame-timeout");
        proto_message_free(
                expect_kind(&slow, fixture_send_stats(&slow), CONFAB__V1__EVENT__KIND_STATS));
        wire_close(&w);
        wire_close(&slow);
}

/* The last words come to a peer that is in the middle of sending, too: it finds no broken pipe. */
static void test_last_words_reach_a_sender(void **state) {
        struct fixture *f = *state;
        static const uint8_t part[60000] = {0};
        struct wire w;

        f->settings.max_user_connections = 0;
        fixture_connect(f, &w);
        fixture_steps(f, 5);
        for (unsigned i = 0; i < 50; i++)
                assert_true(wire_send_bytes(&w, part, sizeof(part)));
        expect_error(&w, 0, "limit", true);
        assert_true(wire_wait_eof(&w));
        wire_close(&w);
        fixture_wait_peers(f, 0);
        /* The same for one that broke the protocol. */
        f->settings.max_user_connections = 10;
        fixture_client(f, &w);
        assert_true(wire_send_bytes(&w, "\0", 1));
        fixture_steps(f, 5);
        for (unsigned i = 0; i < 50; i++)
                assert_true(wire_send_bytes(&w, part, sizeof(part)));
        expect_error(&w, 0, "format", false);
        wire_close(&w);
        fixture_wait_peers(f, 0);
}

static void test_refused_peer_that_does_not_read_is_closed(void **state) {
        struct fixture *f = *state;
        struct wire w;

        /* What comes after a protocol error is not looked at, and the peer has some time to go. */
        f->d->limits.linger_usec = 1000;
        fixture_client(f, &w);
        wire_send_bytes(&w, "\0", 1);
        while (f->d->n_peers)
                event_base_loop(f->d->base, EVLOOP_ONCE);
        wire_close(&w);
}

/* However many are refused and stay, they keep nobody out, and cost few descriptors. */
static void test_refused_peers_are_few(void **state) {
        struct fixture *f = *state;
        static struct wire w[200];
        struct wire one;

        fake_answer(ENGINE_STATS, true);
        f->settings.max_user_connections = 1;
        f->settings.max_connections = 100;
        fixture_client(f, &one);
        for (unsigned i = 0; i < 200; i++) {
                fixture_connect(f, &w[i]);
                expect_error(&w[i], 0, "limit", true);
        }
        fixture_steps(f, 5);
        assert_true(f->d->n_peers < 100);
        wire_close(&one);
        fixture_wait_peers(f, f->d->n_peers - 1);
        fixture_client(f, &one);
        proto_message_free(
                expect_kind(&one, fixture_send_stats(&one), CONFAB__V1__EVENT__KIND_STATS));
        wire_close(&one);
        for (unsigned i = 0; i < 200; i++)
                wire_close(&w[i]);
        fixture_wait_peers(f, 0);
        assert_int_equal(f->d->n_refused, 0);
}

/* Users who are away are remembered, so many of them; who is back is not away. */
static void test_users_who_come_back(void **state) {
        struct fixture *f = *state;
        struct wire w;

        for (unsigned i = 0; i < 3; i++) {
                fixture_client(f, &w);
                assert_int_equal(f->d->users.n_idle, 0);
                wire_close(&w);
                fixture_wait_peers(f, 0);
                assert_int_equal(f->d->users.n_idle, 1);
        }
}

/* A user of others' daemon, in this process: shares are those of its uid. */
static void test_shares_of_users(void **state) {
        struct users users = {.connections = {.total = 100}, .io = {.total = 1000}};
        struct user *user[5], *root, *again;
        struct err e;

        assert_int_equal(users_init(&users, &e), 0);
        for (uint32_t i = 0; i < 4; i++) {
                assert_int_equal(users_join(&users, 70000 + i, &user[i], &e), 0);
                while (users_admit(&users, user[i], 25, &e) == 0)
                        ;
                assert_int_equal(e.code, ERR_LIMIT);
        }
        /* Four users who take all they can leave some for a fifth, and for root. */
        assert_int_equal(users_join(&users, 70004, &user[4], &e), 0);
        assert_int_equal(users_admit(&users, user[4], 25, &e), 0);
        assert_int_equal(users_join(&users, 0, &root, &e), 0);
        while (users_admit(&users, root, 1000, &e) == 0)
                ;
        assert_int_equal(users.connections.used, 100);
        assert_int_equal(users_join(&users, 70000, &again, &e), 0);
        assert_ptr_equal(again, user[0]);
        users_leave(&users, again);
        /* The same for bytes. */
        assert_int_equal(share_take(&user[0]->io, 500), 0);
        assert_int_equal(share_take(&user[0]->io, 1), 1);
        assert_int_equal(share_take(&user[1]->io, 250), 0);
        assert_int_equal(share_take(&root->io, 250), 0);
        share_give(&root->io, 250);
        users_deinit(&users);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_slow_reader_is_paused),
                daemon_test(test_output_is_bounded),
                daemon_test(test_io_memory_is_bounded),
                daemon_test(test_hang_up_cancels),
                daemon_test(test_hang_up_with_unread_output),
                daemon_test(test_half_a_frame_then_gone),
                daemon_test(test_any_cut),
                daemon_test(test_flood_of_errors),
                daemon_test(test_connection_limits),
                daemon_test(test_hundreds_of_connections),
                daemon_test(test_silent_peer_is_closed),
                daemon_test(test_half_a_frame_ends_in_time),
                daemon_test(test_last_words_reach_a_sender),
                daemon_test(test_refused_peers_are_few),
                daemon_test(test_users_who_come_back),
                cmocka_unit_test(test_shares_of_users),
                daemon_test(test_refused_peer_that_does_not_read_is_closed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
