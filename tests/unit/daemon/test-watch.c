/* SPDX-License-Identifier: MIT */
/* Watch: what it asks of the engine, who may, and notices as the peer receives them. */
#include "daemon-fixture.h"

static uint64_t send_watch(struct wire *w, const char *cursor, bool all_users) {
        REQUEST(r, WATCH, Watch, watch, m);

        m.cursor = proto_borrow(cursor);
        m.has_all_users = m.all_users = all_users;
        return wire_send(w, &r);
}

static struct peer *only_peer(struct fixture *f) {
        assert_int_equal(f->d->n_peers, 1);
        return list_entry(f->d->peers.next, struct peer, link);
}

static void test_request(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t id;

        fixture_client(f, &w);
        only_peer(f)->admin = true;
        (void)send_watch(&w, NULL, false);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.verb, ENGINE_WATCH);
        assert_null(fake.requests[0].r.cursor);
        assert_false(fake.requests[0].r.all_users);
        assert_true(fake.requests[0].r.tell_pressure);
        (void)send_watch(&w, "here", true);
        fixture_wait_requests(f, 2);
        assert_string_equal(fake.requests[1].cursor, "here");
        assert_true(fake.requests[1].r.all_users);
        /* The empty text is a cursor, though of nothing. */
        (void)send_watch(&w, "", false);
        fixture_wait_requests(f, 3);
        assert_non_null(fake.requests[2].r.cursor);
        only_peer(f)->admin = false;
        id = send_watch(&w, NULL, true);
        expect_error(&w, id, "permission", false);
        (void)send_watch(&w, NULL, false);
        fixture_wait_requests(f, 4);
        assert_false(fake.requests[3].r.tell_pressure);
        wire_close(&w);
}

/* The next event, a notice of this kind; only the fields that it should have are set. */
static struct proto_message *expect_notice(
        struct wire *w, uint64_t id, Confab__V1__NoticeKind kind, bool of_conversation) {
        struct proto_message *m = expect_kind(w, id, CONFAB__V1__EVENT__KIND_NOTICE);
        const Confab__V1__Notice *n = m->event->notice;

        assert_int_equal(n->kind, kind);
        assert_string_equal(n->cursor, "place");
        assert_int_equal(n->has_conversation, of_conversation);
        assert_int_equal(n->has_uid, of_conversation);
        assert_int_equal(n->has_revision, of_conversation);
        assert_int_equal(n->tenant != NULL, of_conversation);
        if (n->tenant)
                assert_string_equal(n->tenant, "anna");
        assert_int_equal(n->has_parent, kind == CONFAB__V1__NOTICE_KIND__NOTICE_FORKED);
        assert_int_equal(n->has_pressed, kind == CONFAB__V1__NOTICE_KIND__NOTICE_PRESSURE);
        assert_int_equal(n->has_budget, kind == CONFAB__V1__NOTICE_KIND__NOTICE_PRESSURE);
        assert_int_equal(n->model != NULL, kind == CONFAB__V1__NOTICE_KIND__NOTICE_MODEL);
        assert_int_equal(n->fingerprint != NULL, kind == CONFAB__V1__NOTICE_KIND__NOTICE_MODEL);
        return m;
}

static void emit(uint64_t handle, enum engine_notice_kind kind) {
        struct engine_event ev = {.handle = handle,
                .kind = ENGINE_NOTICE,
                .notice = {.kind = kind,
                        .cursor = "place",
                        .owner = owner_make(5, 2),
                        .tenant = "anna",
                        .conv = 7,
                        .revision = 3,
                        .budget = 99,
                        .pressed = true,
                        .model = "tiny",
                        .fingerprint = {0xab, 0xcd}}};

        if (kind == ENGINE_NOTICE_FORKED)
                ev.notice.parent = 6;
        if (kind == ENGINE_NOTICE_TURN_ENDED)
                ev.notice.finish = ENGINE_FINISH_CANCELLED;
        fake_emit(&ev);
}

