/* SPDX-License-Identifier: MIT */
/* How a connection ends: daemons that misbehave, go away, or are not running. */
#include "connection-fixture.h"

/* One request is in flight; after what the peer has done, it and the connection end with @code. */
static void check_end(struct fixture *f, struct seen *seen, const char *code) {
        struct confab_request r = request_of(CONFAB_STATS);
        struct confab_error e = {0};
        int r1;

        do /* the end of the stream may take a second look */
                r1 = confab_wait(f->c, 0, &e);
        while (r1 == 0);
        assert_int_equal(r1, -1);
        assert_string_equal(e.code, code);
        assert_int_equal(seen->n, 1);
        assert_int_equal(seen->kinds[0], CONFAB_EVENT_ERROR);
        assert_string_equal(seen->error.code, code);
        assert_int_equal(confab_get_n_pending(f->c), 0);
        /* and it stays over, for the same reason */
        assert_int_equal(confab_process(f->c, &e), -1);
        assert_string_equal(e.code, code);
        assert_int_equal(confab_submit(f->c, &r, see, seen, NULL, &e), -1);
        assert_string_equal(e.code, code);
        assert_int_equal(confab_call(f->c, &r, see, seen, &e), -1);
        assert_int_equal(seen->n, 1);
        teardown(f);
}

static uint64_t setup_waiting(struct fixture *f, struct seen *seen) {
        struct confab_request r = request_of(CONFAB_STATS);

        setup(f);
        return submit(f, &r, seen);
}

static void test_hang_up(void **state) {
        struct seen seen = {0};
        struct fixture f;

        setup_waiting(&f, &seen);
        peer_deinit(&f.peer);
        check_end(&f, &seen, CONFAB_DISCONNECTED);
}

static void test_hang_up_in_frame(void **state) {
        struct seen seen = {0};
        struct fixture f;

        setup_waiting(&f, &seen);
        peer_send_bytes(&f.peer, "\x20\x08\x02", 3);
        peer_deinit(&f.peer);
        check_end(&f, &seen, CONFAB_DISCONNECTED);
        assert_non_null(strstr(seen.error.message, "middle"));
}

static void test_bad_frames(void **state) {
        static const struct {
                const char *bytes;
                size_t n;
        } bad[] = {
                {"\xff\xff\xff\xff\x0f", 5},                 /* 4 GiB */
                {"\x80\x00", 2},                             /* malformed length */
                {"\x00", 1},                                 /* empty */
                {"\x02\x08\x80", 3},                         /* malformed message */
                {"\x08\x08\x09\x1a\x04\x0a\x02\xff\xfe", 9}, /* not UTF-8, and of nobody */
                {"GET / HTTP/1.1\r\n\r\n________________________________________________________"
                 "______",
                        80},
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct seen seen = {0};
                struct fixture f;

                setup_waiting(&f, &seen);
                peer_send_bytes(&f.peer, bad[i].bytes, bad[i].n);
                check_end(&f, &seen, CONFAB_PROTOCOL);
        }
}

/* The frame is sound and says whose it is: others go on. */
static void test_bad_string(void **state) {
        struct seen seen = {0}, other = {0};
        struct confab_request r = request_of(CONFAB_STATS);
        struct fixture f;

        assert_int_equal(setup_waiting(&f, &seen), 2);
        assert_int_equal(submit(&f, &r, &other), 3);
        peer_send_bytes(&f.peer, "\x08\x08\x02\x1a\x04\x0a\x02\xff\xfe", 9);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n_final, 1);
        assert_true(confab_error_is(&seen.error, CONFAB_PROTOCOL));
        assert_int_equal(other.n, 0);
        assert_int_equal(confab_get_n_pending(f.c), 1);
        teardown(&f);
}

static void test_wrong_answer(void **state) {
        struct seen seen = {0};
        struct fixture f;
        uint64_t id;

        id = setup_waiting(&f, &seen);
        peer_send_done(&f.peer, id, 0); /* Stats is not answered by Done */
        check_end(&f, &seen, CONFAB_PROTOCOL);
}

/* Only a Continue has events before its last one. */
static void test_events_of_another_verb(void **state) {
        for (int i = 0; i < 3; i++) {
                struct seen seen = {0};
                struct fixture f;
                uint64_t id = setup_waiting(&f, &seen);

                if (i == 0)
                        peer_send_delta(&f.peer, id, "text");
                else if (i == 1)
                        peer_send_accepted(&f.peer, id);
                else
                        peer_send_progress(&f.peer, id, 1, 2);
                check_end(&f, &seen, CONFAB_PROTOCOL);
        }
}

