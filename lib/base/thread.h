/* SPDX-License-Identifier: MIT */
#pragma once
/* Threads that a library or the daemon starts for itself. */
#include <pthread.h>

/* As pthread_create(), with its results, but the thread takes no signals: these are for the threads that wait for them. One
 * that took SIGTERM and sleeps for long might handle it never. Any thread. */
int thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg);
