/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The rows of arch-build, private to it.
 *
 * Keys are words "name=value", separated by blanks. The name stands behind "ARCH." unless it begins
 * with a dot, which is dropped. What the value is tells its type: "8" is a u32, "0.5" an f32, "true" a
 * bool, "[1,2]" an array of u32 (i32 if the name ends in "sections"), "[1.0,2.0]" of f32,
 * "[true,false]" of bools, anything else a string. An empty value leaves out a key that every row
 * has; another value replaces it. A "*" behind a number: times the scale.
 *
 * Tensors are "name dim dim [marks]", separated by semicolons, or "@group" for a list of arch-parts.c.
 * In the list of a layer "when:" in front of either restricts it to layers of a kind:
 *   dense, sparse   without and with experts
 *   local           marked so in the row's pattern
 *   draft           the last n_draft ones
 *   recurrent, attending, feeding   whose letter in the row's branches is r, a, f
 *
 * A dimension is a sum of products, as in "Hh+2Kh": letters are
 *   d embedding   H heads   K KV heads   h head size   r rotated pairs   F feed-forward
 *   f an expert   s shared expert   E experts   V vocabulary   C context   L layers   P per-layer input
 *   D inner channels   g of them in a group   N state entries   R rank of the steps, or heads   G groups
 *   M latent width of experts
 *
 * Marks: "=MEAN~DEVIATION" of the values; "*G" times the usual deviation; "!" always F32; "?" the
 * model may lack it; "^" 1 in the first quarter, then 1e30. Without them vectors named norm are 1~0.2, other vectors 0~0.2, matrices
 * 0~1.4/sqrt(row).
 */
#include <stdbool.h>
#include <stdint.h>

struct arch_row {
        const char *name, *arch;
        uint32_t n_layer; /* 0: 3 */
        /* 0: 64, 4, 2, 32, the head size, 96 */
        uint32_t n_embd, n_head, n_kv_head, head_dim, n_rot, n_ff;
        uint32_t n_vocab, context; /* 0: 320, 512 */
        uint32_t n_ff_expert, n_ff_shared, n_expert, n_used, n_per_layer;
        uint32_t n_dense;     /* layers before the first with experts */
        uint32_t expert_step; /* every n-th layer, counted from 1, has experts; 0: all */
        uint32_t n_draft;     /* of n_layer, the last ones */
        uint32_t n_shared;    /* the last ones, which use the keys and values of others */
        const char *pattern;  /* of local (l) and global (g) layers, repeated; NULL: all global */
        uint32_t head_dim_local, n_kv_head_local; /* 0: as global ones */
        /* Of recurrences (mamba); experts that work on another width than the residual's. */
        uint32_t n_inner, n_state, rank, n_group, n_latent;
        const char *branches; /* pattern of recurrent (r), attending (a), feeding (f) layers */
        const char *wide;     /* pattern: F is twice as much in the layers marked w; NULL: none */
        bool layer_norm;      /* the epsilon's key */
        bool gelu;
        bool ff_expert_is_ff; /* no expert_feed_forward_length: an expert has feed_forward_length */
        const char *keys, *model, *layer;
};
extern const struct arch_row arch_rows[];
extern const unsigned arch_n_rows;
/* Of the size of published models. They can be built, and are none of the models that are listed. */
extern const struct arch_row arch_shapes[];
extern const unsigned arch_n_shapes;

struct arch_part {
        const char *name, *tensors;
};
extern const struct arch_part arch_parts[]; /* ends with a NULL name */
