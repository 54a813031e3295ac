/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"
#include <string.h>

/* What the first byte says: the length, and the range of the second byte. The narrower ranges are
 * what excludes overlong forms (E0, F0), surrogates (ED) and code points past U+10FFFF (F4). */
struct lead {
        int length;
        uint8_t low, high;
};

static struct lead lead_of(uint8_t b) {
        struct lead l = {.length = 0, .low = 0x80, .high = 0xBF};

        if (b < 0x80)
                l.length = 1;
        else if (b >= 0xC2 && b <= 0xDF)
                l.length = 2;
        else if (b >= 0xE0 && b <= 0xEF)
                l.length = 3;
        else if (b >= 0xF0 && b <= 0xF4)
                l.length = 4;
        if (b == 0xE0)
                l.low = 0xA0;
        else if (b == 0xED)
                l.high = 0x9F;
        else if (b == 0xF0)
                l.low = 0x90;
        else if (b == 0xF4)
                l.high = 0x8F;
        return l;
}

int utf8_decode(const uint8_t *s, size_t n, uint32_t *ret_cp) {
        struct lead l = lead_of(s[0]);
        uint32_t cp;

        if (l.length == 0)
                return 0;
        cp = l.length == 1 ? s[0] : s[0] & (0x7Fu >> l.length);
        for (int i = 1; i < l.length; i++) {
                uint8_t low = i == 1 ? l.low : 0x80, high = i == 1 ? l.high : 0xBF;

                if ((size_t)i >= n)
                        return -1;
                if (s[i] < low || s[i] > high)
                        return 0;
                cp = cp << 6 | (s[i] & 0x3F);
        }
        if (ret_cp)
                *ret_cp = cp;
        return l.length;
}

int utf8_encode(uint32_t cp, uint8_t out[4]) {
        if (cp < 0x80) {
                out[0] = (uint8_t)cp;
                return 1;
        }
        if (cp < 0x800) {
                out[0] = (uint8_t)(0xC0 | cp >> 6);
                out[1] = (uint8_t)(0x80 | (cp & 0x3F));
                return 2;
        }
        if (cp < 0x10000) {
                if (cp >= 0xD800 && cp <= 0xDFFF)
                        return 0;
                out[0] = (uint8_t)(0xE0 | cp >> 12);
                out[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
                out[2] = (uint8_t)(0x80 | (cp & 0x3F));
                return 3;
        }
        if (cp > 0x10FFFF)
                return 0;
        out[0] = (uint8_t)(0xF0 | cp >> 18);
        out[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3F));
        out[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
        out[3] = (uint8_t)(0x80 | (cp & 0x3F));
        return 4;
}

/* Bytes of ASCII that @p begins with, in whole words. */
static size_t ascii_words(const uint8_t *p, size_t n) {
        size_t at = 0;

        for (uint64_t word; n - at >= sizeof(word); at += sizeof(word)) {
                memcpy(&word, p + at, sizeof(word));
                if (word & 0x8080808080808080)
                        break;
        }
        return at;
}

bool utf8_valid(const void *s, size_t n) {
        const uint8_t *p = s;
        size_t at = 0;

        while (at < n) {
                int k;

                at += ascii_words(p + at, n - at);
                if (at == n)
                        break;
                k = utf8_decode(p + at, n - at, NULL);
                if (k <= 0)
                        return false;
                at += (size_t)k;
        }
        return true;
}

size_t utf8_incomplete_tail(const void *s, size_t n) {
        const uint8_t *p = s;

        for (size_t back = 1; back <= 3 && back <= n; back++)
                if (utf8_decode(p + n - back, back, NULL) < 0)
                        return back;
        return 0;
}

bool utf8_is_space(uint32_t cp) {
        return (cp >= 0x09 && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 ||
               cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 ||
               cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

/* Length of the white space that s[0..n) begins with; 0 if it begins with something else. */
static size_t space_at(const uint8_t *s, size_t n) {
        uint32_t cp = 0;
        int k = n > 0 ? utf8_decode(s, n, &cp) : 0;

        return k > 0 && utf8_is_space(cp) ? (size_t)k : 0;
}

void utf8_trim(const char **s, size_t *n) {
        const uint8_t *p = (const uint8_t *)*s;
        size_t size = *n, k;

        while ((k = space_at(p, size)) > 0) {
                p += k;
                size -= k;
        }
        for (bool more = true; more;) {
                more = false;
                for (k = 1; k <= 3 && k <= size && !more; k++)
                        if (space_at(p + size - k, k) == k) {
                                size -= k;
                                more = true;
                        }
        }
        *s = (const char *)p;
        *n = size;
}
