/* SPDX-License-Identifier: MIT */
#pragma once
/* How much of a file is in the page cache. */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Resident pages of map[0..size), a whole file; SIZE_MAX if it cannot be told. */
static inline size_t resident_of_map(void *map, size_t size) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (size + page - 1) / page, sum = 0;
        unsigned char *v = malloc(n);

        if (!v || mincore(map, size, v) < 0)
                n = 0, sum = SIZE_MAX;
        for (size_t i = 0; i < n; i++)
                sum += v[i] & 1;
        free(v);
        return sum;
}

/* Resident pages of the file at @path; SIZE_MAX if it cannot be told. */
static inline size_t resident_of_file(const char *path) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        size_t n = SIZE_MAX;
        struct stat st;
        void *map;

        if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
                map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
                if (map != MAP_FAILED) {
                        n = resident_of_map(map, (size_t)st.st_size);
                        munmap(map, (size_t)st.st_size);
                }
        }
        if (fd >= 0)
                close(fd);
        return n;
}

/* Whether the file system of @dir drops pages when it is asked to (tmpfs has nowhere to). */
static inline bool resident_can_drop(const char *dir) {
        char path[300], data[65536] = {1};
        bool can = false;
        int fd;

        snprintf(path, sizeof(path), "%s/can-drop", dir);
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0)
                return false;
        if (write(fd, data, sizeof(data)) == sizeof(data) && fsync(fd) == 0 &&
                posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0)
                can = resident_of_file(path) == 0;
        close(fd);
        unlink(path);
        return can;
}

/* Whether the file can be read past the page cache: opened so (tmpfs: no), and asynchronously (some
 * sandboxes: no). */
static inline bool has_direct(const char *path) {
        int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
        aio_context_t context = 0;

        if (fd < 0)
                return false;
        close(fd);
        if (syscall(SYS_io_setup, 1, &context) < 0)
                return false;
        syscall(SYS_io_destroy, context);
        return true;
}
