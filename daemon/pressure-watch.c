/* SPDX-License-Identifier: MIT */
/*
 * libevent knows no POLLPRI, which is how a trigger speaks. So the file is put into an epoll set of
 * our own, and that is watched for being readable. The kernel's test of a trigger also resets it,
 * and libevent's wait on the set is such a test: that the set was readable is the event, and what
 * epoll_wait() then says tells only whether the file is gone.
 */
#include "daemon/pressure-watch.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/util.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define SYSTEM_FILE "/proc/pressure/memory"
/* What a service manager may want to be written: far more than a trigger's text. */
#define PAYLOAD_MAX 4096

struct pressure_watch {
        int fd, epoll_fd;
        struct event *event, *timer;
        uint64_t total; /* of the file, when it was read last */
        void (*fn)(void *arg);
        void *arg;
        struct err problem;
        char source[256];
};

const char *pressure_watch_source(const struct pressure_watch *w) {
        return w->source[0] ? w->source : NULL;
}

const struct err *pressure_watch_problem(const struct pressure_watch *w) {
        return &w->problem;
}

static void give_up(struct pressure_watch *w) {
        w->event = loop_event_free(w->event);
        LOG(LOG_WARNING, "%s is gone, memory pressure is not watched any more", w->source);
}

/* ---- events ---- */

static void on_trigger(evutil_socket_t fd, short what, void *arg) {
        struct pressure_watch *w = arg;
        struct epoll_event ev;

        if (epoll_wait(fd, &ev, 1, 0) == 1 && (ev.events & (EPOLLERR | EPOLLHUP)))
                give_up(w);
        else
                w->fn(w->arg);
}

/* A FIFO or a socket: any bytes are an event, and mean nothing else. */
static void on_bytes(evutil_socket_t fd, short what, void *arg) {
        struct pressure_watch *w = arg;
        char sink[4096];
        ssize_t n = read(fd, sink, sizeof(sink));

        if (n > 0)
                w->fn(w->arg);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
                give_up(w);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0": the total, in usec. */
static bool read_total(int fd, uint64_t *ret) {
        unsigned long long total;
        char text[256];
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        const char *at;

        if (n <= 0)
                return false;
        text[n] = 0;
        at = strstr(text, "total=");
        if (strncmp(text, "some ", 5) != 0 || !at || sscanf(at, "total=%llu", &total) != 1)
                return false;
        *ret = total;
        return true;
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
        struct pressure_watch *w = arg;
        uint64_t before = w->total;

        if (read_total(w->fd, &w->total) && w->total - before >= PRESSURE_STALL_USEC)
                w->fn(w->arg);
}

/* ---- sources ---- */

static int watch_fd(struct pressure_watch *w, struct event_base *base, int fd,
        void (*fn)(evutil_socket_t, short, void *), struct err *e) {
        w->event = loop_event_new(base, fd, EV_READ | EV_PERSIST, fn, w);
        if (!w->event || event_add(w->event, NULL) < 0) {
                w->event = loop_event_free(w->event);
                return err_set(e, ERR_NOMEM, "no memory to watch for memory pressure");
        }
        return 0;
}

/* w->fd is a file of triggers, and what it is to be told has been written. */
static int watch_trigger(struct pressure_watch *w, struct event_base *base, struct err *e) {
        struct epoll_event ev = {.events = EPOLLPRI};

        w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (w->epoll_fd < 0)
                return err_set(e, ERR_SYS, "cannot make an epoll set");
        if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->fd, &ev) < 0)
                return err_set(e, ERR_SYS, "it tells no events");
        return watch_fd(w, base, w->epoll_fd, on_trigger, e);
}

static int write_payload(int fd, const void *data, size_t n, struct err *e) {
        if (n == 0)
                return 0;
        /* One call: a trigger is what one write says. */
        if (write(fd, data, n) != (ssize_t)n)
                return err_set(e, ERR_SYS, "cannot write to it");
        return 0;
}

static void reset(struct pressure_watch *w) {
        w->event = loop_event_free(w->event);
        w->timer = loop_event_free(w->timer);
        if (w->epoll_fd >= 0)
                close(w->epoll_fd);
        if (w->fd >= 0)
                close(w->fd);
        w->fd = w->epoll_fd = -1;
        w->source[0] = 0;
}

