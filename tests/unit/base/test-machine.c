/* SPDX-License-Identifier: MIT */
/* What this process may use of the machine, read from files of our own: control groups of version
 * 1, 2 and both, nested, in containers; malformed content. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "base/util.h"
#include "util/test.h"

#define MIB ((uint64_t)1 << 20)

static char dir[64];

static int setup(void **state) {
        (void)state;
        strcpy(dir, "/tmp/confab-machine-XXXXXX");
        return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
        char cmd[128];

        (void)state;
        snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
        return system(cmd);
}

static void put(const char *path, const char *text) {
        char full[512], *slash;

        snprintf(full, sizeof(full), "%s%s", dir, path);
        slash = strrchr(full, '/');
        *slash = '\0';
        assert_int_equal(file_mkdir_p(full, 0700, NULL), 0);
        *slash = '/';
        assert_int_equal(file_replace(full, text, strlen(text), 0600, NULL), 0);
}

static void put_number(const char *path, uint64_t n) {
        char text[32];

        snprintf(text, sizeof(text), "%llu\n", (unsigned long long)n);
        put(path, text);
}

static struct machine_memory look(void) {
        struct machine_memory m;

        machine_memory(dir, &m);
        return m;
}

#define V2 "40 30 0:1 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1                                                                                         \
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"                      \
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"              \
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"               \
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"

static void test_nothing(void **state) {
        struct machine_memory m = look();

        (void)state;
        assert_int_equal(m.available, 0);
        assert_true(m.limit == UINT64_MAX && m.group_available == UINT64_MAX);
        assert_int_equal(machine_memory_left(&m), 0);
        assert_false(machine_pressure_file(dir, (char[512]){0}, 512));
}

static void test_system(void **state) {
        struct machine_memory m;

        (void)state;
        put("/proc/meminfo", "MemTotal:  2048 kB\nMemFree: 1 kB\nMemAvailable:\t1024 kB\n");
        m = look();
        assert_int_equal(m.total, 2 * MIB);
        assert_int_equal(m.available, MIB);
        assert_int_equal(machine_memory_left(&m), MIB);
        put("/proc/meminfo", "XMemAvailable: 5 kB\nMemAvailable: -1 kB\nMemTotal: 12x kB\n");
        m = look();
        assert_int_equal(m.available, 0);
        assert_int_equal(m.total, 0);
        put("/proc/meminfo", "MemAvailable: 99999999999999999999 kB\n");
        assert_int_equal(look().available, 0);
        put("/proc/meminfo", "MemAvailable: 18446744073709551615 kB");
        assert_true(look().available == UINT64_MAX);
}

static void test_version_2(void **state) {
        struct machine_memory m;

        (void)state;
        put("/proc/meminfo", "MemAvailable: 1048576 kB\n");
        put("/proc/self/cgroup", "0::/a.slice/b.service\n");
        put("/proc/self/mountinfo", V2);
        put("/sys/fs/cgroup/a.slice/b.service/memory.max", "max\n");
        put("/sys/fs/cgroup/a.slice/b.service/memory.high", "max\n");
        put_number("/sys/fs/cgroup/a.slice/b.service/memory.current", 50 * MIB);
        assert_true(look().limit == UINT64_MAX);
        put_number("/sys/fs/cgroup/a.slice/b.service/memory.max", 100 * MIB);
        assert_int_equal(look().group_available, 50 * MIB);
        put_number("/sys/fs/cgroup/a.slice/b.service/memory.high", 80 * MIB);
        assert_int_equal(look().limit, 80 * MIB);
        assert_int_equal(look().group_available, 30 * MIB);
        put("/sys/fs/cgroup/a.slice/b.service/memory.stat",
                "anon 1\nfile 7\nactive_file 5242880\ninactive_file 10485760\n");
        assert_int_equal(look().group_available, 45 * MIB);
        /* The page cache is counted later than the use, and was larger by then. */
        put("/sys/fs/cgroup/a.slice/b.service/memory.stat",
                "active_file 0\ninactive_file 99999999999\n");
        assert_int_equal(look().group_available, 80 * MIB);
        put("/sys/fs/cgroup/a.slice/b.service/memory.stat",
                "active_file 18446744073709551615\ninactive_file 18446744073709551615\n");
        assert_int_equal(look().group_available, 80 * MIB);
        /* The group above, and the mount point itself, which in a container is a group with limits.
         */
        put_number("/sys/fs/cgroup/a.slice/memory.max", 60 * MIB);
        put_number("/sys/fs/cgroup/a.slice/memory.current", 40 * MIB);
        m = look();
        assert_int_equal(m.limit, 60 * MIB);
        assert_int_equal(m.group_available, 20 * MIB);
        put_number("/sys/fs/cgroup/memory.max", 70 * MIB);
        put_number("/sys/fs/cgroup/memory.current", 69 * MIB);
        m = look();
        assert_int_equal(m.limit, 60 * MIB);
        assert_int_equal(m.group_available, MIB);
        put_number("/sys/fs/cgroup/memory.current", 90 * MIB);
        assert_int_equal(look().group_available, 0);
        /* Above it there are no groups. */
        put_number("/sys/fs/memory.max", MIB);
        put_number("/sys/fs/memory.current", MIB);
        put_number("/memory.max", MIB);
        put_number("/memory.current", MIB);
        assert_int_equal(look().limit, 60 * MIB);
}

