/* SPDX-License-Identifier: MIT */
/*
 * One connection. Bytes are sent from `out` and received into `in`, only in confab_process().
 *
 * 1. A request is in `pending` from confab_submit() until its final event has been handed out.
 * 2. Hello is request 1. The first event must be its answer or an error about the connection.
 * 3. A connection ends once, with one reason (`end`). All pending requests then get that reason as
 *    their error, in the order in which they were submitted, before confab_process() returns.
 * 4. Events for requests that are not pending and events of unknown kinds are ignored: a newer
 *    daemon may send more.
 * 5. After the daemon has stopped reading, the data it has sent is still read, because its last
 *    message is the reason for the end.
 * 6. While a connection is held no callback is called, not even for its end: what was received stays in `in`.
 * 7. A connection that acts for another owner sends nothing behind Hello before the daemon has agreed: a
 *    daemon that does not know of owners would take the requests for the user's own.
 */
#include "base/map.h"
#include "base/utf8.h"
#include "client/lib-internal.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define READ_SIZE (32u << 10)
#define READS_PER_CALL 32 /* then other things in the caller's loop have their turn */
#define OUT_MAX (64u << 20)
#define HELLO_ID 1
#define TENANT_MAX 128 /* bytes of a label */

struct pending {
        struct list link;
        uint64_t id;
        enum confab_verb verb;
        bool in_stream; /* export, import */
        confab_event_fn fn;
        void *userdata;
};

struct confab {
        int fd;
        bool hello_seen, processing, write_closed, over, held;
        struct proto_decoder in;
        struct buf out;
        uint64_t n_sent; /* stream position of out.data[0] */
        struct proto_fds out_fds;
        struct map *pending; /* id to struct pending, owned */
        struct list order;   /* the same, oldest first */
        uint64_t next_id;
        uint32_t max_frame; /* that the daemon takes */
        char *server;       /* NULL before its Hello */
        bool acts;          /* confab_act_for() was called with these */
        uint32_t act_uid;   /* CONFAB_OWN_UID: not named */
        char *tenant;       /* or NULL */
        size_t hello_size;  /* bytes of Hello, the first of the stream */
        bool owner_known;   /* an older daemon does not tell */
        uint32_t owner_uid; /* as the daemon's Hello says */
        char *owner_tenant; /* likewise, or NULL */
        char *machine;      /* likewise */
        struct confab_error end;
};

/* The final event that answers each verb, if it is not an error. */
static const enum confab_event_kind results[] = {
        [CONFAB_OPEN] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_CONTINUE] = CONFAB_EVENT_DONE,
        [CONFAB_FORK] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_REWIND] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_CLOSE] = CONFAB_EVENT_EMPTY,
        [CONFAB_GET] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_LIST] = CONFAB_EVENT_CONVERSATIONS,
        [CONFAB_UPDATE] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_WARM] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_EVICT] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_CANCEL] = CONFAB_EVENT_EMPTY,
        [CONFAB_TOKENIZE] = CONFAB_EVENT_TOKENS,
        [CONFAB_MODEL_INFO] = CONFAB_EVENT_MODEL_INFO,
        [CONFAB_STATS] = CONFAB_EVENT_STATS,
        [CONFAB_PUBLISH] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_EXPORT] = CONFAB_EVENT_EXPORTED,
        [CONFAB_IMPORT] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_CARRY] = CONFAB_EVENT_CONVERSATION,
        [CONFAB_ATTACH] = CONFAB_EVENT_DONE,
        [CONFAB_WATCH] = CONFAB_EVENT_EMPTY,
        [CONFAB_FIND] = CONFAB_EVENT_FOUND,
        [CONFAB_SETTINGS] = CONFAB_EVENT_SETTINGS,
        [CONFAB_USERS] = CONFAB_EVENT_USERS,
        [CONFAB_ACT_ON_USER] = CONFAB_EVENT_USER_ACTED,
        [CONFAB_DRAIN] = CONFAB_EVENT_DRAINED,
        [CONFAB_BACKUP] = CONFAB_EVENT_EXPORTED,
        [CONFAB_QUOTA] = CONFAB_EVENT_QUOTAS,
        [CONFAB_CHECK] = CONFAB_EVENT_CHECKED,
};

