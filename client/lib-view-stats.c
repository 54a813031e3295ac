/* SPDX-License-Identifier: MIT */
/* As lib-view.c: figures. */
#include "base/histogram.h"
#include "client/lib-internal.h"

double confab_histogram_quantile(const struct confab_histogram *histogram, double q) {
        return histogram_quantile(
                histogram->bounds_usec, histogram->buckets, histogram->n_bounds, q);
}

static int view_named(struct view *v, const Confab__V1__StatsResult *m, struct err *e) {
        struct confab_stat *stats = view_alloc(v, m->n_stats, sizeof(*stats), e);

        if (!stats)
                return -ERR_NOMEM;
        for (size_t i = 0; i < m->n_stats; i++)
                stats[i] = (struct confab_stat){
                        m->stats[i]->name ? m->stats[i]->name : "", m->stats[i]->value};
        v->stats.stats = m->n_stats ? stats : NULL;
        v->stats.n_stats = m->n_stats;
        return 0;
}

/* One whose parts do not fit together is left out: nothing can be said of it. */
static int view_histograms(struct view *v, const Confab__V1__StatsResult *m, struct err *e) {
        struct confab_histogram *to = view_alloc(v, m->n_histograms, sizeof(*to), e);
        size_t n = 0;

        if (!to)
                return -ERR_NOMEM;
        for (size_t i = 0; i < m->n_histograms; i++) {
                const Confab__V1__Histogram *from = m->histograms[i];

                if (!from->name || from->n_buckets != from->n_bounds_usec + 1)
                        continue;
                to[n++] = (struct confab_histogram){.name = from->name,
                        .count = from->count,
                        .sum_usec = from->sum_usec,
                        .bounds_usec = from->bounds_usec,
                        .n_bounds = from->n_bounds_usec,
                        .buckets = from->buckets};
        }
        v->stats.histograms = to;
        v->stats.n_histograms = n;
        return 0;
}

static struct confab_rates *view_rates(
        struct view *v, Confab__V1__Rates *const *from, size_t n, struct err *e) {
        struct confab_rates *to = view_alloc(v, n, sizeof(*to), e);

        for (size_t i = 0; to && i < n; i++)
                to[i] = (struct confab_rates){
                        from[i]->seconds, from[i]->prefilled, from[i]->decoded, from[i]->requests};
        return to;
}

static struct confab_user *view_some_users(
        struct view *v, Confab__V1__User *const *from, size_t n, struct err *e) {
        struct confab_user *to = view_alloc(v, n, sizeof(*to), e);

        for (size_t i = 0; to && i < n; i++)
                view_user(&to[i], from[i]);
        return to;
}

static int view_all_rates(struct view *v, const Confab__V1__StatsResult *m, struct err *e) {
        v->stats.rates = view_rates(v, m->rates, m->n_rates, e);
        if (!v->stats.rates)
                return -ERR_NOMEM;
        v->stats.own_rates = view_rates(v, m->own_rates, m->n_own_rates, e);
        if (!v->stats.own_rates)
                return -ERR_NOMEM;
        v->stats.n_rates = m->n_rates;
        v->stats.n_own_rates = m->n_own_rates;
        return 0;
}

static int view_all_users(struct view *v, const Confab__V1__StatsResult *m, struct err *e) {
        if (m->own) {
                v->stats.own = view_some_users(v, &m->own, 1, e);
                if (!v->stats.own)
                        return -ERR_NOMEM;
        }
        v->stats.users = view_some_users(v, m->users, m->n_users, e);
        if (!v->stats.users)
                return -ERR_NOMEM;
        v->stats.n_users = m->n_users;
        v->stats.more_users = m->more_users;
        return 0;
}

int view_stats(struct view *v, const Confab__V1__StatsResult *m, struct err *e) {
        int r;

        v->stats = (struct confab_stats){.all_users = m->all_users,
                .version = m->version ? m->version : "",
                .started_usec = m->started_usec,
                .uptime_usec = m->uptime_usec,
                .time_usec = m->time_usec,
                .since_usec = m->since_usec};
        v->event.stats = &v->stats;
        r = view_named(v, m, e);
        if (r == 0)
                r = view_histograms(v, m, e);
        if (r == 0)
                r = view_all_rates(v, m, e);
        return r < 0 ? r : view_all_users(v, m, e);
}
