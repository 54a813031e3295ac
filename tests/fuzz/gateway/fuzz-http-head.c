/* SPDX-License-Identifier: MIT */
/* Heads, of requests and of another gateway's answers, and chunks as pure functions: in one piece or byte by byte they mean the same. */
#include "base/buf.h"
#include "base/utf8.h"
#include "client/gateway/follow-head.h"
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

/* What is read of an answer leaves no doubt where it ends. */
static void check_answer(const char *text, size_t size, bool is_head) {
        struct follow_head head = FOLLOW_HEAD_NULL;
        unsigned n_lengths = 0, n_codings = 0;
        struct err e;
        int r = follow_head_parse(&head, text, size, is_head, &e);

        CHECK(r == 0 || r == -ERR_FORMAT);
        for (size_t i = 0; r == 0 && i < head.n_fields; i++) {
                CHECK(head.fields[i].name[0] && !strpbrk(head.fields[i].name, " \t\r\n:"));
                CHECK(!strpbrk(head.fields[i].value, "\r\n"));
                CHECK(follow_head_field(&head, head.fields[i].name));
                n_lengths += strcmp(head.fields[i].name, "content-length") == 0;
                n_codings += strcmp(head.fields[i].name, "transfer-encoding") == 0;
        }
        if (r == 0) {
                CHECK(head.status >= 100 && head.status <= 599);
                CHECK(n_lengths + n_codings <= 1 && head.has_length == (n_lengths == 1));
                CHECK(head.framing != FOLLOW_SIZED || head.has_length);
                CHECK(head.framing != FOLLOW_CHUNKED || n_codings == 1);
                CHECK(head.framing == FOLLOW_NO_BODY || !is_head);
        }
        follow_head_deinit(&head);
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
                check_answer(text, end, false);
                check_answer(text, end, true);
        }
        r = take_chunks(text, size, size + 1, &whole);
        CHECK(take_chunks(text, size, 1, &pieces) == r);
        CHECK(pieces.size == whole.size);
        CHECK(whole.size == 0 || memcmp(pieces.data, whole.data, whole.size) == 0);
        buf_deinit(&whole);
        buf_deinit(&pieces);
        return 0;
}
