/* SPDX-License-Identifier: MIT */
/*
 * The memory of a backup: the records that the copied register refers to, as they lie in the spill files.
 *
 * 1. The archive has them in front of the register, each as a file of its own, confab-backup/memory/KEY-PLACE: the key of its spill
 *    file and its place in it, 16 hexadecimal digits each. A restore puts them back where they were. So nothing has to be renamed in
 *    the register, and what does not arrive is like a spill file that a power loss has cut.
 * 2. The copy is of one moment, and records may go afterwards: their conversation is closed, room is made. Nothing holds them back. Each is
 *    read while its file is pinned and checked by its own checksums; one that is not there any more, or is damaged, is left out, and
 *    the copy forgets it (store_forget_record()), so that the restored register is one whose memory is there (I1).
 * 3. What the records take on disk is reserved before the first one is read (backup_take_room()). Records that are made later are not in
 *    the copy, so it never becomes more.
 * 4. Memory of another model is taken along as well: it is of use where that model comes back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/tar.h"
#include "engine/verbs/backup.h"

#define BACKUP_PAGE 64

void backup_memory_deinit(struct backing_memory *m) {
        store_checker_free(m->records);
        store_free(m->copy);
        free(m->page);
        free(m->stored);
        m->records = NULL;
        m->copy = NULL;
        m->page = NULL;
        m->stored = NULL;
}

int backup_memory_begin(struct engine *engine, struct backing *x, struct err *e) {
        const struct store_check_options o = {0};
        struct backing_memory *m = &x->memory;
        uint64_t n = 0, size = 0;
        char path[4096];
        int r;

        hash64_init(&m->hash, 0);
        m->more = true;
        m->page = calloc(BACKUP_PAGE, sizeof(*m->page));
        if (!m->page)
                return err_set(e, ERR_NOMEM, "no memory for a backup");
        backup_copy_path(engine, "", path);
        r = store_open_existing(&m->copy, path, e);
        if (r == 0)
                r = store_checker_new(&m->records, m->copy, &o, e);
        if (r == 0)
                r = store_checker_total(m->records, &n, &size, e);
        return r < 0 ? r : backup_take_room(engine, x, size + n * TAR_BLOCK, e);
}

static int grow(struct request *request, size_t n, struct err *e) {
        struct backing_memory *m = &backing_of(request)->memory;
        uint8_t *p;
        int r = n > m->capacity ? charge_take(&request->charge, n - m->capacity, "a backup", e) : 0;

        if (n <= m->capacity || r < 0)
                return r;
        p = realloc(m->stored, n);
        if (!p) {
                charge_give(&request->charge, n - m->capacity);
                return err_set(e, ERR_NOMEM, "no memory for a record of %zu bytes", n);
        }
        m->stored = p;
        m->capacity = n;
        return 0;
}

static int put_record(struct backing *x, const struct store_record *record, struct err *e) {
        struct backing_memory *m = &x->memory;
        char name[TAR_NAME_MAX + 1];
        int r;

        (void)snprintf(name, sizeof(name), BACKUP_FOLDER "memory/%016" PRIx64 "-%016" PRIx64,
                record->file_key, record->offset);
        r = backup_put_file(x, name, m->stored, (size_t)record->stored_size, e);
        if (r < 0)
                return r;
        hash64_update(&m->hash, m->stored, (size_t)record->stored_size);
        m->n_records++;
        m->size += record->stored_size;
        return 0;
}

static int leave_out(struct backing_memory *m, uint64_t record, struct err *e) {
        struct store_reclaimed got = {0};
        int r = store_forget_record(m->copy, record, &got, e);

        store_reclaimed_deinit(&got);
        return r;
}

/* One that is too large for what requests may hold is left out, too. */
static int take_record(struct engine *engine, struct request *request,
        const struct store_held *held, struct err *e) {
        struct backing *x = backing_of(request);
        struct spill_meta meta = record_meta(&held->record);
        struct spill_ref ref = record_ref(&held->record);
        struct err why;
        int r = grow(request, (size_t)ref.stored_size, &why);

        if (r == 0)
                r = spill_read_stored(
                        engine->spill, &held->model, &ref, &meta, x->memory.stored, &why);
        if (r == 0)
                return put_record(x, &held->record, e);
        if (r != -ERR_NOMEM)
                return leave_out(&x->memory, held->record.id, e);
        *e = why;
        return r;
}

int backup_memory_step(struct engine *engine, struct request *request, struct err *e) {
        struct backing *x = backing_of(request);
        struct backing_memory *m = &x->memory;
        uint64_t until = x->size + BACKUP_SLICE;
        int r = 0;

        while (r == 0 && x->size < until) {
                if (m->at < m->n) {
                        r = take_record(engine, request, &m->page[m->at++], e);
                        continue;
                }
                if (!m->more)
                        return 0;
                m->at = 0;
                m->n = 0;
                r = store_checker_records(m->records, m->page, BACKUP_PAGE, &m->n, &m->more, e);
        }
        return r < 0 ? r : 1;
}

int backup_memory_end(struct engine *engine, struct backing *x, struct err *e) {
        char path[4096];

        backup_memory_deinit(&x->memory);
        backup_copy_path(engine, "", path);
        return store_backup_seal(path, e);
}
