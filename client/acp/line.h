/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to ACP: bytes become lines. One owner. */
#include "base/buf.h"
#include <stdbool.h>

/* Longest line in bytes, without its newline: the daemon takes requests of 4 MiB, and JSON may escape what is in
 * them. */
#define ACP_LINE_MAX ((size_t)8 << 20)

struct acp_lines {
        struct buf data; /* data[start..] is not handed out yet */
        size_t start;
        size_t searched; /* no newline in data[start .. start + searched) */
        bool dropping;   /* what comes up to the next newline belongs to a line that is too long */
};
#define ACP_LINES_NULL ((struct acp_lines){.data = BUF_NULL})

enum acp_line {
        ACP_LINE_NONE,    /* more bytes are needed */
        ACP_LINE_WHOLE,   /* a line is there */
        ACP_LINE_TOO_LONG /* a line is longer than ACP_LINE_MAX: it is dropped, and told once */
};

/* Add @n bytes. Pointers to lines become invalid. 0 or -ERR_NOMEM, and nothing is added. */
int acp_lines_add(struct acp_lines *lines, const void *bytes, size_t n);
/* The next line, without newline; *ret_line is valid until the next acp_lines_add(). With @ended no more bytes
 * come, so the last line needs no newline. *ret_line and *ret_size are set with ACP_LINE_WHOLE only. */
enum acp_line acp_lines_next(
        struct acp_lines *lines, bool ended, const char **ret_line, size_t *ret_size);
void acp_lines_deinit(struct acp_lines *lines);
