/* SPDX-License-Identifier: MIT */
#pragma once
/* Puts GGUF files together, right or wrong ones. Aborts without memory. */
#include "base/buf.h"
#include "gguf/gguf.h"

#define MAGIC "GGUF"

void put(struct buf *b, const void *p, size_t n);
void put_u8(struct buf *b, uint8_t v);
void put_u32(struct buf *b, uint32_t v);
void put_u64(struct buf *b, uint64_t v);
void put_str(struct buf *b, const char *s);
void put_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv);
/* Key and type; the value follows. */
void put_key(struct buf *b, const char *key, uint32_t type);
void put_kv_u32(struct buf *b, const char *key, uint32_t v);
void put_kv_str(struct buf *b, const char *key, const char *v);
/* Key, array type, element type, count; the elements follow. */
void put_kv_array(struct buf *b, const char *key, uint32_t type, uint64_t count);
void put_tensor(struct buf *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type,
        uint64_t offset);
/* Zero bytes up to a multiple of @align, and then @n bytes 0, 1, 2, ... */
void put_data(struct buf *b, size_t align, size_t n);
