/* SPDX-License-Identifier: MIT */
#include "exact.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "seq/seq.h"
#include "util/model-rig.h"
#include "util/test.h"

#define N_TOKENS 75 /* crosses two block borders, ends inside a block */
#define MAX_BATCH (3 * N_TOKENS)

struct bench {
        struct rig *rig;
        int32_t tokens[N_TOKENS];
        float *want, *got; /* [N_TOKENS][n_vocab] */
        size_t row;        /* bytes */
};

static void same_rows(const struct bench *b, uint32_t from, uint32_t to, const char *what) {
        size_t n = b->rig->info.n_vocab;

        for (uint32_t t = from; t < to; t++)
                if (memcmp(b->want + t * n, b->got + t * n, b->row))
                        fail_msg("%s: token %u differs", what, t);
        memset(b->got, 0, N_TOKENS * b->row);
}

static void open_bench(struct bench *b, struct rig *r) {
        struct seq *s;

        b->rig = r;
        rig_use(b->rig, 1, KERN_GENERIC, MAX_BATCH);
        rig_tokens(b->rig, 7, b->tokens, N_TOKENS);
        b->row = b->rig->info.n_vocab * sizeof(float);
        b->want = calloc(N_TOKENS, b->row);
        b->got = calloc(N_TOKENS, b->row);
        assert_non_null(b->want);
        assert_non_null(b->got);
        s = rig_seq(b->rig);
        rig_feed(b->rig, s, b->tokens, N_TOKENS, 1, b->want);
        seq_free(s);
}

static void close_bench(struct bench *b) {
        free(b->want);
        free(b->got);
}

/* The greatest logit must differ between positions, or equal bits would prove little. */
static void check_sense(const struct bench *b) {
        size_t n = b->rig->info.n_vocab;

        assert_memory_not_equal(b->want, b->want + n, b->row);
        for (size_t i = 0; i < N_TOKENS * n; i++)
                assert_true(b->want[i] > -1000.0f && b->want[i] < 1000.0f);
}

static void check_chunks(struct bench *b) {
        static const uint32_t chunks[] = {7, 32, 33, N_TOKENS};

        for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
                struct seq *s = rig_seq(b->rig);

                rig_feed(b->rig, s, b->tokens, N_TOKENS, chunks[i], b->got);
                seq_free(s);
                same_rows(b, 0, N_TOKENS, "chunked prefill");
        }
}

/* Every instruction set that this machine has, each with one thread and with several. */
static void check_threads_and_isa(struct bench *b) {
        unsigned seen = 0;

        for (int isa = 0; isa < KERN_N_ISA; isa++)
                for (unsigned n_threads = 1; n_threads <= 3; n_threads += 2) {
                        struct seq *s;

                        rig_use(b->rig, n_threads, (enum kern_isa)isa, MAX_BATCH);
                        if (n_threads == 1 && seen & 1u << kern_isa(b->rig->kern))
                                break;
                        seen |= 1u << kern_isa(b->rig->kern);
                        s = rig_seq(b->rig);
                        rig_feed(b->rig, s, b->tokens, 50, 50, b->got);
                        rig_feed(b->rig, s, b->tokens + 50, N_TOKENS - 50, 1,
                                b->got + 50 * b->rig->info.n_vocab);
                        seq_free(s);
                        same_rows(b, 0, N_TOKENS, kern_isa_name(kern_isa(b->rig->kern)));
                }
        rig_use(b->rig, 2, kern_cpu_isa(), MAX_BATCH);
}

/* The sequence in the middle of two others, of other lengths, in the same batches. */
static void check_company(struct bench *b) {
        struct seq *s[3] = {rig_seq(b->rig), rig_seq(b->rig), rig_seq(b->rig)};
        struct model_token batch[MAX_BATCH];
        int32_t other[N_TOKENS];
        size_t n_vocab = b->rig->info.n_vocab;

        rig_tokens(b->rig, 99, other, N_TOKENS);
        rig_feed(b->rig, s[0], other, 37, 37, NULL);
        for (uint32_t done = 0; done < N_TOKENS;) {
                uint32_t step = MIN(done % 4 * 5 + 1, N_TOKENS - done), n = 0;

                for (int q = 0; q < 3; q++) {
                        uint32_t count = q == 1 ? step : 1;

                        assert_int_equal(seq_reserve(s[q], count, NULL), 0);
                        for (uint32_t i = 0; i < count; i++, n++)
                                batch[n] = (struct model_token){
                                        .token = q == 1 ? b->tokens[done + i] : other[done],
                                        .pos = seq_n_tokens(s[q]) + i,
                                        .seq = s[q],
                                        .want_logits = q == 1};
                }
                assert_int_equal(model_forward(b->rig->work, batch, n, NULL), 0);
                for (uint32_t i = 0; i < step; i++)
                        memcpy(b->got + (done + i) * n_vocab, model_logits(b->rig->work, i),
                                b->row);
                for (int q = 0; q < 3; q++)
                        seq_commit(s[q], q == 1 ? step : 1);
                done += step;
        }
        for (int q = 0; q < 3; q++)
                seq_free(s[q]);
        same_rows(b, 0, N_TOKENS, "with others in the batch");
}

