/* SPDX-License-Identifier: MIT */
#pragma once
/* Shared by methods*.c. */
#include "daemon/methods.h"
#include "daemon/reply.h"
#include "daemon/scratch.h"

/* Who the administrators are (peer.h), for messages. */
#define METHODS_ADMINS "root, the admin group and the user whom the daemon runs as"

/* A verb: fill @out from @in for the engine. 0: submit it; 1: the answer has been sent; negative:
 * the answer is this error. Pointers in @out may borrow from @in; `results`, `calls`, `messages`,
 * `about` and `known` are allocated, and freed by the caller in every case. */
typedef int method_fn(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e);
method_fn method_open, method_continue, method_fork, method_rewind, method_close, method_get,
        method_list, method_update, method_warm, method_evict, method_cancel, method_tokenize,
        method_model_info, method_stats, method_publish, method_export, method_import, method_carry,
        method_attach, method_find, method_quota, method_watch, method_settings, method_users,
        method_act_on_user, method_drain, method_backup, method_check;

/* -ERR_PERMISSION unless the peer is an administrator. */
int methods_need_admin(const struct peer *p, struct err *e);

/* The peer's first message. Ends the connection if it is refused. */
void methods_hello(struct peer *p, uint64_t id, const Confab__V1__Hello *hello);

int methods_take_ref(const Confab__V1__Ref *ref, struct engine_request *out, struct err *e);
/* A number for which the engine has ENGINE_UNSET as well: that value is refused, or it would mean
 * what leaving the field out means. */
int methods_take_number(uint32_t value, uint32_t *ret, const char *what, struct err *e);
/* Fill @out->messages and n_messages: one block, which borrows strings from @in. -ERR_INVALID, also if
 * there are none; -ERR_NOMEM. */
int methods_take_messages(
        Confab__V1__Message *const *in, size_t n, struct engine_request *out, struct err *e);
int methods_take_sampling(const Confab__V1__Sampling *in, struct sampling *out, struct err *e);

/* What is noted: @out->about is allocated, and freed by the caller in every case. NULL: none. */
int methods_take_about(const Confab__V1__About *in, struct engine_request *out, struct err *e);
/* The same as a message in @s; nothing if @in is NULL. -ERR_NOMEM. */
int methods_put_about(
        struct scratch *s, const struct about *in, Confab__V1__About **ret, struct err *e);

/* How a reply was made; nothing if @in is NULL. -ERR_NOMEM. */
int methods_put_run(
        struct scratch *s, const struct figures *in, Confab__V1__Run **ret, struct err *e);

/* Where a list goes on: from `order`, `cursor` and `after_id`. -ERR_INVALID. */
int methods_take_place(const Confab__V1__List *in, struct engine_request *out, struct err *e);
/* The cursor behind the first @n conversations of a list (behind all that were looked at, if these are all).
 * Written to @out; returns it. */
#define METHODS_CURSOR_SIZE 48
char *methods_put_cursor(const struct engine_event *in, size_t n, char out[METHODS_CURSOR_SIZE]);

/* Parts and results as arrays of messages in @s; nothing if @n is 0. -ERR_NOMEM. */
int methods_put_parts(struct scratch *s, const struct engine_part *parts, size_t n,
        Confab__V1__Part ***ret, size_t *ret_n, struct err *e);
int methods_put_results(struct scratch *s, const struct engine_result *results, size_t n,
        Confab__V1__ToolResult ***ret, size_t *ret_n, struct err *e);

/* The answer to Stats. */
void methods_send_stats(struct request *r, const struct engine_event *in);
/* What the daemon knows of all users, for a walk of the engine: @out->known is allocated, and freed by the caller.
 * -ERR_NOMEM. */
int methods_take_known(const struct daemon *d, struct engine_request *out, struct err *e);
void methods_put_user(const struct engine_user *in, Confab__V1__User *m);
/* Answers to administrators. */
void methods_send_users(struct request *r, const struct engine_event *in);
void methods_send_user_acted(struct request *r, const struct engine_event *in);
void methods_send_drained(struct request *r, const struct engine_event *in);
void methods_send_checked(struct request *r, const struct engine_event *in);
/* What an administrator asks for, if it belongs into the journal: *ret is allocated; NULL: it does not.
 * -ERR_NOMEM. */
int methods_audit(
        const struct peer *p, const Confab__V1__Request *in, struct audit **ret, struct err *e);
/* A notice of Watch. */
void methods_send_notice(struct request *r, const struct engine_event *in);
/* A part of an import in the stream. It has no answer of its own. */
void method_chunk(struct peer *p, const Confab__V1__Request *in);
/* The answer to Export; takes the descriptor out of @ev. */
void methods_send_exported(struct request *r, struct engine_event *ev);
