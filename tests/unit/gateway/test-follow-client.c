/* SPDX-License-Identifier: MIT */
/* Another gateway's addresses, heads and answers: whatever comes, it is whole or an error. TLS is in tests/gateway/follow.py. */
#include "base/util.h"
#include "client/gateway/follow-client.h"
#include "util/test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUIET 20
#define OK "HTTP/1.1 200 OK\r\n"

/* ---- addresses ---- */

static void test_addresses(void **state) {
        static const struct {
                const char *text, *host;
                unsigned port;
                bool tls, is_number;
        } good[] = {{"https://b.example", "b.example", 443, true, false},
                {"https://b.example/", "b.example", 443, true, false},
                {"https://b-2.example:8443", "b-2.example", 8443, true, false},
                {"https://192.0.2.7:1", "192.0.2.7", 1, true, true},
                {"https://[2001:db8::1]:65535/", "2001:db8::1", 65535, true, true},
                {"http://127.0.0.1:8080", "127.0.0.1", 8080, false, true},
                {"http://[::1]:8080", "::1", 8080, false, true}};
        static const char *const bad[] = {"", "b.example", "unix:/run/x", "ftp://b.example",
                "https://", "https:///", "https://b.example:", "https://b.example:0",
                "https://b.example:65536", "https://b.example:1x", "https://b.example/path",
                "https://b.example//", "https://a@b.example", "https://b.example?x",
                "https://b.example#x", "https://b example", "https://b.example\r\nX: y",
                "https://[b.example]", "https://[::1", "https://[::1]x", "https://-b", "https://.b",
                "https://\xc3\xa4.example", "http://b.example", "http://192.0.2.7",
                "http://localhost:80", "http://[::2]", "http://128.0.0.1",
                "https://b.example:000443"};
        struct follow_address address;
        struct err e;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                assert_int_equal(follow_address_parse(&address, good[i].text, &e), 0);
                assert_string_equal(address.host, good[i].host);
                assert_int_equal(address.port, good[i].port);
                assert_int_equal(address.tls, good[i].tls);
                assert_int_equal(address.is_number, good[i].is_number);
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (follow_address_parse(&address, bad[i], &e) != -ERR_INVALID)
                        fail_msg("taken: %s", bad[i]);
}

static void test_long_addresses(void **state) {
        char text[400] = "https://";
        struct follow_address address;
        struct err e;

        memset(text + 8, 'a', 253);
        assert_int_equal(follow_address_parse(&address, text, &e), 0);
        assert_int_equal(strlen(address.authority), 253);
        memset(text + 8, 'a', 254);
        assert_int_equal(follow_address_parse(&address, text, &e), -ERR_INVALID);
        memset(text + 8, 'a', 390);
        assert_int_equal(follow_address_parse(&address, text, &e), -ERR_INVALID);
}

/* ---- heads ---- */

