/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "client/gateway/metrics.h"
#include <string.h>

/* What is written, and the first error. */
struct text {
        struct buf *out;
        int r;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...) {
        char line[512];
        va_list ap;

        va_start(ap, format);
        vsnprintf(line, sizeof(line), format, ap);
        va_end(ap);
        if (text->r == 0)
                text->r = buf_append_str(text->out, line);
}

static void put_head(struct text *text, const char *name, const char *type, const char *help) {
        put(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The value of a label. */
static void put_value(struct text *text, const char *value) {
        for (const char *p = value; *p && text->r == 0; p++) {
                if (*p == '\n')
                        text->r = buf_append_str(text->out, "\\n");
                else if (*p == '"' || *p == '\\')
                        text->r = buf_printf(text->out, "\\%c", *p);
                else
                        text->r = buf_append(text->out, p, 1);
        }
}

/* NAME{daemon="0",model="..."; the caller closes it. */
static void put_daemon(
        struct text *text, const char *name, size_t number, const struct metrics_daemon *daemon) {
        put(text, "%s{daemon=\"%zu\",model=\"", name, number);
        put_value(text, daemon->model);
        put(text, "\"");
}

/* ---- the gateway's ---- */

static void put_gateway(struct text *text, const struct metrics_gateway *gateway) {
        const struct {
                const char *name, *type, *help;
                uint64_t value;
        } rows[] = {{"confab_gateway_connections", "gauge", "Connections of clients.",
                            gateway->http.n_connections},
                {"confab_gateway_connections_idle", "gauge",
                        "Connections of clients that have no request.", gateway->http.n_idle},
                {"confab_gateway_connections_accepted_total", "counter",
                        "Connections of clients so far.", gateway->http.n_accepted},
                {"confab_gateway_requests_total", "counter", "Requests that were read completely.",
                        gateway->http.n_requests},
                {"confab_gateway_requests_refused_total", "counter",
                        "Requests refused as HTTP, before a dialect read them.",
                        gateway->http.n_refused},
                {"confab_gateway_bodies_bytes", "gauge", "Memory of bodies of requests.",
                        gateway->http.bodies_size},
                {"confab_gateway_lines", "gauge", "Connections to daemons.",
                        gateway->lines.n_lines},
                {"confab_gateway_lines_idle", "gauge", "Connections to daemons that wait for use.",
                        gateway->lines.n_idle},
                {"confab_gateway_lines_connected_total", "counter",
                        "Connections to daemons so far.", gateway->lines.n_connects},
                {"confab_gateway_lines_failed_total", "counter",
                        "Connections to daemons that failed.", gateway->lines.n_failed}};

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                put_head(text, rows[i].name, rows[i].type, rows[i].help);
                put(text, "%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
        }
}

static void put_answers(struct text *text, const struct metrics_gateway *gateway) {
        static const char name[] = "confab_gateway_answers_total";

        put_head(text, name, "counter", "Answers by dialect and class of status.");
        for (size_t i = 0; i < gateway->n_answers; i++)
                for (unsigned class = 2; class <= 5; class ++)
                        put(text, "%s{dialect=\"%s\",status=\"%uxx\"} %llu\n", name,
                                gateway->answers[i].dialect, class,
                                (unsigned long long)gateway->answers[i].n[class]);
}

static void put_first(
        struct text *text, size_t number, const struct metrics_daemon *daemon, const char *name) {
        const struct meter *meter = &daemon->meter;
        char full[64];
        uint64_t n = 0;

        snprintf(full, sizeof(full), "%s_bucket", name);
        for (size_t i = 0; i < METER_N_BOUNDS; i++) {
                n += meter->n_first[i];
                put_daemon(text, full, number, daemon);
                put(text, ",le=\"%g\"} %llu\n", meter_bounds[i], (unsigned long long)n);
        }
        n += meter->n_first[METER_N_BOUNDS];
        put_daemon(text, full, number, daemon);
        put(text, ",le=\"+Inf\"} %llu\n", (unsigned long long)n);
        snprintf(full, sizeof(full), "%s_sum", name);
        put_daemon(text, full, number, daemon);
        put(text, "} %.6f\n", (double)meter->first_usec / 1e6);
        snprintf(full, sizeof(full), "%s_count", name);
        put_daemon(text, full, number, daemon);
        put(text, "} %llu\n", (unsigned long long)n);
}

static void put_meters(struct text *text, const struct metrics_daemon *daemons, size_t n) {
        static const struct {
                const char *name, *help;
                size_t at;
        } rows[] = {{"confab_gateway_replies_total", "Replies that were made for clients.",
                            offsetof(struct meter, n_replies)},
                {"confab_gateway_prompt_tokens_total", "Tokens of the prompts of replies.",
                        offsetof(struct meter, n_prompt)},
                {"confab_gateway_cached_tokens_total",
                        "Tokens of prompts that were not computed again.",
                        offsetof(struct meter, n_cached)},
                {"confab_gateway_generated_tokens_total", "Tokens of replies.",
                        offsetof(struct meter, n_generated)}};
        static const char first[] = "confab_gateway_first_token_seconds";

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                put_head(text, rows[i].name, "counter", rows[i].help);
                for (size_t k = 0; k < n; k++) {
                        const char *meter = (const char *)&daemons[k].meter;
                        uint64_t value;

                        memcpy(&value, meter + rows[i].at, sizeof(value));
                        put_daemon(text, rows[i].name, k, &daemons[k]);
                        put(text, "} %llu\n", (unsigned long long)value);
                }
        }
        put_head(text, first, "histogram", "Time from a request to the first token of its reply.");
        for (size_t k = 0; k < n; k++)
                put_first(text, k, &daemons[k], first);
}

/* ---- the daemons' ---- */

/* Names of another kind, from a newer daemon, can't be told. */
static bool is_name(const char *name) {
        return *name && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name);
}

