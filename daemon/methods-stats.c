/* SPDX-License-Identifier: MIT */
/*
 * Stats: who is told what.
 *
 * 1. Figures, histograms and rates are those of all users for administrators (peer.h); for all others their own (I6). `own` and `own_rates` are everybody's own.
 * 2. Those who see everything may name a user, and are answered what that user would be.
 * 3. Of a user is counted by the engine what its requests took (engine/request/meters.c), and here what was done for the
 *    user's connections (users.h). The first has bounds of its own: where a user's meter was dropped, since_usec is later.
 */
#include "base/clock.h"
#include "base/util.h"
#include "daemon/methods-private.h"
#include <string.h>

#define SET(m, field, value) ((m)->field = (value), (m)->has_##field = true)

static int no_memory(struct err *e) {
        return err_set(e, ERR_NOMEM, "no memory for an answer");
}

/* --- the request --- */

/* Whom it names (2). */
static int take_user(const struct peer *p, const Confab__V1__Stats *m, struct engine_request *out,
        struct err *e) {
        const char *tenant = m->tenant && *m->tenant ? m->tenant : NULL;

        if (tenant && !m->has_uid)
                return err_set(e, ERR_INVALID, "tenant: the uid that it belongs to is not named");
        if (!m->has_uid)
                return 0;
        if (m->uid == UINT32_MAX)
                return err_set(e, ERR_INVALID, "uid: no user has this number");
        if (tenant && strlen(tenant) > ENGINE_NAME_MAX)
                return err_set(
                        e, ERR_INVALID, "tenant: a label has at most %d bytes", ENGINE_NAME_MAX);
        if (!p->admin && (tenant || m->uid != p->owner))
                return err_set(
                        e, ERR_PERMISSION, "only " METHODS_ADMINS " see the figures of others");
        out->one_user = true;
        out->uid = m->uid;
        out->tenant = tenant;
        return 0;
}

int method_stats(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Stats *m = in->stats;
        int r = take_user(p, m, out, e);

        if (r < 0)
                return r;
        out->want_meters = true;
        out->want_users = m->with_users && !m->has_uid && p->admin;
        return out->want_users ? methods_take_known(p->daemon, out, e) : 0;
}

/* --- figures by name --- */

static int put_stats(struct scratch *s, const struct engine_stat *from, size_t n,
        Confab__V1__StatsResult *m, struct err *e) {
        Confab__V1__Stat *items = scratch_alloc(s, n, sizeof(*items));

        if (!items)
                return no_memory(e);
        for (size_t i = 0; i < n; i++) {
                confab__v1__stat__init(&items[i]);
                items[i].name = proto_borrow(from[i].name);
                SET(&items[i], value, from[i].value);
                m->stats[m->n_stats++] = &items[i];
        }
        return 0;
}

/* Figures that reveal nothing about other users. */
static bool tells_nothing(const char *name) {
        static const char *const names[] = {
                "budget_max", "block_bytes", "block_tokens", "window_block_bytes", "state_bytes"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(name, names[i]) == 0)
                        return true;
        return false;
}

/* For administrators, and for the user who runs the daemon: all figures of engine and daemon. */
static int put_all_stats(struct scratch *s, const struct peer *p, const struct engine_event *in,
        Confab__V1__StatsResult *m, struct err *e) {
        const struct daemon *d = p->daemon;
        const struct pressure *policy = &d->memory.policy;
        const struct engine_stat own[] = {
                {"connections", d->n_peers},
                {"io_memory_used", d->users.io.used},
                {"budget_ceiling", policy->ceiling},
                {"pressure_events", policy->n_events},
                {"pressure_episodes", policy->n_episodes},
        };
        int r = put_stats(s, in->stats.stats, in->stats.n, m, e);

        return r < 0 ? r : put_stats(s, own, ARRAY_SIZE(own), m, e);
}

