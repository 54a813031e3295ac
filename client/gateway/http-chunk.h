/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A body in chunks (RFC 9112, 7.1), taken apart as it comes. Pure, like http-head.h.
 *
 * Sizes are hexadecimal digits and nothing else. Extensions are skipped. Fields behind the last chunk are looked
 * at by the rules of a head's bytes and dropped. A line of a size and all trailing fields are bounded.
 */
#include "client/gateway/http-head.h"

#define HTTP_MAX_CHUNK_LINE 256
#define HTTP_MAX_TRAILER 8192

struct http_chunks {
        enum {
                HTTP_CHUNK_SIZE,
                HTTP_CHUNK_EXTENSION,
                HTTP_CHUNK_SIZE_LF,
                HTTP_CHUNK_DATA,
                HTTP_CHUNK_DATA_CR,
                HTTP_CHUNK_DATA_LF,
                HTTP_CHUNK_TRAILER,
                HTTP_CHUNK_END
        } state;
        uint64_t left;    /* of this chunk */
        size_t line_size; /* of the line of its size */
        struct http_scan trailer;
};
#define HTTP_CHUNKS_NULL ((struct http_chunks){.trailer = HTTP_SCAN_TRAILER})

/* Take bytes off *data [*size], which move on past what was taken. 1: *ret_piece [*ret_piece_size] is content; 2: the body has
 * ended; 0: all was taken and more is needed. */
int http_chunks_next(struct http_chunks *chunks, const char **data, size_t *size,
        const char **ret_piece, size_t *ret_piece_size, unsigned *ret_status, struct err *e);
