/* SPDX-License-Identifier: MIT */
#include "base/err.h"
#include "base/utf8.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Messages travel in protobuf strings and JSON: a cut must not leave half a character. */
static void trim_cut(struct err *e, size_t wanted) {
        size_t n = strlen(e->msg);

        if (wanted >= sizeof(e->msg))
                e->msg[n - utf8_incomplete_tail(e->msg, n)] = 0;
}

int err_set_at(
        struct err *e, const char *file, int line, enum err_code code, const char *fmt, ...) {
        int saved = errno, n;
        va_list ap;

        if (e) {
                *e = (struct err){.code = code, .file = file, .line = line};
                va_start(ap, fmt);
                n = vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
                va_end(ap);
                if (code == ERR_SYS) {
                        size_t used = strlen(e->msg);
                        char text[96];

                        e->sys = saved;
                        n += snprintf(e->msg + used, sizeof(e->msg) - used, ": %s",
                                strerror_r(saved, text, sizeof(text)));
                }
                trim_cut(e, n < 0 ? 0 : (size_t)n);
        }
        errno = saved;
        return -(int)code;
}

int err_wrap_at(struct err *e, int r, const char *fmt, ...) {
        char tail[sizeof(e->msg)];
        int saved = errno, n;
        size_t used;
        va_list ap;

        if (!e || r >= 0)
                return r;
        memcpy(tail, e->msg, sizeof(tail));
        va_start(ap, fmt);
        n = vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
        va_end(ap);
        used = strlen(e->msg);
        n += snprintf(e->msg + used, sizeof(e->msg) - used, ": %.*s", (int)sizeof(tail) - 1, tail);
        trim_cut(e, n < 0 ? 0 : (size_t)n);
        errno = saved;
        return r;
}

const char *err_code_name(enum err_code code) {
        static const char *const names[ERR_N_CODES] = {
                [ERR_NONE] = "none",
                [ERR_NOMEM] = "no_memory",
                [ERR_SYS] = "system",
                [ERR_FORMAT] = "format",
                [ERR_CORRUPT] = "corrupt",
                [ERR_UNSUPPORTED] = "unsupported",
                [ERR_LIMIT] = "limit",
                [ERR_STATE] = "state",
                [ERR_INVALID] = "invalid",
                [ERR_CANCELLED] = "cancelled",
                [ERR_NOT_FOUND] = "not_found",
                [ERR_EXISTS] = "exists",
                [ERR_BUSY] = "busy",
                [ERR_CONFLICT] = "conflict",
                [ERR_CONTEXT] = "context_length_exceeded",
                [ERR_PERMISSION] = "permission",
                [ERR_SHUTDOWN] = "shutdown",
                [ERR_TOO_LARGE] = "limit",
                [ERR_UNAVAILABLE] = "unavailable",
                [ERR_MOVED] = "moved",
        };

        return (unsigned)code < ERR_N_CODES ? names[code] : "unknown";
}

/* System calls that fail because something is used up: a disk, descriptors, memory. */
static bool is_used_up(int sys) {
        switch (sys) {
        case ENOSPC:
        case EDQUOT:
        case EMFILE:
        case ENFILE:
        case ENOMEM:
        case ENOBUFS:
        case EAGAIN:
                return true;
        default:
                return false;
        }
}

/* Without a default, so that a new code does not compile before it has its answer. */
bool err_may_pass(const struct err *e) {
        switch (e->code) {
        case ERR_NOMEM:
        case ERR_LIMIT:
        case ERR_BUSY:
        case ERR_SHUTDOWN:
        case ERR_UNAVAILABLE:
        case ERR_MOVED:
                return true;
        case ERR_SYS:
                return is_used_up(e->sys);
        case ERR_NONE:
        case ERR_FORMAT:
        case ERR_CORRUPT:
        case ERR_UNSUPPORTED:
        case ERR_STATE:
        case ERR_INVALID:
        case ERR_CANCELLED:
        case ERR_NOT_FOUND:
        case ERR_EXISTS:
        case ERR_CONFLICT:
        case ERR_CONTEXT:
        case ERR_PERMISSION:
        case ERR_TOO_LARGE:
        case ERR_N_CODES:
                return false;
        }
        return false;
}
