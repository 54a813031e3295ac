/* SPDX-License-Identifier: MIT */
/* export, import, publish, rewind, regenerate and edit, as users run them. */
#include "cli-fixture.h"
#include <sys/mman.h>

#define USER CONFAB__V1__ROLE__ROLE_USER
#define ASSISTANT CONFAB__V1__ROLE__ROLE_ASSISTANT
#define SYSTEM CONFAB__V1__ROLE__ROLE_SYSTEM

static const Confab__V1__Role talk[] = {SYSTEM, USER, ASSISTANT, USER, ASSISTANT};

static void test_usage(void **state) {
        static const struct {
                const char *args[8], *err;
        } bad[] = {
                {{"rewind", "a"}, "one of --turns"},
                {{"rewind", "a", "--turns", "1", "--to-turn", "1"}, "one of --turns"},
                {{"rewind", "a", "--to-position", "-1"}, "not a number"},
                {{"fork", "a", "--at", "1", "--at-position", "2"}, "exclude each other"},
                {{"publish", "a", "--off", "--turns", "1"}, "--off goes without"},
                {{"edit", "a"}, "more arguments"},
                {{"edit", "a", "one", "text"}, "not the number of a turn"},
                {{"edit", "a", "-1", "text"}, "unknown option"},
                {{"edit", "a", "99999999999999999999", "text"}, "not the number of a turn"},
                {{"export"}, "more arguments"},
                {{"import", "a", "b"}, "fewer arguments"},
                {{"regenerate", "a", "text"}, "fewer arguments"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct fixture f;

                setup(&f);
                start(&f, bad[i].args);
                finish(&f, 2, "", bad[i].err);
                teardown(&f);
        }
}

static void test_export(void **state) {
        int fd = memfd_create("test", MFD_CLOEXEC);
        struct proto_message *m;
        struct fixture f;

        assert_int_equal(pwrite(fd, "\x01the export\n", 12, 0), 12);
        BEGIN(&f, "export", "alice", "--without-memory", "--json");
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(EXPORT));
        assert_string_equal(m->request->export->conversation->name, "alice");
        assert_true(m->request->export->without_memory);
        peer_send_exported(&f.peer, m->request->id, fd, 12);
        proto_message_free(m);
        finish(&f, 0, "\x01the export\n", NULL);
        /* Nothing that is no export goes to where an export should go. */
        START(&f, "export", "alice", "--json");
        greet(&f);
        peer_send_error(&f.peer, expect(&f, REQ(EXPORT)), "not_found", "no 'alice'", false);
        finish(&f, 3, "", "no 'alice'");
        teardown(&f);
        close(fd);
}

static void test_import(void **state) {
        struct proto_message *m;
        char got[64] = "";
        struct fixture f;
        int fd;

        setup(&f);
        START(&f, "import", "bob");
        give_input(&f, "any bytes");
        end_input(&f);
        greet(&f);
        m = peer_next(&f.peer);
        fd = peer_take_fd(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(IMPORT));
        assert_string_equal(m->request->import->name, "bob");
        assert_true(fd >= 0);
        assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW),
                F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
        assert_int_equal(pread(fd, got, sizeof(got), 0), 9);
        assert_string_equal(got, "any bytes");
        close(fd);
        peer_send_conversation(&f.peer, m->request->id, 3, "bob");
        proto_message_free(m);
        finish(&f, 0, "bob\n", NULL);
        START(&f, "import", "--json");
        end_input(&f);
        greet(&f);
        peer_send_error(&f.peer, expect(&f, REQ(IMPORT)), "format", "no export", false);
        finish(&f, 1,
                "{\"event\":\"error\",\"code\":\"format\",\"message\":\"no export\","
                "\"retry\":false}\n",
                "no export");
        teardown(&f);
}

static void test_publish(void **state) {
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "publish", "a", "--turns", "1");
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(PUBLISH));
        assert_true(m->request->publish->has_at_turn && m->request->publish->at_turn == 1);
        assert_false(m->request->publish->off);
        peer_send_conversation(&f.peer, m->request->id, 3, "a");
        proto_message_free(m);
        finish(&f, 0, "a: not published\n", NULL);
        START(&f, "publish", "a", "--off");
        greet(&f);
        m = peer_next(&f.peer);
        assert_true(m->request->publish->off && !m->request->publish->has_at_turn);
        peer_send_error(&f.peer, m->request->id, "permission", "only root", false);
        proto_message_free(m);
        finish(&f, 1, "", "only root");
        teardown(&f);
}

