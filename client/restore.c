/* SPDX-License-Identifier: MIT */
/*
 * Restoring a backup: an archive becomes a state folder.
 *
 *      look at STATE-DIR ─→ a folder beside it ─→ extract, hash ─→ compare with the manifest ─→ sync ─→ rename
 *      missing or empty      0700, files 0600
 *
 * 1. Nothing of the archive is believed before the manifest's checksums agree; it comes last, so an archive that was
 *    cut off has none. Names are those of a backup, each once; nothing else is written anywhere.
 *    Memory (confab-backup/memory/KEY-PLACE) goes into spill/KEY.kv, at its place; what the daemon takes of it, it checks again.
 * 2. STATE-DIR appears by one rename, when all in it is durable. On any failure the folder beside it is removed.
 * 3. An empty STATE-DIR (as packages make it) is replaced, and its owner kept unless another one is named. A folder
 *    that a daemon uses has its lock, and so is not empty.
 */
#include "client/restore.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json-tree.h"
#include "base/tar.h"
#include "base/util.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "confab-backup/"
#define PIECE ((size_t)1 << 20)
#define TEXT_MAX 65536 /* bytes of the manifest, and of a pax header */

#define MEMORY "memory/"
#define ALIGN 4096u
#define SPILL_FILE_MAX ((uint64_t)1 << 40)

enum { REGISTER, KEY, MANIFEST, N_FILES };
static const char *const names[N_FILES] = {"register.db", "export.key", "MANIFEST.json"};

struct reader {
        int fd, dir_fd;
        struct {
                bool is;
                uint64_t size, hash;
        } files[N_FILES];
        struct {
                int dir_fd, fd; /* spill, and the last file in it; -1: none */
                uint64_t key, n, size;
                struct hash64 hash; /* of all records, in their order */
        } memory;
        char *manifest; /* NUL-terminated */
        uint8_t *piece; /* [PIECE] */
        struct restore_owner owner;
        const struct restore_watch *watch; /* or NULL */
        uint64_t n_read;
};

/* --- the archive --- */

/* All @n bytes. -ERR_FORMAT at the end of the file. */
static int read_bytes(struct reader *x, void *dst, size_t n, struct err *e) {
        for (size_t at = 0; at < n;) {
                ssize_t k = read(x->fd, (char *)dst + at, n - at);

                if (k < 0 && errno != EINTR)
                        return err_set(e, ERR_SYS, "cannot read the backup");
                if (k == 0)
                        return err_set(e, ERR_FORMAT, "the backup is cut off");
                if (k > 0) {
                        at += (size_t)k;
                        x->n_read += (uint64_t)k;
                }
                if (x->watch && !x->watch->fn(x->watch->userdata, x->n_read))
                        return err_set(e, ERR_CANCELLED, "interrupted: nothing was restored");
        }
        return 0;
}

static int skip_padding(struct reader *x, uint64_t size, struct err *e) {
        uint8_t padding[TAR_BLOCK];

        return read_bytes(x, padding, tar_padding(size), e);
}

/* A short entry as text, to be freed. */
static int read_text(struct reader *x, uint64_t size, char **ret, struct err *e) {
        _cleanup_(freep) char *text = NULL;
        int r;

        if (size > TEXT_MAX)
                return err_set(e, ERR_FORMAT, "a header or manifest of %" PRIu64 " bytes", size);
        text = calloc(1, (size_t)size + 1);
        if (!text)
                return err_set(e, ERR_NOMEM, "no memory for a backup");
        r = read_bytes(x, text, (size_t)size, e);
        if (r == 0)
                r = skip_padding(x, size, e);
        if (r == 0)
                *ret = TAKE_PTR(text);
        return r;
}

