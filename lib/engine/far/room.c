/* SPDX-License-Identifier: MIT */
/* The memory of a push, which is charged among the requests: a push in the background passes as they do, and conversations need not make
 * room for it. */
#include <stdlib.h>

#include "engine/budget/budget.h"
#include "engine/far/state.h"

size_t push_size(const struct engine *engine, size_t n_tokens, size_t n_records) {
        size_t n = n_records + 1;

        return sizeof(struct push) + n_tokens * sizeof(int32_t) +
               n * (sizeof(struct store_record) + sizeof(struct far_cell) + sizeof(bool) +
                           sizeof(void *) + 2 * sizeof(struct remote_key)) +
               far_names_size(engine, (uint32_t)n_tokens) + far_contents_size(engine) +
               far_value_max(engine);
}

struct push *push_new(struct engine *engine, size_t size) {
        struct charge charge = {.ledger = &engine->budget->requests};
        struct push *push =
                charge_take(&charge, size, "a push", NULL) == 0 ? calloc(1, sizeof(*push)) : NULL;

        if (push)
                push->charge = charge;
        else
                charge_deinit(&charge);
        return push;
}

struct push *push_free(struct push *push) {
        struct charge charge;

        if (!push)
                return NULL;
        far_contents_deinit(&push->old);
        far_contents_deinit(&push->now);
        free(push->tokens);
        free(push->records);
        free(push->there);
        free(push->from);
        free(push->buffer);
        charge = push->charge;
        free(push);
        charge_deinit(&charge);
        return NULL;
}
