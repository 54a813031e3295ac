/* SPDX-License-Identifier: MIT */
/* Names of conversations: of those that nothing has, on a terminal, those that are like them; and of those that the shell
 * completes. */
#include "cli-fixture.h"
#include "util/terminal.h"

static void no_such(struct fixture *f, Confab__V1__Request__VerbCase verb) {
        peer_send_error(&f->peer, expect(f, verb), "not_found", "no conversation 'alcie'", false);
}

static void list(struct fixture *f) {
        static const char *const names[] = {"Alice", "bob", "alcide", "a\033[2Jlcie", "alicia"};
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversations page = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Conversation items[ARRAY_SIZE(names)], *pointers[ARRAY_SIZE(names)];
        struct proto_message *m = peer_next(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(LIST));
        assert_true(m->request->list->limit <= 1000); /* one page */
        event.request = m->request->id;
        proto_message_free(m);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                confab__v1__conversation__init(&items[i]);
                items[i].has_id = true;
                items[i].id = i + 1;
                items[i].name = proto_borrow(names[i]);
                pointers[i] = &items[i];
        }
        page.conversations = pointers;
        page.n_conversations = ARRAY_SIZE(names);
        page.has_more = page.more = true; /* not asked for */
        event.has_request = true;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATIONS;
        event.conversations = &page;
        peer_send(&f->peer, &event);
}

static void test_terminal(void **state) {
        static const char near[] =
                "confab: no conversation 'alcie'; did you mean 'Alice' or 'alcide'?\n";
        struct fixture f;

        test_need_terminal();
        setup(&f);
        f.err_terminal = true;
        START(&f, "warm", "alcie");
        greet(&f);
        no_such(&f, REQ(WARM));
        list(&f);
        finish(&f, 3, "", near);

        START(&f, "say", "alcie", "hello");
        greet(&f);
        no_such(&f, REQ(CONTINUE));
        list(&f);
        finish(&f, 3, "", near);

        /* a number is no misspelt name, and whoever reads JSON is no person */
        START(&f, "warm", "#7");
        greet(&f);
        no_such(&f, REQ(WARM));
        finish(&f, 3, "", "confab: no conversation 'alcie'\n");
        START(&f, "say", "alcie", "hello", "--json");
        greet(&f);
        no_such(&f, REQ(CONTINUE));
        finish(&f, 3, NULL, "confab: no conversation 'alcie'\n");
        teardown(&f);
}

/* A list that does not come: what was to be said is said. */
static void test_no_list(void **state) {
        struct fixture f;

        test_need_terminal();
        setup(&f);
        f.err_terminal = true;
        START(&f, "warm", "alcie");
        greet(&f);
        no_such(&f, REQ(WARM));
        peer_send_error(&f.peer, expect(&f, REQ(LIST)), "shutdown", "not now", true);
        finish(&f, 3, "", "confab: no conversation 'alcie'\n");
        teardown(&f);
}

static void test_pipe(void **state) {
        struct fixture f;

        BEGIN(&f, "show", "alcie");
        no_such(&f, REQ(GET));
        assert_null(peer_next(&f.peer)); /* no list */
        finish(&f, 3, "", "confab: no conversation 'alcie'\n");
        teardown(&f);
}

/* ---- completion: all pages of the list ---- */

static void name_page(struct fixture *f, const char *cursor, const char *name, const char *next) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversations page = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Conversation item = CONFAB__V1__CONVERSATION__INIT, *items[] = {&item};
        struct proto_message *m = peer_next(&f->peer);

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(LIST));
        assert_int_equal(m->request->list->order, CONFAB__V1__ORDER__ORDER_UPDATED);
        if (cursor)
                assert_string_equal(m->request->list->cursor, cursor);
        else
                assert_null(m->request->list->cursor);
        event.request = m->request->id;
        proto_message_free(m);
        item.has_id = item.has_residency = true;
        item.id = 1;
        item.residency = CONFAB__V1__RESIDENCY__RESIDENCY_COLD;
        item.name = proto_borrow(name);
        page.conversations = items;
        page.n_conversations = 1;
        page.has_more = true;
        page.more = next != NULL;
        page.cursor = proto_borrow(next);
        event.has_request = true;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATIONS;
        event.conversations = &page;
        peer_send(&f->peer, &event);
}

static void test_complete(void **state) {
        struct fixture f;

        BEGIN(&f, "__complete", "zsh", "--", "show", "al");
        name_page(&f, NULL, "alice", "one");
        name_page(&f, "one", "bob", "two");
        name_page(&f, "two", "alan", NULL);
        finish(&f, 0, "=alice\tcold\n=alan\tcold\n", NULL);
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_terminal),
                cmocka_unit_test(test_no_list),
                cmocka_unit_test(test_pipe),
                cmocka_unit_test(test_complete),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-near PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
