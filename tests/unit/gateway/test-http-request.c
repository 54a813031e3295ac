/* SPDX-License-Identifier: MIT */
/* Requests over a connection: how they arrive, and which are refused. */
#include "http-rig.h"
#include "util/test.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define H "Host: h\r\n"

static unsigned status_of(const char *answer) {
        unsigned status = 0;

        assert_int_equal(sscanf(answer, "HTTP/1.1 %u ", &status), 1);
        return status;
}

static const char *body_of(const char *answer) {
        const char *end = strstr(answer, "\r\n\r\n");

        assert_non_null(end);
        return end + 4;
}

static void test_get(void **state) {
        struct rig *rig = *state;
        struct http_figures figures;
        const char *answer;
        int fd;

        rig_start(rig);
        answer = rig_ask(rig, "GET /a?b=c HTTP/1.1\r\n" H "\r\n", &fd);
        assert_int_equal(status_of(answer), 200);
        assert_non_null(strstr(answer, "\r\nContent-Length: 7\r\n"));
        assert_non_null(strstr(answer, "\r\nContent-Type: text/plain\r\n"));
        assert_non_null(strstr(answer, "\r\nDate: "));
        assert_non_null(strstr(answer, " GMT\r\n"));
        assert_null(strstr(answer, "Connection:"));
        assert_string_equal(body_of(answer), "GET /a ");
        for (int i = 0; i < 10; i++) { /* the connection is kept */
                rig_send(rig, fd, "POST /b HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nxyz");
                rig_settle(rig);
                assert_string_equal(body_of(rig_read(rig, fd, NULL)), "POST /b xyz");
        }
        http_server_figures(rig->server, &figures);
        assert_int_equal(figures.n_connections, 1);
        assert_int_equal(figures.n_idle, 1);
        assert_int_equal(figures.n_requests, 11);
        assert_int_equal(figures.bodies_size, 0);
        close(fd);
        rig_settle(rig);
        http_server_figures(rig->server, &figures);
        assert_int_equal(figures.n_connections, 0);
}

/* Several requests at once are answered in order, one after the other. */
static void test_pipelining(void **state) {
        struct rig *rig = *state;
        struct buf text = BUF_NULL;
        const char *answer;
        int fd;

        rig_start(rig);
        for (int i = 0; i < 50; i++)
                assert_int_equal(buf_printf(&text,
                                         "POST /%d HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n"
                                         "body%d"
                                         "GET /%d HTTP/1.1\r\n" H "\r\n",
                                         i, i % 10, i),
                        0);
        answer = rig_ask(rig, (char *)text.data, &fd);
        for (int i = 0; i < 50; i++) {
                char want[40];

                snprintf(want, sizeof(want), "\r\n\r\nPOST /%d body%d", i, i % 10);
                answer = strstr(answer, want);
                assert_non_null(answer);
                snprintf(want, sizeof(want), "\r\n\r\nGET /%d ", i);
                answer = strstr(answer, want);
                assert_non_null(answer);
        }
        assert_int_equal(rig->n_handled, 100);
        buf_deinit(&text);
        close(fd);
}

/* While an answer is pending, nothing else begins. */
static void test_one_at_a_time(void **state) {
        struct rig *rig = *state;
        const char *answer;
        int fd;

        rig_start(rig);
        rig->holds = true;
        rig_ask(rig, "GET /1 HTTP/1.1\r\n" H "\r\nGET /2 HTTP/1.1\r\n" H "\r\n", &fd);
        rig_send(rig, fd, "GET /3 HTTP/1.1\r\n" H "\r\n");
        rig_settle(rig);
        assert_int_equal(rig->n_handled, 1);
        rig->holds = false;
        assert_string_equal(http_path(rig->pending[0]), "/1");
        http_reply(rig->pending[0], 200, NULL, "one", 3);
        rig->n_pending = 0;
        rig_settle(rig);
        answer = rig_read(rig, fd, NULL);
        assert_int_equal(rig->n_handled, 3);
        assert_non_null(strstr(answer, "oneHTTP/1.1"));
        assert_non_null(strstr(answer, "GET /2 HTTP/1.1"));
        assert_non_null(strstr(answer, "GET /3 "));
        close(fd);
}

