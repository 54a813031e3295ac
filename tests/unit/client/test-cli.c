/* SPDX-License-Identifier: MIT */
/* The confab program, run as users run it, against a daemon played by this test: usage, and the
 * verbs that answer at once. */
#include "cli-fixture.h"

/* ---- usage ---- */

static void check_usage(struct fixture *f, const char *const *args, const char *err) {
        start(f, args);
        finish(f, 2, "", err);
}
#define USAGE(f, err, ...) check_usage((f), (const char *const[]){__VA_ARGS__, NULL}, (err))

static void test_usage(void **state) {
        struct fixture f;

        setup(&f);
        check_usage(&f, (const char *const[]){NULL}, "no command");
        USAGE(&f, "unknown command 'shout'", "shout");
        USAGE(&f, "more arguments", "say");
        USAGE(&f, "fewer arguments", "say", "a", "b", "c");
        USAGE(&f, "unknown option --loud", "say", "a", "b", "--loud");
        USAGE(&f, "unknown option -x", "say", "-x");
        USAGE(&f, "needs an argument: N", "say", "a", "b", "--max-tokens");
        USAGE(&f, "takes no argument", "say", "a", "b", "--raw=1");
        USAGE(&f, "not a number", "say", "a", "b", "--max-tokens", "-1");
        USAGE(&f, "not a number", "say", "a", "b", "--seed=18446744073709551616");
        USAGE(&f, "not a number", "say", "a", "b", "--temperature", "warm");
        USAGE(&f, "not a number", "say", "a", "b", "--top-p", "1.5");
        USAGE(&f, "not a number", "say", "a", "b", "--top-p", "nan");
        USAGE(&f, "TOKEN=BIAS", "say", "a", "b", "--logit-bias", "5");
        USAGE(&f, "TOKEN=BIAS", "say", "a", "b", "--logit-bias", "-5=1");
        USAGE(&f, "without a text", "say", "a", "b", "--no-input");
        USAGE(&f, "one of --turns", "rewind", "a");
        USAGE(&f, "is empty", "show", "");
        USAGE(&f, "takes error or shift", "open", "a", "--overflow", "drop");
        USAGE(&f, "takes error or shift", "update", "a", "--overflow=");
        USAGE(&f, "name is empty", "update", "a", "--name", "");
        USAGE(&f, "no conversation number", "show", "#0");
        USAGE(&f, "no conversation number", "show", "99999999999999999999");
        teardown(&f);
}

static void test_help(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "--help");
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "tokenize"));
        START(&f, "say", "--help");
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "--logprobs N"));
        START(&f, "help", "say");
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "Usage: confab say NAME [TEXT|@FILE|-] [OPTIONS]\n"));
        USAGE(&f, "unknown command 'more' of say", "help", "say", "more");
        START(&f, "--version");
        finish(&f, 0, "confab " CONFAB_VERSION "\n", NULL);
        teardown(&f);
}

/* For whom, before or after the command; what is not agreed is not sent. */
static void test_acting(void **state) {
        static const char *const words[][6] = {{"--as-uid", "1000", "--tenant=anna", "close", "a"},
                {"close", "a", "--tenant", "anna", "--as-uid=1000"}};
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Hello hello = CONFAB__V1__HELLO__INIT;
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        USAGE(&f, "not a number", "ls", "--as-uid", "root");
        USAGE(&f, "not a number", "ls", "--as-uid", "4294967295");
        event.kind_case = CONFAB__V1__EVENT__KIND_HELLO;
        event.hello = &hello;
        hello.has_version = hello.has_act_uid = event.has_request = true;
        hello.version = PROTO_VERSION;
        hello.act_uid = 1000;
        for (int i = 0; i < 3; i++) {
                start(&f, words[i % 2]);
                accept_client(&f);
                m = peer_next(&f.peer);
                assert_int_equal(m->request->hello->act_uid, 1000);
                assert_string_equal(m->request->hello->tenant, "anna");
                event.request = m->request->id;
                proto_message_free(m);
                hello.tenant = proto_borrow(i < 2 ? "anna" : NULL);
                peer_send(&f.peer, &event);
                if (i < 2) {
                        peer_send_empty(&f.peer, expect(&f, REQ(CLOSE)));
                        finish(&f, 0, "", "");
                } else {
                        assert_null(peer_next(&f.peer));
                        finish(&f, 1, "", "does not act for other owners");
                }
        }
        teardown(&f);
}

