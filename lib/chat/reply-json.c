/* SPDX-License-Identifier: MIT */
/*
 * A reader of JSON (RFC 8259) that is given one byte at a time and keeps no text: depth, kinds of
 * containers, and the place within a token. It tells where values begin and end, and the characters
 * of strings. Half a surrogate pair counts as U+FFFD.
 */
#include <string.h>

#include "base/utf8.h"
#include "chat/reply-internal.h"

enum {
        VALUE,       /* a value must begin */
        FIRST_VALUE, /* or the list ends */
        FIRST_KEY,   /* a key must begin, or the object ends */
        NEXT_KEY,
        COLON,
        BEHIND, /* a value: a comma, or the container ends */
        STRING,
        ESCAPE,
        HEX,
        LITERAL,
        MINUS,
        ZERO,
        DIGITS,
        POINT,
        FRACTION,
        EXPONENT,
        EXPONENT_SIGN,
        EXPONENT_DIGITS,
        DONE,
        FAILED
};

void reply_json_init(struct reply_json *j) {
        *j = (struct reply_json){.state = VALUE};
}

bool reply_json_done(const struct reply_json *j) {
        return j->state == DONE;
}

static bool ends_number(const struct reply_json *j) {
        return j->state == ZERO || j->state == DIGITS || j->state == FRACTION ||
               j->state == EXPONENT_DIGITS;
}

bool reply_json_finish(struct reply_json *j) {
        if (j->depth == 0 && ends_number(j))
                j->state = DONE;
        return j->state == DONE;
}

bool reply_json_in_string(const struct reply_json *j) {
        return j->state == STRING || j->state == ESCAPE || j->state == HEX;
}

bool reply_json_in_number(const struct reply_json *j) {
        return j->state >= MINUS && j->state <= EXPONENT_DIGITS;
}

static unsigned fail(struct reply_json *j, const char *why) {
        j->state = FAILED;
        j->error = why;
        return REPLY_JSON_ERROR;
}

static bool in_object(const struct reply_json *j) {
        return j->depth > 0 && (j->objects >> j->depth & 1);
}

static void value_over(struct reply_json *j) {
        j->state = j->depth > 0 ? BEHIND : DONE;
}

static unsigned begin_container(struct reply_json *j, bool object) {
        if (j->depth == REPLY_JSON_DEPTH)
                return fail(j, "it is nested too deeply");
        j->depth++;
        j->objects &= ~((uint64_t)1 << j->depth);
        j->objects |= (uint64_t)object << j->depth;
        j->state = object ? FIRST_KEY : FIRST_VALUE;
        return REPLY_JSON_BEGINS;
}

static unsigned end_container(struct reply_json *j, uint8_t c) {
        if ((c == '}') != in_object(j))
                return fail(j, "brackets do not match");
        j->depth--;
        value_over(j);
        return REPLY_JSON_ENDS;
}

static unsigned begin_value(struct reply_json *j, uint8_t c) {
        j->key = false;
        switch (c) {
        case '{':
        case '[':
                return begin_container(j, c == '{');
        case '"':
                j->state = STRING;
                return REPLY_JSON_BEGINS;
        case 't':
        case 'f':
        case 'n':
                j->literal = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
                j->state = LITERAL;
                return REPLY_JSON_BEGINS;
        case '-':
        case '0':
                j->state = c == '-' ? MINUS : ZERO;
                return REPLY_JSON_BEGINS;
        default:
                if (c < '1' || c > '9')
                        return fail(j, "a value is expected");
                j->state = DIGITS;
                return REPLY_JSON_BEGINS;
        }
}

static unsigned begin_key(struct reply_json *j, uint8_t c) {
        if (c != '"')
                return fail(j, "a key is expected");
        j->key = true;
        j->state = STRING;
        return REPLY_JSON_KEY;
}

/* --- strings --- */

static void decode(struct reply_json *j, uint32_t cp) {
        j->n_decoded += (uint8_t)utf8_encode(cp, (uint8_t *)j->decoded + j->n_decoded);
}

/* A high surrogate that no low one followed. */
static void leave_pair(struct reply_json *j) {
        if (j->high)
                decode(j, 0xFFFD);
        j->high = 0;
}

static void decode_hex(struct reply_json *j) {
        bool low = j->hex >= 0xDC00 && j->hex <= 0xDFFF;

        if (low && j->high) {
                decode(j, 0x10000 + ((j->high - 0xD800) << 10) + (j->hex - 0xDC00));
                j->high = 0;
                return;
        }
        leave_pair(j);
        if (j->hex >= 0xD800 && j->hex <= 0xDBFF)
                j->high = j->hex;
        else
                decode(j, low ? 0xFFFD : j->hex);
}

