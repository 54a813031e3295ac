/* SPDX-License-Identifier: MIT */
/* Bytes that went to the remote store on this day (push.c, rule 4), which the register remembers. */
#include "base/clock.h"
#include "base/util.h"
#include "engine/far/state.h"

#define METER_WRITTEN "remote_written_today"
#define METER_DAY "remote_day"

int far_meters_read(struct engine *engine, struct err *e) {
        struct far *f = engine->far;

        return day_meters_read(engine, METER_WRITTEN, METER_DAY, &f->written_today, &f->day, e);
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

void far_turn_day(struct far *f) {
        uint64_t day = quota_day(clock_realtime_usec());

        if (f->day == day)
                return;
        f->day = day;
        f->written_today = 0;
}

bool far_day_allows(struct far *f, uint64_t size) {
        bool ok;

        pthread_mutex_lock(&f->lock);
        far_turn_day(f);
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
