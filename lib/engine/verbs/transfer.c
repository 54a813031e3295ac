/* SPDX-License-Identifier: MIT */
/* Shared by Export and Import: their state, and the key that marks memory as ours. */
#include "engine/verbs/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
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
