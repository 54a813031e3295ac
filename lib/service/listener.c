/* SPDX-License-Identifier: MIT */
#include "service/listener.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/util.h"
#include "service/log.h"
#include "service/loop.h"
#include <errno.h>
#include <event2/event.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#define BACKLOG 4096
/* Connections accepted before other events of the loop have their turn. */
#define ACCEPTS_PER_EVENT 16
#define PAUSE_USEC 100000

static int make_address(struct sockaddr_un *a, const char *path, struct err *e) {
        size_t n = strlen(path);

        if (n == 0 || n >= sizeof(a->sun_path))
                return err_set(e, ERR_INVALID, "path of the socket must have 1 to %zu bytes: '%s'",
                        sizeof(a->sun_path) - 1, path);
        *a = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(a->sun_path, path, n + 1);
        return 0;
}

/* Remove a stale socket at @path: 0 if the path is free now. */
static int remove_stale(const char *path, const struct sockaddr_un *a, struct err *e) {
        _cleanup_(closep) int fd = -1;
        struct stat st;

        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : err_set(e, ERR_SYS, "cannot look at '%s'", path);
        if (!S_ISSOCK(st.st_mode))
                return err_set(e, ERR_EXISTS, "'%s' is there and is not a socket", path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot make a socket");
        /* Connected, or the queue is full, or permission is denied: a process listens. */
        if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno != ECONNREFUSED)
                return err_set(e, ERR_BUSY, "another daemon listens on '%s'", path);
        if (unlink(path) < 0 && errno != ENOENT)
                return err_set(e, ERR_SYS, "cannot remove the stale socket '%s'", path);
        return 0;
}

static int find_group(const char *name, gid_t *ret, struct err *e) {
        struct group *g;

        errno = 0;
        g = getgrnam(name);
        if (!g)
                return err_set(e, ERR_INVALID, "unknown group '%s'", name);
        *ret = g->gr_gid;
        return 0;
}

/* Make the socket's folder, like $XDG_RUNTIME_DIR/confab of a user's own daemon; the folders above
 * it must exist. */
static int make_folder(const char *path, struct err *e) {
        _cleanup_(freep) char *folder = strdup(path);
        char *slash = folder ? strrchr(folder, '/') : NULL;

        if (!folder)
                return err_set(e, ERR_NOMEM, "no memory for a path");
        if (!slash || slash == folder)
                return 0;
        *slash = 0;
        if (mkdir(folder, 0755) < 0 && errno != EEXIST)
                return err_set(e, ERR_SYS, "cannot make the folder of the socket '%s'", path);
        return 0;
}

static int bind_path(int fd, const char *path, mode_t mode, const char *group, struct err *e) {
        struct sockaddr_un a;
        gid_t gid = 0;
        mode_t old;
        int r;

        r = make_address(&a, path, e);
        if (r < 0)
                return r;
        if (group) {
                r = find_group(group, &gid, e);
                if (r < 0)
                        return r;
        }
        r = make_folder(path, e);
        if (r == 0)
                r = remove_stale(path, &a, e);
        if (r < 0)
                return r;
        /* No client can connect before listen(), so none sees another mode or group. */
        old = umask(0177);
        r = bind(fd, (const struct sockaddr *)&a, sizeof(a));
        umask(old);
        if (r < 0)
                return err_set(e, ERR_SYS, "cannot make the socket '%s'", path);
        r = 0;
        if (group && chown(path, (uid_t)-1, gid) < 0)
                r = err_set(e, ERR_SYS, "cannot give '%s' to group %s", path, group);
        else if (chmod(path, mode) < 0)
                r = err_set(e, ERR_SYS, "cannot set the mode of '%s'", path);
        else if (listen(fd, BACKLOG) < 0)
                r = err_set(e, ERR_SYS, "cannot listen on '%s'", path);
        if (r < 0)
                unlink(path);
        return r;
}

int listeners_add_path(
        struct listeners *l, const char *path, mode_t mode, const char *group, struct err *e) {
        _cleanup_(freep) char *copy = strdup(path);
        _cleanup_(closep) int fd = -1;
        struct stat st;
        int r;

        if (l->n == LISTENERS_MAX)
                return err_set(e, ERR_LIMIT, "more than %d sockets to listen on", LISTENERS_MAX);
        if (!copy)
                return err_set(e, ERR_NOMEM, "no memory for a path");
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_set(e, ERR_SYS, "cannot make a socket");
        r = bind_path(fd, path, mode, group, e);
        if (r < 0)
                return r;
        if (lstat(path, &st) < 0)
                return err_set(e, ERR_SYS, "cannot look at '%s'", path);
        l->dev = st.st_dev;
        l->ino = st.st_ino;
        l->path = TAKE_PTR(copy);
        l->fds[l->n++] = TAKE_FD(fd);
        return 0;
}

