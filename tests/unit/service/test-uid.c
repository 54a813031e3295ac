/* SPDX-License-Identifier: MIT */
/* Users: by name or number, and at the other end of a connection. */
#include "base/err.h"
#include "service/uid.h"
#include "util/fds.h"
#include "util/test.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER 12345

static void test_find(void **state) {
        uint32_t uid = 7;
        struct err e;

        assert_int_equal(uid_find(&uid, "root", &e), 0);
        assert_int_equal(uid, 0);
        assert_int_equal(uid_find(&uid, "4294967294", &e), 0);
        assert_int_equal(uid, 4294967294u);
        assert_int_equal(uid_find(&uid, "4294967295", &e), -ERR_INVALID);
        assert_int_equal(uid_find(&uid, "no-such-user-anywhere", &e), -ERR_INVALID);
}

union address {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

/* A socket that listens on any port of the loopback; false: there is no such family here. */
static bool listen_on(sa_family_t family, int *ret, union address *address, socklen_t *size) {
        *address = (union address){};
        address->any.sa_family = family;
        if (family == AF_INET)
                address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        else
                address->v6.sin6_addr = in6addr_loopback;
        *size = family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
        *ret = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*ret < 0)
                return false;
        if (bind(*ret, &address->any, *size) < 0) {
                close(*ret);
                return false;
        }
        assert_int_equal(listen(*ret, 10), 0);
        assert_int_equal(getsockname(*ret, &address->any, size), 0);
        return true;
}

static int connect_to(const union address *address, socklen_t size) {
        int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_int_equal(connect(fd, &address->any, size), 0);
        return fd;
}

static void test_peer(void **state) {
        static const sa_family_t families[] = {AF_INET, AF_INET6};
        size_t n_fds = test_count_fds();

        for (size_t i = 0; i < 2; i++) {
                union address address;
                int listener, ours, theirs;
                socklen_t size;
                uint32_t uid = OTHER;
                struct err e;

                if (!listen_on(families[i], &listener, &address, &size))
                        continue;
                for (unsigned j = 0; j < 3; j++) { /* several that differ by a port alone */
                        theirs = connect_to(&address, size);
                        ours = accept(listener, NULL, NULL);
                        assert_int_equal(uid_of_tcp_peer(&uid, ours, &e), 0);
                        assert_int_equal(uid, geteuid());
                        /* from there the other end is this process, too */
                        assert_int_equal(uid_of_tcp_peer(&uid, theirs, &e), 0);
                        /* nobody's, once it is closed */
                        close(theirs);
                        assert_int_equal(uid_of_tcp_peer(&uid, ours, &e), -ERR_NOT_FOUND);
                        close(ours);
                }
                assert_int_equal(uid_of_tcp_peer(&uid, listener, &e), -ERR_SYS);
                close(listener);
        }
        assert_int_equal(test_count_fds(), n_fds);
}

/* A child that is another user. */
static void test_other_user(void **state) {
        union address address;
        int listener, ours, status;
        uint32_t uid = 0;
        socklen_t size;
        struct err e;
        pid_t child;

        if (geteuid() != 0 || !listen_on(AF_INET, &listener, &address, &size))
                skip();
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                char byte;
                int fd = setuid(OTHER) == 0 ? socket(AF_INET, SOCK_STREAM, 0) : -1;

                /* until the test has looked */
                _exit(fd < 0 || connect(fd, &address.any, size) < 0 || read(fd, &byte, 1) != 1);
        }
        ours = accept(listener, NULL, NULL);
        assert_int_equal(uid_of_tcp_peer(&uid, ours, &e), 0);
        assert_int_equal(uid, OTHER);
        assert_int_equal(write(ours, "x", 1), 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        close(ours);
        close(listener);
}

static void test_no_connection(void **state) {
        int fds[2];
        uint32_t uid = OTHER;
        struct err e;

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        assert_true(uid_of_tcp_peer(&uid, fds[0], &e) < 0);
        assert_int_equal(uid, OTHER);
        close(fds[0]);
        close(fds[1]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_find),
                cmocka_unit_test(test_peer),
                cmocka_unit_test(test_other_user),
                cmocka_unit_test(test_no_connection),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
