/* SPDX-License-Identifier: MIT */
#pragma once
/* A random model with everything needed to run it, for tests. Failures end the test (cmocka). */
#include "base/ledger.h"
#include "kern/kern.h"
#include "model/model.h"
#include "util/llama-build.h"

struct gguf;
struct seq;
struct seq_pool;

struct rig {
        uint8_t *bytes;
        struct gguf *gguf;
        struct model *model;
        struct kern *kern;
        struct model_work *work;
        struct ledger ledger;
        struct seq_pool *pool;
        struct model_info info;
        bool mapped; /* for rig_use(): weights stay as the file has them */
};

/* In place: *r must not move. rig_open_build() frees @b.
 * @max_tokens per forward call, all of which may want logits. */
void rig_open_build(struct rig *r, struct gguf_build *b, enum kern_kv_type kv);
void rig_open(struct rig *r, const struct llama_spec *spec, enum kern_kv_type kv);
void rig_use(struct rig *r, unsigned n_threads, enum kern_isa isa, uint32_t max_tokens);
void rig_close(struct rig *r);

struct seq *rig_seq(struct rig *r);
/* Append tokens in chunks of @chunk; logits [n][n_vocab] of all, or NULL if none are wanted. */
void rig_feed(struct rig *r, struct seq *s, const int32_t *tokens, uint32_t n, uint32_t chunk,
        float *logits);
/* @n reproducible tokens. */
void rig_tokens(const struct rig *r, uint64_t seed, int32_t *ret, uint32_t n);
