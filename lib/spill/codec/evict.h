/* SPDX-License-Identifier: MIT */
#pragma once
/* The processor's caches: x86-64 with clflushopt (Intel SDM, AMD APM volume 3). */
#include <stddef.h>
#include <stdint.h>

/* Put these bytes out of them, written back to memory; they stay what they are. @data: on a line of 64 bytes,
 * @size whole lines. Does nothing on other processors. Any thread. */
void spill_evict(uint8_t *data, size_t size);
