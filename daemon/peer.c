/* SPDX-License-Identifier: MIT */
#include "daemon/peer.h"
#include "base/util.h"
#include "service/log.h"
#include "service/loop.h"
#include "daemon/groups.h"
#include "daemon/limiting.h"
#include "daemon/methods.h"
#include "daemon/request-log.h"
#include "daemon/reply.h"
#include "daemon/streams.h"
#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The most groups of a peer that are searched for the admin group. The kernel allows 65536, but a
 * login has tens. */
#define GROUPS_MAX 1024
/* Refused connections that are kept open for a while, so that they read the reason (conn.h, 6). */
#define REFUSED_MAX 64

void peer_pause_requests(struct peer *p, bool pause) {
        struct list *it;

        list_for_each (it, &p->in_flight.requests) {
                struct request *r = list_entry(it, struct request, link);

                bool streams = r->verb == ENGINE_CONTINUE || r->verb == ENGINE_ATTACH ||
                               r->verb == ENGINE_WATCH;

                if (!streams || r->paused == pause)
                        continue;
                r->paused = pause;
                engine_pause(p->daemon->engine, r->handle, pause);
        }
}

static struct peer *of_conn(struct conn *c) {
        return container_of(c, struct peer, conn);
}

static void on_frame(struct conn *c, const uint8_t *data, size_t n) {
        methods_handle(of_conn(c), data, n);
}

static void on_broken(struct conn *c, const struct err *e) {
        reply_protocol_error(of_conn(c), 0, e);
}

static void on_pressure(struct conn *c, bool blocked) {
        peer_pause_requests(of_conn(c), blocked);
}

static void on_closed(struct conn *c, const struct err *e) {
        struct peer *p = of_conn(c);
        struct log_about about;

        peer_about(p, e, &about);
        /* A protocol error was told of when it was found. That a client went without a farewell is of no interest. */
        if (e->code != ERR_NONE && e->code != ERR_SYS && !p->over)
                log_event(LOGGED_CONNECTION_LOST, &about, "connection of %s closed", PEER_TEXT(p));
        else
                log_debug(&about, "connection of %s ended", PEER_TEXT(p));
        peer_free(p);
}

static void on_written(struct conn *c) {
        streams_go_on(of_conn(c));
}

static const struct conn_ops ops = {
        .frame = on_frame,
        .written = on_written,
        .broken = on_broken,
        .pressure = on_pressure,
        .closed = on_closed,
};

static void on_hello_timeout(evutil_socket_t fd, short what, void *arg) {
        struct peer *p = arg;
        struct err e;

        if (p->said_hello)
                return;
        err_set(&e, ERR_STATE, "no Hello within hello-timeout");
        reply_protocol_error(p, 0, &e);
}

/* The groups of the other end, its primary one first: [GROUPS_MAX + 1]. */
static size_t read_groups(int fd, uint32_t gid, uint32_t *ret) {
        gid_t groups[GROUPS_MAX];
        socklen_t size = sizeof(groups);
        size_t n = 0;

        ret[n++] = gid;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
                return n;
        for (size_t i = 0; i < size / sizeof(groups[0]); i++)
                ret[n++] = groups[i];
        return n;
}

static bool in_group(const uint32_t *gids, size_t n, uint32_t wanted) {
        for (size_t i = 0; wanted != UINT32_MAX && i < n; i++)
                if (gids[i] == wanted)
                        return true;
        return false;
}

static int identify(struct peer *p, int fd, struct err *e) {
        struct daemon *d = p->daemon;
        uint32_t gids[GROUPS_MAX + 1];
        struct ucred cred;
        socklen_t size = sizeof(cred);
        size_t n;
        int r;

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
                return err_set(e, ERR_SYS, "cannot tell who connects");
        if (cred.uid == (uid_t)-1)
                return err_set(e, ERR_PERMISSION, "nobody is behind a connection");
        p->uid = cred.uid;
        p->owner = cred.uid;
        p->pid = cred.pid;
        n = read_groups(fd, cred.gid, gids);
        p->admin = cred.uid == 0 || cred.uid == geteuid() || in_group(gids, n, d->admin_gid);
        r = users_join(&d->users, p->owner, &p->user, e);
        if (r < 0)
                return r;
        r = users_set_groups(p->user, gids, n, e);
        if (r < 0)
                users_leave(&d->users, p->user);
        else
                limits_of_user(d, p->user);
        return r;
}

