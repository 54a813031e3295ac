/* SPDX-License-Identifier: MIT */
/*
 * Measuring what choice.c decides by.
 *
 * 1. Decoding, copying and encoding are measured wherever they happen, in CPU time of the thread, so
 *    that it does not matter who else computes. At the start a few sections of made-up memory are
 *    encoded and decoded (some 5 ms): the processor may be another one than last time.
 * 2. The disk is measured while threads wait for it: from the first thread that begins to read until
 *    none reads, all bytes over that time, if the threads spent a quarter of their time in waiting. If
 *    they did not, decoding was the limit, and the disk can do at least that much: the figure can rise
 *    by it, but not fall. Reads that found some of the records in the page cache tell nothing, and
 *    small ones neither.
 * 3. Where rule 2 cannot tell (nothing was read yet, or decoding hides the disk), a probe reads a
 *    stretch of records for the sake of measuring, as restores read: past the page cache, several
 *    requests in flight. The engine does it in the background, ten minutes apart at least, and a few
 *    seconds after the last write: a disk that is still busy with what was written reads at half its
 *    speed or less, and a codec that is chosen by that hides what the disk can do.
 * 4. Figures are sums of bytes and time of which the older half fades. The disk's and the ratio are
 *    remembered by the register, with the choice (rule 3 of choice.c needs it).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/util.h"
#include "spill/codec.h"
#include "spill/codec/checksum.h"
#include "spill/load.h"
#include "spill/shared.h"

#define MB 1e6
#define FADE_SIZE (256 * MB)   /* beyond it, what was measured counts half */
#define LAST_SIZE (64 * MB)    /* what the last run has measured counts as much as this */
#define MIN_READ (2u << 20)    /* bytes that tell something of a disk */
#define PROBE_FROM (16u << 20) /* bytes on disk that are worth a probe */
#define PROBE_USEC (600u * 1000000u)
#define QUIET_USEC (3u * 1000000u)     /* since the last write */
#define PATIENCE_USEC (60u * 1000000u) /* for that */
#define N_SAMPLES 8

