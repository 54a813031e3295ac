/* SPDX-License-Identifier: MIT */
/* Find through libconfab: in all conversations, and in one. */
#include "connection-fixture.h"

static struct confab_request find(void) {
        static const struct confab_message message = {
                .role = CONFAB_ROLE_USER, .text = "hello", .text_size = 5};
        struct confab_request r = request_of(CONFAB_FIND);

        r.messages = &message;
        r.n_messages = 1;
        return r;
}

static void test_request(void **state) {
        struct confab_request r = find();
        struct proto_message *m;
        struct fixture f;

        (void)state;
        setup(&f);
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        r.conversation = "work";
        r.session = "window";
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        r.conversation_id = 7;
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), 0);
        assert_int_equal(confab_process(f.c, NULL), 0);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, CONFAB__V1__REQUEST__VERB_FIND);
        assert_null(m->request->find->conversation);
        assert_string_equal(m->request->find->messages[0]->text, "hello");
        proto_message_free(m);
        m = peer_next(&f.peer);
        assert_string_equal(m->request->find->conversation->name, "work");
        assert_int_equal(m->request->find->conversation->id, 0);
        assert_string_equal(m->request->find->session, "window");
        proto_message_free(m);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->find->conversation->id, 7);
        assert_null(m->request->find->conversation->name);
        proto_message_free(m);
        r.conversation_id = 0;
        r.conversation = "\xff";
        assert_int_equal(confab_submit(f.c, &r, NULL, NULL, NULL, NULL), -1);
        teardown(&f);
}

static void check_nothing(const struct confab_event *event) {
        assert_int_equal(event->kind, CONFAB_EVENT_FOUND);
        assert_true(event->final);
        assert_null(event->found->conversation);
        assert_int_equal(event->found->at_turn, 0);
        assert_int_equal(event->found->n_messages, 0);
}

/* It is there, and nothing agrees. */
static void check_named(const struct confab_event *event) {
        assert_int_equal(event->kind, CONFAB_EVENT_FOUND);
        assert_int_equal(event->found->conversation->id, 7);
        assert_int_equal(event->found->at_turn, 0);
        assert_int_equal(event->found->n_messages, 0);
        assert_true(event->found->other_session);
}

static void test_answers(void **state) {
        Confab__V1__Conversation conversation = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Found found = CONFAB__V1__FOUND__INIT;
        struct confab_request r = find();
        struct seen seen = {.check = check_nothing}, named = {.check = check_named};
        struct fixture f;

        (void)state;
        setup(&f);
        event.has_request = true;
        event.kind_case = CONFAB__V1__EVENT__KIND_FOUND;
        event.found = &found;
        event.request = submit(&f, &r, &seen);
        peer_send(&f.peer, &event);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(seen.n_final, 1);
        conversation.has_id = true;
        conversation.id = 7;
        found.conversation = &conversation;
        found.has_other_session = found.other_session = true;
        r.conversation_id = 7;
        event.request = submit(&f, &r, &named);
        peer_send(&f.peer, &event);
        assert_int_equal(confab_process(f.c, NULL), 0);
        assert_int_equal(named.n_final, 1);
        teardown(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_request),
                cmocka_unit_test(test_answers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
