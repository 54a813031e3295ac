/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The request log (setting request-log): one line of the journal for each request of a peer that has ended, with fields for whose it
 * was, what it took and how it ended (LOGGED_REQUEST). Never with anything that was said, nor with names.
 *
 *     request_log_begin() ──▶ noted ──final answer: request_log_answer()──▶ told
 *                               ├── the connection ends first: request_log_leave() ──▶ told ("disconnected")
 *                               └── likewise, but the request is detached ──▶ alone ──final event──▶ told
 *
 * 1. A note exists from the time when a request is looked at until its line is written. It belongs to its peer, in whose list it is found by the
 *    request's id; where the request goes to the engine as it came, the request refers to it, and the engine's events fill it
 *    in.
 * 2. A note that is alone belongs to its request.
 * 3. While the setting is off there are no notes, and a request costs nothing. Without memory for a note its line is missing.
 *
 * Loop thread only.
 */
#include "base/list.h"
#include "engine/engine.h"
#include <stddef.h>
#include <stdint.h>

struct peer;
struct request;
struct request_note;

/* A request of @p has come: @id, the name of the verb (static), and the bytes of its message. */
void request_log_begin(struct peer *p, uint64_t id, const char *verb, size_t n_bytes);
/* It is to be given to the engine by @request, about the conversation @conv, or 0. */
void request_log_submit(struct peer *p, struct request *request, uint64_t conv);
/* @request is a copy, and takes the place of the one that was copied. */
void request_log_move(struct request *request);
/* An event of the engine for a request. The last one of a request that is alone ends it. */
void request_log_event(struct request *request, struct engine_event *event);
/* @n_bytes of answers to the request @id were given to the connection. */
void request_log_bytes(struct peer *p, uint64_t id, size_t n_bytes);
/* Its last answer was: @result is "ok" or the code of an error. */
void request_log_answer(struct peer *p, uint64_t id, const char *result);
/* The peer goes. Before its requests are disowned. */
void request_log_leave(struct peer *p);
/* @request is freed: before it is disowned. A note that is alone goes with it. */
void request_log_free(struct request *request);
