/* SPDX-License-Identifier: MIT */
/* The service manager's protocol by hand (FIFO, socket, file), and what an event does to the
 * daemon's budget. */
#include "daemon-fixture.h"
#include "daemon/pressure-watch.h"
#include <event2/event.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* base64 of "some 200000 2000000" and a NUL */
#define PAYLOAD "c29tZSAyMDAwMDAgMjAwMDAwMAA="
static const char payload[] = "some 200000 2000000";

struct watcher {
        char dir[64], path[96];
        struct event_base *base;
        struct pressure_watch *w;
        unsigned n;
};

static void count(void *arg) {
        (*(unsigned *)arg)++;
}

static int setup(void **state) {
        struct watcher *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        log_init(LOG_CRIT);
        strcpy(t->dir, "/tmp/confab-pressure-XXXXXX");
        assert_non_null(mkdtemp(t->dir));
        snprintf(t->path, sizeof(t->path), "%s/watch", t->dir);
        t->base = event_base_new();
        assert_non_null(t->base);
        setenv("MEMORY_PRESSURE_WATCH", t->path, 1);
        setenv("MEMORY_PRESSURE_WRITE", PAYLOAD, 1);
        *state = t;
        return 0;
}

static int teardown(void **state) {
        struct watcher *t = *state;

        pressure_watch_free(t->w);
        event_base_free(t->base);
        unlink(t->path);
        rmdir(t->dir);
        free(t);
        unsetenv("MEMORY_PRESSURE_WATCH");
        unsetenv("MEMORY_PRESSURE_WRITE");
        return 0;
}

static void start(struct watcher *t) {
        struct err e;

        assert_int_equal(pressure_watch_new(&t->w, t->base, count, &t->n, &e), 0);
}

static void step(struct watcher *t) {
        event_base_loop(t->base, EVLOOP_NONBLOCK);
}

