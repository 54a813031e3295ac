/* SPDX-License-Identifier: MIT */
#include "client/gateway/http-head.h"
#include "base/utf8.h"
#include "base/util.h"
#include <stdio.h>
#include <strings.h>

#define MAX_METHOD 32
#define MAX_LENGTH_DIGITS 18

/* The failure of a head: -ERR_FORMAT, *ret_status and a sentence. */
#define bad(status, e, ...) (*ret_status = (status), err_set((e), ERR_FORMAT, __VA_ARGS__))

/* ---- bytes ---- */

static int scan_line_end(struct http_scan *scan, unsigned *ret_status, struct err *e) {
        if (scan->line_size > 0) {
                scan->n_lines++;
                scan->line_size = 0;
                return 0;
        }
        if (scan->n_lines > 0)
                return 1;
        /* Old clients end a body with a line break too many. */
        if (scan->n_blank++ > 0)
                return bad(400, e, "empty lines before the request");
        return 0;
}

int http_scan_head(struct http_scan *scan, const char *data, size_t size, size_t *ret_end,
        unsigned *ret_status, struct err *e) {
        while (scan->at < size) {
                unsigned char c = (unsigned char)data[scan->at++];

                if (scan->after_cr) {
                        int r;

                        if (c != '\n')
                                return bad(400, e, "a CR without LF in the head");
                        scan->after_cr = false;
                        r = scan_line_end(scan, ret_status, e);
                        if (r > 0)
                                *ret_end = scan->at;
                        if (r != 0)
                                return r;
                } else if (c == '\r') {
                        scan->after_cr = true;
                } else if (c == '\n') {
                        return bad(400, e, "an LF without CR in the head");
                } else if ((c < 0x20 && c != '\t') || c == 0x7f) {
                        return bad(400, e, "a control character in the head");
                } else {
                        scan->line_size++;
                }
        }
        return 0;
}

