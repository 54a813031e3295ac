/* SPDX-License-Identifier: MIT */
/* close of several, by name and by rule, and prune. */
#include "list-fixture.h"

static const struct conv convs[] = {
        {.id = 1, .name = "base", .age = 900, .turns = 1},
        {.id = 2,
                .name = "tmp-a",
                .age = 600,
                .parent = 1,
                .turns = 2,
                .tokens = 40,
                .revision = 3},
        {.id = 3, .name = "tmp-b", .age = 300, .parent = 2, .revision = 4},
};

/* ---- by name ---- */

static void test_names(void **state) {
        struct fixture f;

        BEGIN(&f, "close", "a", "b", "#3");
        peer_send_error(&f.peer, expect(&f, REQ(CLOSE)), "busy", "it is busy", true);
        peer_send_error(&f.peer, expect(&f, REQ(CLOSE)), "not_found", "no conversation 'b'", false);
        peer_send_empty(&f.peer, expect_for(&f, REQ(CLOSE), 3));
        finish(&f, 4, "", "confab: a: it is busy\nconfab: no conversation 'b'\n");
        START(&f, "close", "a", "b", "12", "--json");
        greet(&f);
        peer_send_empty(&f.peer, expect(&f, REQ(CLOSE)));
        peer_send_error(&f.peer, expect(&f, REQ(CLOSE)), "busy", "it is busy", true);
        peer_send_empty(&f.peer, expect_for(&f, REQ(CLOSE), 12));
        finish(&f, 4,
                "{\"closed\":[{\"name\":\"a\"},{\"id\":12}],\"failed\":[{\"name\":\"b\","
                "\"code\":\"busy\",\"message\":\"it is busy\",\"retry\":true}]}\n",
                "b: it is busy");
        START(&f, "close", "a", "-n");
        greet(&f);
        send_conv(&f, expect(&f, REQ(GET)), &convs[1]);
        finish(&f, 0, "would close tmp-a (#2): 2 turns, 40 tokens, changed 10m ago\n", NULL);
        assert_null(peer_next(&f.peer));
        START(&f, "close", "tmp-*");
        greet(&f);
        peer_send_error(
                &f.peer, expect(&f, REQ(CLOSE)), "not_found", "no conversation 'tmp-*'", false);
        finish(&f, 3, "", "confab: no conversation 'tmp-*' (--match takes a PATTERN)\n");
        START(&f, "close", "[a]"); /* a name may have such letters */
        greet(&f);
        peer_send_empty(&f.peer, expect(&f, REQ(CLOSE)));
        finish(&f, 0, "", NULL);
        teardown(&f);
}

/* A daemon that is gone ends it: nothing is asked for the others. */
static void test_gone(void **state) {
        struct fixture f;

        BEGIN(&f, "close", "a", "b", "c");
        peer_send_empty(&f.peer, expect(&f, REQ(CLOSE)));
        peer_send_error(
                &f.peer, expect(&f, REQ(CLOSE)), "shutdown", "the daemon is stopping", true);
        finish(&f, 6, "", "the daemon is stopping");
        assert_null(peer_next(&f.peer));
        teardown(&f);
}

static void test_wrong(void **state) {
        struct fixture f;

        setup(&f);
        USAGE(&f, "close needs NAMEs, or options", "close");
        USAGE(&f, "exclude each other", "close", "a", "--match", "b*");
        USAGE(&f, "is no age", "close", "--older", "soon");
        USAGE(&f, "what is unused?", "prune", "--match", "b*");
        USAGE(&f, "fewer arguments", "prune", "a");
        teardown(&f);
}

/* ---- by rule ---- */

static void test_rule(void **state) {
        struct conv used = convs[2];
        struct fixture f;

        BEGIN(&f, "close", "--match", "tmp-*", "--match", "nix", "--dry-run");
        send_convs(&f, expect(&f, REQ(LIST)), convs, 3, false, NULL);
        finish(&f, 3,
                "would close tmp-a (#2): 2 turns, 40 tokens, changed 10m ago\n"
                "would close tmp-b (#3): 0 turns, 0 tokens, changed 5m ago\n",
                "no conversation fits 'nix'");
        assert_null(peer_next(&f.peer));
        /* one was used since it was chosen, one is gone */
        START(&f, "close", "--match", "*");
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), convs, 3, false, NULL);
        send_conv(&f, expect_for(&f, REQ(GET), 1), &convs[0]);
        peer_send_empty(&f.peer, expect_for(&f, REQ(CLOSE), 1));
        peer_send_error(
                &f.peer, expect_for(&f, REQ(GET), 2), "not_found", "no conversation", false);
        used.revision++;
        send_conv(&f, expect_for(&f, REQ(GET), 3), &used);
        finish(&f, 4, "closed base (#1): 1 turn, 0 tokens, changed 15m ago\n",
                "confab: tmp-b: it was used since it was chosen, and stays\n");
        assert_null(peer_next(&f.peer));
        /* something was noted about it: its revision is the same */
        START(&f, "close", "--match", "tmp-b", "--json");
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), convs, 3, false, NULL);
        used = convs[2];
        used.age--;
        send_conv(&f, expect_for(&f, REQ(GET), 3), &used);
        finish(&f, 4, NULL, "stays");
        assert_non_null(strstr(f.text, "{\"closed\":[],\"failed\":[{\"id\":3,"));
        /* nothing to do is no failure */
        START(&f, "close", "--older", "30d");
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), convs, 3, false, NULL);
        finish(&f, 0, "", NULL);
        teardown(&f);
}

