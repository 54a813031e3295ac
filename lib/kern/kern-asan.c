/* SPDX-License-Identifier: MIT */
/* Compiled without sanitizers, and linked when packed tiles are compiled with AddressSanitizer. */
#include "kern/kern-asan.h"

#define CALLED(name, size)                                                                         \
        void __asan_##name(uintptr_t addr);                                                        \
        void kern_asan_##name(uintptr_t addr);                                                     \
        void kern_asan_##name(uintptr_t addr) {                                                    \
                if (__builtin_expect(!kern_asan_is_clean(addr, size), 0))                          \
                        __asan_##name(addr);                                                       \
        }
#define CALLED_N(name)                                                                             \
        void __asan_##name(uintptr_t addr, size_t size);                                           \
        void kern_asan_##name(uintptr_t addr, size_t size);                                        \
        void kern_asan_##name(uintptr_t addr, size_t size) {                                       \
                if (__builtin_expect(!kern_asan_is_clean(addr, size), 0))                          \
                        __asan_##name(addr, size);                                                 \
        }
CALLED(load1, 1)
CALLED(load2, 2)
CALLED(load4, 4)
CALLED(load8, 8)
CALLED(load16, 16)
CALLED_N(loadN)
CALLED(store1, 1)
CALLED(store2, 2)
CALLED(store4, 4)
CALLED(store8, 8)
CALLED(store16, 16)
CALLED_N(storeN)

void *__asan_memcpy(void *to, const void *from, size_t n);
void *kern_asan_memcpy(void *to, const void *from, size_t n);
void *kern_asan_memcpy(void *to, const void *from, size_t n) {
        return __asan_memcpy(to, from, n);
}

void *__asan_memmove(void *to, const void *from, size_t n);
void *kern_asan_memmove(void *to, const void *from, size_t n);
void *kern_asan_memmove(void *to, const void *from, size_t n) {
        return __asan_memmove(to, from, n);
}

void *__asan_memset(void *to, int byte, size_t n);
void *kern_asan_memset(void *to, int byte, size_t n);
void *kern_asan_memset(void *to, int byte, size_t n) {
        return __asan_memset(to, byte, n);
}
