/* SPDX-License-Identifier: MIT */
#pragma once
/* Drives an engine the way the daemon does, one request after another, for tests. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

struct erig {
        struct engine *en;
        struct engine_options o;
        char dir[64]; /* its state folder, removed by erig_close() */
        uint64_t next;
};

/* What one request led to. */
struct answer {
        enum engine_event_kind kind; /* of the final event */
        struct err err;
        struct engine_conv conv; /* CONV; turns and tokens are not kept */
        uint32_t n_prompt, n_ram, n_disk, n_computed, n_generated;
        enum engine_finish finish;
        uint64_t revision;
        char text[65536];
        size_t n_tokens;
        int32_t tokens[4096];
        float logprobs[4096];
        size_t n_deltas;
};

/* The bundled model's path, or NULL (skip aloud). */
const char *erig_model(void);
void erig_open(struct erig *r, const struct engine_options *o);
/* Stop as a clean shutdown does (@clean), or as kill -9; then start again on the same folder. */
void erig_restart(struct erig *r, bool clean);
void erig_close(struct erig *r);

/* Send and collect until the final event. @a may be NULL. Returns the final event's kind. */
enum engine_event_kind erig_do(struct erig *r, struct engine_request *q, struct answer *a);
/* Several at the same time. */
void erig_do_all(struct erig *r, struct engine_request *q, struct answer *a, size_t n);
uint64_t erig_stat(struct erig *r, const char *name);

uint64_t erig_new(struct erig *r, const char *name, const char *system);
/* Greedy, with log-probabilities. */
struct engine_request erig_say_request(uint64_t conv, const char *text, uint32_t max_tokens);
void erig_say(
        struct erig *r, uint64_t conv, const char *text, uint32_t max_tokens, struct answer *a);
enum engine_event_kind erig_simple(
        struct erig *r, enum engine_verb verb, uint64_t conv, struct answer *a);