/* ---- prune ---- */

/* Run prune with @args and --json; what the daemon tells of is @list, and nothing is to be closed. */
static void check_prune(
        const char *const *args, const struct conv *list, size_t n, const char *out) {
        const char *argv[16] = {"prune", "--json"};
        struct fixture f;

        for (size_t i = 0; args[i]; i++)
                argv[i + 2] = args[i];
        setup(&f);
        start(&f, argv);
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), list, n, false, NULL);
        send_convs(&f, expect(&f, REQ(LIST)), list, n, false, NULL);
        finish(&f, 0, out, NULL);
        assert_null(peer_next(&f.peer));
        teardown(&f);
}
#define PRUNE(list, out, ...)                                                                      \
        check_prune((const char *const[]){__VA_ARGS__, NULL}, list, ARRAY_SIZE(list), out)
#define ONE(id, name) "{\"id\":" #id ",\"name\":\"" name "\"}"
#define WHY(id, name, why) "{\"id\":" #id ",\"name\":\"" name "\",\"why\":\"" why "\"}"
#define RESULT(go, stay) "{\"would_close\":[" go "],\"failed\":[],\"kept\":[" stay "]}\n"
#define FORKED "conversations that stay were forked from it"

static void test_prune(void **state) {
        static const struct conv held[] = {{.id = 1, .name = "p", .age = 99, .pinned = true},
                {.id = 2, .name = "q", .age = 99, .published = 7},
                {.id = 3, .name = "r", .age = 99, .busy = true},
                {.id = 4, .name = "s", .age = 99, .expires = 60, .turns = 1}};

        /* all go: the forks with what they were made from */
        PRUNE(convs, RESULT(ONE(1, "base") "," ONE(2, "tmp-a") "," ONE(3, "tmp-b"), ""), "--older",
                "1m");
        /* the youngest stays, and with it those before it in the line */
        PRUNE(convs, RESULT("", WHY(1, "base", FORKED) "," WHY(2, "tmp-a", FORKED)), "--older",
                "6m");
        PRUNE(convs, RESULT("", WHY(1, "base", FORKED) "," WHY(2, "tmp-a", FORKED)), "--keep", "1");
        PRUNE(convs, RESULT("", ""), "--keep", "3");
        PRUNE(convs, RESULT(ONE(2, "tmp-a") "," ONE(3, "tmp-b"), ""), "--older", "1m", "--match",
                "tmp-*");
        /* --keep counts those that --match chooses, whatever their age */
        PRUNE(convs, RESULT("", WHY(2, "tmp-a", FORKED)), "--older", "6m", "--keep", "1", "--match",
                "tmp-*");
        PRUNE(convs, RESULT(ONE(3, "tmp-b"), ""), "--empty");
        PRUNE(held,
                RESULT(ONE(4, "s"), WHY(1, "p", "it is pinned") "," WHY(2, "q",
                                            "it is published") "," WHY(3, "r", "it is in use")),
                "--older", "1m");
        PRUNE(held, RESULT(ONE(4, "s"), ""), "--throwaways");
        PRUNE(held, RESULT(ONE(4, "s"), ""), "--throwaways", "--yes", "--dry-run");
}

static void test_prune_closes(void **state) {
        struct fixture f;

        BEGIN(&f, "prune", "--older", "6m", "--match", "tmp-*", "--match", "base");
        send_convs(&f, expect(&f, REQ(LIST)), convs, 2, false, NULL);
        send_convs(&f, expect(&f, REQ(LIST)), convs, 2, false, NULL);
        finish(&f, 0,
                "would close base (#1): 1 turn, 0 tokens, changed 15m ago\n"
                "would close tmp-a (#2): 2 turns, 40 tokens, changed 10m ago\n",
                "nothing was closed: --yes does it");
        assert_null(peer_next(&f.peer));
        START(&f, "prune", "--empty", "-y");
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), convs, 3, false, NULL);
        send_convs(&f, expect(&f, REQ(LIST)), convs, 3, false, NULL);
        send_conv(&f, expect_for(&f, REQ(GET), 3), &convs[2]);
        peer_send_empty(&f.peer, expect_for(&f, REQ(CLOSE), 3));
        finish(&f, 0, "closed tmp-b (#3): 0 turns, 0 tokens, changed 5m ago\n", NULL);
        assert_null(peer_next(&f.peer));
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_gone),
                cmocka_unit_test(test_wrong),
                cmocka_unit_test(test_rule),
                cmocka_unit_test(test_prune),
                cmocka_unit_test(test_prune_closes),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-close PROGRAM\n");
                return 2;
        }
        program = argv[1];
        test_now = clock_realtime_usec();
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
