/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The model that random programs on sequences are compared with: arrays of tokens, a table that says
 * of each cell whether it is here, a hole or absent, and rules that look at every token and every
 * cell.
 *
 * A token's memory is its number, in every class, and every token said has a number of its own. So a
 * block with the memory of other tokens is detected.
 */
#include "base/ledger.h"
#include "seq/seq.h"

enum {
        N_SEQS = 6,
        N_HELD = 4,
        MAX_TOKENS = 64,
        TOKENS = 4,
        TOKEN_SIZE = 16,
        BLOCK = TOKENS * TOKEN_SIZE,
        MAX_CELLS = MAX_TOKENS,
        MAX_STATE = 4096 + 64,
        BUDGET_BLOCKS = 60,
};

enum presence { ABSENT, HOLE, HERE };

struct model {
        struct seq *s;
        uint32_t n_tokens;
        uint32_t token[MAX_TOKENS]; /* what the memory of each position says */
        enum presence cells[SEQ_N_CLASSES][MAX_CELLS];
        bool marks[MAX_TOKENS + 1];
};

/* What a spill worker would hold: a reference, and the bytes as they were then. */
struct held {
        struct seq_block *b;
        uint8_t bytes[MAX_STATE];
        uint64_t tag;
};

struct world {
        const struct seq_shape *shape;
        struct ledger ledger;
        struct seq_pool *pool;
        struct model m[N_SEQS];
        struct held held[N_HELD];
        size_t max_spare;
        uint64_t rng;
        uint32_t next_token;
        size_t n_adopted, n_forgotten, n_back; /* that the programs reach what they are for */
};

uint32_t naive_cell_tokens(enum seq_class c);
uint32_t naive_n_cells(enum seq_class c, uint32_t n_tokens);
/* Whether computing token @p needs the cell. */
bool naive_needs(const struct seq_shape *shape, enum seq_class c, uint32_t cell, uint32_t p);
bool naive_is_whole(const struct world *w, const struct model *m, uint32_t p);
uint32_t naive_whole(const struct world *w, const struct model *m, uint32_t p);
bool naive_is_kept(const struct world *w, const struct model *m, enum seq_class c, uint32_t cell,
        uint32_t but_for);
/* What release, cut, commit, fork and adopt leave. */
void naive_release(const struct world *w, struct model *m);
void naive_shorten(struct model *m, uint32_t p);
uint32_t naive_n_missing(const struct world *w, const struct model *m);
size_t naive_slot(const struct world *w, enum seq_class c);
bool naive_steps_whole(
        const struct world *w, const struct model *m, const struct seq_step *steps, uint32_t n);
void naive_adopt(const struct world *w, struct model *m, const struct seq_step *steps, uint32_t n,
        const uint32_t *token);
/* Marks that mean nothing are not remembered. */
void naive_forget_idle_marks(const struct world *w, struct model *m);
void naive_fill(void *p, uint32_t token);
/* Where a token's memory is in its cell's block. */
void *naive_place(void *block, enum seq_class c, uint32_t pos);
struct seq_block *naive_block_at(const struct seq *s, enum seq_class c, uint32_t i);
uint32_t naive_count_refs(const struct world *w, const struct seq_block *b);
/* The rules that depend on a position. */
void naive_check_positions(const struct world *w, const struct model *m);
void naive_check(const struct world *w);
/* What seq_reserve() has to take. */
size_t naive_reserve_cost(const struct world *w, const struct model *m, uint32_t n);
