/* SPDX-License-Identifier: MIT */
#pragma once
/* What the families of attention share: how kernels ask for the next group. */
#include "kern/kern-isa.h"
#include <immintrin.h>

KERN_INLINE size_t kern_attn_size(enum kern_kv_type type) {
        return type == KERN_KV_F32 ? 4 : type == KERN_KV_F16 ? 2 : 1;
}

/* The lines of @size bytes from @p on, which are of kv->next. */
KERN_INLINE void kern_attn_prefetch(const struct kern_attn_kv *kv, const uint8_t *p, size_t size) {
        KERN_UNROLL for (size_t b = 0; b < size; b += 64) {
                if (kv->once)
                        _mm_prefetch((const char *)p + b, _MM_HINT_NTA);
                else
                        _mm_prefetch((const char *)p + b, _MM_HINT_T0);
        }
}
