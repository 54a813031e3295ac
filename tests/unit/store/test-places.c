/* SPDX-License-Identifier: MIT */
/*
 * Of what use cells on disk are (lib/store/places.c): random cells of random shapes, compared with rules
 * that look at every position, every token and every cell.
 */
#include <string.h>

#include "base/util.h"
#include "store/places.h"
#include "util/test.h"

enum { BT = 4, MAX_TOKENS = 48, N_RUNS = 20000 };

static uint64_t rng = 1;

static uint32_t draw(uint32_t n) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)((rng >> 33) % n);
}

/* What is there of the tokens: of class c, token t is (for states: the state after it). */
struct model {
        struct store_shape shape;
        bool has[STORE_N_CLASSES][MAX_TOKENS];
};

static bool sees(const struct store_shape *s, uint32_t p, uint32_t j) {
        return s->chunk ? j >= p - p % s->chunk : p - j < s->window;
}

/* Whether position @p needs the cell: it sees a token of the cell, or goes on in the midst of it. Of a cell
 * that it needs it needs all tokens before it. */
static bool needs(const struct store_shape *s, uint32_t p, uint32_t class, uint32_t index) {
        uint32_t first = index * BT;

        if (class == STORE_CLASS_STATE)
                return index + 1 == p;
        for (uint32_t j = first; j < first + BT && j < p; j++)
                if (class == STORE_CLASS_ALL || sees(s, p, j))
                        return true;
        return first < p && p < first + BT;
}

static bool is_whole(const struct model *m, uint32_t p) {
        for (uint32_t c = 0; c < STORE_N_CLASSES; c++)
                for (uint32_t j = 0; store_has_class(&m->shape, c) && j < p; j++)
                        if (needs(&m->shape, p, c, c == STORE_CLASS_STATE ? j : j / BT) &&
                                !m->has[c][j])
                                return false;
        return true;
}

/* Whether anything that is there says that the conversation's memory reached @p. */
static bool is_reached(const struct model *m, uint32_t p) {
        return store_has_class(&m->shape, STORE_CLASS_STATE) ||
               store_has_class(&m->shape, STORE_CLASS_ALL) || m->has[STORE_CLASS_WINDOW][p - 1];
}

static enum store_use naive_use(const struct model *m, uint32_t class, uint32_t index) {
        enum store_use use = STORE_USE_NONE;
        uint32_t end = 0;

        for (uint32_t p = 1; p <= MAX_TOKENS; p++) {
                if (!is_whole(m, p) || !is_reached(m, p))
                        continue;
                end = p;
                if (needs(&m->shape, p, class, index))
                        use = STORE_USE_CHECKPOINT;
        }
        return end > 0 && needs(&m->shape, end, class, index) ? STORE_USE_END : use;
}

static void draw_shape(struct store_shape *s) {
        static const uint32_t spans[] = {1, 2, 3, 4, 6, 8, 12, 20, 100};

        *s = (struct store_shape){
                .block_tokens = BT, .classes = 1 + draw((1u << STORE_N_CLASSES) - 1)};
        if (!store_has_class(s, STORE_CLASS_WINDOW))
                return;
        if (draw(2))
                s->window = spans[draw(ARRAY_SIZE(spans))];
        else
                s->chunk = spans[draw(ARRAY_SIZE(spans))];
}

static void swap(struct store_place *a, struct store_place *b) {
        struct store_place old = *a;

        *a = *b;
        *b = old;
}

/* Cells of which most are there, in any order. */
static size_t draw_cells(struct model *m, struct store_place *cells) {
        uint32_t often = 2 + draw(20);
        size_t n = 0;

        memset(m->has, 0, sizeof(m->has));
        for (uint32_t c = 0; c < STORE_N_CLASSES; c++) {
                uint32_t ct = store_cell_tokens(&m->shape, c), until = draw(MAX_TOKENS / ct + 1);

                for (uint32_t i = 0; store_has_class(&m->shape, c) && i < until; i++) {
                        uint32_t n_valid = draw(often) ? ct : draw(ct + 1);

                        if (draw(often) == 0 || (c == STORE_CLASS_STATE && draw(3)))
                                continue;
                        for (uint32_t j = 0; j < n_valid; j++)
                                m->has[c][i * ct + j] = true;
                        cells[n++] = (struct store_place){
                                .cell = {.block_class = c, .index = i}, .n_valid = n_valid};
                }
        }
        for (size_t i = n; i > 1; i--)
                swap(&cells[i - 1], &cells[draw((uint32_t)i)]);
        return n;
}

static void test_random_cells(void **state) {
        size_t n_used[STORE_USE_END + 1] = {0};

        (void)state;
        for (unsigned run = 0; run < N_RUNS; run++) {
                struct store_place cells[STORE_N_CLASSES * MAX_TOKENS];
                struct model m;
                size_t n;

                draw_shape(&m.shape);
                assert_true(store_shape_is_possible(&m.shape));
                n = draw_cells(&m, cells);
                store_places_mark(&m.shape, cells, n);
                for (size_t i = 0; i < n; i++) {
                        const struct store_cell *c = &cells[i].cell;
                        enum store_use want = naive_use(&m, c->block_class, c->index);

                        n_used[want]++;
                        if (cells[i].use != want)
                                fail_msg("run %u: classes %u, window %u, chunk %u: cell %u of "
                                         "class %u: %d, not %d",
                                        run, m.shape.classes, m.shape.window, m.shape.chunk,
                                        c->index, c->block_class, (int)cells[i].use, (int)want);
                }
        }
        for (size_t i = 0; i < ARRAY_SIZE(n_used); i++)
                assert_true(n_used[i] > N_RUNS / 10);
}

int main(void) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_cells)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
