/* SPDX-License-Identifier: MIT */
#include "client/prometheus.h"
#include "base/util.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MOST_BOUNDS 64

/* ---- parts ---- */

void prometheus_put(struct prometheus *text, const char *format, ...) {
        char line[512];
        va_list ap;

        va_start(ap, format);
        vsnprintf(line, sizeof(line), format, ap);
        va_end(ap);
        if (text->r == 0)
                text->r = buf_append_str(text->out, line);
}

void prometheus_put_head(
        struct prometheus *text, const char *name, const char *type, const char *help) {
        prometheus_put(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_value(struct prometheus *text, const char *value) {
        for (const char *p = value; *p && text->r == 0; p++) {
                if (*p == '\n')
                        text->r = buf_append_str(text->out, "\\n");
                else if (*p == '"' || *p == '\\')
                        text->r = buf_printf(text->out, "\\%c", *p);
                else
                        text->r = buf_append(text->out, p, 1);
        }
}

void prometheus_put_label(struct prometheus *text, bool more, const char *name, const char *value) {
        prometheus_put(text, "%s%s=\"", more ? "," : "", name);
        put_value(text, value);
        prometheus_put(text, "\"");
}

void prometheus_put_daemon(
        struct prometheus *text, const char *name, size_t number, const char *model) {
        prometheus_put(text, "%s{daemon=\"%zu\"", name, number);
        prometheus_put_label(text, true, "model", model);
}

void prometheus_put_histogram(struct prometheus *text, const char *name, size_t number,
        const char *model, const double *bounds, const uint64_t *n, size_t n_bounds, double sum) {
        char full[96];
        uint64_t so_far = 0;

        snprintf(full, sizeof(full), "%s_bucket", name);
        for (size_t i = 0; i <= n_bounds; i++) {
                so_far += n[i];
                prometheus_put_daemon(text, full, number, model);
                if (i < n_bounds)
                        prometheus_put(text, ",le=\"%.10g\"} %llu\n", bounds[i],
                                (unsigned long long)so_far);
        }
        prometheus_put(text, ",le=\"+Inf\"} %llu\n", (unsigned long long)so_far);
        snprintf(full, sizeof(full), "%s_sum", name);
        prometheus_put_daemon(text, full, number, model);
        prometheus_put(text, "} %.6f\n", sum);
        snprintf(full, sizeof(full), "%s_count", name);
        prometheus_put_daemon(text, full, number, model);
        prometheus_put(text, "} %llu\n", (unsigned long long)so_far);
}

/* ---- the daemons ---- */

struct daemons {
        const struct prometheus_daemon *all; /* [n] */
        size_t n;
};

static void put_states(struct prometheus *text, const struct daemons *daemons) {
        static const char up[] = "confab_daemon_up", age[] = "confab_uptime_seconds",
                          build[] = "confab_build_info";

        prometheus_put_head(text, up, "gauge", "Whether the daemon has answered.");
        for (size_t k = 0; k < daemons->n; k++) {
                prometheus_put_daemon(text, up, k, daemons->all[k].model);
                prometheus_put(text, "} %d\n", daemons->all[k].up);
        }
        prometheus_put_head(text, age, "gauge", "Time since the daemon was ready.");
        for (size_t k = 0; k < daemons->n; k++) {
                const struct confab_stats *stats = daemons->all[k].stats;

                if (!stats || !stats->started_usec)
                        continue;
                prometheus_put_daemon(text, age, k, daemons->all[k].model);
                prometheus_put(text, "} %.6f\n", (double)stats->uptime_usec / 1e6);
        }
        prometheus_put_head(text, build, "gauge", "1, with the version of the daemon.");
        for (size_t k = 0; k < daemons->n; k++) {
                const struct confab_stats *stats = daemons->all[k].stats;

                if (!stats || !*stats->version)
                        continue;
                prometheus_put_daemon(text, build, k, daemons->all[k].model);
                prometheus_put_label(text, true, "version", stats->version);
                prometheus_put(text, "} 1\n");
        }
}

/* ---- latencies ---- */

static const struct {
        const char *name, *help; /* the name as the daemon tells it */
} latencies[] = {
        {"queue", "Time from a request that computes to its place among those at work."},
        {"restore", "Time until memory that was on disk is back in RAM."},
        {"prefill", "Time to compute a prompt, as far as it was not known."},
        {"decode", "Time from the prompt to the last token of a reply."},
        {"token", "Time from one token of a reply to the next."},
        {"commit", "Time until a turn is durable, as its client waits for it."},
        {"first_token", "Time from a request to the first token of its reply."},
};

static const struct confab_histogram *find_histogram(
        const struct confab_stats *stats, const char *name) {
        for (size_t i = 0; stats && i < stats->n_histograms; i++)
                if (strcmp(stats->histograms[i].name, name) == 0 &&
                        stats->histograms[i].n_bounds <= MOST_BOUNDS)
                        return &stats->histograms[i];
        return NULL;
}

static void put_latencies(struct prometheus *text, const struct daemons *daemons) {
        for (size_t i = 0; i < ARRAY_SIZE(latencies); i++) {
                char name[64];

                snprintf(name, sizeof(name), "confab_%s_seconds", latencies[i].name);
                prometheus_put_head(text, name, "histogram", latencies[i].help);
                for (size_t k = 0; k < daemons->n; k++) {
                        const struct confab_histogram *h =
                                find_histogram(daemons->all[k].stats, latencies[i].name);
                        double bounds[MOST_BOUNDS];

                        for (size_t b = 0; h && b < h->n_bounds; b++)
                                bounds[b] = (double)h->bounds_usec[b] / 1e6;
                        if (h)
                                prometheus_put_histogram(text, name, k, daemons->all[k].model,
                                        bounds, h->buckets, h->n_bounds, (double)h->sum_usec / 1e6);
                }
        }
}

/* ---- users ---- */

static const struct {
        const char *name, *type, *help;
        size_t at;
} user_rows[] = {
#define ROW(name, type, field, help)                                                               \
        { "confab_user_" name, type, help, offsetof(struct confab_user, field) }
        ROW("conversations", "gauge", n_conversations, "Conversations of the user."),
        ROW("tokens", "gauge", n_tokens, "Tokens in conversations of the user."),
        ROW("ram_bytes", "gauge", ram_size,
                "Memory of the user's conversations in RAM; what two share counts twice."),
        ROW("disk_bytes", "gauge", disk_size, "Spill files that the user pays for."),
        ROW("requests", "gauge", n_requests, "Requests of the user in flight."),
        ROW("requests_total", "counter", requests_total, "Requests of the user so far."),
        ROW("tokens_prefilled_total", "counter", tokens_prefilled,
                "Tokens of prompts that were computed for the user."),
        ROW("tokens_decoded_total", "counter", tokens_decoded, "Tokens of replies to the user."),
#undef ROW
};

static void put_user_row(struct prometheus *text, size_t row, size_t number,
        const struct prometheus_daemon *daemon, const struct confab_user *user) {
        uint64_t value;

        memcpy(&value, (const char *)user + user_rows[row].at, sizeof(value));
        prometheus_put_daemon(text, user_rows[row].name, number, daemon->model);
        prometheus_put(text, ",uid=\"%u\"", user->uid);
        if (user->tenant && *user->tenant)
                prometheus_put_label(text, true, "tenant", user->tenant);
        prometheus_put(text, "} %llu\n", (unsigned long long)value);
}

/* Where nobody asked for users, the caller alone. */
static void put_users(struct prometheus *text, const struct daemons *daemons) {
        for (size_t row = 0; row < ARRAY_SIZE(user_rows); row++) {
                prometheus_put_head(
                        text, user_rows[row].name, user_rows[row].type, user_rows[row].help);
                for (size_t k = 0; k < daemons->n; k++) {
                        const struct confab_stats *stats = daemons->all[k].stats;

                        if (!stats)
                                continue;
                        for (size_t i = 0; i < stats->n_users; i++)
                                put_user_row(text, row, k, &daemons->all[k], &stats->users[i]);
                        if (stats->n_users == 0 && stats->own)
                                put_user_row(text, row, k, &daemons->all[k], stats->own);
                }
        }
}

/* ---- figures by name ---- */

/* Names of another kind, from a newer daemon, can't be told. */
static bool is_name(const char *name) {
        return *name && strlen(name) < 64 &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name);
}

/* The figure of this name; mostly it is at the same place in all daemons. */
static const struct confab_stat *find(
        const struct prometheus_daemon *daemon, const char *name, size_t near) {
        const struct confab_stats *stats = daemon->stats;

        if (stats && near < stats->n_stats && strcmp(stats->stats[near].name, name) == 0)
                return &stats->stats[near];
        for (size_t i = 0; stats && i < stats->n_stats; i++)
                if (strcmp(stats->stats[i].name, name) == 0)
                        return &stats->stats[i];
        return NULL;
}

static void put_stat(
        struct prometheus *text, const struct daemons *daemons, size_t first, size_t place) {
        const char *name = daemons->all[first].stats->stats[place].name;
        char full[96];

        snprintf(full, sizeof(full), "confab_daemon_%s", name);
        prometheus_put(text,
                "# HELP %s The figure %s of Stats, see docs/protocol.md.\n"
                "# TYPE %s untyped\n",
                full, name, full);
        for (size_t k = first; k < daemons->n; k++) {
                const struct confab_stat *stat = find(&daemons->all[k], name, place);

                if (!stat)
                        continue;
                prometheus_put_daemon(text, full, k, daemons->all[k].model);
                prometheus_put(text, "} %llu\n", (unsigned long long)stat->value);
        }
}

/* By an earlier daemon, or at an earlier place of the same one. */
static bool is_told(const struct daemons *daemons, size_t k, size_t place) {
        const struct confab_stat *stats = daemons->all[k].stats->stats;

        for (size_t i = 0; i < k; i++)
                if (find(&daemons->all[i], stats[place].name, place))
                        return true;
        return find(&daemons->all[k], stats[place].name, 0) != &stats[place];
}

static void put_stats(struct prometheus *text, const struct daemons *daemons) {
        for (size_t k = 0; k < daemons->n; k++) {
                const struct confab_stats *stats = daemons->all[k].stats;

                for (size_t i = 0; stats && i < stats->n_stats; i++)
                        if (is_name(stats->stats[i].name) && !is_told(daemons, k, i))
                                put_stat(text, daemons, k, i);
        }
}

void prometheus_put_daemons(
        struct prometheus *text, const struct prometheus_daemon *daemons, size_t n_daemons) {
        const struct daemons all = {daemons, n_daemons};

        put_states(text, &all);
        put_latencies(text, &all);
        put_users(text, &all);
        put_stats(text, &all);
}
