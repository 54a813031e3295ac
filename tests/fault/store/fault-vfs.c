/* SPDX-License-Identifier: MIT */
#include "fault-vfs.h"
#include "base/list.h"
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One write that no sync has covered, with what was there before. */
struct undo {
        struct list link;
        char *path;
        int64_t offset, old_size;
        size_t n;
        uint8_t *old; /* [n], zero behind the old end */
};

struct file {
        sqlite3_file base;
        sqlite3_file *real; /* behind this struct */
        char *path;
        bool durable; /* part of what a power cut concerns: not the shared-memory index */
};

static sqlite3_vfs *real_vfs;
static struct list undos = LIST_INIT(undos);
static long left = -1;
static bool fail_full, fail_sticky, hit;
static unsigned kinds = FAULT_VFS_CHANGES;
static int error_number;

void fault_vfs_kinds(unsigned mask) {
        kinds = mask;
}

void fault_vfs_errno(int sys) {
        error_number = sys;
}

void fault_vfs_arm(long n, bool full, bool sticky) {
        left = n;
        fail_full = full;
        fail_sticky = sticky;
        hit = false;
}

bool fault_vfs_hit(void) {
        return hit;
}

static bool step(unsigned kind) {
        if (left < 0 || !(kinds & kind))
                return false;
        if (left > 0) {
                left--;
                return false;
        }
        hit = true;
        errno = fail_full ? ENOSPC : error_number;
        if (!fail_sticky)
                left = -1;
        return true;
}

static void undo_free(struct undo *u) {
        list_unlink(&u->link);
        free(u->path);
        free(u->old);
        free(u);
}

static void forget(const char *path) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &undos) {
                struct undo *u = list_entry(it, struct undo, link);

                if (!path || strcmp(u->path, path) == 0)
                        undo_free(u);
        }
}

void fault_vfs_clear(void) {
        forget(NULL);
}

static void remember(struct file *f, int64_t offset, size_t n) {
        struct undo *u = calloc(1, sizeof(*u));
        sqlite3_int64 size = 0;
        size_t there;

        f->real->pMethods->xFileSize(f->real, &size);
        u->path = strdup(f->path);
        u->offset = offset;
        u->old_size = size;
        u->n = n;
        u->old = calloc(1, n + 1);
        there = offset >= size ? 0 : (size_t)MIN((int64_t)n, (int64_t)size - offset);
        if (there)
                f->real->pMethods->xRead(f->real, u->old, (int)there, offset);
        list_append(&undos, &u->link);
}

void fault_vfs_power_cut(uint32_t seed, unsigned keep) {
        bool torn = false;

        while (!list_empty(&undos)) {
                struct undo *u = list_entry(undos.prev, struct undo, link);

                seed = seed * 1664525u + 1013904223u;
                if ((seed >> 16) % 100 >= keep) {
                        int fd = open(u->path, O_RDWR | O_CLOEXEC);
                        size_t from = torn || keep == 0 ? 0 : u->n / 2;

                        torn = true;
                        if (fd >= 0) {
                                if (pwrite(fd, u->old + from, u->n - from,
                                            u->offset + (int64_t)from) < 0)
                                        perror("power cut");
                                /* Kept later writes may have made it longer: leave those. */
                                if (keep == 0 && ftruncate(fd, u->old_size) < 0)
                                        perror("power cut");
                                close(fd);
                        }
                }
                undo_free(u);
        }
}

static int f_close(sqlite3_file *sf) {
        struct file *f = (struct file *)sf;
        int rc = f->real->pMethods->xClose(f->real);

        free(f->path);
        return rc;
}

static int f_read(sqlite3_file *sf, void *p, int n, sqlite3_int64 at) {
        struct file *f = (struct file *)sf;

        if (step(FAULT_VFS_READ))
                return SQLITE_IOERR_READ;
        return f->real->pMethods->xRead(f->real, p, n, at);
}

static int f_write(sqlite3_file *sf, const void *p, int n, sqlite3_int64 at) {
        struct file *f = (struct file *)sf;

        if (f->durable && step(FAULT_VFS_CHANGES)) {
                /* A full disk takes a part. */
                if (n > 1)
                        remember(f, at, (size_t)n / 2);
                f->real->pMethods->xWrite(f->real, p, n / 2, at);
                errno = fail_full ? ENOSPC : error_number;
                return fail_full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
        }
        if (f->durable)
                remember(f, at, (size_t)n);
        return f->real->pMethods->xWrite(f->real, p, n, at);
}

static int f_truncate(sqlite3_file *sf, sqlite3_int64 size) {
        struct file *f = (struct file *)sf;

        if (f->durable && step(FAULT_VFS_CHANGES))
                return SQLITE_IOERR_TRUNCATE;
        return f->real->pMethods->xTruncate(f->real, size);
}

static int f_sync(sqlite3_file *sf, int flags) {
        struct file *f = (struct file *)sf;

        if (f->durable && step(FAULT_VFS_CHANGES))
                return SQLITE_IOERR_FSYNC;
        forget(f->path);
        /* Nothing here survives a real power cut: the test would only wear out the disk. */
        return SQLITE_OK;
}

