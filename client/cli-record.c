/* SPDX-License-Identifier: MIT */
/*
 * The record of a map: a line of JSON for each answer, as map --json prints them, in the order in which they came:
 *
 *     {"index":0,"input":"9ae16a3b2f90404f","id":"a","text":"...","finish":"stop",...}
 *
 * 1. It is only appended to, a line at a time. What ends this program, or the machine, leaves whole lines and perhaps
 *    a half one at the end, which the next run cuts off.
 * 2. "input" is a hash of all that the answer depends on: the conversation and its revision, the options, the
 *    question. So a line that has been edited since is asked again; the newest answer of a line counts.
 * 3. Failures are not recorded: they are tried again.
 * 4. A file that has anything else in it is no record, and is neither read further nor changed.
 * 5. One map writes it at a time (flock). In memory are the places of the lines: 32 bytes for each.
 */
#include "client/cli-record.h"
#include "base/err.h"
#include "base/file.h"
#include "base/json-tree.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The entry of a line, or -ERR_FORMAT. */
static int parse_line(const char *line, size_t size, struct record_entry *ret) {
        struct json_value *root = NULL;
        const char *hash;
        char *end = NULL;
        int64_t index;
        int r = -ERR_FORMAT;

        if (json_tree_parse(&root, line, size, NULL) == -ERR_NOMEM)
                return -ERR_NOMEM;
        hash = json_tree_string(json_tree_get(root, "input"));
        if (json_tree_integer(json_tree_get(root, "index"), &index) && index >= 0 && hash &&
                strlen(hash) == 16 && strspn(hash, "0123456789abcdef") == 16 &&
                json_tree_string(json_tree_get(root, "text"))) {
                ret->index = (uint64_t)index;
                ret->hash = strtoull(hash, &end, 16);
                r = 0;
        }
        json_tree_free(root);
        return r;
}

static int add(struct record *rec, size_t *capacity, const struct record_entry *entry) {
        if (rec->n == *capacity) {
                size_t more = *capacity ? 2 * *capacity : 64;
                struct record_entry *grown = reallocarray(rec->entries, more, sizeof(*grown));

                if (!grown)
                        return -ERR_NOMEM;
                rec->entries = grown;
                *capacity = more;
        }
        rec->entries[rec->n++] = *entry;
        return 0;
}

/* All whole lines; *ret_end is where they end. */
static int read_lines(
        struct record *rec, FILE *f, const char *path, uint64_t *ret_end, struct err *e) {
        _cleanup_(freep) char *line = NULL;
        size_t capacity = 0, room = 0;
        uint64_t at = 0;
        ssize_t n;

        errno = 0;
        while ((n = getline(&line, &room, f)) > 0 && line[n - 1] == '\n') {
                struct record_entry entry = {.offset = at, .size = (size_t)n - 1};
                int r = parse_line(line, entry.size, &entry);

                if (r == 0)
                        r = add(rec, &capacity, &entry);
                if (r == -ERR_FORMAT)
                        return err_set(e, ERR_FORMAT,
                                "'%s' is no record of a map: line %zu is none of its results", path,
                                rec->n + 1);
                if (r < 0)
                        return err_set(e, ERR_NOMEM, "no memory for the record '%s'", path);
                at += (uint64_t)n;
        }
        if (n > 0 && strncmp(line, "{\"index\":", MIN((size_t)n, 9u)) != 0)
                return err_set(e, ERR_FORMAT, "'%s' is no record of a map", path);
        if (ferror(f))
                return err_set(e, ERR_SYS, "reading '%s'", path);
        *ret_end = at;
        return 0;
}

static int by_index(const void *a, const void *b) {
        const struct record_entry *x = a, *y = b;

        if (x->index != y->index)
                return x->index < y->index ? -1 : 1;
        return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int load(struct record *rec, const char *path, struct err *e) {
        int copy = fcntl(rec->fd, F_DUPFD_CLOEXEC, 3);
        FILE *f = copy < 0 ? NULL : fdopen(copy, "r");
        uint64_t end = 0;
        int r;

        if (!f) {
                r = err_set(e, ERR_SYS, "reading '%s'", path);
                if (copy >= 0)
                        close(copy);
                return r;
        }
        r = read_lines(rec, f, path, &end, e);
        fclose(f);
        if (r < 0)
                return r;
        if (ftruncate(rec->fd, (off_t)end) < 0)
                return err_set(e, ERR_SYS, "cutting a half line off '%s'", path);
        if (rec->n > 0)
                qsort(rec->entries, rec->n, sizeof(*rec->entries), by_index);
        return 0;
}

int record_open(struct record *ret, const char *path, struct err *e) {
        struct record rec = {.fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)};
        int r;

        if (rec.fd < 0)
                return err_set(e, ERR_SYS, "opening '%s'", path);
        if (flock(rec.fd, LOCK_EX | LOCK_NB) < 0)
                r = errno == EWOULDBLOCK
                            ? err_set(e, ERR_BUSY, "another 'confab map' writes '%s'", path)
                            : err_set(e, ERR_SYS, "locking '%s'", path);
        else
                r = load(&rec, path, e);
        if (r < 0) {
                record_close(&rec);
                return r;
        }
        *ret = rec;
        return 0;
}

void record_close(struct record *rec) {
        if (rec->fd >= 0)
                close(rec->fd);
        free(rec->entries);
        *rec = RECORD_NULL;
}

const struct record_entry *record_find(struct record *rec, uint64_t index, uint64_t hash) {
        const struct record_entry *found = NULL;

        while (rec->at < rec->n && rec->entries[rec->at].index < index)
                rec->at++;
        for (size_t i = rec->at; i < rec->n && rec->entries[i].index == index; i++)
                if (rec->entries[i].hash == hash)
                        found = &rec->entries[i];
        return found;
}

int record_read(
        const struct record *rec, const struct record_entry *entry, struct buf *b, struct err *e) {
        int r = buf_reserve(b, entry->size + 1);

        if (r < 0)
                return err_no_memory(e);
        r = file_pread(rec->fd, b->data + b->size, entry->size, entry->offset, e);
        if (r < 0)
                return r;
        b->size += entry->size;
        b->data[b->size] = 0;
        return 0;
}

int record_append(struct record *rec, const void *line, size_t size, struct err *e) {
        return file_write(rec->fd, line, size, e);
}
