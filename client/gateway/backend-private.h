/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to backend*.c: what a daemon and a line are made of. */
#include "base/list.h"
#include "client/gateway/backend.h"
#include <event2/event.h>
#include <event2/event_struct.h>

#define LINES_MAX 4096           /* in all */
#define LINES_IDLE_MAX 256       /* in all */
#define LINES_IDLE_PER_OWNER 16  /* and daemon */
#define LINE_IDLE_SECONDS 30     /* then an idle line is closed */
#define BACKEND_ANSWER_SECONDS 5 /* for an answer to backends_refresh() */

struct backends {
        struct event_base *base; /* not owned */
        struct backend *items;   /* [n_items] */
        size_t n_items;
        struct list waiters;  /* struct waiter, of backends_refresh() */
        struct event settled; /* calls them */
        struct list guests;
        struct backend_figures figures;
        bool shares; /* a daemon has said that others share its register */
};

/* A daemon. */
struct backend {
        struct backends *backends;
        char *socket;
        struct backend_model model;
        uint64_t known_usec;       /* monotonic: when `model` was learned */
        bool told, told_reachable; /* the journal was told of the daemon; as what */
        bool one_system;
        struct meter meter;
        struct list lines;  /* all, idle ones too */
        struct line *probe; /* that backends_refresh() asks, or NULL */
        struct event late;  /* the probe takes too long */
};

/* Keep what a daemon has told of its model. */
void backend_learn(struct backend *backend, const struct confab_model_info *info);
/* The daemon was reached, or was not: @why is a few words. The journal is told of changes, and how it was first. */
void backend_set_reachable(struct backend *backend, bool reachable, const char *why);
/* Close all lines to a daemon that are not in use. */
void backend_drop_idle(struct backend *backend);
/* Likewise all; those in use have lost their owners' interest. */
void backend_drop_all(struct backend *backend);