static bool kind_fits(const struct pending *p, const struct confab_event *event) {
        if (event->kind == CONFAB_EVENT_ERROR || event->kind == results[p->verb])
                return true;
        if (event->kind == CONFAB_EVENT_NOTICE)
                return p->verb == CONFAB_WATCH;
        if (event->kind == CONFAB_EVENT_CHUNK)
                return (p->verb == CONFAB_EXPORT || p->verb == CONFAB_BACKUP) && p->in_stream;
        if (event->kind == CONFAB_EVENT_PROGRESS && p->verb == CONFAB_CHECK)
                return true;
        return (p->verb == CONFAB_CONTINUE || p->verb == CONFAB_ATTACH) && !event->final;
}

/* Only the first reason counts. */
static void end_with(struct confab *c, const struct confab_error *why) {
        if (c->over)
                return;
        c->end = *why;
        c->over = true;
}
#define END(c, code, ...)                                                                          \
        do {                                                                                       \
                struct confab_error _why;                                                          \
                error_set(&_why, (code), true, __VA_ARGS__);                                       \
                end_with((c), &_why);                                                              \
        } while (0)

static void fail_pending(struct confab *c) {
        while (!list_empty(&c->order)) {
                struct pending *p = list_entry(c->order.next, struct pending, link);
                struct confab_event event = {
                        .request = p->id,
                        .kind = CONFAB_EVENT_ERROR,
                        .final = true,
                        .error = &c->end,
                };

                list_unlink(&p->link);
                map_remove_u64(c->pending, p->id);
                if (p->fn)
                        p->fn(p->userdata, &event);
                free(p);
        }
}

/* ---- making one ---- */

static int queue_hello(struct confab *c, struct confab_error *e) {
        Confab__V1__Request request = CONFAB__V1__REQUEST__INIT;
        Confab__V1__Hello hello = CONFAB__V1__HELLO__INIT;
        struct err err;

        request.has_id = request.id = HELLO_ID;
        request.verb_case = CONFAB__V1__REQUEST__VERB_HELLO;
        request.hello = &hello;
        hello.has_version = true;
        hello.version = PROTO_VERSION;
        hello.software = proto_borrow("libconfab " CONFAB_VERSION);
        hello.has_max_frame = true;
        hello.max_frame = PROTO_MAX_EVENT;
        hello.has_act_uid = c->acts && c->act_uid != CONFAB_OWN_UID;
        hello.act_uid = c->act_uid;
        hello.tenant = c->tenant;
        if (proto_append_frame(&c->out, &request.base, PROTO_MAX_REQUEST, &err) < 0)
                return error_from_err(e, &err);
        c->hello_size = c->out.size;
        return 0;
}

int confab_new_from_fd(struct confab **ret, int fd, struct confab_error *e) {
        struct confab *c;
        struct err err;

        c = calloc(1, sizeof(*c));
        if (!c) {
                close(fd);
                return error_set(e, CONFAB_NO_MEMORY, true, "no memory for a connection");
        }
        c->fd = fd;
        c->in = PROTO_DECODER_INIT(PROTO_MAX_EVENT);
        c->out.max = OUT_MAX;
        c->next_id = HELLO_ID + 1;
        c->max_frame = PROTO_MAX_REQUEST;
        list_init(&c->order);
        if (map_new(&c->pending, &err) < 0) {
                error_from_err(e, &err);
                goto fail;
        }
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
                error_set(e, CONFAB_SYSTEM, false, "cannot prepare the socket: %s",
                        strerrordesc_np(errno));
                goto fail;
        }
        if (queue_hello(c, e) < 0)
                goto fail;
        *ret = c;
        return 0;
fail:
        confab_free(c);
        return -1;
}

struct confab *confab_free(struct confab *c) {
        struct list *it, *tmp;