static bool is_token_char(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(const char *s) {
        if (!*s)
                return false;
        for (; *s; s++)
                if (!is_token_char(*s))
                        return false;
        return true;
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

/* Decode in place, to text of UTF-8 without control characters. False: it is none. */
static bool decode(char *text, bool plus_is_blank) {
        const char *in = text;
        char *out = text;

        while (*in) {
                char c = *in++;

                if (c == '%') {
                        int high = hex_digit(in[0]), low = high < 0 ? -1 : hex_digit(in[1]);

                        if (low < 0)
                                return false;
                        c = (char)(high << 4 | low);
                        in += 2;
                        if ((unsigned char)c < 0x20 || c == 0x7f)
                                return false;
                } else if (c == '+' && plus_is_blank) {
                        c = ' ';
                }
                *out++ = c;
        }
        *out = '\0';
        return utf8_valid(text, (size_t)(out - text));
}

/* ---- the first line ---- */

static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
_Static_assert(ARRAY_SIZE(methods) == HTTP_OTHER, "all that have a word");

const char *http_method_text(enum http_method method) {
        return method < HTTP_OTHER ? methods[method] : NULL;
}

static enum http_method method_of(const char *word) {
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
                if (strcmp(methods[i], word) == 0)
                        return (enum http_method)i;
        return HTTP_OTHER;
}

/* "." and ".." as segments: what they mean depends on who reads them. */
static bool has_dots(const char *path) {
        while (*path == '/') {
                size_t n = strcspn(++path, "/");

                if ((n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
                        return true;
                path += n;
        }
        return false;
}

static int parse_query(struct http_head *head, char *query, unsigned *ret_status, struct err *e) {
        size_t n = 1;

        for (const char *p = query; *p; p++)
                n += *p == '&';
        if (n > HTTP_MAX_PARAMETERS)
                return bad(414, e, "more than %d parameters", HTTP_MAX_PARAMETERS);
        head->parameters = calloc(n, sizeof(*head->parameters));
        if (!head->parameters)
                return err_no_memory(e);
        for (char *next = query; next;) {
                char *name = next, *value;

                next = strchr(name, '&');
                if (next)
                        *next++ = '\0';
                value = strchr(name, '=');
                if (value)
                        *value++ = '\0';
                else
                        value = name + strlen(name);
                if (!decode(name, true) || !decode(value, true))
                        return bad(400, e, "the query is not percent-encoded text");
                if (*name)
                        head->parameters[head->n_parameters++] = (struct http_field){name, value};
        }
        return 0;
}

/* "http://host/path" to "/path", the host to *ret_authority. */
static char *take_authority(char *target, char **ret_authority) {
        char *authority, *path;

        if (strncasecmp(target, "http://", 7) != 0)
                return NULL;
        authority = target + 7;
        path = authority + strcspn(authority, "/?");
        /* The authority moves to the front, so that it can end with a NUL. */
        memmove(target, authority, (size_t)(path - authority));
        target[path - authority] = '\0';
        *ret_authority = target;
        if (*path == '/')
                return path;
        *--path = '/'; /* there is room: "http://" was in front */
        return path;
}

static int parse_target(struct http_head *head, char *target, char **ret_authority,
        unsigned *ret_status, struct err *e) {
        char *query;

        for (const char *p = target; *p; p++)
                if (*p <= ' ' || *p == '#' || (unsigned char)*p > 0x7e)
                        return bad(400, e, "the target has characters that no target may have");
        if (strcmp(target, "*") == 0 && head->method == HTTP_OPTIONS)
                *target = '/';
        else if (*target != '/')
                target = take_authority(target, ret_authority);
        if (!target)
                return bad(400, e, "the target is not a path");
        query = strchr(target, '?');
        if (query)
                *query++ = '\0';
        if (!decode(target, false))
                return bad(400, e, "the path is not percent-encoded text");
        if (has_dots(target))
                return bad(400, e, "the path has a segment '.' or '..'");
        head->path = target;
        return query ? parse_query(head, query, ret_status, e) : 0;
}

static int parse_version(
        struct http_head *head, const char *version, unsigned *ret_status, struct err *e) {
        if (strlen(version) != 8 || strncmp(version, "HTTP/", 5) != 0 || version[6] != '.' ||
                version[5] < '0' || version[5] > '9' || version[7] < '0' || version[7] > '9')
                return bad(400, e, "the first line does not end with a version of HTTP");
        if (version[5] != '1')
                return bad(505, e, "only HTTP/1.0 and HTTP/1.1 are spoken here");
        head->is_http_1_0 = version[7] == '0';
        return 0;
}

static int parse_request_line(struct http_head *head, char *line, char **ret_authority,
        unsigned *ret_status, struct err *e) {
        char *target = strchr(line, ' '), *version;
        int r;

        if (target)
                *target++ = '\0';
        version = target ? strchr(target, ' ') : NULL;
        if (!version)
                return bad(400, e, "the first line is not METHOD TARGET VERSION");
        *version++ = '\0';
        if (!is_token(line) || strlen(line) > MAX_METHOD)
                return bad(400, e, "the method is not a word");
        head->method = method_of(line);
        r = parse_version(head, version, ret_status, e);
        return r < 0 ? r : parse_target(head, target, ret_authority, ret_status, e);
}

/* ---- the fields ---- */

static char *trim(char *value) {
        size_t n;

        value += strspn(value, " \t");
        n = strlen(value);
        while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'))
                n--;
        value[n] = '\0';
        return value;
}

const char *http_cut_field(struct http_field *ret, char *line) {
        char *colon = strchr(line, ':');

        if (*line == ' ' || *line == '\t')
                return "a field is continued on another line";
        if (!colon)
                return "a field without a colon";
        *colon = '\0';
        if (!is_token(line)) /* blanks before the colon, too */
                return "the name of a field is not a word";
        for (char *p = line; *p; p++)
                if (*p >= 'A' && *p <= 'Z')
                        *p = (char)(*p - 'A' + 'a');
        *ret = (struct http_field){line, trim(colon + 1)};
        return NULL;
}

static bool is_single(const char *name) {
        static const char *const names[] = {"host", "content-length", "transfer-encoding",
                "content-type", "content-encoding", "authorization", "x-api-key", "origin",
                "sec-fetch-site", "expect"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(names[i], name) == 0)
                        return true;
        return false;
}

/* Join the fields of the name of fields[i] that follow it. *at: where joined values are written. */
static void join_one(struct http_head *head, size_t i, char **at) {
        struct http_field *first = &head->fields[i];
        size_t n = i + 1;
        char *begin = *at;

        *at += sprintf(*at, "%s", first->value);
        for (size_t j = i + 1; j < head->n_fields; j++) {
                if (strcmp(head->fields[j].name, first->name) == 0)
                        *at += sprintf(*at, ", %s", head->fields[j].value);
                else
                        head->fields[n++] = head->fields[j];
        }
        head->n_fields = n;
        first->value = begin;
        ++*at; /* its NUL */
}

static bool is_repeated(const struct http_head *head, size_t i) {
        for (size_t j = i + 1; j < head->n_fields; j++)
                if (strcmp(head->fields[i].name, head->fields[j].name) == 0)
                        return true;
        return false;
}

static int join_fields(
        struct http_head *head, size_t text_size, unsigned *ret_status, struct err *e) {
        char *at = NULL;

        for (size_t i = 0; i < head->n_fields; i++) {
                if (!is_repeated(head, i))
                        continue;
                if (is_single(head->fields[i].name))
                        return bad(400, e, "the field %.60s is there twice", head->fields[i].name);
                if (!head->joined) {
                        /* The values are in the text once; ", " is no longer than ":" and its CR LF. */
                        at = head->joined = malloc(text_size + 1);
                        if (!at)
                                return err_no_memory(e);
                }
                join_one(head, i, &at);
        }
        return 0;
}

/* ---- what the fields say ---- */

const char *http_head_field(const struct http_head *head, const char *name) {
        for (size_t i = 0; i < head->n_fields; i++)
                if (strcmp(head->fields[i].name, name) == 0)
                        return head->fields[i].value;
        return NULL;
}

const char *http_head_parameter(const struct http_head *head, const char *name) {
        for (size_t i = 0; i < head->n_parameters; i++)
                if (strcmp(head->parameters[i].name, name) == 0)
                        return head->parameters[i].value;
        return NULL;
}

int http_put_encoded(struct buf *out, const char *text, const char *free_ones) {
        int r = 0;

        for (; *text && r == 0; text++) {
                char c = *text;
                bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || strchr(free_ones, c);

                r = plain ? buf_append(out, &c, 1) : buf_printf(out, "%%%02X", (unsigned char)c);
        }
        return r;
}

int http_head_put_target(const struct http_head *head, struct buf *out) {
        int r = http_put_encoded(out, head->path, "-._~/");

        for (size_t i = 0; i < head->n_parameters && r == 0; i++) {
                r = buf_append_str(out, i == 0 ? "?" : "&");
                if (r == 0)
                        r = http_put_encoded(out, head->parameters[i].name, "-._~");
                if (r == 0)
                        r = buf_append_str(out, "=");
                if (r == 0)
                        r = http_put_encoded(out, head->parameters[i].value, "-._~");
        }
        return r;
}

bool http_list_has(const char *value, const char *word) {
        size_t n = strlen(word);

        while (value && *value) {
                size_t size = strcspn(value, ","), blank = strspn(value, " \t");
                size_t end = size;

                while (end > blank && (value[end - 1] == ' ' || value[end - 1] == '\t'))
                        end--;
                if (blank < end && end - blank == n && strncasecmp(value + blank, word, n) == 0)
                        return true;
                value += size;
                value += *value == ',';
        }
        return false;
}

static int check_host(
        const struct http_head *head, const char *authority, unsigned *ret_status, struct err *e) {
        const char *host = http_head_field(head, "host");

        if (!host)
                return head->is_http_1_0 ? 0 : bad(400, e, "there is no field Host");
        for (const char *p = host; *p; p++)
                if (!is_token_char(*p) && !strchr("[]:(),;=", *p))
                        return bad(400, e, "the field Host is no host");
        if (authority && strcasecmp(authority, host) != 0)
                return bad(400, e, "the target's host is not that of the field Host");
        return 0;
}

bool http_read_length(const char *value, uint64_t *ret) {
        size_t n = strlen(value);
        uint64_t length = 0;

        if (n == 0 || n > MAX_LENGTH_DIGITS || strspn(value, "0123456789") != n)
                return false;
        for (; *value; value++)
                length = 10 * length + (uint64_t)(*value - '0');
        *ret = length;
        return true;
}

static int read_framing(struct http_head *head, unsigned *ret_status, struct err *e) {
        const char *length = http_head_field(head, "content-length");
        const char *coding = http_head_field(head, "transfer-encoding");

        if (!coding) {
                if (length && !http_read_length(length, &head->length))
                        return bad(400, e, "Content-Length is not one number");
                return 0;
        }
        if (length)
                return bad(400, e, "both Content-Length and Transfer-Encoding");
        if (head->is_http_1_0)
                return bad(400, e, "Transfer-Encoding in HTTP/1.0");
        if (strcasecmp(coding, "chunked") != 0)
                return bad(501, e, "of all transfer encodings only 'chunked' is known here");
        head->chunked = true;
        return 0;
}

static int read_fields(
        struct http_head *head, const char *authority, unsigned *ret_status, struct err *e) {
        const char *connection = http_head_field(head, "connection");
        const char *expect = http_head_field(head, "expect");
        const char *coding = http_head_field(head, "content-encoding");
        int r;

        r = check_host(head, authority, ret_status, e);
        if (r == 0)
                r = read_framing(head, ret_status, e);
        if (r < 0)
                return r;
        if (coding && *coding && strcasecmp(coding, "identity") != 0)
                return bad(415, e, "compressed bodies are not read here");
        head->keep = !http_list_has(connection, "close") &&
                     (!head->is_http_1_0 || http_list_has(connection, "keep-alive"));
        if (!expect)
                return 0;
        if (strcasecmp(expect, "100-continue") != 0)
                return bad(417, e, "of all expectations only '100-continue' is known here");
        head->expects = !head->is_http_1_0;
        return 0;
}

/* ---- all of it ---- */

char *http_cut_line(char *line) {
        char *end = strchr(line, '\r');

        *end = '\0';
        return end + 2;
}

static int parse_lines(
        struct http_head *head, size_t n_fields, unsigned *ret_status, struct err *e) {
        char *line = head->text, *next = http_cut_line(line), *authority = NULL;
        const char *wrong;
        int r;

        r = parse_request_line(head, line, &authority, ret_status, e);
        if (r < 0)
                return r;
        if (n_fields > HTTP_MAX_FIELDS)
                return bad(431, e, "more than %d fields", HTTP_MAX_FIELDS);
        head->fields = calloc(n_fields + 1, sizeof(*head->fields));
        if (!head->fields)
                return err_no_memory(e);
        while (*next != '\r') {
                line = next;
                next = http_cut_line(line);
                wrong = http_cut_field(&head->fields[head->n_fields], line);
                if (wrong)
                        return bad(400, e, "%s", wrong);
                head->n_fields++;
        }
        r = join_fields(head, (size_t)(next - head->text), ret_status, e);
        return r < 0 ? r : read_fields(head, authority, ret_status, e);
}

int http_head_parse(
        struct http_head *ret, const char *text, size_t size, unsigned *ret_status, struct err *e) {
        size_t n_lines = 0;

        while (size > 0 && *text == '\r') {
                text += 2;
                size -= 2;
        }
        ret->text = text_dup(text, size);
        if (!ret->text)
                return err_no_memory(e);
        for (const char *p = ret->text; *p; p++)
                n_lines += *p == '\n';
        /* The first line and the empty one are no fields. */
        return parse_lines(ret, n_lines - 2, ret_status, e);
}

void http_head_deinit(struct http_head *head) {
        free(head->text);
        free(head->joined);
        free(head->fields);
        free(head->parameters);
        *head = HTTP_HEAD_NULL;
}
