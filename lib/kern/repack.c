/* SPDX-License-Identifier: MIT */
/* Repacking of weights: which matrices, and how their tiles are dealt to threads. */
#include "kern/kern.h"
#include "kern/kern-isa.h"
#include "kern/kern-tsan.h"
#include "base/util.h"
#include <assert.h>

struct repack_job {
        void (*repack)(const struct kern_mat *w, size_t i, uint8_t *dst);
        const struct kern_mat *w;
        uint8_t *dst;
        size_t tile_size;
};

size_t kern_repacked_size(const struct kern *k, const struct kern_mat *w) {
        if (w->repacked || !k->ops.repack[w->type])
                return 0;
        return align_up(w->n_out, k->ops.repacked_rows) * w->row_size;
}

size_t kern_repacked_rows(const struct kern *k) {
        return k->ops.repacked_rows;
}

static void repack_task(void *arg, size_t task, unsigned thread) {
        const struct repack_job *j = arg;

        kern_tsan_writes(j->dst + task * j->tile_size, j->tile_size);
        j->repack(j->w, task, j->dst + task * j->tile_size);
}

void kern_repack(struct kern *k, const struct kern_mat *w, void *dst, struct kern_mat *ret) {
        size_t n_rows = k->ops.repacked_rows;
        struct repack_job job = {k->ops.repack[w->type], w, dst, n_rows * w->row_size};

        assert(kern_repacked_size(k, w) > 0);
        kern_run(k, (w->n_out + n_rows - 1) / n_rows, repack_task, &job);
        *ret = *w;
        ret->data = dst;
        ret->repacked = true;
}
