/* SPDX-License-Identifier: MIT */
#pragma once
/* An engine driven by one request after another, with the times at which its answers came. */
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

struct drive {
        struct engine *en;
        uint64_t next;
};

struct drive_answer {
        /* bench_now() of: the call of engine_submit, ACCEPTED, the first DELTA, the final event. 0:
         * did not come. */
        double sent, accepted, first, ended;
        uint32_t n_prompt, n_ram, n_disk, n_shared, n_computed, n_tokens;
        double prefill, decode; /* seconds that the engine reports */
        uint32_t n_generated, n_drafted, n_accepted;
        uint64_t conv;   /* id, if the answer is a conversation */
        int32_t *tokens; /* [n_tokens] of a GET with want_tokens; the caller frees them */
};

void drive_open(struct drive *d, const struct engine_options *o);
/* A clean stop. */
void drive_close(struct drive *d);
/* Sends, waits for the end; an error ends the program. */
void drive_do(struct drive *d, struct engine_request *q, struct drive_answer *ret);

uint64_t drive_new(struct drive *d);
/* The first conversation, or 0. */
uint64_t drive_first(struct drive *d);
uint64_t drive_fork(struct drive *d, uint64_t conv, uint32_t at_turn, struct drive_answer *ret);
void drive_simple(struct drive *d, enum engine_verb verb, uint64_t conv, struct drive_answer *ret);
/* Append tokens and generate @max_tokens, greedily, whatever they are. */
void drive_tokens(struct drive *d, uint64_t conv, const int32_t *tokens, size_t n,
        uint32_t max_tokens, struct drive_answer *ret);
uint32_t drive_n_vocab(struct drive *d);
double drive_stat(struct drive *d, const char *name);
