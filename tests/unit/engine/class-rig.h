/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Conversations on the models of kinds-rig.h, in tokens, so that a test knows which cells they have: a text of
 * n tokens and a reply of CLASS_REPLY leave a memory of n + CLASS_REPLY - 1 tokens. And their records on disk,
 * cell by cell. (kinds-rig.c, util_tiny)
 */
#include "kinds-rig.h"
#include "seq/seq.h"

enum { CLASS_BLOCK = KIND_BLOCK, CLASS_REPLY = 3, CLASS_MOST = 512 };

/* A text of tokens, another one for each salt. */
struct class_text {
        int32_t tokens[CLASS_MOST];
        size_t n;
};
struct class_text class_text(size_t n, int32_t salt);
/* @n tokens of the first text, and behind them all of the second one. */
struct class_text class_join(const struct class_text *a, size_t n, const struct class_text *b);
struct engine_request class_request(uint64_t c, const struct class_text *t);
/* A conversation whose first turn is the text. */
uint64_t class_new(struct erig *r, const struct class_text *head);
void class_say(struct erig *r, uint64_t c, const struct class_text *t, struct answer *a);
/* The latest reply once more. */
void class_regenerate(struct erig *r, uint64_t c, struct answer *a);
void class_evict(struct erig *r, uint64_t c);

/* After a restart all of the conversation's memory is read from disk, and the register keeps its invariants. */
void class_check_written(struct erig *r, uint64_t c);
/* The cells of a class that the conversation has in the register are just these, as "0 1 5". Waits until
 * nothing is done for the conversation any more. */
void class_check_links(struct erig *r, uint64_t c, enum seq_class class, const char *cells);
/* The register loses the links. The engine is stopped. */
void class_unlink(const struct erig *r, uint64_t c, enum seq_class class, uint32_t first, size_t n);
/* A bit of the last section of the cell's record turns over. */
void class_damage(const struct erig *r, uint64_t c, enum seq_class class, uint32_t index);
/* The raw sizes of the sections of the cell's record. Their number, at most @max. */
size_t class_sections(const struct erig *r, uint64_t c, enum seq_class class, uint32_t index,
        uint32_t *sizes, size_t max);
