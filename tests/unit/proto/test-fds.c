/* SPDX-License-Identifier: MIT */
/* Descriptors reach their frames, however the stream is read, and none is lost or left open. */
#include "base/util.h"
#include "proto/proto.h"
#include "util/fds.h"
#include "util/test.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* A file that says its number. */
static int make_file(unsigned number) {
        int fd = memfd_create("test", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, &number, sizeof(number), 0), sizeof(number));
        return fd;
}

static unsigned number_of(int fd) {
        unsigned number;

        assert_int_equal(pread(fd, &number, sizeof(number), 0), sizeof(number));
        close(fd);
        return number;
}

enum { N_FRAMES = 12 };

/* Frame i is request i + 1, of a length of its own; some have a descriptor. */
static bool has_fd(unsigned i) {
        return i % 3 == 1 || i == 2;
}

static void write_stream(int socket) {
        struct buf out = BUF_NULL;
        struct proto_fds fds = {0};
        size_t sent = 0;

        for (unsigned i = 0; i < N_FRAMES; i++) {
                Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;
                Confab__V1__Tokenize t = CONFAB__V1__TOKENIZE__INIT;
                char text[400] = "";
                size_t begin = out.size;

                memset(text, 'x', i * 31);
                t.text = text;
                r.has_id = true;
                r.id = i + 1;
                r.verb_case = CONFAB__V1__REQUEST__VERB_TOKENIZE;
                r.tokenize = &t;
                assert_int_equal(proto_append_frame(&out, &r.base, UINT32_MAX, NULL), 0);
                if (has_fd(i))
                        assert_int_equal(
                                proto_fds_add(&fds, make_file(i + 1), begin, out.size, NULL), 0);
        }
        while (sent < out.size) {
                ssize_t n = proto_send(socket, out.data + sent, out.size - sent, sent, 0, &fds);

                assert_true(n > 0);
                sent += (size_t)n;
        }
        assert_int_equal(fds.n, 0);
        buf_deinit(&out);
}

/* Reads of @chunk bytes at most; every @skip-th frame leaves its descriptor (0: none does). */
static void read_stream(int socket, size_t chunk, unsigned skip) {
        struct proto_decoder d = PROTO_DECODER_INIT(PROTO_MAX_REQUEST);
        uint8_t data[8192];
        unsigned n_frames = 0;
        struct err e;

        while (n_frames < N_FRAMES) {
                const uint8_t *frame;
                size_t size;
                int fd = -1;
                ssize_t n = proto_recv(socket, data, chunk, 0, NULL, &fd);

                assert_true(n > 0);
                assert_int_equal(proto_decoder_push(&d, data, (size_t)n, &e), 0);
                if (fd >= 0)
                        assert_int_equal(proto_decoder_push_fd(&d, fd, (size_t)n, &e), 0);
                while (proto_decoder_next(&d, &frame, &size, &e) > 0) {
                        unsigned i = n_frames++;

                        if (skip && i % skip == 0)
                                continue;
                        fd = proto_decoder_take_fd(&d);
                        assert_int_equal(fd >= 0, has_fd(i));
                        if (fd >= 0)
                                assert_int_equal(number_of(fd), i + 1);
                        assert_int_equal(proto_decoder_take_fd(&d), -1);
                }
                assert_true(d.fds.n <= 1);
        }
        proto_decoder_deinit(&d);
}

static void test_every_chunk(void **state) {
        size_t before = test_count_fds();

        for (size_t chunk = 1; chunk < 3000; chunk += chunk < 100 ? 1 : 97)
                for (unsigned skip = 0; skip < 4; skip++) {
                        int sv[2];

                        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
                        write_stream(sv[0]);
                        read_stream(sv[1], chunk, skip);
                        close(sv[0]);
                        close(sv[1]);
                        assert_int_equal(test_count_fds(), before);
                }
}

