/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Closing descriptors that a peer gave us. close(2) may wait for the other side: a file system in
 * user space that answers when it likes, a socket that lingers for years. The loop thread must not
 * wait (I7), so descriptors other than memory files are closed by dedicated threads.
 *
 * 1. closer_close() never waits.
 * 2. There are at most CLOSER_THREADS threads. Further descriptors stay open and wait for them,
 *    within the process's limit of descriptors.
 * 3. Once closer_start() has succeeded there is at least one thread. If the system provides no
 *    more, the descriptors wait for the existing threads.
 *
 * Any thread.
 */
#include <stdbool.h>

struct err;

#define CLOSER_THREADS 8

/* True for a file in memory (memfd, tmpfs), which close(2) does not wait for. Does not wait. */
bool closer_is_memory(int fd);
/* Start the first thread. 0, also if it exists already, or -ERR_SYS. */
int closer_start(struct err *e);
void closer_close(int fd);
