/* SPDX-License-Identifier: MIT */
/* Answers that come later or in pieces, peers that go or read slowly, and times that are over. */
#include "http-rig.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define H "Host: h\r\n"
#define GET "GET / HTTP/1.1\r\n" H "\r\n"

/* A connection with a request that waits for its answer. */
static int hold(struct rig *rig, const char *text) {
        int fd;

        rig_start(rig);
        rig->holds = true;
        rig_ask(rig, text, &fd);
        assert_int_equal(rig->n_pending, 1);
        return fd;
}

/* The pending exchange, which the caller ends. */
static struct http_exchange *take(struct rig *rig) {
        assert_int_equal(rig->n_pending, 1);
        return rig->pending[--rig->n_pending];
}

static void test_chunks(void **state) {
        struct rig *rig = *state;
        int fd = hold(rig, GET);
        struct http_exchange *exchange = take(rig);
        struct iovec pieces[] = {{NULL, 0}, {(char[]){'a', 'b'}, 2}, {(char[]){'c'}, 1}};
        const char *answer;
        bool end;

        assert_int_equal(http_add_header(exchange, "X-A", "b"), 0);
        assert_int_equal(http_add_header(exchange, "X-A", "b\r\nX-C: d"), -ERR_INVALID);
        assert_int_equal(http_add_header(exchange, "X-A\n", "b"), -ERR_INVALID);
        http_begin(exchange, 200, "text/event-stream");
        answer = rig_read(rig, fd, NULL);
        assert_non_null(strstr(answer, "\r\nTransfer-Encoding: chunked\r\n"));
        assert_non_null(strstr(answer, "\r\nX-A: b\r\n"));
        assert_null(strstr(answer, "X-C"));
        http_write(exchange, "0123456789abcdefg", 17);
        http_write(exchange, "", 0);
        http_writev(exchange, pieces, 3);
        assert_string_equal(rig_read(rig, fd, NULL), "11\r\n0123456789abcdefg\r\n3\r\nabc\r\n");
        http_end(exchange);
        assert_string_equal(rig_read(rig, fd, &end), "0\r\n\r\n");
        assert_false(end);
        /* and the connection goes on */
        rig->holds = false;
        rig_send(rig, fd, GET);
        assert_non_null(strstr(rig_read(rig, fd, NULL), "GET / "));
        close(fd);
}

/* Everything written in one callback leaves in one piece. */
static void test_one_piece(void **state) {
        struct rig *rig = *state;
        int fd = hold(rig, GET);
        struct http_exchange *exchange = take(rig);
        char bytes[4096];

        http_begin(exchange, 200, "x/y");
        http_write(exchange, "a", 1);
        http_write(exchange, "b", 1);
        assert_int_equal(recv(fd, bytes, sizeof(bytes), 0), -1); /* not yet */
        http_end(exchange);
        rig_settle(rig);
        assert_true(recv(fd, bytes, sizeof(bytes), 0) > 100);
        assert_int_equal(recv(fd, bytes, sizeof(bytes), 0), -1);
        close(fd);
}

