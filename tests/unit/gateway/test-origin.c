/* SPDX-License-Identifier: MIT */
/* Which hosts and origins are answered. */
#include "client/gateway/origin.h"
#include "util/test.h"

static void test_hosts(void **state) {
        struct origins none = {}, some = {.hosts = "box.lan, Other.example"};
        static const char *const own[] = {"localhost", "LOCALHOST:80", "127.0.0.1",
                "127.0.0.1:8080", "[::1]", "[::1]:65535", "localhost:"};
        static const char *const foreign[] = {"evil.example", "localhost.evil.example",
                "127.0.0.1.evil.example", "127.0.0.2", "[::2]", "::1", "localhost:80:90", "[::1",
                "localhost:x", "localhost ", "", "box.lan.evil", "ox.lan", "box.lan,"};

        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
                assert_true(origin_host_allowed(&none, own[i]));
        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
                assert_false(origin_host_allowed(&none, foreign[i]));
                assert_false(origin_host_allowed(&some, foreign[i]));
        }
        assert_false(origin_host_allowed(&none, NULL));
        assert_false(origin_host_allowed(&none, "box.lan"));
        assert_true(origin_host_allowed(&some, "box.lan"));
        assert_true(origin_host_allowed(&some, "BOX.lan:1234"));
        assert_true(origin_host_allowed(&some, "other.example"));
}

static void test_local_hosts(void **state) {
        struct origins none = {}, some = {.hosts = "box.lan, Other.example"};
        static const char *const fixed[] = {"", "localhost", "LOCALHOST:80", "unix", "h",
                "my_box-1:8080", "127.0.0.1", "127.0.0.2:1", "10.1.2.3:8080", "[::1]",
                "[::2]:65535", "[2001:db8::1]:80", "[::ffff:1.2.3.4]", "2130706433"};
        static const char *const rebound[] = {"evil.example", "evil.example:8080", "evil.",
                "localhost.", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1.",
                "1.2.3", "0x7f.1", "::1", "[::1", "[]", "[", "[]:1", "[evil.example]", "[1.2.3.4]",
                "[::1]x", "localhost:x", "localhost:80:90", "local host", "b\xc3\xb6x",
                "box.lan.evil", "ox.lan", "a/b", ":80", "@h",
                "[1111:2222:3333:4444:5555:6666:7777:8888:9999:1111:2222]"};

        assert_true(origin_local_host_allowed(&none, NULL));
        for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
                assert_true(origin_local_host_allowed(&none, fixed[i]));
        for (size_t i = 0; i < sizeof(rebound) / sizeof(rebound[0]); i++)
                if (origin_local_host_allowed(&none, rebound[i]) ||
                        origin_local_host_allowed(&some, rebound[i]))
                        fail_msg("'%s' is taken", rebound[i]);
        assert_false(origin_local_host_allowed(&none, "box.lan"));
        assert_true(origin_local_host_allowed(&some, "box.lan:80"));
        assert_true(origin_local_host_allowed(&some, "OTHER.example"));
}

static void test_hidden(void **state) {
        static const char *const foreign[] = {"cross-site", "same-site"}, *const own[] = {
                                                                                  "same-origin",
                                                                                  "none", "",
                                                                                  "Cross-site",
                                                                                  "x"};

        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
                assert_true(origin_is_hidden(ORIGIN_NONE, foreign[i]));
                /* the field Origin tells more */
                assert_false(origin_is_hidden(ORIGIN_OWN, foreign[i]));
                assert_false(origin_is_hidden(ORIGIN_LISTED, foreign[i]));
        }
        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
                assert_false(origin_is_hidden(ORIGIN_NONE, own[i]));
        assert_false(origin_is_hidden(ORIGIN_NONE, NULL));
}

static void test_origins(void **state) {
        struct origins none = {}, some = {.origins = "https://chat.example http://a:1"},
                       all = {.origins = "*"};

        assert_int_equal(origin_judge(&none, "localhost", NULL), ORIGIN_NONE);
        assert_int_equal(origin_judge(&none, "h:8080", "http://h:8080"), ORIGIN_OWN);
        assert_int_equal(origin_judge(&none, "h:8080", "http://h"), ORIGIN_FOREIGN);
        assert_int_equal(origin_judge(&none, "h", "https://h"), ORIGIN_FOREIGN);
        assert_int_equal(origin_judge(&none, "h", "null"), ORIGIN_FOREIGN);
        assert_int_equal(origin_judge(&none, NULL, "http://"), ORIGIN_FOREIGN);
        assert_int_equal(origin_judge(&none, "h", ""), ORIGIN_FOREIGN);
        assert_int_equal(origin_judge(&some, "h", "https://chat.example"), ORIGIN_LISTED);
        assert_int_equal(origin_judge(&some, "h", "HTTPS://Chat.example"), ORIGIN_LISTED);
        assert_int_equal(origin_judge(&some, "h", "http://a:1"), ORIGIN_LISTED);
        assert_int_equal(origin_judge(&some, "h", "http://a:12"), ORIGIN_FOREIGN);
        assert_int_equal(origin_judge(&some, "h", "https://chat.exampl"), ORIGIN_FOREIGN);
        assert_int_equal(
                origin_judge(&some, "h", "https://chat.example http://a:1"), ORIGIN_FOREIGN);
        assert_int_equal(origin_judge(&all, "h", "null"), ORIGIN_LISTED);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hosts),
                cmocka_unit_test(test_local_hosts),
                cmocka_unit_test(test_hidden),
                cmocka_unit_test(test_origins),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
