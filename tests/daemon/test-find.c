/* SPDX-License-Identifier: MIT */
/* Finding conversations by what was said, through libconfab and the real daemon, over a restart. */
#include "client/confab.h"
#include "fixture.h"

/* What came of a request. */
struct seen {
        uint64_t id, revision;
        uint32_t n_turns, at_turn, n_messages;
        bool any, other_session;
        char text[4096];
};

static void take(void *userdata, const struct confab_event *event) {
        const struct confab_found *found = event->found;
        struct seen *seen = userdata;
        size_t n = strlen(seen->text);

        switch (event->kind) {
        case CONFAB_EVENT_CONVERSATION:
                seen->id = event->conversation->id;
                seen->n_turns = event->conversation->n_turns;
                break;
        case CONFAB_EVENT_DELTA:
                snprintf(seen->text + n, sizeof(seen->text) - n, "%s", event->delta->text);
                break;
        case CONFAB_EVENT_FOUND:
                seen->any = found->conversation != NULL;
                seen->id = seen->any ? found->conversation->id : 0;
                seen->n_turns = seen->any ? found->conversation->n_turns : 0;
                seen->revision = seen->any ? found->conversation->revision : 0;
                seen->at_turn = found->at_turn;
                seen->n_messages = found->n_messages;
                seen->other_session = found->other_session;
                break;
        default:
                break;
        }
}

static void call(struct confab *c, const struct confab_request *r, struct seen *seen) {
        struct confab_error e;

        *seen = (struct seen){.id = 0};
        if (confab_call(c, r, take, seen, &e) < 0)
                fail_msg("%s: %s", e.code, e.message);
}

static struct confab *connect_to(struct harness *h) {
        struct confab *c = NULL;

        assert_int_equal(confab_connect(&c, h->socket, NULL), 0);
        return c;
}

static struct confab_message message(enum confab_role role, const char *text) {
        return (struct confab_message){.role = role, .text = text, .text_size = strlen(text)};
}

/* What a gateway does for a client that sends its whole history each time. */
static void test_stateless_client(void **state) {
        const struct confab_about about = {.session = "window 7"};
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_message m[4];
        struct harness *h = *state;
        struct confab *c;
        struct seen seen;
        char reply[4096];
        uint64_t id;

        harness_start(h, NULL);
        c = connect_to(h);
        m[0] = message(CONFAB_ROLE_SYSTEM, "You answer briefly.");
        m[1] = message(CONFAB_ROLE_USER, "Who wrote the story?");
        r.verb = CONFAB_FIND;
        r.messages = m;
        r.n_messages = 2;
        call(c, &r, &seen);
        assert_false(seen.any);
        /* A new one, with everything. */
        r.verb = CONFAB_OPEN;
        r.about = &about;
        call(c, &r, &seen);
        id = seen.id;
        r.verb = CONFAB_CONTINUE;
        r.conversation_id = id;
        r.input = CONFAB_INPUT_MESSAGES;
        r.has_max_tokens = true;
        r.max_tokens = 12;
        call(c, &r, &seen);
        snprintf(reply, sizeof(reply), "%s", seen.text);
        /* The next request, after a restart, with the reply as it came. */
        confab_free(c);
        harness_kill(h);
        harness_start(h, NULL);
        c = connect_to(h);
        m[2] = message(CONFAB_ROLE_ASSISTANT, reply);
        m[3] = message(CONFAB_ROLE_USER, "And when?");
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_FIND;
        r.messages = m;
        r.n_messages = 4;
        r.session = "window 7";
        call(c, &r, &seen);
        assert_true(seen.any);
        assert_int_equal(seen.id, id);
        assert_int_equal(seen.n_turns, 3);
        assert_int_equal(seen.at_turn, 3);
        assert_int_equal(seen.n_messages, 3);
        assert_false(seen.other_session);
        r.session = "window 8";
        call(c, &r, &seen);
        assert_int_equal(seen.id, id);
        assert_true(seen.other_session);
        /* Another question from the beginning: the same conversation, as far as it goes. */
        m[1] = message(CONFAB_ROLE_USER, "Who read it?");
        r.n_messages = 2;
        call(c, &r, &seen);
        assert_int_equal(seen.id, id);
        assert_int_equal(seen.at_turn, 1);
        assert_int_equal(seen.n_messages, 1);
        /* With definitions it never began. */
        r.tools = "[{\"name\":\"f\"}]";
        call(c, &r, &seen);
        assert_false(seen.any);
        confab_free(c);
}

