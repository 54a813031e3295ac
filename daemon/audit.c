/* SPDX-License-Identifier: MIT */
#include "daemon/audit.h"
#include "service/log.h"
#include <stdio.h>

void audit_write(const struct audit *audit, const char *result, uint64_t bytes) {
        const struct log_field fields[] = {{"CONFAB_ACT", audit->what, 0},
                {"CONFAB_RESULT", result, 0}, {"CONFAB_BYTES", NULL, bytes}};
        const struct log_about about = {.owner = audit->uid,
                .pid = audit->pid,
                .conversation = audit->conversation,
                .fields = fields,
                .n_fields = bytes > 0 ? 3 : 2};

        log_event(audit->event, &about, "administrator uid %u (pid %d): %s: %s", audit->uid,
                audit->pid, audit->what, result);
}

void audit_log(struct request *request, struct engine_event *event) {
        char result[sizeof(event->err.msg) + 16];
        struct audit *audit = request->audit;
        uint64_t bytes = 0;

        switch (event->kind) {
        case ENGINE_ERROR:
                snprintf(result, sizeof(result), "failed: %s", event->err.msg);
                audit->event = LOGGED_ADMIN_ACT;
                break;
        case ENGINE_USER_ACTED:
                snprintf(result, sizeof(result),
                        "conversations: %llu, requests asked to end: %llu, in use: %llu",
                        (unsigned long long)event->acted.n_convs,
                        (unsigned long long)event->acted.n_requests,
                        (unsigned long long)event->acted.n_busy);
                break;
        case ENGINE_EXPORTED:
                bytes = event->exported.size;
                snprintf(result, sizeof(result), "made, bytes: %llu", (unsigned long long)bytes);
                break;
        case ENGINE_DRAINED:
                snprintf(result, sizeof(result), "done, requests cancelled: %llu",
                        (unsigned long long)event->drained.n_requests);
                break;
        case ENGINE_CHECKED:
                snprintf(result, sizeof(result),
                        "problems: %llu, sound records: %llu, forgotten: %llu, bytes read: %llu",
                        (unsigned long long)event->checked.n_problems,
                        (unsigned long long)event->checked.n_records,
                        (unsigned long long)event->checked.n_forgotten,
                        (unsigned long long)event->checked.read_size);
                break;
        case ENGINE_CONV:
                audit->conversation = event->conv.id;
                snprintf(result, sizeof(result), "done, conversation %llu",
                        (unsigned long long)event->conv.id);
                break;
        default:
                snprintf(result, sizeof(result), "done");
        }
        audit_write(audit, result, bytes);
}