/* The figure of this name; mostly it is at the same place in all daemons. */
static const struct metrics_stat *find(
        const struct metrics_daemon *daemon, const char *name, size_t near) {
        if (near < daemon->n_stats && strcmp(daemon->stats[near].name, name) == 0)
                return &daemon->stats[near];
        for (size_t i = 0; i < daemon->n_stats; i++)
                if (strcmp(daemon->stats[i].name, name) == 0)
                        return &daemon->stats[i];
        return NULL;
}

static void put_stat(struct text *text, const struct metrics_daemon *daemons, size_t n,
        size_t first, size_t place) {
        const char *name = daemons[first].stats[place].name;
        char full[96];

        snprintf(full, sizeof(full), "confab_daemon_%s", name);
        put(text,
                "# HELP %s The figure %s of Stats, see docs/protocol.md.\n"
                "# TYPE %s untyped\n",
                full, name, full);
        for (size_t k = first; k < n; k++) {
                const struct metrics_stat *stat = find(&daemons[k], name, place);

                if (!stat)
                        continue;
                put_daemon(text, full, k, &daemons[k]);
                put(text, "} %llu\n", (unsigned long long)stat->value);
        }
}

static bool is_told(const struct metrics_daemon *daemons, size_t before, const char *name) {
        for (size_t k = 0; k < before; k++)
                if (find(&daemons[k], name, 0))
                        return true;
        return false;
}

int metrics_write(struct buf *out, const struct metrics_gateway *gateway,
        const struct metrics_daemon *daemons, size_t n_daemons) {
        struct text text = {.out = out};

        if (gateway) {
                put_gateway(&text, gateway);
                put_answers(&text, gateway);
                put_meters(&text, daemons, n_daemons);
        }
        put_head(&text, "confab_daemon_up", "gauge", "Whether the daemon has answered.");
        for (size_t k = 0; k < n_daemons; k++) {
                put_daemon(&text, "confab_daemon_up", k, &daemons[k]);
                put(&text, "} %d\n", daemons[k].up);
        }
        for (size_t k = 0; k < n_daemons; k++)
                for (size_t i = 0; i < daemons[k].n_stats; i++)
                        if (is_name(daemons[k].stats[i].name) &&
                                !is_told(daemons, k, daemons[k].stats[i].name))
                                put_stat(&text, daemons, n_daemons, k, i);
        return text.r;
}
