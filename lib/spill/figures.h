/* SPDX-License-Identifier: MIT */
#pragma once
/* Measuring the disk and the codecs, for choice.c. figures.c has the rules. Without lock, if not said
 * otherwise. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spill;
struct spill_choice;
struct spill_scratch;

/* A speed: the last bytes that were measured, and the time that they took. */
struct spill_meter {
        double bytes, usec;
};
/* The part of an open store; zeroed, it knows nothing. Under the store's lock. */
struct spill_measures {
        struct spill_meter disk, decode, copy, encode;
        double kv_raw, kv_stored; /* bytes */
        unsigned codec;           /* the present choice; SPILL_CODEC_AUTO: none yet */
        int scarce;               /* enum spill_refusal: the limit that is near */
        /* a stretch of time in which threads read */
        size_t n_reading;
        uint64_t t_begin, read_size;
        uint64_t waited_usec, thread_usec; /* of all threads */
        bool from_cache;                   /* some of it came from the page cache */
        /* probing */
        bool is_hidden; /* restores were too slow in decoding to tell what the disk can do */
        /* clock_monotonic_usec() of the last one, since when the next one is wanted, and of the last write; 0: none */
        uint64_t t_probe, t_wanted, t_written;
};

/* CPU time of this thread, microseconds with fractions. */
double spill_thread_usec(void);

/* As options.figures has it, and what this processor does with a few sections. Errors are ignored. */
void spill_measure_open(struct spill *s);
/* Sections of @raw bytes were encoded to @stored by codec KV. Lock held. */
void spill_measure_encoded(struct spill *s, uint64_t raw, uint64_t stored, double usec);
/* A record was written, or what was written has come to the disk. Lock held. */
void spill_measure_written(struct spill *s);
/* @raw bytes were decoded by codec KV (@is_kv), or checked and copied. */
void spill_measure_decoded(struct spill *s, bool is_kv, uint64_t raw, double usec);
/* A thread begins to read sections, and ends: it took @size bytes from the disk and waited for them
 * so long of its time; @from_cache: others came from the page cache. */
void spill_measure_begin(struct spill *s);
void spill_measure_end(struct spill *s, uint64_t size, uint64_t waited_usec, uint64_t thread_usec,
        bool from_cache);
struct spill_block;
/* The codec for the block. Lock held. */
unsigned spill_codec_now(struct spill *s, const struct spill_block *b);
