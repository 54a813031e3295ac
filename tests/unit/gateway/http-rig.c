/* SPDX-License-Identifier: MIT */
#include "http-rig.h"
#include "util/test.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Turns of the loop without any news before the rig believes that there will be none. */
#define QUIET 5

struct watched {
        struct rig *rig;
        struct http_exchange *exchange;
};

static void forget(struct rig *rig, struct http_exchange *exchange) {
        for (unsigned i = 0; i < rig->n_pending; i++)
                if (rig->pending[i] == exchange) {
                        memmove(&rig->pending[i], &rig->pending[i + 1],
                                (rig->n_pending - i - 1) * sizeof(rig->pending[0]));
                        rig->n_pending--;
                        return;
                }
        fail_msg("an exchange ended that was not pending");
}

static void on_closed(void *userdata) {
        struct watched *watched = userdata;

        watched->rig->n_closed++;
        forget(watched->rig, watched->exchange);
}

static void on_drained(void *userdata) {
        struct watched *watched = userdata;

        watched->rig->n_drained++;
}

void rig_watch(struct rig *rig, struct http_exchange *exchange) {
        static const struct http_answer_ops ops = {.closed = on_closed, .drained = on_drained};
        struct watched *watched = http_alloc(exchange, sizeof(*watched));

        if (!watched)
                return;
        *watched = (struct watched){rig, exchange};
        http_set_ops(exchange, &ops, watched);
}

static void admit(void *userdata, struct http_exchange *exchange) {
        struct rig *rig = userdata;

        rig->n_admitted++;
        http_set_context(exchange, rig);
        if (rig->refuses)
                http_reply(exchange, 401, "text/plain", "who?", 4);
        else if (rig->admits)
                rig->admits(rig, exchange);
}

static void handle(void *userdata, struct http_exchange *exchange) {
        static const char *const methods[] = {
                "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "OTHER"};
        struct rig *rig = userdata;
        struct buf out = BUF_NULL;
        const char *body;
        size_t size;

        rig->n_handled++;
        assert_ptr_equal(http_context(exchange), rig);
        body = http_body(exchange, &size);
        assert_int_equal(strlen(body), size);
        if (rig->holds && rig->n_pending < RIG_MAX_PENDING) {
                rig->pending[rig->n_pending++] = exchange;
                rig_watch(rig, exchange);
                return;
        }
        if (buf_printf(&out, "%s %s %s", methods[http_method(exchange)], http_path(exchange),
                    body) < 0)
                http_abort(exchange);
        else
                http_reply(exchange, 200, "text/plain", out.data, out.size);
        buf_deinit(&out);
}

static size_t refusal(void *userdata, const char *path, unsigned status, const char *message,
        char *ret, size_t max, const char **ret_type) {
        *ret_type = "text/plain";
        return (size_t)snprintf(ret, max, "refused: %s: %s", path, message);
}

int rig_setup(void **state) {
        struct rig *rig = calloc(1, sizeof(*rig));

        assert_non_null(rig);
        rig->base = event_base_new();
        rig->limits = HTTP_LIMITS_DEFAULT;
        rig->listener = -1;
        *state = rig;
        return 0;
}

void rig_start(struct rig *rig) {
        static const struct http_handlers handlers = {
                .admit = admit, .handle = handle, .refusal = refusal};
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        /* The kernel chooses a name in the abstract namespace. */
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(sa_family_t)), 0);
        assert_int_equal(listen(fd, 128), 0);
        rig->listener = dup(fd);
        assert_int_equal(
                http_server_new(&rig->server, rig->base, &rig->limits, &handlers, rig, &rig->e), 0);
        assert_int_equal(http_server_listen(rig->server, fd, false, &rig->e), 0);
}

int rig_teardown(void **state) {
        struct rig *rig = *state;

        rig->server = http_server_free(rig->server);
        assert_int_equal(rig->n_pending, 0);
        if (rig->listener >= 0)
                close(rig->listener);
        event_base_free(rig->base);
        buf_deinit(&rig->out);
        free(rig);
        return 0;
}

int rig_connect(struct rig *rig) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_un a;
        socklen_t n = sizeof(a);

        assert_int_equal(getsockname(rig->listener, (struct sockaddr *)&a, &n), 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&a, n), 0);
        return fd;
}

void rig_settle(struct rig *rig) {
        for (unsigned i = 0; i < QUIET; i++)
                event_base_loop(rig->base, EVLOOP_NONBLOCK);
}

void rig_send(struct rig *rig, int fd, const char *text) {
        size_t n = strlen(text);

        while (n > 0) {
                ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);

                if (sent < 0) {
                        /* the queue is full until the server reads, or the server reads no more */
                        assert_true(errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
                        if (errno != EAGAIN)
                                return;
                        rig_settle(rig);
                        continue;
                }
                text += sent;
                n -= (size_t)sent;
        }
}

const char *rig_read(struct rig *rig, int fd, bool *ret_end) {
        static uint8_t bytes[65536];
        bool end = false;

        buf_deinit(&rig->out);
        for (unsigned quiet = 0; quiet < QUIET && !end;) {
                ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

                end = n == 0 || (n < 0 && errno != EAGAIN);
                quiet = n > 0 ? 0 : quiet + 1;
                if (n > 0)
                        assert_int_equal(buf_append(&rig->out, bytes, (size_t)n), 0);
                rig_settle(rig);
        }
        if (ret_end)
                *ret_end = end;
        return rig->out.data ? (const char *)rig->out.data : "";
}

const char *rig_read_to_end(struct rig *rig, int fd) {
        struct buf all = BUF_NULL;
        bool end = false;

        for (;;) {
                rig_read(rig, fd, &end);
                assert_int_equal(buf_append(&all, rig->out.data, rig->out.size), 0);
                if (end)
                        break;
                event_base_loop(rig->base, EVLOOP_ONCE);
        }
        buf_deinit(&rig->out);
        rig->out = all;
        return all.data ? (const char *)all.data : "";
}

const char *rig_ask(struct rig *rig, const char *text, int *ret_fd) {
        int fd = rig_connect(rig);
        const char *answer;

        rig_send(rig, fd, text);
        rig_settle(rig);
        answer = rig_read(rig, fd, NULL);
        if (ret_fd)
                *ret_fd = fd;
        else
                close(fd);
        rig_settle(rig);
        return answer;
}
