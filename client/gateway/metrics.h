/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * /metrics: figures in Prometheus' text format, version 0.0.4.
 *
 *      metrics.c        asks the daemons for Stats, each over a line of the caller
 *      metrics-write.c  the gateway's figures -> text (pure); those of daemons are written by client/prometheus.c
 *
 * 1. Whoever asks sees of a daemon what it tells that user, and of the gateway, whose figures are those of all users,
 *    only what the gateway's own user (without a tenant) and root see.
 * 2. A daemon that does not answer in METRICS_ANSWER_SECONDS is down; the others are told.
 */
#include "base/buf.h"
#include "client/gateway/backend.h"
#include "client/gateway/http.h"
#include "client/prometheus.h"

#define METRICS_ANSWER_SECONDS 5

struct gateway_call;
void metrics_handle(struct gateway_call *call);

/* ---- metrics-write.c ---- */

/* A daemon's figures. */
struct metrics_daemon {
        struct prometheus_daemon told; /* what it has told */
        struct meter meter;
};
/* Answers of a dialect by the hundreds of their statuses: [1] 1xx ... */
struct metrics_answers {
        const char *dialect;
        uint64_t n[6];
};
/* The gateway's figures. */
struct metrics_gateway {
        struct http_figures http;
        struct backend_figures lines;
        const struct metrics_answers *answers; /* [n_answers] */
        size_t n_answers;
};

/* @gateway NULL: the caller may not see its figures, nor the daemons' meters. -ERR_NOMEM. */
int metrics_write(struct buf *out, const struct metrics_gateway *gateway,
        const struct metrics_daemon *daemons, size_t n_daemons);
