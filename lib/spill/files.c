/* SPDX-License-Identifier: MIT */
#include "spill/files.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/map.h"

void spill_file_name(uint64_t key, char ret[SPILL_NAME_SIZE]) {
        snprintf(ret, SPILL_NAME_SIZE, "%016" PRIx64 ".kv", key);
}

bool spill_file_parse_name(const char *name, uint64_t *ret_key) {
        static const char digits[] = "0123456789abcdef";
        uint64_t key = 0;

        for (size_t i = 0; i < 16; i++) {
                const char *d = name[i] ? strchr(digits, name[i]) : NULL;

                if (!d)
                        return false;
                key = key << 4 | (uint64_t)(d - digits);
        }
        if (strcmp(name + 16, ".kv") != 0)
                return false;
        *ret_key = key;
        return true;
}

struct spill_file *spill_file_find(struct spill *s, uint64_t key) {
        return map_get_u64(s->files, key);
}

struct spill_owner *spill_owner_find(struct spill *s, uint64_t number) {
        return map_get_u64(s->owners, number);
}

static int owner_get(struct spill *s, uint64_t number, struct spill_owner **ret, struct err *e) {
        struct spill_owner *o = spill_owner_find(s, number);
        int r;

        if (!o) {
                o = calloc(1, sizeof(*o));
                if (!o)
                        return err_set(e, ERR_NOMEM, "no memory for the owner of a spill file");
                o->number = number;
                r = map_add_u64(s->owners, number, o, e);
                if (r < 0) {
                        free(o);
                        return r;
                }
        }
        o->n_files++;
        *ret = o;
        return 0;
}

static void owner_put(struct spill *s, struct spill_owner *o) {
        if (!o || --o->n_files > 0)
                return;
        assert(o->disk_size == 0);
        map_remove_u64(s->owners, o->number);
        free(o);
}

int spill_file_new(
        struct spill *s, uint64_t key, uint64_t owner, struct spill_file **ret, struct err *e) {
        struct spill_file *f = calloc(1, sizeof(*f));
        int r;

        if (!f)
                return err_set(e, ERR_NOMEM, "no memory for a spill file");
        f->key = key;
        f->fd = f->direct_fd = -1;
        list_init(&f->idle);
        r = owner_get(s, owner, &f->owner, e);
        if (r == 0)
                r = map_add_u64(s->files, key, f, e);
        if (r < 0) {
                owner_put(s, f->owner);
                free(f);
                return r;
        }
        assert(r == 0);
        *ret = f;
        return 0;
}

/* Take the descriptors out. */
static void file_detach(struct spill *s, struct spill_file *f, int ret[2]) {
        s->n_open -= (f->fd >= 0) + (f->direct_fd >= 0);
        ret[0] = TAKE_FD(f->fd);
        ret[1] = TAKE_FD(f->direct_fd);
}

