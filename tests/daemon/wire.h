/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A small client of the protocol for tests: requests out, events in, and raw bytes for tests that
 * misbehave. @idle does the waiting, so that the same code can talk to a daemon in another process
 * (poll) and to one in this process (run its loop once).
 */
#include "proto/proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire {
        int fd;
        struct proto_decoder in;
        uint64_t next_id;
        bool eof; /* the daemon closed the connection */
        /* Called when nothing is to be read yet; false: give up (the caller then gets NULL). */
        bool (*idle)(struct wire *w);
        void *arg;
};

/* Waits with poll(), at most WIRE_TIMEOUT_MSEC for one event. */
#define WIRE_TIMEOUT_MSEC 120000
bool wire_poll(struct wire *w);

/* Connect to the socket at @path: 0, or -errno. Sends nothing yet. */
int wire_connect(struct wire *w, const char *path, bool (*idle)(struct wire *w), void *arg);
void wire_close(struct wire *w);

/* Send all @n bytes, waiting if necessary; false when the connection is gone. */
bool wire_send_bytes(struct wire *w, const void *data, size_t n);
/* Send as much as the socket accepts at once. */
size_t wire_send_some(struct wire *w, const void *data, size_t n);
/* Gives @r an id if it has none; returns the id, or 0 when the connection is gone. */
uint64_t wire_send(struct wire *w, Confab__V1__Request *r);
/* The same with descriptors (not taken over), in a call of its own. */
#define WIRE_FDS_MAX 64
uint64_t wire_send_fds(struct wire *w, Confab__V1__Request *r, const int *fds, size_t n_fds);
/* Any bytes with descriptors. */
bool wire_send_bytes_fds(struct wire *w, const void *data, size_t n, const int *fds, size_t n_fds);
/* The descriptor that came with the last event (the caller's), or -1. */
int wire_take_fd(struct wire *w);
/* Hello of this version and frame limit (0: none said). */
uint64_t wire_send_hello(struct wire *w, uint32_t version, uint32_t max_frame);
/* Hello that names for whom the client acts: *act_uid, unless NULL, and @tenant, unless NULL. */
uint64_t wire_send_hello_for(struct wire *w, const uint32_t *act_uid, const char *tenant);
/* Hello, and its answer: true if the daemon agrees. */
bool wire_hello(struct wire *w);

/* The next event, to be freed; NULL at the end of the connection (w->eof) or when idle gave up. */
struct proto_message *wire_event(struct wire *w);
/* Only what is there already. */
struct proto_message *wire_event_now(struct wire *w);
/* The next event for request @id; others are dropped. */
struct proto_message *wire_event_for(struct wire *w, uint64_t id);
/* True once the daemon has closed; drops events that come before. */
bool wire_wait_eof(struct wire *w);
