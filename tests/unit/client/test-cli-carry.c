/* SPDX-License-Identifier: MIT */
/* carry, and what ls and show tell of conversations that another model has made. */
#include "cli-fixture.h"

struct told {
        uint64_t id;
        const char *name;
        bool other, carried;
        uint32_t n_biases, dropped_to;
        uint64_t unusable;
};

static void fill(Confab__V1__Conversation *c, const struct told *t) {
        confab__v1__conversation__init(c);
        c->has_id = c->has_residency = c->has_n_tokens = c->has_n_turns = true;
        c->id = t->id;
        c->name = proto_borrow(t->name);
        c->residency = CONFAB__V1__RESIDENCY__RESIDENCY_COLD;
        c->n_tokens = 120;
        c->n_turns = 4;
        c->has_other_vocabulary = c->has_unusable_bytes = true;
        c->other_vocabulary = t->other;
        c->unusable_bytes = t->unusable;
        c->has_disk_bytes = true;
        c->disk_bytes = t->unusable;
        c->has_dropped_from = c->has_dropped_to = true;
        c->dropped_from = t->dropped_to ? 10 : 0;
        c->dropped_to = t->dropped_to;
        if (!t->carried)
                return;
        c->has_carried = c->has_n_tokens_before = c->has_n_biases_dropped = true;
        c->carried = true;
        c->n_tokens_before = 90;
        c->n_biases_dropped = t->n_biases;
}

static void send_one(struct fixture *f, uint64_t request, const struct told *t) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation c;

        fill(&c, t);
        event.has_request = true;
        event.request = request;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = &c;
        peer_send(&f->peer, &event);
}

static void send_list(struct fixture *f, uint64_t request, const struct told *t, size_t n) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversations list = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Conversation c[4], *items[4];

        for (size_t i = 0; i < n; i++) {
                fill(&c[i], &t[i]);
                items[i] = &c[i];
        }
        list.conversations = items;
        list.n_conversations = n;
        event.has_request = true;
        event.request = request;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATIONS;
        event.conversations = &list;
        peer_send(&f->peer, &event);
}

static void test_one(void **state) {
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "carry", "alice");
        m = peer_next(&f.peer);
        assert_int_equal(m->request->verb_case, REQ(CARRY));
        assert_string_equal(m->request->carry->conversation->name, "alice");
        send_one(&f, m->request->id, &(struct told){.id = 3, .name = "alice", .carried = true});
        proto_message_free(m);
        finish(&f, 0, "alice: carried over, 4 turns, 120 tokens instead of 90\n", NULL);

        START(&f, "carry", "#3");
        greet(&f);
        m = peer_next(&f.peer);
        assert_int_equal(m->request->carry->conversation->id, 3);
        send_one(&f, m->request->id,
                &(struct told){.id = 3,
                        .name = "alice",
                        .carried = true,
                        .n_biases = 2,
                        .dropped_to = 50});
        proto_message_free(m);
        finish(&f, 0,
                "alice: carried over, 4 turns, 120 tokens instead of 90\n"
                "  not in memory: tokens 10 to 50, the model does not see them\n"
                "  2 logit biases were dropped: they named tokens of the other model\n",
                NULL);

        START(&f, "carry", "alice");
        greet(&f);
        send_one(&f, expect(&f, REQ(CARRY)), &(struct told){.id = 3, .name = "alice"});
        finish(&f, 0, "alice: nothing to do, it has the tokens of this model\n", NULL);

        START(&f, "carry", "alice", "--json");
        greet(&f);
        send_one(&f, expect(&f, REQ(CARRY)),
                &(struct told){.id = 3, .name = "alice", .carried = true, .n_biases = 2});
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "\"carried\":true,"
                                       "\"n_tokens_before\":90,\"n_biases_dropped\":2"));

        START(&f, "carry", "alice");
        greet(&f);
        peer_send_error(&f.peer, expect(&f, REQ(CARRY)), "context_length_exceeded",
                "600 tokens, 88 too many", false);
        finish(&f, 5, "", "600 tokens, 88 too many");
        teardown(&f);
}

static const struct told four[] = {{.id = 1, .name = "a", .other = true, .unusable = 2048},
        {.id = 2, .name = "b", .unusable = 4096}, {.id = 5, .name = "c", .other = true},
        {.id = 6, .name = "d", .other = true}};

