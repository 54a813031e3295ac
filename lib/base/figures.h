/* SPDX-License-Identifier: MIT */
#pragma once
/* How a reply was made. Shared by the register, which keeps it with the reply's turn, and the engine. */
#include <stddef.h>
#include <stdint.h>

struct figures {
        const char *model; /* its name, NUL-terminated UTF-8; "": not known */
        uint64_t seed;
        /* Tokens of the prompt, and of these: in RAM, read from disk, shared, computed; of the reply. */
        uint32_t n_prompt, n_ram, n_disk, n_shared, n_computed, n_generated;
        uint64_t queued_usec, restore_usec, prefill_usec, decode_usec;
};

/* The size of a copy, in bytes: one block, which figures_put() fills. Returns it. */
size_t figures_size(const struct figures *f);
struct figures *figures_put(void *block, const struct figures *f);
