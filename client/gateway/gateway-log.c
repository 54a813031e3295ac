/* SPDX-License-Identifier: MIT */
/*
 * The request log (setting request-log): a line of the journal for each HTTP request that has ended.
 *
 * 1. The line has the pattern of the request's route, as "/v1/models/" and a star, not its path, since paths have names of conversations. The
 *    query, the fields and the bodies have tokens and what was said: nothing of them is in it.
 * 2. A request that came to no route has no path in it either.
 */
#include "client/gateway/gateway-private.h"
#include "service/log.h"
#include <stdio.h>

void gateway_log_request(const struct http_exchange *exchange, const struct gateway_route *route,
        const struct gateway_owner *owner, const struct http_summary *summary) {
        bool known = owner && owner->uid != (uint32_t)-1;
        const char *word = http_method_text(http_method(exchange)),
                   *method = word ? word : "(other)";
        const char *path = route ? route->pattern : "(no route)";
        const char *result = summary->complete ? "ok" : "aborted";
        const struct log_field fields[] = {{"CONFAB_METHOD", method, 0}, {"CONFAB_PATH", path, 0},
                {"CONFAB_STATUS", NULL, summary->status}, {"CONFAB_RESULT", result, 0},
                {"CONFAB_USEC", NULL, summary->usec},
                {"CONFAB_FIRST_USEC", NULL, summary->first_usec},
                {"CONFAB_BYTES_IN", NULL, summary->bytes_in},
                {"CONFAB_BYTES_OUT", NULL, summary->bytes_out}};
        const struct log_about about = {.owner = known ? owner->uid : OWNER_ANY,
                .tenant = known && owner->tenant[0] ? owner->tenant : NULL,
                .fields = fields,
                .n_fields = sizeof(fields) / sizeof(fields[0])};
        char whose[32] = "";

        if (known)
                snprintf(whose, sizeof(whose), " of user %u", owner->uid);
        log_event(LOGGED_HTTP_REQUEST, &about,
                "%s %s%s: %u%s in %.1f ms, begun after %.1f ms; body of %llu bytes, answer of %llu",
                method, path, whose, summary->status, summary->complete ? "" : ", aborted",
                (double)summary->usec / 1e3, (double)summary->first_usec / 1e3,
                (unsigned long long)summary->bytes_in, (unsigned long long)summary->bytes_out);
}
