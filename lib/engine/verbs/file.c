/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing files of our own, for exports and imports whose bytes travel in the stream of a
 * connection.
 *
 * 1. The caller owns the file (struct engine_file), and has at most one request with it in flight.
 * 2. A file that is written has no name: it disappears with its last descriptor. It is made by the first
 *    write, in the state folder, and nobody else has a descriptor of it.
 * 3. Its bytes count against the disk limit like those of an export that grows, until
 *    engine_file_end(). Each write leaves the floor of free space.
 * 4. Both verbs are parts of requests that were admitted (struct verb.uncounted): a transfer that has
 *    begun is not ended by its user's other requests.
 */
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/verbs/transfer.h"

void engine_file_begin(struct engine *engine, struct engine_file *file, int fd, uint64_t size) {
        *file = (struct engine_file){.fd = fd, .size = size};
        atomic_fetch_add(&engine->verbs->export_bytes, size);
}

int engine_file_end(struct engine *engine, struct engine_file *file) {
        int fd = file->fd;

        atomic_fetch_sub(&engine->verbs->export_bytes, file->size);
        *file = ENGINE_FILE_NULL;
        return fd;
}

/* --- reading --- */

static void read_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        const struct engine_request *r = &request->r;
        struct engine_event *ev = request_answer(request, ENGINE_BYTES);

        (void)engine;
        ev->bytes.data = event_calloc(request->final, r->n_bytes, 1, &j->err);
        if (!ev->bytes.data) {
                j->r = -(int)j->err.code;
                return;
        }
        ev->bytes.n = r->n_bytes;
        j->r = file_pread(r->file->fd, ev->bytes.data, r->n_bytes, r->offset, &j->err);
}

static void read_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                request_fail(engine, request_of(j), &j->err);
        else
                request_finish(engine, request_of(j));
}

static void start_reading(struct engine *engine, struct request *request) {
        request_submit(engine, request, read_run, read_done);
}

const struct verb verb_read_file = {.start = start_reading, .uncounted = true};

/* --- writing --- */

static int write_bytes(struct engine *engine, const struct engine_request *r, struct err *e) {
        struct engine_file *file = r->file;
        int k;

        if (file->fd < 0)
                file->fd = transfer_open_unnamed(engine, e);
        if (file->fd < 0)
                return -ERR_SYS;
        k = transfer_check_room(
                engine, file->fd, r->text_size, "an upload", file->size + r->text_size, e);
        if (k < 0)
                return k;
        k = file_pwrite(file->fd, r->text, r->text_size, file->size, e);
        if (k == -ERR_SYS && (e->sys == ENOSPC || e->sys == EDQUOT))
                return err_set(e, ERR_LIMIT, "the disk is full");
        return err_wrap(e, k, "cannot write an upload");
}

static void write_run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        const struct engine_request *r = &request->r;

        /* First of all, so that uploads at the same time see each other. */
        atomic_fetch_add(&engine->verbs->export_bytes, r->text_size);
        j->r = write_bytes(engine, r, &j->err);
        if (j->r < 0)
                atomic_fetch_sub(&engine->verbs->export_bytes, r->text_size);
        else
                r->file->size += r->text_size;
}

static void write_done(struct engine *engine, struct job *j) {
        if (j->r < 0)
                request_fail(engine, request_of(j), &j->err);
        else
                request_finish_empty(engine, request_of(j));
}

static void start_writing(struct engine *engine, struct request *request) {
        request_submit_as(engine, request, JOB_WRITE_BEHIND, write_run, write_done);
}

const struct verb verb_write_file = {.start = start_writing, .uncounted = true};
