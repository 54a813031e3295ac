/* SPDX-License-Identifier: MIT */
/*
 * Which codec new records are written with: the one that brings memory back sooner, from this disk on
 * this processor. Each record names its codec, so a store holds a mixture, and a decision binds
 * nothing but the writes that follow it.
 *
 * A restore reads and decodes at the same time (load.c), by several threads that share the disk. So of
 * one byte of memory, with r raw bytes for a stored one,
 *
 *      by KV  it takes the longer of  1 / (r * disk)  and  1 / (threads * decode)
 *      raw    the longer of           1 / disk        and  1 / (threads * copy)
 *
 * and an eighth of the shorter: nothing is decoded while the first part is read, and nothing read while
 * the last is decoded. (So much it is of some 64 MiB; less of larger restores, more of smaller ones.) On
 * a slow disk KV wins by r, about 1.2; on a disk that delivers faster than the threads decode, raw wins
 * by as much as the disk is faster. The speeds are those of figures.c, measured where restores and writes
 * run.
 *
 * 1. If bytes are scarce, KV: within a quarter of a limit (the total's, the owner's, the day's, the
 *    floor) each byte decides what is still there tomorrow. They stay scarce until 3/8 are left.
 * 2. Else the codec that takes less time; of equals KV, which takes less of the disk.
 * 3. But the codec in use stays until the other one takes less than 95 % of its time, so that figures
 *    which differ a little from restore to restore do not turn the choice to and fro.
 * 4. What was not measured yet is guessed: a disk of 3 GB/s, as solid-state disks are today; a gain of
 *    1.15; 2 GB/s of decoding and 8 GB/s of copying.
 * 5. LZ4 is not chosen: KV has it for what it is good for. Where the choice is raw, it takes sections
 *    that it shrinks by a quarter (write.c): the ends of conversations, blocks that are mostly zeros.
 */
#include "base/util.h"
#include "spill/spill.h"

#define GB 1000000000.0
#define APART 0.125 /* of the shorter time */
#define KEEP 0.95   /* of the time of the codec in use */

static double known(uint64_t figure, double guess) {
        return figure > 0 ? (double)figure : guess;
}

static double together(double reading, double decoding) {
        return MAX(reading, decoding) + APART * MIN(reading, decoding);
}

void spill_choose(const struct spill_figures *f, unsigned n_threads, enum spill_refusal scarce,
        unsigned now, struct spill_choice *ret) {
        double disk = known(f->disk_speed, 3 * GB), threads = MAX(n_threads, 1u);
        double ratio = known(f->ratio, 1150) / 1000;
        double kv = together(1 / (ratio * disk), 1 / (threads * known(f->decode_speed, 2 * GB)));
        double raw = together(1 / disk, 1 / (threads * known(f->copy_speed, 8 * GB)));
        bool raw_wins = raw < kv;

        if (now == SPILL_CODEC_KV)
                raw_wins = raw < KEEP * kv;
        else if (now == SPILL_CODEC_RAW)
                raw_wins = kv >= KEEP * raw;
        *ret = (struct spill_choice){
                .codec = scarce == SPILL_REFUSED_NOT && raw_wins ? SPILL_CODEC_RAW : SPILL_CODEC_KV,
                .scarce = scarce,
                .is_guess = f->disk_speed == 0,
                .kv_usec = (uint64_t)(kv * GB * 1e6),
                .raw_usec = (uint64_t)(raw * GB * 1e6),
                .figures = *f};
}

bool spill_is_scarce(uint64_t used, uint64_t limit, bool was) {
        return limit > 0 && used >= (was ? limit / 8 * 5 : limit / 4 * 3);
}
