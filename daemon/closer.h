/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Closing descriptors that a peer gave us. close(2) may wait for whoever is behind one: a file
 * system in user space that answers when it likes, a socket that lingers for years. The loop thread
 * must not (I7), so all but memory files are closed by threads that do nothing else.
 *
 * 1. closer_close() never waits.
 * 2. At most CLOSER_THREADS threads; what they do not get to stays open and waits for them, within
 *    the process's limit of descriptors.
 * 3. Once closer_start() has succeeded there is at least one thread. When the system has none to
 *    give for more, the descriptors wait for those that there are.
 *
 * Any thread.
 */
#include <stdbool.h>

struct err;

#define CLOSER_THREADS 8

/* True for a file in memory (memfd, tmpfs): no one is behind it. Does not wait. */
bool closer_is_memory(int fd);
/* Start the first thread. 0, also when it is there already, or -ERR_SYS. */
int closer_start(struct err *e);
void closer_close(int fd);
