/* SPDX-License-Identifier: MIT */
#include "jinja/unicode.h"
#include "jinja/unicode-table.h"
#include <stddef.h>

static bool in_ranges(const struct unicode_range *table, size_t n, uint32_t c) {
        size_t low = 0;

        while (low < n) {
                size_t middle = low + (n - low) / 2;

                if (table[middle].last < c)
                        low = middle + 1;
                else if (table[middle].first > c)
                        n = middle;
                else
                        return true;
        }
        return false;
}

/* Rows of maps may interleave (every second character), so several may span @c. */
static uint32_t map_char(const struct unicode_map *table, size_t n, uint32_t c) {
        size_t low = 0, high = n;

        while (low < high) { /* the first row that begins behind c */
                size_t middle = low + (high - low) / 2;

                if (table[middle].first <= c)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (size_t i = low, seen = 0; i > 0 && seen < 4; i--, seen++) {
                const struct unicode_map *m = &table[i - 1];

                if (c <= m->last && (c - m->first) % m->step == 0)
                        return (uint32_t)((int32_t)c + m->difference);
        }
        return c;
}

static unsigned convert(const struct unicode_map *map, size_t n_map,
        const struct unicode_special *special, size_t n_special, uint32_t c, uint32_t out[3]) {
        for (size_t i = 0; i < n_special && special[i].from <= c; i++)
                if (special[i].from == c) {
                        out[0] = special[i].first;
                        out[1] = special[i].second;
                        out[2] = special[i].third;
                        return out[2] ? 3 : 2;
                }
        out[0] = map_char(map, n_map, c);
        return 1;
}

static bool between(uint32_t c, char first, char last) {
        return c >= (uint32_t)first && c <= (uint32_t)last;
}

bool unicode_is_printable(uint32_t c) {
        return c < 0x80 ? c >= 0x20 && c < 0x7F
                        : in_ranges(unicode_printable, unicode_n_printable, c);
}

bool unicode_is_alpha(uint32_t c) {
        return c < 0x80 ? between(c | 32, 'a', 'z') : in_ranges(unicode_alpha, unicode_n_alpha, c);
}

bool unicode_is_digit(uint32_t c) {
        return c < 0x80 ? between(c, '0', '9') : in_ranges(unicode_digit, unicode_n_digit, c);
}

bool unicode_is_decimal(uint32_t c) {
        return c < 0x80 ? between(c, '0', '9') : in_ranges(unicode_decimal, unicode_n_decimal, c);
}

bool unicode_is_numeric(uint32_t c) {
        return c < 0x80 ? between(c, '0', '9') : in_ranges(unicode_numeric, unicode_n_numeric, c);
}

bool unicode_is_lower(uint32_t c) {
        return c < 0x80 ? between(c, 'a', 'z')
                        : in_ranges(unicode_lower_set, unicode_n_lower_set, c);
}

bool unicode_is_upper(uint32_t c) {
        return c < 0x80 ? between(c, 'A', 'Z')
                        : in_ranges(unicode_upper_set, unicode_n_upper_set, c);
}

unsigned unicode_upper(uint32_t c, uint32_t out[3]) {
        if (c >= 0x80)
                return convert(unicode_upper_map, unicode_n_upper_map, unicode_upper_special,
                        unicode_n_upper_special, c, out);
        out[0] = between(c, 'a', 'z') ? c - 32 : c;
        return 1;
}

unsigned unicode_lower(uint32_t c, uint32_t out[3]) {
        if (c >= 0x80)
                return convert(unicode_lower_map, unicode_n_lower_map, unicode_lower_special,
                        unicode_n_lower_special, c, out);
        out[0] = between(c, 'A', 'Z') ? c + 32 : c;
        return 1;
}

unsigned unicode_title(uint32_t c, uint32_t out[3]) {
        if (c >= 0x80)
                return convert(unicode_title_map, unicode_n_title_map, unicode_title_special,
                        unicode_n_title_special, c, out);
        out[0] = between(c, 'a', 'z') ? c - 32 : c;
        return 1;
}