static unsigned end_string(struct reply_json *j) {
        leave_pair(j);
        if (!j->key) {
                value_over(j);
                return REPLY_JSON_ENDS;
        }
        j->state = COLON;
        return REPLY_JSON_KEY_ENDS;
}

static unsigned in_string(struct reply_json *j, uint8_t c) {
        if (c == '"')
                return end_string(j) | (j->n_decoded > 0 ? REPLY_JSON_CONTENT : 0);
        if (c == '\\') {
                j->state = ESCAPE;
                return REPLY_JSON_CONTENT;
        }
        leave_pair(j);
        j->decoded[j->n_decoded++] = (char)c;
        return REPLY_JSON_CONTENT;
}

static unsigned in_escape(struct reply_json *j, uint8_t c) {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *at = c ? strchr(from, c) : NULL;

        if (c == 'u') {
                j->state = HEX;
                j->n_hex = 0;
                j->hex = 0;
                return REPLY_JSON_CONTENT;
        }
        if (!at)
                return fail(j, "an escape is unknown");
        leave_pair(j);
        j->decoded[j->n_decoded++] = to[at - from];
        j->state = STRING;
        return REPLY_JSON_CONTENT;
}

static unsigned in_hex(struct reply_json *j, uint8_t c) {
        uint32_t digit;

        if (c >= '0' && c <= '9')
                digit = c - '0';
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
                digit = (c | 32) - 'a' + 10u;
        else
                return fail(j, "an escape is unknown");
        j->hex = j->hex << 4 | digit;
        if (++j->n_hex == 4) {
                decode_hex(j);
                j->state = STRING;
        }
        return REPLY_JSON_CONTENT;
}

/* --- numbers and literals --- */

static bool digit(uint8_t c) {
        return c >= '0' && c <= '9';
}

/* The next place within a number; FAILED if @c does not belong to it. */
static uint8_t next_in_number(uint8_t state, uint8_t c) {
        switch (state) {
        case MINUS:
                return c == '0' ? ZERO : digit(c) ? DIGITS : FAILED;
        case POINT:
                return digit(c) ? FRACTION : FAILED;
        case EXPONENT:
                if (c == '+' || c == '-')
                        return EXPONENT_SIGN;
                return digit(c) ? EXPONENT_DIGITS : FAILED;
        case EXPONENT_SIGN:
        case EXPONENT_DIGITS:
                return digit(c) ? EXPONENT_DIGITS : FAILED;
        case DIGITS:
        case FRACTION:
                if (digit(c))
                        return state;
                break;
        default:
                break;
        }
        if (c == '.' && state != FRACTION)
                return POINT;
        return c == 'e' || c == 'E' ? EXPONENT : FAILED;
}

static unsigned in_literal(struct reply_json *j, uint8_t c) {
        if ((uint8_t)*j->literal != c)
                return fail(j, "a value is expected");
        if (*++j->literal)
                return 0;
        value_over(j);
        return REPLY_JSON_ENDS;
}

static unsigned behind(struct reply_json *j, uint8_t c) {
        if (c == ',') {
                j->state = in_object(j) ? NEXT_KEY : VALUE;
                return 0;
        }
        if (c == '}' || c == ']')
                return end_container(j, c);
        return fail(j, "a comma or a closing bracket is expected");
}

static unsigned between(struct reply_json *j, uint8_t c) {
        if (reply_is_space(c))
                return 0;
        switch (j->state) {
        case FIRST_KEY:
                return c == '}' ? end_container(j, c) : begin_key(j, c);
        case NEXT_KEY:
                return begin_key(j, c);
        case COLON:
                if (c != ':')
                        return fail(j, "a colon is expected");
                j->state = VALUE;
                return 0;
        case FIRST_VALUE:
                return c == ']' ? end_container(j, c) : begin_value(j, c);
        case VALUE:
                return begin_value(j, c);
        case BEHIND:
                return behind(j, c);
        default:
                return fail(j, "something follows the value");
        }
}

unsigned reply_json_byte(struct reply_json *j, uint8_t c) {
        uint8_t next;

        j->n_decoded = 0;
        switch (j->state) {
        case STRING:
                return in_string(j, c);
        case ESCAPE:
                return in_escape(j, c);
        case HEX:
                return in_hex(j, c);
        case LITERAL:
                return in_literal(j, c);
        case FAILED:
                return REPLY_JSON_ERROR;
        default:
                break;
        }
        if (!reply_json_in_number(j))
                return between(j, c);
        next = next_in_number(j->state, c);
        if (next != FAILED) {
                j->state = next;
                return 0;
        }
        if (!ends_number(j))
                return fail(j, "a number is not finished");
        value_over(j);
        return between(j, c) | REPLY_JSON_ENDED;
}
