/* SPDX-License-Identifier: MIT */
/*
 * Any bytes on a connection: the daemon over the fake engine, which answers every verb at once. The
 * input follows a proper Hello if its first byte is odd. The daemon must be able to serve the next
 * client, and owe no memory.
 */
#include "../../unit/daemon/fake-engine.h"
#include "daemon/daemon.h"
#include "service/log.h"
#include "daemon/peer.h"
#include "proto/proto.h"
#include "util/fds.h"
#include <event2/event.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t hello[] = {6, 0x08, 1, 0x12, 2, 0x08, 1};

#define CHECK(x)                                                                                   \
        do {                                                                                       \
                if (!(x)) {                                                                        \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                    \
                        abort();                                                                   \
                }                                                                                  \
        } while (0)

static struct daemon *make_daemon(void) {
        static char model[] = "none.gguf", dir[64] = "/tmp/confab-fuzz-XXXXXX";
        static struct settings settings;
        char *argv[] = {proto_borrow("confabd"), proto_borrow("--model"), model, NULL};
        enum conf_action action;
        struct daemon *d = NULL;
        char path[96];
        struct err e;

        log_init("confabd", LOG_CRIT);
        CHECK(mkdtemp(dir));
        snprintf(path, sizeof(path), "%s/s", dir);
        CHECK(settings_load(&settings, 3, argv, &action, &e) == 0);
        CHECK(settings_set(&settings, "socket", path, &e) == 0);
        settings.log_level = LOG_CRIT;
        settings.max_frame = 65536;
        settings.pressure = 0; /* what the machine is short of is none of our inputs */
        CHECK(daemon_new(&d, &settings, 0, NULL, &e) == 0);
        /* Nobody connects through the file system. */
        unlink(path);
        rmdir(dir);
        return d;
}

/* Run until nothing more happens: the peer is gone, or has nothing left to do. */
static void settle(struct daemon *d, int fd) {
        uint8_t sink[4096];

        for (unsigned i = 0, quiet = 0; i < 10000 && quiet < 3; i++) {
                ssize_t n;

                daemon_step(d);
                n = recv(fd, sink, sizeof(sink), MSG_DONTWAIT);
                quiet = n > 0 ? 0 : quiet + 1;
        }
}

static int memory = -1;

/* One frame, if its length is small, else a few bytes. */
static ssize_t send_piece(int socket, const uint8_t *data, size_t size) {
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = {.bytes = {0}};
        struct iovec iov = {.iov_base = proto_borrow(data),
                .iov_len = MIN(size, data[0] < 0x80 ? (size_t)data[0] + 1 : (size_t)7)};
        struct msghdr m = {.msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = sizeof(control.bytes)};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &memory, sizeof(int));
        return sendmsg(socket, &m, MSG_NOSIGNAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct daemon *d;
        static size_t n_fds;
        static unsigned n_runs;
        int fds[2];

        if (!d) {
                d = make_daemon();
                memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
        }
        for (enum engine_verb v = 0; v < ENGINE_N_VERBS; v++)
                fake_answer(v, true);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        peer_accept(d, fds[1]);
        if (size && (data[0] & 1))
                CHECK(send(fds[0], hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello));
        /* With bit 1 in pieces, each of which has a descriptor with its first byte. */
        for (size_t at = MIN(size, (size_t)1); at < size;) {
                ssize_t n = data[0] & 2 ? send_piece(fds[0], data + at, size - at)
                                        : send(fds[0], data + at, size - at, MSG_NOSIGNAL);

                if (n <= 0)
                        break;
                at += (size_t)n;
                settle(d, fds[0]);
        }
        settle(d, fds[0]);
        close(fds[0]);
        /* A peer that waits for a user's groups goes when another thread has asked the user database. */
        for (unsigned i = 0; d->n_peers || fake.file_bytes; i++) {
                CHECK(i < 10000000);
                daemon_step(d);
                if (i >= 1000)
                        sched_yield();
        }
        CHECK(d->users.io.used == 0);
        fake_reset();
        /* The first runs open a few for good; another thread closes what may not be memory. */
        for (unsigned i = 0; n_runs >= 3 && test_count_fds() != n_fds; i++) {
                CHECK(i < 1000000);
                sched_yield();
        }
        if (++n_runs == 3)
                n_fds = test_count_fds();
        return 0;
}
