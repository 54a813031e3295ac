/* SPDX-License-Identifier: MIT */
#pragma once
/* libconfab against a peer at the other end of a socket pair, in one thread: nothing in the library
 * waits unless asked to. */
#include "client/confab.h"
#include "peer.h"
#include "base/util.h"
#include "util/test.h"
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

struct fixture {
        struct confab *c;
        struct peer peer;
};

static inline void setup_bare(struct fixture *f) {
        struct confab_error e;
        int sv[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
        peer_init(&f->peer, sv[1]);
        assert_int_equal(confab_new_from_fd(&f->c, sv[0], &e), 0);
        assert_int_equal(confab_get_fd(f->c), sv[0]);
}

/* Greeted on both sides. */
static inline void setup(struct fixture *f) {
        setup_bare(f);
        assert_int_equal(confab_get_events(f->c), POLLIN | POLLOUT);
        assert_null(confab_get_server(f->c));
        assert_int_equal(confab_process(f->c, NULL), 0);
        assert_int_equal(confab_get_events(f->c), POLLIN);
        peer_hello(&f->peer);
        assert_int_equal(confab_process(f->c, NULL), 0);
        assert_string_equal(confab_get_server(f->c), "peer 1");
}

static inline void teardown(struct fixture *f) {
        assert_null(confab_free(f->c));
        peer_deinit(&f->peer);
}

/* What a callback has seen. */
struct seen {
        struct fixture *f;
        unsigned n, n_final;
        enum confab_event_kind kinds[16];
        struct confab_error error;
        uint64_t request;
        char text[64];
        void (*check)(const struct confab_event *event);
};

static inline void see(void *userdata, const struct confab_event *event) {
        struct seen *s = userdata;

        assert_true(s->n < ARRAY_SIZE(s->kinds));
        assert_int_equal(s->n_final, 0); /* nothing after the final one */
        s->kinds[s->n++] = event->kind;
        s->request = event->request;
        s->n_final += event->final;
        if (event->kind == CONFAB_EVENT_ERROR)
                s->error = *event->error;
        if (event->kind == CONFAB_EVENT_DELTA)
                strncat(s->text, event->delta->text, sizeof(s->text) - strlen(s->text) - 1);
        if (s->check)
                s->check(event);
}

static inline struct confab_request request_of(enum confab_verb verb) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = verb;
        return r;
}

/* Submit @r, take it at the other end; its id. */
static inline uint64_t submit(
        struct fixture *f, const struct confab_request *r, struct seen *seen) {
        struct proto_message *m;
        struct confab_error e;
        uint64_t id = 0;

        assert_int_equal(confab_submit(f->c, r, see, seen, &id, &e), 0);
        assert_int_equal(confab_process(f->c, &e), 0);
        m = peer_next(&f->peer);
        assert_int_equal(m->request->id, id);
        proto_message_free(m);
        return id;
}
