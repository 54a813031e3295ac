/* SPDX-License-Identifier: MIT */
/* Any bytes as a model file: refused with an error, or a model that computes without a fault. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/ledger.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "seq/seq.h"

#define MAX_MEMORY (16u << 20)
#define N_TOKENS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compute(const struct model *m, const struct model_info *info) {
        _cleanup_(seq_pool_freep) struct seq_pool *p = NULL;
        _cleanup_(model_work_freep) struct model_work *w = NULL;
        _cleanup_(kern_freep) struct kern *k = NULL;
        struct ledger ledger = LEDGER_INIT(info->block_size);
        struct model_token batch[N_TOKENS];
        struct seq *s = NULL;
        volatile float sink;

        if (kern_new(&k, 1, KERN_GENERIC, NULL) < 0 ||
                model_work_new(&w, m, k, N_TOKENS, 1, NULL) < 0 ||
                seq_pool_new(&p, &ledger, info->block_size, info->block_tokens, NULL) < 0 ||
                seq_new(&s, p, NULL) < 0)
                return;
        if (info->context >= N_TOKENS && seq_reserve(s, N_TOKENS, NULL) == 0) {
                for (uint32_t i = 0; i < N_TOKENS; i++)
                        batch[i] = (struct model_token){.token = (int32_t)(i % info->n_vocab),
                                .pos = i,
                                .seq = s,
                                .want_logits = i == N_TOKENS - 1};
                (void)model_forward(w, batch, N_TOKENS, NULL); /* cannot fail */
                sink = model_logits(w, 0)[info->n_vocab - 1];
                (void)sink;
                seq_commit(s, N_TOKENS);
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
        if (info.block_size <= MAX_MEMORY && model_work_size(m, N_TOKENS, 1) <= MAX_MEMORY)
                compute(m, &info);
        return 0;
}
