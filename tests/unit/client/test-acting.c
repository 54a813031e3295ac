/* SPDX-License-Identifier: MIT */
/* Acting for others: what Hello says, and that nothing follows it before the daemon has agreed. */
#include "connection-fixture.h"

/* Take Hello; its id. */
static uint64_t take_hello(struct fixture *f, bool names_uid, uint32_t uid, const char *tenant) {
        struct proto_message *m = peer_next(&f->peer);
        const Confab__V1__Hello *h = m->request->hello;
        uint64_t id = m->request->id;

        assert_int_equal(m->request->verb_case, CONFAB__V1__REQUEST__VERB_HELLO);
        assert_int_equal(h->version, PROTO_VERSION);
        assert_int_equal(h->has_act_uid, names_uid);
        if (names_uid)
                assert_int_equal(h->act_uid, uid);
        if (tenant)
                assert_string_equal(h->tenant, tenant);
        else
                assert_null(h->tenant);
        proto_message_free(m);
        return id;
}

static void answer(struct fixture *f, uint64_t id, const uint32_t *uid, const char *tenant) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Hello hello = CONFAB__V1__HELLO__INIT;

        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_HELLO;
        event.hello = &hello;
        hello.has_version = true;
        hello.version = PROTO_VERSION;
        hello.has_act_uid = uid != NULL;
        hello.act_uid = uid ? *uid : 0;
        hello.tenant = proto_borrow(tenant);
        peer_send(&f->peer, &event);
}

/* Behind what was taken. */
static bool nothing_sent(struct fixture *f) {
        struct pollfd p = {.fd = f->peer.fd, .events = POLLIN};
        const uint8_t *frame;
        size_t size;

        return proto_decoder_next(&f->peer.in, &frame, &size, NULL) == 0 &&
               !proto_decoder_partial(&f->peer.in) && poll(&p, 1, 0) == 0;
}

static void test_agreed(void **state) {
        const struct confab_request r = request_of(CONFAB_STATS);
        const uint32_t uid = 1000;
        const char *tenant = "?";
        struct seen seen = {0};
        struct confab_error e;
        struct fixture f;
        uint32_t got = 7;
        uint64_t id, hello;

        setup_bare(&f);
        assert_int_equal(confab_act_for(f.c, uid, "anna", &e), 0);
        /* Once, and before anything else. */
        assert_int_equal(confab_act_for(f.c, uid, "bert", &e), -1);
        assert_true(confab_error_is(&e, CONFAB_STATE));
        assert_int_equal(confab_submit(f.c, &r, see, &seen, &id, &e), 0);
        assert_int_equal(confab_get_events(f.c), POLLIN | POLLOUT);
        assert_int_equal(confab_process(f.c, &e), 0);
        hello = take_hello(&f, true, uid, "anna");
        /* The request waits, and does not ask for the socket meanwhile. */
        assert_int_equal(confab_process(f.c, &e), 0);
        assert_int_equal(confab_get_events(f.c), POLLIN);
        assert_true(nothing_sent(&f));
        assert_int_equal(confab_get_owner(f.c, &got, &tenant), -1);
        answer(&f, hello, &uid, "anna");
        assert_int_equal(confab_process(f.c, &e), 0);
        assert_int_equal(peer_expect(&f.peer, CONFAB__V1__REQUEST__VERB_STATS), id);
        assert_int_equal(confab_get_owner(f.c, &got, &tenant), 0);
        assert_int_equal(got, uid);
        assert_string_equal(tenant, "anna");
        teardown(&f);
}

