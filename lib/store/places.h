/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to lib/store: which of a conversation's cells on disk are of use. places.c has the rules. */
#include "store/store-private.h"

enum store_use { STORE_USE_NONE, STORE_USE_CHECKPOINT, STORE_USE_END };

/* A link of a conversation, as reclaiming sees it. */
struct store_place {
        struct store_cell cell;
        uint32_t n_valid;
        enum store_use use;
        uint64_t record, stored_size;
        uint64_t owner;
        bool is_public, is_kept; /* is_kept: by the conversation that keeps its records */
        uint64_t n_users;        /* conversations that link the record, up to some number */
};

/* Whether a model can have such memory. */
bool store_shape_is_possible(const struct store_shape *shape);
/* The position behind the valid tokens of a cell. */
uint64_t store_place_end(const struct store_shape *shape, const struct store_place *p);
/* The first token that token @p sees in STORE_CLASS_WINDOW. */
uint32_t store_window_start(const struct store_shape *shape, uint32_t p);
/* Sort cells[0..n) by class and index, and fill in what each is of use for. Cells of classes that there
 * are not must not be among them; no two are the same. */
void store_places_mark(const struct store_shape *shape, struct store_place *cells, size_t n);
