/* SPDX-License-Identifier: MIT */
/*
 * The audit: checks that memory on disk is what the model computes from the tokens, bit for bit
 * (I2). Nothing else detects a forged record whose checksums are right.
 *
 * Blocks are drawn without replacement from those whose tokens a conversation still has. The draw
 * is seeded, so that a run can be repeated. A conversation's blocks are computed together: its
 * tokens up to the last drawn block run through the model once, with a stop at the end of each
 * drawn block, because no other sequence position is sure to still have the blocks of windows and
 * the states. The audit compares the bytes that arrays cover, for the valid tokens; the rest of a
 * block means nothing.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fsck.h"
#include "seq/seq.h"

#define CHUNK 512

struct audit {
        struct fsck *f;
        struct cli_engine en;
        uint8_t *raw;   /* a block as it is on disk, owned */
        size_t *picked; /* [n], owned: indices of f->held, by conversation and end */
        size_t n;
        int32_t *tokens; /* of one conversation, owned */
};

/* Sebastiano Vigna's splitmix64. */
static uint64_t next_random(uint64_t *state) {
        uint64_t z = (*state += 0x9e3779b97f4a7c15u);

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
}

static bool any_of_model(const struct fsck *f, const struct fingerprint *model) {
        for (size_t i = 0; i < f->n_held; i++)
                if (fingerprint_equal(&f->held[i].model, model))
                        return true;
        return false;
}

/* Open the model with the records' type of keys and values. */
static int open_model(struct audit *a, struct err *e) {
        static const enum kern_kv_type types[] = {KERN_KV_F16, KERN_KV_F32, KERN_KV_Q8_0};
        struct cli_engine_options o = a->f->engine;
        struct fingerprint shown = {0};
        struct err why;
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
                if (!a->f->kv_given)
                        o.kv_type = types[i];
                cli_engine_close(&a->en);
                r = cli_engine_open(&a->en, a->f->model, &o, &why);
                /* Some models cannot have each type. */
                if (r < 0 && (i == 0 || a->f->kv_given)) {
                        *e = why;
                        return err_wrap(e, r, "%s", a->f->model);
                }
                if (r == 0 && any_of_model(a->f, &a->en.info.fingerprint))
                        return 0;
                if (i == 0)
                        shown = a->en.info.fingerprint;
                if (a->f->kv_given)
                        break;
        }
        return err_set(e, ERR_INVALID,
                "%s: no record is of this model: its fingerprint is %016" PRIx64 " %016" PRIx64
                ", the first record's %016" PRIx64 " %016" PRIx64,
                a->f->model, shown.weights, shown.rules, a->f->held[0].model.weights,
                a->f->held[0].model.rules);
}

/* Decode every record of the model: an invalid encoding can still have a correct checksum. */
static int decode_all(struct audit *a, struct err *e) {
        struct fsck *f = a->f;
        size_t size = 0;

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                size = MAX(size, a->en.info.shape.size[c]);
        a->raw = aligned_alloc(64, align_up(size, 64));
        if (!a->raw)
                return err_set(e, ERR_NOMEM, "no memory for a block");
        for (size_t i = 0; i < f->n_held; i++) {
                const struct store_held *h = &f->held[i];
                struct err why;
                int r;

                if (!f->good[i] || !fingerprint_equal(&h->model, &a->en.info.fingerprint))
                        continue;
                r = fsck_record_check(f, h, a->en.model, a->raw, &why);
                if (r == -ERR_NOMEM) {
                        *e = why;
                        return r;
                }
                f->n_decoded++;
                f->good[i] = r == 0;
                if (r < 0)
                        fsck_finding(f, "spill", h->conv, h->record.id, "block %u of class %u: %s",
                                h->record.index, h->record.block_class, why.msg);
        }
        return 0;
}

/* Whether the model has such blocks, and the record is of one of them. */
static bool is_block(const struct seq_shape *shape, const struct store_record *rec) {
        return rec->block_class < SEQ_N_CLASSES && shape->size[rec->block_class] > 0 &&
               rec->n_tokens > 0 &&
               rec->n_tokens <= seq_cell_tokens(shape, (enum seq_class)rec->block_class);
}

/* The position behind a block. */
static uint64_t end_of(const struct seq_shape *shape, const struct store_record *rec) {
        return (uint64_t)rec->index * seq_cell_tokens(shape, (enum seq_class)rec->block_class) +
               rec->n_tokens;
}

