/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "client/gateway/metrics.h"
#include <stdlib.h>
#include <string.h>

/* ---- the gateway's ---- */

static void put_gateway(struct prometheus *text, const struct metrics_gateway *gateway) {
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
                prometheus_put_head(text, rows[i].name, rows[i].type, rows[i].help);
                prometheus_put(text, "%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
        }
}

static void put_answers(struct prometheus *text, const struct metrics_gateway *gateway) {
        static const char name[] = "confab_gateway_answers_total";

        prometheus_put_head(text, name, "counter", "Answers by dialect and class of status.");
        for (size_t i = 0; i < gateway->n_answers; i++)
                for (unsigned class = 2; class <= 5; class ++)
                        prometheus_put(text, "%s{dialect=\"%s\",status=\"%uxx\"} %llu\n", name,
                                gateway->answers[i].dialect, class,
                                (unsigned long long)gateway->answers[i].n[class]);
}

static void put_meters(struct prometheus *text, const struct metrics_daemon *daemons, size_t n) {
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
                prometheus_put_head(text, rows[i].name, "counter", rows[i].help);
                for (size_t k = 0; k < n; k++) {
                        const char *meter = (const char *)&daemons[k].meter;
                        uint64_t value;

                        memcpy(&value, meter + rows[i].at, sizeof(value));
                        prometheus_put_daemon(text, rows[i].name, k, daemons[k].told.model);
                        prometheus_put(text, "} %llu\n", (unsigned long long)value);
                }
        }
        prometheus_put_head(
                text, first, "histogram", "Time from a request to the first token of its reply.");
        for (size_t k = 0; k < n; k++)
                prometheus_put_histogram(text, first, k, daemons[k].told.model, meter_bounds,
                        daemons[k].meter.n_first, METER_N_BOUNDS,
                        (double)daemons[k].meter.first_usec / 1e6);
}

int metrics_write(struct buf *out, const struct metrics_gateway *gateway,
        const struct metrics_daemon *daemons, size_t n_daemons) {
        struct prometheus text = {.out = out};
        struct prometheus_daemon *told;

        if (gateway) {
                put_gateway(&text, gateway);
                put_answers(&text, gateway);
                put_meters(&text, daemons, n_daemons);
        }
        told = calloc(n_daemons + 1, sizeof(*told));
        if (!told)
                return -ERR_NOMEM;
        for (size_t k = 0; k < n_daemons; k++)
                told[k] = daemons[k].told;
        prometheus_put_daemons(&text, told, n_daemons);
        free(told);
        return text.r;
}
