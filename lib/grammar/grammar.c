/* SPDX-License-Identifier: MIT */
/* Making a grammar: text to rules (gbnf.c, schema.c, parts.c), rules to nodes (analyse.c, lower.c). */
#include "base/err.h"
#include "base/util.h"
#include "grammar/build.h"
#include "grammar/grammar-internal.h"
#include <stdlib.h>

static int compile(struct grammar *g, enum grammar_kind kind, const char *text, size_t size,
        const atomic_bool *stop, struct err *e) {
        struct build b;
        uint32_t root = 0;
        int r = build_init(&b, g->charge.ledger, stop, e);

        if (r == 0)
                root = kind == GRAMMAR_GBNF    ? gbnf_parse(&b, text, size)
                       : kind == GRAMMAR_PARTS ? parts_parse(&b, text, size)
                                               : schema_parse(&b, text, size);
        analyse(&b, root);
        g->program.charge.ledger = g->charge.ledger;
        lower(&b, root, &g->program);
        r = b.failed;
        build_deinit(&b);
        return r;
}

/* Bytes beside the program: half of the cache for states, half for masks, and what walks need. */
static size_t tables_size(const struct grammar *g, size_t cache_size) {
        size_t part = grammar_mask_words(g->vocab) * 8 + MAX_RETURNS * sizeof(uint32_t);

        return space_size(cache_size / 2) + MAX(cache_size / 2, part) +
               grammar_mask_words(g->vocab) * 8 + 8 + MAX_MASKS * sizeof(struct part) +
               MAX_RETURNS * sizeof(uint32_t) + SPACE_MAX_PARSES * sizeof(struct parse) +
               cache_size / 2 / 8 / sizeof(struct cell) + MAX_STATE_CELLS * sizeof(uint32_t) + 1024;
}

static int make_tables(struct grammar *g, size_t cache_size, struct err *e) {
        size_t part = grammar_mask_words(g->vocab) * 8 + MAX_RETURNS * sizeof(uint32_t);
        int r = charge_take(&g->charge, tables_size(g, cache_size), "a grammar", e);

        if (r == 0)
                r = space_init(&g->space, &g->program, cache_size / 2, e);
        if (r < 0)
                return r;
        g->max_masks_size = MAX(cache_size / 2, part);
        g->parts = calloc(MAX_MASKS, sizeof(*g->parts));
        g->returns = malloc(MAX_RETURNS * sizeof(*g->returns));
        g->group = malloc(SPACE_MAX_PARSES * sizeof(*g->group));
        g->marks = calloc(g->space.max_cells, 1);
        g->cells = malloc(MAX_STATE_CELLS * sizeof(*g->cells));
        g->scratch = malloc(grammar_mask_words(g->vocab) * sizeof(*g->scratch) + 8);
        if (!g->parts || !g->returns || !g->group || !g->marks || !g->cells || !g->scratch)
                return err_set(e, ERR_NOMEM, "no memory for a grammar");
        masks_init(g);
        return 0;
}

int grammar_new(struct grammar **ret, enum grammar_kind kind, const char *text, size_t size,
        const struct grammar_vocab *vocab, size_t cache_size, struct ledger *ledger,
        const atomic_bool *stop, struct err *e) {
        struct charge charge = {.ledger = ledger};
        _cleanup_(grammar_freep) struct grammar *g = NULL;
        int r;

        if (size > GRAMMAR_MAX_TEXT)
                return err_set(e, ERR_TOO_LARGE, "the grammar has %zu bytes, more than %zu", size,
                        GRAMMAR_MAX_TEXT);
        r = charge_take(&charge, sizeof(*g), "a grammar", e);
        if (r < 0)
                return r;
        g = calloc(1, sizeof(*g));
        if (!g) {
                charge_deinit(&charge);
                return err_set(e, ERR_NOMEM, "no memory for a grammar");
        }
        g->charge = charge;
        g->vocab = vocab;
        r = compile(g, kind, text, size, stop, e);
        if (r == 0)
                r = make_tables(g, MAX(cache_size, GRAMMAR_MIN_CACHE), e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(g);
        return 0;
}

struct grammar *grammar_free(struct grammar *g) {
        struct charge charge;

        if (!g)
                return NULL;
        if (g->masks.next) /* masks_init() was called */
                masks_clear(g);
        free(g->parts);
        free(g->returns);
        free(g->group);
        free(g->marks);
        free(g->cells);
        free(g->scratch);
        space_deinit(&g->space);
        program_deinit(&g->program);
        charge = g->charge;
        free(g);
        charge_deinit(&charge);
        return NULL;
}

size_t grammar_size(const struct grammar *g) {
        return g->charge.size + g->program.charge.size;
}

void grammar_figures(const struct grammar *g, struct grammar_figures *ret) {
        size_t n = 0;

        for (const struct list *it = g->masks.next; it != &g->masks; it = it->next)
                n++;
        *ret = (struct grammar_figures){.n_nodes = g->program.n_nodes,
                .n_states = g->space.n_sets - N_FIXED_SETS,
                .n_masks = (uint32_t)n,
                .masks_made = g->masks_made,
                .masks_found = g->masks_found,
                .compactions = g->space.n_compactions};
}
