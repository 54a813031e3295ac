/* SPDX-License-Identifier: MIT */
/* Records removed from the register are removed from the spill files and from RAM as well. */
#include <pthread.h>
#include <stdlib.h>

#include "base/file.h"
#include "engine/disk/state.h"

struct disk *disk_new(void) {
        struct disk *d = calloc(1, sizeof(*d));

        if (!d)
                return NULL;
        d->reserve_fd = -1;
        pthread_mutex_init(&d->lock, NULL);
        return d;
}

struct disk *disk_free(struct disk *d) {
        if (!d)
                return NULL;
        for (size_t c = 0; c < SEQ_N_CLASSES; c++) {
                free(d->sections[c].arrays);
                free(d->sections[c].ends);
                free(d->sections[c].of_layer);
        }
        free(d->stages);
        free(d->stages_of);
        free(d->cuts);
        closep(&d->reserve_fd);
        pthread_mutex_destroy(&d->lock);
        free(d);
        return NULL;
}

void records_release(struct engine *engine, const struct store_gone *gone) {
        for (size_t i = 0; i < gone->n; i++) {
                struct spill_ref ref = record_ref(&gone->records[i]);

                /* Not found: never adopted, so the sweep gave its space back already. */
                (void)spill_release(engine->spill, &ref, NULL);
        }
}

void records_cut(struct engine *engine, const struct store_cut *cuts, size_t n) {
        for (size_t i = 0; i < n; i++) {
                struct conv *c = convs_find(engine, cuts[i].conv);

                if (!c || cuts[i].block_class >= SEQ_N_CLASSES)
                        continue;
                conv_forget_recs(
                        engine, c, (enum seq_class)cuts[i].block_class, cuts[i].from, cuts[i].to);
                if (c->n_users == 0)
                        conv_trim(engine, c);
        }
}
