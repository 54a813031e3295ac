/* SPDX-License-Identifier: MIT */
/*
 * The spill store.
 *
 * A file <key>.kv is a sequence of records (record.h) and holes. It is only ever appended to and
 * punched; a live record is never overwritten. In memory the store knows, for each file, which
 * pages are live records (pages.h), where the next record goes, and how many bytes are charged for
 * it. The refs are kept outside, in the register.
 *
 * A record's states, and the functions that change them (write.c, release.c, below):
 *
 *              reserve()           place()            finish()
 *      nothing ───────→ planned ───────→ writing ───────→ unreferenced
 *         ↑                │ finish()       │ finish()         │ [caller commits the ref]
 *         │←───────────────┴────────────────┘ on failure       ↓
 *         │                                                   live ←── spill_adopt() at start
 *         │       punch, or unlink of the file                 │ [caller commits its removal]
 *         └──────────────────────────────── released ←─────────┘ spill_release()
 *
 *      state         on disk               charged      readable   what a stop leaves
 *      planned       nothing               worst case   no         nothing
 *      writing       some of it            real size    no         dead bytes after the last
 *                                                                  record, or a hole
 *      unreferenced  all, maybe unsynced   real size    yes        bytes without a ref
 *      live          all, maybe unsynced   real size    yes        the record; after a loss of
 *                                                                  power perhaps torn or missing
 *      released      all, or a hole        until freed  no         bytes without a ref, or nothing
 *
 * The store does not distinguish unreferenced from live: only the register knows the difference.
 * The sweep at the next start frees all bytes that the register has no ref to.
 *
 * A file's states: absent → (first reserve) known, not made → (first place) made, open ⇄ made,
 * closed (least recently used, no call uses it) → (last record gone, no write in progress)
 * unlinked: out of the map, but alive until its last user is done → absent. At startup the first
 * adopted record makes a file known and made; the sweep unlinks files without one.
 *
 * 1. A ref is handed out only after all bytes of its record were written. Until then its pages are
 *    dead, so no caller can read or release them.
 * 2. disk_size counts every page from before its first write until after it was freed, and equals
 *    the sum of the charges of all owners, and that of all files. No write takes it over a limit,
 *    however many writes are in progress: each is admitted and charged by its largest size before
 *    it begins (limits.c).
 * 3. A failed write leaves disk_size, the live pages and the ends of all files as they were. Its
 *    range is cut off the file, or punched if another record was begun after it meanwhile. If the
 *    file system can do neither, the range stays counted. Bytes that reached the disk stay in the
 *    day's sum.
 * 4. A file with neither live records nor writes in progress is unlinked at once. Calls that still
 *    use it keep its descriptor; a file made under the same key meanwhile is a different file.
 * 5. After the sweep the folder holds only the bytes of adopted records, as far as the file system
 *    can punch; space that it cannot punch is counted. Foreign names, and anything that is not a
 *    regular file, are neither touched nor followed.
 * 6. Reading trusts nothing (load.c): a section is used only if header and payload checksums,
 *    fingerprint, identity and every length are right. So neither writing nor punching needs an
 *    fsync: whatever a power loss leaves, the record is found to be either whole or bad.
 * 7. The lock is never held while reading, writing, hashing, encoding, or freeing space (including
 *    an unlinked file's: its last descriptor is closed without the lock). It is held while opening,
 *    unlinking and asking for the free space.
 * 8. A read-only store changes nothing: no folder, no file, no space.
 *
 * What a stop leaves, step by step (the caller's steps in brackets):
 *
 *      write:    1 append the record    → bytes without a ref; the sweep frees them
 *               [2 commit the ref]      → adopted at start
 *      release: [1 commit its removal]  → bytes without a ref; as above
 *                2 punch, or unlink     → nothing left
 *      power loss after write 2: the register has a ref and the file may lack the bytes. Adopting
 *      fails (file missing or too short) or reading fails (checksum); the caller forgets the ref.
 *      power loss during release 2: a hole that is undone is dead pages; as above.
 *
 * Page cache (it must keep the mapped weights): write-out of new records begins at once. All but
 * the last SPILL_UNSETTLED_MAX bytes of a file are dropped as soon as they are on disk, and
 * spill_settle() drops the rest. Reads bypass the cache; pages that are in it anyway are read from
 * there and then dropped (load.c). All of this is advice to the kernel and may fail.
 */
#include "spill/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/file.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/util.h"
#include "spill/codec.h"
#include "spill/record.h"
#include "spill/shared.h"

/* --- open and close --- */

static int check_options(const struct spill_options *o, struct err *e) {
        if (o->max_raw_size < 1 || o->max_raw_size > SPILL_RAW_MAX)
                return err_set(
                        e, ERR_INVALID, "a spill record cannot hold %zu bytes", o->max_raw_size);
        if (o->codec != SPILL_CODEC_AUTO && !spill_codec_find(o->codec))
                return err_set(e, ERR_INVALID, "spill codec %u is not known", o->codec);
        for (size_t i = 0; i < SPILL_MAX_CLASSES; i++) {
                int r = spill_layout_check(&o->layouts[i], o->max_raw_size, e);

                if (r < 0)
                        return err_wrap(e, r, "blocks of class %zu", i);
        }
        return 0;
}

