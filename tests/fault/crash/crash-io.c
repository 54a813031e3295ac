/* SPDX-License-Identifier: MIT */
/* Both the plain names and those with 64 are defined below. */
#undef _FILE_OFFSET_BITS
#include "crash-io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* What a file held where something was written since its last sync. */
struct undo {
        struct undo *next; /* newest first */
        char path[PATH_MAX];
        off_t at, size; /* of the file, before */
        size_t n;
        char old[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum crash_mode mode;
static long left = -1, count;
static int fault_errno;
static uint64_t random_state;
static const char *struck;
static struct undo *undos;
static __thread bool paused;

void crash_pause(bool pause) {
        paused = pause;
}

void crash_arm(enum crash_mode m, long n, int error, uint64_t seed) {
        pthread_mutex_lock(&lock);
        mode = m;
        left = n;
        count = 0;
        fault_errno = error;
        random_state = seed * 2 + 1;
        struck = NULL;
        pthread_mutex_unlock(&lock);
}

long crash_count(void) {
        long n;

        pthread_mutex_lock(&lock);
        n = count;
        pthread_mutex_unlock(&lock);
        return n;
}

const char *crash_struck(void) {
        return struck;
}

/* xorshift64 (Marsaglia 2003) */
static uint64_t draw(void) {
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

static bool fd_path(int fd, char out[PATH_MAX]) {
        char link[64];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, out, PATH_MAX - 1);
        if (n <= 0)
                return false;
        out[n] = '\0';
        return true;
}

/* Remember what is about to be overwritten. Lock held. */
static void remember(int fd, off_t at, size_t n) {
        struct undo *u;
        struct stat st;

        if (mode != CRASH_POWER || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return;
        u = calloc(1, sizeof(*u) + n);
        if (!u)
                abort();
        if (!fd_path(fd, u->path)) {
                free(u);
                return;
        }
        u->at = at;
        u->size = st.st_size;
        u->n = n;
        (void)!syscall(SYS_pread64, fd, u->old, n, at);
        u->next = undos;
        undos = u;
}

/* The file's writes are durable now. Lock held. */
static void forget(int fd) {
        char path[PATH_MAX];
        struct undo **p = &undos;

        if (mode != CRASH_POWER || !fd_path(fd, path))
                return;
        while (*p) {
                struct undo *u = *p;

                if (strcmp(u->path, path) == 0) {
                        *p = u->next;
                        free(u);
                } else {
                        p = &u->next;
                }
        }
}

static void lose(void) {
        for (struct undo *u = undos; u; u = u->next) {
                int fd;

                if (draw() % 2 == 0)
                        continue;
                fd = (int)syscall(SYS_openat, AT_FDCWD, u->path, O_WRONLY | O_CLOEXEC, 0);
                if (fd < 0)
                        continue; /* unlinked since */
                (void)!syscall(SYS_pwrite64, fd, u->old, u->n, u->at);
                close(fd);
        }
}

static void stop(void) {
        _exit(CRASH_STATUS);
}

enum verdict { GO_ON, FAIL, HALF };

/* One call comes. With the lock held afterwards: the caller makes the call and unlocks. */
static enum verdict comes(const char *name) {
        pthread_mutex_lock(&lock);
        if (paused)
                return GO_ON;
        if (left < 0 && !(mode == FAULT_FROM && struck)) {
                count++;
                return GO_ON;
        }
        count++;
        if (left > 0) {
                left--;
                return GO_ON;
        }
        left = -1;
        struck = name;
        switch (mode) {
        case CRASH_POWER:
                lose();
                stop();
                break;
        case CRASH_BEFORE:
                stop();
                break;
        case CRASH_TORN:
                return HALF;
        case FAULT_ONCE:
        case FAULT_FROM:
                errno = fault_errno;
                return FAIL;
        case CRASH_COUNT:
                break;
        }
        return GO_ON;
}

static long over(enum verdict v, long r) {
        int saved = errno;

        if (v == HALF)
                stop();
        pthread_mutex_unlock(&lock);
        errno = saved;
        return v == FAIL ? -1 : r;
}

/* --- the calls --- */

ssize_t write(int fd, const void *p, size_t n) {
        struct stat st;
        enum verdict v;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return syscall(SYS_write, fd, p, n); /* an eventfd, say */
        v = comes("write");
        if (v != FAIL)
                remember(fd, lseek(fd, 0, SEEK_CUR), n);
        return over(v, v == FAIL ? -1 : syscall(SYS_write, fd, p, v == HALF ? n / 2 : n));
}

static ssize_t do_pwrite(int fd, const void *p, size_t n, off_t at) {
        enum verdict v = comes("pwrite");

        if (v != FAIL)
                remember(fd, at, n);
        return over(v, v == FAIL ? -1 : syscall(SYS_pwrite64, fd, p, v == HALF ? n / 2 : n, at));
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
        return do_pwrite(fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at) {
        return do_pwrite(fd, p, n, at);
}

static ssize_t do_pwritev(int fd, const struct iovec *iov, int n, off_t at) {
        enum verdict v = comes("pwritev");
        size_t size = 0;

        for (int i = 0; i < n; i++)
                size += iov[i].iov_len;
        if (v == FAIL)
                return over(v, -1);
        remember(fd, at, size);
        if (v == HALF)
                return over(v,
                        syscall(SYS_pwrite64, fd, iov[n / 2].iov_base, iov[n / 2].iov_len / 2, at));
        return over(v, syscall(SYS_pwritev, fd, iov, n, at, 0));
}

ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t at) {
        return do_pwritev(fd, iov, n, at);
}

ssize_t pwritev64(int fd, const struct iovec *iov, int n, off64_t at) {
        return do_pwritev(fd, iov, n, at);
}

/* Nothing has to reach a disk: the loss of power is played, and waiting would be most of the time
 * that a test takes. */
static int do_sync(const char *name, int fd) {
        enum verdict v = comes(name);
        long r = v == FAIL || fcntl(fd, F_GETFD) < 0 ? -1 : 0;

        if (r == 0)
                forget(fd);
        return (int)over(v, r);
}

int fsync(int fd) {
        return do_sync("fsync", fd);
}

int fdatasync(int fd) {
        return do_sync("fdatasync", fd);
}

#define PLAIN(name, params, ...)                                                                   \
        int name params {                                                                          \
                enum verdict v = comes(#name);                                                     \
                                                                                                   \
                return (int)over(v, v == FAIL ? -1 : syscall(__VA_ARGS__));                        \
        }

PLAIN(ftruncate, (int fd, off_t n), SYS_ftruncate, fd, n)
PLAIN(ftruncate64, (int fd, off64_t n), SYS_ftruncate, fd, n)
PLAIN(fallocate, (int fd, int how, off_t at, off_t n), SYS_fallocate, fd, how, at, n)
PLAIN(fallocate64, (int fd, int how, off64_t at, off64_t n), SYS_fallocate, fd, how, at, n)
PLAIN(rename, (const char *a, const char *b), SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 0)
PLAIN(renameat, (int da, const char *a, int db, const char *b), SYS_renameat2, da, a, db, b, 0)
PLAIN(unlink, (const char *p), SYS_unlinkat, AT_FDCWD, p, 0)
PLAIN(unlinkat, (int d, const char *p, int flags), SYS_unlinkat, d, p, flags)
PLAIN(mkdir, (const char *p, mode_t m), SYS_mkdirat, AT_FDCWD, p, m)
PLAIN(mkdirat, (int d, const char *p, mode_t m), SYS_mkdirat, d, p, m)

ssize_t copy_file_range(int in, off64_t *ip, int out, off64_t *op, size_t n, unsigned flags) {
        enum verdict v = comes("copy_file_range");

        return over(v, v == FAIL ? -1 : syscall(SYS_copy_file_range, in, ip, out, op, n, flags));
}

static int do_open(int d, const char *path, int flags, mode_t m) {
        enum verdict v;

        if (!(flags & O_CREAT) && (flags & O_TMPFILE) != O_TMPFILE)
                return (int)syscall(SYS_openat, d, path, flags, 0);
        v = comes("open");
        return (int)over(v, v == FAIL ? -1 : syscall(SYS_openat, d, path, flags, m));
}

#define OPEN(name, d, ...)                                                                         \
        int name(__VA_ARGS__ const char *path, int flags, ...) {                                   \
                mode_t m = 0;                                                                      \
                va_list ap;                                                                        \
                                                                                                   \
                if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                       \
                        va_start(ap, flags);                                                       \
                        m = va_arg(ap, mode_t);                                                    \
                        va_end(ap);                                                                \
                }                                                                                  \
                return do_open(d, path, flags, m);                                                 \
        }
#define AT_FOLDER int dir_fd,
OPEN(open, AT_FDCWD, )
OPEN(open64, AT_FDCWD, )
OPEN(openat, dir_fd, AT_FOLDER)
OPEN(openat64, dir_fd, AT_FOLDER)
