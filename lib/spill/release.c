/* SPDX-License-Identifier: MIT */
/* Letting go of records. */
#include "base/err.h"
#include "spill/shared.h"

int spill_release(struct spill *s, const struct spill_ref *ref, struct err *e) {
        struct spill_file *f;
        bool pinned, gone;

        if (s->options.read_only)
                return err_set(e, ERR_STATE, "the spill store is open for reading only");
        pthread_mutex_lock(&s->lock);
        f = spill_find_record(s, ref);
        if (!f) {
                pthread_mutex_unlock(&s->lock);
                return spill_not_found(ref, e);
        }
        spill_pages_remove(&f->pages, spill_first_page(ref), spill_n_pages(ref));
        f->n_records--;
        s->stats.n_records--;
        s->stats.n_released++;
        /* Also for one that goes: so that unlinking it takes its name only, and its space is given
         * back after unlocking. If it cannot be opened, a file that stays has its space accounted
         * for until it goes. */
        pinned = spill_file_pin(s, f, false, NULL) == 0;
        gone = spill_file_drop_if_empty(s, f);
        if (gone)
                s->stats.punched_size += ref->stored_size;
        pthread_mutex_unlock(&s->lock);
        if (!pinned)
                return 0;
        if (!gone && spill_io_punch(f->fd, ref->offset, ref->stored_size)) {
                pthread_mutex_lock(&s->lock);
                s->stats.punched_size += ref->stored_size;
                if (!f->gone)
                        spill_file_discharge(s, f, ref->stored_size);
                pthread_mutex_unlock(&s->lock);
        }
        spill_file_let_go(s, f, 1);
        return 0;
}
