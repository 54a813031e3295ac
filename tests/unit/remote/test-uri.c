/* SPDX-License-Identifier: MIT */
/* URIs and other options, what servers call each other, and the slots of keys. */
#include "remote-rig.h"
#include "remote/remote-private.h"

static void test_good(void **state) {
        static const struct {
                const char *uri, *first, *last; /* servers, as people write them */
                size_t n;
                uint32_t db;
                bool tls;
        } cases[] = {
                {"redis://host", "host:6379", "host:6379", 1, 0, false},
                {"redis://host/", "host:6379", "host:6379", 1, 0, false},
                {"redis://10.0.0.1:7000/15", "10.0.0.1:7000", "10.0.0.1:7000", 1, 15, false},
                {"redis://a,b:1,c-d.example:65535/2", "a:6379", "c-d.example:65535", 3, 2, false},
                {"rediss://[::1],[fe80::1]:7001", "[::1]:6379", "[fe80::1]:7001", 2, 0, true},
                {"redis:///run/redis.sock", "/run/redis.sock", "/run/redis.sock", 1, 0, false},
                {"redis:///run/a@b,c:1/2", "/run/a@b,c:1/2", "/run/a@b,c:1/2", 1, 0, false},
        };
        char text[REMOTE_ADDRESS_TEXT];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct remote_uri u;

                assert_int_equal(remote_uri_parse(&u, cases[i].uri, NULL), 0);
                assert_int_equal(u.n_seeds, cases[i].n);
                assert_int_equal(u.db, cases[i].db);
                assert_int_equal(u.tls, cases[i].tls);
                assert_string_equal(remote_address_text(&u.seeds[0], text), cases[i].first);
                assert_string_equal(
                        remote_address_text(&u.seeds[u.n_seeds - 1], text), cases[i].last);
        }
}

static void test_bad(void **state) {
        static const struct {
                const char *uri, *words;
        } cases[] = {
                {"", "begins with"},
                {"host", "begins with"},
                {"http://host", "begins with"},
                {"redis:/host", "begins with"},
                {"redis://", "no HOST"},
                {"redis:///", "path of a socket"},
                {"rediss:///run/x", "no TLS over a Unix socket"},
                {"redis://user:secret@host", "may not stand in the URI"},
                {"redis://:secret@host:1/2", "may not stand in the URI"},
                {"rediss://a,x@b", "may not stand in the URI"},
                {"redis://a,", "no HOST"},
                {"redis://,a", "no HOST"},
                {"redis://a:", "no HOST"},
                {"redis://a:0", "no HOST"},
                {"redis://a:65536", "no HOST"},
                {"redis://a:99999999999999999999", "no HOST"},
                {"redis://a:12x", "no HOST"},
                {"redis://a:+1", "no HOST"},
                {"redis://::1", "no HOST"},
                {"redis://[::1", "no HOST"},
                {"redis://[::1]x", "no HOST"},
                {"redis://[]", "no HOST"},
                {"redis://[host]", "no HOST"},
                {"redis://a?db=1", "no HOST"},
                {"redis://a#1", "no HOST"},
                {"redis://a b", "blank"},
                {"redis://a\n", "blank"},
                {"redis:///run/a b", "blank"},
                {"redis://a/x", "database"},
                {"redis://a/-1", "database"},
                {"redis://a/1/2", "database"},
                {"redis://a/65536", "database"},
                {"redis://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16"},
        };
        char path[300] = "redis:///", host[400] = "redis://";
        struct rig rig = {0};
        struct remote_options o;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                o = rig_options(cases[i].uri);
                rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, cases[i].words);
                assert_null(strstr(rig.e.msg, "secret"));
                assert_null(rig.r);
        }
        memset(path + strlen(path), 'x', 108);
        o = rig_options(path);
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, "path of a socket");
        memset(host + strlen(host), 'x', 300);
        o = rig_options(host);
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, "no HOST");
}

static void test_options(void **state) {
        struct remote_options o = rig_options("redis://host");
        char secret[1026];
        struct rig rig;

        (void)state;
        rig_open_with(&rig, o);
        rig_close(&rig);
        o.timeout_usec = 999;
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, "timeout");
        o.timeout_usec = 60000001;
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, "timeout");
        o = rig_options("redis://host");
        o.max_value_size = 0;
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, "a value has");
        o = rig_options("redis://host");
        o.user = "me";
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, "a user needs");
        o.password = "";
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, "1 to 1024 bytes");
        memset(secret, 's', sizeof(secret));
        secret[1025] = '\0';
        o.password = secret;
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, "1 to 1024 bytes");
        o = rig_options("redis://host");
        o.ca_file = "/x";
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e), -ERR_INVALID, "rediss");
        o = rig_options("rediss://host");
        o.ca_file = "/nonexistent/file";
        rig_expect(&rig, remote_open(&rig.r, &o, &rig.e),
                remote_has_tls() ? -ERR_INVALID : -ERR_UNSUPPORTED,
                remote_has_tls() ? "certificates of /nonexistent/file" : "TLS proxy");
        assert_null(rig.r);
        assert_null(remote_free(NULL));
}