/* For all others: figures that are the same for everyone, and the user's own (I6). */
static int put_user_stats(struct scratch *s, const struct user *user, const struct engine_event *in,
        Confab__V1__StatsResult *m, struct err *e) {
        const struct user_figures *f = &user->figures;
        const struct engine_stat own[] = {
                {"connections", user->connections.used},
                {"io_memory_used", user->io.used},
                {"requests", f->requests},
                {"tokens_prefilled", f->prefilled},
                {"tokens_decoded", f->decoded},
                {"tokens_drafted", f->drafted},
                {"tokens_accepted", f->accepted},
                {"tokens_reused_ram", f->reused_ram},
                {"tokens_reused_disk", f->reused_disk},
                {"tokens_reused_shared", f->reused_shared},
        };
        int r = put_stats(s, own, ARRAY_SIZE(own), m, e);

        for (size_t i = 0; r == 0 && i < in->stats.n; i++)
                if (tells_nothing(in->stats.stats[i].name))
                        r = put_stats(s, &in->stats.stats[i], 1, m, e);
        return r;
}

/* --- histograms and rates --- */

static const char *const latency_names[ENGINE_LATENCIES] = {
        [ENGINE_LATENCY_QUEUE] = "queue",
        [ENGINE_LATENCY_RESTORE] = "restore",
        [ENGINE_LATENCY_PREFILL] = "prefill",
        [ENGINE_LATENCY_DECODE] = "decode",
        [ENGINE_LATENCY_TOKEN] = "token",
        [ENGINE_LATENCY_COMMIT] = "commit",
        [ENGINE_LATENCY_FIRST_TOKEN] = "first_token",
};

static int put_histograms(struct scratch *s, const struct engine_meter *meter,
        Confab__V1__StatsResult *m, struct err *e) {
        uint64_t *bounds = scratch_alloc(s, HISTOGRAM_N_BOUNDS, sizeof(*bounds));
        Confab__V1__Histogram *items = scratch_alloc(s, ENGINE_LATENCIES, sizeof(*items));

        m->histograms = scratch_alloc(s, ENGINE_LATENCIES, sizeof(*m->histograms));
        if (!bounds || !items || !m->histograms)
                return no_memory(e);
        for (size_t i = 0; i < HISTOGRAM_N_BOUNDS; i++)
                bounds[i] = histogram_bound(i);
        for (size_t i = 0; i < ENGINE_LATENCIES; i++) {
                const struct histogram *h = &meter->latencies[i];

                confab__v1__histogram__init(&items[i]);
                items[i].name = proto_borrow(latency_names[i]);
                SET(&items[i], count, histogram_count(h));
                SET(&items[i], sum_usec, h->sum_usec);
                items[i].n_bounds_usec = HISTOGRAM_N_BOUNDS;
                items[i].bounds_usec = bounds;
                items[i].n_buckets = HISTOGRAM_N_BOUNDS + 1;
                items[i].buckets = (uint64_t *)(uintptr_t)h->n;
                m->histograms[m->n_histograms++] = &items[i];
        }
        if (meter->since_usec)
                SET(m, since_usec, meter->since_usec);
        return 0;
}

static int put_rates(struct scratch *s, const struct engine_meter *meter, Confab__V1__Rates ***ret,
        size_t *ret_n, struct err *e) {
        Confab__V1__Rates *items = scratch_alloc(s, RATES_N_WINDOWS, sizeof(*items));

        *ret = scratch_alloc(s, RATES_N_WINDOWS, sizeof(**ret));
        if (!items || !*ret)
                return no_memory(e);
        for (size_t i = 0; i < RATES_N_WINDOWS; i++) {
                const double *rates = meter->rates[i];

                confab__v1__rates__init(&items[i]);
                SET(&items[i], seconds, rates_windows[i]);
                SET(&items[i], prefilled, (float)rates[RATE_PREFILLED]);
                SET(&items[i], decoded, (float)rates[RATE_DECODED]);
                SET(&items[i], requests, (float)rates[RATE_REQUESTS]);
                (*ret)[(*ret_n)++] = &items[i];
        }
        return 0;
}

static int put_meters(struct scratch *s, const struct engine_meters *meters, bool all,
        Confab__V1__StatsResult *m, struct err *e) {
        const struct engine_meter *shown = all ? &meters->all : &meters->own;
        int r = put_histograms(s, shown, m, e);

        if (r == 0)
                r = put_rates(s, shown, &m->rates, &m->n_rates, e);
        return r < 0 ? r : put_rates(s, &meters->own, &m->own_rates, &m->n_own_rates, e);
}

