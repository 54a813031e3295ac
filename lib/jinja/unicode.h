/* SPDX-License-Identifier: MIT */
#pragma once
/* Properties of characters, as Python's str has them (Unicode 14). */
#include <stdbool.h>
#include <stdint.h>

bool unicode_is_printable(uint32_t c);
bool unicode_is_alpha(uint32_t c);
bool unicode_is_digit(uint32_t c); /* str.isdigit() */
bool unicode_is_decimal(uint32_t c);
bool unicode_is_numeric(uint32_t c);
bool unicode_is_lower(uint32_t c);
bool unicode_is_upper(uint32_t c);
/* The characters that @c becomes: 1 to 3 of them. */
unsigned unicode_upper(uint32_t c, uint32_t out[3]);
unsigned unicode_lower(uint32_t c, uint32_t out[3]);
unsigned unicode_title(uint32_t c, uint32_t out[3]);
