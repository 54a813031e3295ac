/* SPDX-License-Identifier: MIT */
#include "client/cli-lines.h"
#include "base/err.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

void lines_init(struct lines *l, const char *const *paths, size_t n_paths, size_t max) {
        *l = (struct lines){.paths = paths, .n_paths = n_paths, .fd = -1, .max = max};
}

void lines_deinit(struct lines *l) {
        if (l->fd >= 0)
                close(l->fd);
        l->fd = -1;
        buf_deinit(&l->read);
}

/* Take the line that ends before byte @size; @more are those of its end. */
static int take(struct lines *l, size_t size, size_t more, char **ret, size_t *ret_size) {
        size_t kept = size;
        char *line;

        if (l->skipped || size > l->max) {
                l->skipped = false;
                l->scanned = 0;
                buf_consume(&l->read, size + more);
                return 2;
        }
        if (more && kept > 0 && l->read.data[kept - 1] == '\r')
                kept--;
        line = text_dup(l->read.data, kept);
        if (!line)
                return -ERR_NOMEM;
        buf_consume(&l->read, size + more);
        l->scanned = 0;
        *ret = line;
        *ret_size = kept;
        return 1;
}

int lines_next(struct lines *l, char **ret, size_t *ret_size, struct err *e) {
        const uint8_t *from = l->read.data ? l->read.data + l->scanned : NULL;
        const uint8_t *end =
                l->read.size > l->scanned ? memchr(from, '\n', l->read.size - l->scanned) : NULL;
        int r = 0;

        if (end) {
                r = take(l, (size_t)(end - l->read.data), 1, ret, ret_size);
        } else if (l->fd < 0 && (l->read.size > 0 || l->skipped)) {
                r = take(l, l->read.size, 0, ret, ret_size); /* the last one of a file */
        } else {
                l->scanned = l->read.size;
                if (l->read.size > l->max) {
                        l->skipped = true;
                        buf_consume(&l->read, l->read.size);
                        l->scanned = 0;
                }
        }
        return r < 0 ? err_no_memory(e) : r;
}

bool lines_end(const struct lines *l) {
        return l->fd < 0 && l->at == l->n_paths && l->read.size == 0 && !l->skipped;
}

int lines_fd(const struct lines *l) {
        return l->fd;
}

int lines_fill(struct lines *l, struct err *e) {
        struct pollfd p = {.fd = l->fd, .events = POLLIN};
        char chunk[16384];
        ssize_t n;

        if (l->fd < 0 && l->read.size == 0 && !l->skipped && l->at < l->n_paths) {
                const char *path = l->paths[l->at++];

                l->fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                               : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
                if (l->fd < 0)
                        return err_set(e, ERR_SYS, "'%s'", path);
                return 0;
        }
        if (l->fd < 0 || poll(&p, 1, 0) <= 0)
                return 0;
        n = read(l->fd, chunk, sizeof(chunk));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return 0;
        if (n < 0)
                return err_set(e, ERR_SYS, "reading '%s'", l->paths[l->at - 1]);
        if (n == 0) {
                close(l->fd);
                l->fd = -1;
        } else if (buf_append(&l->read, chunk, (size_t)n) < 0) {
                return err_no_memory(e);
        }
        return 0;
}