static void check_fork_and_cut(struct bench *b) {
        struct seq *s = rig_seq(b->rig), *f = NULL;
        size_t n_vocab = b->rig->info.n_vocab;
        int32_t other[N_TOKENS];

        rig_tokens(b->rig, 5, other, N_TOKENS);
        rig_feed(b->rig, s, b->tokens, 45, 45, NULL);
        assert_int_equal(seq_fork(&f, s, 45, NULL), 0);
        rig_feed(b->rig, f, other, 30, 8, NULL); /* must not disturb s */
        rig_feed(b->rig, s, b->tokens + 45, N_TOKENS - 45, 4, b->got + 45 * n_vocab);
        same_rows(b, 45, N_TOKENS, "continue after a fork");
        assert_int_equal(seq_cut(f, 40), 40);
        rig_feed(b->rig, f, b->tokens + 40, N_TOKENS - 40, 9, b->got + 40 * n_vocab);
        same_rows(b, 40, N_TOKENS, "cut and replayed fork");
        seq_free(f);
        assert_int_equal(seq_cut(s, 20), 20);
        assert_int_equal(seq_fork(&f, s, 12, NULL), 0);
        seq_free(s);
        rig_feed(b->rig, f, b->tokens + 12, N_TOKENS - 12, 50, b->got + 12 * n_vocab);
        same_rows(b, 12, N_TOKENS, "fork of a cut sequence");
        seq_free(f);
}

/* Rows that don't want logits skip the end of the last layer. */
static void check_few_outputs(struct bench *b) {
        struct seq *s = rig_seq(b->rig);
        struct model_token batch[N_TOKENS];
        size_t n_vocab = b->rig->info.n_vocab, n_out = 0;

        assert_int_equal(seq_reserve(s, N_TOKENS, NULL), 0);
        for (uint32_t i = 0; i < N_TOKENS; i++)
                batch[i] = (struct model_token){
                        .token = b->tokens[i], .pos = i, .seq = s, .want_logits = i % 11 == 3};
        assert_int_equal(model_forward(b->rig->work, batch, N_TOKENS, NULL), 0);
        for (uint32_t i = 0; i < N_TOKENS; i++)
                if (batch[i].want_logits)
                        assert_memory_equal(
                                b->want + i * n_vocab, model_logits(b->rig->work, n_out++), b->row);
        seq_free(s);
}

/* What a hook of check_wait() saw and does. */
struct waiter {
        struct bench *b;
        struct seq *s;
        uint32_t n_layer, seen, stop_at; /* stop_at n_layer: never */
        int answer;
        const struct model_kv_array *arrays;
        size_t n_arrays;
        uint8_t *pattern; /* [block_size] of the block under test, before the call */
};

static uint64_t layer_start(const struct waiter *w, uint32_t layer) {
        for (size_t i = 0; i < w->n_arrays; i++)
                if (w->arrays[i].layer == layer)
                        return w->arrays[i].offset;
        return w->b->rig->info.block_size;
}

/* Memory of this layer and of those after it is as it was. */
static int on_layer(void *arg, uint32_t layer) {
        struct waiter *w = arg;
        const uint8_t *block = seq_table(w->s)[0];
        uint64_t at = layer_start(w, layer);

        assert_int_equal(layer, w->seen++);
        assert_memory_equal(block + at, w->pattern + at, w->b->rig->info.block_size - at);
        return layer == w->stop_at ? w->answer : 0;
}

/* Tokens 5 to 24 of the sequence. */
static int wait_forward(struct waiter *w, bool some_outputs) {
        struct model_token batch[20];
        struct model_wait wait = {on_layer, w};

        for (uint32_t i = 0; i < 20; i++)
                batch[i] = (struct model_token){.token = w->b->tokens[5 + i],
                        .pos = 5 + i,
                        .seq = w->s,
                        .want_logits = some_outputs && i >= 10};
        memcpy(w->pattern, seq_table(w->s)[0], w->b->rig->info.block_size);
        w->seen = 0;
        return model_forward(w->b->rig->work, batch, 20, &wait);
}

