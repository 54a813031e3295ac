/* SPDX-License-Identifier: MIT */
#include "base/machine.h"
#include "base/cleanup.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_LIMIT ((uint64_t)1 << 62) /* version 1 says "none" by a number about as large */
#define CPUS_MOST (1 << 20)          /* of an affinity mask; the kernel knows 8192 today */

/* --- text --- */

/* At most MACHINE_FILE_MAX bytes of a file, NUL-terminated, to be freed; NULL if unreadable. */
static char *read_text(const char *root, const char *dir, const char *name) {
        char path[2 * MACHINE_PATH_MAX];
        _cleanup_(closep) int fd = -1;
        size_t n = 0, size = 4096;
        char *text = NULL;

        if ((size_t)snprintf(path, sizeof(path), "%s%s%s", root ? root : "", dir, name) >=
                sizeof(path))
                return NULL;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return NULL;
        for (;;) {
                char *more = text && n < size - 1 ? text : realloc(text, text ? size *= 2 : size);
                ssize_t k;

                if (!more) {
                        free(text);
                        return NULL;
                }
                text = more;
                k = read(fd, text + n, size - 1 - n);
                if (k < 0 && errno == EINTR)
                        continue;
                n += k > 0 ? (size_t)k : 0;
                if (k <= 0 || n >= MACHINE_FILE_MAX) {
                        text[n] = '\0';
                        return text;
                }
        }
}

static const char *next_line(const char *line) {
        const char *end = strchr(line, '\n');

        return end && end[1] ? end + 1 : NULL;
}

/* A decimal number that is a word of its own. */
static bool to_number(const char *s, uint64_t *ret) {
        unsigned long long v;
        char *end;

        if (*s < '0' || *s > '9')
                return false;
        errno = 0;
        v = strtoull(s, &end, 10);
        if (errno != 0 || (*end && !strchr(" \t\n", *end)))
                return false;
        *ret = v;
        return true;
}

bool machine_parse_number(const char *text, const char *key, uint64_t *ret) {
        size_t n = strlen(key);

        for (const char *line = text; line; line = next_line(line))
                if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == '\t'))
                        return to_number(line + n + strspn(line + n, " \t"), ret);
        return false;
}

/* --- our groups --- */

/* Whether @word is in the comma-separated list. */
static bool in_list(const char *list, const char *word) {
        size_t n = strlen(word);

        for (;;) {
                size_t k = strcspn(list, ",:\n ");

                if (k == n && strncmp(list, word, n) == 0)
                        return true;
                if (list[k] != ',')
                        return false;
                list += k + 1;
        }
}

/* The path of "ID:CONTROLLERS:PATH"; the length of the rest of the line goes to @n. */
static const char *group_path(const char *groups, const char *controller, size_t *n) {
        for (const char *line = groups; line; line = next_line(line)) {
                size_t length = strcspn(line, "\n");
                const char *list = memchr(line, ':', length), *path;

                path = list ? memchr(list + 1, ':', length - (size_t)(list + 1 - line)) : NULL;
                if (!path || path[1] != '/')
                        continue;
                if (controller ? !in_list(list + 1, controller) : (strncmp(line, "0::", 3) != 0))
                        continue;
                *n = length - (size_t)(path + 1 - line);
                return path + 1;
        }
        return NULL;
}

/* A field of mountinfo, in which the kernel writes blanks and the like as \ooo. */
static bool unescape(const char *field, size_t n, char *ret, size_t size) {
        size_t k = 0;

        for (size_t i = 0; i < n; i++) {
                unsigned c = (unsigned char)field[i];

                if (c == '\\' && n - i > 3) {
                        c = 0;
                        for (size_t d = 1; d <= 3; d++) {
                                if (field[i + d] < '0' || field[i + d] > '7')
                                        return false;
                                c = c * 8 + (unsigned)(field[i + d] - '0');
                        }
                        i += 3;
                }
                if (k + 1 >= size || c == 0 || c > UCHAR_MAX)
                        return false;
                ret[k++] = (char)c;
        }
        ret[k] = '\0';
        return true;
}

struct mount {
        char root[MACHINE_PATH_MAX], point[MACHINE_PATH_MAX];
};

/* "36 35 98:0 ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPER-OPTIONS" */
static bool parse_mount(const char *line, const char *controller, struct mount *ret) {
        const char *fields[10] = {line}, *type = NULL;
        size_t length = strcspn(line, "\n"), n = 1;

        for (const char *at = line; (at = memchr(at, ' ', length - (size_t)(at - line)));) {
                at++;
                if (!type && at[0] == '-' && at[1] == ' ')
                        type = at + 2;
                if (n < ARRAY_SIZE(fields))
                        fields[n++] = at;
        }
        if (!type || n < 6 || type < fields[5])
                return false;
        if (controller) {
                const char *options = NULL, *end = line + length;

                if (strncmp(type, "cgroup ", 7) == 0)
                        options = memchr(type + 7, ' ', (size_t)(end - (type + 7)));
                if (!options || !in_list(options + 1, controller))
                        return false;
        } else if (strncmp(type, "cgroup2 ", 8) != 0) {
                return false;
        }
        return unescape(fields[3], strcspn(fields[3], " "), ret->root, sizeof(ret->root)) &&
               unescape(fields[4], strcspn(fields[4], " "), ret->point, sizeof(ret->point)) &&
               ret->point[0] == '/';
}

