/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Lossless block codecs, one row each. The id is in every record, so rows are only ever added.
 *
 * A codec works on one section: some bytes of a block and the arrays in it (struct spill_array of
 * spill.h, with offsets from the section's start). The arrays are all that a codec knows about the
 * bytes. They come from the model and are the same for encoding and decoding. A codec relies only
 * on their order and place: rising, without overlap, inside the section (spill_codec_check()). The
 * bytes may be anything: decoding restores every section bit for bit.
 *
 * All functions may be called from any thread, with a scratch of its own.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spill_array;

struct spill_codec {
        unsigned id; /* SPILL_CODEC_* */
        const char *name;
        /* Encode src[0..n) into at most @max bytes. Returns the size, or 0 if it does not fit.
         * @max < n <= 1 GiB; nothing overlaps. @arrays are those of this section, their offset
         * relative to @src; none: plain bytes. @scratch: spill_codec_scratch_size(n) bytes,
         * 64-aligned, content undefined before and after; for decode: of @dst_size. */
        size_t (*encode)(void *dst, size_t max, const void *src, size_t n,
                const struct spill_array *arrays, size_t n_arrays, void *scratch);
        /* Decode src[0..n), which is not trusted, into exactly @dst_size bytes. 0, or 1 if it is
         * not an encoding of that many bytes; nothing outside of dst and scratch is written. The
         * arrays are those of the encoder. */
        int (*decode)(void *dst, size_t dst_size, const void *src, size_t n,
                const struct spill_array *arrays, size_t n_arrays, void *scratch);
};

/* A section to decode; fields as the parameters of decode. */
struct spill_codec_job {
        const struct spill_codec *codec;
        void *dst;
        size_t dst_size;
        const void *src;
        size_t n;
        const struct spill_array *arrays;
        size_t n_arrays;
        int r; /* out: as decode returns */
};

/* Decode jobs[0..n), sections of any sizes and codecs whose destinations do not overlap: faster
 * than one by one, since two sections of KV are decoded side by side. Each job fails separately.
 * @scratch: for the largest dst_size. Neighbors are paired, so an even n is best. */
void spill_codec_decode_many(struct spill_codec_job *jobs, size_t n, void *scratch);
/* The row, or NULL. */
const struct spill_codec *spill_codec_find(unsigned id);
/* Bytes of scratch for sections of up to @max_section_size bytes, for any codec; multiple of 64. */
size_t spill_codec_scratch_size(size_t max_section_size);
/* Whether codecs may be given these arrays for a section of @n bytes. */
bool spill_codec_check(const struct spill_array *arrays, size_t n_arrays, size_t n);
