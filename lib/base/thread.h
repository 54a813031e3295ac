/* SPDX-License-Identifier: MIT */
#pragma once
/* Threads that a library or the daemon starts for itself. */
#include <pthread.h>
#include <stdbool.h>

/* As pthread_create(), with its results, but the thread takes no signals: these are for the threads that wait for them. One
 * that took SIGTERM and sleeps for long might handle it never. Any thread. */
int thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg);

/* Keep the calling thread to part @k (from 0) of @n parts of the processors that the process's first thread may run on:
 * every @n-th of them. For @n threads that do one thing together and often sleep, as on a disk: the system
 * wakes a sleeper where it ran last, and if two ran on one processor, leaves them there for milliseconds although
 * another one is idle. For as long as that takes, since it knows better what runs where in the long run. Of fewer processors
 * than parts, each has several threads. False, with nothing changed: there is one processor only, or the system refuses (seccomp),
 * or has more than 1024. Any thread but the first. */
bool thread_keep_to_part(unsigned k, unsigned n);
/* Let the calling thread run wherever the process's first thread may: after thread_keep_to_part(). */
void thread_keep_to_all(void);
