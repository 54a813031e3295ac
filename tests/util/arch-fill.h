/* SPDX-License-Identifier: MIT */
#pragma once
/* Part of arch-build. */
#include <stddef.h>
#include <stdint.h>

/* Random blocks of a quantised type. This needs no code that rounds to the type: they are random bytes
 * between scales that give values of about this deviation, and lib/quant reads them. */
void arch_fill_blocks(
        uint64_t *state, uint32_t type, uint8_t *data, size_t n_blocks, float deviation);
