/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Shared by the verbs of confab-model. One verb is one file with one const descriptor. Messages go
 * to stderr with the program's name in front, results to stdout.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ledger.h"
#include "kern/kern.h"
#include "model/model.h"

struct gguf;
struct seq;
struct seq_pool;

/* Exit statuses. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli_verb {
        const char *name;
        const char *usage; /* what follows the name */
        const char *help;  /* several lines */
        /* argv[0] is the verb; returns an exit status. */
        int (*run)(const struct cli_verb *v, int argc, char **argv);
};
extern const struct cli_verb verb_info, verb_tokenize, verb_logprobs, verb_bench, verb_fsck;

/* "confab-model: FILE: message" (file may be NULL); returns CLI_FAILED. */
int cli_fail(const char *file, const struct err *e);
/* A sentence and the verb's usage line; returns CLI_USAGE. */
int cli_usage(const struct cli_verb *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Usage and help on stdout; returns CLI_OK. */
int cli_help(const struct cli_verb *v);
/* A whole decimal number within the range; false (and *ret untouched) if it is not. */
bool cli_number(const char *s, uint32_t min, uint32_t max, uint32_t *ret);
bool cli_kv_type(const char *s, enum kern_kv_type *ret);
bool cli_isa(const char *s, enum kern_isa *ret);
/* Write the buffer to stdout and flush; returns an exit status. */
int cli_print(const struct buf *b);
/* Processors that this process may run on. */
unsigned cli_n_cpus(void);

/* A model ready to compute. */
struct cli_engine_options {
        enum kern_kv_type kv_type;
        enum kern_isa max_isa;
        unsigned n_threads;
        uint32_t max_tokens, max_outputs;
};
struct cli_engine {
        struct gguf *gguf;
        struct model *model;
        struct kern *kern;
        struct model_work *work;
        struct ledger ledger;
        struct seq_pool *pool;
        struct model_info info;
        uint32_t max_tokens;
};
/* Fills *ret in place (it must not move afterwards); to be closed even after a failure. The pool
 * is made by cli_engine_pool(). */
int cli_engine_open(struct cli_engine *ret, const char *file, const struct cli_engine_options *o,
        struct err *e);
/* Make the pool, with room for the memory of @n_seqs sequences of @n_tokens tokens. -ERR_LIMIT: so much
 * cannot be. */
int cli_engine_pool(struct cli_engine *en, size_t n_seqs, uint32_t n_tokens, struct err *e);
void cli_engine_close(struct cli_engine *en);
/* Append @n tokens to @s in chunks. With @want_last the logits of the last one are kept, as output
 * 0. */
int cli_engine_feed(struct cli_engine *en, struct seq *s, const int32_t *tokens, uint32_t n,
        bool want_last, struct err *e);

/* "info --supported": print what models may consist of (supported.c). Exit status. */
int cli_supported(bool json);
