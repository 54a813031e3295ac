/* SPDX-License-Identifier: MIT */
/*
 * Attention over sequence memory: how queries are divided among threads, and the walk over the
 * groups.
 *
 * A tile is up to KERN_ATTN_TILE queries (some heads of one KV head times some tokens of one
 * sequence) that walk the same keys: each group of keys comes from memory once for the tile, and is
 * widened once for the KERN_ATTN_CALL queries of a call. A query takes part in a group only if it
 * sees a key in it, so its sequence of operations is the same in any tile.
 */
#include "kern/kern.h"
#include "kern/kern-isa.h"
#include "base/util.h"
#include <math.h>
#include <string.h>

/* Elements written per task. */
#define WRITE_GRAIN 8192
#define WRITE_CHUNK 128
#define CACHE_LINE 64
/* Tasks for each thread, so that all end about together. */
#define TASKS_PER_THREAD 4

const char *kern_kv_name(enum kern_kv_type type) {
        static const char *const names[KERN_N_KV] = {
                [KERN_KV_F16] = "f16", [KERN_KV_F32] = "f32", [KERN_KV_Q8_0] = "q8_0"};

        return (unsigned)type < KERN_N_KV ? names[type] : "unknown";
}

static size_t element_size(const struct kern_kv_layout *l) {
        static const uint8_t sizes[KERN_N_KV] = {
                [KERN_KV_F16] = 2, [KERN_KV_F32] = 4, [KERN_KV_Q8_0] = 1};

        return sizes[l->type];
}

static size_t with_scales(const struct kern_kv_layout *l, size_t size) {
        return l->type == KERN_KV_Q8_0 ? size + size / KERN_KV_GROUP * sizeof(uint16_t) : size;
}

size_t kern_kv_k_scales(const struct kern_kv_layout *l) {
        return (size_t)l->n_kv_head * l->head_dim_k * l->block_tokens * element_size(l);
}

size_t kern_kv_v_scales(const struct kern_kv_layout *l) {
        if (l->latent)
                return 0;
        return (size_t)l->n_kv_head * l->head_dim_v * l->block_tokens * element_size(l);
}

size_t kern_kv_k_size(const struct kern_kv_layout *l) {
        return with_scales(l, kern_kv_k_scales(l));
}

size_t kern_kv_v_size(const struct kern_kv_layout *l) {
        return with_scales(l, kern_kv_v_scales(l));
}

/* The keys and values of a head, starting at a token, inside a block. */
static struct kern_attn_kv k_at(const struct kern_kv_layout *l, void *k, size_t head, size_t at) {
        size_t bt = l->block_tokens, groups = l->head_dim_k / KERN_KV_GROUP;
        uint8_t *p = k;

        return (struct kern_attn_kv){
                .x = p + (head * l->head_dim_k * bt + at) * element_size(l),
                .scales = (uint16_t *)(p + kern_kv_k_scales(l)) + head * groups * bt + at,
                .stride = bt,
                .head_dim = l->head_dim_k,
        };
}

/* Latent rows, starting at a token; @head_dim: how many of their channels. */
static struct kern_attn_kv latent_at(
        const struct kern_kv_layout *l, void *k, size_t head_dim, size_t at) {
        uint8_t *p = k;

        return (struct kern_attn_kv){
                .x = p + at * l->head_dim_k * element_size(l),
                .scales = (uint16_t *)(p + kern_kv_k_scales(l)) +
                          at * (l->head_dim_k / KERN_KV_GROUP),
                .stride = l->head_dim_k,
                .head_dim = head_dim,
        };
}

static struct kern_attn_kv v_at(const struct kern_kv_layout *l, void *v, size_t head, size_t at) {
        size_t bt = l->block_tokens, groups = l->head_dim_v / KERN_KV_GROUP;
        uint8_t *p = v;

