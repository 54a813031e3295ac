/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A disk that fails, and a power cut, for SQLite: a VFS over the default one.
 *
 * Operations that change a file (write, truncate, sync, delete), or those of other kinds, are
 * counted. The armed operation fails, and with @sticky all later ones as well.
 * fault_vfs_power_cut() then undoes writes since each file's last sync, as if they had never left
 * the page cache: all but @keep percent of them (the disk may have taken some, in any order). With
 * @keep > 0 the first undone write is torn in the middle.
 */
#include <stdbool.h>
#include <stdint.h>

/* Make it SQLite's default. */
int fault_vfs_install(void);
/* The kinds of operations that are counted and fail; FAULT_VFS_CHANGES unless set. */
enum {
        FAULT_VFS_CHANGES = 1,
        FAULT_VFS_OPEN = 2, /* and looks at paths */
        FAULT_VFS_LOCK = 4,
        FAULT_VFS_SHM = 8,
        FAULT_VFS_READ = 16, /* and sizes */
};
void fault_vfs_kinds(unsigned mask);
/* errno of I/O errors from now on; 0: none is known. */
void fault_vfs_errno(int sys);
/* Fail the @n-th operation from now (0: the next) with "disk full" or an I/O error; -1: none. */
void fault_vfs_arm(long n, bool full, bool sticky);
bool fault_vfs_hit(void);
/* Forget what is unsynced (begin of an experiment). */
void fault_vfs_clear(void);
/* To be called when all files are closed. */
void fault_vfs_power_cut(uint32_t seed, unsigned keep);