/* Only one of the two is named. */
static void test_parts(void **state) {
        const uint32_t own = 7, uid = 1000;
        const char *tenant;
        struct fixture f;
        uint32_t got;

        setup_bare(&f);
        assert_int_equal(confab_act_for(f.c, CONFAB_OWN_UID, "anna", NULL), 0);
        assert_int_equal(confab_process(f.c, NULL), 0);
        answer(&f, take_hello(&f, false, 0, "anna"), &own, "anna");
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(confab_get_owner(f.c, &got, &tenant), 0);
        assert_int_equal(got, own);
        teardown(&f);
        setup_bare(&f);
        assert_int_equal(confab_act_for(f.c, uid, NULL, NULL), 0);
        assert_int_equal(confab_process(f.c, NULL), 0);
        answer(&f, take_hello(&f, true, uid, NULL), &uid, NULL);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(confab_get_owner(f.c, &got, &tenant), 0);
        assert_int_equal(got, uid);
        assert_null(tenant);
        teardown(&f);
}

/* A daemon that does not know of owners, or takes requests for another one, gets none. */
static void test_not_agreed(void **state) {
        const struct confab_request r = request_of(CONFAB_STATS);
        const uint32_t uid = 1000, other = 1001;
        static const struct {
                bool names_uid, is_other;
                const char *tenant;
        } answers[] = {{false, false, NULL}, {true, false, NULL}, {true, false, "Anna"},
                {true, true, "anna"}, {false, false, "anna"}};

        for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
                struct seen seen = {0};
                struct confab_error e;
                struct fixture f;

                setup_bare(&f);
                assert_int_equal(confab_act_for(f.c, uid, "anna", &e), 0);
                assert_int_equal(confab_submit(f.c, &r, see, &seen, NULL, &e), 0);
                assert_int_equal(confab_process(f.c, &e), 0);
                answer(&f, take_hello(&f, true, uid, "anna"),
                        !answers[i].names_uid ? NULL
                        : answers[i].is_other ? &other
                                              : &uid,
                        answers[i].tenant);
                assert_int_equal(confab_process(f.c, &e), -1);
                assert_true(confab_error_is(&e, CONFAB_UNSUPPORTED));
                assert_true(confab_error_is(&seen.error, CONFAB_UNSUPPORTED));
                assert_true(nothing_sent(&f));
                teardown(&f);
        }
}

static void test_refused(void **state) {
        const struct confab_request r = request_of(CONFAB_STATS);
        struct seen seen = {0};
        struct confab_error e;
        struct fixture f;

        setup_bare(&f);
        assert_int_equal(confab_act_for(f.c, 1000, NULL, &e), 0);
        assert_int_equal(confab_submit(f.c, &r, see, &seen, NULL, &e), 0);
        assert_int_equal(confab_process(f.c, &e), 0);
        peer_send_error(&f.peer, take_hello(&f, true, 1000, NULL), "permission", "no", false);
        assert_int_equal(confab_process(f.c, &e), -1);
        assert_true(confab_error_is(&e, CONFAB_PERMISSION));
        assert_true(confab_error_is(&seen.error, CONFAB_PERMISSION));
        assert_true(nothing_sent(&f));
        teardown(&f);
}

static void test_invalid(void **state) {
        static char longest[130];
        static const char *const bad[] = {"", "\xff", longest};
        const struct confab_request r = request_of(CONFAB_STATS);
        struct confab_error e;
        struct fixture f;

        memset(longest, 'a', 129);
        setup_bare(&f);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                assert_int_equal(confab_act_for(f.c, 1000, bad[i], &e), -1);
                assert_true(confab_error_is(&e, CONFAB_INVALID));
        }
        /* The connection is as it was. */
        assert_int_equal(confab_process(f.c, &e), 0);
        take_hello(&f, false, 0, NULL);
        assert_int_equal(confab_act_for(f.c, 1000, "anna", &e), -1);
        assert_true(confab_error_is(&e, CONFAB_STATE));
        teardown(&f);
        setup_bare(&f);
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, &e), 0);
        assert_int_equal(confab_act_for(f.c, 1000, "anna", &e), -1);
        assert_true(confab_error_is(&e, CONFAB_STATE));
        teardown(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_agreed),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_not_agreed),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_invalid),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
