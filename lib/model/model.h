/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Architectures: load, validate, forward.
 *
 * One architecture is one row of data (archs.c); what no other computes is in a file of its own
 * (arch-<name>.c). The model is immutable after loading; a model_work holds the activations of one
 * caller.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"
#include "kern/kern.h"
#include "seq/seq.h"

struct err;
struct gguf;
struct gguf_progress;
struct model;
struct model_work;

/* The name of the i-th architecture (general.architecture) that model_open() knows, sorted; NULL behind
 * the last. Any thread. */
const char *model_supported(size_t i);

struct model_options {
        enum kern_kv_type kv_type;
        uint32_t context; /* positions, at most the model's context_length; 0: exactly that */
        /* The hash of the weights, if the caller knows it; NULL: the file is read to compute it. */
        const uint64_t *weights_hash;
        const struct gguf_progress *progress; /* of that read, or NULL */
};

/* Validates every tensor (present, shape, supported type) and every parameter (ranges, finite). The
 * gguf must outlive the model (weights stay in its map). Hashes the file for the fingerprint unless
 * the options have the hash; -ERR_CANCELLED if the progress callback ended the hashing. */
int model_open(
        struct model **ret, const struct gguf *g, const struct model_options *o, struct err *e);
struct model *model_free(struct model *m);
DEFINE_CLEANUP(struct model *, model_free);

/*
 * Copies the weights into the layout that @k multiplies fastest (kern_repack()), for all work with @k; work with
 * another is as wrong as a crash. Results keep their bits. The file's pages that are then of no use go back to the system.
 * model_repacked_size(): the bytes that takes, 0 if nothing gains. -ERR_NOMEM: all is as it was.
 * Not while a forward call runs. @k NULL: away with the copy.
 */
size_t model_repacked_size(const struct model *m, const struct kern *k);
int model_repack(struct model *m, struct kern *k, struct err *e);

struct model_info {
        const char *arch; /* owned by the model */
        const char *name; /* general.name or "" */
        uint32_t n_vocab, n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_expert,
                n_expert_used;
        uint32_t context;                /* positions that may be used */
        uint32_t context_train;          /* the file's context_length */
        uint64_t n_params, weights_size; /* bytes of tensor data */
        uint64_t repacked_size;          /* bytes of them that model_repack() copied; 0: none */
        uint32_t block_tokens;           /* tokens per block of attention's memory (32) */
        struct seq_shape shape;          /* of sequence memory: which classes the layers need */
        enum kern_kv_type kv_type;       /* part of the fingerprint */
        struct fingerprint fingerprint;
};
void model_info(const struct model *m, struct model_info *ret);

/*
 * The layout of a class's blocks: the arrays of all layers in order of offset. Element (tile, channel,
 * token) is at [tile][channel][token] if channel_major, else at [tile][token][channel]. A layer's
 * arrays are contiguous and layers are in order, so that a block can be cut into groups of layers.
 * Bytes that no array covers are padding (zero in fresh pages, never read).
 *
 * Blocks of attention (SEQ_ALL, SEQ_WINDOW): a tile is a KV head. Per layer: K, V; with Q8_0: K (int8),
 * K's scales (f16, n_channels = groups), V, V's scales. With latent attention (MLA): one tile, the
 * latent row with the rotated key behind it, token by token; with Q8_0 their scales.
 *
 * States (SEQ_STATE) are always F32: they are sums over all tokens so far, and rounding them would add
 * up. n_tokens is 1 where an array has no second dimension.
 */
enum model_kv_element { MODEL_KV_F16, MODEL_KV_F32, MODEL_KV_I8 };
struct model_kv_array {
        uint32_t layer;
        enum model_kv_element element;
        uint64_t offset; /* bytes from the block's start */
        uint32_t n_tiles, n_channels, n_tokens;
        bool channel_major;
};
/* Returns the number of arrays (0 without such a class); *ret is owned by the model. */
size_t model_kv_arrays(const struct model *m, enum seq_class c, const struct model_kv_array **ret);

/* Make activations for up to @max_tokens per forward call, up to @max_outputs of them with logits.
 */
int model_work_new(struct model_work **ret, const struct model *m, struct kern *k,
        uint32_t max_tokens, uint32_t max_outputs, struct err *e);
struct model_work *model_work_free(struct model_work *w);
DEFINE_CLEANUP(struct model_work *, model_work_free);
/* Bytes that model_work_new() would take (for memory budgets). */
size_t model_work_size(const struct model *m, uint32_t max_tokens, uint32_t max_outputs);

struct model_token {
        int32_t token; /* 0 <= token < n_vocab, checked by the caller */
        uint32_t pos;  /* < context */
        struct seq *seq;
        bool want_logits;
};
/*
 * For callers whose sequence memory is still being loaded, or who have something else to do meanwhile.
 * layer() is called on the calling thread once per layer, in rising order, before the layer reads or
 * writes sequence memory; it may block until that layer's part of all blocks is there. A nonzero
 * result ends the forward call.
 */
struct model_wait {
        int (*layer)(void *arg, uint32_t layer);
        void *arg;
};
/*
 * Compute a batch: tokens of any number of sequences. The tokens of one sequence stand together, in rising
 * positions that follow its committed end without gaps. The caller has reserved the positions with
 * seq_reserve() and commits them afterwards, all of them if the model has states. A token's logits depend only on its sequence's tokens
 * up to that token (I2). 1 <= n <= max_tokens. Engine thread only.
 *
 * Returns 0, or the nonzero result of @wait (NULL: nothing to wait for). In the latter case there
 * are no logits and the memory of the reserved positions is undefined: the caller must not commit
 * them before computing them again. Committed positions are untouched, and @w stays usable. Without
 * @wait the call cannot fail.
 */
int model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait);
/* Logits [n_vocab] of the i-th token with want_logits in the last forward call that returned 0;
 * valid until the next call. */
const float *model_logits(const struct model_work *w, size_t i);
