/* SPDX-License-Identifier: MIT */
/*
 * A daemon short of memory: idle memory shrinks step by step, its pages go back to the system, and
 * the memory is restored from disk when needed, with the same bits. No request that fitted before
 * is refused, and some seconds later everything is as before. Pressure is simulated by a FIFO, as a
 * service manager might report it, and caused for real (as root): in the daemon's own cgroup, whose
 * limit is lower than the load of processes that read a large file over and over; in another such
 * cgroup, which must not affect the daemon; and with "auto" in small cgroups.
 */
#include "base/util.h"
#include "fixture.h"
#include "util/sanitize.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

enum { N_CONVS = 30, N_TOKENS = 280, N_LONG = 719, N_REPLY = 8, N_READERS = 4 };
#define POOL "--pool-size=64M"
#define WAIT_SECONDS 120

static void say_piece(struct client *c, uint64_t id, unsigned seed, size_t n, struct reply *r) {
        if (client_say_drawn(c, id, seed, n, N_REPLY, r) != 0)
                fail_msg("%s", c->error.message);
}

static void fill(struct client *c, uint64_t *ids) {
        for (unsigned i = 0; i < N_CONVS; i++) {
                struct reply r;

                assert_int_equal(client_open(c, NULL, NULL, &ids[i]), 0);
                say_piece(c, ids[i], i, N_TOKENS, &r);
                reply_deinit(&r);
        }
}

/* Every conversation goes on as if nothing had happened. */
static void go_on(struct client *c, const uint64_t *ids, struct reply *replies) {
        for (unsigned i = 0; i < N_CONVS; i++)
                say_piece(c, ids[i], 100 + i, 10, &replies[i]);
}

static void expect_undisturbed(struct reply *replies) {
        static struct reply want[N_CONVS];
        uint64_t ids[N_CONVS];
        struct harness h;
        struct client *c;

        assert_int_equal(harness_init(&h), 0);
        harness_start(&h, FLAGS("--pool-size=1G"));
        c = harness_client(&h);
        fill(c, ids);
        go_on(c, ids, want);
        for (unsigned i = 0; i < N_CONVS; i++) {
                assert_true(reply_equal(&want[i], &replies[i]));
                reply_deinit(&want[i]);
                reply_deinit(&replies[i]);
        }
        client_free(c);
        harness_stop(&h);
        harness_deinit(&h);
}

/* Bytes of a line of /proc/PID/status. */
static uint64_t process_size(const struct harness *h, const char *name) {
        unsigned long long kib = 0;
        char path[64], line[256];
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)h->pid);
        f = fopen(path, "re");
        assert_non_null(f);
        while (fgets(line, sizeof(line), f))
                if (strncmp(line, name, strlen(name)) == 0 &&
                        sscanf(line + strlen(name), ": %llu", &kib) == 1)
                        break;
        fclose(f);
        return kib << 10;
}

/* The figure gets below (or above) @value; each look is an answer of the engine. */
static void wait_stat(struct client *c, const char *name, uint64_t value, bool below) {
        time_t end = time(NULL) + WAIT_SECONDS;
        uint64_t now;

        while ((now = client_stat(c, name)), below ? now >= value : now <= value)
                if (time(NULL) > end)
                        fail_msg("%s stays at %llu", name, (unsigned long long)now);
}

static unsigned count_in_log(struct harness *h, const char *text) {
        char *log = harness_read_log(h);
        unsigned n = 0;

        for (const char *at = log; (at = strstr(at, text)); at++)
                n++;
        free(log);
        return n;
}

/* Both figures of one moment. */
static void check_within_budget(struct client *c) {
        struct stats s = {};

        assert_int_equal(client_stats(c, &s), 0);
        assert_true(stats_get(&s, "ledger_used") <= stats_get(&s, "budget"));
        stats_deinit(&s);
}

