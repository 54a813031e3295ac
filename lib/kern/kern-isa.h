/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The interface between the dispatcher and the instruction sets (private to lib/kern).
 *
 * Every family of kernels is one file per instruction set; its one exported function puts its
 * entries into the table. The generic families fill the whole table first, then better ones
 * override entries. The functions here work on the piece of a call that the dispatcher chooses;
 * they know nothing of threads.
 */
#include "kern/kern.h"
#include "quant/quant.h"

#define KERN_ACT_BLOCK 32      /* values that share one scale, KERN_ACT_Q8 */
#define KERN_ACT_SUPER 256     /* values that share one scale, KERN_ACT_Q8K */
#define KERN_ACT_SUPER_SUMS 16 /* sums of 16 values in each of these */
#define KERN_ACT_UNIT 16       /* tokens that are rounded and laid out together */
/* Bytes that the layout of any instruction set needs per token and block; blocks come in 8s. */
#define KERN_ACT_BLOCK_SIZE 48
/* Bytes of a token's 256 values where weights are repacked. */
#define KERN_ACT_REPACKED_SUPER_SIZE 384
/* Elements worth a task of their own. */
#define KERN_GRAIN 16384
/* Queries (tokens x heads) that walk the same keys together, and those of one call of a kernel. */
#define KERN_ATTN_TILE 32
#define KERN_ATTN_CALL 8

/* Kernels are written once for all tile shapes and inlined with constant shapes; their short loops
 * over registers must then be unrolled at any optimisation level that knows registers. */
#define KERN_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define KERN_UNROLL _Pragma("unroll")
#else
#define KERN_UNROLL _Pragma("GCC unroll 16")
#endif

static inline size_t kern_act_n_blocks8(size_t n_in) {
        return (n_in / KERN_ACT_BLOCK + 7) & ~(size_t)7;
}

/*
 * The plain layout of one token of KERN_ACT_Q8K: scales of the blocks, sums of 16 int8 each (at most
 * 2032), the int8. Each part begins at a multiple of 64 bytes. The sums of a block are in the order
 * of kern_act_super_sum(): the first halves of its eight 32s, then the second halves, since scales
 * of 32 and of 16 values can be kept like that alike. An instruction set may lay out units of many
 * tokens in another way, in as many bytes.
 */
struct kern_act_super {
        float *d;      /* [n_blocks], rounded up to a multiple of 16 */
        int16_t *sums; /* [n_blocks][KERN_ACT_SUPER_SUMS] */
        int8_t *q;     /* [n_blocks][KERN_ACT_SUPER] */
};
/* The place of group i/16 of 16 values. */
static inline size_t kern_act_super_sum(size_t group) {
        return group % 2 * 8 + group / 2;
}
static inline size_t kern_act_super_size(size_t n_in) {
        size_t n = n_in / KERN_ACT_SUPER, n2 = (n + 1) & ~(size_t)1, n16 = (n + 15) & ~(size_t)15;

        return n16 * sizeof(float) + n2 * KERN_ACT_SUPER_SUMS * sizeof(int16_t) +
               n * KERN_ACT_SUPER;
}
static inline struct kern_act_super kern_act_super(const void *token, size_t n_in) {
        size_t n = n_in / KERN_ACT_SUPER, n2 = (n + 1) & ~(size_t)1, n16 = (n + 15) & ~(size_t)15;
        uint8_t *sums = (uint8_t *)(uintptr_t)token + n16 * sizeof(float);

        return (struct kern_act_super){(float *)(uintptr_t)token, (int16_t *)sums,
                (int8_t *)sums + n2 * KERN_ACT_SUPER_SUMS * sizeof(int16_t)};
}

/* Unit u of a rounded activation holds tokens [16u, 16u+16); only the instruction set that wrote it
 * knows its layout. */
static inline const uint8_t *kern_act_unit(const struct kern_act *a, size_t u) {
        return (const uint8_t *)a->quantised + u * KERN_ACT_UNIT * a->quantised_row_size;
}

/* Rows [row0, row1) of w times all tokens of a into y (no bias). */
typedef void kern_matmul_fn(const struct kern_mat *w, const struct kern_act *a, size_t row0,
        size_t row1, float *y, size_t ldy);

/* The keys or values of one group of KERN_ATTN_GROUP tokens and one KV head. Keys: element (c, j)
 * at [c * stride + j], its scale at [c / KERN_KV_GROUP * stride + j]; values and latent rows: element
 * (j, c) at [j * stride + c], its scale at [(j * stride + c) / KERN_KV_GROUP]. */
struct kern_attn_kv {
        void *x;
        uint16_t *scales; /* f16; only of KERN_KV_Q8_0 */
        size_t stride;    /* in elements */
        size_t head_dim;
        /* The elements of the group that comes next, laid out alike, or NULL: to be prefetched
         * bit by bit while this group is computed, so that memory is never idle. */
        const void *next;
};
/* Asks for the lines of @size bytes from @p on, of keys or values that come next, into the second cache: the first
 * takes too few lines at a time from memory, and is not missed where each is used by several queries. */
