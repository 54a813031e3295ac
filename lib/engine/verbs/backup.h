/* SPDX-License-Identifier: MIT */
#pragma once
/* A backup that is being made: backup.c has the stages, backup-memory.c what they do with memory, backup-archive.c the file that
 * both write. */
#include "base/buf.h"
#include "base/hash.h"
#include "engine/verbs/create.h"
#include "engine/verbs/transfer.h"

#define BACKUP_SLICE ((size_t)1 << 20) /* bytes */
#define BACKUP_FOLDER "confab-backup/"

/* The memory of a backup. */
struct backing_memory {
        struct store
                *copy; /* of the register; NULL: no memory is wanted, or all is in the archive */
        struct store_checker *records; /* of the copy */
        struct store_held *page;       /* [BACKUP_PAGE] */
        size_t n, at;
        bool more;
        uint8_t *stored; /* [capacity]: one record */
        size_t capacity;
        uint64_t n_records, size; /* that are in the archive */
        struct hash64 hash;       /* of these bytes */
};

struct backing {
        bool counted; /* it is the one that is under way */
        enum { BEGIN, COPY, FINISH, MEMORY, SEAL, ARCHIVE, END, DONE } stage;
        struct store_backup *copy;
        int fd;          /* of the archive, or -1 */
        uint64_t size;   /* of the archive so far */
        int register_fd; /* of the copy, or -1 */
        uint64_t register_size, at;
        uint64_t held; /* bytes that count among export_bytes */
        struct hash64 hash;
        uint64_t created_usec, n_convs, register_hash;
        uint8_t *slice;
        struct backing_memory memory;
};

static inline struct backing *backing_of(struct request *request) {
        return request_own(request);
}

/* --- backup-archive.c. Workers, as the others --- */

/* The copy of the register, or what SQLite puts beside it. */
void backup_copy_path(const struct engine *engine, const char *suffix, char out[4096]);
int backup_put(struct backing *x, const void *data, size_t n, struct err *e);
/* What was written into @b with the result @r. Frees it. */
int backup_put_buf(struct backing *x, struct buf *b, int r, struct err *e);
int backup_put_header(struct backing *x, const char *name, uint64_t size, struct err *e);
/* Behind a file of @size bytes. */
int backup_put_padding(struct backing *x, uint64_t size, struct err *e);
/* A file of the archive, whole. */
int backup_put_file(struct backing *x, const char *name, const void *data, size_t n, struct err *e);
/* So many more bytes are going to be on disk: -ERR_LIMIT. */
int backup_take_room(struct engine *engine, struct backing *x, uint64_t n, struct err *e);

/* --- backup-memory.c --- */

/* The copy is complete: open it. */
int backup_memory_begin(struct engine *engine, struct backing *x, struct err *e);
/* Some records. 1: there are more; 0: all are in the archive. */
int backup_memory_step(struct engine *engine, struct request *request, struct err *e);
/* Close the copy, which has only records that are in the archive. */
int backup_memory_end(struct engine *engine, struct backing *x, struct err *e);
void backup_memory_deinit(struct backing_memory *m);
