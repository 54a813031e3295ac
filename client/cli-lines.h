/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Lines of several files, one after the other, as they come: for programs that do something else meanwhile. Memory is
 * bounded by the longest line. One thread.
 */
#include "base/buf.h"
#include <stdbool.h>
#include <sys/types.h>

struct err;

struct lines {
        const char *const *paths; /* borrowed [n_paths]; "-" is standard input */
        size_t n_paths, at;
        int fd;       /* of the present one, or -1 */
        bool skipped; /* the present line is too long: its rest is not kept */
        struct buf read;
        size_t max, scanned;
};

/* No line is longer than @max bytes. To be given to lines_deinit(). */
void lines_init(struct lines *l, const char *const *paths, size_t n_paths, size_t max);
void lines_deinit(struct lines *l);
/* 1: *ret is the next line, without its end (a newline, or one behind a carriage return), to be freed. 2: there was one
 * that is too long. 0: none is there yet, see lines_fill(), or ever, see lines_end(). -ERR_NOMEM. */
int lines_next(struct lines *l, char **ret, size_t *ret_size, struct err *e);
/* All was read, and taken. */
bool lines_end(const struct lines *l);
/* Read what there is, without waiting. -ERR_SYS: a file can't be opened or read. */
int lines_fill(struct lines *l, struct err *e);
/* To poll for reading before lines_fill(). -1: do not wait, it has something to do. */
int lines_fd(const struct lines *l);
