/* SPDX-License-Identifier: MIT */
/* ls and tree: what is asked for, what is left out, in which order, and as what it is shown. */
#include "list-fixture.h"

#define COLD CONFAB__V1__RESIDENCY__RESIDENCY_COLD
#define SPILLED CONFAB__V1__RESIDENCY__RESIDENCY_SPILLED

static const struct conv convs[] = {
        {.id = 1,
                .name = "trip-rome",
                .tokens = 30,
                .turns = 2,
                .ram = 5,
                .disk = 1,
                .age = 7200,
                .tags = {"work", "italy"}},
        {.id = 2,
                .name = "notes",
                .tokens = 10,
                .ram = 7,
                .disk = 9,
                .age = 60,
                .busy = true,
                .residency = COLD,
                .tags = {"work"}},
        {.id = 3,
                .name = "trip-oslo",
                .tokens = 20,
                .ram = 6,
                .disk = 3,
                .age = 600,
                .residency = SPILLED},
};

/* Run ls --names with @args; the list has @convs. */
static void check_names(const char *const *args, int status, const char *out, const char *err) {
        const char *argv[16] = {"ls", "--names"};
        struct fixture f;

        for (size_t i = 0; args[i]; i++)
                argv[i + 2] = args[i];
        setup(&f);
        start(&f, argv);
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), convs, 2, true, NULL);
        send_convs(&f, expect(&f, REQ(LIST)), convs + 2, 1, false, NULL);
        finish(&f, status, out, err);
        teardown(&f);
}
#define NAMES(out, ...) check_names((const char *const[]){__VA_ARGS__, NULL}, 0, out, NULL)

static void test_rules(void **state) {
        NAMES("trip-rome\nnotes\ntrip-oslo\n", "--sort", "id");
        NAMES("trip-rome\ntrip-oslo\n", "trip-*");
        NAMES("trip-rome\nnotes\n", "#2", "*rome");
        NAMES("trip-rome\n", "1");
        NAMES("trip-rome\n", "--older", "1h");
        NAMES("notes\ntrip-oslo\n", "--newer", "1h");
        NAMES("trip-oslo\n", "--newer", "1h", "--older", "5m");
        NAMES("notes\n", "--busy");
        NAMES("notes\ntrip-oslo\n", "--residency", "cold", "--residency", "spilled");
        NAMES("trip-rome\n", "--tag", "work", "--tag", "italy");
        NAMES("", "trip-*", "--busy");
}

static void test_order(void **state) {
        NAMES("notes\ntrip-oslo\ntrip-rome\n", "--sort", "name");
        NAMES("trip-rome\ntrip-oslo\nnotes\n", "--sort", "name", "--reverse");
        NAMES("notes\ntrip-oslo\ntrip-rome\n", "--sort", "updated");
        NAMES("trip-oslo\nnotes\ntrip-rome\n", "--sort=created");
        NAMES("trip-rome\ntrip-oslo\nnotes\n", "--sort", "tokens");
        NAMES("notes\ntrip-oslo\ntrip-rome\n", "--sort", "ram");
        NAMES("notes\ntrip-oslo\ntrip-rome\n", "--sort", "disk");
        NAMES("trip-oslo\nnotes\ntrip-rome\n", "-r");
}

/* What fits nothing is told, as ls(1) does; the others are shown. */
static void test_unmatched(void **state) {
        check_names((const char *const[]){"nix", "notes", "x*", NULL}, 3, "notes\n",
                "confab: no conversation fits 'nix'\nconfab: no conversation fits 'x*'\n");
        check_names((const char *const[]){"x*", NULL}, 3, "", "no conversation fits 'x*'");
}

static void test_wrong(void **state) {
        struct fixture f;

        setup(&f);
        USAGE(&f, "'30' is no age", "ls", "--older", "30");
        USAGE(&f, "'d' is no age", "ls", "--newer", "d");
        USAGE(&f, "takes resident, partial, spilled or cold, not 'warm'", "ls", "--residency",
                "warm");
        USAGE(&f, "not 'size'", "ls", "--sort", "size");
        USAGE(&f, "reaches one's own", "ls", "--names", "--all");
        USAGE(&f, "--null goes with --names", "ls", "-z");
        USAGE(&f, "a pattern is empty", "ls", "");
        START(&f, "ls", "--names", "--json");
        finish(&f, 2, NULL, "exclude each other");
        teardown(&f);
}

/* NUL ends names that a script takes apart. */
static void test_null(void **state) {
        struct fixture f;

        BEGIN(&f, "ls", "--names", "-z");
        send_convs(&f, expect(&f, REQ(LIST)), convs, 2, false, NULL);
        finish(&f, 0, NULL, NULL);
        assert_memory_equal(f.text, "trip-rome\0notes", 16);
        teardown(&f);
}