static const struct audit *sorted; /* qsort() passes nothing on */

static int by_place(const void *x, const void *y) {
        const struct store_held *a = &sorted->f->held[*(const size_t *)x];
        const struct store_held *b = &sorted->f->held[*(const size_t *)y];
        uint64_t end_a = end_of(&sorted->en.info.shape, &a->record);
        uint64_t end_b = end_of(&sorted->en.info.shape, &b->record);

        if (a->conv != b->conv)
                return a->conv < b->conv ? -1 : 1;
        if (end_a != end_b)
                return end_a < end_b ? -1 : 1;
        return a->record.id < b->record.id ? -1 : a->record.id > b->record.id;
}

/* Draw the blocks. */
static int pick(struct audit *a, struct err *e) {
        struct fsck *f = a->f;
        uint64_t state = f->seed;
        size_t n = 0;

        a->picked = calloc(f->n_held + 1, sizeof(*a->picked));
        if (!a->picked)
                return err_set(e, ERR_NOMEM, "no memory for %zu records", f->n_held);
        for (size_t i = 0; i < f->n_held; i++) {
                const struct store_held *h = &f->held[i];

                if (f->good[i] && fingerprint_equal(&h->model, &a->en.info.fingerprint) &&
                        is_block(&a->en.info.shape, &h->record) &&
                        h->record.n_valid == h->record.n_tokens)
                        a->picked[n++] = i;
        }
        a->n = MIN((size_t)f->audit, n);
        for (size_t i = 0; i < a->n; i++) {
                size_t k = i + next_random(&state) % (n - i), other = a->picked[k];

                a->picked[k] = a->picked[i];
                a->picked[i] = other;
        }
        sorted = a;
        qsort(a->picked, a->n, sizeof(*a->picked), by_place);
        return 0;
}

static size_t element_size(enum model_kv_element e) {
        return e == MODEL_KV_F32 ? 4 : e == MODEL_KV_F16 ? 2 : 1;
}

/* Whether an array is equal in two blocks: of a state the whole one, else its first @n tokens. */
static bool array_equal(const struct model_kv_array *x, enum seq_class c, const uint8_t *a,
        const uint8_t *b, uint32_t n) {
        size_t es = element_size(x->element);
        size_t n_runs = (size_t)x->n_tiles * (x->channel_major ? x->n_channels : 1);
        size_t run = (size_t)x->n_tokens * es * (x->channel_major ? 1 : x->n_channels);
        size_t used = c == SEQ_STATE ? run : run / x->n_tokens * n;

        for (size_t i = 0; i < n_runs; i++)
                if (memcmp(a + x->offset + i * run, b + x->offset + i * run, used) != 0)
                        return false;
        return true;
}

/* Compare a drawn block with that of the sequence, which ends where the block does. */
static int compare(struct audit *a, const struct store_held *h, struct seq *s, struct err *e) {
        enum seq_class c = (enum seq_class)h->record.block_class;
        const struct model_kv_array *arrays;
        size_t n = model_kv_arrays(a->en.model, c, &arrays);
        struct seq_cell cell;
        int r = fsck_record_check(a->f, h, a->en.model, a->raw, e);

        if (r < 0)
                return r;
        a->f->n_audited++;
        if (!seq_cell_at(s, c, h->record.index, &cell))
                return err_set(e, ERR_STATE, "block %u was released", h->record.index);
        for (size_t i = 0; i < n; i++)
                if (!array_equal(&arrays[i], c, a->raw, seq_block_data(cell.block),
                            h->record.n_tokens)) {
                        fsck_finding(a->f, "audit", h->conv, h->record.id,
                                "block %u is not what the model computes from the tokens, first "
                                "in layer %u",
                                h->record.index, arrays[i].layer);
                        break;
                }
        return 0;
}