/* The part of our path below the root of a mount; NULL if it lies elsewhere. */
static const char *below(const char *path, const char *root) {
        size_t n = strlen(root);

        if (n > 0 && root[n - 1] == '/')
                n--;
        if (strncmp(path, root, n) != 0 || (path[n] && path[n] != '/'))
                return NULL;
        return path + n;
}

bool machine_parse_group(
        const char *groups, const char *mounts, const char *controller, struct machine_group *ret) {
        _cleanup_(freep) struct mount *m = malloc(sizeof(*m));
        char path[MACHINE_PATH_MAX];
        bool found = false;
        const char *own;
        size_t n;

        own = group_path(groups, controller, &n);
        if (!m || !own || n >= sizeof(path))
                return false;
        memcpy(path, own, n);
        path[n] = '\0';
        for (const char *line = mounts; line; line = next_line(line)) {
                const char *rest;

                if (!parse_mount(line, controller, m))
                        continue;
                rest = strstr(path, "/..") ? NULL : below(path, m->root);
                /* Elsewhere: the mount point is as near to our group as can be seen from here. */
                if (!rest && found)
                        continue;
                n = strcmp(m->point, "/") == 0 ? 0 : strlen(m->point);
                if (n + strlen(rest ? rest : "") >= sizeof(ret->dir))
                        continue;
                memcpy(ret->dir, m->point, n);
                strcpy(ret->dir + n, rest && strcmp(rest, "/") != 0 ? rest : "");
                ret->n_mount = n;
                found = true;
                if (rest)
                        break;
        }
        return found;
}

static bool own_group(const char *root, const char *controller, struct machine_group *ret) {
        _cleanup_(freep) char *groups = read_text(root, "/proc/self/", "cgroup");
        _cleanup_(freep) char *mounts = read_text(root, "/proc/self/", "mountinfo");

        return groups && mounts && machine_parse_group(groups, mounts, controller, ret);
}

/* Go to the parent group; false at the mount point. */
static bool go_up(struct machine_group *g) {
        char *slash = strrchr(g->dir + g->n_mount, '/');

        if (!slash)
                return false;
        *slash = '\0';
        return true;
}

/* --- memory --- */

static bool read_number(const char *root, const char *dir, const char *name, uint64_t *ret) {
        _cleanup_(freep) char *text = read_text(root, dir, name);

        return text && to_number(text, ret); /* "max" is no number: no limit */
}

static uint64_t number_or_zero(const char *text, const char *key) {
        uint64_t n = 0;

        return text && machine_parse_number(text, key, &n) ? n : 0;
}

struct level {
        uint64_t limit, used, cache;
};