/* The first refuses, the others are carried; who does not need it is not asked for. */
static void play_all(struct fixture *f) {
        send_list(f, expect(f, REQ(LIST)), four, 4);
        for (size_t i = 0; i < 4; i++) {
                struct proto_message *m;

                if (!four[i].other)
                        continue;
                m = peer_next(&f->peer);
                assert_int_equal(m->request->verb_case, REQ(CARRY));
                assert_int_equal(m->request->carry->conversation->id, four[i].id);
                if (i == 0)
                        peer_send_error(&f->peer, m->request->id, "busy", "it is held", true);
                else
                        send_one(f, m->request->id,
                                &(struct told){
                                        .id = four[i].id, .name = four[i].name, .carried = true});
                proto_message_free(m);
        }
}

static void test_all(void **state) {
        struct fixture f;

        BEGIN(&f, "carry", "--all");
        play_all(&f);
        finish(&f, 4,
                "c: carried over, 4 turns, 120 tokens instead of 90\n"
                "d: carried over, 4 turns, 120 tokens instead of 90\n",
                "confab: a (#1): it is held\n");
        START(&f, "carry", "--all", "--json");
        greet(&f);
        play_all(&f);
        finish(&f, 4, NULL, "a (#1): it is held");
        assert_non_null(strstr(f.text, "{\"conversations\":[{\"id\":5,\"name\":\"c\","));
        assert_non_null(strstr(f.text,
                "],\"failed\":[{\"id\":1,\"name\":\"a\",\"code\":\"busy\",\"message\":\"it is "
                "held\",\"retry\":true}]}\n"));

        START(&f, "carry", "--all");
        greet(&f);
        send_list(&f, expect(&f, REQ(LIST)), four + 1, 1);
        finish(&f, 0, "nothing to do: all conversations have the tokens of this model\n", NULL);
        /* The daemon goes away: no word of the others. */
        START(&f, "carry", "--all");
        greet(&f);
        send_list(&f, expect(&f, REQ(LIST)), four, 4);
        peer_send_error(&f.peer, expect(&f, REQ(CARRY)), "shutdown", "it stops", true);
        finish(&f, 6, "", "it stops");
        teardown(&f);
}

static void test_usage(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "carry");
        finish(&f, 2, "", "the name of a conversation, or --all");
        START(&f, "carry", "a", "--all");
        finish(&f, 2, "", "the name of a conversation, or --all");
        START(&f, "carry", "");
        finish(&f, 2, "", "the name of the conversation is empty");
        teardown(&f);
}

static void test_told(void **state) {
        struct fixture f;

        BEGIN(&f, "ls");
        send_list(&f, expect(&f, REQ(LIST)), four, 2);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "  NOTE\n"));
        assert_non_null(strstr(f.text, "  made with another model: confab carry NAME\n"));
        assert_non_null(strstr(f.text, "  4.0K on disk are of another model: computed again\n"));
        START(&f, "ls", "--json");
        greet(&f);
        send_list(&f, expect(&f, REQ(LIST)), four, 3);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, ",\"other_vocabulary\":true,\"unusable_bytes\":2048,"));
        assert_non_null(strstr(f.text, ",\"unusable_bytes\":4096,"));
        START(&f, "ls");
        greet(&f);
        send_list(&f, expect(&f, REQ(LIST)), &(struct told){.id = 1, .name = "a"}, 1);
        finish(&f, 0, NULL, NULL);
        assert_null(strstr(f.text, "NOTE"));
        assert_null(strstr(f.text, " \n"));
        START(&f, "show", "a");
        greet(&f);
        send_one(&f, expect(&f, REQ(GET)), &four[0]);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "\nmade with another model: 'confab carry NAME'"));
        assert_non_null(strstr(f.text, "\nmemory of another model: 2.0K on disk, which this model "
                                       "cannot use\n"));
        START(&f, "show", "b");
        greet(&f);
        send_one(&f, expect(&f, REQ(GET)), &four[1]);
        finish(&f, 0, NULL, NULL);
        assert_null(strstr(f.text, "made with another model"));
        assert_non_null(
                strstr(f.text, "4.0K on disk, which this model cannot use: it is computed"));
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one),
                cmocka_unit_test(test_all),
                cmocka_unit_test(test_usage),
                cmocka_unit_test(test_told),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-carry PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
