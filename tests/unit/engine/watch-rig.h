/* SPDX-License-Identifier: MIT */
#pragma once
/* Watchers of an engine: what they are told, in order. */
#include "rig.h"

enum { WATCH_MAX = 8192, WATCH_WATCHERS = 8 };

struct seen {
        enum engine_notice_kind kind;
        char cursor[ENGINE_CURSOR_MAX + 1], model[64], tenant[ENGINE_NAME_MAX + 1];
        uint64_t owner;
        uint64_t conv, revision, parent, fingerprint, budget;
        enum engine_finish finish;
        bool pressed;
};
struct watcher {
        struct answer answer; /* of the Watch itself */
        uint64_t handle;
        struct seen *seen; /* [n]: since it began, MODEL is the first */
        size_t n, at;      /* at: the next one that watch_expect() looks at */
};

struct watch_request {
        const char *cursor;
        uint64_t owner;
        bool all, pressure;
};
/* Begin to watch; the answer to MODEL is not awaited. */
struct watcher *watch_begin(struct erig *r, const struct watch_request *q);
/* Take events until the watcher has seen @n notices in all. */
void watch_wait(struct erig *r, struct watcher *w, size_t n);
/* Take the next notice, which must be of this kind. */
const struct seen *watch_next(struct erig *r, struct watcher *w, enum engine_notice_kind kind);
/* The same, about conversation @conv. */
const struct seen *watch_expect(
        struct erig *r, struct watcher *w, enum engine_notice_kind kind, uint64_t conv);
/* Nothing more has come, and nothing more will without another change. */
void watch_nothing(struct erig *r, struct watcher *w);
/* Cancel it, and wait for its end. */
void watch_end(struct erig *r, struct watcher *w);
/* Forget a watcher that has ended, or whose engine is gone. */
void watch_forget(struct watcher *w);
