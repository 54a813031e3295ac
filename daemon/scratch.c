/* SPDX-License-Identifier: MIT */
#include "daemon/scratch.h"
#include "base/util.h"
#include <stdlib.h>

struct scratch_block {
        struct scratch_block *next;
        max_align_t data[];
};

void scratch_deinit(struct scratch *s) {
        while (s->blocks) {
                struct scratch_block *next = s->blocks->next;

                free(s->blocks);
                s->blocks = next;
        }
}

void *scratch_alloc(struct scratch *s, size_t n, size_t size) {
        struct scratch_block *b;
        size_t total;

        if (mul_overflow(n, size, &total) || add_overflow(total, sizeof(*b), &total))
                return NULL;
        b = calloc(1, total);
        if (!b)
                return NULL;
        b->next = s->blocks;
        s->blocks = b;
        return b->data;
}
