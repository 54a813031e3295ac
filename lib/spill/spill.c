/* SPDX-License-Identifier: MIT */
/*
 * The spill store.
 *
 * A file <key>.kv is a row of records (record.h) and holes. It is only ever appended to and
 * punched; a record is never overwritten while it is live. In memory the store knows, per file,
 * which pages are live records (pages.h), where the next record goes, and how many bytes it
 * accounts for. The register outside keeps the refs.
 *
 * 1. A ref is handed out only after all bytes of its record were written; until then its pages are
 *    dead, so nobody can read or release them.
 * 2. disk_size counts every page from before its first write until after it was given back. It
 *    never exceeds max_disk_size: a write is admitted, counted, then begun.
 * 3. A failed write leaves disk_size, the live pages and the ends of all files as they were. Its
 *    range is cut off the file, or punched if another record was begun behind it meanwhile; if the
 *    file system can do neither, it stays counted.
 * 4. A file with neither live records nor writes in progress is unlinked at once. Calls that still
 *    use it keep its descriptor; a file of the same key made meanwhile is another file.
 * 5. After the sweep the folder holds no bytes but those of adopted records, as far as the file
 *    system can punch; what it cannot is counted.
 * 6. Reading believes nothing: a record is used only if header and payload checksums, fingerprint,
 *    identity and every length are right. So no write needs an fsync, and neither does punching:
 *    whatever a power loss leaves, the record is found to be whole or found to be bad.
 *
 * What a stop leaves, step by step (the caller's steps in brackets):
 *
 *      write:    1 append the record    → bytes that nobody knows; the sweep gives them back
 *               [2 commit the ref]      → adopted at start
 *      release: [1 commit its removal]  → bytes that nobody knows; as above
 *                2 punch, or unlink     → nothing left
 *      power loss after write 2: the register has a ref and the file may lack the bytes. Adopting
 *      fails (file missing or too short) or reading fails (checksum); the caller forgets the ref.
 *      power loss during release 2: a hole that comes back is dead pages; as above.
 *
 * Page cache (weights are mapped and must stay): what was read is dropped after reading; after a
 * write, the file so far is dropped, which starts the write-out of the new record and frees those
 * before it. All of it is advice and may fail.
 */
#include "spill/spill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/file.h"
#include "base/map.h"
#include "base/util.h"
#include "spill/codec.h"
#include "spill/record.h"
#include "spill/shared.h"

/* --- open and close --- */

static int check_options(const struct spill_options *o, struct err *e) {
        if (o->max_raw_size < 1 || o->max_raw_size > SPILL_RAW_MAX)
                return err_set(
                        e, ERR_INVALID, "a spill record cannot hold %zu bytes", o->max_raw_size);
        if (!spill_codec_find(o->codec))
                return err_set(e, ERR_INVALID, "spill codec %u is not known", o->codec);
        return 0;
}

static int open_dir(int *ret, const char *dir, struct err *e) {
        _cleanup_(closep) int fd = -1;
        int r;

        r = file_mkdir_p(dir, 0700, e);
        if (r < 0)
                return r;
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot open the spill folder %s", dir);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno == EWOULDBLOCK)
                        return err_set(e, ERR_BUSY, "the spill folder %s is in use", dir);
                return err_set(e, ERR_SYS, "cannot lock the spill folder %s", dir);
        }
        *ret = TAKE_FD(fd);
        return 0;
}

