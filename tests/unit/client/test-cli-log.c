/* SPDX-License-Identifier: MIT */
/* log: pages of a transcript, ranges, searches. */
#include "list-fixture.h"

static const uint64_t first_usec = 1700000000ull * 1000000; /* of turn 0; each is a minute later */
#define N_TURNS 150

/* Answer a Get of turns out of N_TURNS as the daemon does, at most @most of them. Their text has their number; every
 * fourth has a word of its own. What was asked for goes into @ret. */
struct asked {
        bool forward, parts;
        uint32_t from, before, most;
};
static void serve_page(struct fixture *f, struct asked *ret) {
        _cleanup_(proto_message_freep) struct proto_message *m = peer_next(&f->peer);
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
        Confab__V1__Turn turns[N_TURNS], *pointers[N_TURNS];
        const Confab__V1__Get *get;
        char texts[N_TURNS][40];
        uint32_t from, to;

        assert_non_null(m);
        get = m->request->get;
        assert_int_equal(m->request->verb_case, REQ(GET));
        assert_int_equal(get->conversation->id, 7);
        *ret = (struct asked){
                get->has_from_turn, get->parts, get->from_turn, get->before_turn, get->max_turns};
        to = get->has_before_turn ? get->before_turn : N_TURNS;
        from = get->has_from_turn ? get->from_turn : to > get->max_turns ? to - get->max_turns : 0;
        to = MIN(to, from + get->max_turns);
        for (uint32_t i = from; i < to; i++) {
                Confab__V1__Turn *t = pointers[i - from] = &turns[i];

                confab__v1__turn__init(t);
                snprintf(texts[i], sizeof(texts[i]),
                        i % 4 ? "turn %u" : "turn %u of four, \xc3\x84rger", i);
                t->has_role = t->has_text = t->has_created_usec = true;
                t->role = i % 2 ? CONFAB__V1__ROLE__ROLE_ASSISTANT : CONFAB__V1__ROLE__ROLE_USER;
                t->text.data = (uint8_t *)texts[i];
                t->text.len = strlen(texts[i]);
                t->created_usec = first_usec + 60000000ull * i;
        }
        c.has_id = c.has_n_turns = c.has_first_turn = event.has_request = true;
        c.id = 7;
        c.n_turns = N_TURNS;
        c.first_turn = from;
        c.turn_list = pointers;
        c.n_turn_list = to - from;
        event.request = m->request->id;
        event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
        event.conversation = &c;
        peer_send(&f->peer, &event);
}

static void begin_log(struct fixture *f, const char *const *args) {
        static const struct conv all = {.id = 7, .name = "a", .turns = N_TURNS};
        const char *argv[16] = {"log", "a"};
        uint64_t id;

        for (size_t i = 0; args[i]; i++)
                argv[i + 2] = args[i];
        setup(f);
        setenv("TZ", "UTC", 1);
        start(f, argv);
        greet(f);
        id = expect(f, REQ(GET));
        send_conv(f, id, &all);
}
#define LOG(f, ...) begin_log(f, (const char *const[]){__VA_ARGS__, NULL})

static size_t count(const char *text, const char *what) {
        size_t n = 0;

        for (; (text = strstr(text, what)); text += strlen(what))
                n++;
        return n;
}

/* The whole in pages, each after the one before. */
static void test_pages(void **state) {
        struct asked asked;
        struct fixture f;

        LOG(&f, "--times");
        for (uint32_t from = 0; from < N_TURNS; from += 64) {
                serve_page(&f, &asked);
                assert_true(asked.forward && asked.parts);
                assert_int_equal(asked.from, from);
                assert_int_equal(asked.most, 64);
        }
        finish(&f, 0, NULL, NULL);
        assert_int_equal(count(f.text, "\n\n["), N_TURNS - 1);
        assert_memory_equal(f.text, "[0] user  2023-11-14 22:13:20\nturn 0 of four", 44);
        assert_non_null(strstr(f.text, "\n\n[149] assistant  2023-11-15 00:42:20\nturn 149\n"));
        teardown(&f);
}

static void test_last(void **state) {
        struct asked asked;
        struct fixture f;

        LOG(&f, "--last", "2");
        serve_page(&f, &asked);
        assert_int_equal(asked.from, 148);
        finish(&f, 0, "[148] user\nturn 148 of four, \xc3\x84rger\n\n[149] assistant\nturn 149\n",
                NULL);
        teardown(&f);
        LOG(&f, "--last", "0");
        finish(&f, 0, "", NULL);
        teardown(&f);
        LOG(&f, "--last", "1", "--json");
        serve_page(&f, &asked);
        finish(&f, 0,
                "{\"turn\":149,\"role\":\"assistant\",\"text\":\"turn 149\",\"start\":0,\"end\":0,"
                "\"created_usec\":1700008940000000}\n",
                NULL);
        teardown(&f);
}

/* From the end back to the first that is young enough, and then forward from it. */
static void test_since(void **state) {
        static const uint32_t before[] = {150, 86};
        struct asked asked;
        struct fixture f;

        LOG(&f, "--since", "2023-11-14T23:13:20"); /* turn 60 */
        for (size_t i = 0; i < 2; i++) {
                serve_page(&f, &asked);
                assert_true(!asked.forward && !asked.parts);
                assert_int_equal(asked.before, before[i]);
        }
        serve_page(&f, &asked);
        assert_true(asked.forward);
        assert_int_equal(asked.from, 60);
        serve_page(&f, &asked);
        finish(&f, 0, NULL, NULL);
        assert_memory_equal(f.text, "[60] user\n", 10);
        assert_int_equal(count(f.text, "\n\n["), 89);
        teardown(&f);
        LOG(&f, "--since", "1h"); /* all of them are older */
        serve_page(&f, &asked);
        finish(&f, 0, "", NULL);
        teardown(&f);
        LOG(&f, "--since", "2023-11-14", "--last", "70"); /* not before the 70 last ones */
        serve_page(&f, &asked);
        serve_page(&f, &asked);
        serve_page(&f, &asked);
        assert_int_equal(asked.from, 80);
        serve_page(&f, &asked);
        finish(&f, 0, NULL, NULL);
        assert_int_equal(count(f.text, "\n\n["), 69);
        teardown(&f);
}

