/* SPDX-License-Identifier: MIT */
/*
 * The history of lines and its file.
 *
 * The file has an entry on each line, the oldest first; a newline in it is written \n, a backslash \\. libedit has a format
 * of its own and functions for it, which are of no use here: they write the file as a whole when a program ends,
 * so of two chats the last one to end would win, and they read damaged files beyond the ends of their buffers. So:
 *
 * 1. A line is appended as soon as it is said, with one write, under a lock (flock(2)) of the file.
 * 2. A file of more than FILE_MAX_SIZE is written anew with its newest half, under the same lock, beside the old one
 *    and renamed over it. Whoever waited for the lock of the old one finds that the name leads elsewhere, and opens
 *    that.
 * 3. It belongs to its user alone (0600), and its folder too where it is made (0700).
 * 4. Entries of more than ENTRY_MAX_SIZE bytes are recalled in this program and not kept in the file.
 * 5. Any bytes may stand in the file: what is no line of text (a NUL, no UTF-8, what a crash left) is passed over. Of a
 *    larger file the end is read.
 * 6. Nothing that goes wrong with the file keeps anybody from talking.
 */
#include "client/line/history.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/utf8.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define FILE_MAX_SIZE ((size_t)1 << 20)
#define ENTRY_MAX_SIZE ((size_t)16 << 10)
#define TRIES 8 /* to lock a file that others keep replacing */

struct line_history {
        History *entries;
        char *path; /* owned, or NULL */
};

/* ---- entries ---- */

/* Undo what write_entry() does to a line of @n bytes: false if it is none. */
static bool read_entry(const char *s, size_t n, struct buf *ret) {
        ret->size = 0;
        for (size_t i = 0; i < n; i++) {
                bool escaped = s[i] == '\\' && i + 1 < n;
                char c = s[i += escaped];

                if (escaped && c == 'n')
                        c = '\n';
                if (c == 0 || buf_append(ret, &c, 1) < 0)
                        return false;
        }
        return ret->size > 0 && utf8_valid(ret->data, ret->size);
}

static int write_entry(const char *s, struct buf *ret) {
        int r = 0;

        for (; *s && r == 0; s++)
                r = *s == '\n'   ? buf_append_str(ret, "\\n")
                    : *s == '\\' ? buf_append_str(ret, "\\\\")
                                 : buf_append(ret, s, 1);
        return r == 0 ? buf_append_str(ret, "\n") : r;
}

/* The end of the file, at most @max bytes from the beginning of a line on. *ret is to be freed. */
static int read_end(int fd, size_t max, char **ret, size_t *ret_size) {
        struct stat st;
        size_t size;
        char *data, *newline;
        struct err e;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return -1;
        size = MIN((size_t)st.st_size, max);
        data = malloc(size + 1);
        if (!data || file_pread(fd, data, size, (uint64_t)st.st_size - size, &e) < 0) {
                free(data);
                return -1;
        }
        data[size] = 0;
        if (size < (size_t)st.st_size) {
                newline = memchr(data, '\n', size);
                size -= newline ? (size_t)(newline + 1 - data) : size;
                memmove(data, newline ? newline + 1 : data, size);
        }
        *ret = data;
        *ret_size = size;
        return 0;
}

static void load(struct line_history *h) {
        _cleanup_(closep) int fd = open(h->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        _cleanup_(buf_deinit) struct buf entry = BUF_NULL;
        _cleanup_(freep) char *data = NULL;
        size_t size;
        HistEvent event;

        if (fd < 0 || read_end(fd, FILE_MAX_SIZE, &data, &size) < 0)
                return;
        for (size_t i = 0; i < size;) {
                const char *end = memchr(data + i, '\n', size - i);
                size_t n = end ? (size_t)(end - data) - i : size - i;

                if (end && read_entry(data + i, n, &entry))
                        history(h->entries, &event, H_ENTER, (const char *)entry.data);
                i += n + 1;
        }
}

struct line_history *line_history_new(const char *path) {
        struct line_history *h = calloc(1, sizeof(*h));
        HistEvent event;

        if (!h)
                return NULL;
        h->entries = history_init();
        h->path = path ? strdup(path) : NULL;
        if (!h->entries || (path && !h->path))
                return line_history_free(h);
        history(h->entries, &event, H_SETSIZE, HISTORY_ENTRIES);
        history(h->entries, &event, H_SETUNIQUE, 1); /* twice the same is once */
        if (path)
                load(h);
        return h;
}

struct line_history *line_history_free(struct line_history *h) {
        if (!h)
                return NULL;
        if (h->entries)
                history_end(h->entries);
        free(h->path);
        free(h);
        return NULL;
}

History *line_history_entries(struct line_history *h) {
        return h->entries;
}

/* ---- the file ---- */

static int make_folder(const char *path) {
        _cleanup_(freep) char *folder = strdup(path);
        char *slash = folder ? strrchr(folder, '/') : NULL;
        struct err e;

        if (!slash)
                return -1;
        *slash = 0;
        return file_mkdir_p(folder, 0700, &e);
}

/* The file, locked; -1 if that cannot be had. Closing it unlocks. */
static int open_locked(const char *path) {
        for (int i = 0; i < TRIES; i++) {
                _cleanup_(closep) int fd = open(path,
                        O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
                struct stat ours, named;

                if (fd < 0 || fstat(fd, &ours) < 0 || !S_ISREG(ours.st_mode))
                        return -1;
                while (flock(fd, LOCK_EX) < 0)
                        if (errno != EINTR)
                                return -1;
                if (stat(path, &named) == 0 && named.st_ino == ours.st_ino &&
                        named.st_dev == ours.st_dev)
                        return TAKE_FD(fd);
                /* it was written anew meanwhile */
        }
        return -1;
}

/* What a crash left of an entry becomes a line of its own. */
static int end_last_line(int fd) {
        struct stat st;
        char last = '\n';
        struct err e;

        if (fstat(fd, &st) < 0 ||
                (st.st_size > 0 && file_pread(fd, &last, 1, (uint64_t)st.st_size - 1, &e) < 0))
                return -1;
        return last == '\n' ? 0 : file_write(fd, "\n", 1, &e);
}

/* The file is locked. */
static void keep_newest(int fd, const char *path) {
        _cleanup_(freep) char *data = NULL;
        struct stat st;
        struct err e;
        size_t size;

        if (fstat(fd, &st) == 0 && (size_t)st.st_size > FILE_MAX_SIZE &&
                read_end(fd, FILE_MAX_SIZE / 2, &data, &size) == 0)
                (void)!file_replace(path, data, size, 0600, &e);
}

void line_history_add(struct line_history *h, const char *text) {
        _cleanup_(buf_deinit) struct buf entry = BUF_NULL;
        _cleanup_(closep) int fd = -1;
        HistEvent event;
        struct err e;

        history(h->entries, &event, H_ENTER, text);
        if (!h->path || strlen(text) > ENTRY_MAX_SIZE || write_entry(text, &entry) < 0 ||
                make_folder(h->path) < 0)
                return;
        fd = open_locked(h->path);
        if (fd < 0 || end_last_line(fd) < 0 || file_write(fd, entry.data, entry.size, &e) < 0)
                return;
        keep_newest(fd, h->path);
}