int spill_open(struct spill **ret, const char *dir, const struct spill_options *o, struct err *e) {
        _cleanup_(spill_freep) struct spill *s = NULL;
        int r;

        r = check_options(o, e);
        if (r < 0)
                return r;
        s = calloc(1, sizeof(*s));
        if (!s)
                return err_set(e, ERR_NOMEM, "no memory for a spill store");
        s->dir_fd = -1;
        s->options = *o;
        if (s->options.max_open_files == 0)
                s->options.max_open_files = 64;
        s->scratch_size = spill_record_stored_size(o->max_raw_size);
        list_init(&s->idle);
        pthread_mutex_init(&s->lock, NULL);
        r = map_new(&s->files, e);
        if (r < 0)
                return r;
        r = open_dir(&s->dir_fd, dir, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

struct spill *spill_free(struct spill *s) {
        struct spill_file *f;
        size_t it = 0;

        if (!s)
                return NULL;
        while (s->files && (f = map_next(s->files, &it)))
                spill_file_free(s, f);
        map_free(s->files);
        while (s->scratch) {
                void *next = *(void **)s->scratch;

                free(s->scratch);
                s->scratch = next;
        }
        closep(&s->dir_fd);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return NULL;
}

void spill_stats(struct spill *s, struct spill_stats *ret) {
        pthread_mutex_lock(&s->lock);
        *ret = s->stats;
        ret->n_files = map_count(s->files);
        pthread_mutex_unlock(&s->lock);
}

/* --- what calls share --- */

int spill_scratch_get(struct spill *s, void **ret, struct err *e) {
        void *p;

        pthread_mutex_lock(&s->lock);
        p = s->scratch;
        if (p)
                s->scratch = *(void **)p;
        pthread_mutex_unlock(&s->lock);
        if (!p)
                p = malloc(s->scratch_size);
        if (!p)
                return err_set(
                        e, ERR_NOMEM, "no memory for %zu bytes of spill buffer", s->scratch_size);
        *ret = p;
        return 0;
}

void spill_scratch_put(struct spill *s, void *p) {
        if (!p)
                return;
        pthread_mutex_lock(&s->lock);
        *(void **)p = s->scratch;
        s->scratch = p;
        pthread_mutex_unlock(&s->lock);
}

bool spill_ref_is_sane(const struct spill *s, const struct spill_ref *ref) {
        return ref->offset % SPILL_ALIGN == 0 && ref->stored_size % SPILL_ALIGN == 0 &&
               ref->stored_size > 0 && ref->offset <= SPILL_FILE_MAX &&
               ref->stored_size <= SPILL_FILE_MAX - ref->offset && ref->raw_size > 0 &&
               ref->raw_size <= s->options.max_raw_size &&
               ref->stored_size <= spill_record_stored_size(ref->raw_size);
}

struct spill_file *spill_find_record(struct spill *s, const struct spill_ref *ref) {
        struct spill_file *f;

        if (!spill_ref_is_sane(s, ref))
                return NULL;
        f = spill_file_find(s, ref->file_key);
        if (!f || !spill_pages_is_record(&f->pages, spill_first_page(ref), spill_n_pages(ref)))
                return NULL;
        return f;
}

int spill_not_found(const struct spill_ref *ref, struct err *e) {
        return err_set(e, ERR_NOT_FOUND,
                "spill file %016" PRIx64 ".kv has no record of %" PRIu64 " bytes at %" PRIu64,
                ref->file_key, ref->stored_size, ref->offset);
}

int spill_wrap(int r, const struct spill_ref *ref, struct err *e) {
        return err_wrap(
                e, r, "spill file %016" PRIx64 ".kv at %" PRIu64, ref->file_key, ref->offset);
}

/* --- start --- */

static int adopt(struct spill *s, const struct spill_ref *ref, struct err *e) {
        struct spill_file *f = spill_file_find(s, ref->file_key);
        char name[SPILL_NAME_SIZE];
        struct stat st;
        int r;

        if (f && spill_pages_is_record(&f->pages, spill_first_page(ref), spill_n_pages(ref)))
                return 1;
        if (f && !spill_pages_is_dead(&f->pages, spill_first_page(ref), spill_n_pages(ref)))
                return err_set(e, ERR_CORRUPT, "overlaps another record");
        spill_file_name(ref->file_key, name);
        if (fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                if (errno == ENOENT)
                        return err_set(e, ERR_NOT_FOUND, "there is no such file");
                return err_set(e, ERR_SYS, "cannot look at it");
        }
        if (!S_ISREG(st.st_mode))
                return err_set(e, ERR_CORRUPT, "this is not a regular file");
        if (ref->offset + ref->stored_size > (uint64_t)st.st_size)
                return err_set(e, ERR_CORRUPT,
                        "a record of %" PRIu64 " bytes is outside of the file's %" PRIu64,
                        ref->stored_size, (uint64_t)st.st_size);
        if (!f) {
                r = spill_file_new(s, ref->file_key, &f, e);
                if (r < 0)
                        return r;
        }
        r = spill_pages_grow(&f->pages, spill_first_page(ref) + spill_n_pages(ref), e);
        if (r < 0) {
                /* A file that was made for this one is not ours to unlink: made is not set. */
                spill_file_drop_if_empty(s, f);
                return r;
        }
        f->made = true;
        spill_pages_add(&f->pages, spill_first_page(ref), spill_n_pages(ref));
        spill_file_charge(s, f, ref->stored_size);
        f->end = MAX(f->end, ref->offset + ref->stored_size);
        f->n_records++;
        s->stats.n_records++;
        return 0;
}

int spill_adopt(struct spill *s, const struct spill_ref *ref, struct err *e) {
        int r;

        if (!spill_ref_is_sane(s, ref))
                return spill_wrap(
                        err_set(e, ERR_INVALID,
                                "no store wrote a record of %" PRIu64 " bytes for %" PRIu64 " here",
                                ref->stored_size, ref->raw_size),
                        ref, e);
        pthread_mutex_lock(&s->lock);
        r = s->swept ? err_set(e, ERR_STATE, "records are adopted before the sweep")
                     : adopt(s, ref, e);
        pthread_mutex_unlock(&s->lock);
        return spill_wrap(r, ref, e);
}

/* Give back what lies between and behind the records of a file. */
static int sweep_file(struct spill *s, struct spill_file *f, struct err *e) {
        uint64_t records_size = f->disk_size, stays;
        size_t at = 0, n;
        bool punched = true;
        struct stat st;
        int r;

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
        spill_file_unpin(s, f);
        return 0;
}

/* Remove the files of ours that nobody claimed. */
static int sweep_dir(struct spill *s, size_t *n_removed, struct err *e) {
        _cleanup_(closep) int fd = -1;
        struct dirent *d;
        DIR *dir;
        int r = 0;

        /* Not a dup: the position in the folder would be shared. */
        fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot open the spill folder");
        dir = fdopendir(fd);
        if (!dir)
                return err_set(e, ERR_SYS, "cannot read the spill folder");
        TAKE_FD(fd);
        while (errno = 0, (d = readdir(dir))) {
                struct stat st;
                uint64_t key;

                if (!spill_file_parse_name(d->d_name, &key) || spill_file_find(s, key))
                        continue;
                if (fstatat(s->dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
                        !S_ISREG(st.st_mode))
                        continue;
                if (unlinkat(s->dir_fd, d->d_name, 0) == 0)
                        ++*n_removed;
                else if (r == 0)
                        r = err_set(e, ERR_SYS, "cannot remove the spill file %s", d->d_name);
        }
        if (errno != 0 && r == 0)
                r = err_set(e, ERR_SYS, "cannot read the spill folder");
        closedir(dir);
        return r;
}

int spill_sweep(struct spill *s, size_t *ret_n_removed, struct err *e) {
        struct spill_file *f;
        size_t it = 0, n_removed = 0;
        int r, first = 0;

        pthread_mutex_lock(&s->lock);
        while ((f = map_next(s->files, &it))) {
                struct err fe;

                /* A file that cannot be opened now will fail when it is read; go on. */
                r = sweep_file(s, f, &fe);
                if (r < 0 && first == 0) {
                        first = err_wrap(&fe, r, "spill file %016" PRIx64 ".kv", f->key);
                        if (e)
                                *e = fe;
                }
        }
        r = sweep_dir(s, &n_removed, first < 0 ? NULL : e);
        s->swept = true;
        pthread_mutex_unlock(&s->lock);
        if (ret_n_removed)
                *ret_n_removed = n_removed;
        return first < 0 ? first : r;
}
