/* SPDX-License-Identifier: MIT */
/*
 * What the remote store has of a prompt's memory.
 *
 * 1. The conversation's own table of contents is looked at first. It names states and partial blocks, too, which lie where turns end,
 *    and so nowhere where they could be guessed.
 * 2. Of other conversations of the owner there are whole blocks, found by their names: of SEQ_ALL forwards from where the known ones
 *    end, PROBE of them, then twice as many, up to the first that is missing; states at all ends of blocks; blocks of windows for the
 *    positions that are tried.
 * 3. The farthest position that is whole is taken. A position is tried with windows at most TRIES times.
 * 4. What is there now may be gone when it is read.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/far/state.h"

enum { PROBE = 16, TRIES = 8 };

/* Of a block that may be there. */
enum { UNKNOWN, THERE, NOT_THERE };

struct finding {
        struct engine *engine;
        const struct far_wish *wish;
        uint64_t until;
        struct far_scope scope;
        struct far_names names;
        uint32_t bt;
        size_t n_blocks;            /* whole ones in the prompt */
        uint8_t *is[SEQ_N_CLASSES]; /* [n_blocks]: whole blocks, and states at their ends */
        struct far_cell *odd; /* [n_odd]: of the contents, what does not end where a block ends */
        size_t n_odd;
        size_t n_all; /* blocks of SEQ_ALL that are there, or in RAM, without a gap */
        /* [n_blocks] */
        struct remote_key *keys;
        size_t *blocks; /* that the keys are of */
        bool *there;
};

size_t far_find_size(const struct engine *engine, uint32_t n_tokens) {
        size_t n = n_tokens / engine->info.block_tokens + 1;

        return far_names_size(engine, n_tokens) + far_contents_size(engine) +
               far_contents_max(engine) * sizeof(struct far_cell) +
               n * (SEQ_N_CLASSES + sizeof(struct remote_key) + sizeof(size_t) + sizeof(bool) +
                           4 * sizeof(struct far_cell));
}

static void finding_deinit(struct finding *x) {
        far_names_deinit(&x->names);
        for (size_t c = 0; c < SEQ_N_CLASSES; c++)
                free(x->is[c]);
        free(x->odd);
        free(x->keys);
        free(x->blocks);
        free(x->there);
}

void far_found_deinit(struct far_found *f) {
        free(f->cells);
        *f = (struct far_found){0};
}

static bool has_class(const struct finding *x, enum seq_class c) {
        return x->engine->info.shape.size[c] > 0;
}

static int prepare(struct finding *x, struct err *e) {
        const struct far_wish *w = x->wish;
        bool ok = true;
        int r = far_scope(x->engine, w->owner, w->conv, w->is_private, &x->scope, e);

        if (r == 0)
                r = far_names_make(x->engine, &x->scope, w->tokens, w->n_tokens, &x->names, e);
        if (r < 0)
                return r;
        x->bt = x->engine->info.block_tokens;
        x->n_blocks = x->names.n_blocks;
        for (size_t c = 0; c < SEQ_N_CLASSES; c++) {
                x->is[c] = calloc(x->n_blocks + 1, sizeof(*x->is[c]));
                ok = ok && x->is[c];
        }
        x->keys = calloc(x->n_blocks + 1, sizeof(*x->keys));
        x->blocks = calloc(x->n_blocks + 1, sizeof(*x->blocks));
        x->there = calloc(x->n_blocks + 1, sizeof(*x->there));
        return ok && x->keys && x->blocks && x->there ? 0 : err_no_memory(e);
}

/* The cell that ends with block @i. */
static struct far_cell cell_of(const struct finding *x, enum seq_class class, size_t i) {
        struct far_cell cell = {.class = class};

        cell.n_tokens = seq_cell_tokens(&x->engine->info.shape, class);
        cell.index = class == SEQ_STATE ? (uint32_t)(i + 1) * x->bt - 1 : (uint32_t)i;
        far_names_cell(x->engine, &x->names, &cell);
        return cell;
}

/* --- what is there --- */

