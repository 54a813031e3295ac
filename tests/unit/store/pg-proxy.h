/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Somebody between a store and its PostgreSQL server, who loses what is said. One thread forwards the bytes of all connections.
 * It listens in the fixture's folder, at the socket that libpq looks for there, so the store's uri differs in its host alone.
 */
#include "store-fixture.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

/* What becomes of the next COMMIT, of whatever connection. */
enum pg_proxy_fault {
        PG_PROXY_NONE,
        PG_PROXY_LOSE_ANSWER, /* the server has it; the connection is closed instead of its answer */
        PG_PROXY_LOSE_COMMIT, /* the server does not see it: the connection is closed */
        PG_PROXY_HANG_UP, /* the server has it; the store's end is closed before the answer is there */
};

struct pg_proxy_link {
        int client, server; /* -1: closed */
        bool loses;         /* what the server says next */
};

#define PG_PROXY_MAX 64

struct pg_proxy {
        struct sockaddr_un here, server;
        char uri[640]; /* for the store */
        int listener, wake;
        pthread_t thread;
        struct pg_proxy_link links[PG_PROXY_MAX]; /* of the thread */
        size_t n;
        /* Of whoever uses it: */
        atomic_int fault;
        atomic_bool
                refuses_then; /* once the fault has happened, all are cut off, and nobody is let in */
        atomic_bool refuses, stalls; /* those who come are sent away; let in, but not heard */
        atomic_bool stops;
        atomic_uint n_faults;
};

static inline void pg_proxy_close(int *fd) {
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

static inline void pg_proxy_cut(struct pg_proxy_link *l) {
        pg_proxy_close(&l->client);
        pg_proxy_close(&l->server);
}

/* False: who should hear it has gone. */
static inline bool pg_proxy_send(int fd, const char *p, size_t n) {
        while (n > 0) {
                ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

                if (sent <= 0)
                        return false;
                p += sent;
                n -= (size_t)sent;
        }
        return true;
}

/* The store waits for an answer before it sends a COMMIT, which so is the beginning of what is received. */
static inline bool pg_proxy_is_commit(const char *p, size_t n) {
        static const char commit[] = "Q\0\0\0\13COMMIT";

        return n >= sizeof(commit) && memcmp(p, commit, sizeof(commit)) == 0;
}

static inline void pg_proxy_happened(struct pg_proxy *p) {
        if (atomic_load(&p->refuses_then)) {
                atomic_store(&p->refuses, true);
                for (size_t i = 0; i < p->n; i++)
                        pg_proxy_cut(&p->links[i]);
        }
        atomic_fetch_add(&p->n_faults, 1);
}

static inline void pg_proxy_from_client(struct pg_proxy *p, struct pg_proxy_link *l) {
        char data[65536];
        ssize_t n = recv(l->client, data, sizeof(data), 0);
        int fault = PG_PROXY_NONE;

        if (n > 0 && pg_proxy_is_commit(data, (size_t)n))
                fault = atomic_exchange(&p->fault, PG_PROXY_NONE);
        if (n <= 0 || fault == PG_PROXY_LOSE_COMMIT || !pg_proxy_send(l->server, data, (size_t)n))
                pg_proxy_cut(l);
        if (fault == PG_PROXY_HANG_UP)
                pg_proxy_close(&l->client);
        l->loses = fault != PG_PROXY_NONE;
        if (fault != PG_PROXY_NONE)
                pg_proxy_happened(p);
}

static inline void pg_proxy_from_server(struct pg_proxy_link *l) {
        char data[65536];
        ssize_t n = recv(l->server, data, sizeof(data), 0);

        if (n <= 0 || l->loses || !pg_proxy_send(l->client, data, (size_t)n))
                pg_proxy_cut(l);
}

static inline void pg_proxy_accept(struct pg_proxy *p) {
        struct pg_proxy_link l = {.client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC),
                .server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};

        if (l.client < 0 || l.server < 0 || p->n == PG_PROXY_MAX || atomic_load(&p->refuses) ||
                connect(l.server, (const struct sockaddr *)&p->server, sizeof(p->server)) < 0)
                pg_proxy_cut(&l);
        else
                p->links[p->n++] = l;
}

static inline void pg_proxy_forget_closed(struct pg_proxy *p) {
        size_t n = 0;

        for (size_t i = 0; i < p->n; i++)
                if (p->links[i].server >= 0)
                        p->links[n++] = p->links[i];
        p->n = n;
}