static int take_one(struct listeners *l, int fd, bool tcp, struct err *e) {
        bool is_unix = sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) > 0;

        if (!is_unix && (!tcp || (sd_is_socket_inet(fd, AF_UNSPEC, SOCK_STREAM, 1, 0) <= 0)))
                return err_set(e, ERR_INVALID,
                        "descriptor %d that was passed is not a listening %sstream socket", fd,
                        tcp ? "" : "Unix ");
        if (evutil_make_socket_nonblocking(fd) < 0)
                return err_set(e, ERR_SYS, "cannot prepare a passed socket");
        l->is_tcp[l->n] = !is_unix;
        l->fds[l->n++] = fd;
        return 0;
}

int listeners_take_over(struct listeners *l, bool tcp, struct err *e) {
        int n = sd_listen_fds(1), r = 0;

        if (n < 0) {
                errno = -n;
                return err_set(e, ERR_SYS, "cannot take over sockets");
        }
        if (n > LISTENERS_MAX)
                return err_set(e, ERR_LIMIT, "%d sockets were passed, at most %d are taken", n,
                        LISTENERS_MAX);
        for (int i = 0; i < n && r == 0; i++)
                r = take_one(l, SD_LISTEN_FDS_START + i, tcp, e);
        if (r < 0)
                listeners_close(l);
        return r < 0 ? r : n;
}

int listeners_open(
        struct listeners *l, const char *path, mode_t mode, const char *group, struct err *e) {
        int r;

        *l = LISTENERS_NULL;
        r = listeners_take_over(l, false, e);
        return r == 0 ? listeners_add_path(l, path, mode, group, e) : MIN(r, 0);
}

/* Out of descriptors or memory: pause. Waiting connections stay in the queue, and polling the
 * readable socket would burn CPU. */
static void pause_accepting(struct listeners *l) {
        static const struct timeval delay = {.tv_usec = PAUSE_USEC};

        if (event_add(l->pause, &delay) < 0)
                return;
        for (unsigned i = 0; i < l->n; i++)
                event_del(l->events[i]);
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg) {
        struct listeners *l = arg;

        for (unsigned i = 0; i < l->n; i++)
                if (event_add(l->events[i], NULL) < 0)
                        pause_accepting(l);
}

static void on_connection(evutil_socket_t fd, short what, void *arg) {
        struct listeners *l = arg;

        for (unsigned i = 0; i < ACCEPTS_PER_EVENT; i++) {
                int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (c >= 0) {
                        l->accepted(l->arg, c);
                        continue;
                }
                if (errno == EINTR || errno == ECONNABORTED)
                        continue;
                if (errno != EAGAIN) {
                        LOG(LOGGED_SHORT_OF_RESOURCES, "cannot accept a connection: %s",
                                strerror(errno));
                        pause_accepting(l);
                }
                return;
        }
}

int listeners_start(struct listeners *l, struct event_base *base,
        void (*accepted)(void *arg, int fd), void *arg, struct err *e) {
        l->accepted = accepted;
        l->arg = arg;
        l->pause = loop_event_new(base, -1, 0, on_pause_over, l);
        if (!l->pause)
                return err_set(e, ERR_NOMEM, "no memory to listen");
        for (unsigned i = 0; i < l->n; i++) {
                l->events[i] =
                        loop_event_new(base, l->fds[i], EV_READ | EV_PERSIST, on_connection, l);
                if (!l->events[i] || event_add(l->events[i], NULL) < 0)
                        return err_set(e, ERR_NOMEM, "no memory to listen");
        }
        return 0;
}

void listeners_close(struct listeners *l) {
        struct stat st;

        for (unsigned i = 0; i < l->n; i++) {
                loop_event_free(l->events[i]);
                close(l->fds[i]);
        }
        loop_event_free(l->pause);
        if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
                unlink(l->path);
        free(l->path);
        *l = LISTENERS_NULL;
}
