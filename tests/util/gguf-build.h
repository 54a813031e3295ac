/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Writes GGUF v3 files for tests. Nothing is checked, so that broken files can be written too.
 * Out of memory ends the test program.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf_build;

struct gguf_build *gguf_build_new(void);
struct gguf_build *gguf_build_free(struct gguf_build *b);

void gguf_build_u32(struct gguf_build *b, const char *key, uint32_t v);
void gguf_build_f32(struct gguf_build *b, const char *key, float v);
void gguf_build_bool(struct gguf_build *b, const char *key, bool v);
void gguf_build_str(struct gguf_build *b, const char *key, const char *v);
void gguf_build_u8_array(struct gguf_build *b, const char *key, const uint8_t *v, size_t n);
void gguf_build_u32_array(struct gguf_build *b, const char *key, const uint32_t *v, size_t n);
void gguf_build_i32_array(struct gguf_build *b, const char *key, const int32_t *v, size_t n);
void gguf_build_f32_array(struct gguf_build *b, const char *key, const float *v, size_t n);
void gguf_build_bool_array(struct gguf_build *b, const char *key, const bool *v, size_t n);
void gguf_build_str_array(struct gguf_build *b, const char *key, const char *const *v, size_t n);
/* The metadata of a vocabulary as sentencepiece has it, with these types of tokens: token 0 is the unknown one, 1 begins a
 * text, and @eos ends it. */
enum gguf_token {
        GGUF_TOKEN_NORMAL = 1,
        GGUF_TOKEN_UNKNOWN = 2,
        GGUF_TOKEN_CONTROL = 3,
        GGUF_TOKEN_BYTE = 6
};
void gguf_build_spm(struct gguf_build *b, const char *const *tokens, const float *scores,
        const int32_t *types, size_t n, uint32_t eos);
/* Takes @data (malloc'ed, @size bytes). */
void gguf_build_tensor(struct gguf_build *b, const char *name, uint32_t type, uint32_t n_dims,
        const uint64_t *ne, void *data, size_t size);

/* The tensors so far, in order; the name is owned by @b. */
size_t gguf_build_n_tensors(const struct gguf_build *b);
const char *gguf_build_tensor_name(const struct gguf_build *b, size_t i);

/* How one tensor is written wrongly. The file stays a file that is whole in all other respects. */
enum gguf_damage {
        GGUF_DAMAGE_NONE,
        GGUF_DAMAGE_OMIT,    /* left out */
        GGUF_DAMAGE_RESHAPE, /* one row less (of a vector: one value less; of one value: two) */
        GGUF_DAMAGE_RETYPE,  /* zeros of the type I32, which no weight has */
        GGUF_DAMAGE_NO_TYPE, /* a type number that no type has */
};
/* Of the files written from now on, until the next call. A name that no tensor has does nothing. */
void gguf_build_damage(struct gguf_build *b, enum gguf_damage damage, const char *tensor);

/* The whole file, to be freed. */
uint8_t *gguf_build_bytes(const struct gguf_build *b, size_t *ret_size);
/* 0, or -1 with errno. */
int gguf_build_write(const struct gguf_build *b, const char *path);
