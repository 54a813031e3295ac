/* SPDX-License-Identifier: MIT */
#include "client/lib-internal.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int connect_error(const char *path, int error, struct confab_error *e) {
        const char *why = strerrordesc_np(error);

        switch (error) {
        case ENOENT:
        case ENOTDIR:
        case ECONNREFUSED:
                return error_set(
                        e, CONFAB_NO_DAEMON, true, "no daemon listens on %s: %s", path, why);
        case EACCES:
        case EPERM:
                return error_set(e, CONFAB_PERMISSION, false, "no access to the daemon on %s: %s",
                        path, why);
        default:
                return error_set(
                        e, CONFAB_SYSTEM, error == EAGAIN, "cannot connect to %s: %s", path, why);
        }
}

int confab_connect(struct confab **ret, const char *path, struct confab_error *e) {
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        int fd, r;

        if (strlen(path) >= sizeof(addr.sun_path))
                return error_set(
                        e, CONFAB_INVALID, false, "path of the socket is too long: %s", path);
        if (!*path)
                return error_set(e, CONFAB_INVALID, false, "path of the socket is empty");
        memcpy(addr.sun_path, path, strlen(path) + 1);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return error_set(
                        e, CONFAB_SYSTEM, true, "cannot make a socket: %s", strerrordesc_np(errno));
        do {
                r = connect(fd, (struct sockaddr *)&addr, sizeof(addr));
        } while (r < 0 && errno == EINTR);
        if (r < 0) {
                r = errno;
                close(fd);
                return connect_error(path, r, e);
        }
        return confab_new_from_fd(ret, fd, e);
}