        if (!c)
                return NULL;
        close(c->fd);
        list_for_each_safe (it, tmp, &c->order)
                free(list_entry(it, struct pending, link));
        map_free(c->pending);
        proto_decoder_deinit(&c->in);
        proto_fds_deinit(&c->out_fds);
        buf_deinit(&c->out);
        free(c->server);
        free(c->tenant);
        free(c->owner_tenant);
        free(c->machine);
        free(c);
        return NULL;
}

/* ---- bytes ---- */

/* Bytes of `out` that may be sent now (invariant 7). */
static size_t sendable(const struct confab *c) {
        if (!c->acts || c->hello_seen)
                return c->out.size;
        return c->n_sent < c->hello_size ? c->hello_size - (size_t)c->n_sent : 0;
}

static void write_some(struct confab *c) {
        size_t sent = 0, n_now = sendable(c);

        while (!c->write_closed && sent < n_now) {
                ssize_t n = proto_send(c->fd, c->out.data + sent, n_now - sent, c->n_sent + sent,
                        MSG_NOSIGNAL, &c->out_fds);

                if (n >= 0) {
                        sent += (size_t)n;
                } else if (errno == EPIPE || errno == ECONNRESET) {
                        c->write_closed = true; /* invariant 5 */
                } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
                        break;
                } else if (errno != EINTR) {
                        END(c, CONFAB_SYSTEM, "cannot send to the daemon: %s",
                                strerrordesc_np(errno));
                        break;
                }
        }
        c->n_sent += c->write_closed ? c->out.size : sent;
        if (c->write_closed)
                proto_fds_deinit(&c->out_fds);
        if (c->write_closed || sent == c->out.size)
                buf_deinit(&c->out);
        else
                buf_consume(&c->out, sent);
}

/* Whether the daemon takes the requests for the owner that was named. */
static bool agrees(const struct confab *c, const Confab__V1__Hello *hello) {
        if (c->act_uid != CONFAB_OWN_UID && (!hello->has_act_uid || hello->act_uid != c->act_uid))
                return false;
        return c->tenant ? hello->tenant && strcmp(hello->tenant, c->tenant) == 0 : !hello->tenant;
}

static void see_hello(struct confab *c, const Confab__V1__Hello *hello) {
        const char *software = hello->software && *hello->software ? hello->software : "confabd";

        if (hello->version != PROTO_VERSION) {
                END(c, CONFAB_UNSUPPORTED, "the daemon speaks protocol version %u, not %u",
                        hello->version, PROTO_VERSION);
                return;
        }
        if (c->acts && !agrees(c, hello)) {
                END(c, CONFAB_UNSUPPORTED, "the daemon does not act for other owners");
                return;
        }
        c->server = strdup(software);
        c->owner_known = hello->has_act_uid;
        c->owner_uid = hello->act_uid;
        c->owner_tenant = hello->tenant ? strdup(hello->tenant) : NULL;
        c->machine = hello->machine ? strdup(hello->machine) : NULL;
        if (!c->server || (hello->tenant && !c->owner_tenant) || (hello->machine && !c->machine)) {
                END(c, CONFAB_NO_MEMORY, "no memory for the daemon's greeting");
                return;
        }
        if (hello->has_max_frame)
                c->max_frame = hello->max_frame;
        c->hello_seen = true;
}

/* True when the event was about the connection and needs no more handling. */
static bool see_connection_event(struct confab *c, const Confab__V1__Event *m) {
        struct view v;
        struct err err;

        if (m->kind_case == CONFAB__V1__EVENT__KIND_HELLO) {
                if (!c->hello_seen && m->request == HELLO_ID)
                        see_hello(c, m->hello);
                return true;
        }
        if (m->kind_case == CONFAB__V1__EVENT__KIND_ERROR &&
                (m->request == 0 || (m->request == HELLO_ID && !c->hello_seen))) {
                if (view_init(&v, m, &err) == 0)
                        end_with(c, &v.error);
                view_deinit(&v);
                return true;
        }
        if (!c->hello_seen && m->request != 0)
                END(c, CONFAB_PROTOCOL, "the daemon did not begin with Hello");
        return m->request == 0 || c->over;
}

