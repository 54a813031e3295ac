/* SPDX-License-Identifier: MIT */
#pragma once
/* The daemon's end of a socket, played by a test: reads requests and writes events, one at a time,
 * blocking. Anything unexpected fails the test. */
#include "proto/proto.h"

struct peer {
        int fd;
        struct proto_decoder in;
        bool may_leave; /* the program asks by itself, and so may be gone when the answer comes */
};
/* The descriptor that came with the last request, or -1. */
int peer_take_fd(struct peer *p);
/* An Exported event with @fd (not taken over; -1: without one). */
void peer_send_exported(struct peer *p, uint64_t id, int fd, uint64_t size);

void peer_init(struct peer *p, int fd);
void peer_deinit(struct peer *p);
/* The next request, to be freed; NULL when the client has closed. */
struct proto_message *peer_next(struct peer *p);
/* The next request has to be this verb; its id is returned. */
uint64_t peer_expect(struct peer *p, Confab__V1__Request__VerbCase verb);
/* Take Hello and answer it. */
void peer_hello(struct peer *p);
void peer_send(struct peer *p, const Confab__V1__Event *event);
void peer_send_bytes(struct peer *p, const void *data, size_t n);

/* Events with typical content. */
void peer_send_hello(struct peer *p, uint64_t id, uint32_t version, uint32_t max_frame);
void peer_send_error(
        struct peer *p, uint64_t id, const char *code, const char *message, bool retry);
void peer_send_empty(struct peer *p, uint64_t id);
void peer_send_conversation(struct peer *p, uint64_t id, uint64_t conversation, const char *name);
/* One with turns of these roles, each of 10 tokens, at @revision. */
void peer_send_turns(
        struct peer *p, uint64_t id, uint64_t revision, const Confab__V1__Role *roles, size_t n);
/* One with turns of these texts, of the user and the assistant in turn. */
void peer_send_texts(struct peer *p, uint64_t id, const char *const *texts, size_t n);
/* A list of conversations with these names, numbered from 1, that is the last page. */
void peer_send_list(struct peer *p, uint64_t id, const char *const *names, size_t n);
void peer_send_accepted(struct peer *p, uint64_t id);
void peer_send_progress(struct peer *p, uint64_t id, uint32_t done, uint32_t total);
void peer_send_delta(struct peer *p, uint64_t id, const char *text);
void peer_send_done(struct peer *p, uint64_t id, Confab__V1__FinishReason finish);