/* A FIFO that stands for the service manager, whose other end the daemon will watch. */
static int open_fifo(struct harness *h) {
        int fd;

        snprintf(h->pressure, sizeof(h->pressure), "%s/pressure", h->dir);
        assert_int_equal(mkfifo(h->pressure, 0600), 0);
        fd = open(h->pressure, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        assert_true(fd >= 0);
        return fd;
}

static void test_fifo(void **state) {
        static struct reply replies[N_CONVS];
        uint64_t ids[N_CONVS], blocks, rss, used, idle;
        struct harness *h = *state;
        struct client *c;
        time_t end;
        int fd;

        fd = open_fifo(h);
        harness_start(h, FLAGS(POOL, "--spill-delay=20ms"));
        c = harness_client(h);
        fill(c, ids);
        wait_stat(c, "writebehind_blocks", N_CONVS * (N_TOKENS / 32) - 1, false);
        blocks = client_stat(c, "pool_blocks");
        rss = process_size(h, "VmRSS");
        assert_true(blocks >= N_CONVS * (N_TOKENS / 32));
        used = client_stat(c, "ledger_used");
        idle = client_stat(c, "pool_idle_bytes");
        assert_int_equal(idle, blocks * client_stat(c, "block_bytes"));
        assert_int_equal(write(fd, "x", 1), 1);
        wait_stat(c, "pool_blocks", blocks, true);
        wait_stat(c, "budget", 64u << 20, true);
        /* One step, and no more than that. */
        assert_int_equal(client_stat(c, "budget_asked"), used - idle / 8);
        assert_true(client_stat(c, "pool_blocks") >= blocks * 3 / 4);
        check_within_budget(c);
        print_message("blocks %llu -> %llu, resident %llu -> %llu KiB\n",
                (unsigned long long)blocks, (unsigned long long)client_stat(c, "pool_blocks"),
                (unsigned long long)rss >> 10, (unsigned long long)process_size(h, "VmRSS") >> 10);
        assert_int_equal(client_stat(c, "pressure_events"), 1);
        assert_int_equal(client_stat(c, "budget_ceiling"), 64u << 20);
        /* What goes had been written: nothing is written for it now but tails. */
        assert_int_equal(client_stat(c, "unspilled_drops"), 0);
        go_on(c, ids, replies);
        assert_int_equal(client_stat(c, "tokens_recomputed"), 0);
        check_within_budget(c);
        /* It is all over some seconds later. */
        end = time(NULL);
        wait_stat(c, "budget", (64u << 20) - 1, false);
        print_message("the budget was back after %d s\n", (int)(time(NULL) - end));
        assert_int_equal(count_in_log(h, "memory is short (service manager"), 1);
        assert_true(count_in_log(h, "no memory pressure for") >= 1);
        assert_int_equal(client_stat(c, "pressure_events"), 1);
        close(fd);
        client_free(c);
        harness_stop(h);
        expect_undisturbed(replies);
}

/* Without end: the daemon goes on serving, also what is longer than the little that is left. */
static void test_much_pressure(void **state) {
        static struct reply replies[N_CONVS], reply;
        struct harness *h = *state;
        uint64_t ids[N_CONVS], id;
        struct client *c;
        time_t end;
        int fd;

        fd = open_fifo(h);
        harness_start(h, FLAGS(POOL));
        c = harness_client(h);
        fill(c, ids);
        assert_int_equal(client_open(c, NULL, NULL, &id), 0);
        say_piece(c, id, 77, N_LONG, &reply);
        reply_deinit(&reply);
        end = time(NULL) + WAIT_SECONDS;
        while (client_stat(c, "pressure_events") < 200 || client_stat(c, "budget_shrunk") < 3) {
                assert_true(write(fd, "x", 1) == 1 || errno == EAGAIN);
                assert_true(time(NULL) < end);
        }
        assert_int_equal(client_stat(c, "pressure_episodes"), 1);
        say_piece(c, id, 78, 10, &reply);
        reply_deinit(&reply);
        go_on(c, ids, replies);
        check_within_budget(c);
        assert_true(count_in_log(h, "memory is short") >= 3);
        close(fd);
        client_free(c);
        harness_stop(h);
        expect_undisturbed(replies);
}

/* An idle daemon has nothing to give, and its budget stays. */
static void test_idle_daemon(void **state) {
        struct harness *h = *state;
        struct client *c;
        int fd;

        fd = open_fifo(h);
        harness_start(h, FLAGS("--pool-size=1G"));
        c = harness_client(h);
        assert_int_equal(write(fd, "x", 1), 1);
        wait_stat(c, "pressure_events", 0, false);
        assert_int_equal(client_stat(c, "budget"), 1u << 30);
        assert_int_equal(client_stat(c, "budget_asked"), 1u << 30);
        assert_int_equal(count_in_log(h, "memory is short"), 1);
        close(fd);
        client_free(c);
        harness_stop(h);
}

/* ---- a cgroup of our own ---- */

/* Where memory is limited and where its pressure is told: the same folder, but for the hybrid
 * hierarchy. */
struct cgroup {
        char limit_dir[128], pressure_dir[128], old_limit_dir[256], old_pressure_dir[256];
        bool hybrid;
};

static int put(const char *dir, const char *file, const char *text) {
        char path[400];
        int fd, r;

        snprintf(path, sizeof(path), "%s/%s", dir, file);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -1;
        r = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
        close(fd);
        return r;
}

static uint64_t get_number(const char *dir, const char *file) {
        unsigned long long v = 0;
        char path[400];
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", dir, file);
        f = fopen(path, "re");
        if (f) {
                if (fscanf(f, "%llu", &v) != 1)
                        v = 0;
                fclose(f);
        }
        return v;
}

/* Our folder in the hierarchy whose line in /proc/self/cgroup has @key between its colons. */
static bool own_dir(const char *key, const char *root, char *ret, size_t size) {
        FILE *f = fopen("/proc/self/cgroup", "re");
        char line[256], wanted[32];
        bool found = false;

        snprintf(wanted, sizeof(wanted), ":%s:", key);
        while (f && !found && fgets(line, sizeof(line), f)) {
                char *at = strstr(line, wanted);

                line[strcspn(line, "\n")] = 0;
                if (at && (*key || strncmp(line, "0::", 3) == 0)) {
                        snprintf(ret, size, "%s%s", root, at + strlen(wanted));
                        found = true;
                }
        }
        if (f)
                fclose(f);
        return found;
}

static int join(const struct cgroup *g, bool back) {
        int r = put(back ? g->old_limit_dir : g->limit_dir, "cgroup.procs", "0");

        if (g->hybrid)
                r |= put(back ? g->old_pressure_dir : g->pressure_dir, "cgroup.procs", "0");
        return r;
}

static void group_deinit(struct cgroup *g) {
        for (int i = 0; i < 100 && rmdir(g->limit_dir) < 0 && errno == EBUSY; i++)
                usleep(10000); /* the kernel is still taking its processes apart */
        if (g->hybrid)
                rmdir(g->pressure_dir);
}

static bool group_init(struct cgroup *g) {
        const char *v2 = "/sys/fs/cgroup", *mixed = "/sys/fs/cgroup/unified";
        const char *v1 = "/sys/fs/cgroup/memory";

        *g = (struct cgroup){
                .hybrid = access("/sys/fs/cgroup/unified/memory.pressure", F_OK) == 0 &&
                          access("/sys/fs/cgroup/memory/cgroup.procs", F_OK) == 0};
        if (g->hybrid) {
                if (!own_dir("memory", v1, g->old_limit_dir, sizeof(g->old_limit_dir)) ||
                        !own_dir("", mixed, g->old_pressure_dir, sizeof(g->old_pressure_dir)))
                        return false;
                snprintf(g->limit_dir, sizeof(g->limit_dir), "%s/confab-test-%d", v1, getpid());
                snprintf(g->pressure_dir, sizeof(g->pressure_dir), "%s/confab-test-%d", mixed,
                        getpid());
        } else {
                if (!own_dir("", v2, g->old_limit_dir, sizeof(g->old_limit_dir)))
                        return false;
                snprintf(g->limit_dir, sizeof(g->limit_dir), "%s/confab-test-%d", v2, getpid());
                strcpy(g->pressure_dir, g->limit_dir);
                (void)put(v2, "cgroup.subtree_control", "+memory");
        }
        if (mkdir(g->limit_dir, 0755) < 0)
                return false;
        if (g->hybrid && mkdir(g->pressure_dir, 0755) < 0) {
                rmdir(g->limit_dir);
                return false;
        }
        if (access(g->hybrid ? "/sys/fs/cgroup/memory/memory.limit_in_bytes" : "/", F_OK) == 0 &&
                join(g, false) == 0 && join(g, true) == 0)
                return true;
        group_deinit(g);
        return false;
}

static int limit(const struct cgroup *g, uint64_t bytes) {
        char text[32];

        snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
        return put(g->limit_dir, g->hybrid ? "memory.limit_in_bytes" : "memory.max", text);
}

/* What test_cgroup() has outside of the harness's folder, for its teardown. */
static struct outside {
        struct cgroup group;
        bool has_group;
        pid_t readers[N_READERS]; /* 0: none */
} outside;

static void stop_readers(void) {
        for (unsigned i = 0; i < N_READERS; i++) {
                if (outside.readers[i] <= 0)
                        continue;
                kill(outside.readers[i], SIGKILL);
                waitpid(outside.readers[i], NULL, 0);
                outside.readers[i] = 0;
        }
}

static int cgroup_teardown(void **state) {
        stop_readers();
        harness_end(*state);
        if (outside.has_group) {
                (void)join(&outside.group, true);
                group_deinit(&outside.group);
        }
        outside = (struct outside){};
        return daemon_teardown(state);
}

/* A file that is on disk and not in memory. Its pages are clean whoever reads them, so the kernel
 * can always drop them: the group is under pressure, and nobody in it is killed. */
static void make_file(const char *path, size_t size) {
        static char data[1 << 20];
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        for (size_t at = 0; at < size; at += sizeof(data))
                assert_int_equal(pwrite(fd, data, sizeof(data), (off_t)at), sizeof(data));
        assert_int_equal(fsync(fd), 0);
        assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        close(fd);
}

/* In the group: more of a file than fits, for ever. */
static pid_t start_reader(const struct cgroup *g, const char *path) {
        static char data[1 << 20];
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid > 0)
                return pid;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (join(g, false) < 0)
                _exit(1);
        for (;;) {
                int fd = open(path, O_RDONLY | O_CLOEXEC);

                while (read(fd, data, sizeof(data)) > 0)
                        ;
                close(fd);
        }
}