/* Make the descriptor that came with the frame part of the event. */
static bool take_descriptor(struct confab *c, const struct pending *p, struct view *v) {
        if (v->event.kind != CONFAB_EVENT_EXPORTED || p->in_stream)
                return true;
        v->exported.fd = proto_decoder_take_fd(&c->in);
        return v->exported.fd >= 0;
}

static void see_event(struct confab *c, const Confab__V1__Event *m) {
        struct pending *p;
        struct err err;
        struct view v;
        int r;

        if (see_connection_event(c, m))
                return;
        p = map_get_u64(c->pending, m->request);
        if (!p)
                return;
        r = view_init(&v, m, &err);
        if (r < 0) {
                END(c, CONFAB_NO_MEMORY, "%s", err.msg);
        } else if (r == 0 && !kind_fits(p, &v.event)) {
                END(c, CONFAB_PROTOCOL, "the daemon gave the answer to another question");
        } else if (r == 0 && !take_descriptor(c, p, &v)) {
                END(c, CONFAB_PROTOCOL, "the daemon gave an export without its file descriptor");
        } else if (r == 0) {
                if (v.event.final) {
                        list_unlink(&p->link);
                        map_remove_u64(c->pending, p->id);
                }
                if (p->fn)
                        p->fn(p->userdata, &v.event);
                if (v.event.final)
                        free(p);
                if (v.event.kind == CONFAB_EVENT_EXPORTED && v.exported.fd >= 0)
                        close(v.exported.fd);
        }
        view_deinit(&v);
}

/* An event could not be handled, but its request is known: only that request fails. */
static bool fail_one(struct confab *c, uint64_t id, const struct err *why) {
        struct pending *p = map_remove_u64(c->pending, id);
        struct confab_error e;
        struct confab_event event = {
                .request = id, .kind = CONFAB_EVENT_ERROR, .final = true, .error = &e};

        if (!p)
                return false;
        error_set(&e, CONFAB_PROTOCOL, false, "the daemon sent what cannot be read: %s", why->msg);
        list_unlink(&p->link);
        if (p->fn)
                p->fn(p->userdata, &event);
        free(p);
        return true;
}

static void see_frames(struct confab *c) {
        const uint8_t *data;
        struct err err;
        size_t size;
        int r = 0;

        while (!c->over && !c->held && (r = proto_decoder_next(&c->in, &data, &size, &err)) > 0) {
                _cleanup_(proto_message_freep) struct proto_message *m = NULL;
                uint64_t id;

                r = proto_unpack_event(&m, data, size, &id, &err);
                if ((r == -ERR_INVALID || r == -ERR_TOO_LARGE) && fail_one(c, id, &err))
                        continue;
                if (r < 0)
                        break;
                see_event(c, m->event);
        }
        if (r == -ERR_NOMEM)
                END(c, CONFAB_NO_MEMORY, "%s", err.msg);
        else if (r < 0)
                END(c, CONFAB_PROTOCOL, "the daemon sent what cannot be read: %s", err.msg);
}

static void see_eof(struct confab *c) {
        if (proto_decoder_partial(&c->in))
                END(c, CONFAB_DISCONNECTED, "the daemon broke off in the middle of a message");
        else if (!c->hello_seen)
                END(c, CONFAB_DISCONNECTED, "the daemon hung up before it greeted");
        else
                END(c, CONFAB_DISCONNECTED, "the daemon closed the connection");
}

/* Takes over @fd, which came with the frame (-1: none). */
static int push(struct confab *c, const uint8_t *data, size_t n, int fd, struct err *e) {
        int r = proto_decoder_push(&c->in, data, n, e);

        if (fd >= 0 && r < 0)
                close(fd);
        return fd < 0 || r < 0 ? r : proto_decoder_push_fd(&c->in, fd, n, e);
}

