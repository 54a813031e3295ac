/* SPDX-License-Identifier: MIT */
#include "wire.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

bool wire_poll(struct wire *w) {
        struct pollfd p = {.fd = w->fd, .events = POLLIN};
        int r;

        do {
                r = poll(&p, 1, WIRE_TIMEOUT_MSEC);
        } while (r < 0 && errno == EINTR);
        if (r == 0)
                fprintf(stderr, "no answer from the daemon in %d s\n", WIRE_TIMEOUT_MSEC / 1000);
        return r > 0;
}

int wire_connect(struct wire *w, const char *path, bool (*idle)(struct wire *w), void *arg) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int r;

        *w = (struct wire){.in = PROTO_DECODER_INIT(64u << 20), .idle = idle, .arg = arg};
        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        w->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (w->fd < 0)
                return -errno;
        if (connect(w->fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
                r = -errno;
                close(w->fd);
                w->fd = -1;
                return r;
        }
        fcntl(w->fd, F_SETFL, O_NONBLOCK);
        return 0;
}

void wire_close(struct wire *w) {
        if (w->fd >= 0)
                close(w->fd);
        w->fd = -1;
        proto_decoder_deinit(&w->in);
}

size_t wire_send_some(struct wire *w, const void *data, size_t n) {
        ssize_t k = send(w->fd, data, n, MSG_NOSIGNAL);

        return k < 0 ? 0 : (size_t)k;
}

bool wire_send_bytes(struct wire *w, const void *data, size_t n) {
        const uint8_t *p = data;

        while (n) {
                ssize_t k = send(w->fd, p, n, MSG_NOSIGNAL);

                if (k < 0 && errno == EAGAIN) {
                        struct pollfd pfd = {.fd = w->fd, .events = POLLOUT};

                        if (w->idle != wire_poll) {
                                if (!w->idle(w))
                                        return false;
                        } else if (poll(&pfd, 1, WIRE_TIMEOUT_MSEC) <= 0)
                                return false;
                        continue;
                }
                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return false;
                p += k;
                n -= (size_t)k;
        }
        return true;
}

/* The request's frame; it is numbered unless the test did that. */
static bool format(struct wire *w, Confab__V1__Request *r, struct buf *out) {
        if (!r->has_id) {
                r->has_id = true;
                r->id = ++w->next_id;
        }
        return proto_append_frame(out, &r->base, UINT32_MAX, NULL) == 0;
}

uint64_t wire_send(struct wire *w, Confab__V1__Request *r) {
        struct buf out = BUF_NULL;
        bool ok;

        ok = format(w, r, &out) && wire_send_bytes(w, out.data, out.size);
        buf_deinit(&out);
        return ok ? r->id : 0;
}

bool wire_send_bytes_fds(struct wire *w, const void *data, size_t n, const int *fds, size_t n_fds) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
        } control = {.bytes = {0}};
        struct iovec iov = {.iov_base = proto_borrow(data), .iov_len = n};
        struct msghdr m = {.msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = CMSG_SPACE(n_fds * sizeof(int))};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        ssize_t k;

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
        do {
                k = sendmsg(w->fd, &m, MSG_NOSIGNAL);
        } while (k < 0 && (errno == EINTR || (errno == EAGAIN && w->idle(w))));
        if (k <= 0)
                return false;
        return wire_send_bytes(w, (const uint8_t *)data + k, n - (size_t)k);
}

uint64_t wire_send_fds(struct wire *w, Confab__V1__Request *r, const int *fds, size_t n_fds) {
        struct buf out = BUF_NULL;
        bool ok;

        ok = format(w, r, &out) && wire_send_bytes_fds(w, out.data, out.size, fds, n_fds);
        buf_deinit(&out);
        return ok ? r->id : 0;
}

int wire_take_fd(struct wire *w) {
        return proto_decoder_take_fd(&w->in);
}

static uint64_t send_hello(struct wire *w, Confab__V1__Hello *h, uint32_t version) {
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;

        h->has_version = true;
        h->version = version;
        r.verb_case = CONFAB__V1__REQUEST__VERB_HELLO;
        r.hello = h;
        return wire_send(w, &r);
}

uint64_t wire_send_hello(struct wire *w, uint32_t version, uint32_t max_frame) {
        Confab__V1__Hello h = CONFAB__V1__HELLO__INIT;

        h.has_max_frame = max_frame != 0;
        h.max_frame = max_frame;
        return send_hello(w, &h, version);
}

uint64_t wire_send_hello_for(struct wire *w, const uint32_t *act_uid, const char *tenant) {
        Confab__V1__Hello h = CONFAB__V1__HELLO__INIT;

        h.has_act_uid = act_uid != NULL;
        h.act_uid = act_uid ? *act_uid : 0;
        h.tenant = proto_borrow(tenant);
        return send_hello(w, &h, PROTO_VERSION);
}

bool wire_hello(struct wire *w) {
        _cleanup_(proto_message_freep) struct proto_message *m = NULL;
        uint64_t id = wire_send_hello(w, PROTO_VERSION, 0);

        m = id ? wire_event(w) : NULL;
        return m && m->event->kind_case == CONFAB__V1__EVENT__KIND_HELLO && m->event->request == id;
}

struct proto_message *wire_event_now(struct wire *w) {
        struct proto_message *m = NULL;
        static uint8_t data[65536];
        const uint8_t *frame;
        struct err e = {};
        size_t size;
        ssize_t n;
        int r, fd;

        for (;;) {
                r = proto_decoder_next(&w->in, &frame, &size, &e);
                if (r > 0) {
                        if (proto_unpack_event(&m, frame, size, NULL, &e) < 0)
                                fprintf(stderr, "bad event from the daemon: %s\n", e.msg);
                        return m;
                }
                if (r < 0) {
                        fprintf(stderr, "bad frame from the daemon: %s\n", e.msg);
                        return NULL;
                }
                if (w->eof)
                        return NULL;
                fd = -1;
                n = proto_recv(w->fd, data, sizeof(data), 0, NULL, &fd);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return NULL;
                if (n <= 0)
                        w->eof = true;
                else if (proto_decoder_push(&w->in, data, (size_t)n, &e) < 0) {
                        if (fd >= 0)
                                close(fd);
                        return NULL;
                }
                if (fd >= 0 && proto_decoder_push_fd(&w->in, fd, (size_t)n, &e) < 0)
                        return NULL;
        }
}

struct proto_message *wire_event(struct wire *w) {
        for (;;) {
                struct proto_message *m = wire_event_now(w);

                if (m || w->eof)
                        return m;
                if (!w->idle(w))
                        return NULL;
        }
}

struct proto_message *wire_event_for(struct wire *w, uint64_t id) {
        for (;;) {
                struct proto_message *m = wire_event(w);

                if (!m || m->event->request == id)
                        return m;
                proto_message_free(m);
        }
}

bool wire_wait_eof(struct wire *w) {
        struct proto_message *m;

        while ((m = wire_event(w)))
                proto_message_free(m);
        return w->eof;
}
