/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * libevent's events in memory of our own: libevent's event_new() could clash with another function
 * of that name in this program, and tests could not make its allocations fail.
 */
struct event;
struct event_base;

/* As event_new(): @what of EV_READ, EV_WRITE, EV_SIGNAL, EV_PERSIST. NULL when there is no memory.
 */
struct event *loop_event_new(struct event_base *base, int fd, short what,
        void (*fn)(int fd, short what, void *arg), void *arg);
/* Also takes the event out of the loop; NULL is harmless. */
struct event *loop_event_free(struct event *ev);
