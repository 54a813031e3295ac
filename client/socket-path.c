/* SPDX-License-Identifier: MIT */
#include "client/socket-path.h"
#include "base/cleanup.h"
#include <string.h>

#define SYSTEM_SOCKET "/run/confab/confab.sock"
#define USER_SOCKET "confab/confab.sock" /* in $XDG_RUNTIME_DIR */

char *socket_path_find(void) {
        const char *env = getenv("CONFAB_SOCKET"), *dir = getenv("XDG_RUNTIME_DIR");
        char *path = NULL;
        int r;

        if (env && *env)
                return strdup(env);
        if (dir && *dir == '/')
                r = asprintf(&path, "%s/%s", dir, USER_SOCKET);
        else
                r = asprintf(&path, "/run/user/%u/%s", (unsigned)getuid(), USER_SOCKET);
        if (r < 0)
                return NULL;
        if (access(path, F_OK) < 0 && access(SYSTEM_SOCKET, F_OK) == 0) {
                free(path);
                return strdup(SYSTEM_SOCKET);
        }
        return path;
}