static void test_no_daemon(void **state) {
        struct fixture f;

        setup(&f);
        START(&f, "ls", "--socket", "/nonexistent/s");
        finish(&f, 6, "", "/nonexistent/s");
        START(&f, "--socket=/nonexistent/s", "--json", "stats");
        finish(&f, 6, NULL, "no daemon");
        assert_non_null(strstr(f.text, "\"event\":\"error\",\"code\":\"no_daemon\""));
        teardown(&f);
}

/* ---- the other verbs ---- */

/* Run @args; the daemon answers @verb with a conversation. */
static void check_conversation(
        const char *const *args, Confab__V1__Request__VerbCase verb, const char *out) {
        struct fixture f;

        setup(&f);
        start(&f, args);
        greet(&f);
        peer_send_conversation(&f.peer, expect(&f, verb), 3, "alice");
        finish(&f, 0, out, NULL);
        teardown(&f);
}
#define CONVERSATION(verb, out, ...)                                                               \
        check_conversation((const char *const[]){__VA_ARGS__, NULL}, REQ(verb), out)

/* What a daemon that stops refuses is asked of the one that comes after it, once. */
static void test_restart(void **state) {
        struct fixture f;

        BEGIN(&f, "rewind", "a", "--turns", "1");
        peer_send_error(
                &f.peer, expect(&f, REQ(REWIND)), "shutdown", "the daemon is stopping", true);
        greet(&f);
        peer_send_conversation(&f.peer, expect(&f, REQ(REWIND)), 3, "a");
        finish(&f, 0, NULL, NULL);
        START(&f, "rewind", "a", "--turns", "1");
        greet(&f);
        unlink(f.path); /* nobody comes after it */
        peer_send_error(
                &f.peer, expect(&f, REQ(REWIND)), "shutdown", "the daemon is stopping", true);
        finish(&f, 6, "", "the daemon is stopping");
        teardown(&f);
}

static void test_conversations(void **state) {
        CONVERSATION(OPEN, "alice\n", "open", "alice", "--system", "x", "--temperature", "0");
        CONVERSATION(OPEN, "alice\n", "open");
        CONVERSATION(UPDATE, "alice\n", "update", "x", "--name", "alice", "--top-k", "3");
        CONVERSATION(FORK, "alice\n", "fork", "x", "alice", "--at", "2");
        CONVERSATION(REWIND, "alice: 4 turns, 120 tokens\n", "rewind", "alice", "--turns", "2");
        CONVERSATION(WARM, "alice: spilled, 0 in RAM, 2.1M on disk\n", "warm", "alice");
        CONVERSATION(EVICT, "alice: spilled, 0 in RAM, 2.1M on disk\n", "evict", "alice");
        CONVERSATION(GET,
                "alice (#3), revision 5\n"
                "120 tokens in 4 turns, spilled, 0 in RAM, 2.1M on disk\n",
                "show", "alice");
        CONVERSATION(EVICT,
                "{\"id\":3,\"name\":\"alice\",\"uid\":0,\"parent\":0,\"fork_pos\":0,"
                "\"revision\":5,\"n_tokens\":120,\"n_turns\":4,\"residency\":\"spilled\","
                "\"busy\":false,\"generating\":false,\"n_published\":0,\"private_memory\":false,"
                "\"ram_bytes\":0,\"disk_bytes\":2202010,"
                "\"created_usec\":0,\"updated_usec\":0,\"sampling\":{}}\n",
                "evict", "alice", "--json");
}

