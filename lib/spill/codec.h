/* SPDX-License-Identifier: MIT */
#pragma once
/* Lossless block codecs, one row each. The id is in every record, so rows are only ever added. */
#include <stddef.h>

struct spill_codec {
        unsigned id; /* SPILL_CODEC_* */
        const char *name;
        /* Encode src[0..n) into at most @max bytes. Returns the size, or 0 if it does not fit.
         * @max < n <= 1 GiB; src and dst do not overlap. */
        size_t (*encode)(void *dst, size_t max, const void *src, size_t n);
        /* Decode src[0..n), which is not trusted, into exactly @dst_size bytes. 0, or 1 if it is
         * not an encoding of that many bytes; nothing outside of dst is written. */
        int (*decode)(void *dst, size_t dst_size, const void *src, size_t n);
};

/* The row, or NULL. */
const struct spill_codec *spill_codec_find(unsigned id);
