/* SPDX-License-Identifier: MIT */
/* Bodies that go on as they come, and answers that end when the server stops. */
#include "base/util.h"
#include "client/gateway/http-private.h"
#include "http-rig.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define H "Host: h\r\n"
#define LONGEST 100

/* What the sink of the one exchange got. */
static struct {
        struct http_exchange *exchange;
        char got[4 * LONGEST];
        size_t size;
        unsigned n_pieces, n_closed, n_stopped;
        bool holds;   /* from the beginning */
        bool answers; /* at the first piece */
} sunk;

static void on_piece(void *userdata, const void *data, size_t size) {
        struct rig *rig = userdata;

        assert_true(size > 0 && sunk.size + size < sizeof(sunk.got));
        memcpy(sunk.got + sunk.size, data, size);
        sunk.size += size;
        sunk.n_pieces++;
        assert_int_equal(rig->n_handled, 0);
        if (sunk.answers) {
                http_reply(sunk.exchange, 409, "text/plain", "no", 2);
                sunk.exchange = NULL;
        }
}

static void on_closed(void *userdata) {
        sunk.n_closed++;
        sunk.exchange = NULL;
}

static void admits(struct rig *rig, struct http_exchange *exchange) {
        static const struct http_answer_ops ops = {.closed = on_closed};

        if (strcmp(http_path(exchange), "/sink") != 0)
                return;
        sunk.exchange = exchange;
        http_set_sink(exchange, LONGEST, on_piece, rig);
        http_set_ops(exchange, &ops, rig);
        http_hold_body(exchange, sunk.holds);
}

static int setup(void **state) {
        struct rig *rig;
        int r = rig_setup(state);

        memset(&sunk, 0, sizeof(sunk));
        rig = *state;
        rig->admits = admits;
        return r;
}

static void check_got(const char *text) {
        assert_int_equal(sunk.size, strlen(text));
        assert_memory_equal(sunk.got, text, sunk.size);
}

/* The handler is called behind the last piece, and sees no body. */
static void test_pieces(void **state) {
        static const char *const requests[] = {"POST /sink HTTP/1.1\r\n" H
                                               "Content-Length: 5\r\n\r\nhello",
                "POST /sink HTTP/1.1\r\n" H
                "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"};
        struct rig *rig = *state;

        rig_start(rig);
        for (size_t i = 0; i < 4; i++) {
                const char *request = requests[i / 2], *answer;
                int fd = rig_connect(rig);

                sunk.size = sunk.n_pieces = rig->n_handled = 0;
                if (i % 2 == 0)
                        rig_send(rig, fd, request);
                for (const char *p = request; i % 2 && *p; p++) {
                        rig_send(rig, fd, (char[]){*p, '\0'});
                        rig_settle(rig);
                }
                rig_send(rig, fd, "GET /next HTTP/1.1\r\n" H "\r\n");
                answer = rig_read(rig, fd, NULL);
                assert_non_null(strstr(answer, "POST /sink "));
                assert_non_null(strstr(answer, "GET /next ")); /* the connection goes on */
                check_got("hello");
                assert_int_equal(rig->n_handled, 2);
                close(fd);
        }
        assert_int_equal(sunk.n_closed, 0);
}

/* What is held stays where it is: with the connection, or in the kernel. */
static void test_hold(void **state) {
        struct rig *rig = *state;
        int fd;

        rig_start(rig);
        sunk.holds = true;
        rig_ask(rig, "POST /sink HTTP/1.1\r\n" H "Content-Length: 8\r\n\r\nab", &fd);
        assert_int_equal(sunk.n_pieces, 0);
        http_hold_body(sunk.exchange, false);
        rig_settle(rig);
        check_got("ab");
        http_hold_body(sunk.exchange, true);
        rig_send(rig, fd, "cd");
        rig_settle(rig);
        check_got("ab");
        http_hold_body(sunk.exchange, false);
        rig_settle(rig);
        check_got("abcd");
        assert_string_equal(rig_read(rig, fd, NULL), "");
        assert_int_equal(rig->n_handled, 0);
        rig_send(rig, fd, "efghGET /next HTTP/1.1\r\n" H "\r\n");
        assert_non_null(strstr(rig_read(rig, fd, NULL), "GET /next "));
        check_got("abcdefgh");
        close(fd);
}