/* Under a sanitizer what was freed stays in memory for a while; little of it here, or the limit
 * would be reached by that. */
static void keep_little(void) {
        const char *old = getenv("ASAN_OPTIONS");
        char text[512];

        snprintf(text, sizeof(text), "%s%squarantine_size_mb=4", old ? old : "", old ? ":" : "");
        setenv("ASAN_OPTIONS", text, 1);
}

static void test_cgroup(void **state) {
        static struct reply replies[N_CONVS];
        uint64_t ids[N_CONVS], blocks, least, used;
        struct harness *h = *state;
        struct cgroup *g = &outside.group;
        struct client *c;
        char path[96];

        if (geteuid() != 0 || !group_init(g)) {
                print_message("SKIP: needs root and a cgroup hierarchy that can be written\n");
                skip();
        }
        outside.has_group = true;
        keep_little();
        strcpy(h->pressure, "-");
        assert_int_equal(join(g, false), 0);
        harness_start(h, FLAGS(POOL, "--spill-delay=20ms", "--log-level=debug"));
        assert_int_equal(join(g, true), 0);
        if (!count_in_log(h, "a trigger on /sys/fs/cgroup")) {
                print_message(
                        "SKIP: the kernel takes no trigger on the cgroup's memory.pressure\n");
                harness_stop(h);
                skip();
        }
        c = harness_client(h);
        fill(c, ids);
        wait_stat(c, "writebehind_blocks", N_CONVS * (N_TOKENS / 32) - 1, false);
        blocks = client_stat(c, "pool_blocks");
        used = get_number(g->limit_dir, g->hybrid ? "memory.usage_in_bytes" : "memory.current");
        assert_true(used > 0);
        assert_int_equal(limit(g, used + (64u << 20)), 0);
        snprintf(path, sizeof(path), "%s/file", h->dir);
        make_file(path, 4 * (used + (64u << 20)));
        for (unsigned i = 0; i < N_READERS; i++)
                outside.readers[i] = start_reader(g, path);
        wait_stat(c, "budget", 64u << 20, true);
        wait_stat(c, "pool_blocks", blocks * 15 / 16, true);
        stop_readers();
        unlink(path);
        /* Pressure is over for good. */
        assert_int_equal(limit(g, 1ull << 40), 0);
        go_on(c, ids, replies);
        assert_int_equal(client_stat(c, "tokens_recomputed"), 0);
        least = client_stat(c, "budget_asked");
        print_message("budget %llu KiB after %llu events; waiting until it grows\n",
                (unsigned long long)client_stat(c, "budget") >> 10,
                (unsigned long long)client_stat(c, "pressure_events"));
        /* Calm is seconds old on a slow machine: the budget may be back already. */
        if (least < 64u << 20)
                wait_stat(c, "budget_asked", least, false);
        wait_stat(c, "budget", (64u << 20) - 1, false);
        assert_true(count_in_log(h, "memory is short (cgroup: some avg10") >=
                    client_stat(c, "pressure_episodes"));
        assert_true(count_in_log(h, "no memory pressure for") >= 1);
        client_free(c);
        harness_stop(h);
        expect_undisturbed(replies);
}

