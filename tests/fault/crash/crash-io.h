/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Stops the program, or makes a call fail, at the n-th call that changes files: write, pwrite,
 * pwritev, fsync, fdatasync, ftruncate, fallocate, rename, unlink, mkdir, copy_file_range, and open
 * where it may make a file. The program's own definitions stand before the C library's, so that the
 * calls of shared libraries (SQLite) are struck as well. Threads are counted together.
 *
 * The power can go, too: what was written to a file since its last fsync is then taken back, write
 * by write, each with a chance of one half, before the program stops. (A file's name is taken to be
 * durable at once.)
 */
#include <stdbool.h>
#include <stdint.h>

enum crash_mode {
        CRASH_COUNT,  /* nothing happens */
        CRASH_BEFORE, /* stop instead of the call */
        CRASH_TORN,   /* a write: half of it happens, then stop; other calls happen, then stop */
        CRASH_POWER,  /* stop instead of the call, and lose what was not synced */
        FAULT_ONCE,   /* the call fails */
        FAULT_FROM,   /* it and all later ones fail */
};

#define CRASH_STATUS 77 /* exit status of a stopped program */

/* Calls before this are not counted. @n from 0. @error is the errno of a fault. @seed draws what a
 * power loss takes. */
void crash_arm(enum crash_mode mode, long n, int error, uint64_t seed);
/* Calls of the test itself, on this thread: neither counted nor struck. */
void crash_pause(bool pause);
/* Calls since crash_arm(). */
long crash_count(void);
/* The name of the call that was struck, or NULL. */
const char *crash_struck(void);
