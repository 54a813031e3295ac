/* SPDX-License-Identifier: MIT */
/*
 * Backup: all conversations of all users as a tar archive, while everybody goes on.
 *
 *      BEGIN ─→ COPY, slice by slice ─→ FINISH ─→ SEAL ─→ ARCHIVE, slice by slice ─→ END ─→ Exported
 *      the copy's file,               the copy  │  ↑      an unnamed file
 *      one moment of the register     stands    ↓  │
 *                                     alone    MEMORY, with_memory: records first (backup-memory.c)
 *
 * The archive has register.db (the register of one moment), export.key (so that exports made before it stay the daemon's own)
 * and MANIFEST.json, which comes last: an archive without it is cut off. It names the files with their sizes and checksums
 * (XXH64 of the bytes, as xxhsum(1) prints it), the version, the model, and the time. Everything else in a state folder is
 * made anew: memory is a cache (I1), which the archive has only if that is asked for. `confab admin restore` makes a state folder
 * of an archive.
 *
 * 1. Each slice is a job of its own, so that commits and restores of others come in between (io/workers.c); the copy itself
 *    delays no commit (store/backup.c).
 * 2. On disk there are at most two copies of the register at a time, in the state folder, and one of the memory. They leave
 *    disk_floor free, and count against disk_limit. The archive has no name; the copy has one (SQLite needs it), and is removed as soon as it is in the
 *    archive, by the end of the request, or by the next start.
 * 3. There is one backup at a time: another one is ERR_BUSY.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/tar.h"

#include "engine/verbs/backup.h"

#define PAGES 256 /* of the register, in a slice */

void backup_sweep(struct engine *engine) {
        static const char *const suffixes[] = {"", "-journal", "-wal", "-shm"};
        char path[4096];

        for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
                backup_copy_path(engine, suffixes[i], path);
                (void)unlink(path);
        }
}

static void init(struct request *request) {
        struct backing *x = backing_of(request);

        x->fd = x->register_fd = -1;
}

static void deinit(struct engine *engine, struct request *request) {
        struct backing *x = backing_of(request);

        store_backup_free(x->copy);
        if (x->fd >= 0)
                close(x->fd);
        if (x->register_fd >= 0)
                close(x->register_fd);
        free(x->slice);
        backup_memory_deinit(&x->memory);
        atomic_fetch_sub(&engine->verbs->export_bytes, x->held);
        if (!x->counted)
                return;
        backup_sweep(engine);
        atomic_store(&engine->verbs->backing, false);
}

/* --- the manifest --- */

static void put_entry(struct json *j, const char *name, uint64_t size, uint64_t hash) {
        char text[17];

        (void)snprintf(text, sizeof(text), "%016" PRIx64, hash);
        json_object_begin(j);
        json_put_key_string(j, "name", name);
        json_put_key_u64(j, "size", size);
        json_put_key_string(j, "xxh64", text);
        json_object_end(j);
}

static void put_memory(struct json *j, struct backing_memory *m) {
        char text[17];

        if (m->n_records == 0)
                return;
        (void)snprintf(text, sizeof(text), "%016" PRIx64, hash64_digest(&m->hash));
        json_put_key(j, "memory");
        json_object_begin(j);
        json_put_key_u64(j, "records", m->n_records);
        json_put_key_u64(j, "bytes", m->size);
        json_put_key_string(j, "xxh64", text);
        json_object_end(j);
}

static int put_manifest(
        struct engine *engine, struct backing *x, const uint8_t *key, struct err *e) {
        struct buf b = BUF_NULL;
        struct engine_model_info info;
        char fingerprint[33];
        struct json j;
        int r;

        engine_describe_model(engine, &info);
        (void)snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64 "%016" PRIx64,
                info.fingerprint[0], info.fingerprint[1]);
        json_init(&j, &b);
        json_object_begin(&j);
        json_put_key_u64(&j, "confab_backup", x->memory.n_records > 0 ? 2 : 1);
        json_put_key_string(&j, "version", CONFAB_VERSION);
        json_put_key_u64(&j, "created_usec", x->created_usec);
        json_put_key_string(&j, "model", info.name);
        json_put_key_string(&j, "fingerprint", fingerprint);
        json_put_key_u64(&j, "conversations", x->n_convs);
        json_put_key(&j, "files");
        json_array_begin(&j);
        put_entry(&j, "register.db", x->register_size, x->register_hash);
        put_entry(&j, "export.key", XFER_KEY_SIZE, hash64(key, XFER_KEY_SIZE, 0));
        json_array_end(&j);
        put_memory(&j, &x->memory);
        json_object_end(&j);
        r = json_finish(&j);
        if (r == 0)
                r = buf_append(&b, "\n", 1);
        if (r < 0)
                err_set(e, ERR_NOMEM, "no memory for a backup");
        else
                r = backup_put_file(x, BACKUP_FOLDER "MANIFEST.json", b.data, b.size, e);
        buf_deinit(&b);
        return r;
}

/* --- stages --- */

