/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The head of a request: bytes to method, path, parameters and fields. Pure: no socket, no clock, no global state.
 *
 * A head is read in two steps. http_scan_head() looks at each byte once, as it comes, and refuses at once what no head
 * may contain; so a peer that speaks TLS, or sends a line that never ends, is told so early, and a peer
 * that sends byte by byte costs no more than one that sends all. http_head_parse() then cuts a complete head into strings.
 *
 * 1. Lines end with CR LF; neither stands anywhere else. No other control character but the tab is in a head.
 * 2. What says where the message ends is unambiguous, or the head is refused: one Content-Length of
 *    digits, or Transfer-Encoding "chunked", never both, never twice, and never chunked in HTTP/1.0.
 * 3. Fields that can't be a list (Host, Authorization, ...) are there once at most. Others of one name are joined.
 *
 * On failure functions return -ERR_FORMAT with *ret_status set to the status that answers it, or -ERR_NOMEM.
 */
#include "base/buf.h"
#include "base/err.h"
#include "client/gateway/http.h"
#include <stddef.h>
#include <stdint.h>

#define HTTP_MAX_FIELDS 128
#define HTTP_MAX_PARAMETERS 128

struct http_scan {
        size_t at, line_size;
        unsigned n_lines, n_blank;
        bool after_cr;
};
#define HTTP_SCAN_HEAD ((struct http_scan){})
/* What follows the last chunk: fields, then an empty line, which may come first. */
#define HTTP_SCAN_TRAILER ((struct http_scan){.n_lines = 1})

/* Look at the bytes of @data [@size] behind those of the last call; the bytes of before must be the same. 1: the head
 * ends at *ret_end; 0: more is needed. */
int http_scan_head(struct http_scan *scan, const char *data, size_t size, size_t *ret_end,
        unsigned *ret_status, struct err *e);

struct http_field {
        const char *name, *value;
};

struct http_head {
        char *text, *joined;       /* owned: what all strings below point into */
        struct http_field *fields; /* [n_fields], owned; names in lower case */
        size_t n_fields;
        struct http_field *parameters; /* [n_parameters], owned; decoded */
        size_t n_parameters;
        enum http_method method;
        const char *path; /* decoded */
        bool is_http_1_0; /* else 1.1 */
        bool keep;        /* the client wants to go on with the connection */
        bool expects;     /* it waits for "100 Continue" */
        bool chunked;     /* the body's form; else it has @length bytes */
        uint64_t length;
};
#define HTTP_HEAD_NULL ((struct http_head){})

/* @text [@size]: what http_scan_head() found. @ret is HTTP_HEAD_NULL before, and after a failure holds at most the path, for
 * the refusal, until http_head_deinit(). */
int http_head_parse(
        struct http_head *ret, const char *text, size_t size, unsigned *ret_status, struct err *e);
void http_head_deinit(struct http_head *head);
/* The value of the field @name (in lower case), or NULL. */
const char *http_head_field(const struct http_head *head, const char *name);
/* The value of the query's parameter @name (the first of that name), or NULL. */
const char *http_head_parameter(const struct http_head *head, const char *name);
/* For heads of answers, too (follow-head.h). Cut the line off that begins at @line; returns the next one. The scan has found CR LF
 * behind each. */
char *http_cut_line(char *line);
/* Cut @line into a field, its name in lower case. NULL, or a sentence that says what is wrong with it. */
const char *http_cut_field(struct http_field *ret, char *line);
/* A Content-Length. False: @value is not one number. */
bool http_read_length(const char *value, uint64_t *ret);
/* Append path and parameters as a target; what it is parsed to is the same. -ERR_NOMEM. */
int http_head_put_target(const struct http_head *head, struct buf *out);
/* Whether the list @value ("close, x") has @word, in any case. NULL has none. */
bool http_list_has(const char *value, const char *word);