/* @kind 0: never fails. */
#define PASS(name, kind, code, params, args)                                                       \
        static int f_##name params {                                                               \
                sqlite3_file *real = ((struct file *)sf)->real;                                    \
                return step(kind) ? (code) : real->pMethods->args;                                 \
        }                                                                                          \
        struct pass_##name
PASS(size, FAULT_VFS_READ, SQLITE_IOERR_FSTAT, (sqlite3_file * sf, sqlite3_int64 *ret),
        xFileSize(real, ret));
PASS(lock, FAULT_VFS_LOCK, SQLITE_IOERR_LOCK, (sqlite3_file * sf, int l), xLock(real, l));
PASS(unlock, 0, 0, (sqlite3_file * sf, int l), xUnlock(real, l));
PASS(reserved, FAULT_VFS_LOCK, SQLITE_IOERR_CHECKRESERVEDLOCK, (sqlite3_file * sf, int *ret),
        xCheckReservedLock(real, ret));
PASS(control, 0, 0, (sqlite3_file * sf, int op, void *p), xFileControl(real, op, p));
PASS(sector, 0, 0, (sqlite3_file * sf), xSectorSize(real));
PASS(shm_map, FAULT_VFS_SHM, SQLITE_IOERR_SHMMAP,
        (sqlite3_file * sf, int pg, int sz, int ext, void volatile **p),
        xShmMap(real, pg, sz, ext, p));
/* Giving a lock back does not fail. */
PASS(shm_lock, flags &SQLITE_SHM_LOCK ? FAULT_VFS_SHM : 0, SQLITE_IOERR_SHMLOCK,
        (sqlite3_file * sf, int o, int n, int flags), xShmLock(real, o, n, flags));
PASS(shm_unmap, 0, 0, (sqlite3_file * sf, int del), xShmUnmap(real, del));

/* No promises about atomic or ordered writes. */
static int f_device(sqlite3_file *sf) {
        return 0;
}

static void f_barrier(sqlite3_file *sf) {
        sqlite3_file *real = ((struct file *)sf)->real;

        real->pMethods->xShmBarrier(real);
}

static const sqlite3_io_methods methods = {
        .iVersion = 2,
        .xClose = f_close,
        .xRead = f_read,
        .xWrite = f_write,
        .xTruncate = f_truncate,
        .xSync = f_sync,
        .xFileSize = f_size,
        .xLock = f_lock,
        .xUnlock = f_unlock,
        .xCheckReservedLock = f_reserved,
        .xFileControl = f_control,
        .xSectorSize = f_sector,
        .xDeviceCharacteristics = f_device,
        .xShmMap = f_shm_map,
        .xShmLock = f_shm_lock,
        .xShmBarrier = f_barrier,
        .xShmUnmap = f_shm_unmap,
};

static int v_open(sqlite3_vfs *v, const char *path, sqlite3_file *sf, int flags, int *out_flags) {
        struct file *f = (struct file *)sf;
        int rc;

        *f = (struct file){.real = (sqlite3_file *)(f + 1)};
        f->durable = path &&
                     (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL));
        if (step(FAULT_VFS_OPEN))
                return SQLITE_CANTOPEN;
        rc = real_vfs->xOpen(real_vfs, path, f->real, flags, out_flags);
        if (rc != SQLITE_OK)
                return rc;
        f->path = strdup(path ? path : "");
        f->base.pMethods = &methods;
        return SQLITE_OK;
}

static int v_delete(sqlite3_vfs *v, const char *path, int sync_dir) {
        if (step(FAULT_VFS_CHANGES))
                return SQLITE_IOERR_DELETE;
        forget(path);
        return real_vfs->xDelete(real_vfs, path, sync_dir);
}

static int v_access(sqlite3_vfs *v, const char *path, int flags, int *ret) {
        if (step(FAULT_VFS_OPEN))
                return SQLITE_IOERR_ACCESS;
        return real_vfs->xAccess(real_vfs, path, flags, ret);
}

static int v_full(sqlite3_vfs *v, const char *path, int n, char *out) {
        return real_vfs->xFullPathname(real_vfs, path, n, out);
}

static int v_random(sqlite3_vfs *v, int n, char *out) {
        return real_vfs->xRandomness(real_vfs, n, out);
}

static int v_sleep(sqlite3_vfs *v, int usec) {
        return real_vfs->xSleep(real_vfs, usec);
}

static int v_time(sqlite3_vfs *v, double *ret) {
        return real_vfs->xCurrentTime(real_vfs, ret);
}

static int v_error(sqlite3_vfs *v, int n, char *out) {
        return hit ? fail_full ? ENOSPC : error_number : 0;
}

int fault_vfs_install(void) {
        static sqlite3_vfs vfs = {
                .iVersion = 1,
                .zName = "fault",
                .xOpen = v_open,
                .xDelete = v_delete,
                .xAccess = v_access,
                .xFullPathname = v_full,
                .xRandomness = v_random,
                .xSleep = v_sleep,
                .xCurrentTime = v_time,
                .xGetLastError = v_error,
        };

        real_vfs = sqlite3_vfs_find("unix");
        if (!real_vfs)
                return -1;
        vfs.szOsFile = (int)sizeof(struct file) + real_vfs->szOsFile;
        vfs.mxPathname = real_vfs->mxPathname;
        return sqlite3_vfs_register(&vfs, 1) == SQLITE_OK ? 0 : -1;
}