static void refused(struct confab *c, const struct confab_request *r, const char *code) {
        struct confab_error e = {.message = ""};

        assert_int_equal(confab_call(c, r, NULL, NULL, &e), -1);
        assert_string_equal(e.code, code);
}

/* All messages go to conversation @name, as far as it does not have them. */
static void replay(struct confab *c, const char *name, struct confab_message *m, size_t n) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct seen seen;

        r.verb = CONFAB_FIND;
        r.conversation = name;
        r.messages = m;
        r.n_messages = n;
        call(c, &r, &seen);
        assert_true(seen.any);
        r.verb = CONFAB_CONTINUE;
        r.input = CONFAB_INPUT_MESSAGES;
        r.messages = m + seen.n_messages;
        r.n_messages = n - seen.n_messages;
        r.has_at_turn = true;
        r.at_turn = seen.at_turn;
        r.has_expect_revision = true;
        r.expect_revision = seen.revision;
        r.has_max_tokens = true; /* only the input */
        call(c, &r, &seen);
}

/* A client that names its conversation, and sends its whole history all the same. */
static void test_named(void **state) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_message m[4];
        struct harness *h = *state;
        struct confab *c;
        struct seen seen;
        uint64_t id;

        harness_start(h, NULL);
        c = connect_to(h);
        r.verb = CONFAB_OPEN;
        r.name = "desk";
        r.system = "You answer at length.";
        call(c, &r, &seen);
        id = seen.id;
        m[0] = message(CONFAB_ROLE_SYSTEM, "You answer briefly.");
        m[1] = message(CONFAB_ROLE_USER, "Who wrote the story?");
        m[2] = message(CONFAB_ROLE_ASSISTANT, "A monk.");
        m[3] = message(CONFAB_ROLE_USER, "And when?");
        r = (struct confab_request)CONFAB_REQUEST_INIT;
        r.verb = CONFAB_FIND;
        r.messages = m;
        r.n_messages = 4;
        r.conversation = "desk";
        r.session = "window 7";
        /* It begins differently, and is told all the same. */
        call(c, &r, &seen);
        assert_true(seen.any && seen.other_session);
        assert_int_equal(seen.id, id);
        assert_int_equal(seen.n_turns, 1);
        assert_int_equal(seen.at_turn, 0);
        assert_int_equal(seen.n_messages, 0);
        replay(c, "desk", m, 2);
        call(c, &r, &seen);
        assert_int_equal(seen.at_turn, 2);
        assert_int_equal(seen.n_messages, 2);
        replay(c, "desk", m, 4);
        call(c, &r, &seen);
        assert_int_equal(seen.n_turns, 4);
        assert_int_equal(seen.n_messages, 4);
        /* An edit, by id. */
        m[2] = message(CONFAB_ROLE_ASSISTANT, "Nobody knows.");
        r.conversation = NULL;
        r.conversation_id = id;
        call(c, &r, &seen);
        assert_int_equal(seen.n_turns, 4);
        assert_int_equal(seen.at_turn, 2);
        assert_int_equal(seen.n_messages, 2);
        replay(c, "desk", m, 4);
        call(c, &r, &seen);
        assert_int_equal(seen.n_turns, 4);
        assert_int_equal(seen.n_messages, 4);
        r.conversation_id = id + 1;
        refused(c, &r, "not_found");
        r.conversation_id = 0;
        r.conversation = "attic";
        refused(c, &r, "not_found");
        r.conversation = "";
        refused(c, &r, "invalid");
        confab_free(c);
}

static void test_refused(void **state) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_message m = message(CONFAB_ROLE_RAW, "raw");
        struct harness *h = *state;
        struct confab *c;

        harness_start(h, NULL);
        c = connect_to(h);
        r.verb = CONFAB_FIND;
        refused(c, &r, "invalid");
        r.messages = &m;
        r.n_messages = 1;
        refused(c, &r, "invalid");
        confab_free(c);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_stateless_client),
                daemon_test(test_named),
                daemon_test(test_refused),
        };

        return DAEMON_TESTS_MAIN(tests);
}
