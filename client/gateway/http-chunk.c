/* SPDX-License-Identifier: MIT */
#include "client/gateway/http-chunk.h"
#include "base/util.h"

#define bad(status, e, ...) (*ret_status = (status), err_set((e), ERR_FORMAT, __VA_ARGS__))

static int add_digit(struct http_chunks *chunks, char c, unsigned *ret_status, struct err *e) {
        unsigned digit;

        if (c >= '0' && c <= '9')
                digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
                digit = (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
                digit = (unsigned)(c - 'A') + 10;
        else
                return bad(400, e, "the size of a chunk is not hexadecimal");
        if (chunks->left >> 56)
                return bad(413, e, "a chunk is too large");
        chunks->left = chunks->left << 4 | digit;
        return 0;
}

/* One byte of the line of a chunk's size. */
static int take_size_byte(struct http_chunks *chunks, char c, unsigned *ret_status, struct err *e) {
        if (++chunks->line_size > HTTP_MAX_CHUNK_LINE)
                return bad(400, e, "the line of a chunk's size is too long");
        if (chunks->state == HTTP_CHUNK_SIZE_LF) {
                if (c != '\n')
                        return bad(400, e, "a CR without LF behind the size of a chunk");
                chunks->state = chunks->left > 0 ? HTTP_CHUNK_DATA : HTTP_CHUNK_TRAILER;
                chunks->line_size = 0;
                return 0;
        }
        if (chunks->line_size > 1 && c == '\r') {
                chunks->state = HTTP_CHUNK_SIZE_LF;
                return 0;
        }
        if (chunks->state == HTTP_CHUNK_SIZE) {
                if (chunks->line_size == 1 || c != ';')
                        return add_digit(chunks, c, ret_status, e);
                chunks->state = HTTP_CHUNK_EXTENSION;
                return 0;
        }
        if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7f)
                return bad(400, e, "a control character in a chunk's extension");
        return 0;
}

/* The CR LF behind the content of a chunk. */
static int take_data_end(struct http_chunks *chunks, char c, unsigned *ret_status, struct err *e) {
        if (c != (chunks->state == HTTP_CHUNK_DATA_CR ? '\r' : '\n'))
                return bad(400, e, "a chunk is longer than its size");
        chunks->state = chunks->state == HTTP_CHUNK_DATA_CR ? HTTP_CHUNK_DATA_LF : HTTP_CHUNK_SIZE;
        return 0;
}

static int take_trailer(struct http_chunks *chunks, const char **data, size_t *size,
        unsigned *ret_status, struct err *e) {
        struct http_scan *scan = &chunks->trailer;
        size_t before = chunks->line_size, end = *size;
        int r;

        /* These bytes are not kept: each piece is scanned from its own beginning. */
        scan->at = 0;
        r = http_scan_head(scan, *data, *size, &end, ret_status, e);
        if (r < 0)
                return r;
        chunks->line_size = before + end;
        if (chunks->line_size > HTTP_MAX_TRAILER)
                return bad(
                        431, e, "more than %d bytes of fields behind the body", HTTP_MAX_TRAILER);
        *data += end;
        *size -= end;
        if (r == 0)
                return 0;
        chunks->state = HTTP_CHUNK_END;
        return 2;
}

static void take_data(struct http_chunks *chunks, const char **data, size_t *size,
        const char **ret_piece, size_t *ret_piece_size) {
        size_t n = (size_t)MIN((uint64_t)*size, chunks->left);

        *ret_piece = *data;
        *ret_piece_size = n;
        *data += n;
        *size -= n;
        chunks->left -= n;
        if (chunks->left == 0)
                chunks->state = HTTP_CHUNK_DATA_CR;
}

int http_chunks_next(struct http_chunks *chunks, const char **data, size_t *size,
        const char **ret_piece, size_t *ret_piece_size, unsigned *ret_status, struct err *e) {
        while (*size > 0) {
                int r;

                switch (chunks->state) {
                case HTTP_CHUNK_DATA:
                        take_data(chunks, data, size, ret_piece, ret_piece_size);
                        return 1;
                case HTTP_CHUNK_TRAILER:
                        return take_trailer(chunks, data, size, ret_status, e);
                case HTTP_CHUNK_END:
                        return 2;
                case HTTP_CHUNK_DATA_CR:
                case HTTP_CHUNK_DATA_LF:
                        r = take_data_end(chunks, **data, ret_status, e);
                        break;
                default:
                        r = take_size_byte(chunks, **data, ret_status, e);
                }
                if (r < 0)
                        return r;
                ++*data;
                --*size;
        }
        return chunks->state == HTTP_CHUNK_END ? 2 : 0;
}
