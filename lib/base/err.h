/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Errors as values.
 *
 * A function returns 0 for success, a positive documented outcome, or a negative error code
 * (-ERR_X) with the caller's struct err filled. @e may always be NULL. Outputs are untouched on
 * failure. Nothing here allocates; any thread.
 */
#include <stdarg.h>
#include <stdbool.h>

enum err_code {
        ERR_NONE,
        ERR_NOMEM,       /* allocation failed */
        ERR_SYS,         /* system call failed, see err.sys */
        ERR_FORMAT,      /* file or message breaks its format */
        ERR_CORRUPT,     /* checksum or identity mismatch of stored data */
        ERR_UNSUPPORTED, /* well-formed, but not handled by this build */
        ERR_LIMIT,       /* a quota, queue or budget is full now */
        ERR_STATE,       /* not possible in the object's present state */
        ERR_INVALID,     /* argument out of range or malformed */
        ERR_CANCELLED,
        ERR_NOT_FOUND,
        ERR_EXISTS,
        ERR_BUSY,     /* another request holds the conversation */
        ERR_CONFLICT, /* expect_revision did not match */
        ERR_CONTEXT,  /* context_length_exceeded */
        ERR_PERMISSION,
        ERR_SHUTDOWN,    /* the service is stopping */
        ERR_TOO_LARGE,   /* beyond a fixed limit: it will never fit */
        ERR_UNAVAILABLE, /* the service cannot start, or can't reach what it needs */
        ERR_MOVED,       /* another machine holds the conversation */
        ERR_N_CODES
};

struct err {
        enum err_code code;
        int sys;          /* errno for ERR_SYS, else 0 */
        const char *file; /* where it was raised */
        int line;
        char msg[256]; /* one sentence, without final stop, cut to fit */
};

/* Fill *e (may be NULL) and return -code. For ERR_SYS errno is recorded and ": strerror" appended.
 */
#define err_set(e, code, ...) err_set_at((e), __FILE__, __LINE__, (code), __VA_ARGS__)
/* Put "context: " in front of the message of a failed call; returns @r unchanged. No-op if r >= 0.
 */
#define err_wrap(e, r, ...) err_wrap_at((e), (r), __VA_ARGS__)

int err_set_at(struct err *e, const char *file, int line, enum err_code code, const char *fmt, ...)
        __attribute__((format(printf, 5, 6)));
int err_wrap_at(struct err *e, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Stable lower-case name of a code ("not_found"); "unknown" if out of range. ERR_LIMIT and
 * ERR_TOO_LARGE share the name "limit"; err_may_pass() tells them apart for clients. */
const char *err_code_name(enum err_code code);
/* Whether the same call may succeed later without any change by the caller: something is full,
 * taken or about to go away. False if it will fail again, or if that is unknown. */
bool err_may_pass(const struct err *e);
/* err_set() of an allocation that failed, where there is nothing more to say of it. */
#define err_no_memory(e) err_set((e), ERR_NOMEM, "out of memory")