KERN_INLINE void kern_attn_prefetch(const void *p, size_t size) {
        KERN_UNROLL for (size_t b = 0; b < size; b += 64)
                __builtin_prefetch((const uint8_t *)p + b, 0, 2);
}
/* n_q queries against the keys of one group: s[i][j] = scale * (q[i] . k_j). */
typedef void kern_attn_scores_fn(const struct kern_attn_kv *k, const float *const *q, unsigned n_q,
        float scale, float (*s)[KERN_ATTN_GROUP]);
/* For each query i: o[i] = o[i]*c[i], then p[i][j]*v_j added for j in [j0, j1). */
typedef void kern_attn_values_fn(const struct kern_attn_kv *v, const float (*p)[KERN_ATTN_GROUP],
        const float *c, float *const *o, unsigned n_q, unsigned j0, unsigned j1);

struct kern_softmax_state {
        float m, sum;
};
/* The keys of a group that a query sees: [from, to). */
struct kern_attn_range {
        unsigned from, to;
};
/* For each query i: s[i] becomes p, the state goes on, c[i] is what o[i] is to be scaled by. */
typedef void kern_attn_probs_fn(float (*s)[KERN_ATTN_GROUP], const struct kern_attn_range *seen,
        unsigned n_q, float softcap, struct kern_softmax_state *state, float *c);

typedef void kern_activate_fn(const float *gate, const float *up, float *y, size_t n);

struct kern_xielu {
        float alpha_p, factor_n /* beta + alpha_n */, beta, eps;
};

/* Some channels of a run's rows; pointers are to the first row. In place of state and next state, and of
 * x and y, it may be the same. */
struct kern_conv_piece {
        const struct kern_conv *conv;
        size_t from, to; /* channels */
        size_t n;        /* rows, at least 1 */
        const float *x;
        float *y;
        size_t ldx, ldy;
        const float *state; /* NULL: zeros */
        float *next;
};

/* A tile of channels or a head, with rows of a run; pointers are to the tile's or head's first value in
 * the first row. State and next state may be the same. */
struct kern_scan_tile {
        size_t n;              /* rows, at least 1 */
        size_t width, n_state; /* channels; entries of each */
        size_t stride;         /* of a row of the state, at least @width, a multiple of the lanes */
        const float *x, *dt, *b, *c;
        float *y;
        size_t ldx, lddt, ldbc, ldy;
        const float *a;     /* [n_state][stride], or of the head */
        const float *d;     /* [width], or of the head */
        const float *state; /* [n_state][stride] */
        float *next;
};
struct kern_delta_part;
struct kern_wkv_part;

struct kern_ops {
        /* Products, index enum quant_type: not NULL for every type of matmul.c's table; */
        kern_matmul_fn *matmul[QUANT_N_TYPES];
        /* and the rounding of activations that those of a class expect. */
        void (*act_round[KERN_N_ACT])(const struct kern_act *a, size_t unit, uint8_t *dst);

        /* The same of repacked weights, of the types that have it: NULL for the others. Tile i of a matrix,
         * repacked_rows rows, is written to @dst. */
        kern_matmul_fn *matmul_repacked[QUANT_N_TYPES];
        void (*repack[QUANT_N_TYPES])(const struct kern_mat *w, size_t i, uint8_t *dst);
        size_t repacked_rows;

        /* Rows and elements. */
        void (*rmsnorm)(const float *x, const float *w, float eps, size_t n, float *y);
        /* One token: n_heads heads of head_dim values at x. */
        void (*rope)(float *x, size_t n_heads, size_t head_dim, size_t n_rot, bool neox,
                const float *cos, const float *sin);
        void (*layernorm)(
                const float *x, const float *w, const float *b, float eps, size_t n, float *y);
        void (*add)(float *y, const float *x, size_t n);
        void (*add_scaled)(float *y, const float *x, float s, size_t n);
        void (*scale)(float *x, float s, size_t n);
        void (*mul)(float *y, const float *x, size_t n);
        void (*softmax)(float *x, size_t n);

        /* Activations, index enum kern_activation; up may be NULL as there. */
        kern_activate_fn *activate[KERN_N_ACTIVATION];
        void (*xielu)(const struct kern_xielu *p, const float *x, float *y, size_t n);
        void (*sigmoid)(float *x, size_t n);
        void (*softcap)(float *x, float cap, size_t n);

        /* Attention, index enum kern_kv_type. */
        kern_attn_scores_fn *attn_scores[KERN_N_KV];
        kern_attn_values_fn *attn_values[KERN_N_KV];
        kern_attn_scores_fn *latent_scores[KERN_N_KV]; /* keys are latent rows */
        kern_attn_probs_fn *attn_probs;
        void (*f32_to_f16)(const float *x, uint16_t *y, size_t n);
        /* n / KERN_KV_GROUP groups to int8 and scales, as kern.h defines Q8_0. */
        void (*kv_round)(const float *x, int8_t *q, uint16_t *scales, size_t n);