static void check_rewind(
        const char *flag, Confab__V1__Rewind__ToCase to, uint32_t value, const char *text) {
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "rewind", "a", flag, text);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->rewind->to_case, to);
        assert_int_equal(m->request->rewind->turns, value); /* all three in one union */
        peer_send_conversation(&f.peer, m->request->id, 3, "a");
        proto_message_free(m);
        finish(&f, 0, "a: 4 turns, 120 tokens\n", NULL);
        teardown(&f);
}

static void test_rewind(void **state) {
        struct proto_message *m;
        struct fixture f;

        check_rewind("--turns", CONFAB__V1__REWIND__TO_TURNS, 2, "2");
        check_rewind("--to-turn", CONFAB__V1__REWIND__TO_AT_TURN, 0, "0");
        check_rewind("--to-position", CONFAB__V1__REWIND__TO_AT_POSITION, 77, "77");
        BEGIN(&f, "fork", "a", "b", "--at-position", "5");
        m = peer_next(&f.peer);
        assert_true(m->request->fork->has_at_position && m->request->fork->at_position == 5);
        assert_false(m->request->fork->has_at_turn);
        peer_send_conversation(&f.peer, m->request->id, 3, "b");
        proto_message_free(m);
        finish(&f, 0, "b\n", NULL);
        teardown(&f);
}

/* Get, then one request that replaces what there is from @turn on, at the revision that was seen:
 * nothing is taken back by itself. */
static struct proto_message *expect_replace(struct fixture *f, uint32_t turn, size_t n_turns) {
        struct proto_message *m = peer_next(&f->peer);

        assert_int_equal(m->request->verb_case, REQ(GET));
        assert_true(m->request->get->turns);
        peer_send_turns(&f->peer, m->request->id, 40, talk, n_turns);
        proto_message_free(m);
        m = peer_next(&f->peer);
        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        assert_int_equal(m->request->continue_->conversation->id, 3);
        assert_int_equal(m->request->continue_->from_case, CONFAB__V1__CONTINUE__FROM_AT_TURN);
        assert_int_equal(m->request->continue_->at_turn, turn);
        assert_true(m->request->continue_->has_expect_revision);
        assert_int_equal(m->request->continue_->expect_revision, 40);
        return m;
}

static void test_regenerate(void **state) {
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "regenerate", "a", "--seed", "5", "--max-tokens", "9");
        m = expect_replace(&f, 4, 5);
        assert_int_equal(m->request->continue_->input_case, CONFAB__V1__CONTINUE__INPUT_NOTHING);
        assert_int_equal(m->request->continue_->sampling->seed, 5);
        assert_int_equal(m->request->continue_->max_tokens, 9);
        peer_send_accepted(&f.peer, m->request->id);
        peer_send_delta(&f.peer, m->request->id, "another");
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "another\n", NULL);
        /* Nothing to drop: nothing is dropped. */
        for (size_t n = 0; n < 2; n++) {
                START(&f, "regenerate", "a");
                greet(&f);
                peer_send_turns(&f.peer, expect(&f, REQ(GET)), 40, talk, n);
                finish(&f, 1, "", "does not end with a reply");
                assert_null(peer_next(&f.peer));
        }
        /* A message without a reply: it gets one. */
        for (size_t n = 2; n < 5; n += 2) {
                START(&f, "regenerate", "a");
                greet(&f);
                m = expect_replace(&f, (uint32_t)n, n);
                peer_send_accepted(&f.peer, m->request->id);
                peer_send_delta(&f.peer, m->request->id, "at last");
                peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
                proto_message_free(m);
                finish(&f, 0, "at last\n", NULL);
        }
        /* Somebody else was quicker. */
        START(&f, "regenerate", "a");
        greet(&f);
        peer_send_turns(&f.peer, expect(&f, REQ(GET)), 40, talk, 5);
        peer_send_error(&f.peer, expect(&f, REQ(CONTINUE)), "conflict", "at revision 42", false);
        finish(&f, 4, "", "at revision 42");
        assert_null(peer_next(&f.peer));
        teardown(&f);
}

