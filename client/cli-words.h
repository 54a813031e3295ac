/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the confab command: whether a turn has some words. One thread; the locale must be set. */
#include "client/confab.h"

struct cli_words;

/* Whether there is any word (letters or digits) in @s. */
bool words_valid(const char *s);
/* The words of @s, or NULL without memory. */
struct cli_words *words_new(const char *s);
/* Returns NULL; @w may be NULL. */
struct cli_words *words_free(struct cli_words *w);
/* Whether @turn has them all: each begins a word of its text, without case. */
bool words_fit(const struct cli_words *w, const struct confab_turn *turn);