/* The next @size bytes into @fd, from @offset on. */
static int copy_bytes(struct reader *x, int fd, uint64_t offset, uint64_t size, struct hash64 *hash,
        struct err *e) {
        for (uint64_t at = 0; at < size;) {
                size_t n = (size_t)MIN((uint64_t)PIECE, size - at);
                int r = read_bytes(x, x->piece, n, e);

                if (r == 0)
                        r = file_pwrite(fd, x->piece, n, offset + at, e);
                if (r < 0)
                        return r;
                hash64_update(hash, x->piece, n);
                at += n;
        }
        return skip_padding(x, size, e);
}

static int give_to_owner(const struct reader *x, int fd, const char *name, struct err *e) {
        if (x->owner.is && fchown(fd, x->owner.uid, x->owner.gid) < 0)
                return err_set(
                        e, ERR_SYS, "cannot give '%s' to user %u", name, (unsigned)x->owner.uid);
        return 0;
}

static int extract(struct reader *x, int which, uint64_t size, struct err *e) {
        _cleanup_(closep) int fd =
                openat(x->dir_fd, names[which], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        struct hash64 hash;
        int r;

        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot make '%s'", names[which]);
        hash64_init(&hash, 0);
        r = copy_bytes(x, fd, 0, size, &hash, e);
        x->files[which].hash = hash64_digest(&hash);
        if (r == 0)
                r = give_to_owner(x, fd, names[which], e);
        if (r < 0)
                return r;
        return fsync(fd) < 0 ? err_set(e, ERR_SYS, "cannot write '%s'", names[which]) : 0;
}

/* --- memory --- */

/* 16 hexadecimal digits, as they are written. */
static bool read_hex(const char *text, uint64_t *ret) {
        uint64_t v = 0;

        for (int i = 0; i < 16; i++) {
                static const char digits[] = "0123456789abcdef";
                const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

                if (!digit)
                        return false;
                v = v << 4 | (uint64_t)(digit - digits);
        }
        *ret = v;
        return true;
}

static int close_memory(struct reader *x, struct err *e) {
        int fd = TAKE_FD(x->memory.fd);
        int r = fd >= 0 && fsync(fd) < 0 ? err_set(e, ERR_SYS, "cannot write memory") : 0;

        if (fd >= 0)
                close(fd);
        return r;
}

static int make_spill(struct reader *x, struct err *e) {
        if (x->memory.dir_fd >= 0)
                return 0;
        if (mkdirat(x->dir_fd, "spill", 0700) < 0)
                return err_set(e, ERR_SYS, "cannot make the folder of memory");
        x->memory.dir_fd = openat(x->dir_fd, "spill", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (x->memory.dir_fd < 0)
                return err_set(e, ERR_SYS, "cannot open the folder of memory");
        return give_to_owner(x, x->memory.dir_fd, "spill", e);
}

/* The file of records with this key; records of one file come mostly one after the other. */
static int open_memory(struct reader *x, uint64_t key, struct err *e) {
        char name[32];
        int r;

        if (x->memory.fd >= 0 && x->memory.key == key)
                return 0;
        r = close_memory(x, e);
        if (r == 0)
                r = make_spill(x, e);
        if (r < 0)
                return r;
        (void)snprintf(name, sizeof(name), "%016" PRIx64 ".kv", key);
        x->memory.key = key;
        x->memory.fd =
                openat(x->memory.dir_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (x->memory.fd < 0)
                return err_set(e, ERR_SYS, "cannot make '%s'", name);
        return give_to_owner(x, x->memory.fd, name, e);
}

static bool is_memory(const struct tar_entry *entry, uint64_t *ret_key, uint64_t *ret_place) {
        const char *name = entry->name + strlen(FOLDER MEMORY);

        return strncmp(entry->name, FOLDER MEMORY, strlen(FOLDER MEMORY)) == 0 &&
               strlen(name) == 33 && name[16] == '-' && read_hex(name, ret_key) &&
               read_hex(name + 17, ret_place);
}

static int take_memory(
        struct reader *x, uint64_t key, uint64_t place, uint64_t size, struct err *e) {
        int r;

        if (place % ALIGN || size % ALIGN || size == 0 || place > SPILL_FILE_MAX ||
                size > SPILL_FILE_MAX - place)
                return err_set(e, ERR_FORMAT, "the backup has memory at an impossible place");
        r = open_memory(x, key, e);
        if (r == 0)
                r = copy_bytes(x, x->memory.fd, place, size, &x->memory.hash, e);
        if (r < 0)
                return r;
        x->memory.n++;
        x->memory.size += size;
        return 0;
}

/* --- entries --- */

static int find_name(const char *name) {
        if (strncmp(name, FOLDER, strlen(FOLDER)) != 0)
                return -1;
        for (int i = 0; i < N_FILES; i++)
                if (strcmp(name + strlen(FOLDER), names[i]) == 0)
                        return i;
        return -1;
}

static int take_file(struct reader *x, const struct tar_entry *entry, struct err *e) {
        int which = find_name(entry->name);
        uint64_t key, place;

        if (is_memory(entry, &key, &place))
                return take_memory(x, key, place, entry->size, e);
        if (which < 0)
                return err_set(e, ERR_UNSUPPORTED,
                        "the archive has something that is no part of a "
                        "backup: '%s'",
                        entry->name);
        if (x->files[which].is)
                return err_set(e, ERR_FORMAT, "the backup has '%s' twice", entry->name);
        x->files[which].is = true;
        x->files[which].size = entry->size;
        return which == MANIFEST ? read_text(x, entry->size, &x->manifest, e)
                                 : extract(x, which, entry->size, e);
}

/* Zeroes fill up the archive: who writes into a pipe gets rid of them. */
static int read_end(struct reader *x, struct err *e) {
        for (size_t at = 0; at < PIECE;) {
                ssize_t n = read(x->fd, x->piece, PIECE - at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_set(e, ERR_SYS, "cannot read the backup");
                if (n == 0)
                        return 0;
                for (ssize_t i = 0; i < n; i++)
                        if (x->piece[i])
                                return err_set(
                                        e, ERR_FORMAT, "there is something behind the backup");
                at += (size_t)n;
        }
        return err_set(e, ERR_FORMAT, "there is something behind the backup");
}

static int read_archive(struct reader *x, struct err *e) {
        uint64_t size = 0;
        bool has_size = false;

        for (;;) {
                _cleanup_(freep) char *pax = NULL;
                struct tar_entry entry;
                uint8_t block[TAR_BLOCK];
                int r = read_bytes(x, block, sizeof(block), e);

                if (r < 0)
                        return r;
                r = tar_read_header(&entry, block, e);
                if (r < 0)
                        return err_wrap(e, r, "the backup is damaged, or none");
                if (entry.kind == TAR_END)
                        return read_end(x, e);
                if (entry.kind == TAR_PAX) {
                        r = read_text(x, entry.size, &pax, e);
                        if (r == 0)
                                r = tar_read_pax(pax, (size_t)entry.size, &size, e);
                        has_size = has_size || r == 0;
                        r = MIN(r, 0);
                } else {
                        if (has_size)
                                entry.size = size;
                        has_size = false;
                        r = take_file(x, &entry, e);
                }
                if (r < 0)
                        return r;
        }
}

/* --- the manifest --- */

static uint64_t number_of(const struct json_value *object, const char *name) {
        int64_t v = 0;

        return json_tree_integer(json_tree_get(object, name), &v) && v >= 0 ? (uint64_t)v
                                                                            : UINT64_MAX;
}

static void copy_text(char *dst, size_t size, const struct json_value *object, const char *name) {
        const char *text = json_tree_string(json_tree_get(object, name));

        (void)snprintf(dst, size, "%s", text ? text : "");
}

static bool entry_agrees(const struct reader *x, int which, const struct json_value *files) {
        char hash[17];

        (void)snprintf(hash, sizeof(hash), "%016" PRIx64, x->files[which].hash);
        for (const struct json_value *f = files->first; f; f = f->next) {
                const char *name = json_tree_string(json_tree_get(f, "name"));
                const char *text = json_tree_string(json_tree_get(f, "xxh64"));

                if (name && text && strcmp(name, names[which]) == 0)
                        return number_of(f, "size") == x->files[which].size &&
                               strcmp(text, hash) == 0;
        }
        return false;
}

static bool memory_agrees(struct reader *x, const struct json_value *tree) {
        const struct json_value *memory = json_tree_get(tree, "memory");
        const char *text = json_tree_string(json_tree_get(memory, "xxh64"));
        char hash[17];

        if (number_of(tree, "confab_backup") == 1)
                return x->memory.n == 0;
        (void)snprintf(hash, sizeof(hash), "%016" PRIx64, hash64_digest(&x->memory.hash));
        return number_of(memory, "records") == x->memory.n &&
               number_of(memory, "bytes") == x->memory.size && text && strcmp(text, hash) == 0;
}

static int verify(struct reader *x, struct restored *ret, struct err *e) {
        _cleanup_(json_tree_freep) struct json_value *tree = NULL;
        const struct json_value *files;
        int r;

        if (!x->files[MANIFEST].is)
                return err_set(e, ERR_FORMAT, "the backup has no manifest: it is cut off");
        r = json_tree_parse(&tree, x->manifest, (size_t)x->files[MANIFEST].size, e);
        if (r < 0)
                return err_wrap(e, r, "the manifest of the backup");
        if (number_of(tree, "confab_backup") != 1 && number_of(tree, "confab_backup") != 2)
                return err_set(e, ERR_UNSUPPORTED, "the backup is of another version of confab");
        files = json_tree_get(tree, "files");
        if (!json_tree_is(files, JSON_KIND_ARRAY))
                return err_set(e, ERR_FORMAT, "the manifest of the backup names no files");
        for (int i = 0; i < MANIFEST; i++) {
                if (!x->files[i].is)
                        return err_set(e, ERR_FORMAT, "the backup has no '%s'", names[i]);
                if (!entry_agrees(x, i, files))
                        return err_set(e, ERR_CORRUPT,
                                "'%s' of the backup is not what its manifest says: it is damaged",
                                names[i]);
        }
        if (!memory_agrees(x, tree))
                return err_set(e, ERR_CORRUPT,
                        "the memory of the backup is not what its manifest says: it is damaged");
        *ret = (struct restored){.n_conversations = number_of(tree, "conversations"),
                .memory_size = x->memory.size,
                .created_usec = number_of(tree, "created_usec")};
        copy_text(ret->model, sizeof(ret->model), tree, "model");
        copy_text(ret->fingerprint, sizeof(ret->fingerprint), tree, "fingerprint");
        copy_text(ret->version, sizeof(ret->version), tree, "version");
        return 0;
}

/* --- the folder --- */

static int check_empty(const char *dir, struct err *e) {
        struct dirent *d;
        bool empty = true;
        DIR *stream = opendir(dir);

        if (!stream)
                return err_set(e, ERR_SYS, "cannot look into '%s'", dir);
        while (empty && (d = readdir(stream)))
                empty = strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0;
        closedir(stream);
        return empty ? 0
                     : err_set(e, ERR_EXISTS,
                               "'%s' is not empty: stop the daemon that uses it, and move the "
                               "folder "
                               "out of the way",
                               dir);
}

/* The folder's real name, which is to be freed; its owner, if none is wanted. (A symbolic link to the folder stays.) */
static int look_at(const char *dir, char **ret, struct restore_owner *owner, struct err *e) {
        struct stat st;
        char *real;
        int r;

        if (stat(dir, &st) < 0 && errno != ENOENT)
                return err_set(e, ERR_SYS, "cannot look at '%s'", dir);
        if (access(dir, F_OK) < 0) {
                size_t n = strlen(dir);

                while (n > 1 && dir[n - 1] == '/')
                        n--;
                *ret = strndup(dir, n);
                return *ret ? 0 : err_set(e, ERR_NOMEM, "no memory for a path");
        }
        r = check_empty(dir, e);
        if (r < 0)
                return r;
        real = realpath(dir, NULL);
        if (!real)
                return err_set(e, ERR_SYS, "cannot look at '%s'", dir);
        if (!owner->is && (st.st_uid != geteuid() || st.st_gid != getegid()))
                *owner = (struct restore_owner){true, st.st_uid, st.st_gid};
        *ret = real;
        return 0;
}

static void remove_memory(const struct reader *x) {
        int fd = openat(x->dir_fd, "spill", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
        struct dirent *d;

        if (!stream && fd >= 0)
                close(fd);
        if (!stream)
                return;
        while ((d = readdir(stream)))
                if (d->d_name[0] != '.')
                        (void)unlinkat(fd, d->d_name, 0);
        closedir(stream);
        (void)unlinkat(x->dir_fd, "spill", AT_REMOVEDIR);
}

static void remove_folder(const char *path, const struct reader *x) {
        int dir_fd = x->dir_fd;

        remove_memory(x);
        for (int i = 0; i < MANIFEST; i++)
                (void)unlinkat(dir_fd, names[i], 0);
        (void)rmdir(path);
}

static int fill(struct reader *x, struct restored *ret, struct err *e) {
        int r = read_archive(x, e);

        if (r == 0)
                r = close_memory(x, e);
        if (r == 0)
                r = verify(x, ret, e);
        if (r < 0)
                return r;
        if (x->memory.dir_fd >= 0 && fsync(x->memory.dir_fd) < 0)
                return err_set(e, ERR_SYS, "cannot write the folder of memory");
        if (x->owner.is && fchown(x->dir_fd, x->owner.uid, x->owner.gid) < 0)
                return err_set(
                        e, ERR_SYS, "cannot give the folder to user %u", (unsigned)x->owner.uid);
        return fsync(x->dir_fd) < 0 ? err_set(e, ERR_SYS, "cannot write the folder") : 0;
}

static int put_in_place(const char *from, const char *to, struct err *e) {
        if (rename(from, to) == 0)
                return 0;
        return err_set(e, errno == ENOTEMPTY || errno == EEXIST ? ERR_EXISTS : ERR_SYS,
                "cannot put the folder in place of '%s'", to);
}

static int build(struct reader *x, const char *to, struct restored *ret, struct err *e) {
        _cleanup_(freep) char *beside = NULL;
        _cleanup_(closep) int dir_fd = -1;
        int r;

        if (asprintf(&beside, "%s.restore-XXXXXX", to) < 0) {
                beside = NULL;
                return err_set(e, ERR_NOMEM, "no memory for a path");
        }
        if (!mkdtemp(beside)) /* 0700 */
                return err_set(e, ERR_SYS, "cannot make '%s'", beside);
        dir_fd = x->dir_fd = open(beside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0) {
                r = err_set(e, ERR_SYS, "cannot open '%s'", beside);
                (void)rmdir(beside);
                return r;
        }
        r = fill(x, ret, e);
        if (r == 0)
                r = put_in_place(beside, to, e);
        if (r < 0) {
                remove_folder(beside, x);
                return r;
        }
        return file_sync_parent(to, e);
}

int restore_state(int fd, const char *dir, const struct restore_owner *owner,
        const struct restore_watch *watch, struct restored *ret, struct err *e) {
        struct reader x = {.fd = fd,
                .dir_fd = -1,
                .owner = *owner,
                .watch = watch,
                .memory = {.dir_fd = -1, .fd = -1}};
        _cleanup_(freep) char *to = NULL;
        struct restored restored;
        int r = look_at(dir, &to, &x.owner, e);

        if (r < 0)
                return r;
        hash64_init(&x.memory.hash, 0);
        x.piece = malloc(PIECE);
        r = x.piece ? build(&x, to, &restored, e) : err_set(e, ERR_NOMEM, "no memory for a backup");
        closep(&x.memory.fd);
        closep(&x.memory.dir_fd);
        free(x.piece);
        free(x.manifest);
        if (r == 0)
                *ret = restored;
        return r;
}
