/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A file of real KV blocks, from dump-kv to bench-codec and transforms.py. Little endian: the
 * header, n_arrays descriptions, n_blocks blocks of block_size bytes.
 */
#include <stdint.h>

#define KV_DUMP_MAGIC "CONFKVD2"
struct kv_dump_header {
        char magic[8];
        uint32_t n_arrays, n_blocks;
        uint64_t block_size;
};
struct kv_dump_array {
        uint32_t element; /* enum spill_element */
        uint32_t layer, n_tiles, n_channels, n_tokens, channel_major;
        uint64_t offset;
};
