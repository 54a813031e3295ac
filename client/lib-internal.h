/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to libconfab: how a request becomes a frame, and a message an event. */
#include "base/err.h"
#include "base/list.h"
#include "client/confab.h"
#include "proto/proto.h"

/* Copy to *ret the part of @r that this library knows: a caller built with an older or newer header
 * has a shorter or longer struct. -ERR_INVALID, -ERR_UNSUPPORTED. */
int request_normalise(struct confab_request *ret, const struct confab_request *r, struct err *e);
/* Append @r, normalised, as a frame with @id to @out. Errors as confab_submit(); @out is then
 * unchanged. */
int request_append(struct buf *out, const struct confab_request *r, uint64_t id, uint32_t max_frame,
        struct err *e);

/* The messages of the protocol: *ret, one block for the caller to free, which borrows strings from
 * @from. -ERR_INVALID with the number of the message, -ERR_NOMEM. */
int messages_put(
        Confab__V1__Message ***ret, const struct confab_message *from, size_t n, struct err *e);

/* Append @size bytes of import @id, in as many frames as @max_frame makes necessary. @out is unchanged on
 * failure. */
int request_append_chunk(struct buf *out, uint64_t id, const void *data, size_t size, bool last,
        uint32_t max_frame, struct err *e);

/* The memory behind one event. */
struct view {
        struct list blocks;
        struct confab_event event;
        union {
                struct confab_error error;
                struct confab_accepted accepted;
                struct confab_progress progress;
                struct confab_delta delta;
                struct confab_done done;
                struct confab_conversation conversation;
                struct confab_conversations conversations;
                struct confab_tokens tokens;
                struct confab_model_info model_info;
                struct confab_stats stats;
                struct confab_exported exported;
                struct confab_notice notice;
                struct confab_quotas quotas;
                struct confab_bytes chunk;
                struct confab_settings settings;
                struct confab_users users;
                struct confab_user_acted user_acted;
                struct confab_drained drained;
                struct confab_checked checked;
                struct {
                        struct confab_found found;
                        struct confab_conversation found_conversation;
                };
        };
};

/* Make v->event from @event, which must outlive @v. 0; 1 if a request cannot get this kind of event
 * (or the kind is newer); -ERR_NOMEM. The descriptor of an export is not known here (-1). @v must
 * be deinitialised in every case. */
int view_init(struct view *v, const Confab__V1__Event *event, struct err *e);
void view_deinit(struct view *v);
/* Zeroed memory of the view; NULL: @e tells why. */
void *view_alloc(struct view *v, size_t n, size_t size, struct err *e);
/* Fill in v->event.stats (lib-view-stats.c). -ERR_NOMEM. */
int view_stats(struct view *v, const Confab__V1__StatsResult *m, struct err *e);
void view_user(struct confab_user *ret, const Confab__V1__User *m);
/* Answers to administrators (lib-view-admin.c). As view_init(); 1 also for all other kinds. */
int view_admin(struct view *v, const Confab__V1__Event *event, struct err *e);

/* Whether confab_process() runs. */
bool confab_is_processing(const struct confab *c);
/* It can't be waited for the daemon: the connection is over, and all requests end. */
void confab_give_up(struct confab *c);

/* Fill *e (may be NULL) and return -1. */
int error_set(struct confab_error *e, const char *code, bool retry, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
int error_from_err(struct confab_error *e, const struct err *from);
int error_copy(struct confab_error *e, const struct confab_error *from);