static void test_until_the_end(void **state) {
        struct rig *rig = *state;
        int fd = hold(rig, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        struct http_exchange *exchange = take(rig);
        const char *answer;
        bool end;

        http_begin(exchange, 200, "x/y");
        http_write(exchange, "abc", 3);
        http_end(exchange);
        answer = rig_read(rig, fd, &end);
        assert_true(end);
        assert_null(strstr(answer, "chunked"));
        assert_non_null(strstr(answer, "Connection: close\r\n\r\nabc"));
        close(fd);
}

static void test_head(void **state) {
        struct rig *rig = *state;
        int fd = hold(rig, "HEAD / HTTP/1.1\r\n" H "\r\n");
        struct http_exchange *exchange = take(rig);
        const char *answer;

        http_begin(exchange, 200, "x/y");
        http_write(exchange, "abc", 3);
        http_end(exchange);
        answer = rig_read(rig, fd, NULL);
        assert_string_equal(answer + strlen(answer) - 4, "\r\n\r\n");
        assert_null(strstr(answer, "abc"));
        close(fd);
}

static void test_no_content(void **state) {
        struct rig *rig = *state;
        int fd = hold(rig, GET);

        http_reply(take(rig), 204, NULL, NULL, 0);
        assert_null(strstr(rig_read(rig, fd, NULL), "Content-"));
        close(fd);
}

/* An answer that can't be completed does not look complete. */
static void test_abort(void **state) {
        struct rig *rig = *state;
        int fd = hold(rig, GET);
        struct http_exchange *exchange = take(rig);
        const char *answer;
        bool end;

        http_begin(exchange, 200, "x/y");
        http_write(exchange, "abc", 3);
        rig_settle(rig);
        http_abort(exchange);
        answer = rig_read(rig, fd, &end);
        assert_true(end);
        assert_string_equal(answer + strlen(answer) - 8, "3\r\nabc\r\n");
        assert_int_equal(rig->n_closed, 0);
        close(fd);
        fd = rig_connect(rig);
        rig_send(rig, fd, GET);
        rig_settle(rig);
        http_abort(take(rig));
        assert_string_equal(rig_read(rig, fd, &end), "");
        assert_true(end);
        close(fd);
}

/* A peer that goes is noticed while its answer is pending, also behind bytes that nobody reads. */
static void test_peer_goes(void **state) {
        static const char *const texts[] = {GET, GET GET, GET "GET /half"};
        struct rig *rig = *state;
        unsigned n = 0;

        rig_start(rig);
        rig->holds = true;
        for (size_t i = 0; i < 3; i++)
                for (int half = 0; half < 2; half++) {
                        int fd;

                        rig_ask(rig, texts[i], &fd);
                        assert_int_equal(rig->n_pending, 1);
                        http_begin(rig->pending[0], 200, "x/y");
                        rig_send(rig, fd, "more that nobody reads");
                        rig_settle(rig);
                        assert_int_equal(rig->n_closed, n);
                        if (half)
                                shutdown(fd, SHUT_WR);
                        else
                                close(fd);
                        rig_settle(rig);
                        assert_int_equal(rig->n_closed, ++n);
                        assert_int_equal(rig->n_pending, 0);
                        if (half)
                                close(fd);
                }
        /* gone before the handler has been asked */
        {
                int fd = rig_connect(rig);

                rig_send(rig, fd, GET);
                shutdown(fd, SHUT_WR);
                rig_settle(rig);
                assert_int_equal(rig->n_closed, n + 1);
                close(fd);
        }
        /* and with an answer at once: it is still given */
        {
                int fd = rig_connect(rig);

                rig->holds = false;
                rig_send(rig, fd, GET);
                shutdown(fd, SHUT_WR);
                assert_non_null(strstr(rig_read_to_end(rig, fd), "200 OK"));
                close(fd);
        }
}

/* drained() is called once all has left, however little it was, if the owner asks for it. */
static void test_tell_drained(void **state) {
        static const char much[250000];
        struct rig *rig = *state;
        struct http_exchange *exchange;
        int fd = hold(rig, GET);

        exchange = rig->pending[0];
        http_begin(exchange, 200, "x/y");
        http_write(exchange, "abc", 3);
        rig_settle(rig);
        assert_int_equal(rig->n_drained, 0);
        http_tell_drained(exchange);
        rig_settle(rig);
        assert_int_equal(rig->n_drained, 1);
        http_write(exchange, "def", 3);
        http_tell_drained(exchange);
        assert_int_equal(rig->n_drained, 1);
        rig_settle(rig);
        assert_int_equal(rig->n_drained, 2);
        rig_settle(rig);
        assert_int_equal(rig->n_drained, 2);
        /* more than the kernel takes: not before the reader has read */
        http_write(exchange, much, sizeof(much));
        assert_false(http_is_slow(exchange));
        http_tell_drained(exchange);
        rig_settle(rig);
        assert_true(http_queued(exchange) > 0);
        assert_int_equal(rig->n_drained, 2);
        rig_read(rig, fd, NULL);
        assert_int_equal(http_queued(exchange), 0);
        assert_int_equal(rig->n_drained, 3);
        http_end(take(rig));
        close(fd);
}

/* A reader that is slow is noticed, loses nothing, and drained() is called once it has read. */
static void test_slow_reader(void **state) {
        struct rig *rig = *state;
        struct http_exchange *exchange;
        size_t size = 4 << 20, n_read = 0;
        char *data = calloc(1, size);
        unsigned n_pieces = 0;
        int fd;

        rig->limits.output_high = 100000;
        rig->limits.output_low = 10000;
        fd = hold(rig, GET);
        exchange = rig->pending[0];
        http_begin(exchange, 200, "x/y");
        while (!http_is_slow(exchange)) {
                http_write(exchange, data, 10000);
                rig_settle(rig);
                n_pieces++;
        }
        assert_true(http_queued(exchange) > 100000);
        assert_int_equal(rig->n_drained, 0);
        rig_read(rig, fd, NULL);
        n_read += rig->out.size;
        assert_int_equal(rig->n_drained, 1);
        assert_int_equal(http_queued(exchange), 0);
        /* much at once, which is slow until the loop has written it */
        http_write(exchange, data, size);
        assert_true(http_is_slow(exchange));
        rig_read(rig, fd, NULL);
        n_read += rig->out.size;
        assert_int_equal(rig->n_drained, 2);
        assert_true(n_read > size + n_pieces * 10000ull);
        http_end(take(rig));
        rig_settle(rig);
        free(data);
        close(fd);
}

/* What was queued when the answer ended is still written to a slow reader. */
static void test_end_behind_queue(void **state) {
        struct rig *rig = *state;
        int fd = hold(rig, GET);
        struct http_exchange *exchange = take(rig);
        size_t size = 3 << 20;
        char *data = calloc(1, size);

        http_reply(exchange, 200, "x/y", data, size);
        rig_settle(rig);
        rig_read(rig, fd, NULL);
        assert_true(rig->out.size > size);
        free(data);
        close(fd);
}

/* ---- times ---- */

static void test_late_head(void **state) {
        struct rig *rig = *state;
        int fd;

        rig->limits.header_usec = 1000;
        rig_start(rig);
        fd = rig_connect(rig);
        rig_send(rig, fd, "GET / HTTP/1.1\r\n");
        assert_non_null(strstr(rig_read_to_end(rig, fd), "HTTP/1.1 408 "));
        close(fd);
}

/* The time of a head does not begin anew with each byte. */
static void test_dripping_head(void **state) {
        struct rig *rig = *state;
        int fd, n = 0;
        bool end = false;

        rig->limits.header_usec = 20000;
        rig_start(rig);
        fd = rig_connect(rig);
        rig_send(rig, fd, "GET / HTTP/1.1\r\nX: ");
        for (; !end; n++) {
                rig_send(rig, fd, "x");
                event_base_loop(rig->base, EVLOOP_NONBLOCK);
                rig_read(rig, fd, &end);
        }
        close(fd);
}

static void test_late_body(void **state) {
        struct rig *rig = *state;
        int fd;

        rig->limits.body_usec = 1000;
        rig_start(rig);
        fd = rig_connect(rig);
        rig_send(rig, fd, "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n123");
        assert_non_null(strstr(rig_read_to_end(rig, fd), "HTTP/1.1 408 "));
        close(fd);
}

static void test_idle(void **state) {
        struct rig *rig = *state;
        int fd, other;

        rig->limits.idle_usec = 1000;
        rig_start(rig);
        rig->holds = true;
        other = rig_connect(rig);
        rig_send(rig, other, GET);
        rig_settle(rig);
        fd = rig_connect(rig);
        assert_string_equal(rig_read_to_end(rig, fd), "");
        close(fd);
        /* an answer takes its time */
        assert_int_equal(rig->n_pending, 1);
        http_reply(take(rig), 200, NULL, "x", 1);
        assert_non_null(strstr(rig_read_to_end(rig, other), "200 OK"));
        close(other);
}

static void test_who_does_not_read(void **state) {
        struct rig *rig = *state;
        size_t size = 4 << 20;
        char *data = calloc(1, size);
        int fd;

        rig->limits.write_usec = 1000;
        fd = hold(rig, GET);
        http_begin(rig->pending[0], 200, "x/y");
        http_write(rig->pending[0], data, size);
        while (rig->n_closed == 0)
                event_base_loop(rig->base, EVLOOP_ONCE);
        free(data);
        close(fd);
}

/* ---- connections ---- */

static void test_too_many(void **state) {
        struct rig *rig = *state;
        const char *answer;
        int fds[4];

        rig->limits.n_connections = 3;
        rig_start(rig);
        for (int i = 0; i < 3; i++)
                assert_non_null(strstr(rig_ask(rig, GET, &fds[i]), "200 OK"));
        answer = rig_ask(rig, GET, &fds[3]);
        assert_non_null(strstr(answer, "HTTP/1.1 503 "));
        assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
        close(fds[3]);
        close(fds[0]);
        rig_settle(rig);
        assert_non_null(strstr(rig_ask(rig, GET, &fds[0]), "200 OK"));
        for (int i = 0; i < 3; i++)
                close(fds[i]);
}

static void on_stopped(void *userdata) {
        struct rig *rig = userdata;

        rig->n_stopped++;
}

/* A stop waits for answers, closes idle connections, and takes no new ones. */
static void test_stop(void **state) {
        struct rig *rig = *state;
        int fd = hold(rig, GET), idle;
        const char *answer;
        bool end;

        rig->holds = false;
        rig_ask(rig, GET, &idle);
        http_server_stop(rig->server, on_stopped, rig);
        rig_settle(rig);
        rig_read(rig, idle, &end);
        assert_true(end);
        assert_int_equal(rig->n_stopped, 0);
        http_reply(take(rig), 200, "x/y", "bye", 3);
        answer = rig_read(rig, fd, &end);
        assert_true(end);
        assert_non_null(strstr(answer, "Connection: close\r\n\r\nbye"));
        close(fd);
        close(idle);
        rig_settle(rig);
        assert_int_equal(rig->n_stopped, 1);
}

static void test_stop_without_connections(void **state) {
        struct rig *rig = *state;

        rig_start(rig);
        http_server_stop(rig->server, on_stopped, rig);
        assert_int_equal(rig->n_stopped, 1);
}

/* All that is pending is told that it ended. */
static void test_freed(void **state) {
        struct rig *rig = *state;
        int fd = hold(rig, GET), other = rig_connect(rig);

        rig_send(rig, other, GET);
        rig_settle(rig);
        assert_int_equal(rig->n_pending, 2);
        rig->server = http_server_free(rig->server);
        assert_int_equal(rig->n_closed, 2);
        close(fd);
        close(other);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_chunks),
                TEST(test_one_piece),
                TEST(test_until_the_end),
                TEST(test_head),
                TEST(test_no_content),
                TEST(test_abort),
                TEST(test_peer_goes),
                TEST(test_tell_drained),
                TEST(test_slow_reader),
                TEST(test_end_behind_queue),
                TEST(test_late_head),
                TEST(test_dripping_head),
                TEST(test_late_body),
                TEST(test_idle),
                TEST(test_who_does_not_read),
                TEST(test_too_many),
                TEST(test_stop),
                TEST(test_stop_without_connections),
                TEST(test_freed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
