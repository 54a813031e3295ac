/* SPDX-License-Identifier: MIT */
/*
 * Ranking in stages. Usually few of many candidates are taken, so only the best FIRST are sorted at first, and
 * when these are used up, STAGE times as many.
 *
 * 1. What a stage sorts is found by counting: the range of the logits left is divided evenly into
 *    BINS, and the bins with the greatest logits are taken, until there are enough. If the last one holds
 *    too many, it is divided again.
 * 2. Sorting works likewise: a bin for every few items, items moved into their bins, each bin sorted
 *    by itself. A logit's bin does not rise as the logit grows, however the division rounds, so the
 *    order of bins is that of logits.
 * 3. Bins are no help for logits that are equal, infinite, or far from evenly spread. What was divided
 *    DEPTH times, or cannot be divided, is sorted by a heap: so no logits take more than O(n log n).
 */
#include "sample/rank.h"
#include "base/util.h"
#include <assert.h>
#include <math.h>

#define FIRST ((size_t)64)
#define STAGE 16
#define BINS ((size_t)2048)
#define BIN_ITEMS 4 /* on average, when sorting */
#define FEW 24      /* are sorted by insertion */
#define DEPTH 4

bool rank_better(const struct candidate *a, const struct candidate *b) {
        return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

static void swap(struct candidate *a, struct candidate *b) {
        struct candidate c = *a;

        *a = *b;
        *b = c;
}

/* --- sorting few, or what bins cannot divide --- */

static void sort_few(struct candidate *items, size_t n) {
        for (size_t i = 1; i < n; i++) {
                struct candidate moving = items[i];
                size_t at = i;

                for (; at > 0 && rank_better(&moving, &items[at - 1]); at--)
                        items[at] = items[at - 1];
                items[at] = moving;
        }
}

/* The worst is on top. */
static void sift_down(struct candidate *items, size_t n, size_t i) {
        struct candidate moving = items[i];

        for (size_t child; (child = 2 * i + 1) < n; i = child) {
                if (child + 1 < n && rank_better(&items[child], &items[child + 1]))
                        child++;
                if (!rank_better(&moving, &items[child]))
                        break;
                items[i] = items[child];
        }
        items[i] = moving;
}

static void sort_by_heap(struct candidate *items, size_t n) {
        for (size_t i = n / 2; i-- > 0;)
                sift_down(items, n, i);
        for (; n > 1; n--) {
                swap(&items[0], &items[n - 1]);
                sift_down(items, n - 1, 0);
        }
}

static bool in_order(const struct candidate *items, size_t n) {
        for (size_t i = 1; i < n; i++)
                if (!rank_better(&items[i - 1], &items[i]))
                        return false;
        return true;
}

/* --- bins --- */

struct bins {
        size_t n;
        double greatest, per_logit;
};

/* False: these logits cannot be divided. */
static bool divide(struct bins *b, const struct candidate *items, size_t n, size_t n_bins) {
        double greatest = items[0].logit, least = greatest;

        for (size_t i = 1; i < n; i++) {
                greatest = MAX(greatest, items[i].logit);
                least = MIN(least, items[i].logit);
        }
        b->n = n_bins;
        b->greatest = greatest;
        b->per_logit = (double)n_bins / (greatest - least);
        return greatest > least && isfinite(b->per_logit) && b->per_logit > 0;
}

static size_t bin_of(const struct bins *b, const struct candidate *c) {
        return MIN((size_t)((b->greatest - c->logit) * b->per_logit), b->n - 1);
}

/* Move the items into the order of their bins. *ret: where each bin ends. */
static void move_to_bins(
        const struct bins *b, struct candidate *items, size_t n, uint32_t ret[static BINS]) {
        uint32_t next[BINS], at = 0;

        for (size_t i = 0; i < b->n; i++)
                ret[i] = 0;
        for (size_t i = 0; i < n; i++)
                ret[bin_of(b, &items[i])]++;
        for (size_t i = 0; i < b->n; i++) {
                next[i] = at;
                at += ret[i];
                ret[i] = at;
        }
        for (size_t i = 0; i < b->n; i++)
                while (next[i] < ret[i]) {
                        struct candidate *c = &items[next[i]];
                        size_t to = bin_of(b, c);

                        if (to == i)
                                next[i]++;
                        else
                                swap(c, &items[next[to]++]);
                }
}

static void sort(struct candidate *items, size_t n, unsigned depth) {
        uint32_t ends[BINS], begin = 0;
        struct bins b;

        if (n <= FEW) {
                sort_few(items, n);
                return;
        }
        if (depth == DEPTH || !divide(&b, items, n, MIN(n / BIN_ITEMS, BINS))) {
                if (!in_order(items, n)) /* equal ones mostly are */
                        sort_by_heap(items, n);
                return;
        }
        move_to_bins(&b, items, n, ends);
        for (size_t i = 0; i < b.n; begin = ends[i++])
                sort(items + begin, ends[i] - begin, depth + 1);
}

/* Bring at least the @want best to the front. Returns how many are there: these are the best. */
static size_t select_best(struct candidate *items, size_t n, size_t want) {
        for (unsigned depth = 0; depth < DEPTH && n > 4 * want; depth++) {
                uint32_t count[BINS] = {0};
                size_t sum = 0, last = 0, at = 0;
                struct bins b;

                if (!divide(&b, items, n, BINS))
                        break;
                for (size_t i = 0; i < n; i++)
                        count[bin_of(&b, &items[i])]++;
                while ((sum += count[last]) < want)
                        last++;
                for (size_t i = 0; at < sum; i++)
                        if (bin_of(&b, &items[i]) <= last)
                                swap(&items[at++], &items[i]);
                n = sum;
        }
        return n;
}

/* --- stages --- */

void rank_init(struct rank *r, struct candidate *items, size_t n) {
        *r = (struct rank){.items = items, .n = n, .left = n};
}

static void extend(struct rank *r) {
        struct candidate *items = r->items + r->sorted;
        size_t n = r->n - r->sorted, want = MAX(FIRST, r->sorted * STAGE);

        if (want < n / 2)
                n = select_best(items, n, want);
        sort(items, n, 0);
        r->sorted += n;
}

struct candidate *rank_take(struct rank *r) {
        size_t at = r->n - r->left;

        assert(r->left > 0);
        if (at == r->sorted)
                extend(r);
        r->left--;
        return &r->items[at];
}

/* --- a first look --- */

static void sift_floats(float *heap, size_t n, size_t i) {
        float moving = heap[i];

        for (size_t child; (child = 2 * i + 1) < n; i = child) {
                if (child + 1 < n && heap[child + 1] < heap[child])
                        child++;
                if (!(heap[child] < moving))
                        break;
                heap[i] = heap[child];
        }
        heap[i] = moving;
}

/* The greatest of up to 64. */
static float greatest_of(const float *logits, size_t n) {
        float lanes[16], most = -INFINITY;

        for (size_t k = 0; k < 16; k++)
                lanes[k] = -INFINITY;
        for (size_t i = 0; i + 16 <= n; i += 16)
                for (size_t k = 0; k < 16; k++)
                        lanes[k] = logits[i + k] > lanes[k] ? logits[i + k] : lanes[k];
        for (size_t i = n / 16 * 16; i < n; i++)
                most = logits[i] > most ? logits[i] : most;
        for (size_t k = 0; k < 16; k++)
                most = lanes[k] > most ? lanes[k] : most;
        return most;
}

/* The @want greatest of 64 each are reached by as many at least. */
float rank_reached(const float *logits, size_t n, size_t want, float *greatest, float *heap) {
        size_t n_blocks = (n + 63) / 64;

        if (want == 0 || want > n_blocks / 4)
                return -INFINITY;
        for (size_t i = 0; i < n_blocks; i++)
                greatest[i] = greatest_of(logits + i * 64, MIN(n - i * 64, (size_t)64));
        /* the least of the greatest so far is on top */
        for (size_t i = 0; i < want; i++)
                heap[i] = greatest[i];
        for (size_t i = want / 2; i-- > 0;)
                sift_floats(heap, want, i);
        for (size_t i = want; i < n_blocks; i++)
                if (greatest[i] > heap[0]) {
                        heap[0] = greatest[i];
                        sift_floats(heap, want, 0);
                }
        return heap[0];
}
