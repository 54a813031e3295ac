/* SPDX-License-Identifier: MIT */
/* Whose socket is at the path already. */
#include "daemon-fixture.h"
#include "service/listener.h"
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* A socket that listens at f->socket, with no place in its queue. */
static int listen_at(struct fixture *f) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        memcpy(a.sun_path, f->socket, strlen(f->socket) + 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(listen(fd, 0), 0);
        return fd;
}

/* A daemon that is there but takes no further connection now is not dead. */
static void test_full_queue_is_no_stale_socket(void **state) {
        struct fixture *f = *state;
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        struct listeners l;
        struct stat before, after;
        int fd = listen_at(f), clients[16];
        size_t n = 0;

        memcpy(a.sun_path, f->socket, strlen(f->socket) + 1);
        for (;;) {
                assert_true(n < ARRAY_SIZE(clients));
                clients[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                if (connect(clients[n++], (struct sockaddr *)&a, sizeof(a)) < 0)
                        break;
        }
        assert_int_equal(errno, EAGAIN);
        assert_int_equal(stat(f->socket, &before), 0);
        assert_int_equal(listeners_open(&l, f->socket, 0600, NULL, &f->e), -ERR_BUSY);
        assert_int_equal(stat(f->socket, &after), 0);
        assert_int_equal(after.st_ino, before.st_ino);
        while (n > 0)
                close(clients[--n]);
        close(fd);
}

static void test_stale_socket_is_replaced(void **state) {
        struct fixture *f = *state;
        struct listeners l;

        close(listen_at(f));
        assert_int_equal(listeners_open(&l, f->socket, 0600, NULL, &f->e), 0);
        listeners_close(&l);
        assert_int_equal(access(f->socket, F_OK), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test_closed(test_full_queue_is_no_stale_socket),
                daemon_test_closed(test_stale_socket_is_replaced),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
