/* SPDX-License-Identifier: MIT */
/*
 * Limits. A write is admitted by its largest possible size before anything is encoded or written,
 * charged with that size, and recharged with its real size once that is known (write.c). So the
 * writes in progress can never exceed a limit together, however many there are. The price: near a
 * limit a block is refused that would have fitted after encoding.
 *
 * The limits are checked in this order, and the first that refuses is reported as the reason: the
 * day's (releasing records does not help against it), the owner's, the total, the floor. Only
 * writing shows that the file system is full.
 */
#include <inttypes.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/quota.h"
#include "spill/shared.h"

#define USEC_PER_DAY ((uint64_t)86400 * 1000000)

void spill_turn_day(struct spill *s) {
        uint64_t now =
                s->options.realtime_usec ? s->options.realtime_usec() : clock_realtime_usec();

        /* Any other day, even an earlier one: a clock that was set back must not stop writing. */
        if (now / USEC_PER_DAY == s->day)
                return;
        s->day = now / USEC_PER_DAY;
        s->day_written_size = 0;
}

/* Whether @size more than @used stays below @max (0: no limit). */
static bool fits(uint64_t max, uint64_t used, uint64_t size) {
        return max == 0 || (size <= max && used <= max - size);
}

static int check_floor(struct spill *s, uint64_t size, enum spill_refusal *ret_why, struct err *e) {
        uint64_t avail, floor = s->options.min_free_size;
        struct statvfs v;

        if (floor == 0)
                return 0;
        if (fstatvfs(s->dir_fd, &v) < 0)
                return err_set(e, ERR_SYS, "cannot tell the free space of the spill folder");
        if (__builtin_mul_overflow((uint64_t)v.f_bavail, (uint64_t)v.f_frsize, &avail))
                avail = UINT64_MAX;
        /* Writes in progress may not have taken their space yet. */
        avail = avail > s->pending_size ? avail - s->pending_size : 0;
        if (avail >= size && avail - size >= floor)
                return 0;
        *ret_why = SPILL_REFUSED_FLOOR;
        return err_set(e, ERR_LIMIT,
                "spilling %" PRIu64 " bytes would leave less than %" PRIu64 " of the %" PRIu64
                " bytes free",
                size, floor, avail);
}

/* Whether the block's owner may have @size more. */
static int check_owner(struct spill *s, const struct spill_block *b, uint64_t size,
        enum spill_refusal *ret_why, struct err *e) {
        const struct spill_owner *owner = spill_owner_find(s, b->owner);
        uint64_t used = owner ? owner->disk_size : 0, max = s->options.max_disk_size_per_owner;

        if (!b->has_max_owner_size && max == 0)
                return 0;
        max = b->has_max_owner_size ? b->max_owner_size : max;
        if (size <= max && used <= max - size)
                return 0;
        *ret_why = SPILL_REFUSED_OWNER;
        return quota_refuse(e, b->owner, QUOTA_DISK, used, size, max, 0);
}

int spill_admit(struct spill *s, const struct spill_block *b, uint64_t size,
        enum spill_refusal *ret_why, struct err *e) {
        const struct spill_options *o = &s->options;
        int r;

        spill_turn_day(s);
        if (!fits(o->max_written_per_day, s->day_written_size + s->day_pending_size, size)) {
                *ret_why = SPILL_REFUSED_DAY;
                return err_set(e, ERR_LIMIT,
                        "the spill store wrote %" PRIu64 " of %" PRIu64
                        " bytes a day and cannot write %" PRIu64 " more",
                        s->day_written_size + s->day_pending_size, o->max_written_per_day, size);
        }
        r = check_owner(s, b, size, ret_why, e);
        if (r < 0)
                return r;
        if (!fits(o->max_disk_size, s->stats.disk_size, size)) {
                *ret_why = SPILL_REFUSED_TOTAL;
                return err_set(e, ERR_LIMIT,
                        "the spill store holds %" PRIu64 " of %" PRIu64
                        " bytes and cannot take %" PRIu64 " more",
                        s->stats.disk_size, o->max_disk_size, size);
        }
        return check_floor(s, size, ret_why, e);
}
