/* SPDX-License-Identifier: MIT */
/*
 * Writes the sequence memory of a model over a text to a file:
 *
 *      dump-kv MODEL.gguf TEXT-FILE OUT f16|f32|q8_0 N-TOKENS [all|window|state]
 *
 * If the text has fewer tokens, the model continues it (drawn at temperature 1 from a fixed seed).
 * Only full blocks of the one class (all) are written; of states, those at the ends of blocks.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/ledger.h"
#include "base/util.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "kv-dump.h"
#include "model/model.h"
#include "seq/seq.h"
#include "spill/spill.h"
#include "tok/tok.h"

struct dump {
        struct gguf *gguf;
        struct model *model;
        struct model_info info;
        struct kern *kern;
        struct model_work *work;
        struct ledger ledger;
        struct seq_pool *pool;
        struct seq *seq;
        struct tok *tok;
        struct tok_ids ids;
        uint64_t seed;
};

static void check(int r, const struct err *e) {
        if (r == 0)
                return;
        fprintf(stderr, "dump-kv: %s\n", r < 0 ? e->msg : "sequence memory is full");
        exit(1);
}

static enum kern_kv_type kv_type(const char *s) {
        return !strcmp(s, "f32") ? KERN_KV_F32 : !strcmp(s, "q8_0") ? KERN_KV_Q8_0 : KERN_KV_F16;
}

static void open_model(struct dump *d, const char *file, const char *type) {
        struct model_options o = {.kv_type = kv_type(type)};
        struct err e = {0};

        check(gguf_open(&d->gguf, file, &e), &e);
        check(model_open(&d->model, d->gguf, &o, &e), &e);
        model_info(d->model, &d->info);
        check(tok_new(&d->tok, d->gguf, &e), &e);
        check(kern_new(&d->kern, 1, KERN_N_ISA, &e), &e);
        check(model_work_new(&d->work, d->model, d->kern, 1, 1, &e), &e);
        d->ledger = LEDGER_INIT(UINT64_C(1) << 32);
        check(seq_pool_new(&d->pool, &d->ledger, &d->info.shape, &e), &e);
        check(seq_new(&d->seq, d->pool, &e), &e);
}

static void read_text(struct dump *d, const char *file) {
        static char text[1 << 20];
        struct tok_fragment fragment = {.text = text, .parse_special = true};
        struct err e = {0};
        FILE *f = fopen(file, "rb");

        if (!f) {
                perror(file);
                exit(1);
        }
        fragment.size = fread(text, 1, sizeof(text), f);
        fclose(f);
        check(tok_encode(d->tok, &fragment, 1, true, true, 0, &d->ids, &e), &e);
}

static int32_t draw(struct dump *d) {
        const float *logits = model_logits(d->work, 0);
        double max = logits[0], sum = 0, at;

        for (uint32_t i = 1; i < d->info.n_vocab; i++)
                max = logits[i] > max ? logits[i] : max;
        for (uint32_t i = 0; i < d->info.n_vocab; i++)
                sum += exp(logits[i] - max);
        d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
        at = (double)(d->seed >> 11) / 9007199254740992.0 * sum;
        for (uint32_t i = 0; i < d->info.n_vocab; i++) {
                at -= exp(logits[i] - max);
                if (at < 0)
                        return (int32_t)i;
        }
        return 0;
}

static void compute(struct dump *d, uint32_t n_tokens) {
        struct err e = {0};
        int32_t next = 0;

        for (uint32_t i = 0; i < n_tokens; i++) {
                struct model_token t = {.token = i < d->ids.n ? d->ids.ids[i] : next,
                        .pos = i,
                        .seq = d->seq,
                        .want_logits = true};

                check(seq_reserve(d->seq, 1, &e), &e);
                (void)model_forward(d->work, &t, 1, NULL);
                seq_commit(d->seq, 1);
                /* Keep what is to be written. */
                if ((i + 1) % d->info.block_tokens == 0)
                        check(seq_mark(d->seq, i + 1, &e), &e);
                next = draw(d);
        }
}

static const void *block_data(const struct dump *d, enum seq_class c, uint32_t i) {
        struct seq_cell cell;

        if (c == SEQ_STATE)
                i = (i + 1) * d->info.block_tokens - 1;
        return seq_cell_at(d->seq, c, i, &cell) ? seq_block_data(cell.block) : NULL;
}

static void write_out(const struct dump *d, const char *file, enum seq_class c, uint32_t n_blocks) {
        static const uint32_t elements[] = {
                [MODEL_KV_F16] = SPILL_F16, [MODEL_KV_F32] = SPILL_F32, [MODEL_KV_I8] = SPILL_I8};
        const struct model_kv_array *arrays;
        struct kv_dump_header h = {
                .magic = KV_DUMP_MAGIC, .n_blocks = n_blocks, .block_size = d->info.shape.size[c]};
        FILE *f = fopen(file, "wb");
        bool good = f;

        h.n_arrays = (uint32_t)model_kv_arrays(d->model, c, &arrays);
        good = good && fwrite(&h, sizeof(h), 1, f) == 1;
        for (uint32_t i = 0; good && i < h.n_arrays; i++) {
                const struct model_kv_array *a = &arrays[i];
                struct kv_dump_array out = {elements[a->element], a->layer, a->n_tiles,
                        a->n_channels, a->n_tokens, a->channel_major, a->offset};

                good = fwrite(&out, sizeof(out), 1, f) == 1;
        }
        for (uint32_t i = 0; good && i < n_blocks; i++)
                good = fwrite(block_data(d, c, i), h.block_size, 1, f) == 1;
        if (!good || fclose(f) != 0) {
                perror(file);
                exit(1);
        }
}

int main(int argc, char **argv) {
        static const char *const classes[] = {"all", "window", "state"};
        struct dump d = {.seed = 1};
        enum seq_class c = SEQ_ALL;
        uint32_t n_tokens;

        while (argc == 7 && c < SEQ_N_CLASSES && strcmp(argv[6], classes[c]) != 0)
                c++;
        if (argc < 6 || argc > 7 || c == SEQ_N_CLASSES) {
                fprintf(stderr, "Usage: dump-kv MODEL.gguf TEXT OUT f16|f32|q8_0 N-TOKENS "
                                "[all|window|state]\n");
                return 2;
        }
        open_model(&d, argv[1], argv[4]);
        read_text(&d, argv[2]);
        n_tokens = (uint32_t)MIN(strtoul(argv[5], NULL, 10), (unsigned long)d.info.context);
        if (d.info.shape.size[c] == 0) {
                fprintf(stderr, "dump-kv: the model has no such memory: %s\n", classes[c]);
                return 1;
        }
        compute(&d, n_tokens);
        write_out(&d, argv[3], c, n_tokens / d.info.block_tokens);
        tok_ids_deinit(&d.ids);
        tok_free(d.tok);
        seq_free(d.seq);
        seq_pool_free(d.pool);
        model_work_free(d.work);
        kern_free(d.kern);
        model_free(d.model);
        gguf_free(d.gguf);
        return 0;
}
