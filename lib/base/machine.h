/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What this process may use of the machine: memory, processors, and whether memory is short. All of
 * it is read from small files below /proc and from the control groups (cgroups) of this process,
 * version 1, version 2, or both at once (the "hybrid" layout).
 *
 * 1. A group is found by two files: /proc/self/cgroup names our group in each hierarchy, and
 *    /proc/self/mountinfo names the folder where a hierarchy is mounted, with the group that is the
 *    root of that mount. A container may see its own group as "/", or may see a long path of which
 *    only the end is mounted; both are understood.
 * 2. Limits of all groups from ours up to the mount point count, because a limit holds for
 *    everything below its group.
 * 3. What cannot be read or understood is no limit. Nothing here fails: the answer is then what is
 *    known without it.
 * 4. Bytes of these files are not trusted: at most MACHINE_FILE_MAX are read of each, and numbers
 *    are checked.
 *
 * @root stands before all paths, so that tests have files of their own; NULL means the real ones.
 * Any thread. Sources: proc(5), cgroups(7), Linux Documentation/admin-guide/cgroup-v2.rst and
 * cgroup-v1/memory.rst, Documentation/accounting/psi.rst.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MACHINE_FILE_MAX ((size_t)1 << 20)
#define MACHINE_PATH_MAX 4096

/* In bytes. */
struct machine_memory {
        uint64_t total, available; /* of the system; 0: not known */
        uint64_t limit;            /* the least of our groups' limits; UINT64_MAX: none */
        /* The least that a group's limit leaves: limit - (used - page cache). The page cache counts
         * as free, because the kernel can drop it. UINT64_MAX: no limit. */
        uint64_t group_available;
};
void machine_memory(const char *root, struct machine_memory *ret);
/* What there is for the taking: the lesser of both. 0 also if nothing is known. */
uint64_t machine_memory_left(const struct machine_memory *m);

/* How much RAM there is for this process at most: what the system has, or the least limit of our
 * groups if that is less. UINT64_MAX: not known. */
uint64_t machine_ram(const char *root);

/* Pressure stall information: time since boot during which tasks waited for memory, in usec. */
struct machine_stalls {
        uint64_t some, full; /* at least one task; all of them */
        double some_avg10;   /* percent of the last ten seconds */
};
/* False if @text is not such a file. */
bool machine_parse_stalls(const char *text, struct machine_stalls *ret);
/* The memory.pressure file of our own group (version 2). False if there is none, and also if our
 * group is the root of all: its pressure is that of the whole system. */
bool machine_pressure_file(const char *root, char *ret, size_t size);

/* How many threads are worth running: the processors that this process may run on, but no more than
 * the CPU quota of a group pays for, rounded up. At least 1. */
unsigned machine_cpus(const char *root);

/* --- for tests and the fuzzer --- */

struct machine_group {
        char dir[MACHINE_PATH_MAX]; /* our group's folder, below @root */
        size_t n_mount;             /* bytes of it that are the mount point */
};
/* Our group of one hierarchy, from the text of /proc/self/cgroup and /proc/self/mountinfo.
 * @controller: "memory" or "cpu" of version 1; NULL: version 2. False if there is none. */
bool machine_parse_group(
        const char *groups, const char *mounts, const char *controller, struct machine_group *ret);
/* The number behind @key at the beginning of a line ("MemAvailable:", "total_cache"). False if
 * there is none, or none that fits. */
bool machine_parse_number(const char *text, const char *key, uint64_t *ret);
/* Processors that a quota pays for, rounded up; from cpu.max ("50000 100000"), or from the two
 * numbers of version 1. 0: no quota. */
unsigned machine_parse_cpu_max(const char *text);
unsigned machine_quota_cpus(uint64_t quota, uint64_t period);
