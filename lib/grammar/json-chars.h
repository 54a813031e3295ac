/* SPDX-License-Identifier: MIT */
#pragma once
/* JSON strings as expressions. */
#include "grammar/build.h"

#define LAST_CHAR 0x10FFFFu

/* One character of a string, of those in @r (sorted in place), in its canonical spelling:
 * itself, or a short escape, or \u00xx. */
uint32_t json_chars(struct build *b, struct range *r, size_t n);
/* One character of a string, any, in any spelling that JSON has. */
uint32_t json_any_char(struct build *b);
/* The text of a string in its canonical spelling, without quotes. */
uint32_t json_literal(struct build *b, const uint8_t *text, size_t n);
/* The same for one character: its bytes; returns how many. */
size_t json_spell(uint32_t c, uint8_t dst[8]);
