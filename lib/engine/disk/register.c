/* SPDX-License-Identifier: MIT */
/*
 * What the engine does for the register beside its transactions.
 *
 * 1. Room. Transcripts matter more than memory: when the file system is full, a transaction that
 *    could not be written takes the space of spill records and is tried again. To forget records is
 *    a transaction too, which needs a little room to begin with: the file `reserve` in the state
 *    folder is that room. It is given away then, and made again as soon as there is space.
 *
 *      full ──→ give the reserve away ──→ cut the log ──→ forget records, punch ──→ try again
 *                                                                  │ nothing is left: it fails
 *
 * 2. What is removed goes. Soon after a Close or Rewind, and at the start (for what a crash left),
 *    the log is cut and some free pages are given back. One job for all that were removed
 *    meanwhile, and again until all is done.
 * 3. Other programs are kept from writing while the daemon runs (store_hold()). A log that one of
 *    them removed is told of once: nothing is lost, but each commit takes longer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/disk/state.h"

#define RESERVE_SIZE (256 << 10)
#define RECLAIM_SIZE (256 << 10) /* at least so much at once */
#define ROOM_TRIES 8
#define SCRUB_USEC 200000        /* after the first of some removals */
#define SCRUB_AGAIN_USEC 1000000 /* if a reader is in the way, or the disk is */

/* --- room --- */

/* Have the reserve, if there is space for it. */
static void make_reserve(struct engine *engine) {
        struct stat st;

        if (engine->disk->reserve_fd < 0 || fstat(engine->disk->reserve_fd, &st) < 0 ||
                st.st_size >= RESERVE_SIZE)
                return;
        if (fallocate(engine->disk->reserve_fd, 0, 0, RESERVE_SIZE) < 0)
                (void)ftruncate(engine->disk->reserve_fd, 0);
}

int register_open(struct engine *engine, const char *path, bool fresh, struct err *e) {
        char reserve[4096];
        int r = fresh ? store_open(&engine->store, path, e)
                      : store_open_existing(&engine->store, path, e);

        if (r == 0)
                r = store_hold(engine->store, e);
        if (r < 0)
                return r;
        snprintf(reserve, sizeof(reserve), "%s/reserve", engine->state_dir);
        engine->disk->reserve_fd = open(reserve, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (engine->disk->reserve_fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", reserve);
        make_reserve(engine);
        engine->disk->t_scrub = clock_monotonic_usec();
        return 0;
}

/* Cuts are for the engine thread. Without memory to remember them the conversations find out when
 * they read. */
static void hand_over(struct engine *engine, struct store_reclaimed *got) {
        struct disk *d = engine->disk;
        struct store_cut *cuts;

        pthread_mutex_lock(&d->lock);
        cuts = got->n_cuts ? realloc(d->cuts, (d->n_cuts + got->n_cuts) * sizeof(*cuts)) : NULL;
        if (cuts) {
                memcpy(cuts + d->n_cuts, got->cuts, got->n_cuts * sizeof(*cuts));
                d->cuts = cuts;
                d->n_cuts += got->n_cuts;
        }
        d->reclaimed += got->bytes;
        pthread_mutex_unlock(&d->lock);
        bell_ring(engine->bell);
}

static bool gave_up(struct disk *d) {
        bool is;

        pthread_mutex_lock(&d->lock);
        is = d->gave_up;
        pthread_mutex_unlock(&d->lock);
        return is;
}

void register_give_up(struct engine *engine) {
        struct disk *d = engine->disk;

        pthread_mutex_lock(&d->lock);
        d->gave_up = true;
        pthread_mutex_unlock(&d->lock);
}

bool register_retry(struct engine *engine, unsigned *tries, int r, const struct err *e) {
        struct store_reclaimed got = {0};
        uint64_t bytes;

        /* Another program has the lock all the same (see store_hold()). The reply was shown: it is
         * saved as long as there is somebody to save it. */
        if (r == -ERR_BUSY)
                return !gave_up(engine->disk);
        if (r == 0 && *tries > 0)
                make_reserve(engine);
        if (r != -ERR_SYS || (e->sys != ENOSPC && e->sys != EDQUOT) || ++*tries > ROOM_TRIES)
                return false;
        if (engine->disk->reserve_fd >= 0)
                (void)ftruncate(engine->disk->reserve_fd, 0);
        /* A log that is begun anew needs less. */
        (void)store_scrub(engine->store, NULL);
        bytes = MAX((uint64_t)RECLAIM_SIZE,
                2 * spill_stored_max(engine->spill, engine->info.block_size));
        if (store_reclaim(engine->store, STORE_UID_ANY, bytes, 0, &got, NULL) == 0) {
                records_release(engine, &got.gone);
                hand_over(engine, &got);
        }
        bytes = got.bytes;
        store_reclaimed_deinit(&got);
        /* With nothing to take, the reserve alone may be enough. */
        return bytes > 0 || *tries == 1;
}

void register_take_cuts(struct engine *engine) {
        struct disk *d = engine->disk;
        struct store_cut *cuts;
        size_t n;

        pthread_mutex_lock(&d->lock);
        cuts = TAKE_PTR(d->cuts);
        n = d->n_cuts;
        d->n_cuts = 0;
        engine->count.reclaimed += d->reclaimed;
        d->reclaimed = 0;
        pthread_mutex_unlock(&d->lock);
        records_cut(engine, cuts, n);
        free(cuts);
}

/* --- what is removed --- */

static void scrub_run(struct engine *engine, struct job *j) {
        j->r = store_scrub(engine->store, &j->err);
        make_reserve(engine);
}

static void scrub_done(struct engine *engine, struct job *j) {
        engine->disk->scrubbing = false;
        engine->count.scrubs += j->r == 0;
        if (j->r != 0 && engine->disk->t_scrub == 0)
                engine->disk->t_scrub = clock_monotonic_usec() + SCRUB_AGAIN_USEC;
        if (j->r < 0 && !engine->disk->scrub_failed)
                event_log(engine, LOG_WARNING, &j->err);
        engine->disk->scrub_failed = j->r < 0;
        free(j);
}

void register_removed(struct engine *engine) {
        if (engine->disk->t_scrub == 0)
                engine->disk->t_scrub = clock_monotonic_usec() + SCRUB_USEC;
}

static void tell_log_lost(struct engine *engine) {
        struct err e;

        if (engine->disk->log_lost_told || !store_log_lost(engine->store))
                return;
        engine->disk->log_lost_told = true;
        err_set(&e, ERR_STATE,
                "the register's log '%s/register.db-wal' was removed by another program: nothing "
                "is "
                "lost, but saving is slower until the daemon is started again",
                engine->state_dir);
        event_log(engine, LOG_ERR, &e);
}

uint64_t register_step(struct engine *engine) {
        struct job *j;

        tell_log_lost(engine);
        if (engine->disk->t_scrub == 0 || engine->disk->scrubbing || engine->stopping)
                return UINT64_MAX;
        if (clock_monotonic_usec() < engine->disk->t_scrub)
                return engine->disk->t_scrub;
        j = calloc(1, sizeof(*j));
        if (!j) {
                engine->disk->t_scrub = clock_monotonic_usec() + SCRUB_AGAIN_USEC;
                return engine->disk->t_scrub;
        }
        engine->disk->t_scrub = 0;
        engine->disk->scrubbing = true;
        j->kind = JOB_WRITE_BEHIND; /* commits go first */
        j->run = scrub_run;
        j->done = scrub_done;
        io_submit(engine, j);
        return UINT64_MAX;
}