static void test_heads(void **state) {
        static const struct {
                const char *text;
                unsigned status;
                enum follow_framing framing, of_head;
                uint64_t length;
        } good[] = {{OK "\r\n", 200, FOLLOW_TO_END, FOLLOW_NO_BODY, 0},
                {"HTTP/1.0 200\r\n\r\n", 200, FOLLOW_TO_END, FOLLOW_NO_BODY, 0},
                {OK "Content-Length: 0\r\n\r\n", 200, FOLLOW_SIZED, FOLLOW_NO_BODY, 0},
                {OK "content-LENGTH:17 \r\n\r\n", 200, FOLLOW_SIZED, FOLLOW_NO_BODY, 17},
                {OK "Transfer-Encoding: chunked\r\n\r\n", 200, FOLLOW_CHUNKED, FOLLOW_NO_BODY, 0},
                {"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n", 204, FOLLOW_NO_BODY, FOLLOW_NO_BODY,
                        5},
                {"HTTP/1.1 304 \r\n\r\n", 304, FOLLOW_NO_BODY, FOLLOW_NO_BODY, 0},
                {"HTTP/1.1 100 Continue\r\n\r\n", 100, FOLLOW_NO_BODY, FOLLOW_NO_BODY, 0}};
        static const char *const bad[] = {"\r\n", "\r\n" OK "\r\n", "HTTP/2 200 OK\r\n\r\n",
                "HTTP/1.2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
                "HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 600 OK\r\n\r\n",
                "SSH-2.0-x\r\n\r\n", "200\r\n\r\n", OK "x\r\n\r\n", OK "x : y\r\n\r\n",
                OK ": y\r\n\r\n", OK "a: b\r\n c: d\r\n\r\n",
                OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
                OK "Content-Length: 5, 5\r\n\r\n", OK "Content-Length: -1\r\n\r\n",
                OK "Content-Length: \r\n\r\n", OK "Content-Length: 1234567890123456789\r\n\r\n",
                OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                OK "Transfer-Encoding: gzip, chunked\r\n\r\n",
                OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"};
        struct err e;

        for (size_t i = 0; i < 2 * ARRAY_SIZE(good); i++) {
                struct follow_head head = FOLLOW_HEAD_NULL;
                const char *text = good[i / 2].text;

                assert_int_equal(follow_head_parse(&head, text, strlen(text), i % 2, &e), 0);
                assert_int_equal(head.status, good[i / 2].status);
                assert_int_equal(head.framing, i % 2 ? good[i / 2].of_head : good[i / 2].framing);
                assert_int_equal(head.length, good[i / 2].length);
                follow_head_deinit(&head);
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct follow_head head = FOLLOW_HEAD_NULL;

                if (follow_head_parse(&head, bad[i], strlen(bad[i]), false, &e) != -ERR_FORMAT)
                        fail_msg("taken: %s", bad[i]);
                follow_head_deinit(&head);
        }
}

/* ---- answers ---- */

struct stage {
        struct event_base *base;
        struct follow_net *net;
        struct follow_client *client;
        struct follow_times times;
        int listener, fd; /* the other gateway's */
        unsigned port;
        struct buf request; /* as it came */
        struct buf answer;
        unsigned status, n_heads, n_ended;
        int r;
        bool asked, is_head, holds, frees_at_head, frees_at_piece;
        struct err e;
};

static int setup(void **state) {
        struct stage *s = calloc(1, sizeof(*s));
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t n = sizeof(a);

        assert_non_null(s);
        s->base = event_base_new();
        s->times = FOLLOW_TIMES_DEFAULT;
        s->fd = -1;
        s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(listen(s->listener, 4), 0);
        assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &n), 0);
        s->port = ntohs(a.sin_port);
        assert_int_equal(follow_net_new(&s->net, s->base, NULL, &s->e), 0);
        *state = s;
        return 0;
}

static int teardown(void **state) {
        struct stage *s = *state;

        follow_client_free(s->client);
        follow_net_free(s->net);
        if (s->fd >= 0)
                close(s->fd);
        close(s->listener);
        event_base_free(s->base);
        buf_deinit(&s->request);
        buf_deinit(&s->answer);
        free(s);
        return 0;
}

static void on_head(void *userdata, const struct follow_head *head) {
        struct stage *s = userdata;

        s->status = head->status;
        s->n_heads++;
        if (s->holds)
                follow_client_hold(s->client, true);
        if (s->frees_at_head)
                s->client = follow_client_free(s->client);
}

static void on_piece(void *userdata, const void *data, size_t size) {
        struct stage *s = userdata;

        assert_true(s->n_heads == 1 && s->n_ended == 0 && size > 0);
        assert_int_equal(buf_append(&s->answer, data, size), 0);
        if (s->frees_at_piece)
                s->client = follow_client_free(s->client);
}

static void on_ended(void *userdata, int r, bool asked, const struct err *e) {
        struct stage *s = userdata;

        assert_non_null(s->client);
        s->n_ended++;
        s->r = r;
        s->asked = asked;
        if (e)
                s->e = *e;
        s->client = follow_client_free(s->client);
}