/* What a call is given is looked at before a server is asked: here there is none. */
static void test_arguments(void **state) {
        struct remote_key keys[2] = {{"x"}, {""}};
        const struct remote_value long_one = {.key = {"x"}, .data = "", .size = RIG_MAX_VALUE + 1};
        const struct remote_reader reader = {rig_take, NULL};
        bool found[2] = {true, true};
        struct rig rig;

        (void)state;
        rig_open(&rig, "redis:///nonexistent/socket");
        rig_ok(&rig, remote_touch(rig.r, keys, 0, 1, found, 0, &rig.e));
        rig_ok(&rig, remote_get(rig.r, keys, 0, &reader, 0, &rig.e));
        rig_ok(&rig, remote_put(rig.r, NULL, 0, 1, 0, &rig.e));
        rig_ok(&rig, remote_remove(rig.r, NULL, 0, 0, &rig.e));
        rig_expect(&rig, remote_get(rig.r, keys, 2, &reader, rig_until(), &rig.e), -ERR_INVALID,
                "a key has");
        memset(keys[1].text, 'x', sizeof(keys[1].text));
        rig_expect(&rig, remote_remove(rig.r, keys, 2, rig_until(), &rig.e), -ERR_INVALID,
                "a key has");
        rig_expect(&rig, remote_put(rig.r, &long_one, 1, 1, rig_until(), &rig.e), -ERR_INVALID,
                "more than 65536 bytes");
        rig_expect(&rig, remote_put(rig.r, &long_one, 1, 0, rig_until(), &rig.e), -ERR_INVALID,
                "a second");
        rig_expect(&rig, remote_touch(rig.r, keys, 1, 0, found, rig_until(), &rig.e), -ERR_INVALID,
                "a second");
        rig_expect(&rig, remote_touch(rig.r, keys, 1, 1, found, rig_until(), &rig.e),
                -ERR_UNAVAILABLE, "/nonexistent/socket: No such file");
        assert_false(found[0]);
        rig_expect(&rig, remote_touch(rig.r, keys, 1, 1, found, 0, &rig.e), -ERR_UNAVAILABLE,
                "within the time");
        assert_int_equal(rig_stats(&rig).n_failures, 2);
        /* Nobody has to want the words. */
        assert_int_equal(
                remote_touch(rig.r, keys, 1, 1, found, rig_until(), NULL), -ERR_UNAVAILABLE);
        rig_close(&rig);
}

static void test_no_such_host(void **state) {
        bool found;
        struct rig rig;

        (void)state;
        rig_open(&rig, "redis://no-such-host.invalid");
        rig_expect(&rig,
                remote_touch(rig.r, &(struct remote_key){"x"}, 1, 1, &found, rig_until(), &rig.e),
                -ERR_UNAVAILABLE, "server no-such-host.invalid:6379: ");
        rig_close(&rig);
}

static void test_told(void **state) {
        const struct remote_address asked = {.host = "here", .port = 1};
        struct remote_address a;
        char text[REMOTE_ADDRESS_TEXT];

        (void)state;
        assert_true(remote_address_told(&a, "10.0.0.1:7000", &asked));
        assert_string_equal(remote_address_text(&a, text), "10.0.0.1:7000");
        assert_true(remote_address_told(&a, ":7000", &asked));
        assert_string_equal(remote_address_text(&a, text), "here:7000");
        assert_true(remote_address_told(&a, "2001:db8::1:7000", &asked));
        assert_string_equal(remote_address_text(&a, text), "[2001:db8::1]:7000");
        assert_false(remote_address_told(&a, "?:7000", &asked));
        assert_false(remote_address_told(&a, "host", &asked));
        assert_false(remote_address_told(&a, "host:", &asked));
        assert_false(remote_address_told(&a, "host:0", &asked));
        assert_false(remote_address_told(&a, "ho/st:7", &asked));
        assert_false(remote_address_told(&a, "", &asked));
}

static void test_slots(void **state) {
        (void)state;
        assert_int_equal(remote_slot("123456789"), 0x31c3); /* the check value of CRC-16/XMODEM */
        assert_int_equal(remote_slot("foo"), 12182);
        assert_int_equal(remote_slot("{foo}.bar"), 12182);
        assert_int_equal(remote_slot("a{foo}b{c}"), 12182);
        assert_int_equal(remote_slot("{user1000}.following"), remote_slot("user1000"));
        /* Nothing between the braces, or no second one: the whole key. */
        assert_int_not_equal(remote_slot("{}foo"), remote_slot("foo"));
        assert_int_not_equal(remote_slot("{foo"), remote_slot("foo"));
        assert_int_equal(remote_slot("foo{{bar}}zap"), remote_slot("{bar"));
}

/* More servers than any cluster has are not taken. */
static void test_map_is_bounded(void **state) {
        struct remote_map *m = remote_map_new();
        struct remote_address a = {.port = 1};

        (void)state;
        assert_non_null(m);
        for (unsigned i = 0; i < REMOTE_SERVERS_MAX; i++) {
                snprintf(a.host, sizeof(a.host), "host-%u", i);
                assert_true(remote_map_set(m, i, i, &a));
        }
        assert_true(remote_map_set(m, 0, 0, &a)); /* one that is known */
        assert_int_equal(m->owner[0], REMOTE_SERVERS_MAX);
        a.port = 2;
        assert_false(remote_map_set(m, 0, REMOTE_N_SLOTS - 1, &a));
        assert_int_equal(m->n_servers, REMOTE_SERVERS_MAX);
        assert_int_equal(m->owner[1], 2);
        remote_map_free(m);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_good),
                cmocka_unit_test(test_bad),
                cmocka_unit_test(test_options),
                cmocka_unit_test(test_arguments),
                cmocka_unit_test(test_no_such_host),
                cmocka_unit_test(test_told),
                cmocka_unit_test(test_slots),
                cmocka_unit_test(test_map_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
