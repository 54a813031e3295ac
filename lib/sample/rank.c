/* SPDX-License-Identifier: MIT */
#include "sample/rank.h"
#include <assert.h>

bool rank_better(const struct candidate *a, const struct candidate *b) {
        return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

static void sift_down(struct candidate *items, size_t n, size_t i) {
        struct candidate moving = items[i];

        for (size_t child; (child = 2 * i + 1) < n; i = child) {
                if (child + 1 < n && rank_better(&items[child + 1], &items[child]))
                        child++;
                if (!rank_better(&items[child], &moving))
                        break;
                items[i] = items[child];
        }
        items[i] = moving;
}

void rank_init(struct rank *r, struct candidate *items, size_t n) {
        *r = (struct rank){.items = items, .n = n, .left = n};
        for (size_t i = n / 2; i-- > 0;)
                sift_down(items, n, i);
}

struct candidate *rank_take(struct rank *r) {
        struct candidate best = r->items[0];
        size_t last = r->left - 1;

        assert(r->left > 0);
        r->items[0] = r->items[last];
        if (last)
                sift_down(r->items, last, 0);
        r->items[last] = best;
        r->left = last;
        return &r->items[last];
}
