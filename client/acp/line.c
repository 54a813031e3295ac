/* SPDX-License-Identifier: MIT */
/*
 * Lines of bounded length. A line that grows beyond the bound is dropped while it comes, so memory is bounded by
 * the bound and one read; the lines behind it are read as if it had not been there.
 */
#include "client/acp/line.h"
#include <string.h>

int acp_lines_add(struct acp_lines *lines, const void *bytes, size_t n) {
        buf_consume(&lines->data, lines->start);
        lines->start = 0;
        return buf_append(&lines->data, bytes, n);
}

/* Where the first newline is in the @size bytes from `start` on; @size: nowhere. */
static size_t find_newline(const struct acp_lines *lines, size_t size) {
        const uint8_t *from, *newline;

        if (size == lines->searched)
                return size;
        from = lines->data.data + lines->start + lines->searched;
        newline = memchr(from, '\n', size - lines->searched);
        return newline ? lines->searched + (size_t)(newline - from) : size;
}

/* Hand out what is in front of data[start + size], where a newline is, or the end. */
static enum acp_line take(struct acp_lines *lines, size_t size, bool newline, const char **ret_line,
        size_t *ret_size) {
        const char *line = (const char *)lines->data.data + lines->start;
        bool dropped = lines->dropping;

        lines->start += size + newline;
        lines->searched = 0;
        lines->dropping = false;
        if (dropped)
                return ACP_LINE_NONE;
        if (size > ACP_LINE_MAX)
                return ACP_LINE_TOO_LONG;
        *ret_line = line;
        *ret_size = size;
        return ACP_LINE_WHOLE;
}

enum acp_line acp_lines_next(
        struct acp_lines *lines, bool ended, const char **ret_line, size_t *ret_size) {
        for (;;) {
                size_t size = lines->data.size - lines->start;
                size_t found = find_newline(lines, size);
                enum acp_line kind;

                if (found < size || (ended && size > 0)) {
                        kind = take(lines, found, found < size, ret_line, ret_size);
                        if (kind != ACP_LINE_NONE)
                                return kind;
                        continue; /* that was the end of a line that is told already */
                }
                lines->searched = size;
                if (size <= ACP_LINE_MAX && !lines->dropping)
                        return ACP_LINE_NONE;
                kind = lines->dropping ? ACP_LINE_NONE : ACP_LINE_TOO_LONG;
                buf_deinit(&lines->data);
                *lines = (struct acp_lines){.dropping = true};
                return kind;
        }
}

void acp_lines_deinit(struct acp_lines *lines) {
        buf_deinit(&lines->data);
        *lines = ACP_LINES_NULL;
}
