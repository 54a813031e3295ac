/* SPDX-License-Identifier: MIT */
/*
 * How long things take, and how often they happen: of all owners together, and of each (engine.h, engine_latency).
 *
 * 1. All owners together are measured since the engine was opened, and nothing of that is ever dropped.
 * 2. An owner is measured from the first request on. The meters of owners live in the share of requests (I3), and take at most
 *    a sixteenth of it, or METERS_MOST of them: then the owner who was measured last longest ago makes room. When that one comes
 *    back it begins with zeros, and engine_meter.since_usec tells since when.
 * 3. Where there is no memory for an owner's meter, the owner is measured among all of them alone. No request fails for it.
 * 4. Nobody is told of other owners' meters (I6): verbs/info.c gives out one by its exact owner.
 *
 * Engine thread: measuring takes no lock. A token costs one look at the clock and one at the owner, who is mostly the one
 * before: 82 ns where one owner is served, 165 ns where four are by turns, of which the clock takes 70 to 90 (28 November 2026,
 * a busy machine). The bundled model, which is tiny, takes 100,000 ns for it.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/map.h"
#include "base/util.h"
#include "engine/request/request.h"

#define METERS_MOST 1024
#define METERS_LEAST 4
#define METERS_SHARE 16 /* the part of the share of requests */

struct meter {
        uint64_t owner;
        struct list link; /* in meters.recent */
        struct histogram latencies[ENGINE_LATENCIES];
        struct rate_ring rates;
        uint64_t since_usec; /* realtime */
};

struct meters {
        struct meter all;
        struct map *by_owner; /* to struct meter */
        struct list recent;   /* of owners, measured longest ago first */
        struct charge charge; /* for them */
};

/* What a meter takes: itself, and its entry in the table. */
#define METER_SIZE (sizeof(struct meter) + 64)

static void begin(struct meter *meter, uint64_t owner) {
        meter->owner = owner;
        meter->since_usec = clock_realtime_usec();
        rates_begin(&meter->rates, clock_monotonic_usec());
        list_init(&meter->link);
}

int meters_new(struct meters **ret, struct engine *engine, struct err *e) {
        struct meters *m = calloc(1, sizeof(*m));
        int r;

        if (!m)
                return err_set(e, ERR_NOMEM, "no memory for meters");
        list_init(&m->recent);
        m->charge.ledger = &engine->budget->requests;
        begin(&m->all, OWNER_ANY);
        r = map_new(&m->by_owner, e);
        if (r < 0)
                free(m);
        else
                *ret = m;
        return r;
}

static void drop(struct meters *m, struct meter *meter) {
        map_remove_u64(m->by_owner, meter->owner);
        list_unlink(&meter->link);
        free(meter);
        charge_give(&m->charge, METER_SIZE);
}

struct meters *meters_free(struct meters *m) {
        if (!m)
                return NULL;
        while (!list_empty(&m->recent))
                drop(m, list_entry(m->recent.next, struct meter, link));
        map_free(m->by_owner);
        charge_deinit(&m->charge);
        free(m);
        return NULL;
}

/* How many owners are measured at most (2). */
static size_t most(const struct engine *engine) {
        size_t n = ledger_budget(&engine->budget->requests) / METERS_SHARE / METER_SIZE;

        return MIN(MAX(n, (size_t)METERS_LEAST), (size_t)METERS_MOST);
}

static struct meter *make(struct engine *engine, uint64_t owner) {
        struct meters *m = engine->meters;
        struct meter *meter;

        while (map_count(m->by_owner) >= most(engine))
                drop(m, list_entry(m->recent.next, struct meter, link));
        if (charge_take(&m->charge, METER_SIZE, "figures of a user", NULL) < 0)
                return NULL;
        meter = calloc(1, sizeof(*meter));
        if (meter)
                begin(meter, owner);
        if (!meter || map_add_u64(m->by_owner, owner, meter, NULL) != 0) {
                free(meter);
                charge_give(&m->charge, METER_SIZE);
                return NULL;
        }
        list_append(&m->recent, &meter->link);
        return meter;
}

/* The owner's meter, which becomes the one that was measured last; or NULL (3). */
static struct meter *find(struct engine *engine, uint64_t owner) {
        struct meters *m = engine->meters;
        struct meter *meter =
                list_empty(&m->recent) ? NULL : list_entry(m->recent.prev, struct meter, link);

        if (meter && meter->owner == owner)
                return meter;
        meter = map_get_u64(m->by_owner, owner);
        if (!meter)
                return make(engine, owner);
        list_unlink(&meter->link);
        list_append(&m->recent, &meter->link);
        return meter;
}

void meters_time(struct engine *engine, const struct request *request, enum engine_latency latency,
        uint64_t usec, uint32_t n) {
        struct meter *own = find(engine, request->r.owner);

        histogram_add(&engine->meters->all.latencies[latency], usec, n);
        if (own)
                histogram_add(&own->latencies[latency], usec, n);
}

void meters_count(struct engine *engine, const struct request *request, enum rate rate, uint32_t n,
        uint64_t now_usec) {
        struct meter *own = find(engine, request->r.owner);

        rates_add(&engine->meters->all.rates, rate, n, now_usec);
        if (own)
                rates_add(&own->rates, rate, n, now_usec);
}

static void read_meter(struct meter *meter, struct engine_meter *ret) {
        uint64_t now = clock_monotonic_usec();

        for (size_t i = 0; i < ENGINE_LATENCIES; i++)
                ret->latencies[i] = meter->latencies[i];
        for (size_t w = 0; w < RATES_N_WINDOWS; w++)
                for (int rate = 0; rate < RATE_N; rate++)
                        ret->rates[w][rate] =
                                rates_get(&meter->rates, (enum rate)rate, rates_windows[w], now);
        ret->since_usec = meter->since_usec;
}

void meters_read_all(struct engine *engine, struct engine_meter *ret) {
        read_meter(&engine->meters->all, ret);
}

void meters_read(struct engine *engine, uint64_t owner, struct engine_meter *ret) {
        struct meter *meter = map_get_u64(engine->meters->by_owner, owner);

        *ret = (struct engine_meter){0};
        if (meter)
                read_meter(meter, ret);
}

void meters_forget(struct engine *engine, const struct owners *whose) {
        struct meters *m = engine->meters;
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &m->recent) {
                struct meter *meter = list_entry(it, struct meter, link);

                if (owners_have(whose, meter->owner))
                        drop(m, meter);
        }
}