static void file_close(struct spill *s, struct spill_file *f) {
        int fds[2];

        if (f->fd < 0)
                return;
        list_unlink(&f->idle);
        if (!s->options.keep_cached)
                (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
        file_detach(s, f, fds);
        closep(&fds[0]);
        closep(&fds[1]);
}

void spill_file_free(struct spill *s, struct spill_file *f) {
        file_close(s, f);
        spill_file_discharge(s, f, f->disk_size);
        owner_put(s, f->owner);
        spill_pages_deinit(&f->pages);
        free(f);
}

/* Close the file that was idle for longest; false if none is idle. */
static bool close_one(struct spill *s) {
        if (list_empty(&s->idle))
                return false;
        file_close(s, list_entry(s->idle.next, struct spill_file, idle));
        return true;
}

/* A descriptor, or -1 with errno. */
static int open_by_name(struct spill *s, const struct spill_file *f, int flags) {
        char name[SPILL_NAME_SIZE];
        int fd;

        spill_file_name(f->key, name);
        while (s->n_open >= s->options.max_open_files && close_one(s))
                ;
        do {
                fd = openat(s->dir_fd, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        } while (fd < 0 &&
                 (errno == EINTR || ((errno == EMFILE || errno == ENFILE) && close_one(s))));
        return fd;
}

static int file_open(struct spill *s, struct spill_file *f, bool create, struct err *e) {
        _cleanup_(closep) int fd = -1;
        int flags = s->options.read_only ? O_RDONLY : O_RDWR;
        struct stat st;

        if (create)
                flags |= O_CREAT | (f->made ? 0 : O_TRUNC);
        fd = open_by_name(s, f, flags);
        if (fd < 0 && errno == ENOENT)
                return err_set(e, ERR_CORRUPT, "the file is missing");
        if (fd < 0 && (errno == ENOSPC || errno == EDQUOT))
                return err_set(e, ERR_LIMIT, "cannot create the file: %s", strerror(errno));
        if (fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO))
                return err_set(e, ERR_CORRUPT, "this is not a regular file");
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_set(e, ERR_SYS, "cannot open the file");
        if (!S_ISREG(st.st_mode))
                return err_set(e, ERR_CORRUPT, "this is not a regular file");
        /* No read-ahead by the kernel: window.c announces what it needs. */
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        f->fd = TAKE_FD(fd);
        f->made = true;
        s->n_open++;
        return 0;
}

int spill_file_pin(struct spill *s, struct spill_file *f, bool create, struct err *e) {
        int r;

        if (f->fd < 0) {
                r = file_open(s, f, create, e);
                if (r < 0)
                        return r;
        }
        list_unlink(&f->idle);
        f->n_users++;
        return 0;
}

/* The second descriptor must be of the same file, even if someone changes the folder. */
int spill_file_direct(struct spill *s, struct spill_file *f) {
        _cleanup_(closep) int fd = -1;
        struct stat a, b;

        assert(f->n_users > 0);
        if (s->no_direct || s->options.no_direct)
                return -1;
        if (f->direct_fd >= 0)
                return f->direct_fd;
        fd = open_by_name(s, f, O_RDONLY | O_DIRECT);
        if (fd < 0) {
                /* The file system has no such thing. */
                s->no_direct = errno == EINVAL;
                return -1;
        }
        if (fstat(f->fd, &a) < 0 || fstat(fd, &b) < 0 || a.st_dev != b.st_dev ||
                a.st_ino != b.st_ino)
                return -1;
        s->n_open++;
        return f->direct_fd = TAKE_FD(fd);
}

void spill_file_unpin(struct spill *s, struct spill_file *f, int ret[2]) {
        ret[0] = ret[1] = -1;
        assert(f->n_users > 0);
        if (--f->n_users > 0)
                return;
        if (!f->gone) {
                list_append(&s->idle, &f->idle);
                return;
        }
        file_detach(s, f, ret);
        spill_file_free(s, f);
}

void spill_file_let_go(struct spill *s, struct spill_file *f, unsigned n) {
        int fds[2] = {-1, -1};

        pthread_mutex_lock(&s->lock);
        for (; n > 0; n--)
                spill_file_unpin(s, f, fds);
        pthread_mutex_unlock(&s->lock);
        closep(&fds[0]);
        closep(&fds[1]);
}

void spill_file_charge(struct spill *s, struct spill_file *f, uint64_t size) {
        f->disk_size += size;
        f->owner->disk_size += size;
        s->stats.disk_size += size;
}

void spill_file_discharge(struct spill *s, struct spill_file *f, uint64_t size) {
        assert(size <= f->disk_size && size <= f->owner->disk_size && size <= s->stats.disk_size);
        f->disk_size -= size;
        f->owner->disk_size -= size;
        s->stats.disk_size -= size;
}

bool spill_file_drop_if_empty(struct spill *s, struct spill_file *f) {
        char name[SPILL_NAME_SIZE];

        if (f->gone || f->n_records > 0 || f->n_pending > 0)
                return false;
        spill_file_name(f->key, name);
        /* If it cannot go (a read-only file system) it stays known, and its bytes accounted for. */
        if (f->made && unlinkat(s->dir_fd, name, 0) < 0 && errno != ENOENT)
                return false;
        spill_file_discharge(s, f, f->disk_size);
        map_remove_u64(s->files, f->key);
        f->gone = true;
        if (f->n_users == 0)
                spill_file_free(s, f);
        return true;
}

/* Step over the first @done bytes of the vector. */
static void iov_skip(struct iovec **iov, int *n, size_t done) {
        while (*n > 0 && done >= (*iov)->iov_len) {
                done -= (*iov)->iov_len;
                (*iov)++;
                (*n)--;
        }
        if (*n > 0) {
                (*iov)->iov_base = (char *)(*iov)->iov_base + done;
                (*iov)->iov_len -= done;
        }
}

int spill_io_read(int fd, struct iovec *iov, int n, uint64_t offset, struct err *e) {
        iov_skip(&iov, &n, 0);
        while (n > 0) {
                ssize_t r = preadv(fd, iov, n, (off_t)offset);

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return err_set(e, ERR_SYS, "cannot read");
                if (r == 0)
                        return err_set(e, ERR_CORRUPT, "the file ends early");
                offset += (uint64_t)r;
                iov_skip(&iov, &n, (size_t)r);
        }
        return 0;
}

int spill_io_write(
        int fd, struct iovec *iov, int n, uint64_t offset, uint64_t *ret_size, struct err *e) {
        *ret_size = 0;
        iov_skip(&iov, &n, 0);
        while (n > 0) {
                ssize_t r = pwritev(fd, iov, n, (off_t)(offset + *ret_size));

                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
                        return err_set(e, ERR_LIMIT, "cannot write: %s", strerror(errno));
                if (r < 0)
                        return err_set(e, ERR_SYS, "cannot write");
                if (r == 0)
                        return err_set(e, ERR_LIMIT, "cannot write: the file takes no more");
                *ret_size += (uint64_t)r;
                iov_skip(&iov, &n, (size_t)r);
        }
        return 0;
}

bool spill_io_punch(int fd, uint64_t offset, uint64_t size) {
        int r;

        do {
                r = fallocate(
                        fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
        } while (r < 0 && errno == EINTR);
        return r == 0;
}