/* Of the contents what is of these tokens, and behind what is in RAM. */
static int read_contents(struct finding *x, struct err *e) {
        _cleanup_(far_contents_deinit) struct far_contents all = {0};
        int r = far_contents_read(x->engine, &x->scope, x->wish->conv, x->until, &all, e);

        if (r < 0)
                return r;
        x->odd = calloc(all.n + 1, sizeof(*x->odd));
        if (!x->odd)
                return err_no_memory(e);
        for (size_t i = 0; i < all.n; i++) {
                struct far_cell cell = all.cells[i];
                uint32_t end = far_cell_end(x->engine, &cell);

                if (end > x->wish->n_tokens)
                        continue;
                far_names_cell(x->engine, &x->names, &cell);
                if (memcmp(&cell.name, &all.cells[i].name, sizeof(cell.name)) != 0)
                        continue; /* of other tokens: they were rewound */
                if (end % x->bt == 0)
                        x->is[cell.class][end / x->bt - 1] = THERE;
                else if (end > x->wish->have)
                        x->odd[x->n_odd++] = cell;
        }
        return 0;
}

/* Ask for cells of a class that end with blocks [from, to), as far as they are not known. */
static int probe(struct finding *x, enum seq_class class, size_t from, size_t to, struct err *e) {
        size_t n = 0;
        int r;

        for (size_t i = from; i < to; i++) {
                struct far_cell cell;

                if (x->is[class][i] != UNKNOWN)
                        continue;
                cell = cell_of(x, class, i);
                far_key(&cell.name, &x->keys[n]);
                x->blocks[n++] = i;
        }
        if (n == 0)
                return 0;
        r = remote_touch(
                x->engine->remote, x->keys, n, x->engine->far->keep_sec, x->there, x->until, e);
        for (size_t i = 0; r == 0 && i < n; i++)
                x->is[class][x->blocks[i]] = x->there[i] ? THERE : NOT_THERE;
        return r;
}

/* x->n_all. */
static int look_for_all(struct finding *x, struct err *e) {
        size_t at = x->wish->have / x->bt, step = PROBE;
        int r = 0;

        if (!has_class(x, SEQ_ALL)) {
                x->n_all = x->n_blocks;
                return 0;
        }
        while (r == 0 && at < x->n_blocks) {
                if (x->is[SEQ_ALL][at] == THERE) {
                        at++;
                        continue;
                }
                if (x->is[SEQ_ALL][at] == NOT_THERE)
                        break;
                r = probe(x, SEQ_ALL, at, MIN(at + step, x->n_blocks), e);
                step *= 2;
        }
        x->n_all = at;
        return r;
}

/* --- which position --- */

static const struct far_cell *odd_at(const struct finding *x, enum seq_class class, uint32_t end) {
        for (size_t i = 0; i < x->n_odd; i++)
                if (x->odd[i].class == class && far_cell_end(x->engine, &x->odd[i]) == end)
                        return &x->odd[i];
        return NULL;
}

/* Is the cell of the class that ends at @end there, if the model has the class? */
static bool ends_with(const struct finding *x, enum seq_class class, uint32_t end) {
        if (!has_class(x, class))
                return true;
        return end % x->bt == 0 ? x->is[class][end / x->bt - 1] == THERE
                                : odd_at(x, class, end) != NULL;
}

static bool has_window(const struct finding *x, size_t i) {
        return x->wish->has_window[i] || x->is[SEQ_WINDOW][i] == THERE;
}

/* Whether position @end is whole, but for windows. */
static bool is_candidate(const struct finding *x, uint32_t end) {
        if (end / x->bt > x->n_all || !ends_with(x, SEQ_STATE, end))
                return false;
        return end % x->bt == 0 || (ends_with(x, SEQ_ALL, end) && ends_with(x, SEQ_WINDOW, end));
}

