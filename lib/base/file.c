/* SPDX-License-Identifier: MIT */
#include "base/file.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One transfer asks for at most this: the kernel stops near 2 GiB anyway. */
#define TRANSFER_MAX ((size_t)1 << 30)

static bool offset_fits(size_t n, uint64_t offset) {
        return offset <= INT64_MAX && n <= (uint64_t)INT64_MAX - offset;
}

int file_pread(int fd, void *dst, size_t n, uint64_t offset, struct err *e) {
        uint8_t *p = dst;

        if (!offset_fits(n, offset))
                return err_set(e, ERR_INVALID, "offset %llu is past the end of any file",
                        (unsigned long long)offset);
        while (n) {
                ssize_t k = pread(fd, p, MIN(n, TRANSFER_MAX), (off_t)offset);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return err_set(e, ERR_SYS, "reading at %llu", (unsigned long long)offset);
                if (k == 0)
                        return err_set(e, ERR_FORMAT, "file ends early, at byte %llu",
                                (unsigned long long)offset);
                p += k;
                n -= (size_t)k;
                offset += (uint64_t)k;
        }
        return 0;
}

int file_pwrite(int fd, const void *src, size_t n, uint64_t offset, struct err *e) {
        const uint8_t *p = src;

        if (!offset_fits(n, offset))
                return err_set(e, ERR_INVALID, "offset %llu is past the end of any file",
                        (unsigned long long)offset);
        while (n) {
                ssize_t k = pwrite(fd, p, MIN(n, TRANSFER_MAX), (off_t)offset);

                if (k < 0 && errno == EINTR)
                        continue;
                if (k == 0)
                        errno = EIO;
                if (k <= 0)
                        return err_set(e, ERR_SYS, "writing at %llu", (unsigned long long)offset);
                p += k;
                n -= (size_t)k;
                offset += (uint64_t)k;
        }
        return 0;
}

int file_write(int fd, const void *src, size_t n, struct err *e) {
        const uint8_t *p = src;

        while (n) {
                ssize_t k = write(fd, p, MIN(n, TRANSFER_MAX));

                if (k < 0 && errno == EAGAIN) {
                        struct pollfd wait = {.fd = fd, .events = POLLOUT};

                        poll(&wait, 1, -1); /* if that fails, write() says what is wrong */
                        continue;
                }
                if (k < 0 && errno == EINTR)
                        continue;
                if (k == 0)
                        errno = EIO;
                if (k <= 0)
                        return err_set(e, ERR_SYS, "cannot write");
                p += k;
                n -= (size_t)k;
        }
        return 0;
}

/* Open a regular file for reading; a FIFO or device must neither block nor pass. */
static int open_regular(const char *path, int *ret, struct stat *st, struct err *e) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        if (fstat(fd, st) < 0)
                return err_set(e, ERR_SYS, "cannot stat '%s'", path);
        if (!S_ISREG(st->st_mode))
                return err_set(e, ERR_INVALID, "'%s' is not a regular file", path);
        *ret = TAKE_FD(fd);
        return 0;
}

int file_read_all(const char *path, size_t max, char **ret, size_t *ret_size, struct err *e) {
        _cleanup_(freep) char *data = NULL;
        _cleanup_(closep) int fd = -1;
        size_t size = 0, capacity;
        struct stat st;
        int r;

        r = open_regular(path, &fd, &st, e);
        if (r < 0)
                return r;
        if (max > SIZE_MAX / 4)
                max = SIZE_MAX / 4;
        if ((uint64_t)st.st_size > max)
                return err_set(e, ERR_LIMIT, "'%s' has more than %zu bytes", path, max);
        /* Files of /proc and /sys state no size: read until the end, whatever stat said. The two
         * spare bytes are for the NUL and for the read that finds the end. */
        capacity = MAX((size_t)st.st_size, (size_t)1024) + 2;
        data = malloc(capacity);
        if (!data)
                return err_set(e, ERR_NOMEM, "no memory for '%s'", path);
        for (;;) {
                ssize_t k = read(fd, data + size, MIN(capacity - 1 - size, TRANSFER_MAX));

                if (k < 0 && errno == EINTR)
                        continue;
                if (k < 0)
                        return err_set(e, ERR_SYS, "reading '%s'", path);
                if (k == 0)
                        break;
                size += (size_t)k;
                if (size > max)
                        return err_set(e, ERR_LIMIT, "'%s' has more than %zu bytes", path, max);
                if (size == capacity - 1) {
                        char *grown = realloc(data, capacity * 2);

                        if (!grown)
                                return err_set(e, ERR_NOMEM, "no memory for '%s'", path);
                        data = grown;
                        capacity *= 2;
                }
        }
        data[size] = 0;
        *ret = TAKE_PTR(data);
        if (ret_size)
                *ret_size = size;
        return 0;
}

