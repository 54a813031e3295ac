/* SPDX-License-Identifier: MIT */
/*
 * The text of a template is data with tags in it: {{ ... }}, {% ... %}, {# ... #}. The lexer gives
 * white space the meaning that Jinja does:
 *
 * 1. A tag that begins with "-" takes all white space before it off the data, one that ends with
 *    "-" all behind it.
 * 2. trim_blocks: the newline right behind a block or comment goes, unless its tag ends with "+".
 * 3. lstrip_blocks: blanks between the beginning of a line and a block or comment go, unless its
 *    tag begins with "+".
 * 4. What stands between {% raw %} and {% endraw %} is data.
 */
#include "jinja/lexer.h"
#include "base/err.h"
#include "base/utf8.h"
#include "base/util.h"
#include "jinja/jinja.h"
#include "jinja/number.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void lexer_init(struct lexer *l, struct jinja *t, unsigned flags, struct err *e) {
        *l = (struct lexer){.t = t, .e = e, .flags = flags, .line_start = true};
}

void lexer_fail(struct lexer *l, int code, uint32_t offset, const char *fmt, ...) {
        unsigned line, column;
        char words[200];
        va_list ap;

        if (l->error < 0 || l->t->arena.error < 0)
                return;
        va_start(ap, fmt);
        vsnprintf(words, sizeof(words), fmt, ap);
        va_end(ap);
        jinja_place(l->t, offset, &line, &column);
        l->error =
                err_set(l->e, (enum err_code)code, "line %u, column %u: %s", line, column, words);
}

const char *token_words(const struct token *k, char buffer[64]) {
        static const char *const names[] = {[K_END] = "the end of the template",
                [K_DATA] = "text",
                [K_VARIABLE_BEGIN] = "'{{'",
                [K_VARIABLE_END] = "'}}'",
                [K_BLOCK_BEGIN] = "'{%'",
                [K_BLOCK_END] = "'%}'",
                [K_STRING] = "a string",
                [K_INT] = "a number",
                [K_FLOAT] = "a number"};

        if (k->kind == K_NAME)
                snprintf(buffer, 64, "'%.*s'", (int)MIN(k->n, (size_t)40), k->text);
        else if (k->kind == K_OP && k->op > 255)
                snprintf(buffer, 64, "'%c%c'", (int)(k->op >> 8), (int)(k->op & 255));
        else if (k->kind == K_OP)
                snprintf(buffer, 64, "'%c'", (int)k->op);
        else
                snprintf(buffer, 64, "%s", names[k->kind]);
        return buffer;
}

/* Bytes of white space at @at, 0 if there is none. */
static size_t space_at(const struct lexer *l, size_t at) {
        size_t k;
        uint32_t c;

        if (at >= l->t->n)
                return 0;
        c = char_at(l->t->text, l->t->n, at, &k);
        return utf8_is_space(c) ? k : 0;
}

static size_t skip_space(const struct lexer *l, size_t at) {
        size_t k;

        while ((k = space_at(l, at)) > 0)
                at += k;
        return at;
}

static bool looking_at(const struct lexer *l, size_t at, const char *what) {
        size_t n = strlen(what);

        return l->t->n - at >= n && memcmp(l->t->text + at, what, n) == 0;
}

/* If a tag with the one word @word is at @at ("{%- raw -%}"), the offset behind its word, else 0. */
static size_t word_tag(const struct lexer *l, size_t at, const char *word) {
        if (!looking_at(l, at, "{%"))
                return 0;
        at += 2;
        if (at < l->t->n && (l->t->text[at] == '-' || l->t->text[at] == '+'))
                at++;
        at = skip_space(l, at);
        if (!looking_at(l, at, word))
                return 0;
        at = skip_space(l, at + strlen(word));
        if (looking_at(l, at, "-%}") || looking_at(l, at, "%}") ||
                (word[0] == 'e' && looking_at(l, at, "+%}")))
                return at;
        return 0;
}

/* Go behind the end of a tag, which is at l->at, without its sign: "%}" or the like. */
static void end_tag(struct lexer *l, bool variable, bool newline_goes) {
        char sign = l->t->text[l->at];

        if (sign == '-' || sign == '+')
                l->at++;
        l->at += 2;
        l->line_start = false;
        l->strip = sign == '-';
        if (sign == '-') {
                size_t at = skip_space(l, l->at);

                l->line_start = at > l->at && l->t->text[at - 1] == '\n';
                l->at = at;
        } else if (!variable && sign != '+' && newline_goes && !(l->flags & JINJA_KEEP_SPACE) &&
                   looking_at(l, l->at, "\n")) {
                l->at++;
                l->line_start = true;
        }
}