/* --- users --- */

static int put_own(struct scratch *s, const struct user *user, const struct engine_holding *h,
        Confab__V1__User **ret, struct err *e) {
        Confab__V1__User *m = scratch_alloc(s, 1, sizeof(*m));

        if (!m)
                return no_memory(e);
        confab__v1__user__init(m);
        SET(m, uid, h->uid);
        if (h->tenant[0] || user->tenant)
                m->tenant = h->tenant[0] ? proto_borrow(h->tenant) : user->tenant;
        if (h->has_convs) {
                SET(m, conversations, h->n_convs);
                SET(m, tokens, h->n_tokens);
        }
        SET(m, ram_bytes, h->ram_size);
        SET(m, disk_bytes, h->disk_size);
        SET(m, requests, h->n_requests);
        SET(m, connections, user->connections.used);
        SET(m, requests_total, user->figures.requests);
        SET(m, tokens_prefilled, user->figures.prefilled);
        SET(m, tokens_decoded, user->figures.decoded);
        *ret = m;
        return 0;
}

/* Those that the engine has counted, or else @own alone, for everybody else. */
static int put_users(struct scratch *s, const struct engine_event *in, Confab__V1__User *own,
        Confab__V1__StatsResult *m, struct err *e) {
        size_t n = in->stats.users ? in->stats.n_users : 1;
        Confab__V1__User *items = scratch_alloc(s, n + 1, sizeof(*items));

        m->users = scratch_alloc(s, n + 1, sizeof(*m->users));
        if (!items || !m->users)
                return no_memory(e);
        for (; in->stats.users && m->n_users < n; m->n_users++) {
                methods_put_user(&in->stats.users[m->n_users], &items[m->n_users]);
                m->users[m->n_users] = &items[m->n_users];
        }
        if (!in->stats.users)
                m->users[m->n_users++] = own;
        SET(m, more_users, in->stats.more_users);
        return 0;
}

/* --- the answer --- */

#define OWN_STATS_MAX 16

static void put_times(const struct daemon *d, Confab__V1__StatsResult *m) {
        m->version = proto_borrow(CONFAB_VERSION);
        SET(m, started_usec, d->started);
        SET(m, uptime_usec, clock_monotonic_usec() - d->began);
        SET(m, time_usec, clock_realtime_usec());
}

static int put_all(struct scratch *s, struct request *r, const struct engine_event *in,
        Confab__V1__StatsResult *m, struct err *e) {
        static const struct user nobody;
        const struct engine_meters *meters = in->stats.meters;
        const struct user *user = r->peer->user;
        bool all = !r->one_user && r->peer->admin;
        int n;

        if (r->one_user && meters)
                user = users_find(&r->peer->daemon->users, meters->holding.owner);
        if (!user)
                user = &nobody;
        put_times(r->peer->daemon, m);
        SET(m, all_users, all);
        m->stats = scratch_alloc(s, in->stats.n + OWN_STATS_MAX, sizeof(*m->stats));
        if (!m->stats)
                return no_memory(e);
        n = all ? put_all_stats(s, r->peer, in, m, e) : put_user_stats(s, user, in, m, e);
        if (n < 0 || !meters)
                return n;
        n = put_meters(s, meters, all, m, e);
        if (n == 0)
                n = put_own(s, user, &meters->holding, &m->own, e);
        return n < 0 || !r->with_users ? n : put_users(s, in, m->own, m, e);
}

void methods_send_stats(struct request *r, const struct engine_event *in) {
        _cleanup_(scratch_deinit) struct scratch s = {};
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__StatsResult m = CONFAB__V1__STATS_RESULT__INIT;
        struct err e;

        if (put_all(&s, r, in, &m, &e) < 0) {
                reply_error(r->peer, r->id, &e);
                return;
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_STATS;
        ev.stats = &m;
        SET(&ev, request, r->id);
        while (m.n_users > 1 && protobuf_c_message_get_packed_size(&ev.base) > r->peer->max_event) {
                m.n_users /= 2;
                m.more_users = true;
        }
        reply_send(r->peer, r->id, &ev, true);
}