/* Room for two copies of the register as it is, and for what is written meanwhile. */
static int begin(struct engine *engine, struct backing *x, struct err *e) {
        char path[4096];
        uint64_t size;
        int r;

        x->created_usec = clock_realtime_usec();
        x->slice = malloc(BACKUP_SLICE);
        if (!x->slice)
                return err_set(e, ERR_NOMEM, "no memory for a backup");
        r = store_size(engine->store, &size, e);
        if (r < 0)
                return r;
        x->fd = transfer_open_unnamed(engine, e);
        if (x->fd < 0)
                return x->fd;
        r = backup_take_room(engine, x, 2 * size, e);
        if (r < 0)
                return r;
        backup_sweep(engine);
        backup_copy_path(engine, "", path);
        x->stage = COPY;
        return store_backup_new(&x->copy, engine->store, path, e);
}

static int copy(struct backing *x, struct err *e) {
        int r = store_backup_step(x->copy, PAGES, e);

        if (r == 0)
                x->stage = FINISH;
        return MIN(r, 0);
}

static int finish(struct engine *engine, struct backing *x, bool with_memory, struct err *e) {
        int r = store_backup_finish(x->copy, with_memory, &x->n_convs, e);

        x->copy = store_backup_free(x->copy);
        x->stage = with_memory ? MEMORY : SEAL;
        return r == 0 && with_memory ? backup_memory_begin(engine, x, e) : r;
}

static int memory(struct engine *engine, struct request *request, struct err *e) {
        struct backing *x = backing_of(request);
        int r = backup_memory_step(engine, request, e);

        if (r != 0)
                return MIN(r, 0);
        x->stage = SEAL;
        return backup_memory_end(engine, x, e);
}

static int seal(struct engine *engine, struct backing *x, struct err *e) {
        char path[4096];
        struct stat st;

        backup_copy_path(engine, "", path);
        x->register_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (x->register_fd < 0 || fstat(x->register_fd, &st) < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        backup_sweep(engine); /* the name: its bytes are ours until it is closed */
        x->register_size = (uint64_t)st.st_size;
        hash64_init(&x->hash, 0);
        x->stage = ARCHIVE;
        return backup_put_header(x, BACKUP_FOLDER "register.db", x->register_size, e);
}

static int archive(struct backing *x, struct err *e) {
        size_t n = (size_t)MIN((uint64_t)BACKUP_SLICE, x->register_size - x->at);
        int r = file_pread(x->register_fd, x->slice, n, x->at, e);

        if (r == 0)
                r = backup_put(x, x->slice, n, e);
        if (r < 0)
                return r;
        hash64_update(&x->hash, x->slice, n);
        x->at += n;
        if (x->at < x->register_size)
                return 0;
        x->register_hash = hash64_digest(&x->hash);
        close(TAKE_FD(x->register_fd));
        x->stage = END;
        return backup_put_padding(x, x->register_size, e);
}

static int end(struct engine *engine, struct backing *x, struct err *e) {
        uint8_t key[XFER_KEY_SIZE];
        struct buf b = BUF_NULL;
        int r = transfer_key(engine, key, e);

        if (r == 0)
                r = backup_put_file(x, BACKUP_FOLDER "export.key", key, sizeof(key), e);
        if (r == 0)
                r = put_manifest(engine, x, key, e);
        memset(key, 0, sizeof(key));
        if (r < 0)
                return r;
        x->stage = DONE;
        r = tar_put_end(&b);
        return backup_put_buf(x, &b, r, e);
}

static void slice_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct backing *x = backing_of(request);

        switch (x->stage) {
        case BEGIN:
                j->r = begin(engine, x, &j->err);
                break;
        case COPY:
                j->r = copy(x, &j->err);
                break;
        case FINISH:
                j->r = finish(engine, x, request->r.with_memory, &j->err);
                break;
        case MEMORY:
                j->r = memory(engine, request, &j->err);
                break;
        case SEAL:
                j->r = seal(engine, x, &j->err);
                break;
        case ARCHIVE:
                j->r = archive(x, &j->err);
                break;
        case END:
                j->r = end(engine, x, &j->err);
                break;
        case DONE:
                break;
        }
}

static void slice_done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        struct backing *x = backing_of(request);
        struct engine_event *ev;

        if (j->r == 0 && engine->stopping)
                j->r = err_set(&j->err, ERR_SHUTDOWN, "the daemon is stopping");
        if (j->r == 0 && atomic_load(&request->cancel))
                j->r = err_set(&j->err, ERR_CANCELLED, "cancelled before the backup was made");
        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        if (x->stage != DONE) {
                request_submit(engine, request, slice_run, slice_done);
                return;
        }
        ev = request_answer(request, ENGINE_EXPORTED);
        ev->exported.fd = TAKE_FD(x->fd);
        ev->exported.size = x->size;
        request_finish(engine, request);
}

static void start(struct engine *engine, struct request *request) {
        struct err e;
        int r;

        if (atomic_exchange(&engine->verbs->backing, true)) {
                err_set(&e, ERR_BUSY, "another backup is under way");
                request_fail(engine, request, &e);
                return;
        }
        backing_of(request)->counted = true;
        r = charge_take(&request->charge, BACKUP_SLICE, "a backup", &e);
        if (r < 0)
                request_fail(engine, request, &e);
        else
                request_submit(engine, request, slice_run, slice_done);
}

const struct verb verb_backup = {.own_size = sizeof(struct backing),
        .init = init,
        .deinit = deinit,
        .start = start,
        .is_long = true,
        .in_pieces = true};
