/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Architectures: load, validate, forward.
 *
 * One architecture is one file (arch-<name>.c) and one row in the registry of model.c. The model is
 * immutable after loading; a model_work holds the activations of one caller.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"
#include "kern/kern.h"

struct err;
struct gguf;
struct gguf_progress;
struct seq;
struct model;
struct model_work;

struct model_options {
        enum kern_kv_type kv_type;
        uint32_t context; /* 0: the model's own context_length; else so many positions, and no more
                             than it has */
        /* The hash of the weights, for callers who know it; NULL: the file is read for it. */
        const uint64_t *weights_hash;
        const struct gguf_progress *progress; /* of that read; NULL: nobody wants to know */
};

/* Validates every tensor (present, shape, supported type) and every parameter (ranges, finite). The
 * gguf must outlive the model (weights stay in its map). Hashes the file for the fingerprint,
 * unless the options have the hash; -ERR_CANCELLED if their progress ended that. */
int model_open(
        struct model **ret, const struct gguf *g, const struct model_options *o, struct err *e);
struct model *model_free(struct model *m);
DEFINE_CLEANUP(struct model *, model_free);

struct model_info {
        const char *arch; /* owned by the model */
        const char *name; /* general.name or "" */
        uint32_t n_vocab, n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_expert,
                n_expert_used;
        uint32_t context;                /* positions that may be used */
        uint32_t context_train;          /* the file's context_length */
        uint64_t n_params, weights_size; /* bytes of tensor data */
        uint32_t block_tokens;           /* tokens per block of sequence memory (32) */
        size_t block_size;               /* bytes per block, multiple of 64 */
        enum kern_kv_type kv_type;       /* part of the fingerprint */
        struct fingerprint fingerprint;
};
void model_info(const struct model *m, struct model_info *ret);

/*
 * What lies where in a block: the arrays of all layers by rising offset. Element (tile, channel,
 * token) is at [tile][channel][token] if channel_major, else at [tile][token][channel]; a tile is a
 * KV head. A layer's arrays are contiguous and layers rise, so that a block can be cut into groups
 * of layers. Bytes that no array covers are padding (zero in fresh pages, never read).
 *
 * Per layer: K, V; with Q8_0: K (int8), K's scales (f16, n_channels = groups), V, V's scales.
 */
enum model_kv_element { MODEL_KV_F16, MODEL_KV_F32, MODEL_KV_I8 };
struct model_kv_array {
        uint32_t layer;
        enum model_kv_element element;
        uint64_t offset; /* bytes from the block's start */
        uint32_t n_tiles, n_channels, n_tokens;
        bool channel_major;
};
/* Returns how many; *ret is owned by the model. */
size_t model_kv_arrays(const struct model *m, const struct model_kv_array **ret);

/* Activations for up to @max_tokens per forward call, of which up to @max_outputs want logits. */
int model_work_new(struct model_work **ret, const struct model *m, struct kern *k,
        uint32_t max_tokens, uint32_t max_outputs, struct err *e);
struct model_work *model_work_free(struct model_work *w);
DEFINE_CLEANUP(struct model_work *, model_work_free);
/* Bytes that model_work_new() would take (for memory budgets). */
size_t model_work_size(const struct model *m, uint32_t max_tokens, uint32_t max_outputs);

struct model_token {
        int32_t token; /* 0 <= token < n_vocab, the caller has checked */
        uint32_t pos;  /* < context */
        struct seq *seq;
        bool want_logits;
};
/*
 * For callers whose sequence memory is still arriving. layer() is called on the calling thread once
 * per layer, in rising order, before the layer touches sequence memory (reads or writes); it may
 * block until that layer's share of all blocks is there. Anything but 0 ends the forward call.
 */
struct model_wait {
        int (*layer)(void *arg, uint32_t layer);
        void *arg;
};
/*
 * Compute a batch: tokens of any number of sequences; tokens of the same sequence in rising
 * positions that follow its committed end without gaps. Their positions have been seq_reserve()d;
 * the caller commits afterwards. Logits of a token depend on its sequence's tokens up to it only
 * (I2). 1 <= n <= max_tokens. Engine thread only.
 *
 * Returns 0, or what @wait (may be NULL: nothing to wait for) ended it with: then there are no
 * logits, and the memory of the reserved positions is undefined: the caller does not commit them,
 * or computes them again. Committed positions are untouched, and @w can be used as before. Without
 * @wait it cannot fail.
 */
int model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
/* Logits [n_vocab] of the i-th token that wanted them in the last forward call that returned 0;
 * valid until the next. */
const float *model_logits(const struct model_work *w, size_t i);