static void read_some(struct confab *c) {
        uint8_t chunk[READ_SIZE];
        struct err err;

        for (unsigned i = 0; i < READS_PER_CALL && !c->over && !c->held; i++) {
                int fd = -1;
                ssize_t n = proto_recv(c->fd, chunk, sizeof(chunk), 0, NULL, &fd);

                if (n == 0 || (n < 0 && errno == ECONNRESET)) {
                        see_eof(c);
                        return;
                }
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                        if (c->write_closed)
                                END(c, CONFAB_DISCONNECTED, "the daemon stopped listening");
                        return;
                }
                if (n < 0) {
                        END(c, CONFAB_SYSTEM, "cannot receive from the daemon: %s",
                                strerrordesc_np(errno));
                        return;
                }
                if (push(c, chunk, (size_t)n, fd, &err) < 0) {
                        END(c, CONFAB_NO_MEMORY, "%s", err.msg);
                        return;
                }
                see_frames(c);
                if ((size_t)n < sizeof(chunk))
                        return; /* no more yet; saves a call that would say so */
        }
}

/* ---- public ---- */

int confab_process(struct confab *c, struct confab_error *e) {
        if (c->processing)
                return error_set(e, CONFAB_STATE, false, "called from within an event");
        c->processing = true;
        if (!c->over) {
                write_some(c);
                see_frames(c); /* left from the time when it was held */
                read_some(c);
                if (!c->over)
                        write_some(c); /* what the callbacks have submitted */
        }
        if (c->over && !c->held)
                fail_pending(c);
        c->processing = false;
        return c->over ? error_copy(e, &c->end) : 0;
}

int confab_get_fd(const struct confab *c) {
        return c->fd;
}

int confab_get_events(const struct confab *c) {
        return (c->held ? 0 : POLLIN) | (c->out.size && sendable(c) ? POLLOUT : 0);
}

void confab_hold(struct confab *c, bool held) {
        c->held = held;
}

bool confab_is_processing(const struct confab *c) {
        return c->processing;
}

void confab_give_up(struct confab *c) {
        END(c, CONFAB_SYSTEM, "cannot wait for the daemon");
        fail_pending(c);
}

size_t confab_get_n_pending(const struct confab *c) {
        return map_count(c->pending);
}

const char *confab_get_server(const struct confab *c) {
        return c->server;
}

int confab_act_for(struct confab *c, uint32_t uid, const char *tenant, struct confab_error *e) {
        size_t before = c->out.size, n = tenant ? strlen(tenant) : 0;
        char *copy = NULL;

        if (c->over)
                return error_copy(e, &c->end);
        if (c->acts || c->n_sent > 0 || c->next_id != HELLO_ID + 1)
                return error_set(e, CONFAB_STATE, false, "Hello has been said already");
        if (tenant && (n == 0 || n > TENANT_MAX || !utf8_valid(tenant, n)))
                return error_set(e, CONFAB_INVALID, false,
                        "a tenant's label is 1 to %d bytes of UTF-8", TENANT_MAX);
        if (tenant) {
                copy = strdup(tenant);
                if (!copy)
                        return error_set(e, CONFAB_NO_MEMORY, true, "no memory for a connection");
        }
        c->acts = true;
        c->act_uid = uid;
        c->tenant = copy;
        if (queue_hello(c, e) < 0) {
                c->acts = false;
                c->tenant = NULL;
                free(copy);
                return -1;
        }
        /* In place of the Hello of before. */
        buf_consume(&c->out, before);
        c->hello_size = c->out.size;
        return 0;
}

const char *confab_get_machine(const struct confab *c) {
        return c->machine;
}

int confab_get_owner(const struct confab *c, uint32_t *ret_uid, const char **ret_tenant) {
        if (!c->hello_seen || !c->owner_known)
                return -1;
        *ret_uid = c->owner_uid;
        *ret_tenant = c->owner_tenant;
        return 0;
}

/* Queue the frame of @r, and with it a duplicate of its descriptor. */
static int queue_request(
        struct confab *c, const struct confab_request *r, uint64_t id, struct err *e) {
        size_t before = c->out.size;
        int fd, k;

        k = request_append(&c->out, r, id, c->max_frame, e);
        if (k < 0 || r->verb != CONFAB_IMPORT || r->in_stream)
                return k;
        fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
                k = err_set(e, errno == EBADF ? ERR_INVALID : ERR_SYS,
                        "cannot pass the file descriptor: %s", strerrordesc_np(errno));
        else
                k = proto_fds_add(&c->out_fds, fd, c->n_sent + before, c->n_sent + c->out.size, e);
        if (k < 0)
                c->out.size = before;
        return k;
}

