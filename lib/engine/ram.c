/* SPDX-License-Identifier: MIT */
/*
 * How much RAM there is for this process at most: what the system has, or the least memory.max of
 * its cgroup (version 2) and those above, if that is less.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/internal.h"

#define CGROUPS "/sys/fs/cgroup"

/* UINT64_MAX: none, as the word "max" is no number. */
static uint64_t limit_of(const char *dir) {
        _cleanup_(fclosep) FILE *f = NULL;
        unsigned long long v;
        char path[8192];

        if ((size_t)snprintf(path, sizeof(path), CGROUPS "%s/memory.max", dir) < sizeof(path))
                f = fopen(path, "re");
        return f && fscanf(f, "%llu", &v) == 1 ? (uint64_t)v : UINT64_MAX;
}

static uint64_t least_limit(void) {
        _cleanup_(fclosep) FILE *f = fopen("/proc/self/cgroup", "re");
        uint64_t least = UINT64_MAX;
        char line[4096];

        while (f && fgets(line, sizeof(line), f)) {
                char *dir = line + strlen("0::"), *slash;

                if (strncmp(line, "0::", strlen("0::")) != 0)
                        continue;
                dir[strcspn(dir, "\n")] = '\0';
                while ((slash = strrchr(dir, '/'))) {
                        uint64_t n = limit_of(dir);

                        least = MIN(least, n);
                        *slash = '\0';
                }
        }
        return least;
}

uint64_t ram_size(void) {
        uint64_t n = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        uint64_t limit = least_limit();

        return MIN(n, limit);
}
