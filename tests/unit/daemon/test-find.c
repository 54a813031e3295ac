/* SPDX-License-Identifier: MIT */
/* Find: what the engine is asked, and what its answers become. */
#include "daemon-fixture.h"

/* One message of the user. */
static uint64_t send_find(struct wire *w, Confab__V1__Ref *ref) {
        Confab__V1__Message message = CONFAB__V1__MESSAGE__INIT, *messages[] = {&message};
        REQUEST(r, FIND, Find, find, m);

        message.has_role = true;
        message.role = CONFAB__V1__ROLE__ROLE_USER;
        message.text = proto_borrow("hello");
        m.messages = messages;
        m.n_messages = 1;
        m.session = proto_borrow("window");
        m.conversation = ref;
        return wire_send(w, &r);
}

static void test_request(void **state) {
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        send_find(&w, NULL);
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.verb, ENGINE_FIND);
        assert_int_equal(fake.requests[0].r.conv_id, 0);
        assert_null(fake.requests[0].r.conv_name);
        assert_int_equal(fake.requests[0].r.n_messages, 1);
        ref.name = proto_borrow("work");
        send_find(&w, &ref);
        fixture_wait_requests(f, 2);
        assert_int_equal(fake.requests[1].r.conv_id, 0);
        assert_string_equal(fake.requests[1].conv_name, "work");
        ref.name = NULL;
        ref.has_id = true;
        ref.id = 7;
        send_find(&w, &ref);
        fixture_wait_requests(f, 3);
        assert_int_equal(fake.requests[2].r.conv_id, 7);
        assert_null(fake.requests[2].r.conv_name);
        /* A name that names nothing is not the same as none. */
        ref.id = 0;
        expect_error(&w, send_find(&w, &ref), "invalid", false);
        ref.name = proto_borrow("");
        expect_error(&w, send_find(&w, &ref), "invalid", false);
        ref.name = proto_borrow("work");
        ref.id = 7;
        expect_error(&w, send_find(&w, &ref), "invalid", false);
        assert_int_equal(fake.n, 3);
        wire_close(&w);
}

static void test_answers(void **state) {
        static const struct engine_found answers[] = {{0, 0, false}, {0, 0, true}, {3, 2, false}};
        struct fixture *f = *state;
        struct wire w;

        fixture_client(f, &w);
        for (unsigned i = 0; i < 3; i++) {
                struct engine_event ev = {.kind = ENGINE_FOUND, .final = true, .found = answers[i]};
                struct proto_message *m;
                uint64_t id;

                /* The first: there is none. */
                ev.conv.id = i > 0 ? 7 : 0;
                id = send_find(&w, NULL);
                fixture_wait_requests(f, i + 1);
                ev.handle = fake.requests[i].r.handle;
                fake_emit(&ev);
                m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_FOUND);
                assert_int_equal(m->event->found->conversation != NULL, i > 0);
                if (i > 0)
                        assert_int_equal(m->event->found->conversation->id, 7);
                assert_int_equal(m->event->found->at_turn, answers[i].at_turn);
                assert_int_equal(m->event->found->n_messages, answers[i].n_messages);
                assert_int_equal(m->event->found->other_session, answers[i].other_session);
                proto_message_free(m);
        }
        wire_close(&w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_request),
                daemon_test(test_answers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
