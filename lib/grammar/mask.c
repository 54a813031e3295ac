/* SPDX-License-Identifier: MIT */
/*
 * Masks: which tokens may come next. A walk goes through the trie of tokens and takes the step of
 * each node's byte; where a step leads nowhere it skips the subtree. In a string nearly every token
 * is allowed, so that walk sees the whole trie. What a string looks like does not depend on what it
 * stands in, so parts of masks are cached by rule:
 *
 * 1. The parses of a state are divided by the cell of the last CALL on their stacks. Cut off there,
 *    they are a state of their own, whose stacks end at CELL_BASE: inside of one rule. Many states
 *    have this part in common: it is the same for all strings of a schema.
 * 2. A walk from such a part finds the tokens that stay inside of the rule, and the nodes of the
 *    trie where a parse returns from it. Both are cached with the part, up to a number of bytes;
 *    the part that was least recently used goes first.
 * 3. From each of these nodes a walk through its subtree goes on, from the state after the return
 *    from the real cell. These subtrees are small: few tokens go on behind a closing quote.
 * 4. The counts of loops in a part are made smaller where a token cannot tell the difference:
 *    rounds beyond the longest text of a token are "endless". So a string of at most 1000
 *    characters shares its mask with the next 700 states.
 * 5. If a part has too many returns, or stacks so deep that a limit might cut them, the walk starts
 *    from the real state, and the mask is cached for that.
 */
#include "base/err.h"
#include "base/util.h"
#include "grammar/grammar-internal.h"
#include <stdlib.h>
#include <string.h>

#define DEPTH_MARGIN 64 /* calls that return before they have read a byte */

/* --- the cache --- */

void masks_init(struct grammar *g) {
        list_init(&g->masks);
        list_init(&g->free_parts);
        for (uint32_t i = 0; i < MAX_MASKS; i++)
                list_append(&g->free_parts, &g->parts[i].lru);
}

static size_t part_size(const struct grammar *g, uint32_t n_returns) {
        return grammar_mask_words(g->vocab) * sizeof(uint64_t) + n_returns * sizeof(uint32_t);
}

static void part_drop(struct grammar *g, struct part *p) {
        g->space.sets[p->set].mask = 0;
        free(TAKE_PTR(p->bits));
        g->masks_size -= p->wide ? 0 : part_size(g, p->n_returns);
        list_unlink(&p->lru);
        list_append(&g->free_parts, &p->lru);
}

void masks_clear(struct grammar *g) {
        while (!list_empty(&g->masks))
                part_drop(g, list_entry(g->masks.next, struct part, lru));
}

void masks_renumber(struct grammar *g) {
        for (uint32_t i = N_FIXED_SETS; i < g->space.n_sets; i++)
                if (g->space.sets[i].mask)
                        g->parts[g->space.sets[i].mask - 1].set = i;
}

/* Store what the walk from @set has found. NULL without memory. */
static struct part *part_add(struct grammar *g, uint32_t set, const uint64_t *bits, bool wide,
        uint32_t depth, struct err *e) {
        size_t size = wide ? 0 : part_size(g, g->n_returns);
        size_t words = grammar_mask_words(g->vocab) * sizeof(uint64_t);
        uint64_t *copy = NULL;
        struct part *p;

        while (list_empty(&g->free_parts) ||
                (g->masks_size + size > g->max_masks_size && !list_empty(&g->masks)))
                part_drop(g, list_entry(g->masks.next, struct part, lru));
        if (!wide) {
                copy = malloc(size);
                if (!copy) {
                        err_set(e, ERR_NOMEM, "no memory for a mask");
                        return NULL;
                }
                memcpy(copy, bits, words);
                memcpy((uint8_t *)copy + words, g->returns, g->n_returns * sizeof(*g->returns));
        }
        p = list_entry(g->free_parts.next, struct part, lru);
        list_unlink(&p->lru);
        list_append(&g->masks, &p->lru);
        p->set = set;
        p->bits = copy;
        p->returns = wide ? NULL : (uint32_t *)(void *)((uint8_t *)copy + words);
        p->n_returns = wide ? 0 : g->n_returns;
        p->depth = depth;
        p->wide = wide;
        g->masks_size += size;
        g->space.sets[set].mask = (uint32_t)(p - g->parts) + 1;
        g->masks_made++;
        return p;
}

/* --- walks --- */

