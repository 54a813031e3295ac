/* SPDX-License-Identifier: MIT */
#include "util/model-rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "seq/seq.h"
#include "util/test.h"

#define RIG_BLOCKS 1024

static void check(int r, const struct err *e) {
        if (r < 0)
                fail_msg("%s", e->msg);
        assert_int_equal(r, 0);
}

void rig_open_build(struct rig *r, struct gguf_build *b, enum kern_kv_type kv) {
        struct model_options o = {.kv_type = kv};
        struct err e;
        size_t size, room = 0;

        memset(r, 0, sizeof(*r));
        r->bytes = gguf_build_bytes(b, &size);
        gguf_build_free(b);
        check(gguf_parse(&r->gguf, r->bytes, size, &e), &e);
        check(model_open(&r->model, r->gguf, &o, &e), &e);
        model_info(r->model, &r->info);
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                room += RIG_BLOCKS * align_up(r->info.shape.size[c], 4096);
        r->ledger = LEDGER_INIT(room);
        check(seq_pool_new(&r->pool, &r->ledger, &r->info.shape, &e), &e);
}

void rig_open(struct rig *r, const struct llama_spec *spec, enum kern_kv_type kv) {
        rig_open_build(r, llama_build(spec), kv);
}

void rig_use(struct rig *r, unsigned n_threads, enum kern_isa isa, uint32_t max_tokens) {
        struct err e;

        r->work = model_work_free(r->work);
        r->kern = kern_free(r->kern);
        check(kern_new(&r->kern, n_threads, isa, &e), &e);
        check(model_repack(r->model, r->mapped ? NULL : r->kern, &e), &e);
        model_info(r->model, &r->info);
        check(model_work_new(&r->work, r->model, r->kern, max_tokens, max_tokens, &e), &e);
}

void rig_close(struct rig *r) {
        model_work_free(r->work);
        kern_free(r->kern);
        seq_pool_free(r->pool);
        assert_int_equal(ledger_used(&r->ledger), 0);
        model_free(r->model);
        gguf_free(r->gguf);
        free(r->bytes);
}

struct seq *rig_seq(struct rig *r) {
        struct seq *s = NULL;
        struct err e;

        check(seq_new(&s, r->pool, &e), &e);
        return s;
}

void rig_feed(struct rig *r, struct seq *s, const int32_t *tokens, uint32_t n, uint32_t chunk,
        float *logits) {
        struct model_token *batch = calloc(chunk, sizeof(*batch));
        size_t n_vocab = r->info.n_vocab;
        struct err e;

        assert_non_null(batch);
        for (uint32_t from = 0; from < n;) {
                uint32_t count = n - from < chunk ? n - from : chunk, pos = seq_n_tokens(s);

                check(seq_reserve(s, count, &e), &e);
                for (uint32_t i = 0; i < count; i++)
                        batch[i] = (struct model_token){.token = tokens[from + i],
                                .pos = pos + i,
                                .seq = s,
                                .want_logits = logits != NULL};
                assert_int_equal(model_forward(r->work, batch, count, NULL), 0);
                for (uint32_t i = 0; logits && i < count; i++)
                        memcpy(logits + (from + i) * n_vocab, model_logits(r->work, i),
                                n_vocab * sizeof(*logits));
                seq_commit(s, count);
                from += count;
        }
        free(batch);
}

void rig_tokens(const struct rig *r, uint64_t seed, int32_t *ret, uint32_t n) {
        for (uint32_t i = 0; i < n; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                ret[i] = (int32_t)((seed >> 33) % r->info.n_vocab);
        }
}
