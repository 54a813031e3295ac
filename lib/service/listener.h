/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Listening sockets: from the service manager (socket activation), or one made here.
 *
 * A socket on which a daemon answers is left alone; one on which no daemon answers is stale and
 * replaced; anything that is not a socket is never removed. The socket has its final mode before
 * anyone can connect.
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct event;
struct event_base;

#define LISTENERS_MAX 8

struct listeners {
        int fds[LISTENERS_MAX];
        bool is_tcp[LISTENERS_MAX];
        struct event *events[LISTENERS_MAX];
        struct event *pause; /* fires when accepting resumes after running out of descriptors */
        unsigned n;
        char *path; /* of the socket made here, owned; NULL if passed in */
        dev_t dev;  /* identity of that socket, so that no other is unlinked */
        ino_t ino;
        void (*accepted)(void *arg, int fd);
        void *arg;
};
#define LISTENERS_NULL ((struct listeners){})

/* Bind or take over, without accepting yet. @group NULL: unchanged. The folder of @path is made if
 * it is missing (0755, less the umask), the folders above it are not. */
int listeners_open(
        struct listeners *l, const char *path, mode_t mode, const char *group, struct err *e);
/* The parts of it. Take over what the service manager passed: the number of sockets, or an error. @tcp: sockets of
 * TCP, too. @l is LISTENERS_NULL before. */
int listeners_take_over(struct listeners *l, bool tcp, struct err *e);
/* One more, at @path; there can be one such. On failure @l has what it had. */
int listeners_add_path(
        struct listeners *l, const char *path, mode_t mode, const char *group, struct err *e);
/* One more, at "ADDRESS:PORT": numbers, IPv6 in brackets. -ERR_INVALID, -ERR_SYS. */
int listeners_add_tcp(struct listeners *l, const char *address, struct err *e);
/* Whether what can reach the i-th socket is on this machine. */
bool listeners_is_local(const struct listeners *l, unsigned i);
/* "127.0.0.1:8080" of the i-th socket, which is one of TCP. */
struct listener_text {
        char s[80];
};
struct listener_text listeners_text(const struct listeners *l, unsigned i);
/* Call @accepted(@arg, fd) for each new connection; the fd is close-on-exec and nonblocking. */
int listeners_start(struct listeners *l, struct event_base *base,
        void (*accepted)(void *arg, int fd), void *arg, struct err *e);
/* Stop accepting, close, and remove the path if it is still ours. */
void listeners_close(struct listeners *l);