        /* Recurrence. */
        void (*conv)(const struct kern_conv_piece *p);
        void (*softplus)(const float *x, const float *bias, float *y, size_t n);
        void (*scan_channels)(const struct kern_scan_tile *t);
        void (*scan_head)(const struct kern_scan_tile *t);
        /* Recurrence with a matrix for each head (state.h): some columns of a head, all tokens of a
         * run. */
        void (*delta)(const struct kern_delta_part *part);
        void (*wkv6)(const struct kern_wkv_part *part);
        void (*wkv7)(const struct kern_wkv_part *part);
        /* Its rows: dx = before - x; lerp and blend as in kern.h; one head each. */
        void (*difference)(const float *x, const float *before, float *dx, size_t n);
        void (*lerp)(const float *x, const float *dx, const float *mu, const float *m, float *y,
                size_t n);
        void (*blend)(float *y, const float *x, const float *s, size_t n);
        /* s[i], or s[0] for all */
        void (*exp_scaled)(float *x, const float *s, bool each, size_t n);
        void (*l2norm)(float *x, size_t n, float eps);
        void (*wkv7_keys)(const struct kern_wkv7_keys *x, size_t n);
};

void kern_generic_matmul(struct kern_ops *ops);
void kern_generic_vector(struct kern_ops *ops);
void kern_generic_activation(struct kern_ops *ops);
void kern_generic_attention(struct kern_ops *ops);
void kern_generic_scan(struct kern_ops *ops);
void kern_generic_latent(struct kern_ops *ops);
void kern_generic_state(struct kern_ops *ops);
void kern_generic_mix(struct kern_ops *ops);

void kern_avx2_matmul_float(struct kern_ops *ops);
void kern_avx2_matmul_block(struct kern_ops *ops);
void kern_avx2_matmul_k(struct kern_ops *ops);
void kern_avx2_vector(struct kern_ops *ops);
void kern_avx2_activation(struct kern_ops *ops);
void kern_avx2_attention(struct kern_ops *ops);
void kern_avx2_scan(struct kern_ops *ops);
void kern_avx2_latent(struct kern_ops *ops);
void kern_avx2_state(struct kern_ops *ops);
void kern_avx2_mix(struct kern_ops *ops);

void kern_avx2_repacked(struct kern_ops *ops);

/* VNNI changes no other family. */
void kern_avx_vnni_repacked(struct kern_ops *ops);
void kern_avx_vnni_matmul_block(struct kern_ops *ops);
void kern_avx_vnni_matmul_k(struct kern_ops *ops);
void kern_avx512_vnni_matmul_block(struct kern_ops *ops);
void kern_avx512_vnni_repacked(struct kern_ops *ops);
void kern_avx512_vnni_matmul_k(struct kern_ops *ops);

void kern_avx512_matmul_float(struct kern_ops *ops);
void kern_avx512_matmul_block(struct kern_ops *ops);
void kern_avx512_repacked(struct kern_ops *ops);
void kern_avx512_matmul_k(struct kern_ops *ops);
void kern_avx512_vector(struct kern_ops *ops);
void kern_avx512_activation(struct kern_ops *ops);
void kern_avx512_attention(struct kern_ops *ops);
void kern_avx512_scan(struct kern_ops *ops);
void kern_avx512_latent(struct kern_ops *ops);
void kern_avx512_state(struct kern_ops *ops);
void kern_avx512_mix(struct kern_ops *ops);

void kern_neon_matmul_float(struct kern_ops *ops);
void kern_neon_matmul_block(struct kern_ops *ops);
void kern_neon_matmul_k(struct kern_ops *ops);
void kern_neon_vector(struct kern_ops *ops);
void kern_neon_activation(struct kern_ops *ops);
void kern_neon_attention(struct kern_ops *ops);
void kern_neon_scan(struct kern_ops *ops);
void kern_neon_latent(struct kern_ops *ops);
void kern_neon_state(struct kern_ops *ops);
void kern_neon_mix(struct kern_ops *ops);
/* With NEON's dot products of int8, which change no other family. */
void kern_neon_dotprod_matmul_block(struct kern_ops *ops);
void kern_neon_dotprod_matmul_k(struct kern_ops *ops);

/* The threads (pool.c). */
struct kern_pool;
int kern_pool_new(struct kern_pool **ret, unsigned n_threads, struct err *e);
struct kern_pool *kern_pool_free(struct kern_pool *p);
unsigned kern_pool_n_threads(const struct kern_pool *p);
void kern_pool_run(struct kern_pool *p, uint32_t n_tasks,
        void (*fn)(void *arg, size_t task, unsigned thread), void *arg);

struct kern {
        struct kern_ops ops;
        enum kern_isa isa;
        struct kern_pool *pool; /* owned */
};