static void test_search(void **state) {
        struct asked asked;
        struct fixture f;

        LOG(&f, "--last", "10", "--search", "FOU \xc3\xa4R");
        serve_page(&f, &asked);
        finish(&f, 0,
                "[140] user\nturn 140 of four, \xc3\x84rger\n\n[144] user\nturn 144 of four, "
                "\xc3\x84rger\n\n"
                "[148] user\nturn 148 of four, \xc3\x84rger\n",
                NULL);
        teardown(&f);
        LOG(&f, "--last", "10", "--search", "our"); /* it begins no word */
        serve_page(&f, &asked);
        finish(&f, 0, "", NULL);
        teardown(&f);
}

static void test_search_all(void **state) {
        static const struct conv hits[] = {{.id = 3, .name = "c", .snippet = "a cat", .age = 60},
                {.id = 1, .name = "a", .snippet = "two cats", .age = 7200}};
        struct fixture f;

        BEGIN(&f, "log", "--search", "cat");
        send_convs(&f, expect(&f, REQ(LIST)), hits, 2, false, NULL);
        finish(&f, 0, "c (#3) [2]\n    a cat\na (#1) [2]\n    two cats\n", NULL);
        START(&f, "log", "--search", "cat", "--since", "1h", "--json");
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), hits, 2, false, NULL);
        finish(&f, 0, NULL, NULL);
        assert_int_equal(count(f.text, "\"snippet\""), 1);
        USAGE(&f, "a NAME, or --search WORDS", "log");
        USAGE(&f, "--last goes with a NAME", "log", "--search", "cat", "--last", "3");
        USAGE(&f, "there is no word in '?!'", "log", "a", "--search", "?!");
        USAGE(&f, "'yesterday' is no age", "log", "a", "--since", "yesterday");
        teardown(&f);
}

/* A page that is too large comes in smaller ones; what can't be read in parts is read without. */
static void test_refused(void **state) {
        struct proto_message *m;
        struct asked asked;
        struct fixture f;

        LOG(&f, "--last", "3");
        peer_send_error(&f.peer, expect(&f, REQ(GET)), "limit", "too large", false);
        peer_send_error(&f.peer, expect(&f, REQ(GET)), "corrupt", "turn 149 is damaged", false);
        serve_page(&f, &asked);
        assert_int_equal(asked.most, 32);
        assert_false(asked.parts);
        finish(&f, 0, NULL, NULL);
        assert_int_equal(count(f.text, "turn 1"), 3);
        teardown(&f);
        LOG(&f, "--last", "3");
        for (int most = 64; most >= 1; most /= 2) {
                m = peer_next(&f.peer);
                assert_int_equal(m->request->get->max_turns, most);
                peer_send_error(&f.peer, m->request->id, "limit", "too large", false);
                proto_message_free(m);
        }
        finish(&f, 5, "", "too large");
        teardown(&f);
}

/* Reasoning is left out unless it is asked for. */
static void test_reasoning(void **state) {
        static const struct {
                const char *arg, *out;
        } cases[] = {{"--last=1", "[1] assistant\nSo.\n"},
                {"--reasoning=show", "[1] assistant\n(reasoning)\nHm.\n(end of reasoning)\nSo.\n"},
                {"--reasoning=only", "[1] assistant\n(reasoning)\nHm.\n(end of reasoning)\n"}};
        static const struct conv all = {.id = 7, .name = "a", .turns = 2};

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
                Confab__V1__Conversation c = CONFAB__V1__CONVERSATION__INIT;
                Confab__V1__Part parts[2], *part_list[2] = {&parts[0], &parts[1]};
                Confab__V1__Turn turn = CONFAB__V1__TURN__INIT, *turns[] = {&turn};
                struct fixture f;

                for (size_t k = 0; k < 2; k++) {
                        confab__v1__part__init(&parts[k]);
                        parts[k].has_kind = true;
                        parts[k].kind = k ? CONFAB__V1__PART_KIND__PART_TEXT
                                          : CONFAB__V1__PART_KIND__PART_REASONING;
                        parts[k].text = proto_borrow(k ? "So." : "Hm.");
                }
                BEGIN(&f, "log", "a", cases[i].arg);
                send_conv(&f, expect(&f, REQ(GET)), &all);
                turn.has_role = event.has_request = c.has_n_turns = c.has_first_turn = true;
                turn.role = CONFAB__V1__ROLE__ROLE_ASSISTANT;
                turn.parts = part_list;
                turn.n_parts = 2;
                c.n_turns = 2;
                c.first_turn = 1;
                c.turn_list = turns;
                c.n_turn_list = 1;
                event.request = expect(&f, REQ(GET));
                event.kind_case = CONFAB__V1__EVENT__KIND_CONVERSATION;
                event.conversation = &c;
                peer_send(&f.peer, &event);
                finish(&f, 0, cases[i].out, NULL);
                teardown(&f);
        }
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_last),
                cmocka_unit_test(test_since),
                cmocka_unit_test(test_search),
                cmocka_unit_test(test_search_all),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_reasoning),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-log PROGRAM\n");
                return 2;
        }
        program = argv[1];
        test_now = clock_realtime_usec();
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
