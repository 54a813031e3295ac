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
/* Call @accepted(@arg, fd) for each new connection; the fd is close-on-exec and nonblocking. */
int listeners_start(struct listeners *l, struct event_base *base,
        void (*accepted)(void *arg, int fd), void *arg, struct err *e);
/* Stop accepting, close, and remove the path if it is still ours. */
void listeners_close(struct listeners *l);