/* White space that goes from the end of data [from, to), because of the tag at @to. */
static size_t strip_end(const struct lexer *l, size_t from, size_t to, bool variable) {
        const char *text = l->t->text;
        char sign = to + 2 < l->t->n ? text[to + 2] : 0;
        size_t at = to, line;

        if (sign == '-') {
                const char *s = text + from;
                size_t n = to - from;
                const char *begin = s;

                utf8_trim(&s, &n);
                return n == 0 ? from : from + (size_t)(s - begin) + n;
        }
        if (sign == '+' || variable || (l->flags & JINJA_KEEP_SPACE))
                return to;
        while (at > from && text[at - 1] != '\n')
                at--;
        line = at;
        if ((at > from || l->line_start) && skip_space(l, line) >= to && line < to)
                return line;
        return to;
}

/* Data from l->at up to the next tag, which is not consumed. */
static bool read_data(struct lexer *l) {
        const struct jinja *t = l->t;
        size_t from = l->at, to = from, end;

        for (;; to++) {
                const char *p = t->n - to >= 2 ? memchr(t->text + to, '{', t->n - to - 1) : NULL;

                to = p ? (size_t)(p - t->text) : t->n;
                if (!p || (l->raw ? word_tag(l, to, "endraw") > 0
                                  : p[1] == '{' || p[1] == '%' || p[1] == '#'))
                        break;
        }
        if (l->raw && to == t->n) {
                lexer_fail(l, ERR_FORMAT, (uint32_t)from, "'endraw' is missing");
                return false;
        }
        end = to < t->n ? strip_end(l, from, to, t->text[to + 1] == '{') : to;
        l->at = to;
        l->token = (struct token){
                .kind = K_DATA, .offset = (uint32_t)from, .text = t->text + from, .n = end - from};
        return end > from;
}

static void skip_comment(struct lexer *l) {
        size_t from = l->at;
        const char *end = memmem(l->t->text + from + 2, l->t->n - from - 2, "#}", 2);

        if (!end) {
                lexer_fail(l, ERR_FORMAT, (uint32_t)from, "the comment has no end ('#}')");
                return;
        }
        l->at = (size_t)(end - l->t->text);
        if (l->at > from + 2 && (end[-1] == '-' || end[-1] == '+'))
                l->at--;
        end_tag(l, false, true);
}

/* The tag at l->at begins; true if there is a token for that. */
static bool begin_tag(struct lexer *l) {
        char kind = l->t->text[l->at + 1];
        size_t end;

        if (kind == '#') {
                skip_comment(l);
                return false;
        }
        end = word_tag(l, l->at, l->raw ? "endraw" : "raw");
        if (end > 0) {
                l->at = end;
                end_tag(l, false, l->raw);
                l->raw = !l->raw;
                return false;
        }
        l->token = (struct token){
                .kind = kind == '{' ? K_VARIABLE_BEGIN : K_BLOCK_BEGIN, .offset = (uint32_t)l->at};
        l->where = kind == '{' ? IN_VARIABLE : IN_BLOCK;
        l->at += 2;
        if (l->at < l->t->n &&
                (l->t->text[l->at] == '-' || (l->t->text[l->at] == '+' && kind == '%')))
                l->at++;
        return true;
}

static bool is_word(const struct lexer *l, size_t at, size_t *ret_length) {
        uint32_t c = at < l->t->n ? char_at(l->t->text, l->t->n, at, ret_length) : ' ';

        return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
               (c >= 0x80 && c < CHAR_BAD && !utf8_is_space(c));
}

static void read_name(struct lexer *l) {
        struct token *k = &l->token;
        size_t from = l->at, length;
        struct entry *known;
        struct string s;

        while (is_word(l, l->at, &length))
                l->at += length;
        k->kind = K_NAME;
        k->text = l->t->text + from;
        k->n = l->at - from;
        s = (struct string){.text = k->text, .n = k->n};
        known = dict_find_string(l->t->names, &s);
        k->name = known ? known->key.s : string_new(&l->t->arena, k->text, k->n, true);
        if (!known)
                dict_set(&l->t->arena, l->t->names, v_string(k->name), NONE);
}

