/* SPDX-License-Identifier: MIT */
#pragma once
/* What both targets do: compile, then follow a text and compare masks with what the bytes say. */
#include "grammar/grammar.h"

/* @data: the grammar, and behind a NUL (if there is one) the text of a reply. */
void fuzz_grammar(enum grammar_kind kind, const uint8_t *data, size_t size);
