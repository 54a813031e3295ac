/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Models for the engine that are small enough for thousands of programs: a few narrow layers with
 * random weights, a few hundred tokens, and a ChatML template with tools. Equal arguments give equal
 * bytes. Needs lib/quant.
 */

enum tiny_model {
        MODEL_TINY, /* 16 KiB per block in f16 */
        MODEL_DEEP, /* blocks large enough to be read in sections, while computing begins */
        N_MODELS
};
/* 0, or -1 with errno. */
int tiny_model_write(const char *path, enum tiny_model which);
/* The same of the architecture of this name (util/arch-build.h). */
int tiny_model_write_arch(const char *path, const char *name);
/* The same with another context than 512 tokens. */
int tiny_model_write_long(const char *path, const char *name, unsigned context);
/* The same of llama's architecture with 65536 tokens, and with this chat template. */
int tiny_model_write_chat(const char *path, const char *template);
/* The same with matrices of type @type (enum quant_type) and @scale times as wide. */
int tiny_model_write_wide(const char *path, const char *name, unsigned type, unsigned scale);
