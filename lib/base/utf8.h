/* SPDX-License-Identifier: MIT */
#pragma once
/* UTF-8 (RFC 3629): no surrogates, no overlong forms, at most U+10FFFF. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed character at @s (1..4), 0 if ill-formed, -1 if the @n bytes are a
 * proper prefix of a well-formed character (more bytes needed). n >= 1. *ret_cp may be NULL. */
int utf8_decode(const uint8_t *s, size_t n, uint32_t *ret_cp);
/* Bytes written (1..4) for a code point; 0 if it is not a scalar value. */
int utf8_encode(uint32_t cp, uint8_t out[4]);
bool utf8_valid(const void *s, size_t n);
/* White space of any script, as Python's str.strip() and with it the templates' trim know it. */
bool utf8_is_space(uint32_t cp);
/* Take white space off both ends of the @n bytes at *s, ill-formed ones are none. */
void utf8_trim(const char **s, size_t *n);
/* Bytes at the end of s[0..n) that are an incomplete character (0..3): what a stream holds back. */
size_t utf8_incomplete_tail(const void *s, size_t n);
