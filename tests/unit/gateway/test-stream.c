/* SPDX-License-Identifier: MIT */
/* Streams of events and lines, refusals, and what fields of the head say: over a real connection. */
#include "base/util.h"
#include "client/gateway/gateway-private.h"
#include "http-rig.h"
#include "util/test.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define H "Host: h\r\n"

struct asked {
        struct gateway gateway;
        struct gateway_call call;
        int fd;
};

/* A request with these fields, whose answer is pending. */
static void ask(struct rig *rig, struct asked *asked, const char *fields) {
        struct buf text = BUF_NULL;

        if (!rig->server)
                rig_start(rig);
        rig->holds = true;
        assert_int_equal(buf_printf(&text, "GET / HTTP/1.1\r\n" H "%s\r\n", fields), 0);
        rig_ask(rig, (char *)text.data, &asked->fd);
        buf_deinit(&text);
        assert_int_equal(rig->n_pending, 1);
        asked->gateway.base = rig->base;
        asked->gateway.http = rig->server;
        asked->call = (struct gateway_call){
                .gateway = &asked->gateway, .exchange = rig->pending[--rig->n_pending]};
}

static struct buf text_of(const char *text) {
        struct buf b = BUF_NULL;

        assert_int_equal(buf_append_str(&b, text), 0);
        return b;
}

static void on_closed(void *userdata) {
        unsigned *n = userdata;

        ++*n;
}

static const struct http_answer_ops ops = {.closed = on_closed};

static void test_events(void **state) {
        struct rig *rig = *state;
        struct asked asked = {};
        struct stream *stream;
        struct buf json = text_of("{\"a\":1}");
        const char *answer;
        unsigned n_closed = 0;

        ask(rig, &asked, "");
        stream = stream_new_events(&asked.call, &ops, &n_closed);
        stream_event(stream, NULL, &json);
        answer = rig_read(rig, asked.fd, NULL);
        assert_non_null(strstr(answer, "\r\nContent-Type: text/event-stream\r\n"));
        assert_non_null(strstr(answer, "\r\nX-Accel-Buffering: no\r\n"));
        assert_non_null(strstr(answer, "\r\n\r\nf\r\ndata: {\"a\":1}\n\n\r\n"));
        stream_event(stream, "hello", &json);
        assert_string_equal(
                rig_read(rig, asked.fd, NULL), "1c\r\nevent: hello\ndata: {\"a\":1}\n\n\r\n");
        assert_false(stream_is_slow(stream));
        assert_null(stream_end(stream));
        assert_string_equal(rig_read(rig, asked.fd, NULL), "0\r\n\r\n");
        assert_int_equal(n_closed, 0);
        buf_deinit(&json);
        close(asked.fd);
}

static void test_lines(void **state) {
        struct rig *rig = *state;
        struct asked asked = {.gateway.options.settings.keepalive_usec = 1000};
        struct stream *stream;
        struct buf json = text_of("{}");
        const char *answer;

        ask(rig, &asked, "");
        stream = stream_new_lines(&asked.call, &ops, NULL);
        stream_line(stream, &json);
        stream_line(stream, &json);
        stream_end(stream);
        answer = rig_read(rig, asked.fd, NULL);
        assert_non_null(strstr(answer, "\r\nContent-Type: application/x-ndjson\r\n"));
        assert_non_null(strstr(answer, "\r\n\r\n3\r\n{}\n\r\n3\r\n{}\n\r\n0\r\n\r\n"));
        buf_deinit(&json);
        close(asked.fd);
}

/* While nothing else comes, comments do. */
static void test_comments(void **state) {
        struct rig *rig = *state;
        struct asked asked = {.gateway.options.settings.keepalive_usec = 2000};
        struct stream *stream;
        unsigned n_comments = 0, n_closed = 0;

        ask(rig, &asked, "");
        stream = stream_new_events(&asked.call, &ops, &n_closed);
        while (n_comments < 3) {
                const char *at;

                event_base_loop(rig->base, EVLOOP_ONCE);
                for (at = rig_read(rig, asked.fd, NULL); (at = strstr(at, ": keep-alive\n\n"));
                        at++)
                        n_comments++;
        }
        /* none for a client that has gone */
        close(asked.fd);
        while (n_closed == 0)
                event_base_loop(rig->base, EVLOOP_ONCE);
        stream_free(stream);
        assert_null(stream_free(NULL));
        rig_settle(rig);
}