static void test_edit(void **state) {
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "edit", "a", "1", "other words", "--temperature", "0");
        m = expect_replace(&f, 1, 5);
        assert_string_equal(m->request->continue_->message, "other words");
        peer_send_accepted(&f.peer, m->request->id);
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        START(&f, "edit", "a", "3", "-");
        give_input(&f, "from a pipe\n");
        end_input(&f);
        greet(&f);
        m = expect_replace(&f, 3, 5);
        assert_string_equal(m->request->continue_->message, "from a pipe");
        peer_send_error(&f.peer, m->request->id, "conflict", "too late", false);
        proto_message_free(m);
        finish(&f, 4, "", "too late");
        /* Who waits for the holder looks again at what it left, and says nothing of that. */
        START(&f, "edit", "a", "3", "x", "--wait");
        end_input(&f);
        greet(&f);
        m = expect_replace(&f, 3, 5);
        assert_true(m->request->continue_->wait);
        peer_send_error(&f.peer, m->request->id, "conflict", "too late", false);
        proto_message_free(m);
        m = expect_replace(&f, 3, 5);
        peer_send_accepted(&f.peer, m->request->id);
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 0, "", NULL);
        /* Not a user's turn, and none at all. */
        START(&f, "edit", "a", "2", "x");
        greet(&f);
        peer_send_turns(&f.peer, expect(&f, REQ(GET)), 40, talk, 5);
        finish(&f, 1, "", "of the assistant");
        START(&f, "edit", "a", "5", "x");
        greet(&f);
        peer_send_turns(&f.peer, expect(&f, REQ(GET)), 40, talk, 5);
        finish(&f, 1, "", "no number 5");
        teardown(&f);
}

/* In a chat: what was said last, by number. */
static void test_chat_replaces(void **state) {
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        START(&f, "chat", "a", "--max-tokens", "9");
        give_input(&f, "/edit other words\n/regenerate\n/edit\n");
        end_input(&f);
        greet(&f);
        peer_send_turns(&f.peer, expect(&f, REQ(GET)), 40, talk, 5);
        m = expect_replace(&f, 3, 5);
        assert_string_equal(m->request->continue_->message, "other words");
        assert_int_equal(m->request->continue_->max_tokens, 9);
        peer_send_accepted(&f.peer, m->request->id);
        peer_send_delta(&f.peer, m->request->id, "so");
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        m = expect_replace(&f, 4, 5);
        assert_int_equal(m->request->continue_->input_case, CONFAB__V1__CONTINUE__INPUT_NOTHING);
        assert_int_equal(m->request->continue_->max_tokens, 9);
        peer_send_accepted(&f.peer, m->request->id);
        peer_send_delta(&f.peer, m->request->id, "or so");
        peer_send_done(&f.peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        proto_message_free(m);
        finish(&f, 2, "so\nor so\n", "what is to be said");
        assert_null(peer_next(&f.peer));
        /* Nothing to replace. */
        START(&f, "chat", "a");
        give_input(&f, "/edit x\n");
        end_input(&f);
        greet(&f);
        peer_send_turns(&f.peer, expect(&f, REQ(GET)), 40, talk, 1);
        peer_send_turns(&f.peer, expect(&f, REQ(GET)), 40, talk, 1);
        finish(&f, 1, "", "nothing was said");
        teardown(&f);
}

/* ---- a history that is longer than a page ---- */

#define N_LONG 100
#define LONG_MESSAGE 3 /* the only turn of the user's */

/* Answer a Get of turns out of N_LONG: it asks for at most @most of them before turn @before (N_LONG: unset). */
static void serve_long(struct fixture *f, uint32_t before, uint32_t most, uint64_t revision) {
        _cleanup_(proto_message_freep) struct proto_message *m = peer_next(&f->peer);
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Turn turns[N_LONG], *pointers[N_LONG];
        const Confab__V1__Get *get;

        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(GET));
        get = m->request->get;
        assert_true(get->turns && !get->parts && !get->has_from_turn);
        assert_int_equal(get->has_before_turn ? get->before_turn : N_LONG, before);
        assert_int_equal(get->max_turns, most);
        c.first_turn = before - MIN(before, most);
        for (uint32_t i = c.first_turn; i < before; i++) {
                Confab__V1__Turn *t = pointers[i - c.first_turn] = &turns[i];

                confab__v1__turn__init(t);
                t->has_role = true;
                t->role = i == LONG_MESSAGE ? CONFAB__V1__ROLE__ROLE_USER
                                            : CONFAB__V1__ROLE__ROLE_ASSISTANT;
        }
        c.has_id = c.has_n_turns = c.has_first_turn = c.has_revision = event.has_request = true;
        c.id = 3;
        c.revision = revision;
        c.n_turns = N_LONG;
        c.turn_list = pointers;
        c.n_turn_list = before - c.first_turn;
        event.request = m->request->id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = &c;
        peer_send(&f->peer, &event);
}

