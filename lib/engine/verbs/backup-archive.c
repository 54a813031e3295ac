/* SPDX-License-Identifier: MIT */
/* Writing the archive of a backup, and the room that it takes. */
#include <stdio.h>

#include "base/file.h"
#include "base/tar.h"
#include "engine/verbs/backup.h"

void backup_copy_path(const struct engine *engine, const char *suffix, char out[4096]) {
        (void)snprintf(out, 4096, "%s/backup.db%s", engine->state_dir, suffix);
}

int backup_put(struct backing *x, const void *data, size_t n, struct err *e) {
        int r = file_pwrite(x->fd, data, n, x->size, e);

        if (r == 0)
                x->size += n;
        return r;
}

int backup_put_buf(struct backing *x, struct buf *b, int r, struct err *e) {
        if (r < 0)
                err_set(e, ERR_NOMEM, "no memory for a backup");
        else
                r = backup_put(x, b->data, b->size, e);
        buf_deinit(b);
        return r;
}

int backup_put_header(struct backing *x, const char *name, uint64_t size, struct err *e) {
        struct buf b = BUF_NULL;
        int r = tar_put_header(&b, name, size, x->created_usec / 1000000);

        return backup_put_buf(x, &b, r, e);
}

int backup_put_padding(struct backing *x, uint64_t size, struct err *e) {
        static const uint8_t zeroes[TAR_BLOCK];

        return backup_put(x, zeroes, tar_padding(size), e);
}

int backup_put_file(
        struct backing *x, const char *name, const void *data, size_t n, struct err *e) {
        int r = backup_put_header(x, name, n, e);

        if (r == 0)
                r = backup_put(x, data, n, e);
        return r < 0 ? r : backup_put_padding(x, n, e);
}

int backup_take_room(struct engine *engine, struct backing *x, uint64_t n, struct err *e) {
        x->held += n;
        atomic_fetch_add(&engine->verbs->export_bytes, n);
        return transfer_check_room(engine, x->fd, n, "a backup", x->held, e);
}