static int open_dir(int *ret, const char *dir, bool read_only, struct err *e) {
        _cleanup_(closep) int fd = -1;
        struct stat st;
        int r;

        r = read_only ? 0 : file_mkdir_p(dir, 0700, e);
        if (r < 0)
                return r;
        /* What is swept must be what was meant. */
        if (lstat(dir, &st) == 0 && S_ISLNK(st.st_mode))
                return err_set(e, ERR_STATE,
                        "the spill folder '%s' is a symbolic link, which is not followed: mount "
                        "the other folder there instead (mount --bind)",
                        dir);
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot open the spill folder %s", dir);
        r = read_only ? 0 : file_check_own_folder(fd, dir, e);
        if (r < 0)
                return r;
        if (flock(fd, (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0) {
                if (errno == EWOULDBLOCK)
                        return err_set(e, ERR_BUSY, "the spill folder %s is in use", dir);
                return err_set(e, ERR_SYS, "cannot lock the spill folder %s", dir);
        }
        *ret = TAKE_FD(fd);
        return 0;
}

/* Everything of opening but the folder. */
static int spill_prepare(struct spill **ret, const struct spill_options *o, struct err *e) {
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
        list_init(&s->idle);
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->cut, NULL);
        s->day = o->day;
        /* So that no sum with it overflows. */
        s->day_written_size = MIN(o->written_today, UINT64_MAX / 2);
        r = spill_layouts_open(s, o, e);
        if (r < 0)
                return r;
        spill_layout_size_scratch(s);
        r = map_new(&s->files, e);
        if (r == 0)
                r = map_new(&s->owners, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

int spill_open(struct spill **ret, const char *dir, const struct spill_options *o, struct err *e) {
        _cleanup_(spill_freep) struct spill *s = NULL;
        int r = spill_prepare(&s, o, e);

        if (r == 0)
                r = open_dir(&s->dir_fd, dir, o->read_only, e);
        if (r < 0)
                return r;
        spill_measure_open(s);
        *ret = TAKE_PTR(s);
        return 0;
}

int spill_scratch_size_for(const struct spill_options *o, size_t *ret, struct err *e) {
        _cleanup_(spill_freep) struct spill *s = NULL;
        int r = spill_prepare(&s, o, e);

        if (r == 0)
                *ret = spill_scratch_size(s);
        return r;
}

int spill_choice_for(const struct spill_options *o, struct spill_choice *ret, struct err *e) {
        _cleanup_(spill_freep) struct spill *s = NULL;
        int r = spill_prepare(&s, o, e);

        if (r < 0)
                return r;
        spill_measure_open(s);
        spill_choice(s, ret);
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
        map_free(s->owners); /* which went with their files */
        spill_scratch_deinit(s);
        closep(&s->dir_fd);
        pthread_cond_destroy(&s->cut);
        pthread_mutex_destroy(&s->lock);
        spill_layouts_close(s);
        free(s);
        return NULL;
}

void spill_stats(struct spill *s, struct spill_stats *ret) {
        pthread_mutex_lock(&s->lock);
        spill_turn_day(s);
        *ret = s->stats;
        ret->n_files = map_count(s->files);
        ret->n_owners = map_count(s->owners);
        ret->day = s->day;
        ret->written_today = s->day_written_size;
        pthread_mutex_unlock(&s->lock);
}

uint64_t spill_owner_size(struct spill *s, uint64_t owner) {
        const struct spill_owner *o;
        uint64_t size;

        pthread_mutex_lock(&s->lock);
        o = spill_owner_find(s, owner);
        size = o ? o->disk_size : 0;
        pthread_mutex_unlock(&s->lock);
        return size;
}

/* --- what calls share --- */

bool spill_ref_is_sane(const struct spill_ref *ref) {
        return ref->offset % SPILL_ALIGN == 0 && ref->stored_size % SPILL_ALIGN == 0 &&
               ref->stored_size > 0 && ref->offset <= SPILL_FILE_MAX &&
               ref->stored_size <= SPILL_FILE_MAX - ref->offset && ref->raw_size > 0 &&
               ref->raw_size <= SPILL_RAW_MAX &&
               ref->stored_size <= spill_record_stored_size(SPILL_MAX_SECTIONS, ref->raw_size);
}

bool spill_ref_fits(
        const struct spill *s, const struct spill_class *c, const struct spill_ref *ref) {
        /* Who only looks may not know how blocks are divided. */
        size_t n_sections =
                s->options.read_only && s->any_class ? SPILL_MAX_SECTIONS : c->n_sections;

        return ref->raw_size <= s->options.max_raw_size &&
               (c->raw_size == 0 || ref->raw_size == c->raw_size) &&
               ref->stored_size <= spill_record_stored_size(n_sections, ref->raw_size);
}

struct spill_file *spill_find_record(struct spill *s, const struct spill_ref *ref) {
        struct spill_file *f;

        if (!spill_ref_is_sane(ref))
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
        if (f && f->owner->number != ref->owner)
                return err_set(e, ERR_CORRUPT, "belongs to %s, the file to %s",
                        OWNER_TEXT(ref->owner), OWNER_TEXT(f->owner->number));
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
                r = spill_file_new(s, ref->file_key, ref->owner, &f, e);
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
        f->settled = f->end;
        f->n_records++;
        s->stats.n_records++;
        return 0;
}

int spill_adopt(struct spill *s, const struct spill_ref *ref, struct err *e) {
        int r;

        if (!spill_ref_is_sane(ref))
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
