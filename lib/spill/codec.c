/* SPDX-License-Identifier: MIT */
#include "spill/codec.h"

#include <lz4.h>
#include <string.h>

#include "base/util.h"
#include "spill/codec-kv.h"
#include "spill/spill.h"

/* Raw is what is left when the others do not fit, so it never does either. */
static size_t raw_encode(void *dst, size_t max, const void *src, size_t n,
        const struct spill_array *arrays, size_t n_arrays, void *scratch) {
        return 0;
}

static int raw_decode(void *dst, size_t dst_size, const void *src, size_t n,
        const struct spill_array *arrays, size_t n_arrays, void *scratch) {
        if (n != dst_size)
                return 1;
        memcpy(dst, src, n);
        return 0;
}

static size_t lz4_encode(void *dst, size_t max, const void *src, size_t n,
        const struct spill_array *arrays, size_t n_arrays, void *scratch) {
        int r = LZ4_compress_default(src, dst, (int)n, (int)max);

        return r > 0 ? (size_t)r : 0;
}

static int lz4_decode(void *dst, size_t dst_size, const void *src, size_t n,
        const struct spill_array *arrays, size_t n_arrays, void *scratch) {
        int r = LZ4_decompress_safe(src, dst, (int)n, (int)dst_size);

        return r < 0 || (size_t)r != dst_size;
}

static const struct spill_codec codecs[] = {
        {SPILL_CODEC_RAW, "raw", raw_encode, raw_decode},
        {SPILL_CODEC_LZ4, "lz4", lz4_encode, lz4_decode},
        {SPILL_CODEC_KV, "kv", spill_kv_encode, spill_kv_decode},
};

const struct spill_codec *spill_codec_find(unsigned id) {
        for (size_t i = 0; i < ARRAY_SIZE(codecs); i++)
                if (codecs[i].id == id)
                        return &codecs[i];
        return NULL;
}

void spill_codec_decode_many(struct spill_codec_job *jobs, size_t n, void *scratch) {
        for (size_t from = 0, to; from < n; from = to) {
                struct spill_codec_job *j = &jobs[from];

                for (to = from + 1; to < n && jobs[to].codec == j->codec; to++)
                        ;
                if (j->codec->id == SPILL_CODEC_KV)
                        spill_kv_decode_many(j, to - from, scratch);
                else
                        for (; j < &jobs[to]; j++)
                                j->r = j->codec->decode(j->dst, j->dst_size, j->src, j->n,
                                        j->arrays, j->n_arrays, scratch);
        }
}
