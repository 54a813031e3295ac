/* SPDX-License-Identifier: MIT */
#pragma once
/* Memory that lives until a message is packed. Loop thread. */
#include "base/cleanup.h"
#include <stddef.h>

struct scratch_block;
struct scratch {
        struct scratch_block *blocks;
};
/* Zeroed; NULL when there is no memory. */
void *scratch_alloc(struct scratch *s, size_t n, size_t size);
void scratch_deinit(struct scratch *s);
