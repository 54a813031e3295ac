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
#include "engine/internal.h"

#define RESERVE_SIZE (256 << 10)
#define RECLAIM_SIZE (256 << 10) /* at least so much at once */
#define ROOM_TRIES 8
#define SCRUB_USEC 200000        /* after the first of some removals */
#define SCRUB_AGAIN_USEC 1000000 /* if a reader is in the way, or the disk is */

/* --- room --- */

/* Have the reserve, if there is space for it. */
static void make_reserve(struct engine *en) {
        struct stat st;

        if (en->reserve_fd < 0 || fstat(en->reserve_fd, &st) < 0 || st.st_size >= RESERVE_SIZE)
                return;
        if (fallocate(en->reserve_fd, 0, 0, RESERVE_SIZE) < 0)
                (void)ftruncate(en->reserve_fd, 0);
}

int register_open(struct engine *en, const char *path, bool fresh, struct err *e) {
        char reserve[4096];
        int r = fresh ? store_open(&en->store, path, e) : store_open_existing(&en->store, path, e);

        if (r == 0)
                r = store_hold(en->store, e);
        if (r < 0)
                return r;
        snprintf(reserve, sizeof(reserve), "%s/reserve", en->state_dir);
        en->reserve_fd = open(reserve, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (en->reserve_fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", reserve);
        make_reserve(en);
        en->t_scrub = clock_monotonic_usec();
        return 0;
}

/* Cuts are for the engine thread. Without memory to remember them the conversations find out when
 * they read. */
static void hand_over(struct engine *en, struct store_reclaimed *got) {
        struct store_cut *cuts;

        pthread_mutex_lock(&en->lock);
        cuts = got->n_cuts ? realloc(en->cuts, (en->n_cuts + got->n_cuts) * sizeof(*cuts)) : NULL;
        if (cuts) {
                memcpy(cuts + en->n_cuts, got->cuts, got->n_cuts * sizeof(*cuts));
                en->cuts = cuts;
                en->n_cuts += got->n_cuts;
        }
        en->reclaimed += got->bytes;
        en->signalled = true;
        pthread_cond_signal(&en->wake);
        pthread_mutex_unlock(&en->lock);
}

static bool stop_asked(struct engine *en) {
        bool stop;

        pthread_mutex_lock(&en->lock);
        stop = en->stop_asked;
        pthread_mutex_unlock(&en->lock);
        return stop;
}

bool register_retry(struct engine *en, unsigned *tries, int r, const struct err *e) {
        struct store_reclaimed got = {0};
        uint64_t bytes;

        /* Another program has the lock all the same (see store_hold()). The reply was shown: it is
         * saved as long as there is somebody to save it. */
        if (r == -ERR_BUSY)
                return !stop_asked(en);
        if (r == 0 && *tries > 0)
                make_reserve(en);
        if (r != -ERR_SYS || (e->sys != ENOSPC && e->sys != EDQUOT) || ++*tries > ROOM_TRIES)
                return false;
        if (en->reserve_fd >= 0)
                (void)ftruncate(en->reserve_fd, 0);
        /* A log that is begun anew needs less. */
        (void)store_scrub(en->store, NULL);
        bytes = MAX((uint64_t)RECLAIM_SIZE, 2 * spill_stored_max(en->spill, en->info.block_size));
        if (store_reclaim(en->store, STORE_UID_ANY, bytes, 0, &got, NULL) == 0) {
                residency_release(en, &got.gone);
                hand_over(en, &got);
        }
        bytes = got.bytes;
        store_reclaimed_deinit(&got);
        /* With nothing to take, the reserve alone may be enough. */
        return bytes > 0 || *tries == 1;
}

void register_take_cuts(struct engine *en) {
        struct store_cut *cuts;
        size_t n;

        pthread_mutex_lock(&en->lock);
        cuts = TAKE_PTR(en->cuts);
        n = en->n_cuts;
        en->n_cuts = 0;
        en->count.reclaimed += en->reclaimed;
        en->reclaimed = 0;
        pthread_mutex_unlock(&en->lock);
        residency_cut(en, cuts, n);
        free(cuts);
}

/* --- what is removed --- */

static void scrub_run(struct engine *en, struct job *j) {
        j->r = store_scrub(en->store, &j->err);
        make_reserve(en);
}

static void scrub_done(struct engine *en, struct job *j) {
        en->scrubbing = false;
        en->count.scrubs += j->r == 0;
        if (j->r != 0 && en->t_scrub == 0)
                en->t_scrub = clock_monotonic_usec() + SCRUB_AGAIN_USEC;
        if (j->r < 0 && !en->scrub_failed)
                engine_event_log(en, LOG_WARNING, &j->err);
        en->scrub_failed = j->r < 0;
        free(j);
}

void register_removed(struct engine *en) {
        if (en->t_scrub == 0)
                en->t_scrub = clock_monotonic_usec() + SCRUB_USEC;
}

static void tell_log_lost(struct engine *en) {
        struct err e;

        if (en->log_lost_told || !store_log_lost(en->store))
                return;
        en->log_lost_told = true;
        err_set(&e, ERR_STATE,
                "the register's log '%s/register.db-wal' was removed by another program: nothing "
                "is "
                "lost, but saving is slower until the daemon is started again",
                en->state_dir);
        engine_event_log(en, LOG_ERR, &e);
}

uint64_t register_step(struct engine *en) {
        struct job *j;

        tell_log_lost(en);
        if (en->t_scrub == 0 || en->scrubbing || en->stopping)
                return UINT64_MAX;
        if (clock_monotonic_usec() < en->t_scrub)
                return en->t_scrub;
        j = calloc(1, sizeof(*j));
        if (!j) {
                en->t_scrub = clock_monotonic_usec() + SCRUB_AGAIN_USEC;
                return en->t_scrub;
        }
        en->t_scrub = 0;
        en->scrubbing = true;
        j->kind = JOB_WRITE_BEHIND; /* commits go first */
        j->run = scrub_run;
        j->done = scrub_done;
        io_submit(en, j);
        return UINT64_MAX;
}
