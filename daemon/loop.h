/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * libevent's events in memory of our own: its event_new() would share its name with whatever else
 * is called so in this program, and its allocations could not be made to fail by tests.
 */
struct event;
struct event_base;

/* As event_new(): @what of EV_READ, EV_WRITE, EV_SIGNAL, EV_PERSIST. NULL when there is no memory.
 */
struct event *loop_event_new(struct event_base *base, int fd, short what,
        void (*fn)(int fd, short what, void *arg), void *arg);
/* Takes it out of the loop; NULL is harmless. */
struct event *loop_event_free(struct event *ev);
