/* SPDX-License-Identifier: MIT */
#include "spill/codec/evict.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { LINE = 64 };

/* clang 14 has no name for it in __builtin_cpu_supports(). */
static bool has_clflushopt(void) {
        static atomic_int known; /* 0: not yet, 1: no, 2: yes */
        unsigned a, b, c, d;

        if (atomic_load_explicit(&known, memory_order_relaxed) == 0) {
                bool has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_CLFLUSHOPT);

                atomic_store_explicit(&known, has ? 2 : 1, memory_order_relaxed);
        }
        return atomic_load_explicit(&known, memory_order_relaxed) == 2;
}

/* No fence: what is written there later comes after it in any case. */
__attribute__((target("clflushopt"))) static void flush(uint8_t *data, size_t size) {
        for (size_t i = 0; i < size; i += LINE)
                _mm_clflushopt(data + i);
}

void spill_evict(uint8_t *data, size_t size) {
        if (has_clflushopt())
                flush(data, size);
}
#else
void spill_evict(uint8_t *data, size_t size) {
        (void)data;
        (void)size;
}
#endif