static int digit_of(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 32;
        return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* Digits of @base with single underscores between them, copied to @out without these. */
static void read_digits(struct lexer *l, int base, struct text *out) {
        const struct jinja *t = l->t;

        while (l->at < t->n) {
                char c = t->text[l->at];

                if (c == '_' && l->at + 1 < t->n && digit_of(t->text[l->at + 1]) < base)
                        c = t->text[++l->at];
                if (digit_of(c) >= base)
                        break;
                text_add(out, &c, 1, true);
                l->at++;
        }
}

static bool digit_at(const struct lexer *l, size_t at) {
        return at < l->t->n && l->t->text[at] >= '0' && l->t->text[at] <= '9';
}

/* The part of a number that makes it a float: ".5", "e10", ".5e-1". */
static bool read_fraction(struct lexer *l, struct text *digits) {
        const char *text = l->t->text;
        bool is_float = false;

        if (l->at < l->t->n && text[l->at] == '.' && digit_at(l, l->at + 1)) {
                is_float = true;
                text_add_lit(digits, ".", true);
                l->at++;
                read_digits(l, 10, digits);
        }
        if (l->at < l->t->n && (text[l->at] | 32) == 'e') {
                size_t at = l->at + 1;

                if (at < l->t->n && (text[at] == '-' || text[at] == '+'))
                        at++;
                if (digit_at(l, at)) {
                        is_float = true;
                        text_add(digits, text + l->at, at - l->at, true);
                        l->at = at;
                        read_digits(l, 10, digits);
                }
        }
        return is_float;
}

static void read_number(struct lexer *l) {
        struct text *digits = text_new(&l->t->arena, 32);
        const char *text = l->t->text + l->at;
        size_t from = l->at;
        const struct string *s;
        bool is_float = false;
        int base = 10;

        if (text[0] == '0' && l->t->n - l->at > 2) {
                char c = text[1] | 32;

                base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
                if (base != 10 && digit_of(text[2]) >= base)
                        base = 10;
                if (base != 10)
                        l->at += 2;
        }
        read_digits(l, base, digits);
        if (base == 10)
                is_float = read_fraction(l, digits);
        s = text_finish(digits);
        if (s->n >= NUMBER_SIZE)
                lexer_fail(l, ERR_FORMAT, (uint32_t)from, "the number has more than 400 digits");
        l->token.kind = is_float ? K_FLOAT : K_INT;
        if (is_float)
                l->token.value = v_trusted(v_float(parse_double(s->text, s->n)), true);
        else if (!parse_int(s->text, s->n, base, &l->token.value.i))
                lexer_fail(l, ERR_FORMAT, (uint32_t)from, "the number is too large");
        else
                l->token.value = v_trusted(v_int(l->token.value.i), true);
}

/* @n digits of base 16 at l->at; the character goes to @out. */
static void read_hex(struct lexer *l, size_t n, struct text *out) {
        const struct jinja *t = l->t;
        uint8_t bytes[4];
        uint32_t c = 0;

        for (size_t i = 0; i < n; i++) {
                int d = l->at < t->n ? digit_of(t->text[l->at]) : 99;

                if (d >= 16) {
                        lexer_fail(
                                l, ERR_FORMAT, (uint32_t)l->at, "a hexadecimal digit is missing");
                        return;
                }
                c = c << 4 | (uint32_t)d;
                l->at++;
        }
        if (utf8_encode(c, bytes) == 0)
                lexer_fail(l, ERR_FORMAT, (uint32_t)l->at, "there is no such character");
        else
                text_add_char(out, c, true);
}

/* The escape at l->at, behind its backslash. As in Python, what is no escape stays as it is. */
static void read_escape(struct lexer *l, struct text *out) {
        static const char from[] = "nrtabfv\\'\"", to[] = "\n\r\t\a\b\f\v\\'\"";
        char c = l->t->text[l->at];
        const char *known = c ? strchr(from, c) : NULL;

        if (c >= '0' && c <= '7') {
                uint32_t v = 0;

                for (int i = 0; i < 3 && digit_at(l, l->at) && l->t->text[l->at] < '8'; i++)
                        v = v << 3 | (uint32_t)digit_of(l->t->text[l->at++]);
                text_add_char(out, v, true);
                return;
        }
        if (c != '\n' && !known && c != 'x' && c != 'u' && c != 'U') {
                text_add_lit(out, "\\", true);
                return;
        }
        l->at++;
        if (known)
                text_add(out, to + (known - from), 1, true);
        else if (c != '\n')
                read_hex(l, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
}

static void read_string(struct lexer *l) {
        struct text *out = text_new(&l->t->arena, 0);
        const struct jinja *t = l->t;
        size_t from = l->at;
        char quote = t->text[l->at++];

        for (size_t start = l->at;; l->at++) {
                if (l->at >= t->n) {
                        lexer_fail(l, ERR_FORMAT, (uint32_t)from, "the string has no end");
                        return;
                }
                if (t->text[l->at] != quote && t->text[l->at] != '\\')
                        continue;
                text_add(out, t->text + start, l->at - start, true);
                if (t->text[l->at] == quote)
                        break;
                if (++l->at >= t->n)
                        continue;
                read_escape(l, out);
                start = l->at--;
        }
        l->at++;
        l->token.kind = K_STRING;
        l->token.value = v_string(text_finish(out));
}

static char closing(char c) {
        return c == '(' ? ')' : c == '[' ? ']' : '}';
}

static void read_operator(struct lexer *l) {
        static const char pairs[] = "//**==!=>=<=";
        const struct jinja *t = l->t;
        char c = t->text[l->at], next = l->at + 1 < t->n ? t->text[l->at + 1] : 0;

        l->token.kind = K_OP;
        l->token.op = (unsigned char)c;
        for (size_t i = 0; pairs[i]; i += 2)
                if (c == pairs[i] && next == pairs[i + 1])
                        l->token.op = OP2(c, next);
        if (c == 0 || (l->token.op < 256 && !strchr("+-/*%~[](){}><=.:|,;", c))) {
                lexer_fail(l, ERR_FORMAT, l->token.offset, "a character that means nothing here");
                return;
        }
        l->at += l->token.op > 255 ? 2 : 1;
        if (c == '(' || c == '[' || c == '{') {
                if (l->n_open == sizeof(l->open))
                        lexer_fail(l, ERR_TOO_LARGE, l->token.offset, "too many open brackets");
                else
                        l->open[l->n_open++] = c;
        } else if (c == ')' || c == ']' || c == '}') {
                if (l->n_open == 0 || closing(l->open[l->n_open - 1]) != c)
                        lexer_fail(l, ERR_FORMAT, l->token.offset, "'%c' without its opening", c);
                else
                        l->n_open--;
        }
}

/* If the tag that the lexer is in ends at l->at, go behind it. */
static bool read_end(struct lexer *l) {
        bool variable = l->where == IN_VARIABLE;
        size_t at = l->at;

        if (l->n_open > 0)
                return false;
        if (l->t->text[at] == '-' || (l->t->text[at] == '+' && !variable))
                at++;
        if (!looking_at(l, at, variable ? "}}" : "%}"))
                return false;
        l->token.kind = variable ? K_VARIABLE_END : K_BLOCK_END;
        end_tag(l, variable, true);
        l->where = IN_DATA;
        return true;
}

static void next_in_tag(struct lexer *l) {
        const struct jinja *t = l->t;
        size_t length;

        l->at = skip_space(l, l->at);
        l->token = (struct token){.kind = K_END, .offset = (uint32_t)MIN(l->at, t->n)};
        if (l->at >= t->n) {
                lexer_fail(l, ERR_FORMAT, l->token.offset, "the template ends inside of a tag");
                return;
        }
        if (read_end(l))
                return;
        if (digit_at(l, l->at))
                read_number(l);
        else if (t->text[l->at] == '"' || t->text[l->at] == '\'')
                read_string(l);
        else if (is_word(l, l->at, &length))
                read_name(l);
        else
                read_operator(l);
}

void lexer_next(struct lexer *l) {
        bool found = false;

        l->n_open = l->where == IN_DATA ? 0 : l->n_open;
        while (!found && l->error == 0 && l->t->arena.error == 0) {
                if (l->where != IN_DATA) {
                        next_in_tag(l);
                        break;
                }
                if (l->at >= l->t->n && !l->raw) {
                        l->token = (struct token){.kind = K_END, .offset = (uint32_t)l->t->n};
                        return;
                }
                found = read_data(l);
                if (!found && l->error == 0 && l->at < l->t->n)
                        found = begin_tag(l);
        }
        if (l->error < 0 || l->t->arena.error < 0)
                l->token = (struct token){.kind = K_END, .offset = (uint32_t)l->at};
}