/* Open and Update say what is asked for. */
static void check_overflow(const char *const *args, bool update, Confab__V1__Overflow want) {
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        start(&f, args);
        greet(&f);
        m = peer_next(&f.peer);
        assert_non_null(m);
        if (update) {
                assert_int_equal(m->request->verb_case, REQ(UPDATE));
                assert_int_equal(m->request->update->has_overflow, want != 0);
                assert_int_equal(m->request->update->overflow, want);
        } else {
                assert_int_equal(m->request->verb_case, REQ(OPEN));
                assert_int_equal(m->request->open->has_overflow, want != 0);
                assert_int_equal(m->request->open->overflow, want);
        }
        peer_send_conversation(&f.peer, m->request->id, 3, "alice");
        proto_message_free(m);
        finish(&f, 0, "alice\n", NULL);
        teardown(&f);
}
#define OVERFLOW(update, want, ...)                                                                \
        check_overflow((const char *const[]){__VA_ARGS__, NULL}, update,                           \
                CONFAB__V1__OVERFLOW__OVERFLOW_##want)

static void test_overflow(void **state) {
        OVERFLOW(false, UNSPECIFIED, "open", "alice");
        OVERFLOW(false, SHIFT, "open", "alice", "--overflow", "shift");
        OVERFLOW(true, UNSPECIFIED, "update", "alice", "--seed", "3");
        OVERFLOW(true, SHIFT, "update", "alice", "--overflow=shift");
        OVERFLOW(true, ERROR, "update", "alice", "--overflow", "error");
}

/* Update says what is asked for, in args[2]; @want: 1 to pin, 0 to unpin, -1 neither. */
static void check_pin(const char *const *args, int want) {
        struct proto_message *m;
        struct fixture f;

        setup(&f);
        start(&f, args);
        greet(&f);
        m = peer_next(&f.peer);
        assert_non_null(m);
        assert_int_equal(m->request->verb_case, REQ(UPDATE));
        assert_int_equal(m->request->update->has_pinned, want >= 0);
        assert_int_equal(m->request->update->pinned, want == 1);
        assert_int_equal(
                m->request->update->reset_sampling, strcmp(args[2], "--reset-sampling") == 0);
        peer_send_conversation(&f.peer, m->request->id, 3, "alice");
        proto_message_free(m);
        finish(&f, 0, "alice\n", NULL);
        teardown(&f);
}
#define PIN(want, ...) check_pin((const char *const[]){__VA_ARGS__, NULL}, want)

/* Shown only where it is so. */
static void show_pinned(
        const char *const *args, Confab__V1__Request__VerbCase verb, const char *text) {
        for (int pinned = 0; pinned < 2; pinned++) {
                Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
                Confab__V1__Conversations page = CONFAB__V1__CONVERSATIONS__INIT;
                Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT, *items[] = {&c};
                struct fixture f;

                setup(&f);
                start(&f, args);
                greet(&f);
                event.has_request = c.has_id = c.has_pinned = true;
                event.request = expect(&f, verb);
                event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
                event.conversation = &c;
                c.name = proto_borrow("alice");
                c.id = 3;
                c.pinned = pinned;
                if (verb == REQ(LIST)) {
                        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATIONS;
                        event.conversations = &page;
                        page.conversations = items;
                        page.n_conversations = 1;
                }
                peer_send(&f.peer, &event);
                finish(&f, 0, NULL, NULL);
                assert_int_equal(strstr(f.text, text) != NULL, pinned);
                teardown(&f);
        }
}

static void test_pin(void **state) {
        struct fixture f;

        PIN(-1, "update", "alice", "--name", "x");
        PIN(-1, "update", "alice", "--reset-sampling");
        PIN(1, "update", "alice", "--pin");
        PIN(0, "update", "alice", "--unpin");
        setup(&f);
        USAGE(&f, "exclude each other", "update", "alice", "--pin", "--unpin");
        teardown(&f);
        show_pinned((const char *const[]){"show", "alice", NULL}, REQ(GET),
                "\npinned: its memory stays in RAM for longest\n");
        show_pinned((const char *const[]){"show", "alice", "--json", NULL}, REQ(GET),
                ",\"pinned\":true,");
        show_pinned((const char *const[]){"ls", NULL}, REQ(LIST), "  pinned\n");
}

/* What the model does not see is shown as that. */
static void show_dropped(const char *const *args, const char *out) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Turn turns[3], *pointers[3];
        struct fixture f;

        setup(&f);
        start(&f, args);
        greet(&f);
        event.has_request = c.has_n_tokens = c.has_n_turns = c.has_revision = c.has_id = true;
        event.request = expect(&f, REQ(GET));
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = &c;
        c.name = proto_borrow("alice");
        c.id = 3;
        c.revision = 5;
        c.n_tokens = 30;
        c.n_turns = 3;
        c.has_overflow = c.has_dropped_from = c.has_dropped_to = true;
        c.overflow = CONFAB__V1__OVERFLOW__OVERFLOW_SHIFT;
        c.dropped_from = 10;
        c.dropped_to = 20;
        for (unsigned i = 0; i < 3; i++) {
                confab__v1__turn__init(&turns[i]);
                turns[i].has_role = turns[i].has_start = turns[i].has_end = true;
                turns[i].role = CONFAB__V1__ROLE__ROLE_USER;
                turns[i].start = 10 * i;
                turns[i].end = 10 * i + 10;
                pointers[i] = &turns[i];
        }
        c.turn_list = pointers;
        c.n_turn_list = 3;
        peer_send(&f.peer, &event);
        finish(&f, 0, out, NULL);
        teardown(&f);
}

static void test_dropped(void **state) {
        show_dropped((const char *const[]){"show", "alice", NULL},
                "alice (#3), revision 5\n"
                "30 tokens in 3 turns, none, 0 in RAM, 0 on disk\n"
                "not in memory: tokens 10 to 20, the model does not see them\n"
                "overflow: shift\n"
                "\n[0] user\n\n\n[1] user (not in memory)\n\n\n[2] user\n\n");
}

