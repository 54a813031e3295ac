/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * How many messages each owner may bring about. Private to log*.c; pure: the time is given.
 *
 * 1. An owner's interval begins with its first message and lasts LOG_INTERVAL_USEC. In it LOG_BURST messages pass, and further
 *    ones are counted.
 * 2. LOG_USERS owners have a count of their own. Only an owner whose interval is over gives its place to another one, the one
 *    that began longest ago first. So an owner never gets a second burst by having been forgotten. Who finds no place shares
 *    one more count with all others who find none.
 * 3. Of all owners together LOG_TOTAL messages pass in an interval, so that the journal's own limit for a service, which would
 *    leave out any line, is not reached.
 * 4. A count of what was left out is told before it is forgotten: log_limits_next() is to be called before log_limits_allow().
 */
#include "service/log.h"

struct log_limit {
        bool used;
        uint64_t owner, since;
        unsigned n, left_out;
};

struct log_limits {
        struct log_limit owners[LOG_USERS];
        struct log_limit others; /* rule 2; its owner is OWNER_ANY */
        uint64_t since;          /* of rule 3 */
        unsigned n;
        size_t n_left_out; /* counts that are not 0 */
};

/* May one more message about @owner be written? False: it was counted. OWNER_ANY, "nobody", counts like an owner. */
bool log_limits_allow(struct log_limits *limits, uint64_t owner, uint64_t now);
/* The next count that is to be told: *ret_owner, and the number of messages; 0: none is due. @all: also of intervals that
 * are not over. */
unsigned log_limits_next(struct log_limits *limits, uint64_t now, bool all, uint64_t *ret_owner);
