/* SPDX-License-Identifier: MIT */
/* Watching through libconfab: in an event loop, and blocking. */
#include "connection-fixture.h"

static void send_notice(struct peer *p, uint64_t id, Confab__V1__Notice *notice) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;

        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_NOTICE;
        event.notice = notice;
        peer_send(p, &event);
}

static void send_kind(struct peer *p, uint64_t id, int kind) {
        Confab__V1__Notice m = CONFAB__V1__NOTICE__INIT;

        m.has_kind = true;
        m.kind = (Confab__V1__NoticeKind)kind;
        send_notice(p, id, &m);
}

static void test_request(void **state) {
        struct confab_request r = request_of(CONFAB_WATCH);
        struct proto_message *m;
        struct fixture f;

        (void)state;
        setup(&f);
        for (int round = 0; round < 2; round++) {
                r.cursor = round ? "here" : NULL;
                r.all_users = round;
                assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
                assert_int_equal(confab_process(f.c, NULL), 0);
                m = peer_next(&f.peer);
                assert_int_equal(m->request->verb_case, CONFAB__V1__REQUEST__VERB_WATCH);
                assert_int_equal(m->request->watch->all_users, round);
                assert_int_equal(m->request->watch->cursor != NULL, round);
                if (round)
                        assert_string_equal(m->request->watch->cursor, "here");
                proto_message_free(m);
        }
        r.cursor = "\xff";
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), -1);
        teardown(&f);
}

static struct confab_notice last;
static char last_cursor[16], last_model[16];

static void check_notice(const struct confab_event *event) {
        assert_int_equal(event->kind, CONFAB_EVENT_NOTICE);
        assert_false(event->final);
        last = *event->notice;
        snprintf(last_cursor, sizeof(last_cursor), "%s", last.cursor);
        snprintf(last_model, sizeof(last_model), "%s", last.model ? last.model : "none");
}

static void test_fields(void **state) {
        struct confab_request r = request_of(CONFAB_WATCH);
        Confab__V1__Notice m = CONFAB__V1__NOTICE__INIT;
        struct seen seen = {.check = check_notice};
        struct fixture f;
        uint64_t id;

        (void)state;
        setup(&f);
        id = submit(&f, &r, &seen);
        send_notice(&f.peer, id, &m); /* with nothing in it */
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(last.kind, CONFAB_NOTICE_NONE);
        assert_string_equal(last_cursor, "");
        assert_string_equal(last_model, "none");
        assert_null(last.tenant);
        m.has_kind = m.has_conversation = m.has_uid = m.has_revision = true;
        m.has_parent = m.has_finish = m.has_budget = m.has_pressed = true;
        m.kind = CONFAB__V1__NOTICE_KIND__NOTICE_TURN_ENDED;
        m.cursor = proto_borrow("there");
        m.model = proto_borrow("tiny");
        m.conversation = 1ull << 40;
        m.uid = 1000;
        m.revision = 9;
        m.parent = 8;
        m.finish = CONFAB__V1__FINISH_REASON__FINISH_CANCELLED;
        m.budget = 1ull << 41;
        m.pressed = true;
        send_notice(&f.peer, id, &m);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(last.kind, CONFAB_NOTICE_TURN_ENDED);
        assert_string_equal(last_cursor, "there");
        assert_string_equal(last_model, "tiny");
        assert_true(last.conversation == 1ull << 40 && last.budget == 1ull << 41 && last.pressed);
        assert_true(last.uid == 1000 && last.revision == 9 && last.parent == 8);
        assert_int_equal(last.finish, CONFAB_FINISH_CANCELLED);
        seen.check = NULL;
        peer_send_empty(&f.peer, id);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n, 3);
        assert_int_equal(seen.n_final, 1);
        assert_int_equal(confab_get_n_pending(f.c), 0);
        teardown(&f);
}

/* Blocking: the callback decides when it is enough. */
struct loop {
        struct confab *c;
        unsigned n;
        uint64_t id;
};

static void on_event(void *userdata, const struct confab_event *event) {
        struct loop *loop = userdata;

        if (event->final)
                return;
        loop->id = event->request;
        if (++loop->n == 3)
                assert_int_equal(confab_cancel(loop->c, event->request, NULL), 0);
}

static void test_blocking(void **state) {
        struct confab_request r = request_of(CONFAB_WATCH);
        struct proto_message *m;
        struct seen seen = {0};
        struct loop loop;
        struct fixture f;
        uint64_t id;

        (void)state;
        setup(&f);
        loop = (struct loop){.c = f.c};
        id = submit(&f, &r, &seen) + 1; /* of the next one */
        for (int kind = 1; kind <= 3; kind++)
                send_kind(&f.peer, id, kind);
        peer_send_empty(&f.peer, id);
        assert_int_equal(confab_call(f.c, &r, on_event, &loop, NULL), 0);
        assert_int_equal(loop.n, 3);
        assert_int_equal(loop.id, id);
        assert_int_equal(confab_process(f.c, NULL), 0);
        proto_message_free(peer_next(&f.peer)); /* the second watch */
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, CONFAB__V1__REQUEST__VERB_CANCEL);
        assert_int_equal(m->request->cancel->request, id);
        proto_message_free(m);
        teardown(&f);
}

/* A notice answers no other question, and a watch has no other answer. */
static void test_wrong_answers(void **state) {
        (void)state;
        for (int round = 0; round < 2; round++) {
                struct confab_request r = request_of(round ? CONFAB_WATCH : CONFAB_CONTINUE);
                struct seen seen = {0};
                struct confab_error e;
                struct fixture f;
                uint64_t id;

                setup(&f);
                r.conversation = "alice";
                id = submit(&f, &r, &seen);
                if (round)
                        peer_send_progress(&f.peer, id, 1, 2);
                else
                        send_kind(&f.peer, id, 1);
                assert_int_equal(confab_process(f.c, &e), -1);
                assert_true(confab_error_is(&e, CONFAB_PROTOCOL));
                teardown(&f);
        }
}

static void test_names(void **state) {
        (void)state;
        assert_string_equal(confab_notice_name(CONFAB_NOTICE_MODEL), "model");
        assert_string_equal(confab_notice_name(CONFAB_NOTICE_LIST_AGAIN), "list_again");
        assert_string_equal(confab_notice_name(CONFAB_NOTICE_TURN_BEGUN), "turn_begun");
        assert_string_equal(confab_notice_name(CONFAB_NOTICE_PRESSURE), "pressure");
        assert_string_equal(confab_notice_name((enum confab_notice_kind)99), "unknown");
        assert_int_equal(CONFAB_NOTICE_PRESSURE, CONFAB__V1__NOTICE_KIND__NOTICE_PRESSURE);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_request),
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_blocking),
                cmocka_unit_test(test_wrong_answers),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