static void check_empty(
        const char *const *args, Confab__V1__Request__VerbCase verb, const char *out) {
        struct fixture f;

        setup(&f);
        start(&f, args);
        greet(&f);
        peer_send_empty(&f.peer, expect(&f, verb));
        finish(&f, 0, out, NULL);
        teardown(&f);
}

static void test_empty(void **state) {
        check_empty((const char *const[]){"close", "a", NULL}, REQ(CLOSE), "");
        check_empty((const char *const[]){"cancel", "a", NULL}, REQ(CANCEL), "");
        check_empty((const char *const[]){"close", "a", "--json", NULL}, REQ(CLOSE), "{}\n");
}

static void send_page(struct fixture *f, uint64_t id, const uint64_t *ids, const uint64_t *parents,
        size_t n, bool more) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversations page = CONFAB__V1__CONVERSATIONS__INIT;
        Confab__V1__Conversation items[8], *pointers[8];
        char names[8][16];

        for (size_t i = 0; i < n; i++) {
                items[i] = (Confab__V1__Conversation)CONFAB__V1__CONVERSATION__INIT;
                items[i].has_id = items[i].has_parent = items[i].has_residency = true;
                items[i].id = ids[i];
                items[i].parent = parents[i];
                items[i].residency = CONFAB__V1__RESIDENCY__RESIDENCY_RESIDENT;
                snprintf(names[i], sizeof(names[i]), "c%u", (unsigned)ids[i]);
                items[i].name = names[i];
                pointers[i] = &items[i];
        }
        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATIONS;
        event.conversations = &page;
        page.conversations = pointers;
        page.n_conversations = n;
        page.has_more = true;
        page.more = more;
        peer_send(&f->peer, &event);
}

static const uint64_t list_ids[] = {1, 2, 4, 5, 7, 9};
static const uint64_t list_parents[] = {0, 1, 3, 2, 1, 0};

static void send_list(struct fixture *f) {
        struct proto_message *m;

        send_page(f, expect(f, REQ(LIST)), list_ids, list_parents, 4, true);
        m = peer_next(&f->peer);
        assert_int_equal(m->request->verb_case, REQ(LIST));
        assert_int_equal(m->request->list->after_id, 5);
        send_page(f, m->request->id, list_ids + 4, list_parents + 4, 2, false);
        proto_message_free(m);
}

/* A list that does not get on is not asked for without end. */
static void test_list_out_of_order(void **state) {
        static const uint64_t again[] = {5, 7}, none[] = {0, 0};
        struct fixture f;

        setup(&f);
        START(&f, "ls");
        greet(&f);
        send_page(&f, expect(&f, REQ(LIST)), list_ids, list_parents, 4, true);
        send_page(&f, expect(&f, REQ(LIST)), again, none, 2, true);
        finish(&f, 1, NULL, "out of order");
        assert_null(peer_next(&f.peer));
        teardown(&f);
}

static void test_tree(void **state) {
        struct fixture f;

        BEGIN(&f, "tree");
        send_list(&f);
        finish(&f, 0,
                "c1 (#1): 0 turns, 0 tokens, resident\n"
                "├─ c2 (#2) from token 0: 0 turns, 0 tokens, resident\n"
                "│  └─ c5 (#5) from token 0: 0 turns, 0 tokens, resident\n"
                "└─ c7 (#7) from token 0: 0 turns, 0 tokens, resident\n"
                "c4 (#4): 0 turns, 0 tokens, resident\n"
                "c9 (#9): 0 turns, 0 tokens, resident\n",
                NULL);
        START(&f, "tree", "--json");
        greet(&f);
        send_list(&f);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "{\"id\":5,\"name\":\"c5\",\"parent\":2,\"depth\":2,"));
        teardown(&f);
}

static void test_ls(void **state) {
        struct fixture f;

        BEGIN(&f, "ls");
        send_list(&f);
        finish(&f, 0, NULL, NULL);
        assert_memory_equal(f.text, "ID  NAME  STATE     TOKENS  TURNS  RAM  DISK     AGE\n", 53);
        assert_non_null(strstr(f.text, "\n 9  c9    resident       0      0    0     0  "));
        START(&f, "ls", "--json");
        greet(&f);
        send_list(&f);
        finish(&f, 0, NULL, NULL);
        assert_memory_equal(f.text, "{\"conversations\":[{\"id\":1,\"name\":\"c1\",", 38);
        START(&f, "ls", "--json"); /* a list that would never end */
        greet(&f);
        send_page(&f, expect(&f, REQ(LIST)), list_ids, list_parents, 2, true);
        send_page(&f, expect(&f, REQ(LIST)), list_ids, list_parents, 2, true);
        finish(&f, 1,
                "{\"event\":\"error\",\"code\":\"protocol\",\"message\":"
                "\"the daemon's list is out of order\",\"retry\":false}\n",
                "out of order");
        teardown(&f);
}