static void settle(struct stage *s) {
        for (unsigned i = 0; i < QUIET; i++)
                event_base_loop(s->base, EVLOOP_NONBLOCK);
}

/* Run the loop, also over timers, until the request has ended. */
static void await_end(struct stage *s) {
        while (s->n_ended == 0)
                assert_int_equal(event_base_loop(s->base, EVLOOP_ONCE), 0);
}

static void begin(struct stage *s, const char *body, size_t body_size) {
        static const struct follow_client_ops ops = {on_head, on_piece, on_ended};
        struct follow_request request = {
                .body = body, .body_size = body_size, .is_head = s->is_head, .times = s->times};
        struct buf head = BUF_NULL;
        char text[64];

        snprintf(text, sizeof(text), "http://127.0.0.1:%u", s->port);
        assert_int_equal(follow_address_parse(&request.address, text, &s->e), 0);
        assert_int_equal(buf_append_str(&head, "POST /x HTTP/1.1\r\n\r\n"), 0);
        request.head = &head;
        assert_int_equal(follow_client_new(&s->client, s->net, &request, &ops, s, &s->e), 0);
        buf_deinit(&head);
}

/* The other gateway takes the connection, and @size bytes of the request behind the head. */
static void take(struct stage *s, size_t size) {
        size += strlen("POST /x HTTP/1.1\r\n\r\n");
        s->fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        assert_true(s->fd >= 0);
        while (s->request.size < size) {
                char data[65536];
                ssize_t n;

                event_base_loop(s->base, EVLOOP_NONBLOCK);
                n = recv(s->fd, data, MIN(sizeof(data), size - s->request.size), 0);
                assert_true(n > 0 || (n < 0 && errno == EAGAIN));
                if (n > 0)
                        assert_int_equal(buf_append(&s->request, data, (size_t)n), 0);
        }
}

static void say(struct stage *s, const char *text, size_t size) {
        for (size_t at = 0; at < size;) {
                ssize_t n = send(s->fd, text + at, size - at, MSG_NOSIGNAL);

                if (n < 0 && errno != EAGAIN)
                        return; /* it was not wanted any more */
                at += n > 0 ? (size_t)n : 0;
                settle(s);
        }
}

static void hang_up(struct stage *s) {
        close(s->fd);
        s->fd = -1;
}

static void forget(struct stage *s) {
        s->client = follow_client_free(s->client);
        if (s->fd >= 0)
                hang_up(s);
        settle(s);
        buf_deinit(&s->request);
        buf_deinit(&s->answer);
        s->status = s->n_heads = s->n_ended = 0;
        s->r = 1;
        s->asked = false;
}

/* @text as the answer, @step bytes at a time, then the end of the connection. */
static void ask(struct stage *s, const char *text, size_t size, size_t step) {
        begin(s, "hello", 5);
        take(s, 5);
        for (size_t at = 0; at < size; at += step)
                say(s, text + at, MIN(step, size - at));
        hang_up(s);
        await_end(s);
        assert_int_equal(s->n_ended, 1);
}

