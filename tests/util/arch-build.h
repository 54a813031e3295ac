/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Small models with random weights, one of each architecture that confab runs, for tests, benchmarks
 * and comparisons with other engines. Needs lib/quant.
 *
 * A model is a row of data (arch-rows.c). It has as few layers as show all that its architecture
 * does (each kind of layer, shared memory, draft heads), windows that 75 tokens cross, scalings that
 * begin before, and the SPM vocabulary of llama-build. Its keys and tensors have the names that the
 * files of real models have. Equal options give equal bytes.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/gguf-build.h"

struct arch_options {
        /* Of the matrices (enum quant_type; 0 is F32). Matrices whose rows are no multiple of the
         * type's block are F32, as are norms, biases, routers and what converters leave in F32. */
        uint32_t type;
        /* Embedding, feed-forward and heads are this many times as wide; 0: once. With 4 all rows
         * suit the types of 256 values a block. */
        uint32_t scale;
        uint32_t context; /* tokens; 0: 512. Rows that name a context_length keep theirs */
        uint64_t seed;
        /* Of each matrix only so many rows are drawn; those after them are the same ones, turned by
         * whole blocks. 0: all are drawn. Large models are made quickly so. */
        uint32_t n_drawn;

        /* Damage, by name (NULL: none). */
        const char *omit;    /* key or tensor left out */
        const char *reshape; /* tensor with one row less */
        const char *retype;  /* tensor said to be of an integer type */
};

size_t arch_build_n(void);
/* "llama", "gemma4-moe", ...; i < arch_build_n() */
const char *arch_build_name(size_t i);
/* Besides the listed ones: models in the shape of published ones, "granite-4.0-h-1b", ...
 * (arch-shapes.c), of a gigabyte and more. */
size_t arch_build_n_shapes(void);
const char *arch_build_shape_name(size_t i);
/* NULL if there is no such model or shape. To be freed with gguf_build_free(); more keys may be added before
 * it is written. @o may be NULL. */
struct gguf_build *arch_build(const char *name, const struct arch_options *o);
/* What becomes of a model without one of its tensors. */
enum arch_need {
        ARCH_REQUIRED, /* it is no model */
        ARCH_OPTIONAL, /* it is another model: a bias less, a matrix that falls back on another */
        ARCH_UNUSED /* nothing: the tensor belongs to a draft head, or to memory that is shared */
};
enum arch_need arch_build_need(const char *name, const char *tensor);
/* The smallest head size of the layers. */
uint32_t arch_build_head_dim(const char *name);
/* The model has a GELU, which other engines take from tables: comparisons differ by up to 1e-2. */
bool arch_build_gelu(const char *name);