static int set_trigger(
        struct pressure_watch *w, struct event_base *base, const char *path, struct err *e) {
        char text[64];
        int r, n;

        reset(w);
        w->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        if (w->fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        n = snprintf(text, sizeof(text), "some %d %d", PRESSURE_STALL_USEC, PRESSURE_WINDOW_USEC);
        r = write_payload(w->fd, text, (size_t)n + 1, e);
        if (r == 0)
                r = watch_trigger(w, base, e);
        if (r == 0)
                snprintf(w->source, sizeof(w->source), "a trigger on %s", path);
        return r;
}

static int set_reading(
        struct pressure_watch *w, struct event_base *base, const char *path, struct err *e) {
        static const struct timeval t = {.tv_sec = PRESSURE_WINDOW_USEC / 1000000};

        reset(w);
        w->fd = open(path, O_RDONLY | O_CLOEXEC);
        if (w->fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        if (!read_total(w->fd, &w->total))
                return err_set(e, ERR_FORMAT, "'%s' has no total", path);
        w->timer = loop_event_new(base, -1, EV_PERSIST, on_timer, w);
        if (!w->timer || event_add(w->timer, &t) < 0)
                return err_set(e, ERR_NOMEM, "no memory to watch for memory pressure");
        snprintf(w->source, sizeof(w->source), "reading %s", path);
        return 0;
}

/* The memory.pressure file of our cgroup: false if there is none. */
static bool cgroup_file(char *ret, size_t size) {
        static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
        _cleanup_(fclosep) FILE *f = fopen("/proc/self/cgroup", "re");
        char line[2048];

        while (f && fgets(line, sizeof(line), f)) {
                if (strncmp(line, "0::/", 4) != 0)
                        continue;
                line[strcspn(line, "\n")] = 0;
                for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
                        snprintf(ret, size, "%s%s/memory.pressure", roots[i],
                                line[4] ? line + 3 : "");
                        if (access(ret, R_OK) == 0)
                                return true;
                }
        }
        return false;
}

/* ---- the service manager's ---- */

/* Base64 (RFC 4648) of @s: bytes written, or -1. */
static ssize_t decode_base64(const char *s, uint8_t *out, size_t max) {
        static const char digits[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        uint32_t bits = 0;
        unsigned n_bits = 0;
        size_t n = 0;

        for (; *s && *s != '='; s++) {
                const char *d = strchr(digits, *s);

                if (!d)
                        return -1;
                bits = bits << 6 | (uint32_t)(d - digits);
                n_bits += 6;
                if (n_bits < 8)
                        continue;
                n_bits -= 8;
                if (n == max)
                        return -1;
                out[n++] = (uint8_t)(bits >> n_bits);
        }
        return s[strspn(s, "=")] || n_bits == 6 ? -1 : (ssize_t)n;
}

static int connect_to(const char *path, struct err *e) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        _cleanup_(closep) int fd = -1;

        if (strlen(path) >= sizeof(a.sun_path))
                return err_set(e, ERR_INVALID, "path too long");
        memcpy(a.sun_path, path, strlen(path) + 1);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
                return err_set(e, ERR_SYS, "cannot connect to it");
        return TAKE_FD(fd);
}

static int set_manager(
        struct pressure_watch *w, struct event_base *base, const char *path, struct err *e) {
        const char *text = getenv("MEMORY_PRESSURE_WRITE");
        uint8_t payload[PAYLOAD_MAX];
        ssize_t n = text ? decode_base64(text, payload, sizeof(payload)) : 0;
        struct stat st;
        int r;

        reset(w);
        if (n < 0)
                return err_set(e, ERR_INVALID, "MEMORY_PRESSURE_WRITE is no Base64");
        if (stat(path, &st) < 0)
                return err_set(e, ERR_SYS, "cannot look at it");
        if (S_ISSOCK(st.st_mode))
                w->fd = connect_to(path, e);
        else if (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode))
                w->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        else
                return err_set(e, ERR_INVALID, "neither file, FIFO nor socket");
        if (w->fd < 0)
                return S_ISSOCK(st.st_mode) ? w->fd : err_set(e, ERR_SYS, "cannot open it");
        r = write_payload(w->fd, payload, (size_t)n, e);
        if (r == 0)
                r = S_ISREG(st.st_mode) ? watch_trigger(w, base, e)
                                        : watch_fd(w, base, w->fd, on_bytes, e);
        if (r == 0)
                snprintf(w->source, sizeof(w->source), "the service manager's %s", path);
        return r;
}

/* ---- all together ---- */

static void find_source(struct pressure_watch *w, struct event_base *base) {
        const char *path = getenv("MEMORY_PRESSURE_WATCH");
        char cgroup[2304];
        bool own;

        if (path && strcmp(path, "/dev/null") == 0)
                return;
        if (path && *path) {
                if (set_manager(w, base, path, &w->problem) == 0) {
                        w->problem = (struct err){0};
                        return;
                }
                (void)err_wrap(
                        &w->problem, -(int)w->problem.code, "MEMORY_PRESSURE_WATCH=%s", path);
        }
        own = cgroup_file(cgroup, sizeof(cgroup));
        if ((own && set_trigger(w, base, cgroup, NULL) == 0) ||
                set_trigger(w, base, SYSTEM_FILE, NULL) == 0 ||
                (own && set_reading(w, base, cgroup, NULL) == 0) ||
                set_reading(w, base, SYSTEM_FILE, NULL) == 0)
                return;
        reset(w);
}

int pressure_watch_new(struct pressure_watch **ret, struct event_base *base, void (*fn)(void *arg),
        void *arg, struct err *e) {
        struct pressure_watch *w = calloc(1, sizeof(*w));

        if (!w)
                return err_set(e, ERR_NOMEM, "no memory to watch for memory pressure");
        *w = (struct pressure_watch){.fd = -1, .epoll_fd = -1, .fn = fn, .arg = arg};
        find_source(w, base);
        *ret = w;
        return 0;
}

struct pressure_watch *pressure_watch_free(struct pressure_watch *w) {
        if (w) {
                reset(w);
                free(w);
        }
        return NULL;
}
