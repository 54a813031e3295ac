/* SPDX-License-Identifier: MIT */
/* Heads of requests: what is read from them, and what is refused. */
#include "client/gateway/http-head.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Scan and parse: 0, or the status of the refusal. */
static unsigned parse(struct http_head *head, const char *text) {
        struct http_scan scan = HTTP_SCAN_HEAD;
        unsigned status = 0;
        size_t end = 0;
        struct err e;
        int r;

        *head = HTTP_HEAD_NULL;
        r = http_scan_head(&scan, text, strlen(text), &end, &status, &e);
        if (r < 0) {
                assert_int_equal(r, -ERR_FORMAT);
                return status;
        }
        assert_int_equal(r, 1);
        assert_int_equal(end, strlen(text));
        r = http_head_parse(head, text, end, &status, &e);
        if (r == 0)
                return 0;
        assert_int_equal(r, -ERR_FORMAT);
        assert_true(strlen(e.msg) > 10);
        http_head_deinit(head);
        return status;
}

static void test_everything(void **state) {
        struct http_head head;

        assert_int_equal(parse(&head, "POST /v1/a%20b/%c3%a4?x=1&y=a+b%26&z&=n&x=2 HTTP/1.1\r\n"
                                      "Host: localhost:8080\r\n"
                                      "X-One:  a \t\r\n"
                                      "Accept: text/html\r\n"
                                      "accept:application/json\r\n"
                                      "Content-Length: 0012\r\n"
                                      "X-Empty:\r\n"
                                      "Expect: 100-Continue\r\n\r\n"),
                0);
        assert_int_equal(head.method, HTTP_POST);
        assert_string_equal(head.path, "/v1/a b/\xc3\xa4");
        assert_string_equal(http_head_parameter(&head, "x"), "1");
        assert_string_equal(http_head_parameter(&head, "y"), "a b&");
        assert_string_equal(http_head_parameter(&head, "z"), "");
        assert_null(http_head_parameter(&head, "w"));
        assert_null(http_head_parameter(&head, ""));
        assert_string_equal(http_head_field(&head, "host"), "localhost:8080");
        assert_string_equal(http_head_field(&head, "x-one"), "a");
        assert_string_equal(http_head_field(&head, "accept"), "text/html, application/json");
        assert_string_equal(http_head_field(&head, "x-empty"), "");
        assert_null(http_head_field(&head, "x-two"));
        assert_int_equal(head.n_fields, 6);
        assert_int_equal(head.length, 12);
        assert_true(head.expects && head.keep && !head.chunked && !head.is_http_1_0);
        http_head_deinit(&head);
        http_head_deinit(&head);
}

static void test_methods(void **state) {
        static const char *const words[] = {
                "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW", "get"};
        char text[100];
        struct http_head head;

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: x\r\n\r\n", words[i]);
                assert_int_equal(parse(&head, text), 0);
                assert_int_equal(head.method, i < 7 ? (enum http_method)i : HTTP_OTHER);
                http_head_deinit(&head);
        }
}