int confab_submit(struct confab *c, const struct confab_request *from, confab_event_fn fn,
        void *userdata, uint64_t *ret_id, struct confab_error *e) {
        struct confab_request r;
        uint64_t id = c->next_id;
        struct pending *p;
        struct err err;

        if (c->over)
                return error_copy(e, &c->end);
        if (request_normalise(&r, from, &err) < 0)
                return error_from_err(e, &err);
        p = calloc(1, sizeof(*p));
        if (!p)
                return error_set(e, CONFAB_NO_MEMORY, true, "no memory for a request");
        *p = (struct pending){.id = id,
                .verb = r.verb,
                .in_stream = r.in_stream || r.verb == CONFAB_BACKUP,
                .fn = fn,
                .userdata = userdata};
        if (map_add_u64(c->pending, id, p, &err) < 0) {
                free(p);
                return error_from_err(e, &err);
        }
        if (queue_request(c, &r, id, &err) < 0) {
                map_remove_u64(c->pending, id);
                free(p);
                return error_from_err(e, &err);
        }
        list_append(&c->order, &p->link);
        c->next_id++;
        if (ret_id)
                *ret_id = id;
        return 0;
}

int confab_send_chunk(struct confab *c, uint64_t id, const void *data, size_t size, bool last,
        struct confab_error *e) {
        const struct pending *p = map_get_u64(c->pending, id);
        struct err err;

        if (c->over)
                return error_copy(e, &c->end);
        if (!p || p->verb != CONFAB_IMPORT || !p->in_stream)
                return error_set(e, CONFAB_NOT_FOUND, false, "this import has ended");
        if (request_append_chunk(&c->out, id, data, size, last, c->max_frame, &err) < 0)
                return error_from_err(e, &err);
        return 0;
}

int confab_cancel(struct confab *c, uint64_t id, struct confab_error *e) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        if (id == 0)
                return error_set(e, CONFAB_INVALID, false, "no request is named");
        r.verb = CONFAB_CANCEL;
        r.cancel_request = id;
        return confab_submit(c, &r, NULL, NULL, NULL, e);
}

int confab_wait(struct confab *c, int timeout_msec, struct confab_error *e) {
        struct pollfd p = {.fd = c->fd, .events = (short)confab_get_events(c)};
        int r;

        if (c->over || c->processing)
                return confab_process(c, e);
        r = poll(&p, 1, timeout_msec);
        if (r < 0 && errno != EINTR)
                return error_set(
                        e, CONFAB_SYSTEM, false, "cannot wait: %s", strerrordesc_np(errno));
        if (r == 0)
                return 1;
        return r < 0 ? 0 : confab_process(c, e);
}

struct call {
        confab_event_fn fn;
        void *userdata;
        bool ended, failed;
        struct confab_error error;
};

static void call_event(void *userdata, const struct confab_event *event) {
        struct call *call = userdata;

        if (call->fn)
                call->fn(call->userdata, event);
        call->ended = event->final;
        if (event->kind == CONFAB_EVENT_ERROR) {
                call->failed = true;
                call->error = *event->error;
        }
}

int confab_call(struct confab *c, const struct confab_request *r, confab_event_fn fn,
        void *userdata, struct confab_error *e) {
        struct call call = {.fn = fn, .userdata = userdata};

        if (c->processing)
                return error_set(e, CONFAB_STATE, false, "called from within an event");
        if (confab_submit(c, r, call_event, &call, NULL, e) < 0)
                return -1;
        while (!call.ended)
                /* If the connection were over, the request would be. */
                if (confab_wait(c, -1, e) < 0 && !call.ended)
                        confab_give_up(c);
        return call.failed ? error_copy(e, &call.error) : 0;
}
