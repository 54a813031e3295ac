/* SPDX-License-Identifier: MIT */
/* The service manager's protocol, played by hand (FIFO, socket, file), and the effect of an event
 * on the daemon's budget. */
#include "daemon-fixture.h"
#include "base/file.h"
#include "base/machine.h"
#include "daemon/pressure-watch.h"
#include <event2/event.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* base64 of "some 200000 2000000" and a NUL */
#define PAYLOAD "c29tZSAyMDAwMDAgMjAwMDAwMAA="
static const char payload[] = "some 200000 2000000";

struct watcher {
        char dir[64], path[96], root[96]; /* root: of files of our own, or empty */
        struct event_base *base;
        struct pressure_watch *w;
        unsigned n;
};

static struct pressure_report last;

static void count(void *arg, const struct pressure_report *report) {
        (*(unsigned *)arg)++;
        last = *report;
}

static int setup(void **state) {
        struct watcher *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        log_init("confabd", LOG_CRIT);
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

        assert_int_equal(
                pressure_watch_new(&t->w, t->base, t->root[0] ? t->root : NULL, count, &t->n, &e),
                0);
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

/* ---- files of our own ---- */

static void put(const char *root, const char *path, const char *text) {
        char full[256], *slash;

        snprintf(full, sizeof(full), "%s%s", root, path);
        slash = strrchr(full, '/');
        *slash = '\0';
        assert_int_equal(file_mkdir_p(full, 0700, NULL), 0);
        *slash = '/';
        assert_int_equal(file_replace(full, text, strlen(text), 0600, NULL), 0);
}

/* A file of stalls that takes no triggers: only this mapping of it can be written. */
struct stalls {
        int fd;
        char *text;
};

static void set_total(struct stalls *s, unsigned long long total) {
        memset(s->text, 0, 256);
        snprintf(s->text, 256,
                "some avg10=12.50 avg60=0.00 avg300=0.00 total=%llu\nfull avg10=0.00 total=0\n",
                total);
}

static void make_stalls(
        struct stalls *s, const char *root, const char *path, unsigned long long total) {
        char full[256], target[64];

        put(root, path, "");
        snprintf(full, sizeof(full), "%s%s", root, path);
        assert_int_equal(unlink(full), 0);
        s->fd = memfd_create("stalls", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(s->fd, 256), 0);
        s->text = mmap(NULL, 256, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
        assert_true(s->text != MAP_FAILED);
        set_total(s, total);
        assert_int_equal(fcntl(s->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
        snprintf(target, sizeof(target), "/proc/%d/fd/%d", getpid(), s->fd);
        assert_int_equal(symlink(target, full), 0);
}

static void end_stalls(struct stalls *s) {
        munmap(s->text, 256);
        close(s->fd);
}

static int root_setup(void **state) {
        struct watcher *t;

        setup(state);
        t = *state;
        unsetenv("MEMORY_PRESSURE_WATCH");
        snprintf(t->root, sizeof(t->root), "%s/root", t->dir);
        return 0;
}

static int root_teardown(void **state) {
        struct watcher *t = *state;
        char cmd[128];

        snprintf(cmd, sizeof(cmd), "rm -rf '%s'", t->root);
        return system(cmd) | teardown(state);
}

/* The service manager names a file, as systemd 254 and later do: that of our group. The system's counts beside it. */
static void test_system_beside_manager(void **state) {
        struct watcher *t = *state;
        struct stalls s;

        make_stalls(&s, t->root, "/proc/pressure/memory", 5000000);
        setenv("MEMORY_PRESSURE_WATCH", "/proc/pressure/memory", 1);
        setenv("MEMORY_PRESSURE_WRITE", "c29tZSAyMDAwMDAgMjAwMDAwMAA=", 1);
        start(t);
        if (pressure_watch_problem(t->w)->code != ERR_NONE)
                print_message(
                        "this kernel takes no trigger: %s\n", pressure_watch_problem(t->w)->msg);
        else
                assert_non_null(
                        strstr(pressure_watch_source(t->w), "manager's /proc/pressure/memory"));
        assert_non_null(strstr(pressure_watch_source(t->w), t->root));
        set_total(&s, 5000000 + PRESSURE_STALL_USEC);
        assert_true(pressure_watch_look(t->w, true, &last));
        end_stalls(&s);
}

/* What was before the start is never told, nor what was told already; of both files. */
static void test_stalls_count_from_the_start(void **state) {
        struct watcher *t = *state;
        struct stalls group, all;
        struct pressure_report r;

        put(t->root, "/proc/self/cgroup", "0::/a\n");
        put(t->root, "/proc/self/mountinfo",
                "40 30 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        put(t->root, "/sys/fs/cgroup/a/cgroup.events", "populated 1\n");
        make_stalls(&group, t->root, "/sys/fs/cgroup/a/memory.pressure", 900000000);
        make_stalls(&all, t->root, "/proc/pressure/memory", 990000000);
        start(t);
        assert_non_null(strstr(pressure_watch_source(t->w), "a/memory.pressure, reading"));
        assert_non_null(strstr(pressure_watch_source(t->w), "proc/pressure/memory"));
        assert_false(pressure_watch_look(t->w, true, &r));
        /* Stalls of the system, believed or not. */
        set_total(&all, 990000000 + 400000);
        assert_false(pressure_watch_look(t->w, false, &r));
        assert_false(pressure_watch_look(t->w, true, &r)); /* that was before */
        set_total(&all, 990000000 + 800000);
        assert_true(pressure_watch_look(t->w, true, &r));
        assert_int_equal(r.origin, PRESSURE_OF_SYSTEM);
        assert_int_equal(r.stalled, 400000);
        assert_true(r.span > 0 && r.avg10 > 12.0);
        assert_false(pressure_watch_look(t->w, true, &r));
        /* Ours. */
        set_total(&group, 900000000 + 400000);
        assert_true(pressure_watch_look(t->w, false, &r));
        assert_int_equal(r.origin, PRESSURE_OF_GROUP);
        /* Little is nothing. */
        set_total(&group, 900000000 + 400000 + 1000);
        assert_false(pressure_watch_look(t->w, false, &r));
        /* A counter that goes back, or rubbish. */
        set_total(&group, 7);
        assert_false(pressure_watch_look(t->w, false, &r));
        memset(group.text, 'x', 256);
        assert_false(pressure_watch_look(t->w, false, &r));
        assert_int_equal(t->n, 0);
        end_stalls(&group);
        end_stalls(&all);
}

/* Our group is the root of all: what it tells is of the system. */
static void test_root_group_is_the_system(void **state) {
        struct watcher *t = *state;
        struct stalls group, all;
        struct pressure_report r;

        put(t->root, "/proc/self/cgroup", "4:memory:/a\n0::/\n");
        put(t->root, "/proc/self/mountinfo",
                "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
        make_stalls(&group, t->root, "/sys/fs/cgroup/unified/memory.pressure", 0);
        make_stalls(&all, t->root, "/proc/pressure/memory", 0);
        start(t);
        assert_null(strstr(pressure_watch_source(t->w), "unified"));
        set_total(&group, 500000);
        set_total(&all, 500000);
        assert_false(pressure_watch_look(t->w, false, &r));
        set_total(&group, 900000);
        set_total(&all, 900000);
        assert_true(pressure_watch_look(t->w, true, &r));
        assert_int_equal(r.origin, PRESSURE_OF_SYSTEM);
        end_stalls(&group);
        end_stalls(&all);
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
        fake.pool_used = 500u << 20;
        fake.pool_idle = 400u << 20;
        tell();
        for (unsigned i = 0; fake.n_resizes == 0; i++) {
                assert_true(i < STEPS_MAX);
                daemon_step(f->d);
        }
        /* An eighth of what is idle; nobody is asked. */
        assert_int_equal(fake.n, 0);
        assert_int_equal(fake.pool_size, 450u << 20);
        assert_true(fake.spare_refused);
        /* At once again: not before it is known what that was good for. */
        fake.pool_used = 450u << 20;
        fake.pool_idle = 350u << 20;
        tell();
        fixture_steps(f, 10);
        assert_int_equal(fake.n_resizes, 1);
        /* What it says of itself. */
        fixture_client(f, &w);
        id = fixture_send_stats(&w);
        fixture_wait_requests(f, 1);
        fake_emit_stats(fake.requests[0].r.handle);
        m = expect_kind(&w, id, CONFAB__V1__EVENT__KIND_STATS);
        for (size_t i = 0; i < m->event->stats->n_stats; i++) {
                const Confab__V1__Stat *s = m->event->stats->stats[i];
                uint64_t want = strcmp(s->name, "budget_ceiling") == 0      ? 1u << 30
                                : strcmp(s->name, "pressure_events") == 0   ? 2
                                : strcmp(s->name, "pressure_episodes") == 0 ? 1
                                                                            : s->value;

                assert_int_equal(s->value, want);
        }
        proto_message_free(m);
        wire_close(&w);
}

/* With nothing idle there is nothing to give, and the budget stays what it is. */
static void test_nothing_idle(void **state) {
        struct fixture *f = *state;

        assert_int_equal(settings_set(&f->settings, "pool-size", "1G", &f->e), 0);
        fixture_start(f);
        fake.pool_used = 700u << 20;
        tell();
        for (unsigned i = 0; !fake.spare_refused; i++) {
                assert_true(i < STEPS_MAX);
                daemon_step(f->d);
        }
        assert_int_equal(fake.n_resizes, 0);
        assert_int_equal(f->d->memory.policy.budget, 1u << 30);
        /* Watchers learn of it all the same. */
        assert_int_equal(fake.n_notes, 1);
        assert_true(fake.pressed);
        assert_int_equal(fake.pressed_budget, 1u << 30);
}

static const struct pressure_report of_system = {
        .origin = PRESSURE_OF_SYSTEM, .stalled = 300000, .span = 2000000};

/* Stalls of the system count while MemAvailable is short, or what a limit of ours leaves. */
static void test_stalls_of_others(void **state) {
        const struct pressure_report ours = {
                .origin = PRESSURE_OF_GROUP, .stalled = 300000, .span = 2000000};
        struct fixture *f = *state;
        char root[96], cmd[128];

        snprintf(root, sizeof(root), "%s/root", f->dir);
        put(root, "/proc/meminfo", "MemTotal: 25165824 kB\nMemAvailable: 24117248 kB\n");
        assert_int_equal(settings_set(&f->settings, "pool-size", "1G", &f->e), 0);
        fixture_start(f);
        f->d->memory.root = root;
        fake.pool_used = 500u << 20;
        fake.pool_idle = 400u << 20;
        for (unsigned i = 0; i < 20; i++)
                memory_pressure(f->d, &of_system);
        assert_int_equal(fake.n_resizes, 0);
        assert_false(fake.spare_refused);
        assert_int_equal(f->d->memory.policy.n_events, 0);
        assert_int_equal(fake.n_notes, 0);
        put(root, "/proc/meminfo", "MemTotal: 25165824 kB\nMemAvailable: 2097152 kB\n");
        memory_pressure(f->d, &of_system);
        assert_int_equal(fake.n_resizes, 1);
        assert_int_equal(fake.pool_size, 450u << 20);
        /* Our own always. */
        memory_stop(f->d);
        assert_int_equal(memory_start(f->d, &f->e), 0);
        put(root, "/proc/meminfo", "MemTotal: 25165824 kB\nMemAvailable: 24117248 kB\n");
        f->d->memory.next_step = 0;
        memory_pressure(f->d, &ours);
        assert_int_equal(f->d->memory.policy.n_events, 1);
        memory_stop(f->d);
        snprintf(cmd, sizeof(cmd), "rm -rf '%s'", root);
        assert_int_equal(system(cmd), 0);
}

static void test_short(void **state) {
        const uint64_t mib = 1u << 20;
        struct machine_memory m = {.total = 24000 * mib,
                .available = 23000 * mib,
                .limit = UINT64_MAX,
                .group_available = UINT64_MAX};

        (void)state;
        assert_false(memory_is_short(&m, 8 * mib));
        assert_true(memory_is_short(&m, 22000 * mib)); /* the weights would have to go */
        m.available = 2900 * mib;
        assert_true(memory_is_short(&m, 0));
        m.available = 3100 * mib;
        assert_false(memory_is_short(&m, 0));
        m.limit = 48 * mib;
        m.group_available = 20 * mib;
        assert_false(memory_is_short(&m, 8 * mib));
        m.group_available = 13 * mib;
        assert_true(memory_is_short(&m, 8 * mib));
        /* Much is not little because there is much more. */
        m = (struct machine_memory){1000000 * mib, 5000 * mib, UINT64_MAX, UINT64_MAX};
        assert_false(memory_is_short(&m, 0));
        /* Nothing known. */
        m = (struct machine_memory){0, 0, UINT64_MAX, UINT64_MAX};
        assert_false(memory_is_short(&m, 0));
}

/* The time of the next look at memory has come. */
static void look_now(struct fixture *f) {
        struct memory *m = &f->d->memory;

        m->next_step = m->next_step ? 1 : 0;
        m->policy.last_shrink -= MIN(m->policy.last_shrink, PRESSURE_STEP_USEC);
        event_active(m->timer, EV_TIMEOUT, 0);
        fixture_steps(f, 1);
}

/* Pressure that is told during a pause is acted on once; when nobody tells of any more, the daemon
 * sleeps, and after a while all is as before. */
static void test_one_step_for_one_event(void **state) {
        struct fixture *f = *state;
        struct memory *m;

        assert_int_equal(settings_set(&f->settings, "pool-size", "1G", &f->e), 0);
        fixture_start(f);
        m = &f->d->memory;
        fake.pool_used = 500u << 20;
        fake.pool_idle = 400u << 20;
        for (unsigned i = 1; i <= 2; i++) {
                tell();
                for (unsigned k = 0; m->policy.n_events < i; k++) {
                        assert_true(k < STEPS_MAX);
                        daemon_step(f->d);
                }
        }
        assert_int_equal(fake.n_resizes, 1);
        assert_true(m->has_pending);
        for (unsigned i = 0; i < 3; i++) {
                fake.pool_used = fake.pool_size;
                fake.pool_idle = fake.pool_size - (100u << 20);
                look_now(f);
                assert_int_equal(fake.n_resizes, 2);
                assert_int_equal(m->policy.n_events, 2);
                assert_true(i == 0 ? m->next_step > 0 : m->next_step == 0);
        }
        assert_true(fake.spare_refused);
        assert_int_equal(fake.n_notes, 2); /* one for each step down */
        assert_true(fake.pressed);
        assert_int_equal(fake.pressed_budget, fake.pool_size);
        m->policy.last_event -= m->policy.patience;
        look_now(f);
        assert_false(fake.spare_refused);
        assert_int_equal(fake.n_notes, 3);
        assert_false(fake.pressed);
        assert_int_equal(fake.pressed_budget, m->policy.budget);
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
                cmocka_unit_test_setup_teardown(
                        test_system_beside_manager, root_setup, root_teardown),
                cmocka_unit_test_setup_teardown(
                        test_stalls_count_from_the_start, root_setup, root_teardown),
                cmocka_unit_test_setup_teardown(
                        test_root_group_is_the_system, root_setup, root_teardown),
                pressure_test(test_budget_shrinks),
                pressure_test(test_one_step_for_one_event),
                pressure_test(test_nothing_idle),
                pressure_test(test_stalls_of_others),
                cmocka_unit_test(test_short),
                pressure_test(test_pressure_no),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