/* The layout of systemd's "hybrid" and of old kernels. */
static void test_version_1(void **state) {
        struct machine_memory m;

        (void)state;
        put("/proc/meminfo", "MemAvailable: 1048576 kB\n");
        put("/proc/self/cgroup",
                "9:name=systemd:/memory\n5:cpu,cpuacct:/c\n4:memory:/a/b:c\n0::/\n");
        put("/proc/self/mountinfo", V1);
        put_number("/sys/fs/cgroup/memory/a/b:c/memory.limit_in_bytes", 9223372036854771712u);
        put_number("/sys/fs/cgroup/memory/a/b:c/memory.usage_in_bytes", 20 * MIB);
        put("/sys/fs/cgroup/memory/a/b:c/memory.stat",
                "inactive_file 1\nhierarchical_memory_limit 9223372036854771712\n"
                "total_inactive_file 4194304\ntotal_active_file 1048576\n");
        assert_true(look().limit == UINT64_MAX);
        put_number("/sys/fs/cgroup/memory/a/b:c/memory.limit_in_bytes", 48 * MIB);
        m = look();
        assert_int_equal(m.limit, 48 * MIB);
        assert_int_equal(m.group_available, 33 * MIB);
        put_number("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", 30 * MIB);
        put_number("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", 25 * MIB);
        m = look();
        assert_int_equal(m.limit, 30 * MIB);
        assert_int_equal(m.group_available, 5 * MIB);
        /* A limit of a group that cannot be seen. */
        put("/sys/fs/cgroup/memory/a/b:c/memory.stat", "hierarchical_memory_limit 22020096\n");
        m = look();
        assert_int_equal(m.limit, 21 * MIB);
        assert_int_equal(m.group_available, MIB);
}

