/* SPDX-License-Identifier: MIT */
#include "grammar/json-chars.h"
#include "base/utf8.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t json_spell(uint32_t c, uint8_t dst[8]) {
        static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
        const char *p = c > 0 && c < 128 ? strchr(from, (int)c) : NULL;

        if (p) {
                dst[0] = '\\';
                dst[1] = (uint8_t)to[p - from];
                return 2;
        }
        if (c < 0x20) {
                snprintf((char *)dst, 8, "\\u%04x", c);
                return 6;
        }
        return (size_t)utf8_encode(c, dst);
}

uint32_t json_literal(struct build *b, const uint8_t *text, size_t n) {
        uint8_t bytes[256], one[8];
        uint32_t expr = EMPTY;
        size_t size = 0;

        for (size_t i = 0; i < n && !b->failed;) {
                uint32_t c;
                int k = utf8_decode(text + i, n - i, &c);
                size_t m;

                if (k <= 0)
                        return build_fail(b, ERR_INVALID, "a text of the schema is not UTF-8");
                m = json_spell(c, one);
                if (size + m > sizeof(bytes)) {
                        expr = SEQ(b, expr, build_bytes(b, bytes, size));
                        size = 0;
                }
                memcpy(bytes + size, one, m);
                size += m;
                i += (size_t)k;
        }
        return expr == EMPTY ? build_bytes(b, bytes, size)
                             : SEQ(b, expr, build_bytes(b, bytes, size));
}

static bool has(const struct range *r, size_t n, uint32_t c) {
        for (size_t i = 0; i < n; i++)
                if (r[i].from <= c && c <= r[i].to)
                        return true;
        return false;
}

uint32_t json_chars(struct build *b, struct range *r, size_t n) {
        /* what stands for itself */
        static const struct range plain[] = {
                {0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, LAST_CHAR}};
        struct range *own;
        uint32_t kids[40], n_kids = 0;
        size_t m = 0;

        own = malloc((n * ARRAY_SIZE(plain) + 1) * sizeof(*own));
        if (!own)
                return build_fail(b, ERR_NOMEM, "no memory for a grammar");
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < ARRAY_SIZE(plain); k++)
                        own[m++] = (struct range){MAX(r[i].from, plain[k].from),
                                MIN(r[i].to, plain[k].to)}; /* from > to: none */
        kids[n_kids++] = build_chars(b, own, m);
        free(own);
        for (uint32_t c = 1; c < 0x80; c++) {
                uint8_t bytes[8];

                if ((c < 0x20 || c == '"' || c == '\\') && has(r, n, c))
                        kids[n_kids++] = build_bytes(b, bytes, json_spell(c, bytes));
        }
        if (kids[0] == NEVER)
                return build_alt(b, kids + 1, n_kids - 1);
        return build_alt(b, kids, n_kids);
}

static uint32_t chars(struct build *b, const char *list) {
        struct range r[24];
        size_t n = 0;

        for (; *list; list += 2)
                r[n++] = (struct range){(uint8_t)list[0], (uint8_t)list[1]};
        return build_chars(b, r, n);
}

uint32_t json_any_char(struct build *b) {
        struct range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, LAST_CHAR}};
        uint32_t hex = chars(b, "09afAF");
        uint32_t hex2 = SEQ(b, hex, hex), hex3 = SEQ(b, hex, hex, hex);
        uint32_t low_d = chars(b, "ddDD");
        /* a unit that is no surrogate, or a pair of them */
        uint32_t unit =
                ALT(b, SEQ(b, chars(b, "09acefACEF"), hex3), SEQ(b, low_d, chars(b, "07"), hex2));
        uint32_t pair = SEQ(b, low_d, chars(b, "89abAB"), hex2, build_text(b, "\\u"), low_d,
                chars(b, "cfCF"), hex2);
        uint32_t escape = ALT(b, chars(b, "\"\"\\\\//bbffnnrrtt"),
                SEQ(b, build_text(b, "u"), ALT(b, unit, pair)));

        return ALT(
                b, build_chars(b, plain, ARRAY_SIZE(plain)), SEQ(b, build_text(b, "\\"), escape));
}