        return (struct kern_attn_kv){
                .x = p + (head * bt + at) * l->head_dim_v * element_size(l),
                .scales = (uint16_t *)(p + kern_kv_v_scales(l)) + (head * bt + at) * groups,
                .stride = l->head_dim_v,
                .head_dim = l->head_dim_v,
        };
}

struct write_job {
        const struct kern_ops *ops;
        const struct kern_kv_layout *l;
        const struct kern_attn_row *rows;
        const float *k, *v;
        size_t k_offset, v_offset, n_tokens, ldk, ldv, tokens_per_task;
};

/* One key: head_dim_k channels, each one token apart. */
static void write_k_f32(const float *x, const struct kern_attn_kv *to) {
        float *f = (float *)to->x;

        for (size_t c = 0; c < to->head_dim; c++)
                f[c * to->stride] = x[c];
}

static void write_k_f16(const struct write_job *j, const float *x, const struct kern_attn_kv *to) {
        uint16_t *f = (uint16_t *)to->x, h[WRITE_CHUNK];

        for (size_t c = 0; c < to->head_dim; c += WRITE_CHUNK) {
                size_t n = MIN(to->head_dim - c, (size_t)WRITE_CHUNK);

                j->ops->f32_to_f16(x + c, h, n);
                for (size_t i = 0; i < n; i++)
                        f[(c + i) * to->stride] = h[i];
        }
}

static void write_k_q8_0(const struct write_job *j, const float *x, const struct kern_attn_kv *to) {
        uint16_t scales[WRITE_CHUNK / KERN_KV_GROUP];
        int8_t *to_q = (int8_t *)to->x, q[WRITE_CHUNK];

        for (size_t c = 0; c < to->head_dim; c += WRITE_CHUNK) {
                size_t n = MIN(to->head_dim - c, (size_t)WRITE_CHUNK), g = c / KERN_KV_GROUP;

                j->ops->kv_round(x + c, q, scales, n);
                for (size_t i = 0; i < n; i++)
                        to_q[(c + i) * to->stride] = q[i];
                for (size_t i = 0; i < n / KERN_KV_GROUP; i++)
                        to->scales[(g + i) * to->stride] = scales[i];
        }
}

static void write_k(const struct write_job *j, const float *x, const struct kern_attn_kv *to) {
        switch (j->l->type) {
        case KERN_KV_F32:
                write_k_f32(x, to);
                break;
        case KERN_KV_Q8_0:
                write_k_q8_0(j, x, to);
                break;
        default:
                write_k_f16(j, x, to);
        }
}

static void write_v(const struct write_job *j, const float *x, const struct kern_attn_kv *to) {
        switch (j->l->type) {
        case KERN_KV_F32:
                memcpy(to->x, x, to->head_dim * sizeof(*x));
                break;
        case KERN_KV_Q8_0:
                j->ops->kv_round(x, to->x, to->scales, to->head_dim);
                break;
        default:
                j->ops->f32_to_f16(x, to->x, to->head_dim);
        }
}

static void write_latent(const struct write_job *j, size_t t) {
        const struct kern_attn_row *row = &j->rows[t];
        uint8_t *block = row->blocks[row->pos / j->l->block_tokens];
        struct kern_attn_kv to = latent_at(
                j->l, block + j->k_offset, j->l->head_dim_k, row->pos % j->l->block_tokens);

        write_v(j, j->k + t * j->ldk, &to);
}

static void write_task(void *arg, size_t task, unsigned thread) {
        const struct write_job *j = arg;
        const struct kern_kv_layout *l = j->l;
        size_t head = task % l->n_kv_head;
        size_t t0 = task / l->n_kv_head * j->tokens_per_task;
        size_t t1 = MIN(t0 + j->tokens_per_task, j->n_tokens);

        for (size_t t = t0; t < t1; t++) {
                const struct kern_attn_row *row = &j->rows[t];
                uint8_t *block = row->blocks[row->pos / l->block_tokens];
                size_t at = row->pos % l->block_tokens;
                struct kern_attn_kv k = k_at(l, block + j->k_offset, head, at);
                struct kern_attn_kv v = v_at(l, block + j->v_offset, head, at);

                write_k(j, j->k + t * j->ldk + head * l->head_dim_k, &k);
                write_v(j, j->v + t * j->ldv + head * l->head_dim_v, &v);
        }
}

