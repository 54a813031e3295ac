/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What clang's AddressSanitizer asks at each load and store of a packed tile (meson.build, kern-asan.c). The
 * runtime's own function looks at the shadow of a vector in a general way, which was half of the time of the
 * engine's tests.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where Linux on x86-64 has the shadow: a byte for eight of memory, 0 where all eight may be touched. */
#define KERN_ASAN_SHADOW 0x7fff8000u

typedef uint32_t kern_asan_u32 __attribute__((aligned(1), may_alias));
typedef uint64_t kern_asan_u64 __attribute__((aligned(1), may_alias));

/*
 * Whether [addr, addr + size) may be touched for certain: all shadow of it is 0. Where it is not, or the size is
 * that of no register, the runtime has to say.
 */
__attribute__((no_sanitize("address"))) static inline bool kern_asan_is_clean(
        uintptr_t addr, size_t size) {
        const uint8_t *first = (const uint8_t *)(KERN_ASAN_SHADOW + (addr >> 3)),
                      *last = (const uint8_t *)(KERN_ASAN_SHADOW + ((addr + size - 1) >> 3));

        if (size == 64)
                return *(const kern_asan_u64 *)first == 0 && *last == 0;
        if (size == 32)
                return *(const kern_asan_u32 *)first == 0 && *last == 0;
        return size <= 16 && *first == 0 && first[size > 8] == 0 && *last == 0;
}
