/* SPDX-License-Identifier: MIT */
/* Export and import whose bytes travel in the stream, as one blocking call each. */
#include "client/lib-internal.h"
#include <poll.h>

#define PIECE_SIZE (256u << 10)

/* ---- export ---- */

struct export {
        struct confab *c;
        confab_write_fn write;
        void *userdata;
        struct confab_exported exported;
        bool stopped;
};

static void see_export(void *userdata, const struct confab_event *event) {
        struct export *x = userdata;

        if (event->kind == CONFAB_EVENT_EXPORTED)
                x->exported = *event->exported;
        if (event->kind != CONFAB_EVENT_CHUNK || x->stopped)
                return;
        if (x->write(x->userdata, event->chunk->data, event->chunk->size) == 0)
                return;
        x->stopped = true;
        /* If even this fails the connection is over, and the request with it. */
        confab_cancel(x->c, event->request, NULL);
}

static int receive(struct confab *c, const struct confab_request *r, confab_write_fn write,
        void *userdata, struct confab_exported *ret, struct confab_error *e) {
        struct export x = {.c = c, .write = write, .userdata = userdata};
        int k = confab_call(c, r, see_export, &x, e);

        if (x.stopped)
                return error_set(e, CONFAB_CANCELLED, false, "the export's receiver has ended it");
        if (k == 0 && ret)
                *ret = x.exported;
        return k;
}

static int stream(struct confab *c, const struct confab_request *from, enum confab_verb verb,
        confab_write_fn write, void *userdata, struct confab_exported *ret,
        struct confab_error *e) {
        struct confab_request r;
        struct err err;

        if (request_normalise(&r, from, &err) < 0)
                return error_from_err(e, &err);
        r.size = sizeof(r);
        r.verb = verb;
        r.in_stream = true;
        return receive(c, &r, write, userdata, ret, e);
}

int confab_export_stream(struct confab *c, const struct confab_request *r, confab_write_fn write,
        void *userdata, struct confab_exported *ret, struct confab_error *e) {
        return stream(c, r, CONFAB_EXPORT, write, userdata, ret, e);
}

int confab_backup_stream(struct confab *c, const struct confab_request *r, confab_write_fn write,
        void *userdata, struct confab_exported *ret, struct confab_error *e) {
        return stream(c, r, CONFAB_BACKUP, write, userdata, ret, e);
}

int confab_backup(struct confab *c, confab_write_fn write, void *userdata,
        struct confab_exported *ret, struct confab_error *e) {
        const struct confab_request r = CONFAB_REQUEST_INIT;

        return stream(c, &r, CONFAB_BACKUP, write, userdata, ret, e);
}

/* ---- import ---- */

struct import {
        confab_event_fn fn;
        void *userdata;
        bool ended, failed;
        struct confab_error error;
};

static void see_import(void *userdata, const struct confab_event *event) {
        struct import *x = userdata;

        if (x->fn)
                x->fn(x->userdata, event);
        x->ended = event->final;
        if (event->kind == CONFAB_EVENT_ERROR) {
                x->failed = true;
                x->error = *event->error;
        }
}

/* Queue the next piece. 1: it was the last one. */
static int send_piece(struct confab *c, uint64_t id, char *piece, confab_read_fn read,
        void *userdata, struct confab_error *e) {
        ptrdiff_t n = read(userdata, piece, PIECE_SIZE);

        if (n < 0 || (size_t)n > PIECE_SIZE)
                return error_set(e, CONFAB_CANCELLED, false, "the import's sender has ended it");
        if (confab_send_chunk(c, id, piece, (size_t)n, n == 0, e) < 0)
                return -1;
        return n == 0;
}

/* Wait for the end of the request, and send what there is meanwhile. */
static int run_import(struct confab *c, uint64_t id, struct import *x, confab_read_fn read,
        void *userdata, struct confab_error *e) {
        char *piece = malloc(PIECE_SIZE);
        bool sent = false;
        int k = piece ? 0 : error_set(e, CONFAB_NO_MEMORY, true, "no memory for an import");

        if (k < 0)
                confab_cancel(c, id, NULL);
        while (!x->ended) {
                /* Not before Hello: the daemon may take short messages only. */
                if (k == 0 && !sent && confab_get_server(c) && !(confab_get_events(c) & POLLOUT)) {
                        k = send_piece(c, id, piece, read, userdata, e);
                        sent = k > 0;
                        if (k < 0)
                                confab_cancel(c, id, NULL);
                        k = MIN(k, 0);
                }
                /* If the connection were over, the request would be. */
                if (!x->ended && confab_wait(c, -1, k < 0 ? NULL : e) < 0 && !x->ended)
                        confab_give_up(c);
        }
        free(piece);
        return k;
}

int confab_import_stream(struct confab *c, confab_read_fn read, void *read_userdata,
        const char *name, confab_event_fn fn, void *userdata, struct confab_error *e) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct import x = {.fn = fn, .userdata = userdata};
        uint64_t id;
        int k;

        if (confab_is_processing(c))
                return error_set(e, CONFAB_STATE, false, "called from within an event");
        r.verb = CONFAB_IMPORT;
        r.in_stream = true;
        r.name = name;
        if (confab_submit(c, &r, see_import, &x, &id, e) < 0)
                return -1;
        k = run_import(c, id, &x, read, read_userdata, e);
        if (k < 0)
                return -1;
        return x.failed ? error_copy(e, &x.error) : 0;
}