void kern_kv_write(struct kern *k_, const struct kern_kv_layout *l, size_t k_offset,
        size_t v_offset, const struct kern_attn_row *rows, size_t n_tokens, const float *k,
        size_t ldk, const float *v, size_t ldv) {
        struct write_job j = {
                &k_->ops, l, rows, k, v, k_offset, v_offset, n_tokens, ldk, ldv, n_tokens};
        size_t n_elements = (size_t)l->n_kv_head * (l->head_dim_k + l->head_dim_v) * n_tokens;

        if (l->latent) {
                for (size_t t = 0; t < n_tokens; t++)
                        write_latent(&j, t);
                return;
        }

        /* Heads never share a cache line of K (blocks are at least one line per channel), tokens
         * do: so tasks are heads. */
        if (n_elements < WRITE_GRAIN)
                for (size_t h = 0; h < l->n_kv_head; h++)
                        write_task(&j, h, 0);
        else
                kern_run(k_, l->n_kv_head, write_task, &j);
}

struct attn_job {
        const struct kern_ops *ops;
        const struct kern_attn *a;
        const struct kern_attn_row *rows;
        const float *q;
        float *out;
        size_t n_tokens, ldq, ldo;
        size_t heads_per_tile, tokens_per_tile;
        size_t n_head_tiles, n_token_tiles; /* head tiles: per KV head */
};

/* Queries that walk together, all of one sequence and one KV head. */
struct tile {
        unsigned n;
        const float *q[KERN_ATTN_TILE];
        float *o[KERN_ATTN_TILE];
        uint32_t first[KERN_ATTN_TILE], last[KERN_ATTN_TILE]; /* keys that it sees */
        struct kern_softmax_state state[KERN_ATTN_TILE];      /* at first: no key seen */
};

/* Compute one group for the queries [i0, i0+n) of the tile, each of which sees some of its keys. */
static void walk_group(const struct attn_job *j, struct tile *t, unsigned i0, unsigned n,
        uint32_t start, const struct kern_attn_kv *k, const struct kern_attn_kv *v) {
        enum kern_kv_type type = j->a->layout.type;
        _Alignas(64) float s[KERN_ATTN_CALL][KERN_ATTN_GROUP];
        struct kern_attn_range seen[KERN_ATTN_CALL];
        float c[KERN_ATTN_CALL];

        (j->a->layout.latent ? j->ops->latent_scores : j->ops->attn_scores)[type](
                k, t->q + i0, n, j->a->scale, s);
        for (unsigned i = 0; i < n; i++) {
                uint32_t first = t->first[i0 + i], last = t->last[i0 + i];

                seen[i].from = first > start ? first - start : 0;
                seen[i].to = MIN(last - start, (uint32_t)KERN_ATTN_GROUP - 1) + 1;
        }
        j->ops->attn_probs(s, seen, n, j->a->softcap, t->state + i0, c);
        for (unsigned i = 0, end; i < n; i = end) {
                for (end = i + 1;
                        end < n && seen[end].from == seen[i].from && seen[end].to == seen[i].to;)
                        end++;
                j->ops->attn_values[type](v, (const float(*)[KERN_ATTN_GROUP])(s + i), c + i,
                        t->o + i0 + i, end - i, seen[i].from, seen[i].to);
        }
}

/* Into the first cache: latent rows, whose products take longer than memory. */
static void prefetch_latent(const void *p, size_t size) {
        for (size_t b = 0; b < size; b += CACHE_LINE)
                __builtin_prefetch((const uint8_t *)p + b);
}

/* Of the group that comes next: the kernels prefetch its keys and values (short pieces, which the
 * hardware does not prefetch by itself), little by little, but those of latent rows and scales. */
