/* SPDX-License-Identifier: MIT */
#include "base/util.h"
#include "client/gateway/gateway-private.h"
#include <event2/event.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

static void on_stopped(void *userdata) {
        event_base_loopbreak(userdata);
}

static void on_signal(evutil_socket_t signum, short what, void *arg) {
        struct gateway *gateway = arg;

        http_server_stop(gateway->http, on_stopped, gateway->base);
}

static int listen_unix(const char *path) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4096) < 0)
                return -1;
        return fd;
}

int main(int argc, char **argv) {
        static const struct option options[] = {
                {"listen", 1, NULL, 'l'}, {"daemon", 1, NULL, 'd'}, {}};
        struct gateway_options o = {
                .settings = {.keepalive_usec = 15000000}, .limits = HTTP_LIMITS_DEFAULT};
        struct event_base *base = event_base_new();
        const char *path = NULL;
        struct gateway *gateway;
        struct event *event;
        struct err e;
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
                if (c == 'l')
                        path = optarg;
        signal(SIGPIPE, SIG_IGN);
        if (!path || gateway_new(&gateway, base, &o, &e) < 0 ||
                http_server_listen(gateway->http, listen_unix(path), false, &e) < 0)
                return 1;
        event = evsignal_new(base, SIGTERM, on_signal, gateway);
        event_add(event, NULL);
        sd_notify(0, "READY=1");
        event_base_dispatch(base);
        event_free(event);
        gateway_free(gateway);
        event_base_free(base);
        unlink(path);
        return 0;
}