static void test_byte_by_byte(void **state) {
        static const char text[] = "POST /x HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
                                   "3\r\nabc\r\n2;x\r\nde\r\n0\r\nTrailer: 1\r\n\r\n";
        struct rig *rig = *state;
        int fd;

        rig_start(rig);
        fd = rig_connect(rig);
        for (int turn = 0; turn < 2; turn++) {
                for (size_t i = 0; text[i]; i++) {
                        char one[2] = {text[i], '\0'};

                        assert_int_equal(rig->n_handled, turn);
                        rig_send(rig, fd, one);
                        rig_settle(rig);
                }
                assert_string_equal(body_of(rig_read(rig, fd, NULL)), "POST /x abcde");
        }
        close(fd);
}

/* A long body, in one piece and in chunks; its memory is given back. */
static void test_long_bodies(void **state) {
        struct rig *rig = *state;
        struct http_figures figures;
        size_t size = 3 << 20;
        char *body = malloc(size + 1), head[200];
        int fd;

        rig_start(rig);
        memset(body, 'b', size);
        body[size] = '\0';
        fd = rig_connect(rig);
        for (int chunked = 0; chunked < 2; chunked++) {
                if (chunked)
                        snprintf(head, sizeof(head),
                                "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n%zx\r\n",
                                size);
                else
                        snprintf(head, sizeof(head),
                                "POST / HTTP/1.1\r\n" H "Content-Length: %zu\r\n\r\n", size);
                rig_send(rig, fd, head);
                rig_send(rig, fd, body);
                rig_send(rig, fd, chunked ? "\r\n0\r\n\r\n" : "");
                rig_settle(rig);
                assert_int_equal(strlen(body_of(rig_read(rig, fd, NULL))), size + 7);
                http_server_figures(rig->server, &figures);
                assert_int_equal(figures.bodies_size, 0);
        }
        free(body);
        close(fd);
}

static void test_expect(void **state) {
        static const char head[] =
                "POST /e HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        struct rig *rig = *state;
        const char *answer;
        int fd;

        rig_start(rig);
        assert_string_equal(rig_ask(rig, head, &fd), "HTTP/1.1 100 Continue\r\n\r\n");
        rig_send(rig, fd, "ok");
        rig_settle(rig);
        assert_string_equal(body_of(rig_read(rig, fd, NULL)), "POST /e ok");
        /* who sends the body without waiting is not told to go on */
        rig_send(rig, fd,
                "POST /e HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok");
        rig_settle(rig);
        assert_int_equal(status_of(rig_read(rig, fd, NULL)), 200);
        close(fd);
        /* who may not send it is told that in place of it, and the body is not read */
        rig->refuses = true;
        answer = rig_ask(rig, head, NULL);
        assert_int_equal(status_of(answer), 401);
        assert_non_null(strstr(answer, "Connection: close"));
        assert_int_equal(rig->n_handled, 2);
}

/* admit() refuses: with a body to come the connection ends, else it is kept. */
static void test_admit(void **state) {
        struct rig *rig = *state;
        const char *answer;
        bool end;
        int fd;

        rig_start(rig);
        rig->refuses = true;
        answer = rig_ask(rig, "GET / HTTP/1.1\r\n" H "\r\n", &fd);
        assert_int_equal(status_of(answer), 401);
        assert_null(strstr(answer, "Connection: close"));
        rig_send(rig, fd, "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n12345");
        answer = rig_read(rig, fd, &end);
        assert_int_equal(status_of(answer), 401);
        assert_true(end);
        assert_int_equal(rig->n_handled, 0);
        close(fd);
}

static void test_head(void **state) {
        struct rig *rig = *state;
        const char *answer;

        rig_start(rig);
        answer = rig_ask(rig, "HEAD /h HTTP/1.1\r\n" H "\r\n", NULL);
        assert_non_null(strstr(answer, "Content-Length: 8\r\n"));
        assert_string_equal(body_of(answer), "");
}

static void test_http_1_0(void **state) {
        struct rig *rig = *state;
        const char *answer;
        bool end;
        int fd;

        rig_start(rig);
        answer = rig_ask(rig, "GET / HTTP/1.0\r\n\r\n", &fd);
        assert_non_null(strstr(answer, "Connection: close\r\n"));
        rig_read(rig, fd, &end);
        assert_true(end);
        close(fd);
        answer = rig_ask(rig, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &fd);
        assert_non_null(strstr(answer, "Connection: keep-alive\r\n"));
        rig_read(rig, fd, &end);
        assert_false(end);
        close(fd);
}

