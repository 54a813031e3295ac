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

        ledger_set_budget(&f->d->io, 300000);
        for (unsigned i = 0; i < 4; i++) {
                fixture_client(f, &w[i]);
                wire_send_some(&w[i], part, sizeof(part));
                fixture_steps(f, 10);
        }
        assert_in_range(f->d->n_peers, 1, 3);
        assert_true(ledger_peak(&f->d->io) <= 300000);
        for (unsigned i = 0; i < 4; i++)
                wire_close(&w[i]);
        fixture_wait_peers(f, 0);
        assert_int_equal(ledger_used(&f->d->io), 0);
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
        assert_true(ledger_used(&f->d->io) < 1000000);
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

static void test_silent_peer_is_closed(void **state) {
        struct fixture *f = *state;
        struct wire w;

        f->settings.hello_timeout = 1000;
        fixture_connect(f, &w);
        while (wire_event_now(&w) == NULL && !w.eof)
                event_base_loop(f->d->base, EVLOOP_ONCE);
        assert_true(w.eof);
        wire_close(&w);
}

static void test_refused_peer_that_does_not_read_is_closed(void **state) {
        struct fixture *f = *state;
        struct wire w;

        /* A protocol error ends in lingering; what comes then is not read any more. */
        fixture_client(f, &w);
        wire_send_bytes(&w, "\0", 1);
        fixture_wait_peers(f, 0);
        wire_close(&w);
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
                daemon_test(test_refused_peer_that_does_not_read_is_closed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