/* The daemon searches, in an order of its own, and goes on by its cursor; the first tag is its to filter, too. */
static void test_search(void **state) {
        static const struct conv hits[] = {{.id = 3, .name = "c", .snippet = "a cat"},
                {.id = 1, .name = "a", .snippet = "two cats"}, {.id = 2, .name = "b"}};
        struct proto_message *m;
        struct fixture f;

        BEGIN(&f, "ls", "--names", "--search", "cat", "--tag", "t");
        m = peer_next(&f.peer);
        assert_string_equal(m->request->list->search, "cat");
        assert_string_equal(m->request->list->tag, "t");
        assert_null(m->request->list->cursor);
        send_convs(&f, m->request->id, hits, 2, true, "next");
        proto_message_free(m);
        m = peer_next(&f.peer);
        assert_string_equal(m->request->list->cursor, "next");
        send_convs(&f, m->request->id, hits + 2, 1, false, NULL);
        proto_message_free(m);
        finish(&f, 0, "", NULL); /* none has the tag: an older daemon did not filter */
        START(&f, "ls", "--names", "--search", "cat");
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), hits, 3, false, NULL);
        finish(&f, 0, "c\na\nb\n", NULL);
        START(&f, "ls", "--search", "cat"); /* a list that would never end */
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), hits, 2, true, "same");
        send_convs(&f, expect(&f, REQ(LIST)), hits, 2, true, "same");
        finish(&f, 1, "", "out of order");
        START(&f, "ls", "--search", "cat", "--json");
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), hits, 1, false, NULL);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "\"hit\":{\"turn\":2,\"snippet\":\"a cat\"}}]}\n"));
        teardown(&f);
}

static void test_table(void **state) {
        static const struct conv titled[] = {{.id = 1, .name = "a", .title = "Rome"},
                {.id = 2, .name = "b", .pinned = true},
                {.id = 3,
                        .name = "c",
                        .title = "A title that is longer than forty characters in all"}};
        struct fixture f;

        BEGIN(&f, "ls", "--sort", "name");
        send_convs(&f, expect(&f, REQ(LIST)), titled, 3, false, NULL);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text, "  AGE  TITLE "));
        assert_non_null(strstr(f.text, "s  Rome\n"));
        assert_non_null(strstr(f.text, " pinned\n"));
        assert_non_null(strstr(f.text, "s  A title that is longer than forty charac...\n"));
        START(&f, "ls", "--json", "--sort", "name", "-r");
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), titled, 3, false, NULL);
        finish(&f, 0, NULL, NULL);
        assert_memory_equal(f.text, "{\"conversations\":[{\"id\":3,", 26);
        teardown(&f);
}

static void test_tree(void **state) {
        static const struct conv family[] = {{.id = 1, .name = "root", .ram = 2048, .busy = true},
                {.id = 2, .name = "leaf", .parent = 1, .disk = 3072, .residency = SPILLED},
                {.id = 3,
                        .name = "both",
                        .parent = 1,
                        .ram = 1024,
                        .disk = 1024,
                        .residency = CONFAB__V1__RESIDENCY__RESIDENCY_PARTIAL},
                {.id = 4, .name = "cold", .residency = COLD}};
        struct fixture f;

        BEGIN(&f, "tree");
        send_convs(&f, expect(&f, REQ(LIST)), family, 4, false, NULL);
        finish(&f, 0,
                "root (#1): 0 turns, 0 tokens, resident* (2.0K in RAM)\n"
                "├─ leaf (#2) from token 0: 0 turns, 0 tokens, spilled (3.0K on disk)\n"
                "└─ both (#3) from token 0: 0 turns, 0 tokens, partial (1.0K in RAM, 1.0K on "
                "disk)\n"
                "cold (#4): 0 turns, 0 tokens, cold\n",
                NULL);
        START(&f, "tree", "--json");
        greet(&f);
        send_convs(&f, expect(&f, REQ(LIST)), family, 1, false, NULL);
        finish(&f, 0, NULL, NULL);
        assert_non_null(strstr(f.text,
                "\"residency\":\"resident\",\"busy\":true,\"ram_bytes\":2048,\"disk_bytes\":0}"));
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rules),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_unmatched),
                cmocka_unit_test(test_wrong),
                cmocka_unit_test(test_null),
                cmocka_unit_test(test_search),
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_tree),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-list PROGRAM\n");
                return 2;
        }
        program = argv[1];
        test_now = clock_realtime_usec();
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
