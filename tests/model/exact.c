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

/* Every instruction set that this machine has, each with one thread and with several, by the file's weights and by
 * repacked ones. */
static void check_threads_and_isa(struct bench *b) {
        unsigned seen = 0;

        for (int isa = 0; isa < KERN_N_ISA; isa++)
                for (unsigned n_threads = 1; n_threads <= 3; n_threads += 2) {
                        struct seq *s;

                        b->rig->mapped = n_threads > 1;
                        rig_use(b->rig, n_threads, (enum kern_isa)isa, MAX_BATCH);
                        b->rig->mapped = false;
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

/* What position @end needs is kept, whatever the sequence becomes. */
static void feed_to_mark(struct bench *b, struct seq *s, uint32_t end, uint32_t chunk) {
        uint32_t from = seq_n_tokens(s);

        rig_feed(b->rig, s, b->tokens + from, end - from, chunk, NULL);
        assert_int_equal(seq_mark(s, end, NULL), 0);
}

static void check_fork_and_cut(struct bench *b) {
        struct seq *s = rig_seq(b->rig), *f = NULL;
        size_t n_vocab = b->rig->info.n_vocab;
        int32_t other[N_TOKENS];

        rig_tokens(b->rig, 5, other, N_TOKENS);
        feed_to_mark(b, s, 12, 5);
        feed_to_mark(b, s, 20, 8);
        feed_to_mark(b, s, 40, 20);
        rig_feed(b->rig, s, b->tokens + 40, 5, 5, NULL);
        assert_int_equal(seq_fork(&f, s, 45, NULL), 0);
        assert_int_equal(seq_n_tokens(f), 45);
        rig_feed(b->rig, f, other, 30, 8, NULL); /* must not disturb s */
        rig_feed(b->rig, s, b->tokens + 45, N_TOKENS - 45, 4, b->got + 45 * n_vocab);
        same_rows(b, 45, N_TOKENS, "continue after a fork");
        assert_int_equal(seq_cut(f, 40), 40);
        rig_feed(b->rig, f, b->tokens + 40, N_TOKENS - 40, 9, b->got + 40 * n_vocab);
        same_rows(b, 40, N_TOKENS, "cut and replayed fork");
        seq_free(f);
        assert_int_equal(seq_cut(s, 20), 20);
        assert_int_equal(seq_fork(&f, s, 12, NULL), 0);
        assert_int_equal(seq_n_tokens(f), 12);
        seq_free(s);
        rig_feed(b->rig, f, b->tokens + 12, N_TOKENS - 12, 50, b->got + 12 * n_vocab);
        same_rows(b, 12, N_TOKENS, "fork of a cut sequence");
        seq_free(f);
}

/* Nothing behind a window is read: released cells are NULL in the table, and the logits are those of a
 * sequence that keeps all of them. */
static void check_released(struct bench *b) {
        const struct seq_shape *shape = &b->rig->info.shape;
        struct seq *kept = rig_seq(b->rig), *s = rig_seq(b->rig);
        bool is_released =
                shape->size[SEQ_WINDOW] && seq_window_start(shape, N_TOKENS) >= shape->block_tokens;

        for (uint32_t t = 0; t < N_TOKENS; t++) {
                rig_feed(b->rig, kept, b->tokens + t, 1, 1, b->got + t * b->rig->info.n_vocab);
                assert_int_equal(seq_mark(kept, t + 1, NULL), 0);
        }
        same_rows(b, 0, N_TOKENS, "with all memory kept");
        rig_feed(b->rig, s, b->tokens, N_TOKENS, 3, b->got);
        same_rows(b, 0, N_TOKENS, "with memory released");
        if (shape->size[SEQ_WINDOW]) {
                assert_non_null(seq_table(kept, SEQ_WINDOW)[0]);
                assert_int_equal(!seq_table(s, SEQ_WINDOW)[0], is_released);
        }
        seq_free(kept);
        seq_free(s);
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

/* The memory of one class that a call touches, and its arrays. */
struct part {
        uint8_t *data; /* NULL: no such class */
        size_t size;
        uint8_t *copy; /* of data, owned */
        const struct model_kv_array *arrays;
        size_t n_arrays;
};

/* The first blocks of attention, and @state. */
static void parts_init(
        struct part parts[SEQ_N_CLASSES], struct bench *b, struct seq *s, const void *state) {
        for (int i = 0; i < SEQ_N_CLASSES; i++) {
                enum seq_class c = (enum seq_class)i;
                struct part *p = &parts[i];

                *p = (struct part){.size = b->rig->info.shape.size[i]};
                if (!p->size)
                        continue;
                p->n_arrays = model_kv_arrays(b->rig->model, c, &p->arrays);
                p->data = c == SEQ_STATE ? (uint8_t *)(uintptr_t)state : seq_table(s, c)[0];
                p->copy = malloc(p->size);
                assert_non_null(p->data);
                assert_non_null(p->copy);
                memcpy(p->copy, p->data, p->size);
        }
}

static void parts_deinit(struct part parts[SEQ_N_CLASSES]) {
        for (int i = 0; i < SEQ_N_CLASSES; i++)
                free(parts[i].copy);
}

/* Bytes from the first array of a layer >= @layer on. */
static size_t part_from(const struct part *p, uint32_t layer) {
        for (size_t i = 0; i < p->n_arrays; i++)
                if (p->arrays[i].layer >= layer)
                        return p->arrays[i].offset;
        return p->size;
}

/* What a hook of check_wait() saw and does. */
struct waiter {
        struct bench *b;
        struct seq *s;
        uint32_t n_layer, seen, stop_at; /* stop_at n_layer: never */
        int answer;
        struct part parts[SEQ_N_CLASSES]; /* as they were before the call */
};

/* Memory of this layer and of those after it is as it was. */
static int on_layer(void *arg, uint32_t layer) {
        struct waiter *w = arg;

        assert_int_equal(layer, w->seen++);
        for (int i = 0; i < SEQ_N_CLASSES; i++) {
                const struct part *p = &w->parts[i];
                size_t at = p->data ? part_from(p, layer) : p->size;

                if (p->data)
                        assert_memory_equal(p->data + at, p->copy + at, p->size - at);
        }
        return layer == w->stop_at ? w->answer : 0;
}

/* Tokens 5 to 24 of the sequence. */
static int wait_forward(struct waiter *w, bool some_outputs) {
        struct model_token batch[20];
        struct model_wait wait = {on_layer, w};
        int r;

        for (uint32_t i = 0; i < 20; i++)
                batch[i] = (struct model_token){.token = w->b->tokens[5 + i],
                        .pos = 5 + i,
                        .seq = w->s,
                        .want_logits = some_outputs && i >= 10};
        /* The state that is written to may hold anything; without a pattern it would hold the same. */
        if (seq_next_state(w->s))
                memset(seq_next_state(w->s), 0xff, w->b->rig->info.shape.size[SEQ_STATE]);
        parts_init(w->parts, w->b, w->s, seq_next_state(w->s));
        w->seen = 0;
        r = model_forward(w->b->rig->work, batch, 20, &wait);
        parts_deinit(w->parts);
        return r;
}

/* The hook: once per layer, in order, before the layer touches memory; ended calls leave nothing
 * behind that the next one could feel. */
static void check_wait(struct bench *b) {
        struct waiter w = {.b = b, .n_layer = b->rig->info.n_layer, .s = rig_seq(b->rig)};
        size_t n_vocab = b->rig->info.n_vocab;

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
}

/* Memory that arrives only in the hook, layer by layer, is memory that was always there. */
static int on_arrival(void *arg, uint32_t layer) {
        struct part *parts = arg;

        for (int i = 0; i < SEQ_N_CLASSES; i++) {
                const struct part *p = &parts[i];
                size_t from, end;

                if (!p->data)
                        continue;
                from = part_from(p, layer);
                end = part_from(p, layer + 1);
                memcpy(p->data + from, p->copy + from, end - from);
        }
        return 0;
}

static void check_arrival(struct bench *b) {
        struct part parts[SEQ_N_CLASSES];
        struct model_wait wait = {on_arrival, parts};
        struct seq *s = rig_seq(b->rig);
        struct model_token batch[10];
        size_t n_vocab = b->rig->info.n_vocab;

        rig_feed(b->rig, s, b->tokens, 32, 32, NULL);
        assert_int_equal(seq_reserve(s, 10, NULL), 0);
        parts_init(parts, b, s, seq_state(s));
        for (int c = 0; c < SEQ_N_CLASSES; c++)
                if (parts[c].data)
                        memset(parts[c].data, 0xff, parts[c].size); /* NaN in every type */
        for (uint32_t i = 0; i < 10; i++)
                batch[i] = (struct model_token){
                        .token = b->tokens[32 + i], .pos = 32 + i, .seq = s, .want_logits = true};
        assert_int_equal(model_forward(b->rig->work, batch, 10, &wait), 0);
        for (uint32_t i = 0; i < 10; i++)
                memcpy(b->got + (32 + i) * n_vocab, model_logits(b->rig->work, i), b->row);
        same_rows(b, 32, 42, "memory that arrived layer by layer");
        parts_deinit(parts);
        seq_free(s);
}

void exact_check(struct rig *r, enum exact_depth depth) {
        struct bench b;

        open_bench(&b, r);
        check_sense(&b);
        check_company(&b);
        check_threads_and_isa(&b);
        /* From here on as users compute: generic C, whose kernels are compared with all others for any number of
         * tokens (tests/unit/kern), would take most of the test's time. */
        rig_use(r, 1, kern_cpu_isa(), MAX_BATCH);
        if (depth == EXACT_FULL || r->info.shape.size[SEQ_WINDOW])
                check_released(&b);
        if (depth == EXACT_FULL) {
                check_chunks(&b);
                check_fork_and_cut(&b);
                check_few_outputs(&b);
                check_wait(&b);
                check_arrival(&b);
                rig_use(r, 2, kern_cpu_isa(), MAX_BATCH);
                check_company(&b);
        }
        close_bench(&b);
}
