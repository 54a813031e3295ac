/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What this process may use of the machine: memory, processors, and whether memory is short. All of
 * this is read from small files below /proc and from the control groups (cgroups) of this process,
 * version 1, version 2, or both at once (the "hybrid" layout).
 *
 * 1. A group is found through two files: /proc/self/cgroup names our group in each hierarchy, and
 *    /proc/self/mountinfo names the folder where a hierarchy is mounted, with the group that is the
 *    root of that mount. A container may see its own group as "/", or may see a long path of which
 *    only the end is mounted; both cases work.
 * 2. The limits of all groups from ours up to the mount point count, because a limit holds for
 *    everything below its group.
 * 3. A file that cannot be read or parsed sets no limit. Nothing here fails: the answer is then
 *    based on the other files.
 * 4. The content of these files is not trusted: at most MACHINE_FILE_MAX bytes are read of each,
 *    and numbers are checked.
 *
 * @root is put before all paths, so that tests can use files of their own; NULL: the real files.
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
        uint64_t limit;            /* the smallest of our groups' limits; UINT64_MAX: none */
        /* The smallest room left under a group's limit: limit - (used - page cache). The page cache
         * counts as free, because the kernel can drop it. UINT64_MAX: no limit. */
        uint64_t group_available;
};
void machine_memory(const char *root, struct machine_memory *ret);
/* Memory that can be taken now: the lesser of available and group_available. 0 also if unknown. */
uint64_t machine_memory_left(const struct machine_memory *m);

/* The most RAM that this process can have: the system's total, or the smallest limit of our groups
 * if that is less. UINT64_MAX: not known. */
uint64_t machine_ram(const char *root);

/* Pressure stall information: time since boot during which tasks waited for memory, in usec. */
struct machine_stalls {
        uint64_t some, full; /* at least one task waited; all tasks waited */
        double some_avg10;   /* percent of the last ten seconds */
};
/* Parse a memory.pressure file. False if @text is not one. */
bool machine_parse_stalls(const char *text, struct machine_stalls *ret);
/* Path of the memory.pressure file of our own group (version 2). False if there is none, and also
 * if our group is the root group: its pressure is that of the whole system. */
bool machine_pressure_file(const char *root, char *ret, size_t size);

/* How many threads are worth running: the processors that this process may run on, but no more than
 * the CPU quota of a group pays for, rounded up. At least 1. */
unsigned machine_cpus(const char *root);

/* --- for tests and the fuzzer --- */

struct machine_group {
        char dir[MACHINE_PATH_MAX]; /* our group's folder, below @root */
        size_t n_mount;             /* leading bytes of dir that are the mount point */
};
/* Find our group in one hierarchy, from the texts of /proc/self/cgroup and /proc/self/mountinfo.
 * @controller: "memory" or "cpu" of version 1; NULL: version 2. False if there is none. */
bool machine_parse_group(
        const char *groups, const char *mounts, const char *controller, struct machine_group *ret);
/* The number after @key at the beginning of a line ("MemAvailable:", "total_cache"). False if there
 * is none or it does not fit. */
bool machine_parse_number(const char *text, const char *key, uint64_t *ret);
/* The number of processors that a quota pays for, rounded up: from cpu.max ("50000 100000"), or
 * from the two numbers of version 1. 0: no quota. */
unsigned machine_parse_cpu_max(const char *text);
unsigned machine_quota_cpus(uint64_t quota, uint64_t period);
