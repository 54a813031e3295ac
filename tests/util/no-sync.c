/* SPDX-License-Identifier: MIT */
/*
 * For tests that stop no system, but at most threads: nothing depends on what has reached a disk, and they
 * make a hundred thousand commits. These take the place of the C library's for the whole program, SQLite
 * included. (What a power loss may leave is for the tests in fault/crash.)
 */
#include <unistd.h>

int fsync(int fd) {
        return 0;
}

int fdatasync(int fd) {
        return 0;
}