/* What a container sees: a long path of which the end is mounted; or nothing of it. */
static void test_container(void **state) {
        (void)state;
        put("/proc/meminfo", "MemAvailable: 1048576 kB\n");
        put("/proc/self/cgroup", "4:memory:/docker/abc/sub\n0::/docker/abc\n");
        put("/proc/self/mountinfo", "1 2 0:1 /docker/ab /elsewhere ro - cgroup cgroup rw,memory\n"
                                    "3 2 0:1 /docker/abc /odd\\040place ro,nosuid master:15 x:1 - "
                                    "cgroup c rw,memory\n");
        put_number("/odd place/memory.limit_in_bytes", 30 * MIB);
        put_number("/odd place/memory.usage_in_bytes", 10 * MIB);
        assert_int_equal(look().group_available, 20 * MIB);
        put_number("/odd place/sub/memory.limit_in_bytes", 12 * MIB);
        put_number("/odd place/sub/memory.usage_in_bytes", 10 * MIB);
        assert_int_equal(look().group_available, 2 * MIB);
        /* Outside of what is mounted: the mount point. */
        put("/proc/self/cgroup", "4:memory:/../other\n");
        assert_int_equal(look().group_available, UINT64_MAX);
        put("/proc/self/mountinfo", "3 2 0:1 / /odd\\040place ro - cgroup c rw,memory\n");
        assert_int_equal(look().group_available, 20 * MIB);
}

static void test_odd_text(void **state) {
        static const char *const groups[] = {
                "", "\n", "0", "0::", "0::a", "::/", "0:::/", "4:memory"};
        static const char *const mounts[] = {"", "\n", "-", " - ", " - cgroup2 ",
                "1 2 3 4 5 6 - cgroup2 cgroup2 rw", "1 2 3 /\\999 /x 6 - cgroup2 c rw",
                "1 2 3 / /\\000 6 - cgroup2 c rw", "1 2 3 - cgroup2 c rw / / /"};
        static struct machine_group g;
        static char huge[3 * MACHINE_PATH_MAX];
        uint64_t n = 7;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
                assert_false(machine_parse_group(groups[i], V2, NULL, &g));
        for (size_t i = 0; i < ARRAY_SIZE(mounts); i++)
                assert_false(machine_parse_group("0::/a\n", mounts[i], NULL, &g));
        memset(huge, 'x', sizeof(huge) - 1);
        memcpy(huge, "0::/", 4);
        assert_false(machine_parse_group(huge, V2, NULL, &g));
        assert_true(machine_parse_group("0::/a\n", V2, NULL, &g));
        assert_string_equal(g.dir, "/sys/fs/cgroup/a");
        assert_true(machine_parse_group("0::/a", "1 2 3 / / rw - cgroup2 c rw", NULL, &g));
        assert_string_equal(g.dir, "/a");
        assert_int_equal(g.n_mount, 0);
        /* A controller is a whole word of the list. */
        assert_true(
                machine_parse_group("3:memoryx:/a\n4:cpu,memory:/b\n5:mem:/c\n", V1, "memory", &g));
        assert_string_equal(g.dir, "/sys/fs/cgroup/memory/b");
        assert_false(machine_parse_number("a 1", "b", &n));
        assert_false(machine_parse_number("a\n 1", "a", &n));
        assert_false(machine_parse_number("a 1.5", "a", &n));
        assert_int_equal(n, 7);
        assert_true(machine_parse_number("aa 1\na 2", "a", &n));
        assert_int_equal(n, 2);
}

static void test_stalls(void **state) {
        struct machine_stalls s = {0};

        (void)state;
        assert_true(machine_parse_stalls("some avg10=1.25 avg60=0.00 avg300=0.00 total=62201793\n"
                                         "full avg10=0.50 avg60=0.00 avg300=0.00 total=17\n",
                &s));
        assert_int_equal(s.some, 62201793);
        assert_int_equal(s.full, 17);
        assert_true(s.some_avg10 > 1.2 && s.some_avg10 < 1.3);
        assert_false(machine_parse_stalls("", &s));
        assert_false(machine_parse_stalls("full avg10=0.50 total=17\n", &s));
        /* A total of another line is not ours. */
        assert_false(machine_parse_stalls("some avg10=1\nfull avg10=0.50 total=17\n", &s));
        assert_false(machine_parse_stalls("some avg10=1 total=-4\n", &s));
        assert_int_equal(s.some, 62201793);
}