/* A cgroup beside ours is at its limit all the time. There is memory enough, so that is not our
 * matter. */
static void test_others(void **state) {
        struct harness *h = *state;
        struct cgroup *g = &outside.group;
        struct client *c;
        uint64_t ids[N_CONVS];
        char path[96];
        time_t end;

        if (geteuid() != 0 || !group_init(g)) {
                print_message("SKIP: needs root and a cgroup hierarchy that can be written\n");
                skip();
        }
        outside.has_group = true;
        strcpy(h->pressure, "-");
        harness_start(h, FLAGS(POOL, "--log-level=debug"));
        if (!count_in_log(h, "on /proc/pressure/memory")) {
                print_message("SKIP: the kernel takes no trigger on /proc/pressure/memory\n");
                harness_stop(h);
                skip();
        }
        c = harness_client(h);
        fill(c, ids);
        snprintf(path, sizeof(path), "%s/file", h->dir);
        make_file(path, 120u << 20);
        assert_int_equal(limit(g, 30u << 20), 0);
        for (unsigned i = 0; i < N_READERS; i++)
                outside.readers[i] = start_reader(g, path);
        end = time(NULL) + WAIT_SECONDS;
        while (count_in_log(h, "stalls of others") < 2) {
                assert_int_equal(client_stat(c, "budget"), 64u << 20);
                assert_true(time(NULL) < end);
        }
        stop_readers();
        unlink(path);
        assert_int_equal(client_stat(c, "pressure_events"), 0);
        assert_int_equal(count_in_log(h, "memory is short"), 0);
        client_free(c);
        harness_stop(h);
}

