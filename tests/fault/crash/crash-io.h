/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Stops the program, or makes a call fail, at the n-th call that changes files: write, pwrite,
 * pwritev, fsync, fdatasync, ftruncate, fallocate, rename, unlink, mkdir, copy_file_range, and open
 * if it may make a file. The program's own definitions take precedence over the C library's, so
 * that calls of shared libraries (SQLite) are affected as well. Calls of all threads are counted
 * together.
 *
 * A power loss can be simulated too: before the program stops, each write to a file since its last
 * fsync is undone with a chance of one half. (A file's name is assumed to be durable at once.)
 */
#include <stdbool.h>
#include <stdint.h>

enum crash_mode {
        CRASH_COUNT,  /* nothing happens */
        CRASH_BEFORE, /* stop instead of the call */
        CRASH_TORN,   /* a write: half of it happens, then stop; other calls happen, then stop */
        CRASH_POWER,  /* stop instead of the call, and lose unsynced writes */
        FAULT_ONCE,   /* the call fails */
        FAULT_FROM,   /* it and all later ones fail */
};

#define CRASH_STATUS 77 /* exit status of a stopped program */

/* Calls before this are not counted. @n from 0. @error is the errno of a fault. @seed chooses the
 * writes that a power loss undoes. */
void crash_arm(enum crash_mode mode, long n, int error, uint64_t seed);
/* For the test's own calls on this thread: they are neither counted nor affected. */
void crash_pause(bool pause);
/* Calls since crash_arm(). */
long crash_count(void);
/* The name of the affected call, or NULL. */
const char *crash_struck(void);