/* The hook: once per layer, in order, before the layer touches memory; ended calls leave nothing
 * behind that the next one could feel. */
static void check_wait(struct bench *b) {
        struct waiter w = {.b = b, .n_layer = b->rig->info.n_layer, .s = rig_seq(b->rig)};
        size_t n_vocab = b->rig->info.n_vocab;

        w.n_arrays = model_kv_arrays(b->rig->model, &w.arrays);
        w.pattern = malloc(b->rig->info.block_size);
        assert_non_null(w.pattern);
        rig_feed(b->rig, w.s, b->tokens, 5, 5, NULL);
        assert_int_equal(seq_reserve(w.s, 20, NULL), 0);
        for (uint32_t stop = 0; stop < w.n_layer; stop++) {
                w.stop_at = stop;
                w.answer = stop % 2 ? 1 : -ERR_CANCELLED;
                assert_int_equal(wait_forward(&w, true), w.answer);
                assert_int_equal(w.seen, stop + 1);
        }
        w.stop_at = w.n_layer;
        assert_int_equal(wait_forward(&w, false), 0);
        assert_int_equal(w.seen, w.n_layer);
        assert_int_equal(wait_forward(&w, true), 0);
        assert_int_equal(w.seen, w.n_layer);
        for (uint32_t i = 0; i < 10; i++)
                memcpy(b->got + (15 + i) * n_vocab, model_logits(b->rig->work, i), b->row);
        same_rows(b, 15, 25, "after calls that were ended");
        seq_commit(w.s, 20);
        rig_feed(b->rig, w.s, b->tokens + 25, N_TOKENS - 25, 7, b->got + 25 * n_vocab);
        same_rows(b, 25, N_TOKENS, "behind calls that were ended");
        seq_free(w.s);
        free(w.pattern);
}

/* Memory that arrives only in the hook, layer by layer, is memory that was always there. */
struct arrival {
        struct bench *b;
        struct seq *s;
        uint8_t *whole; /* [block_size] */
        const struct model_kv_array *arrays;
        size_t n_arrays;
};

static int on_arrival(void *arg, uint32_t layer) {
        struct arrival *a = arg;
        uint64_t end = a->b->rig->info.block_size, from = end;

        /* A layer that uses the memory of another has no arrays. */
        for (size_t i = a->n_arrays; i-- > 0;)
                if (a->arrays[i].layer == layer)
                        from = a->arrays[i].offset;
                else if (a->arrays[i].layer > layer)
                        end = a->arrays[i].offset;
        if (from >= end)
                return 0;
        memcpy((uint8_t *)seq_table(a->s)[0] + from, a->whole + from, end - from);
        return 0;
}

static void check_arrival(struct bench *b) {
        struct arrival a = {.b = b, .s = rig_seq(b->rig)};
        struct model_wait wait = {on_arrival, &a};
        struct model_token batch[10];
        size_t size = b->rig->info.block_size, n_vocab = b->rig->info.n_vocab;

        a.n_arrays = model_kv_arrays(b->rig->model, &a.arrays);
        a.whole = malloc(size);
        assert_non_null(a.whole);
        rig_feed(b->rig, a.s, b->tokens, 32, 32, NULL);
        memcpy(a.whole, seq_table(a.s)[0], size);
        memset(seq_table(a.s)[0], 0x7f, size); /* NaN in every type */
        assert_int_equal(seq_reserve(a.s, 10, NULL), 0);
        for (uint32_t i = 0; i < 10; i++)
                batch[i] = (struct model_token){
                        .token = b->tokens[32 + i], .pos = 32 + i, .seq = a.s, .want_logits = true};
        assert_int_equal(model_forward(b->rig->work, batch, 10, &wait), 0);
        for (uint32_t i = 0; i < 10; i++)
                memcpy(b->got + (32 + i) * n_vocab, model_logits(b->rig->work, i), b->row);
        same_rows(b, 32, 42, "memory that arrived layer by layer");
        seq_free(a.s);
        free(a.whole);
}

void exact_check(struct rig *r, enum exact_depth depth) {
        struct bench b;

        open_bench(&b, r);
        check_sense(&b);
        check_company(&b);
        if (depth == EXACT_FULL) {
                check_chunks(&b);
                check_fork_and_cut(&b);
                check_few_outputs(&b);
                check_wait(&b);
                check_arrival(&b);
        }
        check_threads_and_isa(&b);
        if (depth == EXACT_FULL)
                check_company(&b);
        close_bench(&b);
}
