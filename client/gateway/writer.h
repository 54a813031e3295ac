/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A writer makes the bytes of one reply, in its dialect, of the events of a talk with one choice. It knows no server:
 * what it writes goes to `put`.
 *
 * 1. begin() comes first, once; then any number of delta() and idle(), and at last done() or failed(), once. failed() may
 *    come alone.
 * 2. A reply that is streamed is put piece by piece. One that is not is put whole, by done(); its begin(), delta() and
 *    idle() put nothing, and failed() is not called.
 * 3. begin() and delta() may return 1, if the writer asked for that in what it was made of: of begin() it means that what was put
 *    is the whole answer, and the reply goes on without a reader (it is detached); of delta() that the reply has said
 *    enough: it is cancelled, done() follows, and that is no failure.
 * 4. After a failure (-ERR_NOMEM, or what put() returned) the writer is of no use but for writer_free().
 */
#include "base/buf.h"
#include "client/gateway/talk.h"

struct writer;

struct writer_ops {
        int (*begin)(struct writer *writer, const struct backend_model *model,
                const struct talk_place *place, const struct talk_usage *usage);
        int (*delta)(struct writer *writer, const struct confab_delta *delta);
        /* Nothing was written for a while: say something that says nothing. Or NULL. */
        int (*idle)(struct writer *writer);
        /* Not of a reply that was cancelled: that failed. 1: the end is not known yet; writer_end() follows. */
        int (*done)(struct writer *writer, const struct confab_done *done,
                const struct talk_usage *usage);
        int (*failed)(struct writer *writer, const struct talk_error *error);
        struct writer *(*free)(struct writer *writer);
};

struct writer {
        const struct writer_ops *ops;
        /* One event of this name (NULL where the dialect has no names), or the whole reply. */
        int (*put)(void *userdata, const char *name, const struct buf *json);
        void *userdata;
};

/* Whether a call's arguments are one JSON object, nested at most 64 deep: 1, 0, or -ERR_NOMEM. */
int writer_is_object(const char *text, size_t size);
/* NULL is harmless; returns NULL. */
static inline struct writer *writer_free(struct writer *writer) {
        return writer ? writer->ops->free(writer) : NULL;
}
