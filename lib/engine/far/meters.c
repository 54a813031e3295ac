/* SPDX-License-Identifier: MIT */
/* Bytes that went to the remote store on this day (push.c, rule 4), which the register remembers. */
#include "base/clock.h"
#include "base/util.h"
#include "engine/far/state.h"

#define METER_WRITTEN "remote_written_today"
#define METER_DAY "remote_day"

int far_meters_read(struct engine *engine, struct err *e) {
        struct far *f = engine->far;
        int64_t written = 0, day = 0;
        int r = store_meter_get(engine->store, METER_WRITTEN, &written, e);

        if (r == 0)
                r = store_meter_get(engine->store, METER_DAY, &day, e);
        if (r < 0)
                return r;
        f->written_today = written > 0 ? (uint64_t)written : 0;
        f->day = day > 0 ? (uint64_t)day : 0;
        return 0;
}

void far_meters_write(struct engine *engine) {
        struct far *f = engine->far;
        struct store_meter meters[2];

        pthread_mutex_lock(&f->lock);
        meters[0] = (struct store_meter){METER_WRITTEN, (int64_t)f->written_today};
        meters[1] = (struct store_meter){METER_DAY, (int64_t)f->day};
        pthread_mutex_unlock(&f->lock);
        (void)store_meter_set(engine->store, meters, ARRAY_SIZE(meters), NULL);
}

bool far_day_allows(struct far *f, uint64_t size) {
        uint64_t day = clock_realtime_usec() / FAR_DAY_USEC;
        bool ok;

        pthread_mutex_lock(&f->lock);
        if (f->day != day) {
                f->day = day;
                f->written_today = 0;
        }
        ok = f->writes_per_day == 0 || f->written_today + size <= f->writes_per_day;
        pthread_mutex_unlock(&f->lock);
        return ok;
}

void far_note_sent(struct far *f, uint64_t size) {
        pthread_mutex_lock(&f->lock);
        f->written_today += size;
        f->figures.n_sent++;
        f->figures.sent_size += size;
        pthread_mutex_unlock(&f->lock);
}
