/* SPDX-License-Identifier: MIT */
/*
 * The engine's work for the register, other than its transactions.
 *
 * 1. Room. Transcripts matter more than memory: when the file system is full, a transaction that
 *    could not be written takes the space of spill records and is tried again. Forgetting records
 *    is itself a transaction, which needs a little room to begin with. The file `reserve` in the
 *    state folder provides this room: it is emptied then, and filled again as soon as there is
 *    space.
 *
 *      full ──→ empty the reserve ──→ cut the log ──→ forget records, punch ──→ try again
 *                                                              │ nothing is left: it fails
 *
 * 2. Removed data disappears from the files. Soon after a Close or Rewind, and at the start (for
 *    what a crash left), a job cuts the log and gives back some free pages. One job serves all
 *    removals until then, and it is repeated until everything is done.
 *    Where other daemons share the register, the same job looks every now and then for records that they have made loose.
 * 3. Other programs are kept from writing while the daemon runs (store_hold()). If one of them
 *    removed the log, this is logged once: nothing is lost, but each commit takes longer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "engine/disk/state.h"

#define RESERVE_SIZE (256 << 10)
#define RECLAIM_SIZE (256 << 10) /* bytes to take at least */
#define ROOM_TRIES 8
#define SCRUB_USEC 200000        /* after the first of several removals */
#define SCRUB_AGAIN_USEC 1000000 /* if a reader or the disk prevents it */
/* Of a register that is shared. */
#define IDENTITY_SIZE 32 /* characters */
#define BOOT_SIZE 64     /* bytes */
#define REGISTER_WAIT_USEC 10000000
#define LEASE_USEC 15000000
#define LOOSE_USEC 10000000 /* between two looks for loose records */

int register_find_prefix(struct engine *engine, uint64_t owner, const int32_t *tokens,
        const uint64_t *hashes, size_t n_blocks, struct store_prefix *ret, struct err *e) {
        return store_prefix_find(engine->store, owner, &engine->info.fingerprint,
                engine->vocab_hash, &engine->store_shape, tokens, hashes, n_blocks, ret, e);
}

/* --- room --- */

/* Fill the reserve, if there is space for it. */
static void make_reserve(struct engine *engine) {
        struct stat st;

        if (engine->disk->reserve_fd < 0 || fstat(engine->disk->reserve_fd, &st) < 0 ||
                st.st_size >= RESERVE_SIZE)
                return;
        if (fallocate(engine->disk->reserve_fd, 0, 0, RESERVE_SIZE) < 0)
                (void)ftruncate(engine->disk->reserve_fd, 0);
}

/* This machine's identity for those who share a register with it: made once, kept with the spill files. A copy of
 * the folder has the same: the register lets only the one that was opened last write. */
static int read_identity(
        struct engine *engine, bool make, char ret[IDENTITY_SIZE + 1], struct err *e) {
        _cleanup_(freep) char *text = NULL;
        uint8_t random[IDENTITY_SIZE / 2];
        char path[4096], line[IDENTITY_SIZE + 2];
        size_t n;

        snprintf(path, sizeof(path), "%s/machine", engine->state_dir);
        if (access(path, F_OK) == 0) {
                int r = file_read_all(path, 256, &text, &n, e);

                if (r < 0)
                        return r;
                if (n != IDENTITY_SIZE + 1 || strspn(text, "0123456789abcdef") != IDENTITY_SIZE)
                        return err_set(e, ERR_CORRUPT,
                                "'%s' is not the identity of a machine: remove it to have a new "
                                "one, "
                                "which knows nothing of the spill files here",
                                path);
                memcpy(ret, text, IDENTITY_SIZE);
                ret[IDENTITY_SIZE] = '\0';
                return 0;
        }
        if (!make) {
                strcpy(ret, "-");
                return 0;
        }
        if (getrandom(random, sizeof(random), 0) != sizeof(random))
                return err_set(e, ERR_SYS, "cannot draw an identity");
        for (size_t i = 0; i < sizeof(random); i++)
                snprintf(ret + 2 * i, 3, "%02x", random[i]);
        snprintf(line, sizeof(line), "%s\n", ret);
        return file_replace(path, line, IDENTITY_SIZE + 1, 0600, e);
}

