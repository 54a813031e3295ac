/* SPDX-License-Identifier: MIT */
#include "base/histogram.h"

/* The first bound that is not less than @usec, or HISTOGRAM_N_BOUNDS. */
static size_t bucket_of(uint64_t usec) {
        uint64_t firsts = usec / HISTOGRAM_FIRST_USEC + (usec % HISTOGRAM_FIRST_USEC != 0);
        size_t i;

        if (firsts <= 1)
                return 0;
        i = 64 - (size_t)__builtin_clzll(firsts - 1); /* the least i with firsts <= 1 << i */
        return i < HISTOGRAM_N_BOUNDS ? i : HISTOGRAM_N_BOUNDS;
}

void histogram_add(struct histogram *h, uint64_t usec, uint64_t n) {
        h->n[bucket_of(usec)] += n;
        h->sum_usec += usec * n;
}

static uint64_t sum(const uint64_t *n, size_t n_n) {
        uint64_t all = 0;

        for (size_t i = 0; i < n_n; i++)
                all += n[i];
        return all;
}

uint64_t histogram_count(const struct histogram *h) {
        return sum(h->n, HISTOGRAM_N_BOUNDS + 1);
}

double histogram_quantile(
        const uint64_t *bounds_usec, const uint64_t *n, size_t n_bounds, double q) {
        double rank = q * (double)sum(n, n_bounds + 1), below = 0;

        if (rank <= 0)
                rank = 0;
        for (size_t i = 0; i < n_bounds; i++) {
                double from = i > 0 ? (double)bounds_usec[i - 1] : 0, to = (double)bounds_usec[i];

                if (n[i] > 0 && below + (double)n[i] >= rank)
                        return from + (to - from) * (rank - below) / (double)n[i];
                below += (double)n[i];
        }
        return n[n_bounds] > 0 && n_bounds > 0 ? (double)bounds_usec[n_bounds - 1] : 0;
}