/* The tokens that the memory of @conv is of, at least @n; -ERR_CORRUPT if they cannot be used. */
static int get_tokens(struct audit *a, uint64_t conv, uint32_t n, struct err *e) {
        struct store_conv c;
        int r = store_conv_get(a->f->store, OWNER_ANY, conv, NULL, &c, e);

        if (r < 0)
                return r;
        if (store_memory_tokens(&c) < n)
                return err_set(e, ERR_CORRUPT, "%u tokens, not %u", store_memory_tokens(&c), n);
        free(a->tokens);
        a->tokens = calloc((size_t)c.n_tokens + 1, sizeof(*a->tokens));
        if (!a->tokens)
                return err_set(e, ERR_NOMEM, "no memory for %u tokens", c.n_tokens);
        r = store_tokens(a->f->store, conv, a->tokens, c.n_tokens, e);
        if (r < 0)
                return r;
        memmove(a->tokens + c.gap.from, a->tokens + c.gap.to,
                (size_t)(c.n_tokens - c.gap.to) * sizeof(*a->tokens));
        for (uint32_t i = 0; i < n; i++)
                if (a->tokens[i] < 0 || (uint32_t)a->tokens[i] >= a->en.info.n_vocab)
                        return err_set(e, ERR_CORRUPT, "token %d is outside the vocabulary of %u",
                                a->tokens[i], a->en.info.n_vocab);
        return 0;
}

/* Compute up to @end, so that the cells of the tokens before it are there. A window's last full cell
 * may be of no use to the position behind it (at the border of a chunk): a mark keeps it. */
static int compute(struct audit *a, struct seq *s, uint32_t end, uint32_t *mark, struct err *e) {
        uint32_t at = seq_n_tokens(s);
        int r = 0;

        if (end > at && end % a->en.info.block_tokens == 0) {
                r = cli_engine_feed(&a->en, s, a->tokens + at, end - 1 - at, false, e);
                if (r == 0) {
                        seq_unmark(s, *mark);
                        *mark = at = end - 1;
                        r = seq_mark(s, *mark, e);
                }
        }
        return r == 0 ? cli_engine_feed(&a->en, s, a->tokens + at, end - at, false, e) : r;
}

/* Check the drawn blocks [from, to), all of one conversation. */
static int audit_conv(struct audit *a, size_t from, size_t to, struct err *e) {
        const struct store_held *last = &a->f->held[a->picked[to - 1]];
        uint64_t n = end_of(&a->en.info.shape, &last->record);
        _cleanup_(seq_freep) struct seq *s = NULL;
        uint32_t mark = 0;
        int r;

        if (n > a->en.info.context)
                r = err_set(e, ERR_CORRUPT, "block %u lies behind the model's context",
                        last->record.index);
        else
                r = get_tokens(a, last->conv, (uint32_t)n, e);
        if (r == 0)
                r = seq_new(&s, a->en.pool, e);
        for (size_t i = from; r == 0 && i < to; i++) {
                const struct store_held *h = &a->f->held[a->picked[i]];

                r = compute(a, s, (uint32_t)end_of(&a->en.info.shape, &h->record), &mark, e);
                if (r == 0)
                        r = compare(a, h, s, e);
        }
        if (r == -ERR_CORRUPT) {
                fsck_finding(a->f, "audit", last->conv, last->record.id,
                        "cannot be computed again: %s", e->msg);
                return 0;
        }
        return r;
}

static int audit_all(struct audit *a, struct err *e) {
        uint64_t most = 1;
        int r;

        for (size_t i = 0; i < a->n; i++)
                most = MAX(most, end_of(&a->en.info.shape, &a->f->held[a->picked[i]].record));
        /* One sequence, and its mark. */
        r = cli_engine_pool(&a->en, 2, (uint32_t)MIN(most, (uint64_t)a->en.info.context), e);
        for (size_t from = 0, to; r == 0 && from < a->n; from = to) {
                uint64_t conv = a->f->held[a->picked[from]].conv;

                for (to = from; to < a->n && a->f->held[a->picked[to]].conv == conv;)
                        to++;
                r = audit_conv(a, from, to, e);
        }
        return r;
}

int fsck_audit(struct fsck *f, struct err *e) {
        struct audit a = {.f = f};
        int r = 0;

        f->engine.max_tokens = CHUNK;
        f->engine.max_outputs = 1;
        if (f->n_held > 0) {
                r = open_model(&a, e);
                if (r == 0)
                        r = decode_all(&a, e);
                if (r == 0 && f->audit > 0)
                        r = pick(&a, e);
                if (r == 0 && a.n > 0)
                        r = audit_all(&a, e);
        }
        cli_engine_close(&a.en);
        free(a.raw);
        free(a.picked);
        free(a.tokens);
        return r;
}