/* To a reader that is slow nothing more is said. */
static void test_no_comments_behind_a_queue(void **state) {
        struct rig *rig = *state;
        struct asked asked = {.gateway.options.settings.keepalive_usec = 1000};
        struct http_figures figures;
        struct stream *stream;
        struct buf json = BUF_NULL;
        size_t queued;

        ask(rig, &asked, "");
        stream = stream_new_events(&asked.call, &ops, NULL);
        assert_int_equal(buf_reserve(&json, 4 << 20), 0);
        memset(json.data, 'x', 4 << 20);
        json.size = 4 << 20;
        stream_event(stream, NULL, &json);
        rig_settle(rig);
        assert_true(stream_is_slow(stream));
        queued = http_queued(asked.call.exchange);
        for (int i = 0; i < 10; i++) /* timers go off */
                event_base_loop(rig->base, EVLOOP_ONCE);
        assert_int_equal(http_queued(asked.call.exchange), queued);
        stream_end(stream);
        rig_read(rig, asked.fd, NULL);
        assert_null(memmem(rig->out.data, rig->out.size, "keep-alive", 10));
        http_server_figures(rig->server, &figures);
        assert_int_equal(figures.n_connections, 1);
        buf_deinit(&json);
        close(asked.fd);
}

/* ---- refusals ---- */

static void test_refusals(void **state) {
        static const struct {
                struct talk_error error;
                const char *has, *has_not;
        } cases[] = {
                {{.status = 400, .message = "m"}, "\"code\":\"invalid\"", "x-should-retry"},
                {{.status = 400, .code = CONFAB_CONTEXT, .message = "m", .param = "p"},
                        "\"param\":\"p\"", "Retry-After"},
                {{.status = 401, .message = "m"}, "WWW-Authenticate: Bearer\r\n", "x-should-retry"},
                {{.status = 409, .message = "m"}, "x-should-retry: false\r\n", "Retry-After"},
                {{.status = 429, .retry_after = 7}, "Retry-After: 7\r\n", "x-should-retry"},
                {{.status = 429}, "x-should-retry: false\r\n", "Retry-After"},
                {{.status = 503, .retry_after = 1}, "Retry-After: 1\r\n", "x-should-retry"},
                {{.status = 500}, "\"code\":\"system\"", "Retry-After"},
        };
        struct rig *rig = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct asked asked = {};
                const char *answer;
                unsigned status;

                ask(rig, &asked, "");
                gateway_refuse(&asked.call, &gateway_basic, &cases[i].error);
                answer = rig_read(rig, asked.fd, NULL);
                assert_int_equal(sscanf(answer, "HTTP/1.1 %u", &status), 1);
                assert_int_equal(status, cases[i].error.status);
                assert_non_null(strstr(answer, cases[i].has));
                assert_null(strstr(answer, cases[i].has_not));
                assert_non_null(strstr(answer, "\r\n\r\n{\"error\":{"));
                close(asked.fd);
        }
}

static void test_errors(void **state) {
        static const struct {
                enum err_code code;
                unsigned status;
                const char *word;
        } cases[] = {{ERR_INVALID, 400, "invalid"}, {ERR_CONTEXT, 400, "context_length_exceeded"},
                {ERR_PERMISSION, 403, "permission"}, {ERR_NOT_FOUND, 404, "not_found"},
                {ERR_CONFLICT, 409, "conflict"}, {ERR_TOO_LARGE, 413, "limit"},
                {ERR_LIMIT, 429, "limit"}, {ERR_UNAVAILABLE, 503, "unavailable"},
                {ERR_NOMEM, 503, "unavailable"}, {ERR_CORRUPT, 500, "system"}};
        struct rig *rig = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct asked asked = {};
                char want[80];
                const char *answer;
                struct err e;

                ask(rig, &asked, "");
                err_set(&e, cases[i].code, "the reason");
                gateway_refuse_err(&asked.call, &gateway_basic, &e);
                answer = rig_read(rig, asked.fd, NULL);
                snprintf(want, sizeof(want),
                        "{\"error\":{\"status\":%u,\"code\":\"%s\",\"message\":\"the reason\"}}",
                        cases[i].status, cases[i].word);
                assert_non_null(strstr(answer, want));
                assert_int_equal(strstr(answer, "Retry-After") != NULL,
                        cases[i].status == 429 || cases[i].status == 503);
                close(asked.fd);
        }
}

