/* SPDX-License-Identifier: MIT */
/* Heads and chunks as pure functions: in one piece or byte by byte they mean the same. */
#include "base/buf.h"
#include "base/utf8.h"
#include "client/gateway/http-chunk.h"
#include "client/gateway/http-head.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                                   \
        do {                                                                                       \
                if (!(x)) {                                                                        \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                    \
                        abort();                                                                   \
                }                                                                                  \
        } while (0)

static void check_head(const struct http_head *head) {
        CHECK(head->path[0] == '/' && utf8_valid(head->path, strlen(head->path)));
        CHECK(!strstr(head->path, "/../") && !(head->chunked && head->length > 0));
        for (size_t i = 0; i < head->n_fields; i++) {
                CHECK(head->fields[i].name[0] && !strpbrk(head->fields[i].name, " \t\r\n:"));
                CHECK(!strpbrk(head->fields[i].value, "\r\n"));
                CHECK(http_head_field(head, head->fields[i].name) == head->fields[i].value);
        }
        for (size_t i = 0; i < head->n_parameters; i++)
                CHECK(utf8_valid(head->parameters[i].value, strlen(head->parameters[i].value)));
}

static int scan(const char *text, size_t size, size_t step, size_t *ret_end) {
        struct http_scan state = HTTP_SCAN_HEAD;
        unsigned status = 0;
        struct err e;
        int r = 0;

        for (size_t n = step < size ? step : size; r == 0; n += step) {
                r = http_scan_head(&state, text, n < size ? n : size, ret_end, &status, &e);
                CHECK(r >= 0 || (r == -ERR_FORMAT && status >= 400));
                if (n >= size)
                        break;
        }
        return r;
}

static int take_chunks(const char *text, size_t size, size_t step, struct buf *out) {
        struct http_chunks chunks = HTTP_CHUNKS_NULL;
        const char *piece;
        unsigned status = 0;
        size_t n;
        struct err e;
        int r = 0;

        for (size_t at = 0; at < size && r == 0; at += step) {
                const char *data = text + at;
                size_t left = size - at < step ? size - at : step;

                while ((r = http_chunks_next(&chunks, &data, &left, &piece, &n, &status, &e)) == 1)
                        CHECK(buf_append(out, piece, n) == 0);
                CHECK(r >= 0 || (r == -ERR_FORMAT && status >= 400));
        }
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text = (const char *)data;
        struct buf whole = BUF_NULL, pieces = BUF_NULL;
        size_t end = 0, other = 0;
        unsigned status = 0;
        struct err e;
        int r;

        r = scan(text, size, size + 1, &end);
        CHECK(scan(text, size, 1, &other) == r && other == end);
        if (r > 0) {
                struct http_head head = HTTP_HEAD_NULL;

                r = http_head_parse(&head, text, end, &status, &e);
                CHECK(r == 0 || (r == -ERR_FORMAT && status >= 400 && status < 600));
                if (r == 0)
                        check_head(&head);
                http_head_deinit(&head);
        }
        r = take_chunks(text, size, size + 1, &whole);
        CHECK(take_chunks(text, size, 1, &pieces) == r);
        CHECK(pieces.size == whole.size);
        CHECK(whole.size == 0 || memcmp(pieces.data, whole.data, whole.size) == 0);
        buf_deinit(&whole);
        buf_deinit(&pieces);
        return 0;
}
