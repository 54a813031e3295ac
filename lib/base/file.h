/* SPDX-License-Identifier: MIT */
#pragma once
/* Files: whole reads and writes, maps, durable replacement. All retry EINTR and short transfers. */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* Exactly @n bytes, or an error (end of file: -ERR_FORMAT "… ends early"). */
int file_pread(int fd, void *dst, size_t n, uint64_t offset, struct err *e);
int file_pwrite(int fd, const void *src, size_t n, uint64_t offset, struct err *e);
/* Write all @n bytes to a file, pipe or socket at its current position, waiting if @fd is
 * non-blocking. -ERR_SYS: a part may have been written. Any thread. */
int file_write(int fd, const void *src, size_t n, struct err *e);
/* Read a whole regular file of at most @max bytes; *ret is NUL-terminated and to be freed. */
int file_read_all(const char *path, size_t max, char **ret, size_t *ret_size, struct err *e);
/* Write to a temporary file next to @path, fsync, rename over @path, fsync the directory. */
int file_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e);
/* fsync the directory that holds @path. */
int file_sync_parent(const char *path, struct err *e);
/* mkdir -p with @mode for the directories it makes. */
int file_mkdir_p(const char *path, mode_t mode, struct err *e);

/* Check that the folder @path, open as @fd, is owned by this process's user and writable by no
 * other. -ERR_STATE with a sentence that says what to do; -ERR_SYS. */
int file_check_own_folder(int fd, const char *path, struct err *e);

/* A file mapped read-only, shared. */
struct file_map {
        const uint8_t *data; /* NULL for an empty file */
        size_t size;
        int fd; /* -1 when not open */
};
#define FILE_MAP_NULL ((struct file_map){.fd = -1})
int file_map_open(struct file_map *ret, const char *path, struct err *e);
void file_map_close(struct file_map *m);
/* Pages that lie within these bytes leave the process's memory until they are read again. Bytes of
 * something else: nothing happens. */
void file_map_forget(const struct file_map *m, const void *data, size_t size);
