/* SPDX-License-Identifier: MIT */
/* See metrics.h. */
#include "client/gateway/metrics.h"
#include "base/util.h"
#include "client/gateway/gateway-private.h"
#include "client/gateway/own.h"
#include "client/stats-copy.h"
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdio.h>
#include <unistd.h>

/* A daemon that is asked. */
struct asked {
        struct scrape *scrape;
        struct line *line;          /* NULL: it has answered, or failed */
        struct confab_stats *stats; /* owned */
};

struct scrape {
        struct gateway_call *call;
        struct event late;
        size_t n_asked, n_waiting;
        struct asked asked[];
};

static void scrape_free(struct scrape *scrape) {
        event_del(&scrape->late);
        for (size_t i = 0; i < scrape->n_asked; i++) {
                line_put(scrape->asked[i].line);
                free(scrape->asked[i].stats);
        }
        free(scrape);
}

/* ---- the answer ---- */

/* Figures of the gateway are those of all its users. */
static bool sees_gateway(const struct gateway_owner *owner) {
        return !owner->tenant[0] && (owner->uid == 0 || owner->uid == (uint32_t)geteuid());
}

static int write_scrape(struct buf *out, struct scrape *scrape) {
        struct gateway *gateway = scrape->call->gateway;
        struct backends *backends = gateway_backends(gateway);
        struct metrics_gateway own = {.answers = gateway_answers(gateway, &own.n_answers)};
        struct metrics_daemon *daemons = calloc(scrape->n_asked, sizeof(*daemons));
        int r;

        if (!daemons)
                return -ERR_NOMEM;
        http_server_figures(gateway_http(gateway), &own.http);
        backends_figures(backends, &own.lines);
        for (size_t i = 0; i < scrape->n_asked; i++) {
                const struct asked *asked = &scrape->asked[i];
                struct backend *backend = backends_at(backends, i);

                daemons[i] = (struct metrics_daemon){.told = {.model = backend_model(backend)->name,
                                                             .up = asked->stats != NULL,
                                                             .stats = asked->stats},
                        .meter = *backend_meter(backend)};
        }
        r = metrics_write(
                out, sees_gateway(&scrape->call->owner) ? &own : NULL, daemons, scrape->n_asked);
        free(daemons);
        return r;
}

static void reply(struct scrape *scrape) {
        _cleanup_(buf_deinit) struct buf out = BUF_NULL;
        struct gateway_call *call = scrape->call;
        int r = write_scrape(&out, scrape);
        struct err e = {0};

        scrape_free(scrape);
        if (r < 0) {
                err_no_memory(&e);
                own_refuse_err(call, &e, NULL);
                return;
        }
        http_reply(call->exchange, 200, "text/plain; version=0.0.4; charset=utf-8", out.data,
                out.size);
}

/* ---- asking ---- */

static void on_stats(void *userdata, const struct confab_event *event) {
        struct asked *asked = userdata;
        struct scrape *scrape = asked->scrape;

        /* Without memory the daemon counts as down: what it said is not known. */
        if (event->kind == CONFAB_EVENT_STATS && !asked->stats)
                asked->stats = stats_copy(event->stats);
        if (!event->final)
                return;
        asked->line = line_put(asked->line);
        if (--scrape->n_waiting == 0)
                reply(scrape);
}

static void on_late(evutil_socket_t fd, short what, void *userdata) {
        reply(userdata);
}

static void on_closed(void *userdata) {
        scrape_free(userdata);
}

static void ask(struct scrape *scrape, size_t i) {
        const struct confab_request request = {
                .size = sizeof(request), .verb = CONFAB_STATS, .want_users = true};
        struct backend *backend = backends_at(gateway_backends(scrape->call->gateway), i);
        struct asked *asked = &scrape->asked[i];

        asked->scrape = scrape;
        if (line_get(&asked->line, backend, &scrape->call->owner, NULL) < 0)
                return;
        if (line_submit(asked->line, &request, on_stats, asked, NULL, NULL) < 0)
                asked->line = line_put(asked->line);
        else
                scrape->n_waiting++;
}

void metrics_handle(struct gateway_call *call) {
        static const struct http_answer_ops ops = {.closed = on_closed};
        static const struct timeval late = {.tv_sec = METRICS_ANSWER_SECONDS};
        size_t n = backends_count(gateway_backends(call->gateway));
        struct scrape *scrape = calloc(1, sizeof(*scrape) + n * sizeof(scrape->asked[0]));
        struct err e = {0};

        if (!scrape) {
                err_no_memory(&e);
                own_refuse_err(call, &e, NULL);
                return;
        }
        scrape->call = call;
        scrape->n_asked = n;
        event_assign(&scrape->late, gateway_base(call->gateway), -1, 0, on_late, scrape);
        for (size_t i = 0; i < n; i++)
                ask(scrape, i);
        http_set_ops(call->exchange, &ops, scrape);
        if (scrape->n_waiting == 0 || event_add(&scrape->late, &late) < 0)
                reply(scrape);
}
