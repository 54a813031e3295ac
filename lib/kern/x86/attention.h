/* SPDX-License-Identifier: MIT */
#pragma once
/* What the families of attention share. */
#include "kern/kern-isa.h"
#include <immintrin.h>

KERN_INLINE size_t kern_attn_size(enum kern_kv_type type) {
        return type == KERN_KV_F32 ? 4 : type == KERN_KV_F16 ? 2 : 1;
}
