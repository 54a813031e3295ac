/* SPDX-License-Identifier: MIT */
#include "client/stats-copy.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

/* The block. While `to` is NULL only its size is counted; the same calls then fill it. */
struct block {
        char *to;
        size_t size;
};

/* Room for @size bytes, with @from in it if that is not NULL; NULL while it is counted. */
static void *put(struct block *b, const void *from, size_t size) {
        void *at = b->to ? b->to + b->size : NULL;

        if (at && from && size > 0)
                memcpy(at, from, size);
        b->size += (size + 15) / 16 * 16;
        return at;
}

static const char *put_string(struct block *b, const char *s) {
        return s ? put(b, s, strlen(s) + 1) : NULL;
}

static const struct confab_stat *put_named(
        struct block *b, const struct confab_stat *from, size_t n) {
        struct confab_stat *to = put(b, from, n * sizeof(*from));

        for (size_t i = 0; i < n; i++) {
                const char *name = put_string(b, from[i].name);

                if (to)
                        to[i].name = name;
        }
        return to;
}

static size_t put_histograms(
        struct block *b, const struct confab_stats *from, const struct confab_histogram **ret) {
        size_t most = MIN(from->n_histograms, (size_t)STATS_COPY_MOST), n = 0;
        struct confab_histogram *to = put(b, NULL, most * sizeof(*to));

        for (size_t i = 0; i < most; i++) {
                struct confab_histogram h = from->histograms[i];

                if (h.n_bounds > STATS_COPY_MOST)
                        continue;
                h.name = put_string(b, h.name);
                h.bounds_usec = put(b, h.bounds_usec, h.n_bounds * sizeof(*h.bounds_usec));
                h.buckets = put(b, h.buckets, (h.n_bounds + 1) * sizeof(*h.buckets));
                if (to)
                        to[n] = h;
                n++;
        }
        *ret = to;
        return n;
}

static const struct confab_user *put_users(
        struct block *b, const struct confab_user *from, size_t n) {
        struct confab_user *to = put(b, from, n * sizeof(*from));

        for (size_t i = 0; i < n; i++) {
                const char *tenant = put_string(b, from[i].tenant);

                if (to)
                        to[i].tenant = tenant;
        }
        return to;
}

static struct confab_stats *put_all(struct block *b, const struct confab_stats *from) {
        struct confab_stats *to = put(b, from, sizeof(*from)), s = *from;

        s.version = put_string(b, from->version);
        s.n_stats = MIN(from->n_stats, (size_t)STATS_COPY_MOST);
        s.stats = put_named(b, from->stats, s.n_stats);
        s.n_histograms = put_histograms(b, from, &s.histograms);
        s.n_rates = MIN(from->n_rates, (size_t)STATS_COPY_MOST);
        s.rates = put(b, from->rates, s.n_rates * sizeof(*s.rates));
        s.n_own_rates = MIN(from->n_own_rates, (size_t)STATS_COPY_MOST);
        s.own_rates = put(b, from->own_rates, s.n_own_rates * sizeof(*s.own_rates));
        s.own = from->own ? put_users(b, from->own, 1) : NULL;
        s.n_users = MIN(from->n_users, (size_t)STATS_COPY_MOST);
        s.users = put_users(b, from->users, s.n_users);
        if (to)
                *to = s;
        return to;
}

struct confab_stats *stats_copy(const struct confab_stats *stats) {
        struct block b = {};

        put_all(&b, stats);
        b.to = calloc(1, b.size);
        b.size = 0;
        return b.to ? put_all(&b, stats) : NULL;
}