static void prefetch_group(const struct kern_kv_layout *l, const struct kern_attn_kv *k,
        const struct kern_attn_kv *v) {
        size_t groups = k->head_dim / KERN_KV_GROUP;

        if (l->latent) {
                prefetch_latent(k->x, k->head_dim * KERN_ATTN_GROUP * element_size(l));
                if (l->type == KERN_KV_Q8_0)
                        prefetch_latent(k->scales, groups * KERN_ATTN_GROUP * sizeof(*k->scales));
                return;
        }
        if (l->type != KERN_KV_Q8_0)
                return;
        for (size_t g = 0; g < groups; g++)
                kern_attn_prefetch(k->scales + g * k->stride, KERN_ATTN_GROUP * sizeof(*k->scales));
        kern_attn_prefetch(
                v->scales, v->head_dim / KERN_KV_GROUP * KERN_ATTN_GROUP * sizeof(*v->scales));
}

static bool sees(const struct tile *t, unsigned i, uint32_t start) {
        return t->first[i] < start + KERN_ATTN_GROUP && t->last[i] >= start;
}

/* Where the keys and values of the group from @start on are. */
static void find_group(const struct attn_job *j, void *const *blocks, size_t kv_head,
        uint32_t start, struct kern_attn_kv *k, struct kern_attn_kv *v) {
        const struct kern_kv_layout *l = &j->a->layout;
        uint8_t *block = blocks[start / l->block_tokens];

        if (l->latent) {
                *k = latent_at(l, block + j->a->k_offset, l->head_dim_k, start % l->block_tokens);
                *v = *k;
                v->head_dim = l->head_dim_v;
                return;
        }
        *k = k_at(l, block + j->a->k_offset, kv_head, start % l->block_tokens);
        *v = v_at(l, block + j->a->v_offset, kv_head, start % l->block_tokens);
}

static void walk(const struct attn_job *j, struct tile *t, void *const *blocks, size_t kv_head) {
        const struct kern_kv_layout *l = &j->a->layout;
        uint32_t first = UINT32_MAX, last = 0;
        struct kern_attn_kv k, v, next_k = {0}, next_v = {0};

        for (unsigned i = 0; i < t->n; i++) {
                first = MIN(first, t->first[i]);
                last = MAX(last, t->last[i]);
                memset(t->o[i], 0, l->head_dim_v * sizeof(float));
        }
        first -= first % KERN_ATTN_GROUP;
        find_group(j, blocks, kv_head, first, &k, &v);
        for (uint32_t start = first;; start += KERN_ATTN_GROUP) {
                bool more = last - start >= KERN_ATTN_GROUP;

                if (more) {
                        find_group(j, blocks, kv_head, start + KERN_ATTN_GROUP, &next_k, &next_v);
                        prefetch_group(l, &next_k, &next_v);
                        k.next = l->latent ? NULL : next_k.x;
                        v.next = l->latent ? NULL : next_v.x;
                }
                for (unsigned i = 0, end; i < t->n; i = end) {
                        unsigned limit = MIN(t->n, i + KERN_ATTN_CALL);

                        for (end = i; end < limit && sees(t, end, start);)
                                end++;
                        if (end > i) {
                                walk_group(j, t, i, end - i, start, &k, &v);
                                k.next = v.next = NULL;
                        } else {
                                end++;
                        }
                }
                if (!more)
                        break;
                k = next_k;
                v = next_v;
        }
        for (unsigned i = 0; i < t->n; i++) {
                float scale = 1 / t->state[i].sum;

                for (size_t d = 0; d < l->head_dim_v; d++)
                        t->o[i][d] *= scale;
        }
}

/* First query head of a KV head: the least h with h*n_kv_head/n_head == kv_head. */
static size_t first_head(const struct kern_attn *a, size_t kv_head) {
        return (kv_head * a->n_head + a->layout.n_kv_head - 1) / a->layout.n_kv_head;
}

