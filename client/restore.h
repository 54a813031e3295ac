/* SPDX-License-Identifier: MIT */
#pragma once
/* A state folder of a backup (docs/confabd.8). No daemon is asked. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

struct restore_owner {
        bool is; /* false: the present owner of the folder, as far as we may; else we */
        uid_t uid;
        gid_t gid;
};
/* Is told how many bytes were read, also when a signal broke off the waiting for more; false ends it with -ERR_CANCELLED. */
struct restore_watch {
        bool (*fn)(void *userdata, uint64_t n_read);
        void *userdata;
};
/* What the archive says of itself. */
struct restored {
        uint64_t n_conversations, created_usec;
        uint64_t memory_size; /* bytes; 0: it has none */
        char model[128], fingerprint[64], version[32];
};
/* Read the archive from @fd to its end, and make the folder @dir of it, which must be missing or empty. It is there as a whole
 * and durable if this returns 0; else it is as it was. -ERR_FORMAT, -ERR_CORRUPT (checksums), -ERR_UNSUPPORTED,
 * -ERR_EXISTS (not empty), -ERR_SYS, -ERR_NOMEM, -ERR_CANCELLED. @watch: or NULL. */
int restore_state(int fd, const char *dir, const struct restore_owner *owner,
        const struct restore_watch *watch, struct restored *ret, struct err *e);
