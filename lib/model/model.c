/* SPDX-License-Identifier: MIT */
#include "model/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "model/internal.h"
#include "model/stack.h"
#include "seq/seq.h"

static int model_find_arch(const struct gguf *g, const struct arch **ret, struct err *e) {
        struct gguf_str s;
        int r;

        r = gguf_get_str(g, "general.architecture", &s, e);
        if (r < 0)
                return r;
        if (r == 1)
                return err_set(e, ERR_FORMAT, "general.architecture is missing");
        *ret = arch_find(s.data, s.size);
        if (*ret)
                return 0;
        return err_set(e, ERR_UNSUPPORTED,
                "architecture '%.*s' is not supported ('confab-model info --supported' lists those "
                "that are)",
                (int)MIN(s.size, (size_t)64), s.data);
}

static int model_read_name(struct model *m, const struct gguf *g, struct err *e) {
        struct gguf_str s = {.data = ""};
        int r;

        r = gguf_get_str(g, "general.name", &s, e);
        if (r < 0)
                return r;
        m->name = strndup(s.data, s.size);
        return m->name ? 0 : err_set(e, ERR_NOMEM, "no memory for the model's name");
}

static void model_count(struct model *m, const struct gguf *g) {
        for (size_t i = 0; i < gguf_n_tensors(g); i++) {
                const struct gguf_tensor *t = gguf_tensor_at(g, i);

                m->n_params += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
                m->weights_size += t->size;
        }
}

/* Everything that affects the bits of a block's content, besides the tokens. */
static int model_identify(
        struct model *m, const struct gguf *g, const struct model_options *o, struct err *e) {
        uint64_t meta = gguf_hash_meta(g);
        uint32_t rules[] = {(uint32_t)meta, (uint32_t)(meta >> 32), (uint32_t)m->kv_type,
                MODEL_BLOCK_TOKENS, MODEL_BLOCK_LAYOUT_VERSION, KERN_ARITHMETIC_VERSION,
                MODEL_ARITHMETIC_VERSION, m->variant, MODEL_CLASS_LAYOUT_VERSION, m->shape.window,
                m->shape.chunk};
        bool classes = m->shape.size[SEQ_WINDOW] || m->shape.size[SEQ_STATE];
        /* Classes and the variant came later: without them the fingerprint is as it was. */
        size_t n = classes ? ARRAY_SIZE(rules) : m->variant ? 8 : 7;
        uint8_t bytes[sizeof(rules)];
        int r = 0;

        for (size_t i = 0; i < n; i++)
                for (size_t b = 0; b < 4; b++)
                        bytes[4 * i + b] = (uint8_t)(rules[i] >> (8 * b));
        if (o->weights_hash)
                m->fingerprint.weights = *o->weights_hash;
        else
                r = gguf_hash_data(g, o->progress, &m->fingerprint.weights);
        if (r != 0)
                return err_set(e, ERR_CANCELLED, "reading the weights was broken off");
        m->fingerprint.rules = hash64(bytes, 4 * n, 0);
        return 0;
}

size_t model_kv_arrays(const struct model *m, enum seq_class c, const struct model_kv_array **ret) {
        *ret = m->memory[c].arrays;
        return m->memory[c].n_arrays;
}

static int model_settle_context(struct model *m, struct err *e) {
        if (m->context > m->hparams.context_train)
                return err_set(e, ERR_INVALID,
                        "a context of %u tokens is more than the %u that the model was trained for",
                        m->context, m->hparams.context_train);
        if (m->context == 0)
                m->context = m->hparams.context_train;
        return 0;
}

const char *model_supported(size_t i) {
        const struct arch *a = arch_at(i);

        return a ? a->name : NULL;
}

