/* SPDX-License-Identifier: MIT */
/* The folder's content: listing it, and removing everything that was not adopted. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/map.h"
#include "spill/shared.h"

/* Give back what lies between and behind the records of a file. */
static int sweep_file(struct spill *s, struct spill_file *f, struct err *e) {
        uint64_t records_size = f->disk_size, stays;
        size_t at = 0, n;
        bool punched = true;
        struct stat st;
        int r, fds[2];

        r = spill_file_pin(s, f, false, e);
        if (r < 0)
                return r;
        if (fstat(f->fd, &st) == 0 && (uint64_t)st.st_size > f->end &&
                ftruncate(f->fd, (off_t)f->end) < 0)
                punched = false;
        while (spill_pages_next_gap(&f->pages, &at, f->end / SPILL_ALIGN, &n)) {
                if (!spill_io_punch(f->fd, at * SPILL_ALIGN, n * SPILL_ALIGN))
                        punched = false;
                at += n;
        }
        if (!punched && fstat(f->fd, &st) == 0) {
                stays = (uint64_t)st.st_blocks * 512;
                if (stays > records_size)
                        spill_file_charge(s, f, stays - records_size);
        }
        spill_file_unpin(s, f, fds); /* it is not gone */
        return 0;
}

/* --- the folder --- */

/* What @name is. 0, or -ERR_SYS (also if it is gone). */
static int look_at(struct spill *s, const char *name, struct spill_found *ret, struct err *e) {
        const struct spill_file *f;
        struct stat st;

        *ret = (struct spill_found){.name = name};
        if (fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return err_set(e, ERR_SYS, "cannot look at %s in the spill folder", name);
        ret->size = (uint64_t)st.st_size;
        ret->disk_size = (uint64_t)st.st_blocks * 512;
        ret->is_ours = S_ISREG(st.st_mode) && spill_file_parse_name(name, &ret->file_key);
        if (!ret->is_ours)
                return 0;
        pthread_mutex_lock(&s->lock);
        f = spill_file_find(s, ret->file_key);
        if (f) {
                ret->n_records = f->n_records;
                ret->adopted_size = f->disk_size;
        }
        pthread_mutex_unlock(&s->lock);
        return 0;
}

int spill_scan(struct spill *s, int (*found)(void *arg, const struct spill_found *f), void *arg,
        struct err *e) {
        _cleanup_(closep) int fd = -1;
        struct spill_found f;
        struct dirent *d;
        DIR *dir;
        int r = 0;

        /* Not a dup: the position in the folder would be shared. */
        do {
                fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        } while (fd < 0 && errno == EINTR);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot open the spill folder");
        dir = fdopendir(fd);
        if (!dir)
                return err_set(e, ERR_SYS, "cannot read the spill folder");
        TAKE_FD(fd);
        while (r == 0 && (errno = 0, d = readdir(dir))) {
                if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
                        continue;
                /* What has gone meanwhile is not there. */
                if (look_at(s, d->d_name, &f, NULL) == 0)
                        r = found(arg, &f);
        }
        if (r == 0 && errno != 0)
                r = err_set(e, ERR_SYS, "cannot read the spill folder");
        closedir(dir);
        return r;
}

/* --- sweep --- */

struct sweep {
        struct spill *s;
        size_t n_removed;
        int r; /* the first failure */
        struct err err;
};

/* Remove a file of ours that nobody claimed. */
static int sweep_found(void *arg, const struct spill_found *f) {
        struct sweep *sw = arg;

        if (!f->is_ours || f->n_records > 0)
                return 0;
        if (unlinkat(sw->s->dir_fd, f->name, 0) == 0)
                sw->n_removed++;
        else if (sw->r == 0)
                sw->r = err_set(&sw->err, ERR_SYS, "cannot remove the spill file %s", f->name);
        return 0;
}

static void sweep_files(struct sweep *sw) {
        struct spill_file *f;
        size_t it = 0;

        while ((f = map_next(sw->s->files, &it))) {
                struct err e;
                int r = sweep_file(sw->s, f, &e);

                /* A file that cannot be opened now will fail when it is read; go on. */
                if (r < 0 && sw->r == 0) {
                        sw->r = err_wrap(&e, r, "spill file %016" PRIx64 ".kv", f->key);
                        sw->err = e;
                }
        }
}

int spill_sweep(struct spill *s, size_t *ret_n_removed, struct err *e) {
        struct sweep sw = {.s = s};
        struct err why;
        int r;

        if (s->options.read_only)
                return err_set(e, ERR_STATE, "the spill store is open for reading only");
        pthread_mutex_lock(&s->lock);
        sweep_files(&sw);
        pthread_mutex_unlock(&s->lock);
        r = spill_scan(s, sweep_found, &sw, &why);
        if (r < 0 && sw.r == 0) {
                sw.r = r;
                sw.err = why;
        }
        pthread_mutex_lock(&s->lock);
        s->swept = true;
        pthread_mutex_unlock(&s->lock);
        if (ret_n_removed)
                *ret_n_removed = sw.n_removed;
        if (sw.r < 0 && e)
                *e = sw.err;
        return sw.r;
}
