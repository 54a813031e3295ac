/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to stmt.c and pg-stmt.c: the columns that rows have in both backends, in the order in which they are read. */
#include "store/store-private.h"

#define SHAPE_COLUMNS "block_tokens, memory_classes, memory_window, memory_chunk"
#define CONV_COLUMNS                                                                               \
        "id, uid, name, parent, fork_pos, revision, n_tokens, n_turns, created_usec, "             \
        "updated_usec, model_weights, model_rules, vocab, temperature, top_k, top_p, min_p, "      \
        "repetition_penalty, presence_penalty, frequency_penalty, penalty_last_n, seed, "          \
        "logit_bias, n_published, private_memory, gap_first, gap_past, overflow, " SHAPE_COLUMNS
#define TURN_COLUMNS "n, role, first, past, finish, created_usec"
#define FIGURES_COLUMNS                                                                            \
        "model, seed, n_prompt, n_ram, n_disk, n_shared, n_computed, n_generated, queued_usec, "   \
        "restore_usec, prefill_usec, decode_usec"
#define RECORD_COLUMNS                                                                             \
        "r.id, r.file_key, r.start, r.stored_size, r.raw_size, r.class, r.block, r.n_tokens, "     \
        "r.token_hash, r.uid, r.private"
