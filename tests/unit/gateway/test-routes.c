/* SPDX-License-Identifier: MIT */
/* Paths to routes, and whose form a refusal has. */
#include "client/gateway/routes.h"
#include "util/test.h"
#include <string.h>

static void handle(struct gateway_call *call) {
}

static int error_body(struct buf *out, unsigned status, const char *code, const char *message,
        const char *param) {
        return 0;
}

static const struct gateway_route routes_of_basic[] = {{HTTP_GET, "/health", handle, false}, {}};
static const struct gateway_route routes_of_one[] = {{HTTP_GET, "/v1/things", handle, false},
        {HTTP_POST, "/v1/things", handle, false}, {HTTP_GET, "/v1/things/special", handle, false},
        {HTTP_GET, "/v1/things/*", handle, false}, {HTTP_DELETE, "/v1/things/*", handle, false},
        {HTTP_POST, "/v1/things/*/parts/*", handle, false},
        {HTTP_GET, "/v1/files/**", handle, false}, {}};
static const struct gateway_route routes_of_two[] = {
        {HTTP_POST, "/v1/messages", handle, false}, {}};
static const struct gateway_dialect basic = {"basic", "/", routes_of_basic, error_body, NULL},
                                    one = {"one", "/v1/", routes_of_one, error_body, NULL},
                                    two = {"two", "/v1/messages", routes_of_two, error_body, NULL};
static const struct gateway_dialect *const all[] = {&two, &basic, &one, NULL};

static struct route_found find(enum http_method method, const char *path) {
        struct route_found found;

        routes_find(&found, all, method, path);
        return found;
}

static void test_patterns(void **state) {
        struct route_arg args[ROUTE_ARGS];

        assert_true(route_matches("/a", "/a", args));
        assert_false(route_matches("/a", "/a/", args));
        assert_false(route_matches("/a/", "/a", args));
        assert_false(route_matches("/a", "/ab", args));
        assert_false(route_matches("/a/*", "/a/", args));
        assert_false(route_matches("/a/*", "/a", args));
        assert_false(route_matches("/a/*", "/a/b/c", args));
        assert_false(route_matches("/a/**", "/a/", args));
        assert_true(route_matches("/a/*/c/*", "/a/bcd/c/e", args));
        assert_int_equal(args[0].at, 3);
        assert_int_equal(args[0].size, 3);
        assert_int_equal(args[1].at, 9);
        assert_int_equal(args[1].size, 1);
        assert_true(route_matches("/a/**", "/a/b/c//d", args));
        assert_int_equal(args[0].size, 6);
        /* a star inside of a segment is one */
        assert_true(route_matches("/a*b", "/a*b", args));
        assert_false(route_matches("/a*b", "/axb", args));
        assert_false(route_matches("/*/*/*", "/a/b/c", args)); /* more than ROUTE_ARGS */
}

static void test_found(void **state) {
        struct route_found found = find(HTTP_GET, "/v1/things/special");

        assert_ptr_equal(found.route, &routes_of_one[2]);
        assert_ptr_equal(found.dialect, &one);
        found = find(HTTP_GET, "/v1/things/7");
        assert_ptr_equal(found.route, &routes_of_one[3]);
        assert_int_equal(found.args[0].size, 1);
        assert_int_equal(found.args[1].size, 0);
        assert_ptr_equal(find(HTTP_HEAD, "/v1/things").route, &routes_of_one[0]);
        assert_ptr_equal(find(HTTP_POST, "/v1/things").route, &routes_of_one[1]);
        assert_ptr_equal(find(HTTP_POST, "/v1/messages").route, &routes_of_two[0]);
        assert_ptr_equal(find(HTTP_POST, "/v1/messages").dialect, &two);
}

static void test_not_found(void **state) {
        struct route_found found = find(HTTP_GET, "/v1/other");
        char allow[ROUTES_ALLOW_SIZE];

        assert_null(found.route);
        assert_int_equal(found.methods, 0);
        assert_ptr_equal(found.dialect, &one);
        assert_ptr_equal(find(HTTP_GET, "/v1/messages/x").dialect, &two);
        assert_ptr_equal(find(HTTP_GET, "/v1").dialect, &basic);
        assert_ptr_equal(find(HTTP_GET, "/").dialect, &basic);
        /* the methods of all patterns that match */
        found = find(HTTP_POST, "/v1/things/special");
        assert_null(found.route);
        routes_allow(found.methods, allow);
        assert_string_equal(allow, "GET, HEAD, DELETE, OPTIONS");
        found = find(HTTP_OTHER, "/v1/messages");
        assert_null(found.route);
        routes_allow(found.methods, allow);
        assert_string_equal(allow, "POST, OPTIONS");
        routes_allow(~0u, allow);
        assert_string_equal(allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_patterns),
                cmocka_unit_test(test_found),
                cmocka_unit_test(test_not_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