/* What there is to be done. */
static inline void pg_proxy_turn(struct pg_proxy *p, const struct pollfd *fds, size_t n_links) {
        eventfd_t count;

        if (fds[0].revents)
                (void)eventfd_read(p->wake, &count);
        for (size_t i = 0; i < n_links; i++) {
                struct pg_proxy_link *l = &p->links[i];

                if (fds[2 + 2 * i].revents && l->client >= 0)
                        pg_proxy_from_client(p, l);
                if (fds[3 + 2 * i].revents && l->server >= 0)
                        pg_proxy_from_server(l);
        }
        if (fds[1].revents)
                pg_proxy_accept(p);
        pg_proxy_forget_closed(p);
}

static inline void *pg_proxy_run(void *arg) {
        struct pg_proxy *p = arg;
        struct pollfd fds[2 + 2 * PG_PROXY_MAX];

        while (!atomic_load(&p->stops)) {
                bool stalls = atomic_load(&p->stalls);
                size_t n = p->n;

                fds[0] = (struct pollfd){.fd = p->wake, .events = POLLIN};
                fds[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
                for (size_t i = 0; i < n; i++) {
                        fds[2 + 2 * i] = (struct pollfd){
                                .fd = stalls ? -1 : p->links[i].client, .events = POLLIN};
                        fds[3 + 2 * i] = (struct pollfd){
                                .fd = stalls ? -1 : p->links[i].server, .events = POLLIN};
                }
                if (poll(fds, (nfds_t)(2 + 2 * n), -1) > 0)
                        pg_proxy_turn(p, fds, n);
        }
        for (size_t i = 0; i < p->n; i++)
                pg_proxy_cut(&p->links[i]);
        return NULL;
}

/* Where the server listens. */
static inline void pg_proxy_find_server(struct pg_proxy *p, const struct fixture *f) {
        PQconninfoOption *options = PQconninfoParse(f->uri, NULL);
        const char *host = NULL, *port = NULL;

        assert_non_null(options);
        for (PQconninfoOption *o = options; o->keyword; o++) {
                if (strcmp(o->keyword, "host") == 0)
                        host = o->val;
                if (strcmp(o->keyword, "port") == 0)
                        port = o->val;
        }
        assert_non_null(host);
        if (!port)
                port = "5432";
        p->server.sun_family = p->here.sun_family = AF_UNIX;
        snprintf(p->server.sun_path, sizeof(p->server.sun_path), "%s/.s.PGSQL.%s", host, port);
        snprintf(p->here.sun_path, sizeof(p->here.sun_path), "%s/.s.PGSQL.%s", f->dir, port);
        PQconninfoFree(options);
}

/* One in a folder at a time. */
static inline void pg_proxy_start(struct pg_proxy *p, const struct fixture *f) {
        *p = (struct pg_proxy){};
        pg_proxy_find_server(p, f);
        /* Of two hosts the later one counts. */
        snprintf(p->uri, sizeof(p->uri), "%s&host=%s", f->uri, f->dir);
        p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        p->wake = eventfd(0, EFD_CLOEXEC);
        assert_true(p->listener >= 0 && p->wake >= 0);
        assert_int_equal(bind(p->listener, (const struct sockaddr *)&p->here, sizeof(p->here)), 0);
        assert_int_equal(listen(p->listener, 64), 0);
        assert_int_equal(pthread_create(&p->thread, NULL, pg_proxy_run, p), 0);
}

static inline void pg_proxy_wake(struct pg_proxy *p) {
        (void)eventfd_write(p->wake, 1);
}

static inline void pg_proxy_stop(struct pg_proxy *p) {
        atomic_store(&p->stops, true);
        pg_proxy_wake(p);
        pthread_join(p->thread, NULL);
        close(p->listener);
        close(p->wake);
        unlink(p->here.sun_path);
}

static inline void pg_proxy_arm(struct pg_proxy *p, enum pg_proxy_fault fault, bool refuses_then) {
        atomic_store(&p->refuses_then, refuses_then);
        atomic_store(&p->fault, (int)fault);
}

/* All is well again. */
static inline void pg_proxy_heal(struct pg_proxy *p) {
        pg_proxy_arm(p, PG_PROXY_NONE, false);
        atomic_store(&p->refuses, false);
        atomic_store(&p->stalls, false);
        pg_proxy_wake(p);
}

static inline void pg_proxy_stall(struct pg_proxy *p) {
        atomic_store(&p->stalls, true);
        pg_proxy_wake(p);
}

/* The one of a test: it outlives a test that fails. */
static struct pg_proxy proxy;

static inline int pg_proxy_setup(void **state) {
        fixture_setup_closed(state);
        pg_proxy_start(&proxy, *state);
        return 0;
}

static inline int pg_proxy_teardown(void **state) {
        struct fixture *f = *state;

        pg_proxy_heal(&proxy);
        f->s = store_free(f->s);
        pg_proxy_stop(&proxy);
        return fixture_teardown(state);
}

#define proxy_test(f) cmocka_unit_test_setup_teardown(f, pg_proxy_setup, pg_proxy_teardown)
