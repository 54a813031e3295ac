/* SPDX-License-Identifier: MIT */
#include "base/json-read.h"
#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include <string.h>

void json_reader_init(struct json_reader *r, const char *text, size_t size) {
        *r = (struct json_reader){.text = text, .size = size};
}

void json_reader_deinit(struct json_reader *r) {
        buf_deinit(&r->string);
}

static int wrong_at(const struct json_reader *r, size_t at, struct err *e, const char *what) {
        size_t line = 1, begin = 0;

        for (size_t i = 0; i < at && i < r->size; i++)
                if (r->text[i] == '\n') {
                        line++;
                        begin = i + 1;
                }
        return err_set(e, ERR_INVALID, "line %zu, column %zu: %s", line, at - begin + 1, what);
}

int json_wrong(const struct json_reader *r, struct err *e, const char *what) {
        return wrong_at(r, r->start, e, what);
}

static int here(const struct json_reader *r, struct err *e, const char *what) {
        return wrong_at(r, r->at, e, what);
}

static void skip_space(struct json_reader *r) {
        while (r->at < r->size && r->text[r->at] && strchr(" \t\r\n", r->text[r->at]))
                r->at++;
}

static int peek(const struct json_reader *r) {
        return r->at < r->size ? (unsigned char)r->text[r->at] : -1;
}

static bool in_object(const struct json_reader *r) {
        return r->depth > 0 && (r->objects >> (r->depth - 1) & 1);
}

/* --- strings --- */

static int hex4(struct json_reader *r, uint32_t *ret) {
        uint32_t v = 0;

        if (r->size - r->at < 4)
                return -1;
        for (int i = 0; i < 4; i++) {
                const char *digits = "0123456789abcdef0123456789ABCDEF", *p;
                char ch = r->text[r->at++];

                p = ch ? strchr(digits, ch) : NULL;
                if (!p)
                        return -1;
                v = v << 4 | (uint32_t)((p - digits) & 15);
        }
        *ret = v;
        return 0;
}

/* Behind "\u". */
static int take_unicode(struct json_reader *r, struct err *e) {
        uint8_t bytes[4];
        uint32_t cp, low;
        int n;

        if (hex4(r, &cp) < 0)
                return here(r, e, "\\u takes four hexadecimal digits");
        if (cp >= 0xd800 && cp < 0xdc00 && r->size - r->at >= 2 && r->text[r->at] == '\\' &&
                r->text[r->at + 1] == 'u') {
                r->at += 2;
                if (hex4(r, &low) < 0 || low < 0xdc00 || low >= 0xe000)
                        return here(r, e, "half of a surrogate pair");
                cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        }
        n = utf8_encode(cp, bytes);
        if (n == 0)
                return here(r, e, "half of a surrogate pair");
        return buf_append(&r->string, bytes, (size_t)n);
}

static int take_escape(struct json_reader *r, struct err *e) {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        int ch = peek(r);
        const char *p = ch > 0 ? strchr(from, ch) : NULL;

        if (ch == 'u') {
                r->at++;
                return take_unicode(r, e);
        }
        if (!p)
                return here(r, e, "an unknown escape");
        r->at++;
        return buf_append(&r->string, &to[p - from], 1);
}

/* Each byte of a word that is @byte has its high bit set here, and only if there is one, others may (Mycroft 1987). */
static uint64_t find_byte(uint64_t word, uint8_t byte) {
        const uint64_t ones = 0x0101010101010101;
        uint64_t x = word ^ ones * byte;

        return (x - ones) & ~x;
}

/* Bytes of ASCII that stand for themselves, at the beginning of @s. Long texts are mostly these. */
static size_t plain_bytes(const char *s, size_t n) {
        const uint64_t ones = 0x0101010101010101, high = ones << 7;
        size_t at = 0;

        for (uint64_t word; n - at >= sizeof(word); at += sizeof(word)) {
                memcpy(&word, s + at, sizeof(word));
                /* not ASCII; less than a space; a quote; a backslash */
                if ((word | (word - ones * ' ') | find_byte(word, '"') | find_byte(word, '\\')) &
                        high)
                        break;
        }
        while (at < n && s[at] >= ' ' && s[at] < 0x7f && s[at] != '"' && s[at] != '\\')
                at++;
        return at;
}

/* A character that stands for itself, and what follows of that kind. */
static int take_plain(struct json_reader *r, struct err *e) {
        size_t n = plain_bytes(r->text + r->at, r->size - r->at);
        int k;

        if (n == 0) {
                k = utf8_decode((const uint8_t *)r->text + r->at, r->size - r->at, NULL);
                if (k <= 0)
                        return here(r, e, "bytes that are not UTF-8");
                n = (size_t)k;
        }
        k = buf_append(&r->string, r->text + r->at, n);
        r->at += n;
        return k;
}