static void test_answers(void **state) {
        static const struct {
                const char *text, *body; /* NULL: cut off, or no HTTP */
        } cases[] = {{OK "Content-Length: 5\r\n\r\nhello", "hello"},
                {OK "Content-Length: 5\r\n\r\nhello, and more", "hello"},
                {OK "Content-Length: 0\r\n\r\n", ""}, {OK "Content-Length: 6\r\n\r\nhello", NULL},
                {OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX: "
                    "y\r\n\r\n",
                        "hello"},
                {OK "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 500 no\r\n\r\n", ""},
                {OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n", NULL},
                {OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhello", NULL},
                {OK "Transfer-Encoding: chunked\r\n\r\n-2\r\nhe\r\n", NULL},
                {OK "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhe\r\n", NULL},
                {OK "Transfer-Encoding: chunked\r\n\r\nhello", NULL}, {OK "\r\nhello", "hello"},
                {OK "\r\n", ""},
                {"HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\nhe", "he"},
                {"HTTP/1.1 103 x\r\nA: b\r\n\r\nHTTP/1.1 103 x\r\n\r\n" OK "\r\n", ""},
                {"HTTP/1.1 101 Switching\r\n\r\nhello", NULL}, {"HTTP/1.1 204 x\r\n\r\nhello", ""},
                {"", NULL}, {OK, NULL},
                {OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", NULL},
                {OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello", NULL},
                {"HTTP/1.1 200 OK\n\nhello", NULL}, {"SSH-2.0-OpenSSH\r\n\r\n", NULL},
                {"\x15\x03\x01\x00\x02\x02\x28", NULL}};
        struct stage *s = *state;

        for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
                const char *text = cases[i / 2].text, *body = cases[i / 2].body;

                ask(s, text, strlen(text), i % 2 ? 1 : 1000);
                if ((s->r == 0) != (body != NULL))
                        fail_msg("%d of %s: %s", s->r, text, s->e.msg);
                if (body) {
                        assert_int_equal(s->answer.size, strlen(body));
                        assert_memory_equal(
                                s->answer.size ? (char *)s->answer.data : "", body, s->answer.size);
                        assert_int_equal(s->n_heads, 1);
                }
                assert_true(s->asked);
                assert_string_equal((char *)s->request.data, "POST /x HTTP/1.1\r\n\r\nhello");
                forget(s);
        }
}

/* An answer to a HEAD has no body, whatever it says. */
static void test_head(void **state) {
        struct stage *s = *state;

        s->is_head = true;
        ask(s, OK "Content-Length: 5\r\n\r\nhello", strlen(OK "Content-Length: 5\r\n\r\nhello"), 1);
        assert_int_equal(s->r, 0);
        assert_int_equal(s->answer.size, 0);
        forget(s);
}

static void test_endless_heads(void **state) {
        static const char *const pieces[] = {"x", "X: y\r\n", "HTTP/1.1 100 Continue\r\n\r\n"};
        struct stage *s = *state;

        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
                begin(s, NULL, 0);
                settle(s);
                take(s, 0);
                if (i == 1)
                        say(s, OK, strlen(OK));
                for (unsigned j = 0; j < 200000 && s->n_ended == 0; j++) {
                        char many[26 * 64];
                        size_t n = strlen(pieces[i]);

                        for (size_t k = 0; k < 64; k++)
                                memcpy(many + k * n, pieces[i], n);
                        say(s, many, 64 * n);
                }
                assert_int_equal(s->n_ended, 1);
                assert_int_equal(s->r, -ERR_FORMAT);
                assert_int_equal(s->n_heads, 0);
                forget(s);
        }
}

/* A body of some MiB goes at the pace of the one who takes it. */
static void test_long_request(void **state) {
        size_t size = 5u << 20;
        struct stage *s = *state;
        char *body = malloc(size);

        assert_non_null(body);
        for (size_t i = 0; i < size; i++)
                body[i] = (char)('a' + i % 23);
        begin(s, body, size);
        settle(s);
        take(s, size);
        assert_memory_equal(s->request.data + s->request.size - size, body, size);
        say(s, OK "Content-Length: 2\r\n\r\nok", strlen(OK "Content-Length: 2\r\n\r\nok"));
        await_end(s);
        assert_int_equal(s->r, 0);
        forget(s);
        /* answered, and not read to the end: the answer counts, and the body may go */
        begin(s, body, size);
        settle(s);
        take(s, 1000);
        say(s, "HTTP/1.1 413 x\r\nContent-Length: 4\r\n\r\nlo", 39);
        assert_int_equal(s->n_heads, 1);
        assert_int_equal(s->status, 413);
        memset(body, 0, size);
        free(body);
        say(s, "ng", 2);
        await_end(s);
        assert_int_equal(s->r, 0);
        assert_string_equal((char *)s->answer.data, "long");
        forget(s);
}

static void test_not_asked(void **state) {
        size_t size = 64u << 20;
        struct stage *s = *state;
        char *body = calloc(1, size);

        assert_non_null(body);
        begin(s, body, size);
        settle(s);
        take(s, 1000);
        hang_up(s);
        await_end(s);
        assert_int_equal(s->r, -ERR_UNAVAILABLE);
        assert_false(s->asked);
        free(body);
        forget(s);
        /* nobody listens */
        close(s->listener);
        begin(s, NULL, 0);
        await_end(s);
        assert_int_equal(s->r, -ERR_UNAVAILABLE);
        assert_false(s->asked);
        assert_non_null(strstr(s->e.msg, "refused"));
        s->listener = dup(0);
}

/* Nothing is read while it is held: what is sent meanwhile waits in the kernel. */
static void test_hold(void **state) {
        struct stage *s = *state;
        char block[4096] = {};
        size_t sent = 0, before;

        s->holds = true;
        begin(s, NULL, 0);
        settle(s);
        take(s, 0);
        say(s, OK "\r\n", strlen(OK "\r\n"));
        assert_int_equal(s->n_heads, 1);
        for (unsigned quiet = 0; quiet < 5;) {
                ssize_t n = send(s->fd, block, sizeof(block), MSG_NOSIGNAL);

                quiet = n > 0 ? 0 : quiet + 1;
                sent += n > 0 ? (size_t)n : 0;
                settle(s);
        }
        before = s->answer.size;
        assert_true(before <= 80 << 10 && sent > before);
        hang_up(s);
        settle(s);
        assert_int_equal(s->answer.size, before);
        assert_int_equal(s->n_ended, 0);
        follow_client_hold(s->client, false);
        assert_int_equal(s->answer.size, before); /* not from within the call */
        await_end(s);
        assert_int_equal(s->r, 0);
        assert_int_equal(s->answer.size, sent);
}

static void test_freed_in_callbacks(void **state) {
        struct stage *s = *state;

        for (unsigned i = 0; i < 2; i++) {
                s->frees_at_head = i == 0;
                s->frees_at_piece = i == 1;
                begin(s, "hello", 5);
                settle(s);
                take(s, 5);
                say(s, OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n2\r\nhe\r\n",
                        strlen(OK "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n2\r\nhe\r\n"));
                settle(s);
                assert_null(s->client);
                assert_int_equal(s->n_ended, 0);
                assert_int_equal(s->answer.size, i == 0 ? 0 : 2);
                forget(s);
        }
        s->frees_at_piece = false;
        /* and while it connects, or sends */
        begin(s, "hello", 5);
        forget(s);
        begin(s, "hello", 5);
        settle(s);
        forget(s);
}

static void test_times(void **state) {
        struct stage *s = *state;
        size_t size = 64u << 20;
        char *body = calloc(1, size);

        assert_non_null(body);
        s->times = (struct follow_times){
                .connect_usec = 10000000, .head_usec = 20000, .send_usec = 20000};
        begin(s, NULL, 0);
        settle(s);
        take(s, 0);
        say(s, "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 2", 28);
        await_end(s);
        assert_int_equal(s->r, -ERR_UNAVAILABLE);
        assert_non_null(strstr(s->e.msg, "in time"));
        forget(s);
        begin(s, body, size); /* nobody reads */
        settle(s);
        take(s, 0);
        await_end(s);
        assert_int_equal(s->r, -ERR_UNAVAILABLE);
        assert_non_null(strstr(s->e.msg, "nobody takes"));
        assert_false(s->asked);
        forget(s);
        free(body);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_addresses),
                cmocka_unit_test(test_long_addresses),
                cmocka_unit_test(test_heads),
                cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_head, setup, teardown),
                cmocka_unit_test_setup_teardown(test_endless_heads, setup, teardown),
                cmocka_unit_test_setup_teardown(test_long_request, setup, teardown),
                cmocka_unit_test_setup_teardown(test_not_asked, setup, teardown),
                cmocka_unit_test_setup_teardown(test_hold, setup, teardown),
                cmocka_unit_test_setup_teardown(test_freed_in_callbacks, setup, teardown),
                cmocka_unit_test_setup_teardown(test_times, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
