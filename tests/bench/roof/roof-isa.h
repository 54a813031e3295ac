/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to roof: the loops of each instruction set, ended by one without a name. Their instructions are written out:
 * a compiler moves products of operands that never change out of a loop, or copies registers to and fro.
 */
#include <stdint.h>

#include "roof.h"

extern const struct roof_loop roof_avx2[], roof_avx_vnni[], roof_avx512[], roof_avx512_vnni[];

/* As in roof-stream.h. */
typedef void roof_stream_fn(unsigned n, const void *const *x, void *y, size_t size, uint64_t flip);
roof_stream_fn roof_avx2_stream, roof_avx_vnni_stream, roof_avx512_stream, roof_avx512_vnni_stream;

/* Sums and operands of a tile: enough sums to hide the latencies, few enough registers for 16 of them. */
#define ROOF_ROWS 2
#define ROOF_COLUMNS 4
#define ROOF_TILE (ROOF_ROWS * ROOF_COLUMNS)