static void allow(const struct grammar_vocab *v, uint32_t node, uint64_t *mask) {
        for (uint32_t i = v->first[node]; i < v->first[node + 1]; i++)
                mask[(uint32_t)v->tokens[i] / 64] |= (uint64_t)1 << ((uint32_t)v->tokens[i] % 64);
}

/* Go through nodes [@from, @to) of the trie, from the state g->path[depth of @from - 1]. Sets the
 * bits of allowed tokens. Nodes where a parse returns from CELL_BASE are added to g->returns, all
 * but MAX_RETURNS are only counted. */
static int walk(struct grammar *g, uint32_t from, uint32_t to, uint64_t *mask, uint32_t *depth,
        struct err *e) {
        const struct grammar_vocab *v = g->vocab;
        struct space *s = &g->space;

        for (uint32_t node = from; node < to;) {
                uint32_t d = v->depth[node], before = s->sets[g->path[d - 1]].steps;
                uint32_t next = before ? s->steps[before - 1 + g->program.class_of[v->byte[node]]]
                                       : STEP_UNKNOWN;

                if (next == STEP_UNKNOWN)
                        next = grammar_step(g, d - 1, v->byte[node], e);
                if (next == STEP_UNKNOWN)
                        return -1;
                if (next == STEP_DEAD) {
                        node = v->end[node];
                        continue;
                }
                allow(v, node, mask);
                if (s->sets[next].flags & SET_RETURNS) {
                        if (g->n_returns < MAX_RETURNS)
                                g->returns[g->n_returns] = node;
                        g->n_returns++;
                }
                if (s->sets[next].depth > *depth)
                        *depth = s->sets[next].depth;
                if (s->sets[next].n == 0) {
                        node = v->end[node];
                        continue;
                }
                g->path[d] = next;
                node++;
        }
        return 0;
}

/* The part of the whole mask that belongs to state @set, from the cache or made now. */
static struct part *part_of(struct grammar *g, uint32_t set, struct err *e) {
        uint64_t *bits = g->scratch;
        struct part *p;
        uint32_t depth = 0;

        if (g->space.sets[set].mask) {
                p = &g->parts[g->space.sets[set].mask - 1];
                list_unlink(&p->lru);
                list_append(&g->masks, &p->lru);
                g->masks_found++;
                return p;
        }
        g->path[0] = set;
        g->n_returns = 0;
        memset(bits, 0, grammar_mask_words(g->vocab) * sizeof(*bits));
        if (walk(g, 0, g->vocab->n_nodes, bits, &depth, e) < 0)
                return NULL;
        return part_add(g, g->path[0], bits, g->n_returns > MAX_RETURNS, depth, e);
}

/* --- parts of a state --- */

static uint32_t base_of(const struct grammar *g, uint32_t cell) {
        while (cell >= N_FIXED_CELLS &&
                g->program.nodes[g->space.cells[cell].node].kind == NODE_LOOP)
                cell = g->space.cells[cell].parent;
        return cell;
}

/* The loops on top of a stack, upon CELL_BASE instead of @base (rule 4); UINT32_MAX: no room. */
static uint32_t rebase(struct grammar *g, uint32_t cell, uint32_t base) {
        const struct cell *c = &g->space.cells[cell];
        uint32_t longest = g->vocab->longest, node = c->node, need = c->need, left = c->left;
        uint32_t parent;

        if (cell == base)
                return CELL_BASE;
        if (need > longest + 1)
                need = longest + 1;
        if (left > longest)
                left = PROGRAM_ENDLESS;
        parent = rebase(g, c->parent, base);
        return parent == UINT32_MAX ? parent : space_cell(&g->space, node, need, left, parent);
}

/* The state of the parses of g->whole above @base: cut off there, or (@real) as they are. */
static uint32_t try_part(struct grammar *g, uint32_t base, bool real) {
        const struct set *k = &g->space.sets[g->whole];
        uint32_t n = 0;

        g->space.overflow = false;
        for (uint32_t i = 0; i < k->n; i++) {
                struct parse p = g->space.parses[k->first + i];

                if (base_of(g, p.cell) != base)
                        continue;
                if (!real)
                        p.cell = rebase(g, p.cell, base);
                if (p.cell == UINT32_MAX)
                        return STEP_UNKNOWN;
                g->group[n++] = p;
        }
        return space_intern(&g->space, g->group, n, 0);
}

static uint32_t part_set(struct grammar *g, uint32_t i, bool real, struct err *e) {
        unsigned tries = 0;
        uint32_t set;

        g->path_end = 0;
        while ((set = try_part(g, g->bases[i], real)) == STEP_UNKNOWN)
                if (grammar_make_room(g, &tries, e) < 0)
                        return STEP_UNKNOWN;
        return set;
}

