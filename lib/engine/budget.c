/* SPDX-License-Identifier: MIT */
/*
 * The ledger's budget when the setting is "auto": three quarters of what is free, where free is the
 * least of MemAvailable and, inside a cgroup with a limit, what the limit leaves; less the weights,
 * which want to stay in the page cache. At least 64 MiB. Sources: proc(5) meminfo, Linux
 * Documentation/admin-guide/cgroup-v2.rst.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

#define LEAST ((uint64_t)64 << 20)

static uint64_t mem_available(void) {
        _cleanup_(fclosep) FILE *f = fopen("/proc/meminfo", "re");
        char line[256];
        unsigned long long kib;

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
                        return (uint64_t)kib << 10;
        return 0;
}

static bool read_number(const char *dir, const char *name, uint64_t *ret) {
        _cleanup_(fclosep) FILE *f = NULL;
        char path[4352];
        unsigned long long v;

        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", dir, name);
        f = fopen(path, "re");
        if (!f || fscanf(f, "%llu", &v) != 1)
                return false; /* "max" is no number: no limit */
        *ret = v;
        return true;
}

/* What the limits of this process's cgroup and those above leave; UINT64_MAX without any. */
static uint64_t cgroup_available(void) {
        _cleanup_(fclosep) FILE *f = fopen("/proc/self/cgroup", "re");
        char line[4096], *dir, *slash;
        uint64_t least = UINT64_MAX;

        while (f && fgets(line, sizeof(line), f)) {
                if (strncmp(line, "0::", 3) != 0)
                        continue;
                dir = line + 3;
                dir[strcspn(dir, "\n")] = '\0';
                for (;;) {
                        uint64_t max, used;

                        if (read_number(dir, "memory.max", &max) &&
                                read_number(dir, "memory.current", &used))
                                least = MIN(least, max > used ? max - used : 0);
                        slash = strrchr(dir, '/');
                        if (!slash)
                                break;
                        *slash = '\0';
                }
        }
        return least;
}

uint64_t budget_auto(uint64_t weights_size) {
        uint64_t n = MIN(mem_available(), cgroup_available());

        n = n > weights_size ? (n - weights_size) / 4 * 3 : 0;
        return MAX(n, LEAST);
}
