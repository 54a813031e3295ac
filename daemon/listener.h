/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Listening sockets: from the service manager (socket activation), or one that is made here.
 *
 * A path that a daemon answers on is left alone; a socket nobody answers on is stale and replaced;
 * anything that is not a socket is never removed. The socket has its final mode before anybody can
 * connect.
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
        struct event *pause; /* fires when accepting goes on after running out of descriptors */
        unsigned n;
        char *path; /* of the one made here, owned; NULL if passed in */
        dev_t dev;  /* and its identity, so that only ours is unlinked */
        ino_t ino;
        void (*accepted)(void *arg, int fd);
        void *arg;
};
#define LISTENERS_NULL ((struct listeners){})

/* Bind or take over, without accepting yet. @group NULL: unchanged. The folder of @path is made if
 * it is missing (0755, less the umask), those above it are not. */
int listeners_open(
        struct listeners *l, const char *path, mode_t mode, const char *group, struct err *e);
/* Call @accepted(@arg, fd) for each new connection; the fd is close-on-exec and nonblocking. */
int listeners_start(struct listeners *l, struct event_base *base,
        void (*accepted)(void *arg, int fd), void *arg, struct err *e);
/* Stop accepting, close, and remove the path if it is still ours. */
void listeners_close(struct listeners *l);