/* What came with the head and was held leaves no buffer to the connection that is idle behind it. */
static void test_idle(void **state) {
        struct rig *rig = *state;
        struct http_conn *conn;
        int fd;

        rig_start(rig);
        sunk.holds = true;
        rig_ask(rig, "POST /sink HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nab", &fd);
        conn = list_entry(rig->server->conns.next, struct http_conn, link);
        assert_non_null(conn->in.data);
        http_hold_body(sunk.exchange, false);
        assert_non_null(strstr(rig_read(rig, fd, NULL), "HTTP/1.1 200 "));
        assert_int_equal(conn->state, CONN_IDLE);
        assert_null(conn->in.data);
        assert_null(conn->out.data);
        close(fd);
}

/* Who waits to be asked for the body is asked when it is wanted. */
static void test_expect(void **state) {
        struct rig *rig = *state;
        int fd;

        rig_start(rig);
        sunk.holds = true;
        assert_string_equal(rig_ask(rig,
                                    "POST /sink HTTP/1.1\r\n" H
                                    "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n",
                                    &fd),
                "");
        http_hold_body(sunk.exchange, false);
        rig_settle(rig);
        assert_string_equal(rig_read(rig, fd, NULL), "HTTP/1.1 100 Continue\r\n\r\n");
        rig_send(rig, fd, "ab");
        assert_non_null(strstr(rig_read(rig, fd, NULL), "POST /sink "));
        check_got("ab");
        close(fd);
}

static void on_later(evutil_socket_t fd, short what, void *arg) {
        *(bool *)arg = true;
}

/* The time for the next piece does not run while nobody wants it. */
static void test_time(void **state) {
        static const struct timeval later = {.tv_usec = 30000};
        struct rig *rig = *state;
        bool is_later = false;
        const char *answer;
        int fd;

        rig->limits.body_usec = 1000;
        rig_start(rig);
        sunk.holds = true;
        rig_ask(rig, "POST /sink HTTP/1.1\r\n" H "Content-Length: 8\r\n\r\n", &fd);
        event_base_once(rig->base, -1, EV_TIMEOUT, on_later, &is_later, &later);
        while (!is_later)
                event_base_loop(rig->base, EVLOOP_ONCE);
        assert_int_equal(sunk.n_closed, 0);
        assert_non_null(sunk.exchange);
        http_hold_body(sunk.exchange, false);
        answer = rig_read_to_end(rig, fd);
        assert_non_null(strstr(answer, "HTTP/1.1 408 "));
        assert_int_equal(sunk.n_closed, 1);
        close(fd);
}

/* A request whose time for the body is over, which nothing has acted on yet: the loop comes to it before it comes to what is
 * done with the exchange now. */
static void ask_late(struct rig *rig, int *ret_fd) {
        struct http_conn *conn;

        rig_ask(rig, "POST /sink HTTP/1.1\r\n" H "Content-Length: 8\r\n\r\nab", ret_fd);
        conn = list_entry(rig->server->conns.next, struct http_conn, link);
        assert_int_equal(conn->deadline, DEADLINE_BODY);
        conn->deadline_usec = 0;
        event_active(rig->server->timer, EV_TIMEOUT, 0);
}

/* Who has answered at the last moment has answered: there is no 408 behind it. */
static void test_answered_late(void **state) {
        struct rig *rig = *state;
        struct http_figures figures;
        const char *answer;
        int fd;

        rig_start(rig);
        ask_late(rig, &fd);
        http_reply(TAKE_PTR(sunk.exchange), 409, "text/plain", "no", 2);
        answer = rig_read(rig, fd, NULL);
        assert_non_null(strstr(answer, "HTTP/1.1 409 "));
        assert_null(strstr(answer, "HTTP/1.1 408 "));
        http_server_figures(rig->server, &figures);
        assert_int_equal(figures.n_refused, 0);
        assert_int_equal(sunk.n_closed, 0);
        close(fd);
}

/* Nor is there one for a body that is held at the last moment. */
static void test_held_late(void **state) {
        struct rig *rig = *state;
        int fd;

        rig_start(rig);
        ask_late(rig, &fd);
        http_hold_body(sunk.exchange, true);
        assert_string_equal(rig_read(rig, fd, NULL), "");
        assert_int_equal(sunk.n_closed, 0);
        http_hold_body(sunk.exchange, false);
        rig_send(rig, fd, "cdefgh");
        assert_non_null(strstr(rig_read(rig, fd, NULL), "HTTP/1.1 200 "));
        check_got("abcdefgh");
        close(fd);
}