/* Go on where parses have returned from the part of base @i. */
static int add_returns(
        struct grammar *g, uint32_t i, struct part *p, uint64_t *mask, struct err *e) {
        unsigned tries = 0;
        uint32_t set, depth = 0;

        if (p->n_returns == 0 || g->bases[i] == CELL_ROOT)
                return 0;
        g->path_end = 0;
        while ((set = space_return(&g->space, g->bases[i])) == STEP_UNKNOWN)
                if (grammar_make_room(g, &tries, e) < 0)
                        return -1;
        if (set == STEP_DEAD || g->space.sets[set].n == 0)
                return 0;
        /* The part may leave the cache meanwhile: when walks make room. */
        g->n_returns = p->n_returns;
        memcpy(g->returns, p->returns, p->n_returns * sizeof(*g->returns));
        for (uint32_t k = 0, n = g->n_returns; k < n; k++) {
                uint32_t node = g->returns[k], d = g->vocab->depth[node];

                /* All of the path up to here is this state, so that compacting keeps it. */
                for (uint32_t j = 0; j <= d; j++)
                        g->path[j] = set;
                if (walk(g, node + 1, g->vocab->end[node], mask, &depth, e) < 0)
                        return -1;
                set = g->path[0];
        }
        return 0;
}

static int add_part(struct grammar *g, uint32_t i, uint64_t *mask, struct err *e) {
        size_t n_words = grammar_mask_words(g->vocab);
        uint32_t set = part_set(g, i, false, e);
        struct part *p = set == STEP_UNKNOWN ? NULL : part_of(g, set, e);

        if (p && (p->wide || g->space.cells[g->bases[i]].depth + p->depth + DEPTH_MARGIN >
                                     SPACE_MAX_DEPTH)) {
                set = part_set(g, i, true, e);
                p = set == STEP_UNKNOWN ? NULL : part_of(g, set, e);
        }
        if (!p)
                return -1;
        for (size_t k = 0; k < n_words; k++)
                mask[k] |= p->bits[k];
        return add_returns(g, i, p, mask, e);
}

static void find_bases(struct grammar *g) {
        const struct set *k = &g->space.sets[g->whole];

        g->n_bases = 0;
        for (uint32_t i = 0; i < k->n; i++) {
                uint32_t base = base_of(g, g->space.parses[k->first + i].cell), j = 0;

                while (j < g->n_bases && g->bases[j] != base)
                        j++;
                if (j == g->n_bases)
                        g->bases[g->n_bases++] = base;
        }
}

/* Tokens that begin with a space which is not printed. */
static int add_spaced(struct grammar *g, uint64_t *mask, struct err *e) {
        const struct grammar_vocab *v = g->vocab;
        uint32_t depth = 0;

        for (uint32_t node = 0; node < v->n_nodes; node = v->end[node])
                if (v->byte[node] == ' ') {
                        g->path[0] = g->path[1] = g->whole;
                        return walk(g, node + 1, v->end[node], mask, &depth, e);
                }
        return 0;
}

static int fill_mask(struct grammar *g, bool skip_space, uint64_t *mask, struct err *e) {
        int r = 0;

        find_bases(g);
        for (uint32_t i = 0; i < g->n_bases && r == 0; i++)
                r = add_part(g, i, mask, e);
        if (r == 0 && skip_space)
                r = add_spaced(g, mask, e);
        return r;
}

int grammar_mask(struct grammar *g, struct grammar_state *s, bool skip_space, uint64_t *mask,
        struct err *e) {
        size_t n_words = grammar_mask_words(g->vocab);
        struct err why = {.code = ERR_NONE};
        uint64_t any = 0;

        g->whole = state_import(g, s, &why);
        memset(mask, 0, n_words * sizeof(*mask));
        if (why.code == ERR_NONE && g->whole != STEP_DEAD)
                fill_mask(g, skip_space, mask, &why);
        if (why.code != ERR_NONE) {
                if (e)
                        *e = why;
                return -(int)why.code;
        }
        if (grammar_accepts(s))
                for (uint32_t i = 0; i < g->vocab->n_ends; i++)
                        mask[(uint32_t)g->vocab->ends[i] / 64] |=
                                (uint64_t)1 << ((uint32_t)g->vocab->ends[i] % 64);
        for (size_t i = 0; i < n_words; i++)
                any |= mask[i];
        return any ? 0 : 1;
}
