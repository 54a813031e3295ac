/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The kernels of products are compiled without ThreadSanitizer (meson.build). Each task of a product
 * names what it reads of other tasks and what it writes, so two tasks that write the same rows, or
 * one that reads what is still being written, are found all the same. Nothing in other builds.
 */
#include <stddef.h>

#if defined(__SANITIZE_THREAD__)
void __tsan_read_range(void *p, long size);
void __tsan_write_range(void *p, long size);

static inline void kern_tsan_reads(const void *p, size_t size) {
        __tsan_read_range((void *)(size_t)p, (long)size);
}
static inline void kern_tsan_writes(void *p, size_t size) {
        __tsan_write_range(p, (long)size);
}
#else
static inline void kern_tsan_reads(const void *p, size_t size) {
}
static inline void kern_tsan_writes(void *p, size_t size) {
}
#endif