static void test_gone(void **state) {
        struct rig *rig = *state;
        int fd;

        rig_start(rig);
        for (int i = 0; i < 2; i++) {
                sunk.holds = i == 1;
                rig_ask(rig, "POST /sink HTTP/1.1\r\n" H "Content-Length: 8\r\n\r\nab", &fd);
                assert_int_equal(sunk.n_closed, i);
                close(fd);
                rig_settle(rig);
                assert_int_equal(sunk.n_closed, i + 1);
        }
}

/* Its own bound counts, in place of that of other bodies. */
static void test_too_large(void **state) {
        struct rig *rig = *state;
        char text[400];

        rig->limits.body_size = 10;
        rig_start(rig);
        snprintf(text, sizeof(text), "POST /sink HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n%0*d",
                LONGEST, LONGEST, 0);
        assert_non_null(strstr(rig_ask(rig, text, NULL), "HTTP/1.1 200 "));
        assert_int_equal(sunk.size, LONGEST);
        assert_int_equal(sunk.n_closed, 0);
        snprintf(text, sizeof(text), "POST /sink HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n%0*d",
                LONGEST + 1, LONGEST, 0);
        sunk.size = 0;
        assert_non_null(strstr(rig_ask(rig, text, NULL), "HTTP/1.1 413 "));
        assert_int_equal(sunk.size, 0);
        assert_int_equal(sunk.n_closed, 1);
        rig->n_handled = 0;
        snprintf(text, sizeof(text),
                "POST /sink HTTP/1.1\r\n" H
                "Transfer-Encoding: chunked\r\n\r\n64\r\n%0*d\r\n1\r\nx",
                LONGEST, 0);
        assert_non_null(strstr(rig_ask(rig, text, NULL), "HTTP/1.1 413 "));
        assert_int_equal(sunk.size, LONGEST);
        assert_int_equal(sunk.n_closed, 2);
        assert_int_equal(rig->n_handled, 0);
}

/* An answer ends the body, whatever of it comes. */
static void test_answer(void **state) {
        static const char *const requests[] = {"POST /sink HTTP/1.1\r\n" H
                                               "Content-Length: 50\r\n\r\nabc",
                "POST /sink HTTP/1.1\r\n" H
                "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
                "POST /sink HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"};
        struct rig *rig = *state;

        rig_start(rig);
        sunk.answers = true;
        for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
                const char *answer;
                bool end;
                int fd = rig_connect(rig);

                sunk.size = sunk.n_pieces = 0;
                rig_send(rig, fd, requests[i]);
                rig_settle(rig);
                rig_send(rig, fd, "more");
                answer = rig_read(rig, fd, &end);
                assert_non_null(strstr(answer, "HTTP/1.1 409 "));
                assert_non_null(strstr(answer, "Connection: close\r\n"));
                assert_true(end);
                check_got("abc");
                close(fd);
        }
        assert_int_equal(rig->n_handled, 0);
        assert_int_equal(sunk.n_closed, 0);
}

static void on_stop(void *userdata) {
        sunk.n_stopped++;
        http_write(sunk.exchange, "bye", 3);
        http_end(sunk.exchange);
}

static void on_stopped(void *userdata) {
        *(bool *)userdata = true;
}

/* An answer without end is asked to end; others are waited for. */
static void test_stop(void **state) {
        struct rig *rig = *state;
        struct http_exchange *other;
        bool stopped = false;
        int endless, waiting;

        rig_start(rig);
        rig->holds = true;
        rig_ask(rig, "GET /a HTTP/1.1\r\n" H "\r\n", &endless);
        sunk.exchange = rig->pending[--rig->n_pending];
        http_set_stop(sunk.exchange, on_stop);
        http_begin(sunk.exchange, 200, "text/event-stream");
        rig_ask(rig, "GET /b HTTP/1.1\r\n" H "\r\n", &waiting);
        other = rig->pending[--rig->n_pending];
        http_server_stop(rig->server, on_stopped, &stopped);
        rig_settle(rig);
        assert_int_equal(sunk.n_stopped, 1);
        assert_non_null(strstr(rig_read(rig, endless, NULL), "3\r\nbye\r\n0\r\n\r\n"));
        assert_false(stopped);
        http_reply(other, 200, NULL, "", 0);
        close(endless);
        close(waiting);
        rig_settle(rig);
        assert_true(stopped);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_pieces),
                TEST(test_hold),
                TEST(test_idle),
                TEST(test_expect),
                TEST(test_time),
                TEST(test_answered_late),
                TEST(test_held_late),
                TEST(test_gone),
                TEST(test_too_large),
                TEST(test_answer),
                TEST(test_stop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