static void test_targets(void **state) {
        static const struct {
                const char *target, *path; /* NULL: 400 */
        } cases[] = {
                {"/", "/"},
                {"//a", "//a"},
                {"/a/", "/a/"},
                {"/a%2fb", "/a/b"},
                {"/a+b", "/a+b"},
                {"/...", "/..."},
                {"/.a/..b/c.", "/.a/..b/c."},
                {"http://h/a?b", "/a"},
                {"HTTP://h", "/"},
                {"http://h?x=1", "/"},
                {"", NULL},
                {"*", NULL}, /* but for OPTIONS */
                {"a", NULL},
                {"h:80", NULL},
                {"https://h/a", NULL},
                {"http://other/a", NULL},
                {"/a#b", NULL},
                {"/\xc3\xa4", NULL},
                {"/%", NULL},
                {"/%4", NULL},
                {"/%4g", NULL},
                {"/%00", NULL},
                {"/%0a", NULL},
                {"/%7f", NULL},
                {"/%ff", NULL},
                {"/%c0%80", NULL},
                {"/.", NULL},
                {"/..", NULL},
                {"/a/../b", NULL},
                {"/a/./b", NULL},
                {"/%2e%2e/b", NULL},
                {"/a?%zz", NULL},
                {"/a?b=%00", NULL},
                {"/a?b=%fe", NULL},
                {"/a b", NULL},
        };
        char text[200];
        struct http_head head;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].target);
                if (!cases[i].path) {
                        assert_int_equal(parse(&head, text), 400);
                        continue;
                }
                assert_int_equal(parse(&head, text), 0);
                assert_string_equal(head.path, cases[i].path);
                http_head_deinit(&head);
        }
        assert_int_equal(parse(&head, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
        assert_string_equal(head.path, "/");
        http_head_deinit(&head);
}

/* Heads of which two servers could make different things, and others that are wrong. */
static void test_refused(void **state) {
        static const struct {
                unsigned status;
                const char *text;
        } cases[] = {
                /* the first line */
                {400, "GET /\r\n\r\n"},
                {400, "GET\r\n\r\n"},
                {400, "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"},
                {400, "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"},
                {400, " GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
                {400, "G(T / HTTP/1.1\r\nHost: h\r\n\r\n"},
                {400, "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n"},
                {400, "GET / http/1.1\r\nHost: h\r\n\r\n"},
                {400, "GET / HTTP/1.10\r\nHost: h\r\n\r\n"},
                {400, "GET / HTTP/1\r\nHost: h\r\n\r\n"},
                {400, "GET / XTTP/1.1\r\nHost: h\r\n\r\n"},
                {400, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: h\r\n\r\n"},
                {505, "PRI * HTTP/2.0\r\n\r\n"},
                {505, "GET / HTTP/0.9\r\nHost: h\r\n\r\n"},
                /* bytes */
                {400, "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"},
                {400, "GET / HTTP/1.1\nHost: h\n\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\nb\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nX: \x01\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nX: \x7f\r\n\r\n"},
                {400, "\x16\x03\x01 TLS"},
                /* fields */
                {400, "GET / HTTP/1.1\r\nHost: h\r\nX : a\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nX\t: a\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\n: a\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nX\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\n X: a\r\nHost: h\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nX\xc3: a\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n"},
                {400, "GET / HTTP/1.1\r\nHost: h\r\nOrigin: a\r\nOrigin: b\r\n\r\n"},
                /* where the body ends */
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: "
                      "2\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: "
                      "1\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1, 1\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x1\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1 1\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999999999999999\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n"},
                {400, "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"},
                {400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n"},
                {501, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
                {501, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n"},
                {501, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n"},
                {501, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n"},
                {415, "POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\n\r\n"},
                {417, "POST / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n"},
        };
        struct http_head head;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                unsigned status = parse(&head, cases[i].text);

                if (status == 0)
                        http_head_deinit(&head);
                /* a control character is refused before it is a coding */
                if (status != cases[i].status && !(status == 400 && strchr(cases[i].text, 0x0b)))
                        fail_msg("%u, not %u: %s", status, cases[i].status, cases[i].text);
        }
}

static void test_who_keeps(void **state) {
        static const struct {
                const char *text;
                bool keep;
        } cases[] = {
                {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", true},
                {"GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", true},
                {"GET / HTTP/1.1\r\nHost: h\r\nConnection: Close\r\n\r\n", false},
                {"GET / HTTP/1.1\r\nHost: h\r\nConnection: x , close\r\n\r\n", false},
                {"GET / HTTP/1.1\r\nHost: h\r\nConnection: x\r\nConnection: close\r\n\r\n", false},
                {"GET / HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n", true},
                {"GET / HTTP/1.7\r\nHost: h\r\n\r\n", true},
                {"GET / HTTP/1.0\r\n\r\n", false},
                {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
                {"GET / HTTP/1.0\r\nConnection: Keep-Alive, close\r\n\r\n", false},
        };
        struct http_head head;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(parse(&head, cases[i].text), 0);
                assert_int_equal(head.keep, cases[i].keep);
                http_head_deinit(&head);
        }
}

/* One empty line in front is what old clients leave behind a body. */
static void test_empty_line_in_front(void **state) {
        struct http_head head;

        assert_int_equal(parse(&head, "\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
        assert_string_equal(head.path, "/a");
        http_head_deinit(&head);
}

/* Byte by byte, each is looked at once, and what is wrong is told at once. */
static void test_piecewise(void **state) {
        static const char text[] = "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET";
        struct http_scan scan = HTTP_SCAN_HEAD;
        unsigned status;
        size_t end = 0;
        struct err e;

        for (size_t n = 0; n < 27; n++)
                assert_int_equal(http_scan_head(&scan, text, n, &end, &status, &e), 0);
        assert_int_equal(http_scan_head(&scan, text, sizeof(text) - 1, &end, &status, &e), 1);
        assert_int_equal(end, 27);
        assert_memory_equal(text + end, "GET", 3);
        scan = HTTP_SCAN_HEAD;
        assert_int_equal(http_scan_head(&scan, "\x16", 1, &end, &status, &e), -ERR_FORMAT);
        assert_int_equal(status, 400);
}

static void test_many(void **state) {
        char *text = calloc(1, 100000);
        struct http_head head;
        size_t n;

        /* as many fields as allowed, and one more */
        for (int more = 0; more < 2; more++) {
                n = (size_t)sprintf(text, "GET / HTTP/1.1\r\nHost: h\r\n");
                for (int i = 1; i < HTTP_MAX_FIELDS + more; i++)
                        n += (size_t)sprintf(text + n, "X: %d\r\n", i);
                sprintf(text + n, "\r\n");
                assert_int_equal(parse(&head, text), more ? 431 : 0);
                if (more)
                        continue;
                assert_int_equal(head.n_fields, 2);
                assert_non_null(strstr(http_head_field(&head, "x"), "1, 2, 3"));
                http_head_deinit(&head);
        }
        for (int more = 0; more < 2; more++) {
                n = (size_t)sprintf(text, "GET /?a=0");
                for (int i = 1; i < HTTP_MAX_PARAMETERS + more; i++)
                        n += (size_t)sprintf(text + n, "&a=%d", i);
                sprintf(text + n, " HTTP/1.1\r\nHost: h\r\n\r\n");
                assert_int_equal(parse(&head, text), more ? 414 : 0);
                http_head_deinit(&head);
        }
        free(text);
}

/* Two names with many values each: joined values lie one behind the other. */
static void test_joined(void **state) {
        struct http_head head;

        assert_int_equal(
                parse(&head, "GET / HTTP/1.1\r\nA:1\r\nHost: h\r\nB:\r\nA:2\r\nB:\r\nC:3\r\n"
                             "A:\r\n\r\n"),
                0);
        assert_string_equal(http_head_field(&head, "a"), "1, 2, ");
        assert_string_equal(http_head_field(&head, "b"), ", ");
        assert_string_equal(http_head_field(&head, "c"), "3");
        assert_string_equal(http_head_field(&head, "host"), "h");
        http_head_deinit(&head);
}

static void test_lists(void **state) {
        assert_true(http_list_has("close", "close"));
        assert_true(http_list_has(" a ,, CLOSE\t", "close"));
        assert_false(http_list_has("a, closed", "close"));
        assert_false(http_list_has("", "close"));
        assert_false(http_list_has(",", "close"));
        assert_false(http_list_has(NULL, "close"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_everything),
                cmocka_unit_test(test_methods),
                cmocka_unit_test(test_targets),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_who_keeps),
                cmocka_unit_test(test_empty_line_in_front),
                cmocka_unit_test(test_piecewise),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_joined),
                cmocka_unit_test(test_lists),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
