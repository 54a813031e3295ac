/* SPDX-License-Identifier: MIT */
/* Shared by Export and Import: their state, and the key that marks memory as ours. */
#include "engine/verbs/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"

size_t transfer_buffer_size(const struct engine *engine) {
        size_t size = 0;

        for (int c = 0; c < SEQ_N_CLASSES; c++)
                size = MAX(size, engine->info.shape.size[c]);
        return size;
}

struct transfer *transfer_new(struct engine *engine, struct request *request, struct err *e) {
        struct transfer *x;

        if (transfer_charge(request, sizeof(*x) + transfer_buffer_size(engine), e) < 0)
                return NULL;
        x = aligned_alloc(_Alignof(struct transfer), sizeof(*x));
        if (!x) {
                err_set(e, ERR_NOMEM, "no memory for a transfer");
                return NULL;
        }
        memset(x, 0, sizeof(*x));
        x->fd = -1;
        *(struct transfer **)request_own(request) = x;
        x->buffer = malloc(transfer_buffer_size(engine));
        if (!x->buffer) {
                err_set(e, ERR_NOMEM, "no memory for a transfer");
                return NULL; /* the request frees the rest */
        }
        return x;
}

void transfer_deinit(struct engine *engine, struct request *request) {
        struct transfer *x = transfer_of(request);

        (void)engine;
        if (!x)
                return;
        if (x->fd >= 0)
                close(x->fd);
        free(x->buffer);
        free(x->cells);
        free(x->hashes);
        xfer_transcript_deinit(&x->t);
        free(x->data);
        free(x->records);
        free(x);
}

int transfer_charge(struct request *request, size_t n, struct err *e) {
        return charge_take(&request->charge, n, "a transfer", e);
}

int transfer_open_unnamed(struct engine *engine, struct err *e) {
        char path[4096];
        /* With O_EXCL the file can never get a name. */
        int fd = open(engine->state_dir, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

        if (fd >= 0)
                return fd;
        /* The file system does not support O_TMPFILE. */
        snprintf(path, sizeof(path), "%s/export-XXXXXX", engine->state_dir);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot make a file in '%s'", engine->state_dir);
        unlink(path);
        return fd;
}

int transfer_check_room(
        struct engine *engine, int fd, uint64_t n, const char *what, uint64_t size, struct err *e) {
        struct spill_stats s;
        struct statvfs v;
        uint64_t avail;

        spill_stats(engine->spill, &s);
        if (engine->o.disk_limit > 0 &&
                s.disk_size + atomic_load(&engine->verbs->export_bytes) > engine->o.disk_limit)
                return err_set(e, ERR_LIMIT,
                        "the disk limit of %" PRIu64 " bytes has no room for %s of %" PRIu64,
                        engine->o.disk_limit, what, size);
        if (fstatvfs(fd, &v) < 0)
                return err_set(e, ERR_SYS, "cannot tell the free space of the state folder");
        if (__builtin_mul_overflow((uint64_t)v.f_bavail, (uint64_t)v.f_frsize, &avail))
                avail = UINT64_MAX;
        if (avail < n || avail - n < engine->o.disk_floor)
                return err_set(e, ERR_LIMIT,
                        "%" PRIu64 " bytes of %s would leave less than %" PRIu64 " of the %" PRIu64
                        " bytes free",
                        n, what, engine->o.disk_floor, avail);
        return 0;
}

/* A file of exactly 32 bytes that only we can read. We never replace it: changing the key makes
 * older export files foreign. */
static int read_key(const char *path, uint8_t key[XFER_KEY_SIZE], struct err *e) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        struct stat st;

        if (fd < 0 && errno == ENOENT)
                return 1;
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != XFER_KEY_SIZE)
                return err_set(
                        e, ERR_CORRUPT, "'%s' is not a key: remove it to have a new one", path);
        return file_pread(fd, key, XFER_KEY_SIZE, 0, e);
}

static int load_key(struct engine *engine, struct err *e) {
        struct verb_state *s = engine->verbs;
        uint8_t key[XFER_KEY_SIZE];
        char path[4096];
        int r;

        if (sodium_init() < 0)
                return err_set(e, ERR_SYS, "libsodium cannot be initialised");
        snprintf(path, sizeof(path), "%s/export.key", engine->state_dir);
        r = read_key(path, key, e);
        if (r == 1) {
                if (getrandom(key, sizeof(key), 0) != sizeof(key))
                        return err_set(e, ERR_SYS, "cannot draw a key");
                r = file_replace(path, key, sizeof(key), 0600, e);
        }
        if (r < 0)
                return r;
        memcpy(s->export_key, key, sizeof(key));
        s->has_export_key = true;
        return 0;
}

int transfer_key(struct engine *engine, uint8_t key[XFER_KEY_SIZE], struct err *e) {
        struct verb_state *s = engine->verbs;
        int r = 0;

        pthread_mutex_lock(&engine->verbs->create_lock);
        if (!s->has_export_key)
                r = load_key(engine, e);
        if (r == 0)
                memcpy(key, s->export_key, sizeof(s->export_key));
        pthread_mutex_unlock(&engine->verbs->create_lock);
        return r;
}