/* "auto" in groups that are smaller than its usual least: the daemon is filled, and lives. */
static void test_auto_in_small_groups(void **state) {
        static const unsigned mibs[] = {24, 48, 100};
        struct harness *h = *state;
        struct cgroup *g = &outside.group;

        if (geteuid() != 0 || !group_init(g)) {
                print_message("SKIP: needs root and a cgroup hierarchy that can be written\n");
                skip();
        }
        outside.has_group = true;
#if TEST_SANITIZED
        print_message("SKIP: a sanitizer takes more memory than these groups have\n");
        skip();
#endif
        for (size_t k = 0; k < ARRAY_SIZE(mibs); k++) {
                struct client *c;

                assert_int_equal(limit(g, (uint64_t)mibs[k] << 20), 0);
                assert_int_equal(join(g, false), 0);
                harness_start(h, FLAGS("--threads=1"));
                assert_int_equal(join(g, true), 0);
                c = harness_client(h);
                print_message("%u MiB: budget %llu KiB\n", mibs[k],
                        (unsigned long long)client_stat(c, "budget") >> 10);
                assert_true(client_stat(c, "budget") < (uint64_t)mibs[k] << 20);
                for (unsigned i = 0; i < 2 * mibs[k]; i++) {
                        struct reply r;
                        uint64_t id;

                        assert_int_equal(client_open(c, NULL, NULL, &id), 0);
                        say_piece(c, id, i, N_TOKENS, &r);
                        reply_deinit(&r);
                }
                assert_true(client_stat(c, "evictions") > 0);
                client_free(c);
                harness_stop(h);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                daemon_test(test_fifo),
                daemon_test(test_much_pressure),
                daemon_test(test_idle_daemon),
                cmocka_unit_test_setup_teardown(test_others, daemon_setup, cgroup_teardown),
                cmocka_unit_test_setup_teardown(
                        test_auto_in_small_groups, daemon_setup, cgroup_teardown),
                cmocka_unit_test_setup_teardown(test_cgroup, daemon_setup, cgroup_teardown),
        };

        return DAEMON_TESTS_MAIN(tests);
}