/* The folder of @path: to be freed, NULL without memory. */
static char *parent_of(const char *path) {
        const char *slash = strrchr(path, '/');

        if (!slash)
                return strdup(".");
        return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

int file_sync_parent(const char *path, struct err *e) {
        _cleanup_(freep) char *dir = parent_of(path);
        _cleanup_(closep) int fd = -1;

        if (!dir)
                return err_set(e, ERR_NOMEM, "no memory for a path");
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot open folder '%s'", dir);
        if (fsync(fd) < 0)
                return err_set(e, ERR_SYS, "fsync of folder '%s'", dir);
        return 0;
}

/* Everything of file_replace() up to the rename: @tmp is complete and durable, or an error. */
static int write_beside(
        int fd, const char *tmp, const void *data, size_t n, mode_t mode, struct err *e) {
        int r;

        if (fchmod(fd, mode) < 0)
                return err_set(e, ERR_SYS, "chmod of '%s'", tmp);
        r = file_pwrite(fd, data, n, 0, e);
        if (r < 0)
                return err_wrap(e, r, "'%s'", tmp);
        if (fsync(fd) < 0)
                return err_set(e, ERR_SYS, "fsync of '%s'", tmp);
        return 0;
}

int file_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e) {
        _cleanup_(freep) char *tmp = NULL;
        _cleanup_(closep) int fd = -1;
        size_t tmp_size = strlen(path) + sizeof(".XXXXXX");
        int r;

        tmp = malloc(tmp_size);
        if (!tmp)
                return err_set(e, ERR_NOMEM, "no memory for a path");
        snprintf(tmp, tmp_size, "%s.XXXXXX", path);
        fd = mkostemp(tmp, O_CLOEXEC);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot create '%s'", tmp);
        r = write_beside(fd, tmp, data, n, mode, e);
        if (r == 0 && rename(tmp, path) < 0)
                r = err_set(e, ERR_SYS, "cannot rename '%s' to '%s'", tmp, path);
        if (r < 0) {
                unlink(tmp);
                return r;
        }
        return file_sync_parent(path, e);
}

int file_mkdir_p(const char *path, mode_t mode, struct err *e) {
        _cleanup_(freep) char *copy = strdup(path);
        struct stat st;

        if (!copy)
                return err_set(e, ERR_NOMEM, "no memory for a path");
        if (!*copy)
                return err_set(e, ERR_INVALID, "empty path");
        for (char *p = copy + 1;; p++) {
                char c = *p;

                if (c && (c != '/' || p[-1] == '/'))
                        continue;
                *p = 0;
                if (mkdir(copy, mode) < 0 && errno != EEXIST)
                        return err_set(e, ERR_SYS, "cannot make folder '%s'", copy);
                *p = c;
                if (!c)
                        break;
        }
        if (stat(path, &st) < 0)
                return err_set(e, ERR_SYS, "cannot stat '%s'", path);
        if (!S_ISDIR(st.st_mode))
                return err_set(e, ERR_EXISTS, "'%s' is not a folder", path);
        return 0;
}

int file_check_own_folder(int fd, const char *path, struct err *e) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return err_set(e, ERR_SYS, "cannot look at folder '%s'", path);
        if (st.st_uid != geteuid())
                return err_set(e, ERR_STATE,
                        "folder '%s' belongs to user %u, not to user %u: give it to that user "
                        "(chown), or name another folder",
                        path, (unsigned)st.st_uid, (unsigned)geteuid());
        if (st.st_mode & (S_IWGRP | S_IWOTH))
                return err_set(e, ERR_STATE,
                        "folder '%s' has mode %04o, so that others can write into it: take that "
                        "away (chmod go-w)",
                        path, (unsigned)st.st_mode & 07777);
        return 0;
}

int file_map_open(struct file_map *ret, const char *path, struct err *e) {
        _cleanup_(closep) int fd = -1;
        void *data = NULL;
        struct stat st;
        int r;

        r = open_regular(path, &fd, &st, e);
        if (r < 0)
                return r;
        if ((uint64_t)st.st_size > SIZE_MAX / 2)
                return err_set(e, ERR_LIMIT, "'%s' is too large to map", path);
        if (st.st_size > 0) {
                data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
                if (data == MAP_FAILED)
                        return err_set(e, ERR_SYS, "cannot map '%s'", path);
                /* Where the file system can, what comes from the disk from here on comes in large pages; of what
                 * is mapped in small ones, two processors read little more than half as much a second. */
                (void)madvise(data, (size_t)st.st_size, MADV_HUGEPAGE);
        }
        *ret = (struct file_map){.data = data, .size = (size_t)st.st_size, .fd = TAKE_FD(fd)};
        return 0;
}

void file_map_forget(const struct file_map *m, const void *data, size_t size) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), from, to;
        uintptr_t at = (uintptr_t)data, base = (uintptr_t)m->data;

        if (!m->data || at < base || at - base > m->size || size > m->size - (at - base))
                return;
        from = align_up(at - base, page);
        to = (at - base + size) / page * page;
        if (from < to)
                (void)madvise((uint8_t *)base + from, to - from, MADV_DONTNEED);
}

void file_map_close(struct file_map *m) {
        if (!m)
                return;
        if (m->data)
                munmap((void *)(uintptr_t)m->data, m->size);
        if (m->fd >= 0)
                close(m->fd);
        *m = FILE_MAP_NULL;
}
