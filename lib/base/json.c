/* SPDX-License-Identifier: MIT */
#include "base/json.h"
#include "base/err.h"
#include "base/utf8.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_DEPTH_MAX 63

static void stick(struct json *j, int r) {
        if (r < 0 && j->error == 0)
                j->error = r;
}

static void put(struct json *j, const void *s, size_t n) {
        if (j->error == 0)
                stick(j, buf_append(j->out, s, n));
}

static void put_str(struct json *j, const char *s) {
        put(j, s, strlen(s));
}

/* Write the separator between this value and the one before. */
static void separate(struct json *j) {
        uint64_t bit = (uint64_t)1 << j->depth;

        if (j->after_key) {
                j->after_key = false;
                return;
        }
        if (j->has_item & bit) {
                if (j->depth == 0)
                        stick(j, -ERR_STATE); /* one document, one value */
                put_str(j, ",");
        }
        j->has_item |= bit;
}

static void begin(struct json *j, const char *bracket) {
        separate(j);
        put_str(j, bracket);
        if (j->depth >= JSON_DEPTH_MAX) {
                stick(j, -ERR_LIMIT);
                return;
        }
        j->depth++;
        j->has_item &= ~((uint64_t)1 << j->depth);
}

static void end(struct json *j, const char *bracket) {
        if (j->depth == 0 || j->after_key) {
                stick(j, -ERR_STATE);
                return;
        }
        j->depth--;
        put_str(j, bracket);
}

void json_init(struct json *j, struct buf *out) {
        *j = (struct json){.out = out};
}

void json_object_begin(struct json *j) {
        begin(j, "{");
}

void json_object_end(struct json *j) {
        end(j, "}");
}

void json_array_begin(struct json *j) {
        begin(j, "[");
}

void json_array_end(struct json *j) {
        end(j, "]");
}

static void put_escaped(struct json *j, uint8_t c) {
        static const char short_forms[][2] = {{'"', '"'}, {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'},
                {'\t', 't'}, {'\b', 'b'}, {'\f', 'f'}};
        char text[8];

        for (size_t i = 0; i < sizeof(short_forms) / sizeof(short_forms[0]); i++)
                if ((uint8_t)short_forms[i][0] == c) {
                        text[0] = '\\';
                        text[1] = short_forms[i][1];
                        put(j, text, 2);
                        return;
                }
        snprintf(text, sizeof(text), "\\u%04x", c);
        put_str(j, text);
}

static void put_quoted(struct json *j, const uint8_t *s, size_t n) {
        size_t plain = 0; /* bytes before s[plain..] are written */

        put_str(j, "\"");
        for (size_t i = 0; i < n;) {
                int k = utf8_decode(s + i, n - i, NULL);

                if (k > 1 || (k == 1 && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\')) {
                        i += (size_t)k;
                        continue;
                }
                put(j, s + plain, i - plain);
                if (k == 1)
                        put_escaped(j, s[i]);
                else
                        put_str(j, "\xEF\xBF\xBD");
                plain = ++i;
        }
        if (n > plain) /* an empty string may have no place */
                put(j, s + plain, n - plain);
        put_str(j, "\"");
}

void json_put_key_n(struct json *j, const void *key, size_t n) {
        if (j->after_key || j->depth == 0)
                stick(j, -ERR_STATE);
        separate(j);
        put_quoted(j, key, n);
        put_str(j, ":");
        j->after_key = true;
}

void json_put_key(struct json *j, const char *key) {
        json_put_key_n(j, key, strlen(key));
}

void json_put_string_n(struct json *j, const void *s, size_t n) {
        separate(j);
        put_quoted(j, s, n);
}

void json_put_string(struct json *j, const char *s) {
        if (s)
                json_put_string_n(j, s, strlen(s));
        else
                json_put_null(j);
}

void json_put_u64(struct json *j, uint64_t v) {
        separate(j);
        if (j->error == 0)
                stick(j, buf_printf(j->out, "%llu", (unsigned long long)v));
}

void json_put_i64(struct json *j, int64_t v) {
        separate(j);
        if (j->error == 0)
                stick(j, buf_printf(j->out, "%lld", (long long)v));
}

void json_put_bool(struct json *j, bool v) {
        separate(j);
        put_str(j, v ? "true" : "false");
}

void json_put_null(struct json *j) {
        separate(j);
        put_str(j, "null");
}

void json_put_raw(struct json *j, const char *text, size_t n) {
        size_t plain = 0;

        separate(j);
        for (size_t i = 0; i < n; i++)
                if (text[i] == '\n' || text[i] == '\r') {
                        put(j, text + plain, i - plain);
                        put_str(j, " ");
                        plain = i + 1;
                }
        if (plain < n) /* @text may be NULL, without any */
                put(j, text + plain, n - plain);
}

/* Shortest digits of @v in scientific form that read back as @v. The locale may use anything as the
 * decimal point: both directions use the same one, and only the digits are copied. */
static void shortest(double v, bool as_float, char digits[24], int *ret_exponent) {
        char text[64];
        size_t n = 0;
        const char *p;

        for (int precision = 0; precision < 17; precision++) {
                snprintf(text, sizeof(text), "%.*e", precision, v);
                if (as_float ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v)
                        break;
        }
        for (p = text; *p && *p != 'e'; p++)
                if (*p >= '0' && *p <= '9' && n < 20)
                        digits[n++] = *p;
        while (n > 1 && digits[n - 1] == '0')
                n--;
        digits[n] = 0;
        *ret_exponent = *p ? atoi(p + 1) : 0;
}

static void put_number(struct json *j, double v, bool as_float) {
        char digits[24], text[64];
        int exponent, n_digits, n = 0;

        shortest(v, as_float, digits, &exponent);
        n_digits = (int)strlen(digits);
        if (signbit(v))
                text[n++] = '-';
        if (exponent < -5 || exponent > 16) {
                snprintf(text + n, sizeof(text) - (size_t)n, "%c%s%se%d", digits[0],
                        n_digits > 1 ? "." : "", digits + 1, exponent);
        } else if (exponent < 0) {
                snprintf(text + n, sizeof(text) - (size_t)n, "0.%.*s%s", -exponent - 1, "0000",
                        digits);
        } else {
                for (int i = 0; i <= exponent || i < n_digits; i++) {
                        if (i == exponent + 1)
                                text[n++] = '.';
                        text[n++] = i < n_digits ? digits[i] : '0';
                }
                text[n] = 0;
        }
        put_str(j, text);
}

void json_put_double(struct json *j, double v) {
        if (!isfinite(v)) {
                json_put_null(j);
                return;
        }
        separate(j);
        put_number(j, v, false);
}

void json_put_float(struct json *j, float v) {
        if (!isfinite(v)) {
                json_put_null(j);
                return;
        }
        separate(j);
        put_number(j, (double)v, true);
}

void json_put_key_string(struct json *j, const char *key, const char *s) {
        json_put_key(j, key);
        json_put_string(j, s);
}

void json_put_key_u64(struct json *j, const char *key, uint64_t v) {
        json_put_key(j, key);
        json_put_u64(j, v);
}

void json_put_key_bool(struct json *j, const char *key, bool v) {
        json_put_key(j, key);
        json_put_bool(j, v);
}

int json_finish(struct json *j) {
        if (j->depth != 0 || j->after_key || !(j->has_item & 1))
                stick(j, -ERR_STATE);
        return j->error;
}