/* Behind the quote. */
static int take_string(struct json_reader *r, struct err *e) {
        r->string.size = 0;
        for (;;) {
                int ch = peek(r), k;

                if (ch < 0)
                        return here(r, e, "the string has no end");
                if (ch < 0x20)
                        return here(r, e, "a control character in a string");
                if (ch == '"') {
                        r->at++;
                        return 0;
                }
                if (ch == '\\') {
                        r->at++;
                        k = take_escape(r, e);
                } else {
                        k = take_plain(r, e);
                }
                if (k == -ERR_INVALID)
                        return k;
                if (k < 0)
                        return err_set(e, (enum err_code) - k, "no memory for a string");
        }
}

/* --- numbers and words --- */

static bool take_digits(struct json_reader *r) {
        size_t from = r->at;

        while (peek(r) >= '0' && peek(r) <= '9')
                r->at++;
        return r->at > from;
}

static int take_number(struct json_reader *r, struct err *e) {
        bool zero;

        if (peek(r) == '-')
                r->at++;
        zero = peek(r) == '0';
        if (!take_digits(r) || (zero && r->text[r->at - 1] != '0') ||
                (zero && r->at - r->start > 1u + (r->text[r->start] == '-')))
                return json_wrong(r, e, "this is no number");
        if (peek(r) == '.') {
                r->at++;
                if (!take_digits(r))
                        return json_wrong(r, e, "this is no number");
        }
        if (peek(r) == 'e' || peek(r) == 'E') {
                r->at++;
                if (peek(r) == '+' || peek(r) == '-')
                        r->at++;
                if (!take_digits(r))
                        return json_wrong(r, e, "this is no number");
        }
        return 0;
}

static int take_word(struct json_reader *r, enum json_item *ret, struct err *e) {
        static const struct {
                const char *word;
                enum json_item item;
        } words[] = {
                {"null", JSON_ITEM_NULL}, {"false", JSON_ITEM_FALSE}, {"true", JSON_ITEM_TRUE}};

        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                size_t n = strlen(words[i].word);

                if (r->size - r->at >= n && memcmp(r->text + r->at, words[i].word, n) == 0) {
                        r->at += n;
                        *ret = words[i].item;
                        return 0;
                }
        }
        return here(r, e, r->at < r->size ? "this is no JSON value" : "the text ends early");
}

/* --- items --- */

static int open_level(struct json_reader *r, bool object, struct err *e) {
        if (r->depth == JSON_MAX_DEPTH)
                return json_wrong(r, e, "nested too deep");
        if (object)
                r->objects |= (uint64_t)1 << r->depth;
        else
                r->objects &= ~((uint64_t)1 << r->depth);
        r->depth++;
        r->at++;
        r->has_item = false;
        return 0;
}

static int take_value(struct json_reader *r, enum json_item *ret, struct err *e) {
        int ch = peek(r);

        r->start = r->at;
        r->began = r->has_item = true;
        r->after_key = false;
        if (ch == '{' || ch == '[') {
                *ret = ch == '{' ? JSON_ITEM_OBJECT : JSON_ITEM_ARRAY;
                return open_level(r, ch == '{', e);
        }
        if (ch == '"') {
                r->at++;
                *ret = JSON_ITEM_STRING;
                return take_string(r, e);
        }
        if (ch == '-' || (ch >= '0' && ch <= '9')) {
                *ret = JSON_ITEM_NUMBER;
                return take_number(r, e);
        }
        return take_word(r, ret, e);
}

static int take_key(struct json_reader *r, enum json_item *ret, struct err *e) {
        int k;

        r->start = r->at;
        if (peek(r) != '"')
                return here(r, e, "a key is a string");
        r->at++;
        k = take_string(r, e);
        if (k < 0)
                return k;
        skip_space(r);
        if (peek(r) != ':')
                return here(r, e, "no colon behind a key");
        r->at++;
        r->has_item = r->after_key = true;
        *ret = JSON_ITEM_KEY;
        return 0;
}

int json_next(struct json_reader *r, enum json_item *ret, struct err *e) {
        skip_space(r);
        if (r->depth == 0 && r->began) {
                r->start = r->at;
                *ret = JSON_ITEM_END;
                return r->at < r->size ? here(r, e, "something follows the JSON value") : 0;
        }
        if (r->depth == 0 || r->after_key)
                return take_value(r, ret, e);
        if (peek(r) == (in_object(r) ? '}' : ']')) {
                r->start = r->at++;
                *ret = in_object(r) ? JSON_ITEM_OBJECT_END : JSON_ITEM_ARRAY_END;
                r->depth--;
                r->has_item = true;
                return 0;
        }
        if (r->has_item) {
                if (peek(r) != ',')
                        return here(
                                r, e, r->at < r->size ? "no comma or end" : "the text ends early");
                r->at++;
                skip_space(r);
        }
        return in_object(r) ? take_key(r, ret, e) : take_value(r, ret, e);
}

int json_skip(struct json_reader *r, enum json_item item, struct err *e) {
        unsigned depth = r->depth;
        int k = 0;

        if (item != JSON_ITEM_ARRAY && item != JSON_ITEM_OBJECT)
                return 0;
        while (k == 0 && r->depth >= depth)
                k = json_next(r, &item, e);
        return k;
}