static int start_hello_timer(struct peer *p, struct err *e) {
        uint64_t usec = p->daemon->settings->hello_timeout;
        struct timeval t = {
                .tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

        p->hello_timer = loop_event_new(p->daemon->base, -1, 0, on_hello_timeout, p);
        if (!p->hello_timer || event_add(p->hello_timer, &t) < 0)
                return err_set(e, ERR_NOMEM, "no memory for a connection");
        return 0;
}

/* The checks that may refuse a connection once it is set up, and so can be told the reason. */
static int admit(struct peer *p, struct err *e) {
        struct daemon *d = p->daemon;
        /* A gateway has a connection for each of those for whom it acts, and says for whom only in Hello. */
        const struct quota_limits *limits = &p->user->limits;
        bool exempt = trusted_has(&d->trusted, p->uid) &&
                      limits->origin[QUOTA_CONNECTIONS] == QUOTA_FROM_SETTING;
        uint64_t max =
                exempt ? d->settings->max_connections : limits->quotas.max[QUOTA_CONNECTIONS];
        int r;

        if (d->refusal) {
                *e = *d->refusal;
                return -(int)e->code;
        }
        d->users.connections.total = d->settings->max_connections;
        r = users_admit(&d->users, p->user, max, e);
        if (r < 0)
                return r;
        p->counted = true;
        return start_hello_timer(p, e);
}

/* Takes over @fd. */
static int peer_new(struct peer **ret, struct daemon *d, int fd, struct err *e) {
        struct peer *p = calloc(1, sizeof(*p));
        int r;

        if (!p) {
                close(fd);
                return err_set(e, ERR_NOMEM, "no memory for a connection");
        }
        p->daemon = d;
        p->max_event = PROTO_MAX_EVENT;
        request_list_init(&p->in_flight);
        list_init(&p->notes);
        list_init(&p->streams);
        list_init(&p->link);
        list_init(&p->questions);
        r = identify(p, fd, e);
        if (r < 0) {
                close(fd);
                free(p);
                return r;
        }
        r = conn_init(&p->conn, d->base, fd, (uint32_t)d->settings->max_frame, &d->limits,
                &p->user->io, &ops, e);
        if (r < 0) {
                users_leave(&d->users, p->user);
                free(p);
                return r;
        }
        list_append(&d->peers, &p->link);
        d->n_peers++;
        *ret = p;
        return 0;
}

/* Tell the peer the reason. A refused peer that does not hang up holds a descriptor for a while, so
 * only REFUSED_MAX of them may. */
static void refuse(struct peer *p, const struct err *e) {
        struct daemon *d = p->daemon;
        struct log_about about;

        peer_about(p, e, &about);
        log_event(LOGGED_CONNECTION_REFUSED, &about, "refusing a connection of %s", PEER_TEXT(p));
        reply_refuse(p, e);
        if (d->n_refused >= REFUSED_MAX) {
                conn_fail(&p->conn, e);
                return;
        }
        p->refused = true;
        d->n_refused++;
}

void peer_accept(void *arg, int fd) {
        struct daemon *d = arg;
        struct peer *p = NULL;
        struct err e;

        if (peer_new(&p, d, fd, &e) < 0) {
                LOG_ERROR(LOGGED_SHORT_OF_RESOURCES, &e, "cannot take a connection");
                return;
        }
        if (admit(p, &e) < 0)
                refuse(p, &e);
}

struct peer *peer_free(struct peer *p) {
        struct daemon *d;
        struct list *it, *tmp;

        if (!p)
                return NULL;
        d = p->daemon;
        request_log_leave(p);
        list_for_each_safe (it, tmp, &p->in_flight.requests) {
                struct request *r = list_entry(it, struct request, link);

                /* A request without a reader must not stay paused for a slow one. */
                if (r->paused)
                        engine_pause(d->engine, r->handle, false);
                r->paused = false;
                if (!r->detach)
                        engine_cancel(d->engine, r->handle);
                request_disown(r);
        }
        streams_leave(p);
        if (p->counted)
                share_give(&p->user->connections, 1);
        if (p->refused)
                d->n_refused--;
        loop_event_free(p->hello_timer);
        groups_forget(&p->questions);
        conn_deinit(&p->conn);
        users_leave(&d->users, p->user);
        list_unlink(&p->link);
        d->n_peers--;
        free(p->tenant);
        free(p);
        return NULL;
}
