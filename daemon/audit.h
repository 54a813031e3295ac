/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What administrators do, in the journal: who, what, on whom, and how it ended. One line for each act, at the level
 * "notice", written when the act is over, also when its peer has gone meanwhile. Looking (settings, users) is no act. Conversations
 * are told of by their ids: their names are their owners' (logged.h, rule 5).
 * Loop thread only.
 */
#include "daemon/requests.h"
#include "service/logged.h"

struct audit {
        enum logged event; /* which kind of act, if it succeeds; a failed one is LOGGED_ADMIN_ACT */
        uint32_t uid;      /* who */
        int32_t pid;
        uint64_t conversation; /* or 0 */
        char what[256];        /* "purging user 1000" */
};

/* The act has ended with @event. */
void audit_log(struct request *request, struct engine_event *event);
/* It has ended with @result, a few words; @bytes of something were made, or 0. */
void audit_write(const struct audit *audit, const char *result, uint64_t bytes);
