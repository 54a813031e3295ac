/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "proto/proto.h"
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The most descriptors that one message can carry (SCM_MAX_FD of the kernel): all arrive here, and
 * the owner's function closes them. The kernel would close those that do not fit while we wait. */
#define RECV_MAX 253

static void close_with(void (*close_fd)(int fd), int fd) {
        if (close_fd)
                close_fd(fd);
        else
                close(fd);
}

int proto_fds_add(struct proto_fds *q, int fd, uint64_t begin, uint64_t end, struct err *e) {
        if (q->n == PROTO_FDS_MAX) {
                close_with(q->close, fd);
                return err_set(e, ERR_LIMIT, "more than %d file descriptors wait", PROTO_FDS_MAX);
        }
        q->items[q->n++] = (struct proto_fd){.fd = fd, .begin = begin, .end = end};
        return 0;
}

int proto_fds_take(struct proto_fds *q, size_t i) {
        int fd = q->items[i].fd;

        memmove(&q->items[i], &q->items[i + 1], (--q->n - i) * sizeof(q->items[0]));
        return fd;
}

void proto_fds_drop(struct proto_fds *q, size_t i) {
        close_with(q->close, proto_fds_take(q, i));
}

void proto_fds_deinit(struct proto_fds *q) {
        while (q->n)
                proto_fds_drop(q, q->n - 1);
}

/* The first descriptor of @m; the others are closed. */
static int take_first(struct msghdr *m, void (*close_fd)(int fd)) {
        int first = -1;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
                size_t n =
                        c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                for (size_t i = 0; i < n; i++) {
                        int fd;

                        memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
                        if (first < 0)
                                first = fd;
                        else
                                close_with(close_fd, fd);
                }
        }
        return first;
}

ssize_t proto_recv(
        int socket, void *data, size_t n, int flags, void (*close_fd)(int fd), int *ret_fd) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(RECV_MAX * sizeof(int))];
        } control;
        struct iovec iov = {.iov_base = data, .iov_len = n};
        struct msghdr m = {
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = sizeof(control.bytes),
        };
        ssize_t k = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
        int fd;

        if (k < 0)
                return k;
        fd = take_first(&m, close_fd);
        if (k == 0 && fd >= 0)
                close_with(close_fd, TAKE_FD(fd)); /* with no byte it belongs to nothing */
        *ret_fd = fd;
        return k;
}

ssize_t proto_send(
        int socket, const void *data, size_t n, uint64_t at, int flags, struct proto_fds *fds) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = {.bytes = {0}};
        struct iovec iov = {.iov_base = proto_borrow(data), .iov_len = n};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
        const struct proto_fd *first = fds->n ? &fds->items[0] : NULL;
        bool now = first && first->begin == at;
        struct cmsghdr *c;
        ssize_t k;

        if (now) {
                iov.iov_len = (size_t)MIN((uint64_t)n, first->end - at);
                m.msg_control = &control;
                m.msg_controllen = CMSG_LEN(sizeof(int));
                c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(c), &first->fd, sizeof(int));
        } else if (first) {
                iov.iov_len = (size_t)MIN((uint64_t)n, first->begin - at);
        }
        k = sendmsg(socket, &m, flags);
        if (now && k > 0)
                close(proto_fds_take(fds, 0));
        return k;
}