/* Refused in the form that the path has, and the connection ends. */
static void test_refused(void **state) {
        static const struct {
                const char *text, *path;
                unsigned status;
        } cases[] = {
                {"GET /\n\n", "", 400},
                {"GET /a HTTP/1.1\r\n\r\n", "/a", 400},
                {"POST /a HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "0\r\n\r\n",
                        "/a", 400},
                {"POST /a HTTP/1.1\r\n" H "Content-Length: 99999999999\r\n\r\n", "/a", 413},
                {"POST /a HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nx\r\n", "/a", 400},
                {"POST /a HTTP/1.1\r\n" H "Transfer-Encoding: deflate\r\n\r\n", "/a", 501},
                {"GET / HTTP/3.0\r\n\r\n", "", 505},
        };
        struct rig *rig = *state;

        rig_start(rig);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char want[40];
                const char *answer;
                bool end;
                int fd;

                answer = rig_ask(rig, cases[i].text, &fd);
                assert_int_equal(status_of(answer), cases[i].status);
                snprintf(want, sizeof(want), "refused: %s: ", cases[i].path);
                assert_memory_equal(body_of(answer), want, strlen(want));
                assert_non_null(strstr(answer, "Connection: close\r\n"));
                rig_read(rig, fd, &end);
                assert_true(end);
                /* What a client still sends is read: closing at once could cost it the answer. */
                assert_int_equal(send(fd, "more", 4, MSG_NOSIGNAL), 4);
                close(fd);
        }
        assert_int_equal(rig->n_handled, 0);
}

static void test_long_heads(void **state) {
        struct rig *rig = *state;
        char text[5000];

        rig->limits.header_size = 2000;
        rig_start(rig);
        memset(text, 'a', sizeof(text));
        memcpy(text, "GET /", 5);
        text[sizeof(text) - 1] = '\0';
        assert_int_equal(status_of(rig_ask(rig, text, NULL)), 414);
        memcpy(text, "GET / HTTP/1.1\r\nA: ", 19);
        assert_int_equal(status_of(rig_ask(rig, text, NULL)), 431);
        /* just as long as it may be */
        memcpy(text + 2000 - 13, "\r\n" H "\r\n", 14);
        assert_int_equal(status_of(rig_ask(rig, text, NULL)), 200);
}