static void expect_edit(struct fixture *f, uint64_t revision) {
        _cleanup_(proto_message_freep) struct proto_message *m = peer_next(&f->peer);

        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        assert_int_equal(m->request->continue_->conversation->id, 3);
        assert_int_equal(m->request->continue_->at_turn, LONG_MESSAGE);
        assert_int_equal(m->request->continue_->expect_revision, revision);
        peer_send_accepted(&f->peer, m->request->id);
        peer_send_done(&f->peer, m->request->id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
}

/* A turn with a number takes two looks, the last message as many as there are pages behind it. */
static void test_edit_long(void **state) {
        static const uint32_t befores[] = {N_LONG, 68, 36, 4};
        struct fixture f;

        BEGIN(&f, "edit", "a", "3", "x");
        serve_long(&f, N_LONG, 1, 40);
        serve_long(&f, LONG_MESSAGE + 1, 1, 40);
        expect_edit(&f, 40);
        finish(&f, 0, "", NULL);
        START(&f, "chat", "a");
        give_input(&f, "/edit x\n");
        end_input(&f);
        greet(&f);
        peer_send_turns(&f.peer, expect(&f, REQ(GET)), 40, talk, 5);
        for (size_t i = 0; i < ARRAY_SIZE(befores); i++)
                serve_long(&f, befores[i], 32, 40);
        expect_edit(&f, 40);
        finish(&f, 0, "", NULL);
        teardown(&f);
}

/* Somebody else says something, or takes back, between two pages; a page is too large. */
static void test_edit_changed(void **state) {
        struct fixture f;

        BEGIN(&f, "edit", "a", "3", "x");
        serve_long(&f, N_LONG, 1, 40);
        serve_long(&f, LONG_MESSAGE + 1, 1, 41);
        serve_long(&f, N_LONG, 1, 41);
        peer_send_error(&f.peer, expect(&f, REQ(GET)), "invalid", "before_turn 4", false);
        serve_long(&f, N_LONG, 1, 42);
        serve_long(&f, N_LONG, 1, 42);
        serve_long(&f, LONG_MESSAGE + 1, 1, 42);
        expect_edit(&f, 42);
        finish(&f, 0, "", NULL);
        START(&f, "chat", "a");
        give_input(&f, "/edit x\n");
        end_input(&f);
        greet(&f);
        peer_send_turns(&f.peer, expect(&f, REQ(GET)), 40, talk, 5);
        peer_send_error(&f.peer, expect(&f, REQ(GET)), "limit", "too large", false);
        serve_long(&f, N_LONG, 16, 40);
        peer_send_error(&f.peer, expect(&f, REQ(GET)), "not_found", "it is gone", false);
        finish(&f, 3, "", "it is gone");
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_usage),
                cmocka_unit_test(test_export),
                cmocka_unit_test(test_import),
                cmocka_unit_test(test_publish),
                cmocka_unit_test(test_rewind),
                cmocka_unit_test(test_regenerate),
                cmocka_unit_test(test_edit),
                cmocka_unit_test(test_chat_replaces),
                cmocka_unit_test(test_edit_long),
                cmocka_unit_test(test_edit_changed),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-memory PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