static void test_fifo(void **state) {
        struct watcher *t = *state;
        char text[64] = "";
        int fd;

        assert_int_equal(mkfifo(t->path, 0600), 0);
        fd = open(t->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        assert_true(fd >= 0);
        start(t);
        assert_non_null(strstr(pressure_watch_source(t->w), t->path));
        assert_int_equal(pressure_watch_problem(t->w)->code, ERR_NONE);
        assert_int_equal(read(fd, text, sizeof(text)), sizeof(payload));
        assert_memory_equal(text, payload, sizeof(payload));
        step(t);
        assert_int_equal(t->n, 0);
        assert_int_equal(write(fd, "x", 1), 1);
        step(t);
        assert_int_equal(t->n, 1);
        assert_int_equal(write(fd, payload, sizeof(payload)), sizeof(payload));
        step(t);
        assert_int_equal(t->n, 2);
        /* All of it has been read. */
        step(t);
        assert_int_equal(t->n, 2);
        close(fd);
}

static void test_socket(void **state) {
        struct watcher *t = *state;
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), c;
        char text[64] = "";

        memcpy(a.sun_path, t->path, strlen(t->path) + 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        assert_int_equal(listen(fd, 1), 0);
        start(t);
        c = accept(fd, NULL, NULL);
        assert_true(c >= 0);
        assert_int_equal(read(c, text, sizeof(text)), sizeof(payload));
        assert_memory_equal(text, payload, sizeof(payload));
        assert_int_equal(write(c, "pressure", 8), 8);
        step(t);
        assert_int_equal(t->n, 1);
        /* The manager goes: no loop on the closed socket. */
        close(c);
        step(t);
        step(t);
        assert_int_equal(t->n, 1);
        close(fd);
}

/* What is no file of triggers is not watched, and something else is. */
static void test_plain_file(void **state) {
        struct watcher *t = *state;
        int fd = open(t->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        char text[64] = "";

        assert_true(fd >= 0);
        start(t);
        assert_int_equal(pressure_watch_problem(t->w)->code, ERR_SYS);
        assert_int_equal(read(fd, text, sizeof(text)), sizeof(payload));
        assert_true(!pressure_watch_source(t->w) ||
                    !strstr(pressure_watch_source(t->w), "service manager"));
        close(fd);
}

static void test_off(void **state) {
        struct watcher *t = *state;

        setenv("MEMORY_PRESSURE_WATCH", "/dev/null", 1);
        start(t);
        assert_null(pressure_watch_source(t->w));
        assert_int_equal(pressure_watch_problem(t->w)->code, ERR_NONE);
}

static void test_bad_words(void **state) {
        static const char *const bad[] = {"!", "c29t*ZSA=", "c", "c29tZ", "a=b"};
        struct watcher *t = *state;
        char *huge = malloc(10000);

        assert_int_equal(mkfifo(t->path, 0600), 0);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                setenv("MEMORY_PRESSURE_WRITE", bad[i], 1);
                start(t);
                if (pressure_watch_problem(t->w)->code != ERR_INVALID)
                        fail_msg("'%s' was taken", bad[i]);
                t->w = pressure_watch_free(t->w);
        }
        assert_non_null(huge);
        memset(huge, 'A', 9999);
        huge[9999] = 0;
        setenv("MEMORY_PRESSURE_WRITE", huge, 1);
        start(t);
        assert_int_equal(pressure_watch_problem(t->w)->code, ERR_INVALID);
        t->w = pressure_watch_free(t->w);
        free(huge);
        setenv("MEMORY_PRESSURE_WRITE", "", 1);
        setenv("MEMORY_PRESSURE_WATCH", "/nonexistent/file", 1);
        start(t);
        assert_int_equal(pressure_watch_problem(t->w)->code, ERR_SYS);
        t->w = pressure_watch_free(t->w);
        setenv("MEMORY_PRESSURE_WATCH", t->dir, 1);
        start(t);
        assert_int_equal(pressure_watch_problem(t->w)->code, ERR_INVALID);
}

/* Without a service manager the kernel is asked; which way depends on where this runs. */
static void test_kernel(void **state) {
        struct watcher *t = *state;

        unsetenv("MEMORY_PRESSURE_WATCH");
        start(t);
        if (!pressure_watch_source(t->w)) {
                print_message("SKIP: this kernel tells nothing of memory pressure\n");
                skip();
        }
        print_message("watching %s\n", pressure_watch_source(t->w));
        step(t);
}

/* ---- the daemon ---- */

static int daemon_pressure_setup(void **state) {
        static char path[96];
        struct fixture *f;

        fixture_setup_closed(state);
        f = *state;
        snprintf(path, sizeof(path), "%s/fifo", f->dir);
        assert_int_equal(mkfifo(path, 0600), 0);
        setenv("MEMORY_PRESSURE_WATCH", path, 1);
        unsetenv("MEMORY_PRESSURE_WRITE");
        return 0;
}

static int daemon_pressure_teardown(void **state) {
        unlink(getenv("MEMORY_PRESSURE_WATCH"));
        unsetenv("MEMORY_PRESSURE_WATCH");
        return fixture_teardown(state);
}

static void tell(void) {
        int fd = open(getenv("MEMORY_PRESSURE_WATCH"), O_RDWR | O_NONBLOCK | O_CLOEXEC);

        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
}

static void test_budget_shrinks(void **state) {
        struct fixture *f = *state;
        struct proto_message *m;
        struct wire w;
        uint64_t id;

        assert_int_equal(settings_set(&f->settings, "pool-size", "1G", &f->e), 0);
        fixture_start(f);
        tell();
        fixture_wait_requests(f, 1);
        assert_int_equal(fake.requests[0].r.verb, ENGINE_STATS);
        /* Not before it is known what is in use; and only one question at a time. */
        tell();
        fixture_steps(f, 10);
        assert_int_equal(fake.n, 1);
        assert_int_equal(fake.n_resizes, 0);
        fake_emit_used(fake.requests[0].r.handle, 400u << 20);
        fixture_steps(f, 10);
        assert_int_equal(fake.n_resizes, 1);
        assert_int_equal(fake.pool_size, 300u << 20);
        assert_true(fake.spare_refused);
        /* What it says of itself. */
        fixture_client(f, &w);
        id = fixture_send_stats(&w);
        fixture_wait_requests(f, 2);
        fake_emit_used(fake.requests[1].r.handle, 0);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_STATS);
        for (size_t i = 0; i < m->event->stats->n_stats; i++) {
                const Confab__V1__Stat *s = m->event->stats->stats[i];
                uint64_t want = strcmp(s->name, "budget_ceiling") == 0 ? 1u << 30
                                : strcmp(s->name, "pressure_events") == 0 ||
                                                strcmp(s->name, "pressure_episodes") == 0
                                        ? 1
                                        : s->value;

                assert_int_equal(s->value, want);
        }
        proto_message_free(m);
        wire_close(&w);
}

static void test_budget_without_an_answer(void **state) {
        struct fixture *f = *state;

        assert_int_equal(settings_set(&f->settings, "pool-size", "1G", &f->e), 0);
        fixture_start(f);
        fake_fail_submit(ERR_LIMIT, "full");
        tell();
        for (unsigned i = 0; fake.n_resizes == 0; i++) {
                assert_true(i < STEPS_MAX);
                daemon_step(f->d);
        }
        assert_int_equal(fake.pool_size, 768u << 20);
}

static void test_pressure_no(void **state) {
        struct fixture *f = *state;

        assert_int_equal(settings_set(&f->settings, "pressure", "no", &f->e), 0);
        fixture_start(f);
        tell();
        fixture_steps(f, 20);
        assert_int_equal(fake.n, 0);
        assert_int_equal(fake.n_resizes, 0);
}

#define watch_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define pressure_test(f)                                                                           \
        cmocka_unit_test_setup_teardown(f, daemon_pressure_setup, daemon_pressure_teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                watch_test(test_fifo),
                watch_test(test_socket),
                watch_test(test_plain_file),
                watch_test(test_off),
                watch_test(test_bad_words),
                watch_test(test_kernel),
                pressure_test(test_budget_shrinks),
                pressure_test(test_budget_without_an_answer),
                pressure_test(test_pressure_no),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