/* More body than allowed, of unknown length: the answer arrives although the client sends on. */
static void test_too_large(void **state) {
        struct rig *rig = *state;
        char *body = malloc((1 << 20) + 1);
        const char *answer;
        bool end;
        int fd;

        rig->limits.body_size = 100000;
        rig_start(rig);
        memset(body, 'b', 1 << 20);
        body[1 << 20] = '\0';
        fd = rig_connect(rig);
        rig_send(rig, fd, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1000000\r\n");
        for (int i = 0; i < 4; i++)
                rig_send(rig, fd, body);
        answer = rig_read(rig, fd, &end);
        assert_int_equal(status_of(answer), 413);
        assert_true(end);
        free(body);
        close(fd);
}

/* All bodies together are bounded, by what has come of them. */
static void test_bodies_together(void **state) {
        struct rig *rig = *state;
        char head[] = "POST / HTTP/1.1\r\n" H "Content-Length: 60000\r\n\r\n", *body;
        struct http_figures figures;
        const char *answer;
        int one, two;

        rig->limits.bodies_size = 100000;
        rig_start(rig);
        body = calloc(1, 60001);
        memset(body, 'b', 59999);
        one = rig_connect(rig);
        rig_send(rig, one, head);
        rig_send(rig, one, body);
        rig_settle(rig);
        two = rig_connect(rig);
        rig_send(rig, two, head);
        rig_send(rig, two, body);
        rig_settle(rig);
        answer = rig_read(rig, two, NULL);
        assert_int_equal(status_of(answer), 503);
        assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
        http_server_figures(rig->server, &figures);
        assert_true(figures.bodies_size > 59999 && figures.bodies_size <= 100000);
        rig_send(rig, one, "b");
        rig_settle(rig);
        assert_int_equal(status_of(rig_read(rig, one, NULL)), 200);
        http_server_figures(rig->server, &figures);
        assert_int_equal(figures.bodies_size, 0);
        free(body);
        close(one);
        close(two);
}

/* drop_body() gives memory back while the answer is pending. */
static void test_drop_body(void **state) {
        struct rig *rig = *state;
        struct http_figures figures;
        uid_t uid;
        size_t size;
        int fd;

        rig_start(rig);
        rig->holds = true;
        rig_ask(rig, "POST /?a=%20 HTTP/1.1\r\n" H "X-Y: z\r\nContent-Length: 3\r\n\r\nabc", &fd);
        assert_int_equal(rig->n_pending, 1);
        assert_string_equal(http_body(rig->pending[0], &size), "abc");
        http_drop_body(rig->pending[0]);
        http_drop_body(rig->pending[0]);
        assert_string_equal(http_body(rig->pending[0], &size), "");
        assert_int_equal(size, 0);
        http_server_figures(rig->server, &figures);
        assert_int_equal(figures.bodies_size, 0);
        assert_string_equal(http_query(rig->pending[0], "a"), " ");
        assert_string_equal(http_header(rig->pending[0], "x-y"), "z");
        assert_true(http_peer_uid(rig->pending[0], &uid));
        assert_int_equal(uid, geteuid());
        close(fd);
        rig_settle(rig);
        assert_int_equal(rig->n_closed, 1);
}

static void listen_tcp(struct rig *rig, struct sockaddr_in *ret) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t n = sizeof(*ret);

        *ret = (struct sockaddr_in){
                .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        assert_int_equal(bind(fd, (struct sockaddr *)ret, n), 0);
        assert_int_equal(listen(fd, 100), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)ret, &n), 0);
        assert_int_equal(http_server_listen(rig->server, fd, true, &rig->e), 0);
}

static int connect_tcp(const struct sockaddr_in *a) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_int_equal(connect(fd, (const struct sockaddr *)a, sizeof(*a)), 0);
        return fd;
}

/* Those who come by TCP together leave room for others. */
static void test_shares(void **state) {
        struct rig *rig = *state;
        struct http_figures figures;
        struct sockaddr_in a;
        int fds[8];

        rig->limits.n_connections = 8;
        rig_start(rig);
        listen_tcp(rig, &a);
        for (int i = 0; i < 8; i++)
                fds[i] = connect_tcp(&a);
        do {
                event_base_loop(rig->base, EVLOOP_ONCE);
                http_server_figures(rig->server, &figures);
        } while (figures.n_accepted < 8);
        assert_int_equal(figures.n_refused, 4);
        assert_int_equal(status_of(rig_ask(rig, "GET / HTTP/1.1\r\n" H "\r\n", NULL)), 200);
        for (int i = 0; i < 8; i++)
                close(fds[i]);
}

/* By TCP nobody has a uid. */
static void test_tcp(void **state) {
        struct rig *rig = *state;
        struct sockaddr_in a;
        uid_t uid = 7;
        int fd;

        rig_start(rig);
        rig->holds = true;
        listen_tcp(rig, &a);
        fd = connect_tcp(&a);
        rig_send(rig, fd, "GET / HTTP/1.1\r\n" H "\r\n");
        while (rig->n_pending == 0)
                event_base_loop(rig->base, EVLOOP_ONCE);
        assert_false(http_peer_uid(rig->pending[0], &uid));
        assert_int_equal(uid, 7);
        close(fd);
        while (rig->n_pending > 0)
                event_base_loop(rig->base, EVLOOP_ONCE);
        assert_int_equal(rig->n_closed, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_get),
                TEST(test_pipelining),
                TEST(test_one_at_a_time),
                TEST(test_byte_by_byte),
                TEST(test_long_bodies),
                TEST(test_expect),
                TEST(test_admit),
                TEST(test_head),
                TEST(test_http_1_0),
                TEST(test_refused),
                TEST(test_long_heads),
                TEST(test_too_large),
                TEST(test_bodies_together),
                TEST(test_drop_body),
                TEST(test_shares),
                TEST(test_tcp),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
