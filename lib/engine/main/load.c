/* SPDX-License-Identifier: MIT */
/* Loading what an engine has in memory: model and tokenizer, the pool, the buffers for steps. */
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/machine.h"
#include "chat/chat.h"
#include "engine/main/main.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "spill/spill.h"

#define MOST_THREADS 1024u /* the limit of "auto", and of lib/kern */

/* Spilled memory is packed by kernels of its own, which are the whole process's. */
static void cap_codec(uint32_t isa) {
        (void)spill_cap_isa(isa == KERN_GENERIC                        ? SPILL_ISA_GENERIC
                            : isa == KERN_AVX2 || isa == KERN_AVX_VNNI ? SPILL_ISA_AVX2
                                                                       : SPILL_ISA_BEST);
}

/* Whether there is RAM for a copy of weights, beside the pool: what is copied need not stay in the page cache. */
static bool has_room(const struct engine *engine, uint64_t size) {
        struct machine_memory m;
        uint64_t left;

        machine_memory(NULL, &m);
        left = machine_memory_left(&m);
        return engine->o.pool_size ? left >= size && left - size >= engine->o.pool_size
                                   : size <= left / 4 * 3;
}

/* A model that is only looked at is told what would become of it. Without memory it stays in the map. */
static void repack(struct engine *engine) {
        uint64_t size = model_repacked_size(engine->model, engine->kern);

        if (!engine->o.repack || size == 0 || !has_room(engine, size))
                return;
        if (engine->front->looking)
                engine->info.repacked_size = size;
        else if (model_repack(engine->model, engine->kern, NULL) == 0)
                model_info(engine->model, &engine->info);
}

static int load_model(struct engine *engine, struct err *e) {
        struct model_options mo = {.kv_type = engine_kv_type(engine), .context = engine->o.context};
        struct gguf_str template = {0};
        enum kern_isa isa =
                engine->o.max_isa < KERN_N_ISA ? (enum kern_isa)engine->o.max_isa : KERN_N_ISA;
        unsigned threads =
                engine->o.n_threads ? engine->o.n_threads : MIN(machine_cpus(NULL), MOST_THREADS);
        int r;

        r = gguf_open(&engine->gguf, engine->model_path, e);
        if (r < 0)
                return r; /* the error names the file itself */
        cap_codec(engine->o.max_isa);
        r = kern_new(&engine->kern, threads, isa, e);
        if (r == 0)
                r = identity_open_model(engine, &mo, e);
        if (r == 0)
                r = tok_new(&engine->tok, engine->gguf, e);
        if (r == 0)
                r = gguf_get_str(engine->gguf, "tokenizer.chat_template", &template, e);
        if (r >= 0)
                r = chat_new(&engine->chat, engine->tok, template.data, template.size,
                        engine->o.chat_format, e);
        if (r < 0)
                return err_wrap(e, r, "%s", engine->model_path);
        model_info(engine->model, &engine->info);
        repack(engine);
        if (tok_n_vocab(engine->tok) != engine->info.n_vocab)
                return err_set(e, ERR_FORMAT, "%s: the tokenizer has %u tokens, the model %u",
                        engine->model_path, tok_n_vocab(engine->tok), engine->info.n_vocab);
        snprintf(engine->tokenizer_name, sizeof(engine->tokenizer_name), "%s%s%s",
                tok_model_name(engine->tok), tok_pre_name(engine->tok)[0] ? "/" : "",
                tok_pre_name(engine->tok));
        return 0;
}

/* Hash the vocabulary, and find the tokens that end a reply. */
static int scan_vocabulary(struct engine *engine, struct err *e) {
        struct hash64 h;

        hash64_init(&h, engine->info.n_vocab);
        engine->eog = calloc(engine->info.n_vocab, sizeof(*engine->eog));
        if (!engine->eog)
                return err_set(e, ERR_NOMEM, "no memory for the vocabulary");
        for (uint32_t i = 0; i < engine->info.n_vocab; i++) {
                size_t n;
                const char *text = tok_text(engine->tok, (int32_t)i, &n);
                uint64_t size = n;

                hash64_update(&h, &size, sizeof(size));
                hash64_update(&h, text, n);
                engine->max_piece = MAX(engine->max_piece, n);
                if (tok_is_eog(engine->tok, (int32_t)i))
                        engine->eog[engine->n_eog++] = (int32_t)i;
        }
        engine->vocab_hash = hash64_digest(&h);
        return 0;
}

#define LEAST_BLOCKS 3 /* blocks of tokens whose memory any budget has room for */

/* The sizes that the budget is divided by. */
static void measure_blocks(struct engine *engine) {
        struct budget *b = engine->budget;
        size_t attention = seq_pool_slot_size(engine->pool, SEQ_ALL) +
                           seq_pool_slot_size(engine->pool, SEQ_WINDOW);

        b->only_states = attention == 0;
        b->block_size = attention ? attention : seq_pool_slot_size(engine->pool, SEQ_STATE);
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                b->piece_size =
                        MAX(b->piece_size, seq_pool_slot_size(engine->pool, (enum seq_class)c));
        b->least_size = memory_need(engine, LEAST_BLOCKS * engine->info.block_tokens);
}

static void tell_register(struct engine *engine) {
        const struct seq_shape *shape = &engine->info.shape;
        struct store_shape *to = &engine->store_shape;

        *to = (struct store_shape){.block_tokens = shape->block_tokens,
                .window = shape->window,
                .chunk = shape->chunk};
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                if (shape->size[c])
                        to->classes |= 1u << c;
}

static int open_memory(struct engine *engine, struct err *e) {
        const struct model_info *i = &engine->info;
        /* What is copied is no longer free; of a model that is only looked at, nothing is copied. */
        uint64_t copied = engine->front->looking ? 0 : i->repacked_size;
        uint64_t mapped = i->weights_size - MIN(copied, i->weights_size);
        int r;

        tell_register(engine);
        r = seq_pool_new(&engine->pool, &engine->budget->ledger, &engine->info.shape, e);
        if (r < 0)
                return r;
        measure_blocks(engine);
        r = budget_open(engine->budget, engine->o.pool_size, mapped, e);
        if (r == 0)
                r = memory_new(engine, e);
        if (r == 0)
                r = run_new(engine, e);
        if (r == 0)
                run_set_between(engine->run, main_take_early);
        return r;
}

int engine_load(struct engine *engine, struct err *e) {
        int r = load_model(engine, e);

        if (r == 0)
                r = identity_check(engine, e);
        if (r == 0)
                r = scan_vocabulary(engine, e);
        if (r == 0)
                r = layout_make(engine, e);
        if (r == 0)
                r = open_memory(engine, e);
        return r;
}
