/* SPDX-License-Identifier: MIT */
/*
 * Identifying the model. The fingerprint contains a hash of all weights, and reading several GB for
 * it would delay every start. So the register remembers the hash of the last model file that was
 * read, together with data that identify the file and its state: device, inode, size, and the times
 * of the last write and of the last change of its inode.
 *
 * 1. The hash is taken from the register only if all of these are equal. After any difference the
 *    file is read again, even if it was only copied to another place.
 * 2. A file system may give two writes the same time. So a hash is remembered only if the file was
 *    last changed more than SETTLED_NSEC before it was read, and is the same after the read as
 *    before it.
 * 3. Metadata is hashed at each start: it is small.
 * 4. If the register cannot be read or written, the start goes on: the file is read.
 *
 * The hash finds mix-ups and damage, not forgery: it is not cryptographic. Damage that leaves the
 * times of a file unchanged is found only with the option verify_model.
 */
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/machine.h"
#include "gguf/gguf.h"
#include "engine/main/main.h"

#define SETTLED_NSEC 3000000000u

/* Names of meters, in the order of struct gguf_identity; the hash is last. */
enum { N_PARTS = 5, HASH = N_PARTS, N_METERS };
static const char *const meter_names[N_METERS] = {"model_device", "model_inode", "model_size",
        "model_mtime_nsec", "model_ctime_nsec", "model_weights"};

static void parts_of(const struct gguf_identity *id, uint64_t parts[N_PARTS]) {
        parts[0] = id->device;
        parts[1] = id->inode;
        parts[2] = id->size;
        parts[3] = id->mtime_nsec;
        parts[4] = id->ctime_nsec;
}

/* True if the register has the hash of exactly this file. */
static bool recall(struct engine *engine, const struct gguf_identity *id, uint64_t *ret) {
        uint64_t parts[N_PARTS];
        int64_t v;

        if (!engine->store)
                return false;
        parts_of(id, parts);
        for (size_t i = 0; i < N_PARTS; i++)
                if (store_meter_get(engine->store, meter_names[i], &v, NULL) < 0 ||
                        (uint64_t)v != parts[i])
                        return false;
        /* A meter that was never set is 0, and no file has inode 0. */
        if (parts[1] == 0 || store_meter_get(engine->store, meter_names[HASH], &v, NULL) < 0)
                return false;
        *ret = (uint64_t)v;
        return true;
}

static bool is_settled(const struct gguf_identity *id, uint64_t now_nsec) {
        uint64_t last = MAX(id->mtime_nsec, id->ctime_nsec);

        return last < now_nsec && now_nsec - last > SETTLED_NSEC;
}

static void remember(struct engine *engine, const struct gguf_identity *id, uint64_t hash) {
        struct store_meter meters[N_METERS];
        uint64_t parts[N_PARTS];
        struct err e;

        parts_of(id, parts);
        for (size_t i = 0; i < N_PARTS; i++)
                meters[i] = (struct store_meter){meter_names[i], (int64_t)parts[i]};
        meters[HASH] = (struct store_meter){meter_names[HASH], (int64_t)hash};
        if (store_meter_set(engine->store, meters, N_METERS, &e) < 0) {
                err_wrap(&e, -(int)e.code, "the hash of the weights is not remembered");
                event_log(engine, ENGINE_LOG_HOUSEKEEPING, OWNER_ANY, 0, &e);
        }
}

int engine_tell(struct engine *engine, const struct engine_opening *o, struct err *e) {
        if (!engine->o.progress || engine->o.progress(engine->o.progress_arg, o) == 0)
                return 0;
        return err_set(e, ERR_CANCELLED, "starting was broken off");
}

static int tell_read(void *arg, uint64_t done, uint64_t total) {
        return engine_tell(arg,
                &(struct engine_opening){
                        .stage = ENGINE_STAGE_WEIGHTS, .done = done, .total = total},
                NULL);
}

static uint64_t now_nsec(void) {
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void identity_release(struct engine *engine) {
        engine->store = store_free(engine->store);
        if (engine->front->lock_fd >= 0)
                close(engine->front->lock_fd);
        engine->front->lock_fd = -1;
}

int identity_open_model(struct engine *engine, const struct model_options *o, struct err *e) {
        const struct gguf_progress progress = {tell_read, engine};
        const struct engine_opening now = {.stage = ENGINE_STAGE_MODEL,
                .weights_size = gguf_data_size(engine->gguf),
                .ram_size = machine_ram(NULL)};
        struct model_options mo = *o;
        struct gguf_identity before, after;
        uint64_t hash, began = now_nsec();
        struct model_info info;
        int r;

        r = engine_tell(engine, &now, e);
        if (r == 0)
                r = gguf_identify(engine->gguf, &before, e);
        if (r < 0)
                return r;
        engine->front->remembered = recall(engine, &before, &hash);
        if (engine->front->looking)
                identity_release(engine);
        mo.progress = &progress;
        if (engine->front->remembered && !engine->o.verify_model)
                mo.weights_hash = &hash;
        r = model_open(&engine->model, engine->gguf, &mo, e);
        if (r < 0 || mo.weights_hash || engine->front->looking || !engine->store)
                return r;
        model_info(engine->model, &info);
        if (is_settled(&before, began) && gguf_identify(engine->gguf, &after, NULL) == 0 &&
                memcmp(&before, &after, sizeof(before)) == 0)
                remember(engine, &before, info.fingerprint.weights);
        return 0;
}

int identity_check(struct engine *engine, struct err *e) {
        const char *want = engine->o.fingerprint;
        size_t n = want ? strlen(want) : 0;
        char have[33];

        if (!want)
                return 0;
        if ((n != 16 && n != 32) || strspn(want, "0123456789abcdefABCDEF") != n)
                return err_set(e, ERR_INVALID,
                        "a fingerprint has 16 or 32 hexadecimal digits, unlike '%.40s'", want);
        snprintf(have, sizeof(have), "%016llx%016llx",
                (unsigned long long)engine->info.fingerprint.weights,
                (unsigned long long)engine->info.fingerprint.rules);
        if (strncasecmp(have, want, n) == 0)
                return 0;
        return err_set(e, ERR_STATE, "%s has the fingerprint %s, but %s is expected",
                engine->model_path, have, want);
}
