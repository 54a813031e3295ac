/* SPDX-License-Identifier: MIT */
#include "daemon/reply.h"
#include "base/utf8.h"
#include "daemon/request-log.h"
#include "service/log.h"
#include <string.h>

/* For the request log. Counting the bytes costs something. */
static void note(struct peer *p, uint64_t id, const Confab__V1__Event *ev, bool final) {
        bool failed = ev->kind_case == CONFAB__V1__EVENT__KIND_ERROR;

        if (list_empty(&p->notes))
                return;
        request_log_bytes(p, id, protobuf_c_message_get_packed_size(&ev->base));
        if (final)
                request_log_answer(p, id, failed ? ev->error->code : "ok");
}

void reply_send(struct peer *p, uint64_t id, Confab__V1__Event *ev, bool final) {
        struct err e;
        int r;

        ev->has_request = true;
        ev->request = id;
        r = conn_send(&p->conn, &ev->base, p->max_event, &e);
        if (r == 0) {
                note(p, id, ev, final);
                return;
        }
        if (r == -ERR_TOO_LARGE && ev->kind_case != CONFAB__V1__EVENT__KIND_ERROR) {
                if (final) {
                        reply_error(p, id, &e);
                } else {
                        /* A stream with a gap would look whole: it ends instead. */
                        reply_refuse(p, &e);
                }
                return;
        }
        /* Without memory for the answer the peer would wait for it for ever. */
        conn_fail(&p->conn, &e);
}

/* A connection that is refused is told of by peer.c. */
static void tell_limit(struct peer *p, const struct err *e) {
        struct log_about about;

        if (e->code != ERR_LIMIT || p->over || !users_tell_limit(p->user))
                return;
        peer_about(p, e, &about);
        log_event(LOGGED_LIMIT_REACHED, &about, "%s has reached a limit", PEER_TEXT(p));
}

/* @holder: or NULL. */
static void tell_error(
        struct peer *p, uint64_t id, const struct err *e, const struct engine_holder *holder) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Error error = CONFAB__V1__ERROR__INIT;
        char message[sizeof(e->msg)];

        tell_limit(p, e);
        /* Messages quote names and files: a wire string must be UTF-8. */
        memcpy(message, e->msg, sizeof(message));
        message[sizeof(message) - 1] = 0;
        if (!utf8_valid(message, strlen(message)))
                for (char *s = message; *s; s++)
                        if (*s & 0x80)
                                *s = '?';
        error.code = proto_borrow(err_code_name(e->code));
        error.message = message;
        error.has_retry = true;
        /* A daemon that cannot start will not by itself. */
        error.retry = err_may_pass(e) && !p->daemon->refusal;
        if (holder && *holder->name && utf8_valid(holder->name, strlen(holder->name)))
                error.machine = proto_borrow(holder->name);
        if (holder && *holder->address && utf8_valid(holder->address, strlen(holder->address)))
                error.address = proto_borrow(holder->address);
        ev.kind_case = CONFAB__V1__EVENT__KIND_ERROR;
        ev.error = &error;
        reply_send(p, id, &ev, true);
}

void reply_error(struct peer *p, uint64_t id, const struct err *e) {
        tell_error(p, id, e, NULL);
}

void reply_failed(struct peer *p, uint64_t id, const struct engine_event *ev) {
        tell_error(p, id, &ev->err, ev->err.code == ERR_MOVED ? &ev->holder : NULL);
}

void reply_empty(struct peer *p, uint64_t id) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Empty empty = CONFAB__V1__EMPTY__INIT;

        ev.kind_case = CONFAB__V1__EVENT__KIND_EMPTY;
        ev.empty = &empty;
        reply_send(p, id, &ev, true);
}

void reply_chunk(struct peer *p, uint64_t id, const void *data, size_t n) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Chunk chunk = CONFAB__V1__CHUNK__INIT;

        chunk.has_data = true;
        chunk.data = (ProtobufCBinaryData){n, proto_borrow(data)};
        ev.kind_case = CONFAB__V1__EVENT__KIND_CHUNK;
        ev.chunk = &chunk;
        reply_send(p, id, &ev, false);
}

void reply_exported(struct peer *p, uint64_t id, uint64_t size, uint32_t n_memory_tokens, int fd) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Exported m = CONFAB__V1__EXPORTED__INIT;
        struct err e;

        m.has_size = m.has_n_memory_tokens = true;
        m.size = size;
        m.n_memory_tokens = n_memory_tokens;
        ev.has_request = true;
        ev.request = id;
        ev.kind_case = CONFAB__V1__EVENT__KIND_EXPORTED;
        ev.exported = &m;
        if (fd < 0)
                reply_send(p, id, &ev, true);
        else if (conn_send_fd(&p->conn, &ev.base, p->max_event, fd, &e) < 0)
                conn_fail(&p->conn, &e);
        else
                note(p, id, &ev, true);
}

/* The last message. */
static void end_with(struct peer *p, uint64_t id, const struct err *e) {
        p->over = true;
        reply_error(p, id, e);
        conn_linger(&p->conn);
}

void reply_refuse(struct peer *p, const struct err *e) {
        end_with(p, 0, e);
}

void reply_refuse_hello(struct peer *p, uint64_t id, const struct err *e) {
        struct log_about about;

        peer_about(p, e, &about);
        log_event(LOGGED_HELLO_REFUSED, &about, "refusing the Hello of %s", PEER_TEXT(p));
        end_with(p, id, e);
}

void reply_protocol_error(struct peer *p, uint64_t id, const struct err *e) {
        struct log_about about;

        peer_about(p, e, &about);
        log_event(LOGGED_PROTOCOL_ERROR, &about, "protocol error by %s", PEER_TEXT(p));
        end_with(p, id, e);
}
