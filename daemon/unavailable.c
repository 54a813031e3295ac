/* SPDX-License-Identifier: MIT */
#include "daemon/unavailable.h"
#include "base/util.h"
#include "daemon/daemon.h"
#include "service/log.h"
#include "service/notify.h"
#include "daemon/peer.h"
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

void unavailable_prepare(struct unavailable *u) {
        int n = sd_listen_fds(0);

        *u = UNAVAILABLE_NULL;
        for (int i = 0; i < n && u->n < ARRAY_SIZE(u->fds); i++) {
                int fd = fcntl(SD_LISTEN_FDS_START + i, F_DUPFD_CLOEXEC, SD_LISTEN_FDS_START + n);

                if (fd >= 0)
                        u->fds[u->n++] = fd;
        }
}

void unavailable_deinit(struct unavailable *u) {
        for (unsigned i = 0; i < u->n; i++)
                close(u->fds[i]);
        *u = UNAVAILABLE_NULL;
}

/* The descriptors change hands. */
static void take_sockets(struct unavailable *u, struct listeners *l) {
        for (unsigned i = 0; i < u->n; i++) {
                if (l->n < LISTENERS_MAX &&
                        sd_is_socket_unix(u->fds[i], SOCK_STREAM, 1, NULL, 0) > 0 &&
                        evutil_make_socket_nonblocking(u->fds[i]) == 0)
                        l->fds[l->n++] = u->fds[i];
                else
                        close(u->fds[i]);
        }
        *u = UNAVAILABLE_NULL;
}

/* A daemon without an engine, whose peers are all refused. */
static int refuse_all(struct daemon *d, struct err *e) {
        static const struct timeval moment = {.tv_sec = UNAVAILABLE_USEC / 1000000};
        int r;

        d->base = event_base_new();
        if (!d->base)
                return err_set(e, ERR_NOMEM, "no memory for an event loop");
        r = users_init(&d->users, e);
        if (r == 0)
                r = requests_init(&d->requests, e);
        if (r == 0)
                daemon_take_limits(d);
        if (r == 0)
                r = listeners_start(&d->listeners, d->base, peer_accept, d, e);
        if (r < 0)
                return r;
        if (event_base_loopexit(d->base, &moment) < 0 || event_base_loop(d->base, 0) < 0)
                return err_set(e, ERR_NOMEM, "no memory to wait for connections");
        return 0;
}

void unavailable_serve(struct unavailable *u, const struct err *why) {
        _cleanup_(settings_deinit) struct settings settings = SETTINGS_NULL;
        _cleanup_(daemon_freep) struct daemon *d = NULL;
        struct err e, refusal;

        if (u->n == 0)
                return;
        notify_status("cannot start: %s", why->msg);
        err_set(&refusal, ERR_UNAVAILABLE, "confabd cannot start: %s", why->msg);
        d = calloc(1, sizeof(*d));
        if (!d || settings_init(&settings, &e) < 0)
                return;
        d->settings = &settings;
        d->refusal = &refusal;
        d->admin_gid = UINT32_MAX;
        list_init(&d->peers);
        list_init(&d->streams);
        take_sockets(u, &d->listeners);
        if (refuse_all(d, &e) < 0)
                LOG_ERROR(LOGGED_SHORT_OF_RESOURCES, &e, "clients cannot be told");
}
