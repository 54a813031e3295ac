/* SPDX-License-Identifier: MIT */
/*
 * The spill files: whether a record can be where the register has it, whether it is what the
 * register says, and which other files and bytes there are. lib/spill answers these questions.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "fsck.h"

/* The largest block that a record may hold: a larger one cannot be adopted. */
#define MAX_RAW_SIZE ((uint64_t)1 << 30)

static struct spill_ref ref_of(const struct store_record *sr) {
        return (struct spill_ref){
                sr->file_key, sr->offset, sr->stored_size, sr->raw_size, sr->owner};
}

int fsck_record_check(struct fsck *f, const struct store_held *h, const struct model *m, void *raw,
        struct err *e) {
        const struct store_record *sr = &h->record;
        const struct spill_meta meta = {sr->block_class, sr->index, sr->n_tokens, sr->token_hash};
        const struct spill_ref ref = ref_of(sr);
        _cleanup_(freep) struct spill_array *arrays = NULL;
        const struct model_kv_array *a;
        struct model_info info;
        enum seq_class c;
        size_t n;

        if (!m)
                return spill_inspect(f->spill, &h->model, &ref, &meta, NULL, 0, NULL, e);
        model_info(m, &info);
        if (sr->block_class >= SEQ_N_CLASSES || info.shape.size[sr->block_class] == 0)
                return err_set(e, ERR_CORRUPT, "is of class %" PRIu32 ", which the model has not",
                        sr->block_class);
        c = (enum seq_class)sr->block_class;
        if (sr->raw_size != info.shape.size[c])
                return err_set(e, ERR_CORRUPT, "has %" PRIu64 " bytes, a block of the model %zu",
                        sr->raw_size, info.shape.size[c]);
        n = model_kv_arrays(m, c, &a);
        arrays = calloc(n + 1, sizeof(*arrays));
        if (!arrays)
                return err_set(e, ERR_NOMEM, "no memory for a layout");
        for (size_t i = 0; i < n; i++)
                arrays[i] =
                        (struct spill_array){.element = a[i].element == MODEL_KV_F16   ? SPILL_F16
                                                        : a[i].element == MODEL_KV_F32 ? SPILL_F32
                                                                                       : SPILL_I8,
                                .offset = a[i].offset,
                                .n_tiles = a[i].n_tiles,
                                .n_channels = a[i].n_channels,
                                .n_tokens = a[i].n_tokens,
                                .channel_major = a[i].channel_major};
        return spill_inspect(f->spill, &h->model, &ref, &meta, arrays, n, raw, e);
}

static int check_place(struct fsck *f, const struct store_held *h, struct err *e) {
        const struct spill_ref ref = ref_of(&h->record);

        if (!f->spill)
                return err_set(e, ERR_NOT_FOUND, "there is no folder '%s'", f->spill_dir);
        return spill_adopt(f->spill, &ref, e);
}

static int check_records(struct fsck *f, struct err *e) {
        struct err why;
        int r = 0;

        for (size_t i = 0; i < f->n_held && r != -ERR_NOMEM; i++) {
                const struct store_held *h = &f->held[i];

                r = check_place(f, h, &why);
                /* From before links said how much of a record is valid: no such record is read. */
                if (r == 0 && h->record.n_valid == 0) {
                        f->n_unchecked++;
                        continue;
                }
                if (r == 0)
                        r = fsck_record_check(f, h, NULL, NULL, &why);
                if (r < 0 && r != -ERR_NOMEM)
                        fsck_finding(f, "spill", h->conv, h->record.id, "block %u of class %u: %s",
                                h->record.index, h->record.block_class, why.msg);
                f->good[i] = r == 0;
                f->n_checked++;
        }
        if (r == -ERR_NOMEM) {
                *e = why;
                return r;
        }
        return 0;
}

/* Report other files and bytes: they take space until the daemon's next start removes them. */
static int count_orphan(void *arg, const struct spill_found *x) {
        struct fsck *f = arg;

        if (!x->is_ours)
                f->n_strange++;
        else if (x->n_records == 0) {
                f->n_orphans++;
                f->orphan_size += x->disk_size;
        } else if (x->disk_size > x->adopted_size)
                f->orphan_size += x->disk_size - x->adopted_size;
        return 0;
}

int fsck_spill(struct fsck *f, struct err *e) {
        struct spill_options o = {.max_raw_size = 1, .codec = SPILL_CODEC_RAW, .read_only = true};
        int r;

        for (size_t i = 0; i < f->n_held; i++)
                if (f->held[i].record.raw_size <= MAX_RAW_SIZE)
                        o.max_raw_size = MAX(o.max_raw_size, (size_t)f->held[i].record.raw_size);
        if (access(f->spill_dir, F_OK) == 0 || errno != ENOENT) {
                r = spill_open(&f->spill, f->spill_dir, &o, e);
                if (r < 0)
                        return r;
        }
        r = check_records(f, e);
        if (r == 0 && f->spill)
                r = spill_scan(f->spill, count_orphan, f, e);
        return r;
}
