/* SPDX-License-Identifier: MIT */
/* JSON (RFC 8259) to values. What is nested deeper than DATA_DEPTH is refused. */
#include "base/err.h"
#include "base/utf8.h"
#include "jinja/data.h"
#include "jinja/number.h"
#include <string.h>

struct reader {
        struct arena *a;
        const char *text;
        size_t n, at;
        unsigned depth;
        const char *problem; /* NULL: none yet */
        size_t problem_at;
};

static struct value read_value(struct reader *j);

static struct value fail(struct reader *j, const char *problem) {
        if (!j->problem) {
                j->problem = problem;
                j->problem_at = j->at;
        }
        return UNDEFINED;
}

static bool failed(const struct reader *j) {
        return j->problem || j->a->error < 0;
}

static char peek(struct reader *j) {
        while (j->at < j->n && (j->text[j->at] == ' ' || j->text[j->at] == '\t' ||
                                       j->text[j->at] == '\n' || j->text[j->at] == '\r'))
                j->at++;
        return j->at < j->n ? j->text[j->at] : 0;
}

static bool skip(struct reader *j, char c) {
        if (peek(j) != c || j->at >= j->n)
                return false;
        j->at++;
        return true;
}

/* Four hexadecimal digits; false if they are none. */
static bool read_hex(struct reader *j, uint32_t *ret) {
        int64_t v;

        if (j->n - j->at < 4 || j->text[j->at] == '-' || j->text[j->at] == '+' ||
                !parse_int(j->text + j->at, 4, 16, &v))
                return false;
        *ret = (uint32_t)v;
        j->at += 4;
        return true;
}

/* Behind "\u". Half of a pair alone becomes U+FFFD. */
static void read_unicode(struct reader *j, struct text *out) {
        uint32_t c, low;

        if (!read_hex(j, &c)) {
                fail(j, "\\u without four hexadecimal digits");
                return;
        }
        if (c >= 0xD800 && c < 0xDC00 && j->n - j->at >= 6 && j->text[j->at] == '\\' &&
                j->text[j->at + 1] == 'u') {
                size_t before = j->at;

                j->at += 2;
                if (read_hex(j, &low) && low >= 0xDC00 && low < 0xE000)
                        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
                else
                        j->at = before;
        }
        text_add_char(out, c >= 0xD800 && c < 0xE000 ? 0xFFFD : c, false);
}

static const struct string *read_string(struct reader *j) {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        struct text *out = text_new(j->a, 0);
        size_t start = ++j->at;

        while (!failed(j)) {
                char c = j->at < j->n ? j->text[j->at] : 0;
                const char *known;

                if (j->at >= j->n || (uint8_t)c < 0x20) {
                        fail(j, j->at >= j->n ? "a string without end"
                                              : "a control character in a string");
                        break;
                }
                if (c != '"' && c != '\\') {
                        j->at++;
                        continue;
                }
                text_add(out, j->text + start, j->at - start, false);
                j->at++;
                if (c == '"')
                        break;
                c = j->at < j->n ? j->text[j->at] : 0;
                known = c ? strchr(from, c) : NULL;
                j->at++;
                if (known)
                        text_add(out, to + (known - from), 1, false);
                else if (c == 'u')
                        read_unicode(j, out);
                else
                        fail(j, "an unknown escape");
                start = j->at;
        }
        /* An empty string has no bytes to be marked, but is data. */
        return out && out->used > 0 ? text_finish(out) : string_new(j->a, "", 0, false);
}

static void skip_digits(struct reader *j) {
        if (j->at >= j->n || j->text[j->at] < '0' || j->text[j->at] > '9')
                fail(j, "a digit is missing");
        while (j->at < j->n && j->text[j->at] >= '0' && j->text[j->at] <= '9')
                j->at++;
}

static struct value read_number(struct reader *j) {
        const char *text = j->text + j->at;
        size_t from = j->at;
        bool is_float = false;
        int64_t i;

        j->at += text[0] == '-';
        if (j->n - j->at >= 2 && j->text[j->at] == '0' && j->text[j->at + 1] >= '0' &&
                j->text[j->at + 1] <= '9')
                return fail(j, "a number that begins with 0");
        skip_digits(j);
        if (j->at < j->n && j->text[j->at] == '.') {
                is_float = true;
                j->at++;
                skip_digits(j);
        }
        if (j->at < j->n && (j->text[j->at] | 32) == 'e') {
                is_float = true;
                j->at++;
                if (j->at < j->n && (j->text[j->at] == '-' || j->text[j->at] == '+'))
                        j->at++;
                skip_digits(j);
        }
        if (j->at - from >= NUMBER_SIZE)
                fail(j, "a number of more than 400 characters");
        if (failed(j))
                return UNDEFINED;
        if (is_float)
                return v_float(parse_double(text, j->at - from));
        if (parse_int(text, j->at - from, 10, &i))
                return v_int(i);
        return (struct value){.type = T_BIG, .s = string_new(j->a, text, j->at - from, false)};
}

static struct value read_object(struct reader *j) {
        struct dict *d = dict_new(j->a);

        j->at++;
        if (skip(j, '}'))
                goto done;
        do {
                const struct string *key;

                if (peek(j) != '"')
                        return fail(j, "a key is missing");
                key = read_string(j);
                if (!skip(j, ':'))
                        return fail(j, "':' is missing");
                dict_set(j->a, d, v_string(key), read_value(j));
        } while (!failed(j) && skip(j, ','));
        if (!failed(j) && !skip(j, '}'))
                return fail(j, "'}' is missing");
done:
        if (!failed(j))
                d->constant = true;
        return v_dict(d);
}

static struct value read_array(struct reader *j) {
        struct list *l = list_new(j->a, 0);

        j->at++;
        if (skip(j, ']'))
                goto done;
        do
                list_add(j->a, l, read_value(j));
        while (!failed(j) && skip(j, ','));
        if (!failed(j) && !skip(j, ']'))
                return fail(j, "']' is missing");
done:
        if (!failed(j))
                l->constant = true;
        return v_list(l);
}

static struct value read_word(struct reader *j, const char *word, struct value v) {
        size_t n = strlen(word);

        if (j->n - j->at < n || memcmp(j->text + j->at, word, n) != 0)
                return fail(j, "no JSON value");
        j->at += n;
        return v;
}

static struct value read_value(struct reader *j) {
        struct value v = UNDEFINED;
        char c = peek(j);

        if (failed(j))
                return v;
        if (++j->depth > DATA_DEPTH)
                fail(j, "nested too deeply");
        else if (c == '{')
                v = read_object(j);
        else if (c == '[')
                v = read_array(j);
        else if (c == '"')
                v = v_string(read_string(j));
        else if (c == '-' || (c >= '0' && c <= '9'))
                v = read_number(j);
        else if (c == 't')
                v = read_word(j, "true", v_bool(true));
        else if (c == 'f')
                v = read_word(j, "false", v_bool(false));
        else
                v = read_word(j, "null", v_trusted(NONE, false));
        j->depth--;
        return v;
}

int data_parse_json(struct arena *a, const char *text, size_t n, struct value *ret, struct err *e) {
        struct reader j = {.a = a, .text = text, .n = n};
        struct value v = read_value(&j);

        peek(&j);
        if (!failed(&j) && j.at < n)
                fail(&j, "text behind the value");
        if (j.problem)
                return err_set(e, ERR_FORMAT, "byte %zu: %s", j.problem_at, j.problem);
        if (a->error < 0)
                return a->error;
        *ret = v;
        return 0;
}
