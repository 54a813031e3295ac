/* SPDX-License-Identifier: MIT */
#pragma once
/* Users: in settings, a name or a number (which asks the system's user database), and at the other end of a connection. Loop thread
 * only. */
#include <stdint.h>

struct err;

/* -ERR_INVALID: no such user. */
int uid_find(uint32_t *ret, const char *word, struct err *e);
/* Whose process of this machine has the other end of @fd, a connected socket of TCP. It reads the kernel's table of all
 * connections (/proc/net/tcp), so it takes a while where there are many. -ERR_NOT_FOUND: it is no process of this machine, or it
 * has closed its end; -ERR_SYS. */
int uid_of_tcp_peer(uint32_t *ret, int fd, struct err *e);
