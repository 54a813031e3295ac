/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * struct engine: data that every floor of the engine may read, and for each floor a pointer to the
 * state that it owns.
 *
 * A floor is a folder. Its public header is `<floor>/<floor>.h`. A file includes the public header
 * of its own floor and those of the floors below. No floor calls a floor above (tests/lint/table.py
 * has the order, tests/lint/circles.py checks the built objects). A floor's state is defined in a
 * private header or in a file of that floor, so the compiler enforces who may touch it.
 *
 *      main      opening, closing, the engine thread; from a submitted request to its verb
 *      verbs     one file for each verb or family of verbs, as rows of data
 *      run       places, steps, prompts, generation
 *      request   a request from its arrival to its last event
 *      memory    the memory of conversations: eviction, write-behind, restoring, sharing, edits
 *      far       memory outside of this machine
 *      disk      the register's room, spill records, writing blocks
 *      conv      conversations in RAM
 *      io        the I/O workers, events, notices, waking the engine thread
 *      budget    how much memory there is, and for what
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "model/model.h"
#include "store/store.h"

struct chat;
struct gguf;
struct kern;
struct remote;
struct seq_pool;
struct spill;
struct tok;

/* Counters for `stats`, which only rise. Written by the engine thread. */
struct counters {
        uint64_t steps, parked, tokens_prefilled, tokens_decoded, tokens_recomputed;
        uint64_t reused_ram, reused_disk;
        uint64_t evictions, restores, blocks_spilled, blocks_restored, restore_failures;
        uint64_t spill_failures, unspilled_drops, requests, forks;
        uint64_t reused_shared, writebehind_blocks, evict_blocks_written, blocks_linked;
        uint64_t reclaimed, blocks_lost, restores_skipped, restores_overlapped;
        uint64_t budget_shrunk, exports, imports, expired;
        uint64_t fetches_skipped;
        uint64_t scrubs, shifts, tokens_drafted, tokens_accepted;
};

struct engine {
        /* Immutable after engine_open(). The store and the spill store have locks of their own. */
        struct engine_options o;
        char *model_path, *state_dir;
        struct gguf *gguf;
        struct kern *kern;
        struct model *model;
        struct model_info info;
        struct store_shape store_shape; /* what the register knows of info.shape */
        struct tok *tok;
        struct chat *chat;
        struct store *store; /* NULL while nothing is open */
        struct spill *spill;
        struct remote *remote; /* NULL: none is set */
        uint64_t vocab_hash;
        int32_t *eog; /* [n_eog], end-of-generation tokens */
        size_t n_eog;
        size_t max_piece; /* bytes of the longest text of a token */
        char tokenizer_name[96];

        /* Only the engine thread. */
        struct seq_pool *pool;
        struct counters count;
        bool stopping; /* engine_stop() was called */
        bool again;    /* there may be more to do at once: do not sleep */

        atomic_uint_fast64_t heartbeat; /* rises while the engine thread is alive */

        /* The state of each floor. */
        struct budget *budget;
        struct bell *bell;
        struct workers *workers;
        struct outbox *outbox;
        struct notices *notices;
        struct convs *convs;
        struct disk *disk;
        struct far *far;
        struct memory *memory;
        struct desk *desk;
        struct meters *meters; /* of the floor request, too */
        struct run *run;
        struct verb_state *verbs;
        struct front *front;
};
