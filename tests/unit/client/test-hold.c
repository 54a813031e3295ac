/* SPDX-License-Identifier: MIT */
/* A connection that is held: nothing is handed out, nothing is lost, and the order stays. */
#include "connection-fixture.h"

static struct confab *held;

static void hold(const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_DELTA)
                confab_hold(held, true);
}

static void test_hold(void **state) {
        struct confab_request r = request_of(CONFAB_CONTINUE);
        struct seen seen = {.check = hold};
        struct fixture f;
        uint64_t id;

        (void)state;
        setup(&f);
        held = f.c;
        r.conversation_id = 1;
        id = submit(&f, &r, &seen);
        peer_send_accepted(&f.peer, id);
        peer_send_delta(&f.peer, id, "one ");
        peer_send_delta(&f.peer, id, "two ");
        peer_send_delta(&f.peer, id, "three");
        /* The first one holds it, although the others have been received as well. */
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_string_equal(seen.text, "one ");
        assert_int_equal(confab_get_events(f.c), 0);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_string_equal(seen.text, "one ");
        /* What was received comes without polling. */
        confab_hold(f.c, false);
        assert_int_equal(confab_get_events(f.c), POLLIN);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_string_equal(seen.text, "one two ");
        peer_send_done(&f.peer, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        seen.check = NULL;
        confab_hold(f.c, false);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_string_equal(seen.text, "one two three");
        assert_int_equal(seen.n_final, 1);
        teardown(&f);
}

/* What is submitted meanwhile is sent. */
static void test_sends(void **state) {
        struct confab_request r = request_of(CONFAB_STATS);
        struct seen seen = {.f = NULL};
        struct fixture f;
        uint64_t id;

        (void)state;
        setup(&f);
        confab_hold(f.c, true);
        id = submit(&f, &r, &seen);
        peer_send_empty(&f.peer, id + 1); /* of no request */
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 0);
        teardown(&f);
}

/* The end is an event like others. */
static void test_end(void **state) {
        struct confab_request r = request_of(CONFAB_STATS);
        struct seen seen = {.f = NULL};
        struct fixture f;

        (void)state;
        setup(&f);
        submit(&f, &r, &seen);
        confab_hold(f.c, true);
        peer_deinit(&f.peer);
        f.peer.fd = -1;
        assert_int_equal(confab_process(f.c, NULL), 0);
        /* Sending tells that the daemon is gone, but that is not handed out either. */
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        (void)confab_process(f.c, NULL);
        assert_int_equal(seen.n, 0);
        confab_hold(f.c, false);
        assert_int_equal(confab_process(f.c, NULL), -1);
        assert_int_equal(seen.n_final, 1);
        assert_true(confab_error_is(&seen.error, CONFAB_DISCONNECTED));
        assert_null(confab_free(f.c));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hold),
                cmocka_unit_test(test_sends),
                cmocka_unit_test(test_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