static void test_figures(void **state) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__StatsResult result = CONFAB__V1__STATS_RESULT__INIT;
        Confab__V1__Stat a = CONFAB__V1__STAT__INIT, b = a, c = a, *stats[] = {&a, &b, &c};
        struct fixture f;

        a.name = proto_borrow("pool_used");
        b.name = proto_borrow("steps");
        c.name = proto_borrow("state_bytes");
        b.has_value = true;
        b.value = UINT64_MAX;
        event.has_request = true;
        event.kind_case = CONFAB__V1__EVENT__KIND_STATS;
        event.stats = &result;
        result.stats = stats;
        result.n_stats = 3;
        BEGIN(&f, "stats");
        event.request = expect(&f, REQ(STATS));
        peer_send(&f.peer, &event);
        finish(&f, 0,
                "# Blocks and states\npool_used 0\nstate_bytes 0\n\n# Conversations and "
                "requests\nsteps "
                "18446744073709551615\n",
                NULL);
        START(&f, "stats", "--json");
        greet(&f);
        event.request = expect(&f, REQ(STATS));
        peer_send(&f.peer, &event);
        finish(&f, 0, "{\"pool_used\":0,\"steps\":18446744073709551615,\"state_bytes\":0}\n", NULL);
        teardown(&f);
}

static void test_model(void **state) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__ModelInfoResult info = CONFAB__V1__MODEL_INFO_RESULT__INIT;
        struct fixture f;

        info.architecture = proto_borrow("llama");
        info.has_context = true;
        info.context = 2048;
        event.has_request = true;
        event.kind_case = CONFAB__V1__EVENT__KIND_MODEL_INFO;
        event.model_info = &info;
        BEGIN(&f, "model");
        event.request = expect(&f, REQ(MODEL_INFO));
        peer_send(&f.peer, &event);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "\ncontext        2048\n"));
        START(&f, "model", "--json");
        greet(&f);
        event.request = expect(&f, REQ(MODEL_INFO));
        peer_send(&f.peer, &event);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "\"architecture\":\"llama\""));
        teardown(&f);
}

static void test_tokenize(void **state) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__TokenizeResult result = CONFAB__V1__TOKENIZE_RESULT__INIT;
        int32_t ids[] = {1, 22};
        ProtobufCBinaryData pieces[] = {{1, proto_borrow("a")}, {2, proto_borrow("\n\xff")}};
        struct fixture f;

        event.has_request = true;
        event.kind_case = CONFAB__V1__EVENT__KIND_TOKENIZE;
        event.tokenize = &result;
        result.tokens = ids;
        result.n_tokens = 2;
        result.pieces = pieces;
        result.n_pieces = 2;
        BEGIN(&f, "tokenize", "a");
        event.request = expect(&f, REQ(TOKENIZE));
        peer_send(&f.peer, &event);
        finish(&f, 0, "      1 a\n     22 ^J\xef\xbf\xbd\n", NULL);
        START(&f, "tokenize", "--ids", "a");
        greet(&f);
        event.request = expect(&f, REQ(TOKENIZE));
        peer_send(&f.peer, &event);
        finish(&f, 0, "1,22\n", NULL);
        START(&f, "tokenize", "--json", "a");
        greet(&f);
        event.request = expect(&f, REQ(TOKENIZE));
        peer_send(&f.peer, &event);
        finish(&f, 0, "{\"tokens\":[1,22],\"pieces\":[\"a\",\"\\n\xef\xbf\xbd\"]}\n", NULL);
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_usage),
                cmocka_unit_test(test_help),
                cmocka_unit_test(test_acting),
                cmocka_unit_test(test_no_daemon),
                cmocka_unit_test(test_restart),
                cmocka_unit_test(test_conversations),
                cmocka_unit_test(test_overflow),
                cmocka_unit_test(test_pin),
                cmocka_unit_test(test_dropped),
                cmocka_unit_test(test_empty),
                cmocka_unit_test(test_list_out_of_order),
                cmocka_unit_test(test_tree),
                cmocka_unit_test(test_ls),
                cmocka_unit_test(test_figures),
                cmocka_unit_test(test_model),
                cmocka_unit_test(test_tokenize),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
