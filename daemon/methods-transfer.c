/* SPDX-License-Identifier: MIT */
/*
 * Export and Import, which pass a file descriptor, or (in_stream) bytes: streams.h has the rules of
 * these.
 *
 * 1. The descriptor of an Import must be a file in memory that no one can change or shrink any more
 *    (a memfd with seals): reading it never waits, and reading it twice gives the same bytes.
 * 2. The kernel holds exports that a client has not received. So a client that leaves CONN_FDS_SENT
 *    of them unread gets "limit" for the next one.
 */
#include "daemon/closer.h"
#include "daemon/methods-private.h"
#include "daemon/streams.h"
#include <fcntl.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static size_t exports_in_flight(const struct peer *p, bool in_stream) {
        size_t n = 0;
        struct list *it;

        list_for_each (it, &p->in_flight.requests) {
                const struct request *r = list_entry(it, struct request, link);

                n += (r->verb == ENGINE_EXPORT || r->verb == ENGINE_BACKUP) &&
                     r->in_stream == in_stream;
        }
        return n;
}

int method_export(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Export *m = in->export;

        if (m->in_stream && streams_admit(p, exports_in_flight(p, true), e) < 0)
                return -(int)e->code;
        if (!m->in_stream && !conn_can_send_fd(&p->conn, exports_in_flight(p, false) + 1))
                return err_set(e, ERR_LIMIT,
                        "%d exports were not received yet, the limit for one connection; receive "
                        "some",
                        CONN_FDS_SENT);
        out->without_memory = m->without_memory;
        return methods_take_ref(m->conversation, out, e);
}

int method_backup(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        int r = methods_need_admin(p, e);

        out->with_memory = in->backup->with_memory;
        return r < 0 ? r : streams_admit(p, exports_in_flight(p, true), e);
}

int method_import(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const char *name = in->import->name && *in->import->name ? in->import->name : NULL;
        int fd, seals;

        out->name = name;
        out->own_file = in->import->in_stream;
        if (out->own_file)
                return 0; /* the upload comes first */
        fd = conn_take_fd(&p->conn);
        if (fd < 0)
                return err_set(e, ERR_INVALID, "no file descriptor came with the import");
        seals = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY ? -1 : fcntl(fd, F_GET_SEALS);
        if (seals < 0 || (seals & SEALS) != SEALS) {
                closer_close(fd);
                return err_set(e, ERR_INVALID,
                        "the descriptor is no readable memfd that is sealed against writing, "
                        "growing "
                        "and shrinking");
        }
        out->fd = fd;
        return 0;
}

void methods_send_exported(struct request *r, struct engine_event *in) {
        int fd = TAKE_FD(in->exported.fd);

        if (r->in_stream)
                streams_export(r->peer, r->id, fd, in->exported.size, in->exported.n_memory_tokens);
        else
                reply_exported(r->peer, r->id, in->exported.size, in->exported.n_memory_tokens, fd);
}

void method_chunk(struct peer *p, const Confab__V1__Request *in) {
        const Confab__V1__Chunk *m = in->chunk;

        streams_chunk(p, in->id, m->data.data, m->data.len, m->last);
}