static void test_pressure_file(void **state) {
        char path[512], want[512];

        (void)state;
        put("/proc/self/cgroup", "0::/a\n");
        put("/proc/self/mountinfo", V2);
        put("/sys/fs/cgroup/a/memory.pressure", "some\n");
        /* Without events it is the root of all, whose pressure is the system's. */
        assert_false(machine_pressure_file(dir, path, sizeof(path)));
        put("/sys/fs/cgroup/a/cgroup.events", "populated 1\n");
        assert_true(machine_pressure_file(dir, path, sizeof(path)));
        snprintf(want, sizeof(want), "%s/sys/fs/cgroup/a/memory.pressure", dir);
        assert_string_equal(path, want);
        assert_false(machine_pressure_file(dir, path, 10));
}

static void test_cpus(void **state) {
        unsigned all = machine_cpus(dir);

        (void)state;
        assert_true(all >= 1);
        assert_int_equal(machine_parse_cpu_max("max 100000\n"), 0);
        assert_int_equal(machine_parse_cpu_max("100000 100000\n"), 1);
        assert_int_equal(machine_parse_cpu_max("100001 100000\n"), 2);
        assert_int_equal(machine_parse_cpu_max("1 100000\n"), 1);
        assert_int_equal(machine_parse_cpu_max("100000"), 0);
        assert_int_equal(machine_parse_cpu_max("5 0"), 0);
        assert_true(machine_quota_cpus(UINT64_MAX, 1) > 1000);
        put("/proc/self/cgroup", "5:cpu,cpuacct:/c/d\n0::/a/b\n");
        put("/proc/self/mountinfo", V1);
        put("/sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_quota_us", "-1\n");
        put("/sys/fs/cgroup/cpu,cpuacct/c/d/cpu.cfs_period_us", "100000\n");
        assert_int_equal(machine_cpus(dir), all);
        /* A quota above holds below. */
        put("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "50000\n");
        put("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n");
        assert_int_equal(machine_cpus(dir), 1);
        put("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "-1\n");
        assert_int_equal(machine_cpus(dir), all);
        put("/sys/fs/cgroup/unified/a/cpu.max", "20000 100000\n");
        assert_int_equal(machine_cpus(dir), 1);
}

/* The real files of this machine, whatever they are. */
static void test_here(void **state) {
        struct machine_memory m;
        cpu_set_t set;

        (void)state;
        machine_memory(NULL, &m);
        assert_true(m.total > 0 && m.available <= m.total);
        assert_true(machine_cpus(NULL) >= 1);
        if (sched_getaffinity(0, sizeof(set), &set) == 0)
                assert_true(machine_cpus(NULL) <= (unsigned)CPU_COUNT(&set));
}

#define machine_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* What the system has, unless a group of ours has a limit below it. */
static void test_ram(void **state) {
        (void)state;
        assert_true(machine_ram(dir) == UINT64_MAX);
        put("/proc/meminfo", "MemTotal: 4096 kB\nMemFree: 1 kB\nMemAvailable: 1024 kB\n");
        assert_int_equal(machine_ram(dir), 4 << 20);
        put("/proc/self/mountinfo", V2);
        put("/proc/self/cgroup", "0::/a/b\n");
        put("/sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_int_equal(machine_ram(dir), 4 << 20);
        put_number("/sys/fs/cgroup/a/memory.max", 2 << 20);
        put_number("/sys/fs/cgroup/a/memory.current", 1 << 20);
        assert_int_equal(machine_ram(dir), 2 << 20);
        assert_true(machine_ram(NULL) > 16 << 20 && machine_ram(NULL) < UINT64_MAX);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                machine_test(test_nothing),
                machine_test(test_ram),
                machine_test(test_system),
                machine_test(test_version_2),
                machine_test(test_version_1),
                machine_test(test_container),
                machine_test(test_odd_text),
                machine_test(test_stalls),
                machine_test(test_pressure_file),
                machine_test(test_cpus),
                machine_test(test_here),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
