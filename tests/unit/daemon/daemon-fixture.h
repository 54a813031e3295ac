/* SPDX-License-Identifier: MIT */
#pragma once
/* A daemon in this process over the fake engine; clients wait by running its loop. */
#include "daemon/daemon.h"
#include "service/log.h"
#include "daemon/peer.h"
#include "daemon/wire.h"
#include "fake-engine.h"
#include "util/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture {
        char dir[64], socket[96];
        struct settings settings;
        struct daemon *d;
        struct err e;
};

/* A test that runs the loop this often in vain has lost its event. */
#define STEPS_MAX 20000

static inline bool fixture_idle(struct wire *w) {
        struct fixture *f = w->arg;
        static unsigned n;

        daemon_step(f->d);
        if (++n % STEPS_MAX == 0) {
                fprintf(stderr, "nothing happens\n");
                return false;
        }
        return true;
}

static inline void fixture_steps(struct fixture *f, unsigned n) {
        while (n--)
                daemon_step(f->d);
}

static inline int fixture_setup_closed(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));
        char *argv[] = {(char *)(uintptr_t) "confabd", (char *)(uintptr_t) "--model",
                (char *)(uintptr_t) "none.gguf", NULL};
        enum conf_action action;

        assert_non_null(f);
        fake_reset();
        log_init("confabd", LOG_CRIT);
        /* How the machine is doing is not the test's matter. */
        setenv("MEMORY_PRESSURE_WATCH", "/dev/null", 1);
        strcpy(f->dir, "/tmp/confab-daemon-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        snprintf(f->socket, sizeof(f->socket), "%s/s", f->dir);
        assert_int_equal(settings_load(&f->settings, 3, argv, &action, &f->e), 0);
        assert_int_equal(settings_set(&f->settings, "socket", f->socket, &f->e), 0);
        assert_int_equal(settings_set(&f->settings, "state", f->dir, &f->e), 0);
        f->settings.log_level = LOG_CRIT;
        *state = f;
        return 0;
}

static inline void fixture_start(struct fixture *f) {
        int r = daemon_new(&f->d, &f->settings, 0, NULL, &f->e);

        if (r < 0)
                print_error("%s\n", f->e.msg);
        assert_int_equal(r, 0);
}

static inline int fixture_setup(void **state) {
        fixture_setup_closed(state);
        fixture_start(*state);
        return 0;
}

static inline int fixture_teardown(void **state) {
        struct fixture *f = *state;

        f->d = daemon_free(f->d);
        settings_deinit(&f->settings);
        unlink(f->socket);
        rmdir(f->dir);
        free(f);
        fake_reset();
        return 0;
}

#define daemon_test(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)
#define daemon_test_closed(f)                                                                      \
        cmocka_unit_test_setup_teardown(f, fixture_setup_closed, fixture_teardown)

/* Connected, nothing said yet. */
static inline void fixture_connect(struct fixture *f, struct wire *w) {
        assert_int_equal(wire_connect(w, f->socket, fixture_idle, f), 0);
}

static inline void fixture_client(struct fixture *f, struct wire *w) {
        fixture_connect(f, w);
        assert_true(wire_hello(w));
}

/* Run the loop until the engine has seen @n requests in all. */
static inline void fixture_wait_requests(struct fixture *f, size_t n) {
        for (unsigned i = 0; fake.n < n; i++) {
                assert_true(i < STEPS_MAX);
                daemon_step(f->d);
        }
}

static inline void fixture_wait_peers(struct fixture *f, size_t n) {
        for (unsigned i = 0; f->d->n_peers != n; i++) {
                assert_true(i < STEPS_MAX);
                daemon_step(f->d);
        }
}

/* The next event must be an error of this code, for request @id; *retry is what it says. */
static inline void expect_error(struct wire *w, uint64_t id, const char *code, bool retry) {
        struct proto_message *m = wire_event(w);

        assert_non_null(m);
        assert_int_equal(m->event->kind_case, CONFAB__V1__EVENT__KIND_ERROR);
        assert_string_equal(m->event->error->code, code);
        assert_int_equal(m->event->request, id);
        assert_true(m->event->error->has_retry);
        assert_int_equal(m->event->error->retry, retry);
        assert_true(m->event->error->message && *m->event->error->message);
        proto_message_free(m);
}

static inline struct proto_message *expect_kind(
        struct wire *w, uint64_t id, Confab__V1__Event__KindCase kind) {
        struct proto_message *m = wire_event(w);

        assert_non_null(m);
        if (m->event->kind_case == CONFAB__V1__EVENT__KIND_ERROR && kind != m->event->kind_case)
                print_error("%s\n", m->event->error->message);
        assert_int_equal(m->event->kind_case, kind);
        assert_int_equal(m->event->request, id);
        return m;
}

/* A request on conversation 7 of a verb whose message has only `conversation`. */
#define REQUEST(r, which, Type, field, m)                                                          \
        Confab__V1__Request r = CONFAB__V1__REQUEST__INIT;                                         \
        Confab__V1__##Type m = CONFAB__V1__##which##__INIT;                                        \
        r.verb_case = CONFAB__V1__REQUEST__VERB_##which;                                           \
        r.field = &m

static inline uint64_t fixture_send_continue(struct wire *w, const char *text, bool detach) {
        REQUEST(r, CONTINUE, Continue, continue_, m);
        Confab__V1__Ref ref = CONFAB__V1__REF__INIT;

        ref.has_id = true;
        ref.id = 7;
        m.conversation = &ref;
        m.input_case = CONFAB__V1__CONTINUE__INPUT_MESSAGE;
        m.message = proto_borrow(text);
        m.has_detach = detach;
        m.detach = detach;
        return wire_send(w, &r);
}

static inline uint64_t fixture_send_stats(struct wire *w) {
        REQUEST(r, STATS, Stats, stats, m);

        return wire_send(w, &r);
}
