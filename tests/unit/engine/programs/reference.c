/* SPDX-License-Identifier: MIT */
/*
 * The straight computation. It uses the same model code and sampler as the engine, and sequences in
 * a pool that is never short; nothing is evicted, written, restored, shared between conversations
 * or moved. It computes whole chunks at once where the engine goes token by token.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/ledger.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "model/model.h"
#include "programs.h"
#include "sample/sample.h"
#include "seq/seq.h"

enum { CHUNK = 64, N_KV = 3 };

struct ref {
        struct gguf *gguf;
        struct kern *kern;
        struct ledger ledger;
        struct ref_kv {
                struct model *model;
                struct model_work *work;
                struct seq_pool *pool;
                struct sample_work *sampler;
                uint32_t n_vocab;
        } kv[N_KV];
};

static void need(int r, const struct err *e) {
        if (r == 0)
                return;
        fprintf(stderr, "reference: %s\n", r < 0 ? e->msg : "no room");
        exit(2);
}

static struct ref_kv *ref_kv(struct ref *r, enum engine_kv kv) {
        static const enum kern_kv_type types[N_KV] = {
                [ENGINE_KV_F16] = KERN_KV_F16,
                [ENGINE_KV_F32] = KERN_KV_F32,
                [ENGINE_KV_Q8_0] = KERN_KV_Q8_0,
        };
        struct model_options mo = {.kv_type = types[kv]};
        struct ref_kv *k = &r->kv[kv];
        struct model_info info;
        struct err e;

        if (k->model)
                return k;
        need(model_open(&k->model, r->gguf, &mo, &e), &e);
        model_info(k->model, &info);
        k->n_vocab = info.n_vocab;
        need(model_work_new(&k->work, k->model, r->kern, CHUNK, CHUNK, &e), &e);
        need(seq_pool_new(&k->pool, &r->ledger, &info.shape, &e), &e);
        need(sample_work_new(&k->sampler, info.n_vocab, &e), &e);
        return k;
}

struct ref *ref_new(const char *model_path) {
        struct ref *r = calloc(1, sizeof(*r));
        struct err e;

        if (!r)
                exit(2);
        r->ledger = LEDGER_INIT((size_t)1 << 33);
        need(gguf_open(&r->gguf, model_path, &e), &e);
        need(kern_new(&r->kern, 1, KERN_N_ISA, &e), &e);
        return r;
}

struct ref *ref_free(struct ref *r) {
        if (!r)
                return NULL;
        for (size_t i = 0; i < N_KV; i++) {
                sample_work_free(r->kv[i].sampler);
                seq_pool_free(r->kv[i].pool);
                model_work_free(r->kv[i].work);
                model_free(r->kv[i].model);
        }
        kern_free(r->kern);
        gguf_free(r->gguf);
        free(r);
        return NULL;
}

struct seq *ref_seq(struct ref *r, enum engine_kv kv) {
        struct seq *s = NULL;
        struct err e;

        need(seq_new(&s, ref_kv(r, kv)->pool, &e), &e);
        return s;
}

struct seq *ref_fork(const struct seq *s, uint32_t n_tokens) {
        struct seq *t = NULL;
        struct err e;

        need(seq_fork(&t, s, MIN(n_tokens, seq_n_tokens(s)), &e), &e);
        return t;
}

void ref_cut(struct seq *s, uint32_t n_tokens) {
        seq_cut(s, n_tokens);
}

void ref_seq_free(struct seq *s) {
        seq_free(s);
}

/* Is token @i what follows from the logits? */
static bool is_same(struct ref_kv *k, const float *logits, const int32_t *tokens, uint32_t i,
        float logprob, const struct sample_params *params, struct ref_difference *ret) {
        uint32_t n_recent = MIN(i, params->penalty_last_n);

        ret->token = sample_token(k->sampler, params, logits, tokens + i - n_recent, n_recent, i);
        ret->logprob = sample_logprob(logits, k->n_vocab, tokens[i]);
        ret->is_token = ret->token != tokens[i];
        return !ret->is_token && memcmp(&ret->logprob, &logprob, sizeof(logprob)) == 0;
}

uint32_t ref_check(struct ref *r, enum engine_kv kv, struct seq *s, const int32_t *tokens,
        uint32_t n_tokens, uint32_t n_new, const float *logprobs,
        const struct sample_params *params, struct ref_difference *ret) {
        struct ref_kv *k = ref_kv(r, kv);
        uint32_t first = n_tokens - n_new, at = seq_n_tokens(s);
        struct model_token batch[CHUNK];
        struct err e;

        if (n_new == 0)
                return 0;
        /* The logits of first - 1 are wanted, and the last token's are not. */
        at = seq_cut(s, MIN(at, first - 1));
        while (at < n_tokens - 1) {
                uint32_t n = MIN(n_tokens - 1 - at, (uint32_t)CHUNK), n_out = 0;

                need(seq_reserve(s, n, &e), &e);
                for (uint32_t i = 0; i < n; i++)
                        batch[i] = (struct model_token){.token = tokens[at + i],
                                .pos = at + i,
                                .seq = s,
                                .want_logits = at + i + 1 >= first};
                if (model_forward(k->work, batch, n, NULL) != 0) {
                        fprintf(stderr, "reference: forward failed\n");
                        exit(2);
                }
                seq_commit(s, n);
                for (uint32_t i = 0; i < n; i++)
                        if (batch[i].want_logits &&
                                !is_same(k, model_logits(k->work, n_out++), tokens, at + i + 1,
                                        logprobs[at + i + 1 - first], params, ret))
                                return at + i + 1 - first;
                at += n;
        }
        /* So that the next cut need not go back to the beginning. */
        need(seq_mark(s, seq_n_tokens(s), &e), &e);
        return n_new;
}