static void test_unknown_events(void **state) {
        static const uint8_t newer[] = {0x06, 0x08, 0x02, 0xaa, 0x06, 0x01, 'x'};
        static const uint8_t no_kind[] = {0x02, 0x08, 0x02};
        struct seen seen = {0};
        struct fixture f;

        assert_int_equal(setup_waiting(&f, &seen), 2);
        peer_send_bytes(&f.peer, newer, sizeof(newer)); /* field 101 */
        peer_send_bytes(&f.peer, no_kind, sizeof(no_kind));
        peer_send_empty(&f.peer, 1234);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 0);
        peer_send_error(&f.peer, 2, "", "", false);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 1);
        assert_string_equal(seen.error.code, "unknown");
        assert_true(seen.error.message[0] != 0);
        teardown(&f);
}

static void test_last_words(void **state) {
        struct seen seen = {0};
        struct fixture f;

        setup_waiting(&f, &seen);
        peer_send_error(&f.peer, 0, "shutdown", "the daemon is stopping", true);
        peer_deinit(&f.peer);
        check_end(&f, &seen, CONFAB_SHUTDOWN);
}

/* The daemon closes while a request is on its way out: what it said before is the reason. */
static void test_last_words_after_epipe(void **state) {
        struct confab_request r = request_of(CONFAB_STATS);
        struct seen seen = {0};
        struct fixture f;

        setup(&f);
        peer_send_error(&f.peer, 0, "limit", "too many connections", true);
        peer_deinit(&f.peer);
        assert_int_equal(confab_submit(f.c, &r, see, &seen, NULL, NULL), 0);
        check_end(&f, &seen, CONFAB_LIMIT);
}

static void test_stops_listening(void **state) {
        struct confab_request r = request_of(CONFAB_STATS);
        struct seen seen = {0};
        struct fixture f;

        setup(&f);
        assert_int_equal(shutdown(f.peer.fd, SHUT_RD), 0);
        assert_int_equal(confab_submit(f.c, &r, see, &seen, NULL, NULL), 0);
        assert_int_equal(confab_process(f.c, NULL), -1);
        assert_int_equal(seen.n, 1);
        assert_true(confab_error_is(&seen.error, CONFAB_DISCONNECTED));
        teardown(&f);
}

static void test_versions(void **state) {
        struct confab_error e = {0};
        struct fixture f;

        setup_bare(&f);
        peer_send_hello(&f.peer, 1, 2, 1000);
        assert_int_equal(confab_process(f.c, &e), -1);
        assert_true(confab_error_is(&e, CONFAB_UNSUPPORTED));
        teardown(&f);

        setup_bare(&f);
        peer_send_error(&f.peer, 1, "unsupported", "speak version 7", false);
        assert_int_equal(confab_process(f.c, &e), -1);
        assert_string_equal(e.message, "speak version 7");
        teardown(&f);

        setup_bare(&f);
        peer_send_empty(&f.peer, 2); /* no greeting */
        assert_int_equal(confab_process(f.c, &e), -1);
        assert_true(confab_error_is(&e, CONFAB_PROTOCOL));
        teardown(&f);
}

static void test_connect_errors(void **state) {
        struct confab_error e = {0};
        struct confab *c = NULL;
        char path[200];

        assert_int_equal(confab_connect(&c, "/nonexistent/confab.sock", &e), -1);
        assert_true(confab_error_is(&e, CONFAB_NO_DAEMON));
        assert_int_equal(confab_connect(&c, "", &e), -1);
        assert_true(confab_error_is(&e, CONFAB_INVALID));
        memset(path, 'x', sizeof(path));
        path[sizeof(path) - 1] = 0;
        assert_int_equal(confab_connect(&c, path, &e), -1);
        assert_true(confab_error_is(&e, CONFAB_INVALID));
        assert_null(c);
        assert_null(confab_free(NULL));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hang_up),
                cmocka_unit_test(test_hang_up_in_frame),
                cmocka_unit_test(test_bad_frames),
                cmocka_unit_test(test_bad_string),
                cmocka_unit_test(test_wrong_answer),
                cmocka_unit_test(test_events_of_another_verb),
                cmocka_unit_test(test_unknown_events),
                cmocka_unit_test(test_last_words),
                cmocka_unit_test(test_last_words_after_epipe),
                cmocka_unit_test(test_stops_listening),
                cmocka_unit_test(test_versions),
                cmocka_unit_test(test_connect_errors),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
