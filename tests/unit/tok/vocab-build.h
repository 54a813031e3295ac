/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Small vocabularies for tests of lib/tok and of what stands on it: written as GGUF in memory and
 * loaded. Out of memory ends the test program.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"
#include "tok/tok.h"
#include "util/gguf-build.h"

enum { V_NORMAL = 1, V_UNKNOWN, V_CONTROL, V_USER_DEFINED, V_UNUSED, V_BYTE };

struct vocab_build {
        struct gguf_build *file; /* further keys may be added before loading */
        char **text;
        int32_t *type;
        float *score;
        size_t n, capacity;
        char **merge;
        size_t n_merges;
        uint8_t *bytes; /* after loading */
        struct gguf *gguf;
        struct tok *tok;
};

void vocab_build_init(struct vocab_build *v, const char *model);
void vocab_build_deinit(struct vocab_build *v);
int32_t vocab_build_add(struct vocab_build *v, const char *text, int32_t type, float score);
void vocab_build_merge(struct vocab_build *v, const char *line);
/* <unk>, <s>, </s> and the 256 byte tokens of SPM. */
void vocab_build_spm_bytes(struct vocab_build *v);
/* The 256 characters of byte-level BPE. */
void vocab_build_bpe_bytes(struct vocab_build *v);
/* In place of vocab_build_init(): a vocabulary of Phi-3, whose control tokens swallow the white space behind them. */
void vocab_build_phi3(struct vocab_build *v, bool add_bos);
/* As tok_new(). */
int vocab_build_load(struct vocab_build *v, struct err *e);