static void test_notices(void **state) {
        struct fixture *f = *state;
        struct proto_message *m;
        struct wire w;
        uint64_t id, h;

        fixture_client(f, &w);
        id = send_watch(&w, NULL, false);
        fixture_wait_requests(f, 1);
        h = fake.requests[0].r.handle;
        emit(h, ENGINE_NOTICE_MODEL);
        m = expect_notice(&w, id, CONFAB__V1__NOTICE_KIND__NOTICE_MODEL, false);
        assert_string_equal(m->event->notice->model, "tiny");
        assert_string_equal(m->event->notice->fingerprint, "00000000000000ab00000000000000cd");
        proto_message_free(m);
        emit(h, ENGINE_NOTICE_LIST_AGAIN);
        proto_message_free(
                expect_notice(&w, id, CONFAB__V1__NOTICE_KIND__NOTICE_LIST_AGAIN, false));
        for (int k = ENGINE_NOTICE_OPENED; k <= ENGINE_NOTICE_CLOSED; k++) {
                emit(h, (enum engine_notice_kind)k);
                m = expect_notice(&w, id, (Confab__V1__NoticeKind)k, true);
                assert_int_equal(m->event->notice->conversation, 7);
                assert_int_equal(m->event->notice->uid, 5);
                assert_int_equal(m->event->notice->revision, 3);
                assert_int_equal(m->event->notice->parent, k == ENGINE_NOTICE_FORKED ? 6 : 0);
                assert_int_equal(m->event->notice->has_finish, k == ENGINE_NOTICE_TURN_ENDED);
                proto_message_free(m);
        }
        emit(h, ENGINE_NOTICE_PRESSURE);
        m = expect_notice(&w, id, CONFAB__V1__NOTICE_KIND__NOTICE_PRESSURE, false);
        assert_true(m->event->notice->pressed);
        assert_int_equal(m->event->notice->budget, 99);
        proto_message_free(m);
        wire_close(&w);
}

/* Cancel names the request; the Empty after it is the last word. */
static void test_cancel(void **state) {
        struct fixture *f = *state;
        struct wire w;
        uint64_t id, h;
        REQUEST(r, CANCEL, Cancel, cancel, m);

        fixture_client(f, &w);
        id = send_watch(&w, NULL, false);
        fixture_wait_requests(f, 1);
        h = fake.requests[0].r.handle;
        m.has_request = true;
        m.request = id;
        proto_message_free(expect_kind(&w, wire_send(&w, &r), CONFAB__V1__EVENT__KIND_EMPTY));
        assert_true(fake.requests[0].cancelled);
        fake_emit(&(struct engine_event){.handle = h, .kind = ENGINE_EMPTY, .final = true});
        proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_EMPTY));
        /* Its place among the requests of the connection is free again. */
        assert_int_equal(only_peer(f)->in_flight.n, 0);
        /* Hanging up ends it as well. */
        (void)send_watch(&w, NULL, false);
        fixture_wait_requests(f, 2);
        wire_close(&w);
        fixture_wait_peers(f, 0);
        assert_true(fake.requests[1].cancelled);
}

/* A watch counts in max-requests. */
static void test_places(void **state) {
        struct fixture *f = *state;
        struct wire w;

        f->settings.max_connection_requests = 1;
        fixture_client(f, &w);
        (void)send_watch(&w, NULL, false);
        fixture_wait_requests(f, 1);
        expect_error(&w, fixture_send_stats(&w), "limit", true);
        wire_close(&w);
}

/* A peer that does not read is paused, and has lost nothing when it reads again. */
static void test_slow_reader(void **state) {
        struct fixture *f = *state;
        unsigned sent = 0;
        struct wire w;
        uint64_t id;

        f->d->limits = (struct conn_limits){
                .output_high = 10000, .output_low = 2000, .output_limit = 1000000};
        fixture_client(f, &w);
        id = send_watch(&w, NULL, false);
        fixture_wait_requests(f, 1);
        while (!fake.requests[0].paused) {
                assert_true(sent < 100000);
                emit(fake.requests[0].r.handle, ENGINE_NOTICE_OPENED);
                sent++;
                fixture_steps(f, 1);
        }
        while (sent-- > 0)
                proto_message_free(expect_kind(&w, id, CONFAB__V1__EVENT__KIND_NOTICE));
        for (unsigned i = 0; fake.requests[0].paused; i++) {
                assert_true(i < STEPS_MAX);
                daemon_step(f->d);
        }
        wire_close(&w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_request),
                daemon_test(test_notices),
                daemon_test(test_cancel),
                daemon_test(test_places),
                daemon_test(test_slow_reader),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
