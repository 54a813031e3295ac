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
 *
 * Any thread.
 */
#include <stdbool.h>

#define CLOSER_THREADS 8

/* True for a file in memory (memfd, tmpfs): no one is behind it. Does not wait. */
bool closer_is_memory(int fd);
void closer_close(int fd);
