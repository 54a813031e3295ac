/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What layers remember, and where it stands in the blocks of its class (seq.h). Loading a layer books
 * its room and describes it. Layers are loaded in order, so what they book stands in order.
 */
#include <stddef.h>
#include <stdint.h>

#include "seq/seq.h"

struct err;
struct model;
struct model_kv_array;

struct memory_class {
        size_t size;                   /* bytes booked so far */
        struct model_kv_array *arrays; /* owned; by rising offset */
        size_t n_arrays;
};

/* The class that layer @layer, which attends, has its keys and values in. */
enum seq_class memory_class(const struct model *m, uint32_t layer);
/* Book @size bytes of every block of the class. Returns their offset, a multiple of 64. */
size_t memory_book(struct model *m, enum seq_class c, size_t size);
/* Describe the next array of the class; its offset is at or after the end of those before. 0 or
 * -ERR_NOMEM. */
int memory_describe(
        struct model *m, enum seq_class c, const struct model_kv_array *a, struct err *e);
/*
 * Book room for a layer's state, floats [n_tiles][n_tokens][n_channels], and describe it. *ret_offset
 * is in bytes from the beginning of kern_run.state and kern_run.next, a multiple of 64. A kernel must
 * write every float of it that is ever read. A layer may book several. 0, -ERR_NOMEM, or -ERR_LIMIT.
 */
int state_book(struct model *m, uint32_t layer, uint32_t n_tiles, uint32_t n_channels,
        uint32_t n_tokens, size_t *ret_offset, struct err *e);

/* What all layers have booked. */
struct seq_shape memory_shape(const struct model *m);
void memory_deinit(struct model *m);
