/* SPDX-License-Identifier: MIT */
/*
 * Answers in pieces. A stream of events says so when nothing else comes for a while (a long prompt is computed): proxies and
 * clients end connections that say nothing. Lines (Ollama) have no comments.
 */
#include "base/clock.h"
#include "base/util.h"
#include "client/gateway/gateway.h"
#include <event2/event.h>

struct stream {
        struct http_exchange *exchange;
        struct event *timer; /* NULL: no comments */
        uint64_t keepalive_usec, written_usec;
};

static void wait_until(struct stream *stream, uint64_t usec) {
        struct timeval t = {
                .tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

        /* Without memory there are no comments. */
        (void)evtimer_add(stream->timer, &t);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
        static const char comment[] = ": keep-alive\n\n";
        struct stream *stream = arg;
        uint64_t now = clock_monotonic_usec(), silent = now - stream->written_usec;

        if (silent >= stream->keepalive_usec) {
                /* To a slow reader enough is being said. */
                if (http_queued(stream->exchange) == 0)
                        http_write(stream->exchange, comment, sizeof(comment) - 1);
                stream->written_usec = now;
                silent = 0;
        }
        wait_until(stream, stream->keepalive_usec - silent);
}

static struct stream *stream_new(struct gateway_call *call, const char *type,
        const struct http_answer_ops *ops, void *userdata) {
        struct stream *stream = calloc(1, sizeof(*stream));

        if (!stream || http_add_header(call->exchange, "X-Accel-Buffering", "no") < 0) {
                free(stream);
                http_abort(call->exchange);
                return NULL;
        }
        stream->exchange = call->exchange;
        stream->written_usec = clock_monotonic_usec();
        http_set_ops(call->exchange, ops, userdata);
        http_begin(call->exchange, 200, type);
        return stream;
}

struct stream *stream_new_events(
        struct gateway_call *call, const struct http_answer_ops *ops, void *userdata) {
        struct stream *stream = stream_new(call, "text/event-stream", ops, userdata);

        if (!stream)
                return NULL;
        stream->keepalive_usec = gateway_settings(call->gateway)->keepalive_usec;
        if (stream->keepalive_usec == 0)
                return stream;
        stream->timer = evtimer_new(gateway_base(call->gateway), on_timer, stream);
        if (stream->timer)
                wait_until(stream, stream->keepalive_usec);
        return stream;
}

struct stream *stream_new_lines(
        struct gateway_call *call, const struct http_answer_ops *ops, void *userdata) {
        return stream_new(call, "application/x-ndjson", ops, userdata);
}

static struct iovec piece(const void *data, size_t size) {
        return (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = size};
}

static void write_pieces(struct stream *stream, const struct iovec *pieces, size_t n) {
        http_writev(stream->exchange, pieces, n);
        stream->written_usec = clock_monotonic_usec();
}

void stream_event(struct stream *stream, const char *name, const struct buf *json) {
        stream_event_id(stream, NULL, name, json);
}

void stream_event_id(
        struct stream *stream, const char *id, const char *name, const struct buf *json) {
        struct iovec pieces[9];
        size_t n = 0;

        if (id && !id[strcspn(id, "\r\n")]) {
                pieces[n++] = piece("id: ", 4);
                pieces[n++] = piece(id, strlen(id));
                pieces[n++] = piece("\n", 1);
        }
        if (name) {
                pieces[n++] = piece("event: ", 7);
                pieces[n++] = piece(name, strlen(name));
                pieces[n++] = piece("\n", 1);
        }
        pieces[n++] = piece("data: ", 6);
        pieces[n++] = piece(json->data, json->size);
        pieces[n++] = piece("\n\n", 2);
        write_pieces(stream, pieces, n);
}

void stream_line(struct stream *stream, const struct buf *json) {
        struct iovec pieces[] = {piece(json->data, json->size), piece("\n", 1)};

        write_pieces(stream, pieces, ARRAY_SIZE(pieces));
}

bool stream_is_slow(const struct stream *stream) {
        return http_is_slow(stream->exchange);
}

struct stream *stream_end(struct stream *stream) {
        http_end(stream->exchange);
        return stream_free(stream);
}

struct stream *stream_free(struct stream *stream) {
        if (!stream)
                return NULL;
        if (stream->timer)
                event_free(stream->timer);
        free(stream);
        return NULL;
}
