/* SPDX-License-Identifier: MIT */
#pragma once
/* Tables of characters beyond ASCII, in ascending order. Private to unicode.c. */
#include <stddef.h>
#include <stdint.h>

struct unicode_range {
        uint32_t first, last;
};
/* Every @step-th character from first to last becomes the one @difference behind it. */
struct unicode_map {
        uint32_t first, last, step;
        int32_t difference;
};
/* A character that becomes several; 0 behind the last. */
struct unicode_special {
        uint32_t from, first, second, third;
};

extern const struct unicode_range unicode_printable[], unicode_alpha[], unicode_digit[],
        unicode_decimal[], unicode_numeric[], unicode_lower_set[], unicode_upper_set[];
extern const size_t unicode_n_printable, unicode_n_alpha, unicode_n_digit, unicode_n_decimal,
        unicode_n_numeric, unicode_n_lower_set, unicode_n_upper_set;
extern const struct unicode_map unicode_upper_map[], unicode_lower_map[], unicode_title_map[];
extern const size_t unicode_n_upper_map, unicode_n_lower_map, unicode_n_title_map;
extern const struct unicode_special unicode_upper_special[], unicode_lower_special[],
        unicode_title_special[];
extern const size_t unicode_n_upper_special, unicode_n_lower_special, unicode_n_title_special;
