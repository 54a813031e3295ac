/* SPDX-License-Identifier: MIT */
#pragma once
/* For tests that count memory. */
#include <stddef.h>

struct spill;

/* Allocate @n scratch buffers, which come with their first use else. They stay until spill_trim(). */
void scratch_rig_use(struct spill *s, size_t n);
