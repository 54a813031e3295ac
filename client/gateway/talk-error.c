/* SPDX-License-Identifier: MIT */
/*
 * What an error of the daemon is in HTTP.
 *
 * Clients retry 409, 429 and 5xx, and wait as Retry-After says, so these are the statuses of what may be over
 * in a moment. A request that will fail again gets another 4xx. 499 is for a request that was cancelled: nobody is
 * there to read it, as a rule.
 */
#include "client/gateway/talk-private.h"

static const struct row {
        const char *code;
        unsigned status;       /* if it may succeed later */
        unsigned final_status; /* if not; 0: the same */
        unsigned retry_after;
} rows[] = {
        {CONFAB_NOT_FOUND, 404, 0, 0},
        {CONFAB_EXISTS, 409, 0, 0},
        {CONFAB_BUSY, 409, 0, 1},
        {CONFAB_MOVED, 409, 0, 1},
        {CONFAB_CONFLICT, 409, 0, 1},
        {CONFAB_LIMIT, 429, 413, 1},
        {CONFAB_CONTEXT, 400, 0, 0},
        {CONFAB_INVALID, 400, 0, 0},
        {CONFAB_STATE, 400, 0, 0},
        {"format", 400, 0, 0}, /* a file that is imported */
        {CONFAB_UNSUPPORTED, 400, 0, 0},
        {CONFAB_PERMISSION, 403, 0, 0},
        {CONFAB_CANCELLED, 499, 0, 0},
        {CONFAB_SHUTDOWN, 503, 0, 2},
        {CONFAB_UNAVAILABLE, 503, 0, 5},
        {CONFAB_NO_DAEMON, 503, 0, 2},
        {CONFAB_DISCONNECTED, 503, 0, 1},
        {CONFAB_NO_MEMORY, 503, 0, 1},
        {CONFAB_SYSTEM, 503, 500, 1},
        {CONFAB_PROTOCOL, 502, 0, 0},
};

const struct talk_error talk_error_cancelled = {.status = 409,
        .code = CONFAB_CANCELLED,
        .message = "the reply was cancelled by another request"};

void talk_error_from(struct talk_error *ret, const struct confab_error *error) {
        const struct row *row = NULL;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (confab_error_is(error, rows[i].code))
                        row = &rows[i];
        *ret = (struct talk_error){.status = 500, .code = error->code, .message = error->message};
        if (confab_error_is(error, CONFAB_MOVED))
                ret->address = error->address;
        if (row) {
                bool is_final = !error->retry && row->final_status;

                ret->status = is_final ? row->final_status : row->status;
                ret->retry_after = is_final ? 0 : row->retry_after;
                ret->code = row->code;
        } else if (error->retry) {
                ret->status = 503;
                ret->retry_after = 1;
        }
}
