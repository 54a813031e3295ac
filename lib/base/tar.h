/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The part of the tar format that backups need: regular files, in ustar headers (POSIX.1-1988), and pax headers
 * (POSIX.1-2001) for sizes beyond their eleven octal digits. tar(1) reads what this writes. Any thread.
 *
 * An archive is, for each file, a header of one block, then the bytes of the file, filled up to whole blocks; at its end
 * stand two blocks of zeroes.
 */
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define TAR_BLOCK 512
#define TAR_NAME_MAX 99 /* bytes */

/* Bytes behind a file of @size that fill up its last block. */
static inline size_t tar_padding(uint64_t size) {
        return (size_t)(-size % TAR_BLOCK);
}
/* Append the header of a file: one block, or three if it needs a pax header. @name has at most TAR_NAME_MAX bytes.
 * -ERR_NOMEM. */
int tar_put_header(struct buf *out, const char *name, uint64_t size, uint64_t mtime);
/* Append the end of an archive. -ERR_NOMEM. */
int tar_put_end(struct buf *out);

struct tar_entry {
        enum tar_kind {
                TAR_FILE,
                TAR_PAX, /* its bytes tell about the next entry: tar_read_pax() */
                TAR_END  /* a block of zeroes */
        } kind;
        char name[TAR_NAME_MAX + 1];
        uint64_t size;
};
/* Read a header. -ERR_FORMAT: it is none; -ERR_UNSUPPORTED: an entry of another kind. */
int tar_read_header(struct tar_entry *ret, const uint8_t block[TAR_BLOCK], struct err *e);
/* The size of the next entry as the bytes of a pax header tell it. 0; 1: they tell none; -ERR_FORMAT. */
int tar_read_pax(const char *data, size_t n, uint64_t *ret_size, struct err *e);