/* The first key that a query at @pos sees. */
static uint32_t first_key(const struct kern_attn *a, uint32_t pos) {
        uint32_t window = a->window && pos >= a->window ? pos - a->window + 1 : 0;

        return a->chunk ? MAX(window, pos - pos % a->chunk) : window;
}

/* A sink is as a key before all others, without value: exp(sink - sink) is 1. */
static struct kern_softmax_state first_state(const struct kern_attn *a, size_t head) {
        if (a->sinks)
                return (struct kern_softmax_state){.m = a->sinks[head], .sum = 1};
        return (struct kern_softmax_state){.m = -INFINITY};
}

static void attn_task(void *arg, size_t task, unsigned thread) {
        const struct attn_job *j = arg;
        const struct kern_attn *a = j->a;
        size_t head_tile = task % j->n_head_tiles, rest = task / j->n_head_tiles;
        size_t kv_head = rest % a->layout.n_kv_head;
        /* Late tokens have most keys: they go first, so that what threads take over from one another is shorter. */
        size_t token_tile = j->n_token_tiles - 1 - rest / a->layout.n_kv_head;
        size_t t0 = token_tile * j->tokens_per_tile;
        size_t t1 = MIN(t0 + j->tokens_per_tile, j->n_tokens);
        size_t h0 = first_head(a, kv_head) + head_tile * j->heads_per_tile;
        size_t h1 = MIN(h0 + j->heads_per_tile, first_head(a, kv_head + 1));

        for (size_t t = t0, end; t < t1; t = end) {
                struct tile tile = {0};

                for (end = t; end < t1 && j->rows[end].blocks == j->rows[t].blocks; end++)
                        for (size_t h = h0; h < h1; h++) {
                                unsigned i = tile.n++;
                                uint32_t pos = j->rows[end].pos;

                                tile.q[i] = j->q + end * j->ldq + h * a->layout.head_dim_k;
                                tile.o[i] = j->out + end * j->ldo + h * a->layout.head_dim_v;
                                tile.last[i] = pos;
                                tile.first[i] = first_key(a, pos);
                                tile.state[i] = first_state(a, h);
                        }
                if (tile.n > 0)
                        walk(j, &tile, j->rows[t].blocks, kv_head);
        }
}

/* Tiles as large as leave every thread some tasks; the heads of a KV head are parted only if there
 * would be idle threads. */
static void choose_tiles(struct attn_job *j, size_t group, size_t n_threads) {
        size_t n_kv = j->a->layout.n_kv_head, heads = MIN(group, (size_t)KERN_ATTN_CALL), tokens;

        while (heads > 1 && j->n_tokens * n_kv * (group / heads) < n_threads)
                heads = (heads + 1) / 2;
        j->heads_per_tile = heads;
        j->n_head_tiles = (group + heads - 1) / heads;
        tokens = KERN_ATTN_TILE / heads;
        while (tokens * heads > KERN_ATTN_CALL &&
                (j->n_tokens + tokens - 1) / tokens * n_kv * j->n_head_tiles <
                        n_threads * TASKS_PER_THREAD)
                tokens /= 2;
        j->tokens_per_tile = tokens;
        j->n_token_tiles = (j->n_tokens + tokens - 1) / tokens;
}

void kern_attention(struct kern *k, const struct kern_attn *a, const struct kern_attn_row *rows,
        size_t n_tokens, const float *q, size_t ldq, float *out, size_t ldo) {
        struct attn_job j = {.ops = &k->ops, .a = a, .rows = rows, .q = q, .out = out};
        size_t n_kv = a->layout.n_kv_head, group = (a->n_head + n_kv - 1) / n_kv;

        if (n_tokens == 0)
                return;
        j.n_tokens = n_tokens;
        j.ldq = ldq;
        j.ldo = ldo;
        choose_tiles(&j, group, kern_n_threads(k));
        kern_run(k, j.n_token_tiles * n_kv * j.n_head_tiles, attn_task, &j);
}