/* What daemons on the same kernel have in common: only there is a socket's path of use. Empty: not known. */
static void read_boot(char ret[BOOT_SIZE]) {
        _cleanup_(freep) char *text = NULL;
        size_t n;

        ret[0] = '\0';
        if (file_read_all("/proc/sys/kernel/random/boot_id", 256, &text, &n, NULL) == 0)
                snprintf(ret, BOOT_SIZE, "%.*s", (int)strcspn(text, "\n"), text);
}

static struct store_server server_of(
        const struct engine *engine, const char *machine, const char *host, const char *boot) {
        const struct engine_options *o = &engine->o;

        return (struct store_server){.uri = o->register_uri,
                .machine = machine,
                .name = host,
                .address = o->address,
                .socket = o->socket,
                .host = *boot ? boot : NULL,
                .wait_usec = o->register_wait_usec ? o->register_wait_usec : REGISTER_WAIT_USEC,
                .lease_usec = o->lease_usec ? o->lease_usec : LEASE_USEC};
}

int register_open_server(struct engine *engine, bool look, struct err *e) {
        char identity[IDENTITY_SIZE + 1], host[256] = "", boot[BOOT_SIZE];
        struct store_server server;
        int r = read_identity(engine, !look, identity, e);

        (void)gethostname(host, sizeof(host) - 1);
        read_boot(boot);
        server = server_of(engine, identity, host, boot);
        if (r < 0)
                return r;
        engine->disk->t_loose = clock_monotonic_usec() + LOOSE_USEC;
        return look ? store_look_server(&engine->store, &server, e)
                    : store_open_server(&engine->store, &server, e);
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

/* Hand the taken records to the engine thread. Without memory for the list, the conversations find
 * out when they read. */
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

        /* Another program has the lock despite store_hold(). The client has seen the reply already,
         * so keep trying to save it until the engine stops. */
        if (r == -ERR_BUSY)
                return !gave_up(engine->disk);
        if (r == 0 && *tries > 0)
                make_reserve(engine);
        if (r != -ERR_SYS || (e->sys != ENOSPC && e->sys != EDQUOT) || ++*tries > ROOM_TRIES)
                return false;
        if (engine->disk->reserve_fd >= 0)
                (void)ftruncate(engine->disk->reserve_fd, 0);
        /* A log that is started anew needs less space. */
        (void)store_scrub(engine->store, NULL);
        bytes = MAX((uint64_t)RECLAIM_SIZE,
                2 * spill_stored_max(engine->spill, engine->budget->piece_size));
        if (store_reclaim(engine->store, OWNER_ANY, bytes, 0, &got, NULL) == 0) {
                records_release(engine, &got.gone);
                hand_over(engine, &got);
        }
        bytes = got.bytes;
        store_reclaimed_deinit(&got);
        /* Even without any records to take, the emptied reserve may be enough for one more try. */
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

/* --- removed data --- */

/* Another machine has changed conversations of which memory lies here (lib/store/loose.c). */
static void free_loose(struct engine *engine) {
        struct store_gone gone = {0};

        if (store_loose(engine->store, &gone, NULL) < 0)
                return; /* the next time */
        records_release(engine, &gone);
        store_gone_deinit(&gone);
}

static void scrub_run(struct engine *engine, struct job *j) {
        j->r = store_scrub(engine->store, &j->err);
        free_loose(engine);
        make_reserve(engine);
}

static void scrub_done(struct engine *engine, struct job *j) {
        engine->disk->scrubbing = false;
        engine->count.scrubs += j->r == 0;
        if (j->r != 0 && engine->disk->t_scrub == 0)
                engine->disk->t_scrub = clock_monotonic_usec() + SCRUB_AGAIN_USEC;
        if (j->r < 0 && !engine->disk->scrub_failed)
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, OWNER_ANY, 0, &j->err);
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
        event_log(engine, ENGINE_LOG_REGISTER_LOST, OWNER_ANY, 0, &e);
}

uint64_t register_step(struct engine *engine) {
        struct job *j;

        tell_log_lost(engine);
        /* What others have made loose is looked for by the same job, from time to time. */
        if (engine->disk->t_loose > 0 && engine->disk->t_scrub == 0 && !engine->disk->scrubbing) {
                engine->disk->t_scrub = engine->disk->t_loose;
                engine->disk->t_loose =
                        MAX(engine->disk->t_loose, clock_monotonic_usec()) + LOOSE_USEC;
        }
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
