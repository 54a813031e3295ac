/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Prometheus' text format, version 0.0.4: what the gateway's /metrics and `confab stats --prometheus` say of daemons, and the
 * parts that the gateway's own figures are made of. Pure.
 *
 * 1. Samples of one name stand together, behind one HELP and one TYPE, and no set of labels comes twice: each daemon has its
 *    number beside the model's name.
 * 2. Histograms are cumulative, and end with +Inf, which equals _count.
 * 3. docs/http.md has the table of all names; tests/gateway/metrics.py holds it equal to what is written.
 */
#include "base/buf.h"
#include "client/confab.h"

/* What is written, and the first error: 0 or -ERR_NOMEM. */
struct prometheus {
        struct buf *out;
        int r;
};

/* A daemon's figures. */
struct prometheus_daemon {
        const char *model; /* or "" */
        bool up;
        const struct confab_stats *stats; /* NULL: it did not answer */
};

/* All that there is to say of daemons. */
void prometheus_put_daemons(
        struct prometheus *text, const struct prometheus_daemon *daemons, size_t n_daemons);

/* ---- parts ---- */

__attribute__((format(printf, 2, 3))) void prometheus_put(
        struct prometheus *text, const char *format, ...);
void prometheus_put_head(
        struct prometheus *text, const char *name, const char *type, const char *help);
/* ,NAME="VALUE", or without @more before it no comma: VALUE is escaped. */
void prometheus_put_label(struct prometheus *text, bool more, const char *name, const char *value);
/* NAME{daemon="0",model="..."; the caller closes it. */
void prometheus_put_daemon(
        struct prometheus *text, const char *name, size_t number, const char *model);
/* The samples of one histogram of a daemon: @n[n_bounds + 1], not cumulative. */
void prometheus_put_histogram(struct prometheus *text, const char *name, size_t number,
        const char *model, const double *bounds, const uint64_t *n, size_t n_bounds, double sum);