/* The connection ends with descriptors on the way, in both directions. */
static void test_ends(void **state) {
        struct proto_decoder d = PROTO_DECODER_INIT(PROTO_MAX_REQUEST);
        struct proto_fds fds = {0};
        size_t before = test_count_fds();
        const uint8_t *frame;
        size_t size;
        struct err e;

        for (unsigned i = 0; i < PROTO_FDS_MAX; i++)
                assert_int_equal(proto_fds_add(&fds, make_file(i), i, i + 1, &e), 0);
        assert_int_equal(proto_fds_add(&fds, make_file(99), 99, 100, &e), -ERR_LIMIT);
        assert_int_equal(number_of(proto_fds_take(&fds, 3)), 3);
        assert_int_equal(fds.n, PROTO_FDS_MAX - 1);
        assert_int_equal(number_of(proto_fds_take(&fds, 3)), 4);
        proto_fds_deinit(&fds);
        assert_int_equal(test_count_fds(), before);
        /* A frame that never gets whole. */
        assert_int_equal(proto_decoder_push(&d, "\x09xx", 3, &e), 0);
        assert_int_equal(proto_decoder_push_fd(&d, make_file(1), 3, &e), 0);
        assert_int_equal(proto_decoder_next(&d, &frame, &size, &e), 0);
        assert_int_equal(test_count_fds(), before + 1);
        proto_decoder_deinit(&d);
        assert_int_equal(test_count_fds(), before);
        /* What comes with later bytes of a frame belongs to none, and does not wait for its end. */
        assert_int_equal(proto_decoder_push(&d, "\x09xx", 3, &e), 0);
        assert_int_equal(proto_decoder_next(&d, &frame, &size, &e), 0);
        assert_int_equal(proto_decoder_push(&d, "x", 1, &e), 0);
        assert_int_equal(proto_decoder_push_fd(&d, make_file(1), 1, &e), 0);
        assert_int_equal(proto_decoder_next(&d, &frame, &size, &e), 0);
        assert_int_equal(test_count_fds(), before);
        proto_decoder_deinit(&d);
        /* A broken stream keeps what it has until it is freed, and takes no more than it may. */
        d = PROTO_DECODER_INIT(10);
        assert_int_equal(proto_decoder_push(&d, "\x80\x80\x80\x80\x80\x80", 6, &e), 0);
        assert_int_equal(proto_decoder_push_fd(&d, make_file(1), 6, &e), 0);
        assert_true(proto_decoder_next(&d, &frame, &size, &e) < 0);
        for (unsigned i = 1; i < PROTO_FDS_MAX; i++)
                assert_int_equal(proto_decoder_push_fd(&d, make_file(1), 1, &e), 0);
        assert_int_equal(proto_decoder_push_fd(&d, make_file(1), 1, &e), -ERR_LIMIT);
        proto_decoder_deinit(&d);
        assert_int_equal(test_count_fds(), before);
}

static unsigned n_closed;

static void close_counting(int fd) {
        n_closed++;
        close(fd);
}

/* More than one with one call: the first is kept, the owner's function closes the others. */
static void test_many_at_once(void **state) {
        enum { N = 250 };
        union {
                struct cmsghdr align;
                char bytes[CMSG_SPACE(N * sizeof(int))];
        } control = {.bytes = {0}};
        struct iovec iov = {.iov_base = proto_borrow("x"), .iov_len = 1};
        struct msghdr m = {.msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = sizeof(control.bytes)};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        size_t before = test_count_fds();
        int sv[2], fds[N], fd = -1;
        char byte;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
        for (unsigned i = 0; i < N; i++)
                fds[i] = i ? sv[0] : make_file(7);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(fds));
        memcpy(CMSG_DATA(c), fds, sizeof(fds));
        assert_int_equal(sendmsg(sv[0], &m, 0), 1);
        close(fds[0]);
        assert_int_equal(proto_recv(sv[1], &byte, 1, 0, close_counting, &fd), 1);
        assert_int_equal(n_closed, N - 1);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        assert_int_equal(number_of(fd), 7);
        close(sv[0]);
        assert_int_equal(proto_recv(sv[1], &byte, 1, 0, NULL, &fd), 0);
        assert_int_equal(fd, -1);
        close(sv[1]);
        assert_int_equal(test_count_fds(), before);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_chunk),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_many_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
