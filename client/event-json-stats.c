/* SPDX-License-Identifier: MIT */
/* Figures. The named ones are members by themselves; what else Stats tells stands beside them, under its fields' names. */
#include "client/event-json.h"

static void put_u64s(struct json *j, const char *key, const uint64_t *values, size_t n) {
        json_put_key(j, key);
        json_array_begin(j);
        for (size_t i = 0; i < n; i++)
                json_put_u64(j, values[i]);
        json_array_end(j);
}

static void put_quantile(
        struct json *j, const char *key, const struct confab_histogram *h, double q) {
        json_put_key_u64(j, key, (uint64_t)(confab_histogram_quantile(h, q) + 0.5));
}

static void put_histogram(struct json *j, const struct confab_histogram *h) {
        json_object_begin(j);
        json_put_key_string(j, "name", h->name);
        json_put_key_u64(j, "count", h->count);
        json_put_key_u64(j, "sum_usec", h->sum_usec);
        put_quantile(j, "p50_usec", h, 0.5);
        put_quantile(j, "p90_usec", h, 0.9);
        put_quantile(j, "p99_usec", h, 0.99);
        put_u64s(j, "bounds_usec", h->bounds_usec, h->n_bounds);
        put_u64s(j, "buckets", h->buckets, h->n_bounds + 1);
        json_object_end(j);
}

static void put_rate(struct json *j, const char *key, float rate) {
        json_put_key(j, key);
        json_put_float(j, rate);
}

static void put_rates(struct json *j, const char *key, const struct confab_rates *rates, size_t n) {
        json_put_key(j, key);
        json_array_begin(j);
        for (size_t i = 0; i < n; i++) {
                json_object_begin(j);
                json_put_key_u64(j, "seconds", rates[i].seconds);
                put_rate(j, "prefilled", rates[i].prefilled);
                put_rate(j, "decoded", rates[i].decoded);
                put_rate(j, "requests", rates[i].requests);
                json_object_end(j);
        }
        json_array_end(j);
}

static void put_users(struct json *j, const struct confab_stats *stats) {
        json_put_key(j, "users");
        json_array_begin(j);
        for (size_t i = 0; i < stats->n_users; i++)
                event_json_user(j, &stats->users[i]);
        json_array_end(j);
        json_put_key_bool(j, "more_users", stats->more_users);
}

static void put_more(struct json *j, const struct confab_stats *stats) {
        json_put_key_bool(j, "all_users", stats->all_users);
        json_put_key_string(j, "version", stats->version);
        json_put_key_u64(j, "started_usec", stats->started_usec);
        json_put_key_u64(j, "uptime_usec", stats->uptime_usec);
        json_put_key_u64(j, "time_usec", stats->time_usec);
        if (stats->since_usec)
                json_put_key_u64(j, "since_usec", stats->since_usec);
        json_put_key(j, "histograms");
        json_array_begin(j);
        for (size_t i = 0; i < stats->n_histograms; i++)
                put_histogram(j, &stats->histograms[i]);
        json_array_end(j);
        put_rates(j, "rates", stats->rates, stats->n_rates);
        if (stats->own) {
                json_put_key(j, "own");
                event_json_user(j, stats->own);
        }
        put_rates(j, "own_rates", stats->own_rates, stats->n_own_rates);
        if (stats->n_users > 0)
                put_users(j, stats);
}

void event_json_stats(struct json *j, const struct confab_stats *stats) {
        json_object_begin(j);
        for (size_t i = 0; i < stats->n_stats; i++)
                json_put_key_u64(j, stats->stats[i].name, stats->stats[i].value);
        if (stats->started_usec) /* else the daemon is an older one */
                put_more(j, stats);
        json_object_end(j);
}
