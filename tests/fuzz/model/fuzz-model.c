/* SPDX-License-Identifier: MIT */
/* Any bytes as a model file: refused with an error, or a model that computes without a fault. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "seq/seq.h"

#define MAX_MEMORY (16u << 20)
#define N_TOKENS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of the blocks that N_TOKENS tokens need: one of each class, and the state before them. */
static size_t memory_size(const struct model_info *info) {
        size_t n = 0;

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                if (info->shape.size[c] > MAX_MEMORY)
                        return SIZE_MAX;
                else
                        n += (c == SEQ_STATE ? 2 : 1) * align_up(info->shape.size[c], 65536);
        return n;
}

static void forward(
        struct model_work *w, struct seq *s, const struct model_info *info, uint32_t n) {
        struct model_token batch[N_TOKENS];
        volatile float sink;

        if (seq_reserve(s, n, NULL) != 0)
                return;
        for (uint32_t i = 0; i < n; i++)
                batch[i] = (struct model_token){.token = (int32_t)(i % info->n_vocab),
                        .pos = seq_n_tokens(s) + i,
                        .seq = s,
                        .want_logits = i == n - 1};
        (void)model_forward(w, batch, n, NULL); /* cannot fail */
        sink = model_logits(w, 0)[info->n_vocab - 1];
        (void)sink;
        seq_commit(s, n);
}

static void compute(const struct model *m, const struct model_info *info) {
        _cleanup_(seq_pool_freep) struct seq_pool *p = NULL;
        _cleanup_(model_work_freep) struct model_work *w = NULL;
        _cleanup_(kern_freep) struct kern *k = NULL;
        struct ledger ledger = LEDGER_INIT(memory_size(info));
        struct seq *s = NULL;

        if (kern_new(&k, 1, KERN_GENERIC, NULL) < 0 ||
                model_work_new(&w, m, k, N_TOKENS, 1, NULL) < 0 ||
                seq_pool_new(&p, &ledger, &info->shape, NULL) < 0 || seq_new(&s, p, NULL) < 0)
                return;
        if (info->context >= N_TOKENS) {
                forward(w, s, info, N_TOKENS - 1);
                forward(w, s, info, 1); /* with a state that was written */
        }
        seq_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(gguf_freep) struct gguf *g = NULL;
        _cleanup_(model_freep) struct model *m = NULL;
        struct model_info info;

        if (gguf_parse(&g, data, size, NULL) < 0 ||
                model_open(&m, g, &(struct model_options){0}, NULL) < 0)
                return 0;
        model_info(m, &info);
        if (memory_size(&info) <= MAX_MEMORY && model_work_size(m, N_TOKENS, 1) <= MAX_MEMORY)
                compute(m, &info);
        return 0;
}