/* 1 if it is whole with them; 0: it is not. */
static int windows_reach(struct finding *x, uint32_t end, struct err *e) {
        size_t from = seq_window_start(&x->engine->info.shape, end) / x->bt, to = end / x->bt;
        int r = 0;

        for (size_t i = from; i < to; i++)
                if (!has_window(x, i) && x->is[SEQ_WINDOW][i] == UNKNOWN)
                        r = 1;
        if (r > 0)
                r = probe(x, SEQ_WINDOW, from, to, e);
        for (size_t i = from; r == 0 && i < to; i++)
                if (!has_window(x, i))
                        return 0;
        return r < 0 ? r : 1;
}

/* The candidate before @below, or 0. */
static uint32_t candidate_before(const struct finding *x, uint32_t below) {
        uint32_t best = 0;

        for (size_t i = MIN(x->n_all, (size_t)(below - 1) / x->bt); i > x->wish->have / x->bt; i--)
                if (is_candidate(x, (uint32_t)i * x->bt)) {
                        best = (uint32_t)i * x->bt;
                        break;
                }
        for (size_t i = 0; i < x->n_odd; i++) {
                uint32_t end = far_cell_end(x->engine, &x->odd[i]);

                if (end < below && end > best && is_candidate(x, end))
                        best = end;
        }
        return best;
}

static int choose(struct finding *x, uint32_t *ret, struct err *e) {
        uint32_t end = x->wish->n_tokens + 1;
        int r;

        for (size_t i = 0; i < TRIES; i++) {
                end = candidate_before(x, end);
                if (end <= x->wish->have)
                        break;
                r = has_class(x, SEQ_WINDOW) ? windows_reach(x, end, e) : 1;
                if (r < 0)
                        return r;
                if (r > 0) {
                        *ret = end;
                        return 0;
                }
        }
        *ret = 0;
        return 0;
}

/* --- the result --- */

static void add(struct finding *x, enum seq_class class, uint32_t end, struct far_found *ret) {
        const struct far_cell *odd = end % x->bt ? odd_at(x, class, end) : NULL;

        ret->cells[ret->n++] = odd ? *odd : cell_of(x, class, end / x->bt - 1);
}

static int fill(struct finding *x, uint32_t end, struct far_found *ret, struct err *e) {
        const struct seq_shape *shape = &x->engine->info.shape;
        size_t n_blocks = end / x->bt;

        ret->cells = calloc(2 * (n_blocks + 1) + 1, sizeof(*ret->cells));
        if (!ret->cells)
                return err_no_memory(e);
        ret->scope = x->scope;
        ret->end = end;
        if (has_class(x, SEQ_STATE))
                add(x, SEQ_STATE, end, ret);
        if (has_class(x, SEQ_WINDOW)) {
                for (size_t i = seq_window_start(shape, end) / x->bt; i < n_blocks; i++)
                        if (!x->wish->has_window[i])
                                add(x, SEQ_WINDOW, (uint32_t)(i + 1) * x->bt, ret);
                if (end % x->bt)
                        add(x, SEQ_WINDOW, end, ret);
        }
        if (has_class(x, SEQ_ALL)) {
                for (size_t i = x->wish->have / x->bt; i < n_blocks; i++)
                        add(x, SEQ_ALL, (uint32_t)(i + 1) * x->bt, ret);
                if (end % x->bt)
                        add(x, SEQ_ALL, end, ret);
        }
        return 0;
}

int far_find(struct engine *engine, const struct far_wish *wish, uint64_t until,
        struct far_found *ret, struct err *e) {
        _cleanup_(finding_deinit) struct finding x = {
                .engine = engine, .wish = wish, .until = until};
        struct far_found found = {0};
        uint32_t end = 0;
        int r = prepare(&x, e);

        if (r == 0)
                r = read_contents(&x, e);
        if (r == 0)
                r = look_for_all(&x, e);
        if (r == 0 && has_class(&x, SEQ_STATE))
                r = probe(&x, SEQ_STATE, wish->have / x.bt, x.n_all, e);
        if (r == 0)
                r = choose(&x, &end, e);
        if (r == 0 && end > 0)
                r = fill(&x, end, &found, e);
        if (r < 0)
                return r;
        *ret = found;
        return 0;
}