/* ---- who asks, and in which conversation ---- */

static void finish(struct rig *rig, struct asked *asked) {
        http_reply(asked->call.exchange, 200, NULL, NULL, 0);
        rig_settle(rig);
        close(asked->fd);
        rig_settle(rig);
}

static void test_sessions(void **state) {
        static const struct {
                const char *fields, *session;
        } cases[] = {{"", NULL}, {"X-Session-Id: a\r\n", "a"}, {"session-id: b\r\n", "b"},
                {"thread-id: c\r\n", "c"}, {"X-Claude-Code-Session-Id: d\r\n", "d"},
                {"X-OpenWebUI-Chat-Id: e\r\n", "e"}, {"X-Session-Id:\r\nthread-id: f\r\n", "f"},
                {"X-Session-Id: \xff\r\n", NULL}, {"thread-id: t\r\nx-session-id: s\r\n", "s"}};
        struct rig *rig = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct asked asked = {};
                const char *session;

                ask(rig, &asked, cases[i].fields);
                session = gateway_session(&asked.call);
                if (cases[i].session)
                        assert_string_equal(session, cases[i].session);
                else
                        assert_null(session);
                finish(rig, &asked);
        }
}

static void test_forms(void **state) {
        static const struct {
                const char *fields, *conversation, *session; /* conversation "!": refused */
        } cases[] = {{"", NULL, NULL}, {"X-Conversation-Id: a b\r\n", "a b", NULL},
                {"X-Conversation-Id: a\r\nSession-Id: s\r\n", "a", "s"},
                {"X-Conversation-Id: 12a\r\n", "12a", NULL},
                {"X-Conversation-Id: 12\r\n", "!", NULL}, {"X-Conversation-Id:\r\n", "!", NULL},
                {"X-Conversation-Id: a\tb\r\n", "!", NULL},
                {"X-Conversation-Id: \xff\r\n", "!", NULL}};
        struct rig *rig = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct asked asked = {};
                struct form *form;
                struct err e;
                int r;

                ask(rig, &asked, cases[i].fields);
                assert_int_equal(form_new(&form, &e), 0);
                r = gateway_fill_form(&asked.call, form, &e);
                if (cases[i].conversation && *cases[i].conversation == '!') {
                        assert_int_equal(r, -ERR_INVALID);
                } else {
                        assert_int_equal(r, 0);
                        assert_int_equal(form_fields(form)->place,
                                cases[i].conversation ? FORM_NAMED : FORM_FIND);
                        if (cases[i].conversation)
                                assert_string_equal(
                                        form_fields(form)->conversation, cases[i].conversation);
                        if (cases[i].session)
                                assert_string_equal(form_fields(form)->session, cases[i].session);
                        else
                                assert_null(form_fields(form)->session);
                }
                form_free(form);
                finish(rig, &asked);
        }
}

/* On a Unix socket the kernel says who it is; only a setting lets a field name a tenant. */
static void test_owners(void **state) {
        struct rig *rig = *state;
        struct asked asked = {};
        struct err e;

        ask(rig, &asked, "x-user: anna\r\nAuthorization: Bearer whatever-it-may-be\r\n");
        assert_int_equal(gateway_find_owner(&asked.call, &e), 0);
        assert_int_equal(asked.call.owner.uid, geteuid());
        assert_string_equal(asked.call.owner.tenant, "");
        asked.gateway.options.tenant_header = "x-user";
        assert_int_equal(gateway_find_owner(&asked.call, &e), 0);
        assert_string_equal(asked.call.owner.tenant, "anna");
        asked.gateway.options.tenant_header = "x-other";
        assert_int_equal(gateway_find_owner(&asked.call, &e), 0);
        assert_string_equal(asked.call.owner.tenant, "");
        finish(rig, &asked);
        ask(rig, &asked, "x-user: \xfe\r\n");
        asked.gateway.options.tenant_header = "x-user";
        assert_int_equal(gateway_find_owner(&asked.call, &e), -ERR_INVALID);
        finish(rig, &asked);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(test_events),
                TEST(test_lines),
                TEST(test_comments),
                TEST(test_no_comments_behind_a_queue),
                TEST(test_refusals),
                TEST(test_errors),
                TEST(test_sessions),
                TEST(test_forms),
                TEST(test_owners),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
