/* SPDX-License-Identifier: MIT */
#pragma once
/* Numbers from and to text, as Python has them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Digits of @base (2 to 36) with an optional sign, nothing else. False: not that, or beyond int64. */
bool parse_int(const char *text, size_t n, int base, int64_t *ret);
/* Text that is known to be a decimal number, shorter than NUMBER_SIZE. */
double parse_double(const char *text, size_t n);
/* Whether the text is a decimal floating-point number (also inf and nan), without blanks. */
bool looks_like_double(const char *text, size_t n);

#define NUMBER_SIZE 400
/* Python's repr(): the shortest digits that read back as the same number. Returns the length. */
size_t format_double(double v, char out[NUMBER_SIZE]);
size_t format_int(int64_t v, char out[NUMBER_SIZE]);