int model_open(
        struct model **ret, const struct gguf *g, const struct model_options *o, struct err *e) {
        _cleanup_(model_freep) struct model *m = NULL;
        int r;

        m = calloc(1, sizeof(*m));
        if (!m)
                return err_set(e, ERR_NOMEM, "no memory for a model");
        r = model_find_arch(g, &m->arch, e);
        if (r < 0)
                return r;
        if (!gguf_n_tensors(g))
                return err_set(e, ERR_FORMAT, "the file holds a vocabulary only, no tensors");
        r = model_read_name(m, g, e);
        if (r < 0)
                return r;
        m->hparams.gguf = m->weights.gguf = g;
        m->hparams.arch = m->arch;
        m->kv_type = o->kv_type;
        m->context = o->context;
        r = hparams_read(&m->hparams, e);
        if (r == 0)
                r = model_settle_context(m, e);
        if (r == 0)
                r = stack_load(m, e);
        if (r == 0 && m->dims.no_memory)
                r = err_set(e, ERR_NOMEM, "no memory for the model's matrices");
        if (r < 0)
                return r;
        m->shape = memory_shape(m);
        model_count(m, g);
        r = model_identify(m, g, o, e);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

struct model *model_free(struct model *m) {
        if (!m)
                return NULL;
        if (m->arch && m->arch->code && m->arch->code->free)
                m->arch->code->free(m->own);
        for (size_t i = 0; i < ARRAY_SIZE(m->ropes); i++)
                rope_deinit(&m->ropes[i]);
        stack_free(m->stack);
        repack_free(m->repack);
        free(m->dims.mats);
        weights_deinit(&m->weights);
        memory_deinit(m);
        free(m->name);
        free(m);
        return NULL;
}

void model_info(const struct model *m, struct model_info *ret) {
        const struct hparams *h = &m->hparams;

        *ret = (struct model_info){
                .arch = m->arch->name,
                .name = m->name,
                .n_vocab = h->n_vocab,
                .n_layer = h->n_layer,
                .n_embd = h->n_embd,
                .n_head = hparams_heads(h->n_head, h->n_layer),
                .n_kv_head = hparams_heads(h->n_kv_head, h->n_layer),
                .head_dim = h->head_dim_k,
                .n_ff = h->experts.n ? h->experts.n_ff : h->n_ff[0],
                .n_expert = h->experts.n,
                .n_expert_used = h->experts.n_used,
                .context = m->context,
                .context_train = h->context_train,
                .n_params = m->n_params,
                .weights_size = m->weights_size,
                .repacked_size = repack_source_size(m->repack),
                .block_tokens = MODEL_BLOCK_TOKENS,
                .shape = m->shape,
                .kv_type = m->kv_type,
                .fingerprint = m->fingerprint,
        };
}

/* Row @i of the batch: where its sequence's memory is. */
static void work_place(struct model_work *w, const struct model_token *batch, size_t i) {
        struct seq *s = batch[i].seq;

        for (size_t c = 0; c < ARRAY_SIZE(w->rows); c++)
                w->rows[c][i] = (struct kern_attn_row){
                        .blocks = seq_table(s, (enum seq_class)c), .pos = batch[i].pos};
        if (i && s == batch[i - 1].seq) {
                assert(batch[i].pos == batch[i - 1].pos + 1);
                w->runs[w->n_runs - 1].n++;
                return;
        }
        w->runs[w->n_runs++] = (struct kern_run){
                .first = i, .n = 1, .state = seq_state(s), .next = seq_next_state(s)};
}

int model_forward(struct model_work *w, const struct model_token *batch, size_t n,
        const struct model_wait *wait) {
        int r;

        assert(n >= 1 && n <= w->max_tokens);
        w->wait = wait;
        w->n = n;
        w->n_out = 0;
        w->n_runs = 0;
        for (size_t i = 0; i < n; i++) {
                w->token[i] = batch[i].token;
                w->pos[i] = batch[i].pos;
                work_place(w, batch, i);
                if (batch[i].want_logits)
                        w->output[w->n_out++] = (uint32_t)i;
        }
        assert(w->n_out <= w->max_outputs);
        r = stack_forward(w->model, w);
        w->wait = NULL;
        if (r)
                w->n_out = 0;
        return r;
}

const float *model_logits(const struct model_work *w, size_t i) {
        assert(i < w->n_out);
        return w->logits + i * w->model->dims.n_vocab;
}
