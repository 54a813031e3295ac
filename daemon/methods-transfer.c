/* SPDX-License-Identifier: MIT */
/*
 * Export and Import: the verbs that pass a file descriptor.
 *
 * 1. The descriptor of an Import must be a file in memory that no one can change or shrink any more
 *    (a memfd with seals): reading it never waits, and reading it twice gives the same bytes.
 * 2. The kernel holds exports that a client has not received. So a client that leaves CONN_FDS_SENT
 *    of them unread gets "limit" for the next one.
 */
#include "daemon/closer.h"
#include "daemon/methods-private.h"
#include <fcntl.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static size_t exports_in_flight(const struct peer *p) {
        size_t n = 0;
        struct list *it;

        list_for_each (it, &p->in_flight.requests)
                n += list_entry(it, struct request, link)->verb == ENGINE_EXPORT;
        return n;
}

int method_export(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        if (!conn_can_send_fd(&p->conn, exports_in_flight(p) + 1))
                return err_set(e, ERR_LIMIT, "%d exports were not received yet", CONN_FDS_SENT);
        out->without_memory = in->export->without_memory;
        return methods_take_ref(in->export->conversation, out, e);
}

int method_import(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        int fd = conn_take_fd(&p->conn), seals;

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
        out->name = in->import->name && *in->import->name ? in->import->name : NULL;
        return 0;
}

void methods_send_exported(struct request *r, struct engine_event *in) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Exported m = CONFAB__V1__EXPORTED__INIT;
        int fd = TAKE_FD(in->exported.fd);
        struct err e;

        m.has_size = m.has_n_memory_tokens = true;
        m.size = in->exported.size;
        m.n_memory_tokens = in->exported.n_memory_tokens;
        ev.has_request = true;
        ev.request = r->id;
        ev.kind_case = CONFAB__V1__EVENT__KIND_EXPORTED;
        ev.exported = &m;
        if (conn_send_fd(&r->peer->conn, &ev.base, r->peer->max_event, fd, &e) < 0)
                conn_fail(&r->peer->conn, &e);
}
