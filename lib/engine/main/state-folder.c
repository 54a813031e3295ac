/* SPDX-License-Identifier: MIT */
/*
 * Opening the state folder: its lock, the register, the spill files. Register and spill files must
 * agree: records that the register knows are adopted, the rest is swept.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/machine.h"
#include "engine/main/main.h"

#define RINGS_PART 16 /* of the budget, for the read buffers of the I/O workers */

int state_lock(struct engine *engine, struct err *e) {
        char path[4096];
        _cleanup_(closep) int dir_fd = -1;
        int r = file_mkdir_p(engine->state_dir, 0700, e);

        if (r < 0)
                return r;
        /* A symbolic link to the folder is fine: systemd makes one for DynamicUser=. */
        dir_fd = open(engine->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0)
                return err_set(e, ERR_SYS, "cannot open the state folder '%s'", engine->state_dir);
        r = file_check_own_folder(dir_fd, engine->state_dir, e);
        if (r < 0)
                return r;
        snprintf(path, sizeof(path), "%s/lock", engine->state_dir);
        engine->front->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (engine->front->lock_fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        if (flock(engine->front->lock_fd, LOCK_EX | LOCK_NB) == 0)
                return 0;
        if (errno != EWOULDBLOCK)
                return err_set(e, ERR_SYS, "cannot lock '%s'", path);
        return err_set(e, ERR_BUSY, "the state folder '%s' is in use by another daemon",
                engine->state_dir);
}

static bool has_spill_files(const char *spill_dir) {
        struct dirent *d;
        bool found = false;
        DIR *dir = opendir(spill_dir);

        if (!dir)
                return false; /* a new folder; spill_open() reports anything else */
        while (!found && (d = readdir(dir))) {
                size_t n = strlen(d->d_name);

                found = n > 3 && strcmp(d->d_name + n - 3, ".kv") == 0;
        }
        closedir(dir);
        return found;
}

int engine_check_register(const char *path, const char *spill_dir, struct err *e) {
        struct stat st;

        if (stat(path, &st) < 0 ? errno != ENOENT : st.st_size > 0)
                return 0; /* other errors are reported when it is opened */
        if (!has_spill_files(spill_dir))
                return 0;
        return err_set(e, ERR_STATE,
                "there are spill files, but the register '%s' is missing or empty (put a copy of "
                "it "
                "back, or remove the folder '%s' to begin anew)",
                path, spill_dir);
}

static void tell_migrated(struct engine *engine) {
        unsigned now, before = store_migrated_from(engine->store, &now);
        struct err e;

        if (before == 0)
                return;
        err_set(&e, ERR_NONE, "the register was of version %u and is of version %u now", before,
                now);
        event_log(engine, ENGINE_LOG_MIGRATED, OWNER_ANY, 0, &e);
}

/* Where there are spill files there were conversations. So a register that is missing or empty was
 * lost, and beginning with a new one would sweep all spill files. */
static int open_store(
        struct engine *engine, const char *path, const char *spill_dir, struct err *e) {
        bool fresh = !has_spill_files(spill_dir);
        int r = register_open(engine, path, fresh, e);

        if (r == -ERR_STATE && !fresh)
                err_wrap(e, r,
                        "there are spill files, but not their register (put a copy of it back, or "
                        "remove the folder '%s' to begin anew)",
                        spill_dir);
        if (r == 0)
                tell_migrated(engine);
        return r;
}

/* A record that is not where it should be fails again when its conversation is restored, and is
 * forgotten then. One line of the journal covers all of them. */
static void adopt_records(struct engine *engine, const struct store_gone *records) {
        struct err why, first;
        size_t n_bad = 0;

        for (size_t i = 0; i < records->n; i++) {
                struct spill_ref ref = record_ref(&records->records[i]);

                if (spill_adopt(engine->spill, &ref, &why) < 0 && n_bad++ == 0)
                        first = why;
        }
        if (n_bad == 0)
                return;
        err_set(&why, first.code, "%zu of %zu spill records cannot be used, the first: %s", n_bad,
                records->n, first.msg);
        event_log(engine, ENGINE_LOG_RECORDS_UNUSABLE, OWNER_ANY, 0, &why);
}

struct spill_options engine_spill_options(struct engine *engine) {
        struct spill_options so = {.fingerprint = engine->info.fingerprint,
                .max_disk_size = engine->o.disk_limit,
                .max_disk_size_per_owner = engine->o.disk_limit_per_owner,
                .max_written_per_day = engine->o.disk_writes_per_day,
                .min_free_size = engine->o.disk_floor,
                .codec = engine->o.spill_codec == UINT32_MAX ? SPILL_CODEC_AUTO
                                                             : engine->o.spill_codec,
                .last_codec = SPILL_CODEC_AUTO,
                /* A single processor has two workers, which decode by turns. */
                .n_threads =
                        MIN((unsigned)io_n_workers(), machine_cpus(engine->budget->machine_root)),
                .ring_size =
                        ledger_budget(&engine->budget->ledger) / RINGS_PART / io_n_workers() + 1};

        for (int c = 0; c < SEQ_N_CLASSES; c++) {
                so.layouts[c] = layout_of(engine, (enum seq_class)c);
                so.max_raw_size = MAX(so.max_raw_size, engine->info.shape.size[c]);
        }
        return so;
}

int state_open_register(struct engine *engine, struct err *e) {
        const struct engine_opening now = {.stage = ENGINE_STAGE_REGISTER};
        char path[4096], spill_dir[4096];
        int r;

        snprintf(path, sizeof(path), "%s/register.db", engine->state_dir);
        snprintf(spill_dir, sizeof(spill_dir), "%s/spill", engine->state_dir);
        r = engine_tell(engine, &now, e);
        if (r < 0)
                return r;
        backup_sweep(engine);
        return engine->o.register_uri ? register_open_server(engine, false, e)
                                      : open_store(engine, path, spill_dir, e);
}

int state_open_spill(struct engine *engine, struct err *e) {
        const struct engine_opening now = {.stage = ENGINE_STAGE_SPILL};
        struct spill_options so = engine_spill_options(engine);
        struct store_gone records = {0};
        char spill_dir[4096];
        struct err why;
        int r;

        snprintf(spill_dir, sizeof(spill_dir), "%s/spill", engine->state_dir);
        r = engine_tell(engine, &now, e);
        if (r == 0)
                r = write_meters_read(engine, &so.written_today, &so.day, e);
        if (r == 0)
                r = codec_meters_read(engine->store, &so, e);
        if (r == 0)
                r = spill_open(&engine->spill, spill_dir, &so, e);
        if (r == 0)
                r = budget_set_scratch(engine->budget,
                        io_n_scratch(engine) * spill_scratch_size(engine->spill), e);
        if (r == 0)
                r = store_records(engine->store, &records, e);
        if (r < 0)
                return r;
        adopt_records(engine, &records);
        store_gone_deinit(&records);
        /* A file that cannot be swept only takes up space: no reason not to start (I1). */
        if (spill_sweep(engine->spill, NULL, &why) < 0)
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, OWNER_ANY, 0, &why);
        /* Likewise. Nobody can act for a tenant yet. */
        if (store_tenants_forget(engine->store, &why) < 0)
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, OWNER_ANY, 0, &why);
        if (store_usage_tidy(engine->store, quota_day(clock_realtime_usec()), &why) < 0)
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, OWNER_ANY, 0, &why);
        return 0;
}