double spill_thread_usec(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* --- meters --- */

static void meter_add(struct spill_meter *m, double bytes, double usec) {
        m->bytes += bytes;
        m->usec += usec;
        if (m->bytes > FADE_SIZE) {
                m->bytes /= 2;
                m->usec /= 2;
        }
}

static uint64_t meter_speed(const struct spill_meter *m) {
        return m->usec > 0 ? (uint64_t)(m->bytes / m->usec * 1e6) : 0;
}

static struct spill_figures figures(const struct spill_measures *m) {
        return (struct spill_figures){.disk_speed = meter_speed(&m->disk),
                .decode_speed = meter_speed(&m->decode),
                .copy_speed = meter_speed(&m->copy),
                .encode_speed = meter_speed(&m->encode),
                .ratio = m->kv_stored > 0 ? (uint64_t)(m->kv_raw / m->kv_stored * 1000) : 0};
}

void spill_measure_encoded(struct spill *s, uint64_t raw, uint64_t stored, double usec) {
        struct spill_measures *m = &s->measures;

        if (s->options.frozen)
                return;
        meter_add(&m->encode, (double)raw, usec);
        m->kv_raw += (double)raw;
        m->kv_stored += (double)stored;
        if (m->kv_raw > FADE_SIZE) {
                m->kv_raw /= 2;
                m->kv_stored /= 2;
        }
}

void spill_measure_decoded(struct spill *s, bool is_kv, uint64_t raw, double usec) {
        if (s->options.frozen)
                return;
        pthread_mutex_lock(&s->lock);
        meter_add(is_kv ? &s->measures.decode : &s->measures.copy, (double)raw, usec);
        pthread_mutex_unlock(&s->lock);
}

/* --- the disk --- */

void spill_measure_begin(struct spill *s) {
        struct spill_measures *m = &s->measures;

        pthread_mutex_lock(&s->lock);
        if (m->n_reading++ == 0) {
                m->t_begin = clock_monotonic_usec();
                m->read_size = m->waited_usec = m->thread_usec = 0;
                m->from_cache = false;
        }
        pthread_mutex_unlock(&s->lock);
}

/* @usec: while threads read m->read_size bytes. */
static void measure_disk(struct spill_measures *m, uint64_t usec) {
        double speed = (double)m->read_size / (double)MAX(usec, (uint64_t)1) * 1e6;
        double before = (double)meter_speed(&m->disk);

        if (m->from_cache || m->read_size < MIN_READ)
                return;
        if (m->waited_usec * 4 >= m->thread_usec || (before > 0 && speed > before))
                meter_add(&m->disk, (double)m->read_size, (double)usec);
        m->is_hidden = m->waited_usec * 8 < m->thread_usec;
}

void spill_measure_end(struct spill *s, uint64_t size, uint64_t waited_usec, uint64_t thread_usec,
        bool from_cache) {
        struct spill_measures *m = &s->measures;

        pthread_mutex_lock(&s->lock);
        m->read_size += size;
        m->waited_usec += waited_usec;
        m->thread_usec += thread_usec;
        m->from_cache = m->from_cache || from_cache;
        if (--m->n_reading == 0 && !s->options.frozen)
                measure_disk(m, clock_monotonic_usec() - m->t_begin);
        pthread_mutex_unlock(&s->lock);
}

/* --- the processor --- */

/* Numbers like those of memory: signs at random, exponents that follow from the channel. */
static void make_up(uint8_t *raw, size_t n, const struct spill_array *arrays, size_t n_arrays) {
        uint64_t x = 0x9e3779b97f4a7c15u;

        for (size_t i = 0; i < n; i++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                raw[i] = (uint8_t)(x >> 56);
        }
        for (size_t i = 0; i < n_arrays; i++) {
                const struct spill_array *a = &arrays[i];
                size_t width = a->element == SPILL_F16 ? 2 : a->element == SPILL_F32 ? 4 : 0;
                size_t n_values = (size_t)a->n_tiles * a->n_channels * a->n_tokens;

                for (size_t k = 0; width > 0 && k < n_values; k++) {
                        uint8_t *top = raw + a->offset + width * k + width - 1;
                        size_t c = a->channel_major ? k / a->n_tokens : k;
                        unsigned below = (unsigned)__builtin_ctz(*top | 128u);

                        c %= a->n_channels;
                        *top = (uint8_t)((*top & 0x80) | (0x38 + c % 5 - below));
                }
        }
}

static void sample_processor(struct spill *s, const struct spill_class *c, size_t n, uint8_t *raw,
        uint8_t *stored, uint8_t *scratch) {
        const struct spill_codec *kv = spill_codec_find(SPILL_CODEC_KV);
        struct spill_measures *m = &s->measures;
        const struct spill_array *arrays;
        size_t n_arrays, size;

        arrays = spill_section_arrays(c, 0, &n_arrays);
        make_up(raw, n, arrays, n_arrays);
        for (unsigned i = 0; i <= N_SAMPLES; i++) {
                double t0 = spill_thread_usec(), t1, t2, t3;

                size = kv->encode(stored, n, raw, n, arrays, n_arrays, scratch);
                t1 = spill_thread_usec();
                if (size == 0)
                        return;
                (void)spill_checksum(stored, size);
                (void)kv->decode(raw, n, stored, size, arrays, n_arrays, scratch);
                t2 = spill_thread_usec();
                (void)spill_checksum(raw, n);
                memcpy(stored, raw, n);
                t3 = spill_thread_usec();
                if (i == 0)
                        continue; /* the first one touches memory that is new */
                meter_add(&m->encode, (double)n, t1 - t0);
                meter_add(&m->decode, (double)n, t2 - t1);
                meter_add(&m->copy, (double)n, t3 - t2);
        }
}

void spill_measure_open(struct spill *s) {
        const struct spill_figures *f = &s->options.figures;
        struct spill_measures *m = &s->measures;
        const struct spill_class *c = &s->classes[0];
        size_t n;
        uint8_t *all;

        m->codec = s->options.last_codec == SPILL_CODEC_RAW && f->disk_speed > 0 ? SPILL_CODEC_RAW
                   : s->options.last_codec == SPILL_CODEC_KV                     ? SPILL_CODEC_KV
                                                                                 : SPILL_CODEC_AUTO;
        if (f->disk_speed > 0)
                m->disk = (struct spill_meter){LAST_SIZE, LAST_SIZE / (double)f->disk_speed * 1e6};
        if (f->ratio > 0) {
                m->kv_raw = LAST_SIZE;
                m->kv_stored = LAST_SIZE * 1000 / (double)f->ratio;
        }
        if (s->options.frozen) {
                m->decode = (struct spill_meter){(double)f->decode_speed, 1e6};
                m->copy = (struct spill_meter){(double)f->copy_speed, 1e6};
                return;
        }
        while (c < &s->classes[SPILL_MAX_CLASSES - 1] && c->n_sections == 0)
                c++;
        n = c->section_ends ? (size_t)c->section_ends[0] : 0;
        if (n == 0 || s->options.codec != SPILL_CODEC_AUTO)
                return;
        all = aligned_alloc(64, align_up(2 * n, 64) + s->codec_size);
        if (!all)
                return;
        sample_processor(s, c, n, all, all + n, all + align_up(2 * n, 64));
        free(all);
}

/* --- the choice --- */

/* The limit that is near. statvfs() costs nothing beside encoding a block. */
static enum spill_refusal find_scarce(struct spill *s, uint64_t owner_size, uint64_t owner_max) {
        const struct spill_options *o = &s->options;
        int was = s->measures.scarce;
        uint64_t used = s->stats.disk_size, avail;
        struct statvfs v;

        spill_turn_day(s);
        if (spill_is_scarce(s->day_written_size + s->day_pending_size, o->max_written_per_day,
                    was == SPILL_REFUSED_DAY))
                return SPILL_REFUSED_DAY;
        if (spill_is_scarce(owner_size, owner_max, false))
                return SPILL_REFUSED_OWNER;
        if (spill_is_scarce(used, o->max_disk_size, was == SPILL_REFUSED_TOTAL))
                return SPILL_REFUSED_TOTAL;
        if (s->dir_fd < 0 || fstatvfs(s->dir_fd, &v) < 0 ||
                __builtin_mul_overflow((uint64_t)v.f_bavail, (uint64_t)v.f_frsize, &avail))
                return SPILL_REFUSED_NOT;
        avail = avail > o->min_free_size ? avail - o->min_free_size : 0;
        return spill_is_scarce(used, used + avail + 1, was == SPILL_REFUSED_FLOOR)
                       ? SPILL_REFUSED_FLOOR
                       : SPILL_REFUSED_NOT;
}

static void choose(struct spill *s, struct spill_choice *ret) {
        struct spill_measures *m = &s->measures;
        struct spill_figures f = figures(m);

        m->scarce = (int)find_scarce(s, 0, 0);
        spill_choose(&f, s->options.n_threads, (enum spill_refusal)m->scarce, m->codec, ret);
        /* What a limit forces is forgotten when it is far again. */
        if (m->scarce == SPILL_REFUSED_NOT)
                m->codec = ret->codec;
        if (s->options.codec == SPILL_CODEC_AUTO)
                return;
        ret->is_set = true;
        ret->codec = s->options.codec;
        ret->scarce = SPILL_REFUSED_NOT;
}

unsigned spill_codec_now(struct spill *s, const struct spill_block *b) {
        const struct spill_owner *o = spill_owner_find(s, b->owner);
        uint64_t max = s->options.max_disk_size_per_owner;
        struct spill_choice choice;

        if (s->options.codec != SPILL_CODEC_AUTO)
                return s->options.codec;
        choose(s, &choice);
        if (b->has_max_owner_size)
                max = b->max_owner_size == UINT64_MAX ? 0 : b->max_owner_size;
        return o && find_scarce(s, o->disk_size, max) != SPILL_REFUSED_NOT ? SPILL_CODEC_KV
                                                                           : choice.codec;
}

void spill_choice(struct spill *s, struct spill_choice *ret) {
        pthread_mutex_lock(&s->lock);
        choose(s, ret);
        pthread_mutex_unlock(&s->lock);
}

/* --- probing --- */

void spill_measure_written(struct spill *s) {
        s->measures.t_written = clock_monotonic_usec();
}

uint64_t spill_probe_due(struct spill *s) {
        struct spill_measures *m = &s->measures;
        uint64_t now = clock_monotonic_usec(), due = UINT64_MAX;

        pthread_mutex_lock(&s->lock);
        if (s->options.codec != SPILL_CODEC_AUTO || s->options.frozen || s->no_direct ||
                s->stats.disk_size < PROBE_FROM || (m->disk.bytes > 0 && !m->is_hidden)) {
                m->t_wanted = 0;
        } else {
                if (m->t_wanted == 0)
                        m->t_wanted = m->t_probe > 0 ? MAX(now, m->t_probe + PROBE_USEC) : now;
                due = MIN(MAX(m->t_wanted, m->t_written + QUIET_USEC), m->t_wanted + PATIENCE_USEC);
        }
        pthread_mutex_unlock(&s->lock);
        return due;
}

/* A file with records on disk, the one that has most; pinned. Lock held. */
static struct spill_file *probe_file(struct spill *s) {
        struct spill_file *best = NULL, *f;
        size_t it = 0;

        while ((f = map_next(s->files, &it)))
                if (f->settled > 0 && (!best || f->settled > best->settled))
                        best = f;
        return best && spill_file_pin(s, best, false, NULL) == 0 ? best : NULL;
}

/* Whether a window of pages has nothing but records: holes would be read too fast. Lock held. */
static bool is_full(const struct spill_pages *p, size_t first, size_t n) {
        size_t at = first, gap;

        return first + n <= p->capacity && !spill_pages_next_gap(p, &at, first + n, &gap);
}

/* Windows of whole records from the file's start on. Returns how many. Lock held. */
static size_t probe_windows(
        const struct spill_file *f, size_t n_pages, uint64_t *offsets, size_t max) {
        size_t n = 0;

        for (size_t at = 0; n < max && (at + n_pages) * SPILL_ALIGN <= f->settled; at += n_pages)
                if (is_full(&f->pages, at, n_pages))
                        offsets[n++] = (uint64_t)at * SPILL_ALIGN;
        return n;
}

/* Reads them with several requests in flight. Returns the bytes, 0 after any failure. */
static uint64_t probe_read(struct spill_queue *q, int fd, const uint64_t *offsets, size_t n) {
        struct spill_read reads[SPILL_QUEUE_MAX];
        size_t depth = MIN(q->size / SPILL_WINDOW_SIZE, (size_t)SPILL_QUEUE_MAX);
        size_t n_begun = 0, n_taken = 0, n_done = 0;
        bool ok = depth > 0;

        do {
                for (; ok && n_begun < n && n_begun < n_done + depth; n_begun += ok, n_taken++) {
                        uint8_t *data = spill_queue_take(q, SPILL_WINDOW_SIZE);

                        ok = spill_queue_start(q, &reads[n_begun % depth], fd, data,
                                offsets[n_begun], SPILL_WINDOW_SIZE);
                }
                if (n_done == n_begun)
                        break;
                spill_queue_wait(q, &reads[n_done % depth]);
                ok = ok && reads[n_done++ % depth].n == SPILL_WINDOW_SIZE;
                spill_queue_give(q, SPILL_WINDOW_SIZE);
        } while (n_done < n_begun || ok);
        for (; n_taken > n_done; n_taken--)
                spill_queue_give(q, SPILL_WINDOW_SIZE);
        return ok ? (uint64_t)n * SPILL_WINDOW_SIZE : 0;
}

void spill_probe(struct spill *s) {
        uint64_t offsets[SPILL_PROBE_SIZE / SPILL_WINDOW_SIZE], size = 0, t = 0;
        struct spill_scratch *scratch = NULL;
        struct spill_file *f;
        size_t n = 0;
        int fd = -1;

        if (spill_scratch_get(s, &scratch, NULL) < 0)
                return;
        pthread_mutex_lock(&s->lock);
        s->measures.t_probe = clock_monotonic_usec();
        s->measures.t_wanted = 0;
        f = probe_file(s);
        if (f) {
                fd = spill_file_direct(s, f);
                n = probe_windows(f, SPILL_WINDOW_SIZE / SPILL_ALIGN, offsets, ARRAY_SIZE(offsets));
        }
        pthread_mutex_unlock(&s->lock);
        if (fd >= 0 && n > 0) {
                t = clock_monotonic_usec();
                size = probe_read(&scratch->queue, fd, offsets, n);
                t = clock_monotonic_usec() - t;
        }
        if (f)
                spill_file_let_go(s, f, 1);
        spill_scratch_put(s, scratch);
        pthread_mutex_lock(&s->lock);
        s->measures.is_hidden = false;
        if (size >= MIN_READ && t > 0 && !s->options.frozen) {
                /* What restores said before is at most as good. */
                s->measures.disk = (struct spill_meter){0};
                meter_add(&s->measures.disk, (double)size, (double)t);
        }
        pthread_mutex_unlock(&s->lock);
}
