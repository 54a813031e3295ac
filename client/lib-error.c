/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"
#include "client/lib-internal.h"
#include <stdio.h>
#include <string.h>

int error_set(struct confab_error *e, const char *code, bool retry, const char *fmt, ...) {
        va_list ap;

        if (!e)
                return -1;
        *e = (struct confab_error){.retry = retry};
        snprintf(e->code, sizeof(e->code), "%s", code);
        va_start(ap, fmt);
        vsnprintf(e->message, sizeof(e->message), fmt, ap);
        va_end(ap);
        /* a cut must not leave half a character */
        e->message[strlen(e->message) - utf8_incomplete_tail(e->message, strlen(e->message))] = 0;
        return -1;
}

int error_from_err(struct confab_error *e, const struct err *from) {
        return error_set(e, err_code_name(from->code), from->code == ERR_NOMEM, "%s", from->msg);
}

int error_copy(struct confab_error *e, const struct confab_error *from) {
        if (e)
                *e = *from;
        return -1;
}

bool confab_error_is(const struct confab_error *e, const char *code) {
        return strcmp(e->code, code) == 0;
}

static const char *name_of(const char *const *names, size_t n, unsigned i) {
        return i < n ? names[i] : "unknown";
}

const char *confab_role_name(enum confab_role role) {
        static const char *const names[] = {"none", "system", "user", "assistant", "raw", "tool"};

        return name_of(names, ARRAY_SIZE(names), role);
}

const char *confab_residency_name(enum confab_residency residency) {
        static const char *const names[] = {"none", "resident", "partial", "spilled", "cold"};

        return name_of(names, ARRAY_SIZE(names), residency);
}

const char *confab_differs_name(enum confab_differs differs) {
        static const char *const names[] = {
                "none", "end", "new", "token", "lost", "partial", "private", "shifted"};

        return name_of(names, ARRAY_SIZE(names), differs);
}

const char *confab_overflow_name(enum confab_overflow overflow) {
        static const char *const names[] = {"none", "error", "shift"};

        return name_of(names, ARRAY_SIZE(names), overflow);
}

const char *confab_part_name(enum confab_part_kind kind) {
        static const char *const names[] = {"none", "text", "reasoning", "call"};

        return name_of(names, ARRAY_SIZE(names), kind);
}

const char *confab_quota_origin_name(enum confab_quota_origin origin) {
        static const char *const names[] = {
                "none", "setting", "group", "user", "tenants", "tenant"};

        return name_of(names, ARRAY_SIZE(names), origin);
}

const char *confab_notice_name(enum confab_notice_kind kind) {
        static const char *const names[] = {"none", "model", "list_again", "opened", "forked",
                "turn_begun", "turn_ended", "changed", "rewound", "evicted", "restored", "closed",
                "pressure"};

        return name_of(names, ARRAY_SIZE(names), kind);
}

const char *confab_finish_name(enum confab_finish finish) {
        static const char *const names[] = {
                "none", "stop", "stop_string", "length", "context", "cancelled"};

        return name_of(names, ARRAY_SIZE(names), finish);
}