static uint64_t sum(uint64_t a, uint64_t b) {
        return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

/* One group of version 2. False without a limit. */
static bool read_level(const char *root, const char *dir, struct level *ret) {
        _cleanup_(freep) char *stat = NULL;
        uint64_t n;

        ret->limit = UINT64_MAX;
        if (read_number(root, dir, "/memory.max", &n))
                ret->limit = MIN(ret->limit, n);
        if (read_number(root, dir, "/memory.high", &n))
                ret->limit = MIN(ret->limit, n);
        if (ret->limit >= NO_LIMIT || !read_number(root, dir, "/memory.current", &ret->used))
                return false;
        stat = read_text(root, dir, "/memory.stat");
        ret->cache =
                sum(number_or_zero(stat, "active_file"), number_or_zero(stat, "inactive_file"));
        return true;
}

/* One group of version 1. Its statistics include the limits of parent groups that are invisible. */
static bool read_level_1(const char *root, const char *dir, struct level *ret) {
        _cleanup_(freep) char *stat = read_text(root, dir, "/memory.stat");
        uint64_t n;

        ret->limit = UINT64_MAX;
        if (read_number(root, dir, "/memory.limit_in_bytes", &n))
                ret->limit = n;
        if (stat && machine_parse_number(stat, "hierarchical_memory_limit", &n))
                ret->limit = MIN(ret->limit, n);
        if (ret->limit >= NO_LIMIT || !read_number(root, dir, "/memory.usage_in_bytes", &ret->used))
                return false;
        ret->cache = sum(number_or_zero(stat, "total_active_file"),
                number_or_zero(stat, "total_inactive_file"));
        return true;
}

static void apply_limits(const char *root, const char *controller, struct machine_memory *m) {
        _cleanup_(freep) struct machine_group *g = malloc(sizeof(*g));
        struct level l;

        if (!g || !own_group(root, controller, g))
                return;
        do {
                uint64_t used;

                if (!(controller ? read_level_1(root, g->dir, &l) : read_level(root, g->dir, &l)))
                        continue;
                /* The statistics are read later than the use, and may be larger by then. */
                used = l.used > l.cache ? l.used - l.cache : 0;
                m->limit = MIN(m->limit, l.limit);
                m->group_available =
                        MIN(m->group_available, l.limit > used ? l.limit - used : (uint64_t)0);
        } while (go_up(g));
}

static uint64_t kib_of(const char *text, const char *key) {
        uint64_t n = number_or_zero(text, key);

        return n < UINT64_MAX >> 10 ? n << 10 : UINT64_MAX;
}

void machine_memory(const char *root, struct machine_memory *ret) {
        _cleanup_(freep) char *text = read_text(root, "/proc/", "meminfo");

        *ret = (struct machine_memory){.total = kib_of(text, "MemTotal:"),
                .available = kib_of(text, "MemAvailable:"),
                .limit = UINT64_MAX,
                .group_available = UINT64_MAX};
        apply_limits(root, NULL, ret);
        apply_limits(root, "memory", ret);
}

uint64_t machine_memory_left(const struct machine_memory *m) {
        return MIN(m->available, m->group_available);
}

uint64_t machine_ram(const char *root) {
        struct machine_memory m;

        machine_memory(root, &m);
        return m.total > 0 ? MIN(m.total, m.limit) : m.limit;
}

/* --- pressure --- */

bool machine_parse_stalls(const char *text, struct machine_stalls *ret) {
        struct machine_stalls s = {0};
        bool has_some = false;

        for (const char *line = text; line; line = next_line(line)) {
                bool some = strncmp(line, "some ", 5) == 0, full = strncmp(line, "full ", 5) == 0;
                const char *at = strstr(line, " total="), *avg = strstr(line, " avg10=");
                const char *end = line + strcspn(line, "\n");

                if ((!some && !full) || !at || at > end ||
                        !to_number(at + strlen(" total="), some ? &s.some : &s.full))
                        continue;
                has_some = has_some || some;
                if (some && avg && avg < end)
                        s.some_avg10 = strtod(avg + strlen(" avg10="), NULL);
        }
        if (has_some)
                *ret = s;
        return has_some;
}

bool machine_pressure_file(const char *root, char *ret, size_t size) {
        _cleanup_(freep) struct machine_group *g = malloc(sizeof(*g));
        char path[2 * MACHINE_PATH_MAX];

        if (!g || !own_group(root, NULL, g))
                return false;
        root = root ? root : "";
        /* The root of all groups has no events. */
        if ((size_t)snprintf(path, sizeof(path), "%s%s/cgroup.events", root, g->dir) >=
                        sizeof(path) ||
                access(path, F_OK) != 0)
                return false;
        return (size_t)snprintf(ret, size, "%s%s/memory.pressure", root, g->dir) < size &&
               access(ret, R_OK) == 0;
}

/* --- processors --- */

unsigned machine_quota_cpus(uint64_t quota, uint64_t period) {
        uint64_t n;

        if (quota == 0 || period == 0)
                return 0;
        n = quota / period + (quota % period != 0);
        return (unsigned)MIN(n, (uint64_t)CPUS_MOST);
}

unsigned machine_parse_cpu_max(const char *text) {
        uint64_t quota, period;
        const char *second = strchr(text, ' ');

        if (!second || !to_number(text, &quota) || !to_number(second + 1, &period))
                return 0; /* "max 100000" */
        return machine_quota_cpus(quota, period);
}

static unsigned apply_quotas(const char *root, const char *controller, unsigned most) {
        _cleanup_(freep) struct machine_group *g = malloc(sizeof(*g));

        if (!g || !own_group(root, controller, g))
                return most;
        do {
                _cleanup_(freep) char *text =
                        controller ? NULL : read_text(root, g->dir, "/cpu.max");
                uint64_t quota, period;
                unsigned n = 0;

                if (text)
                        n = machine_parse_cpu_max(text);
                else if (controller && read_number(root, g->dir, "/cpu.cfs_quota_us", &quota) &&
                         read_number(root, g->dir, "/cpu.cfs_period_us", &period))
                        n = machine_quota_cpus(quota, period); /* "-1" is no number: no quota */
                if (n > 0)
                        most = MIN(most, n);
        } while (go_up(g));
        return most;
}

/* The mask may be of any size: the kernel refuses one that is smaller than its own. */
static unsigned count_cpus(void) {
        for (int n = 1024; n <= CPUS_MOST; n *= 2) {
                cpu_set_t *set = CPU_ALLOC((size_t)n);
                size_t size = CPU_ALLOC_SIZE((size_t)n);
                int r, count;

                if (!set)
                        return 1;
                r = sched_getaffinity(0, size, set);
                count = r == 0 ? CPU_COUNT_S(size, set) : 0;
                CPU_FREE(set);
                if (r == 0)
                        return count > 0 ? (unsigned)count : 1;
                if (errno != EINVAL)
                        return 1;
        }
        return 1;
}

unsigned machine_cpus(const char *root) {
        unsigned n = count_cpus();

        n = apply_quotas(root, NULL, n);
        return MAX(apply_quotas(root, "cpu", n), 1u);
}
