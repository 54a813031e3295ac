/* SPDX-License-Identifier: MIT */
/*
 * The codec of spilled memory: what the spill store measures and chooses (lib/spill/choice.c,
 * figures.c) is remembered by the register, and the disk is measured in the background when the store
 * says that it is time.
 *
 * The figures are written with the links of blocks, after a probe, and at the end, if they have changed
 * by a tenth. They are hints: a failure to write them is ignored.
 */
#include "base/clock.h"
#include "engine/disk/state.h"

#define METER_CODEC "spill_codec"
#define METER_DISK "spill_disk_speed"
#define METER_RATIO "spill_ratio"

int codec_meters_read(struct store *store, struct spill_options *so, struct err *e) {
        int64_t codec, disk, ratio;
        int r = store_meter_get(store, METER_CODEC, &codec, e);

        if (r == 0)
                r = store_meter_get(store, METER_DISK, &disk, e);
        if (r == 0)
                r = store_meter_get(store, METER_RATIO, &ratio, e);
        if (r < 0)
                return r;
        so->figures = (struct spill_figures){.disk_speed = disk > 0 ? (uint64_t)disk : 0,
                .ratio = ratio > 0 && ratio < 1000000 ? (uint64_t)ratio : 0};
        so->last_codec = codec == 1 + SPILL_CODEC_KV    ? SPILL_CODEC_KV
                         : codec == 1 + SPILL_CODEC_RAW ? SPILL_CODEC_RAW
                                                        : SPILL_CODEC_AUTO;
        return 0;
}

void codec_meters(struct engine *engine, struct store_meter out[CODEC_N_METERS]) {
        struct spill_choice choice;

        spill_choice(engine->spill, &choice);
        /* One more than the codec's number: 0 is a meter that was never set. A set one is no choice. */
        out[0] = (struct store_meter){METER_CODEC, choice.is_set ? 0 : 1 + (int64_t)choice.codec};
        out[1] = (struct store_meter){METER_DISK, (int64_t)choice.figures.disk_speed};
        out[2] = (struct store_meter){METER_RATIO, (int64_t)choice.figures.ratio};
}

static bool is_near(int64_t a, int64_t b) {
        return a / 10 * 9 <= b && b / 10 * 9 <= a;
}

void codec_remember(struct engine *engine) {
        struct store_meter now[CODEC_N_METERS];
        bool changed = false;

        codec_meters(engine, now);
        for (size_t i = 0; i < CODEC_N_METERS; i++) {
                int64_t was = 0;

                if (store_meter_get(engine->store, now[i].name, &was, NULL) < 0)
                        return;
                changed = changed || !is_near(was, now[i].value);
        }
        if (changed)
                (void)store_meter_set(engine->store, now, CODEC_N_METERS, NULL);
}

static void probe_run(struct engine *engine, struct job *j) {
        spill_probe(engine->spill);
        codec_remember(engine);
}

static void probe_done(struct engine *engine, struct job *j) {
        engine->disk->probing = false;
}

uint64_t codec_step(struct engine *engine) {
        struct disk *d = engine->disk;
        uint64_t due;

        if (d->probing || engine->stopping)
                return UINT64_MAX;
        due = spill_probe_due(engine->spill);
        if (due == UINT64_MAX || due > clock_monotonic_usec())
                return due;
        d->probing = true;
        d->probe = (struct job){.kind = JOB_WRITE_BEHIND, .run = probe_run, .done = probe_done};
        io_submit(engine, &d->probe);
        return UINT64_MAX;
}

/* --- telling --- */

struct engine_codec codec_tell(const struct spill_choice *choice) {
        static const enum engine_codec_why limits[SPILL_N_REFUSALS] = {
                [SPILL_REFUSED_TOTAL] = ENGINE_CODEC_TOTAL,
                [SPILL_REFUSED_OWNER] = ENGINE_CODEC_TOTAL,
                [SPILL_REFUSED_FLOOR] = ENGINE_CODEC_FLOOR,
                [SPILL_REFUSED_DAY] = ENGINE_CODEC_DAY,
        };
        const struct spill_figures *f = &choice->figures;

        return (struct engine_codec){.codec = choice->codec,
                .why = choice->is_set                        ? ENGINE_CODEC_SET
                       : choice->scarce != SPILL_REFUSED_NOT ? limits[choice->scarce]
                       : choice->is_guess                    ? ENGINE_CODEC_GUESS
                                                             : ENGINE_CODEC_TIME,
                .disk_speed = f->disk_speed,
                .decode_speed = f->decode_speed,
                .copy_speed = f->copy_speed,
                .encode_speed = f->encode_speed,
                .ratio = f->ratio,
                .kv_usec = choice->kv_usec,
                .raw_usec = choice->raw_usec};
}
