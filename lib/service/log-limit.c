/* SPDX-License-Identifier: MIT */
#include "service/log-limit.h"

static bool is_over(const struct log_limit *limit, uint64_t now) {
        return now - limit->since >= LOG_INTERVAL_USEC;
}

/* The place of @owner, a new one if it has none (rule 2). */
static struct log_limit *find(struct log_limits *limits, uint64_t owner, uint64_t now) {
        struct log_limit *place = NULL;

        for (size_t i = 0; i < LOG_USERS; i++) {
                struct log_limit *limit = &limits->owners[i];

                if (limit->used && limit->owner == owner)
                        return limit;
                if (limit->used && (!is_over(limit, now) || limit->left_out > 0))
                        continue;
                if (!place || (place->used && (!limit->used || limit->since < place->since)))
                        place = limit;
        }
        if (!place) {
                limits->others.owner = OWNER_ANY;
                return &limits->others;
        }
        *place = (struct log_limit){.used = true, .owner = owner, .since = now};
        return place;
}

bool log_limits_allow(struct log_limits *limits, uint64_t owner, uint64_t now) {
        struct log_limit *limit = find(limits, owner, now);

        if (is_over(limit, now) && limit->left_out == 0) {
                limit->since = now;
                limit->n = 0;
        }
        if (now - limits->since >= LOG_INTERVAL_USEC) {
                limits->since = now;
                limits->n = 0;
        }
        if (limit->n >= LOG_BURST || limits->n >= LOG_TOTAL) {
                limits->n_left_out += limit->left_out++ == 0;
                return false;
        }
        limit->n++;
        limits->n++;
        return true;
}

static unsigned take(struct log_limits *limits, struct log_limit *limit, uint64_t *ret_owner) {
        unsigned n = limit->left_out;

        *ret_owner = limit->owner;
        limit->left_out = 0;
        limits->n_left_out--;
        return n;
}

unsigned log_limits_next(struct log_limits *limits, uint64_t now, bool all, uint64_t *ret_owner) {
        for (size_t i = 0; limits->n_left_out > 0 && i <= LOG_USERS; i++) {
                struct log_limit *limit = i < LOG_USERS ? &limits->owners[i] : &limits->others;

                if (limit->left_out > 0 && (all || is_over(limit, now)))
                        return take(limits, limit, ret_owner);
        }
        return 0;
}
