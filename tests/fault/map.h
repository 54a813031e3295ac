/* SPDX-License-Identifier: MIT */
#pragma once
/* mmap() that fails when it is told to, in the one file of a program that includes this and is linked with --wrap=mmap and
 * --wrap=mmap64: with 64-bit offsets asked for, it is called by its other name. */
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

static bool mmap_fails, mmap_failed; /* mmap_failed: it was called meanwhile */

void *__real_mmap64(void *p, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *p, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *p, size_t n, int prot, int flags, int fd, off_t offset) {
        if (mmap_fails) {
                mmap_failed = true;
                errno = ENOMEM;
                return MAP_FAILED;
        }
        return __real_mmap64(p, n, prot, flags, fd, offset);
}
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t offset) {
        return __wrap_mmap64(p, n, prot, flags, fd, offset);
}
