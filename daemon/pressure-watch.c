/* SPDX-License-Identifier: MIT */
/*
 * A trigger signals POLLPRI, which libevent does not support. So the file is put into an epoll set
 * of our own, and libevent waits for the set to be readable. The kernel's test of a trigger also
 * resets the trigger, and libevent's wait is such a test. So the readable set itself is the event;
 * the following epoll_wait() tells only whether the file is gone.
 */
#include "daemon/pressure-watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/machine.h"
#include "base/util.h"
#include "service/log.h"
#include "service/loop.h"
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
/* Most bytes that a service manager may ask us to write: far more than a trigger's text. */
#define PAYLOAD_MAX 4096
/* A trigger's event is ignored if stalls since the last report are shorter than this. */
#define NEWS_USEC (PRESSURE_STALL_USEC / 8)

struct source {
        struct pressure_watch *watch;
        enum pressure_origin origin;
        int fd, epoll_fd; /* -1: none */
        struct event *event, *timer;
        bool has_totals;
        uint64_t total; /* when the last report was made, at @since */
        uint64_t since;
        char name[256]; /* for people; empty: not there */
};

struct pressure_watch {
        struct source sources[2];
        void (*fn)(void *arg, const struct pressure_report *report);
        void *arg;
        struct err problem;
        char name[2 * sizeof(((struct source *)NULL)->name) + 8];
};

const char *pressure_watch_source(const struct pressure_watch *w) {
        return w->name[0] ? w->name : NULL;
}

const struct err *pressure_watch_problem(const struct pressure_watch *w) {
        return &w->problem;
}

static void give_up(struct source *s) {
        s->event = loop_event_free(s->event);
        LOG(LOGGED_PRESSURE_UNWATCHED, "%s is gone, memory pressure is not watched there any more",
                s->name);
}

/* ---- events ---- */

static bool read_stalls(int fd, struct machine_stalls *ret) {
        char text[512];
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

        if (n <= 0)
                return false;
        text[n] = '\0';
        return machine_parse_stalls(text, ret);
}

/* From now on only new stalls count. */
static void begin(struct source *s) {
        struct machine_stalls stalls;

        s->has_totals = read_stalls(s->fd, &stalls);
        s->total = s->has_totals ? stalls.some : 0;
        s->since = clock_monotonic_usec();
}

/* Make a report if the stalls since the last report are at least @least. */
static bool take_report(struct source *s, uint64_t least, struct pressure_report *ret) {
        struct machine_stalls stalls;
        uint64_t now = clock_monotonic_usec();

        if (!read_stalls(s->fd, &stalls) || stalls.some < s->total)
                return false;
        if (stalls.some - s->total < least)
                return false;
        *ret = (struct pressure_report){s->origin, stalls.some - s->total,
                MAX(now - s->since, (uint64_t)1), stalls.some_avg10};
        s->total = stalls.some;
        s->since = now;
        return true;
}

static void on_trigger(evutil_socket_t fd, short what, void *arg) {
        struct pressure_report report;
        struct source *s = arg;
        struct epoll_event ev;

        (void)what;
        if (epoll_wait(fd, &ev, 1, 0) == 1 && (ev.events & (EPOLLERR | EPOLLHUP)))
                give_up(s);
        else if (!s->has_totals)
                s->watch->fn(s->watch->arg, &(struct pressure_report){.origin = s->origin});
        else if (take_report(s, NEWS_USEC, &report))
                s->watch->fn(s->watch->arg, &report);
}

/* A FIFO or a socket: any bytes are an event; their content has no meaning. */
static void on_bytes(evutil_socket_t fd, short what, void *arg) {
        struct source *s = arg;
        char sink[4096];
        ssize_t n = read(fd, sink, sizeof(sink));

        (void)what;
        if (n > 0)
                s->watch->fn(s->watch->arg, &(struct pressure_report){.origin = s->origin});
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
                give_up(s);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
        struct pressure_report report;
        struct source *s = arg;

        (void)fd, (void)what;
        if (take_report(s, PRESSURE_STALL_USEC, &report))
                s->watch->fn(s->watch->arg, &report);
        else
                begin(s);
}

bool pressure_watch_look(
        struct pressure_watch *w, bool believe_system, struct pressure_report *ret) {
        bool found = false;

        for (size_t i = 0; i < ARRAY_SIZE(w->sources); i++) {
                struct source *s = &w->sources[i];
                uint64_t span = clock_monotonic_usec() - s->since;

                if (!s->has_totals)
                        continue;
                if (!found && (s->origin != PRESSURE_OF_SYSTEM || believe_system)) {
                        /* The rate of a trigger, over the time since the last look. */
                        span = MIN(span, (uint64_t)PRESSURE_WINDOW_USEC);
                        found = take_report(s,
                                MAX(span * PRESSURE_STALL_USEC / PRESSURE_WINDOW_USEC,
                                        (uint64_t)NEWS_USEC),
                                ret);
                }
                begin(s);
        }
        return found;
}

/* ---- sources ---- */

static int watch_fd(struct source *s, struct event_base *base, int fd,
        void (*fn)(evutil_socket_t, short, void *), struct err *e) {
        s->event = loop_event_new(base, fd, EV_READ | EV_PERSIST, fn, s);
        if (!s->event || event_add(s->event, NULL) < 0) {
                s->event = loop_event_free(s->event);
                return err_set(e, ERR_NOMEM, "no memory to watch for memory pressure");
        }
        return 0;
}

/* s->fd is a file with triggers, and our trigger has been written to it. */
static int watch_trigger(struct source *s, struct event_base *base, struct err *e) {
        struct epoll_event ev = {.events = EPOLLPRI};

        begin(s);
        s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (s->epoll_fd < 0)
                return err_set(e, ERR_SYS, "cannot make an epoll set");
        if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->fd, &ev) < 0)
                return err_set(e, ERR_SYS, "it tells no events");
        return watch_fd(s, base, s->epoll_fd, on_trigger, e);
}

static int write_payload(int fd, const void *data, size_t n, struct err *e) {
        if (n == 0)
                return 0;
        /* One call: a trigger is what one write says. */
        if (write(fd, data, n) != (ssize_t)n)
                return err_set(e, ERR_SYS, "cannot write to it");
        return 0;
}

static void reset(struct source *s) {
        s->event = loop_event_free(s->event);
        s->timer = loop_event_free(s->timer);
        if (s->epoll_fd >= 0)
                close(s->epoll_fd);
        if (s->fd >= 0)
                close(s->fd);
        s->fd = s->epoll_fd = -1;
        s->name[0] = 0;
        s->has_totals = false;
}

static int set_trigger(struct source *s, struct event_base *base, const char *path, struct err *e) {
        char text[64];
        int r, n;

        reset(s);
        s->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        if (s->fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        n = snprintf(text, sizeof(text), "some %d %d", PRESSURE_STALL_USEC, PRESSURE_WINDOW_USEC);
        r = write_payload(s->fd, text, (size_t)n + 1, e);
        if (r == 0)
                r = watch_trigger(s, base, e);
        if (r == 0)
                snprintf(s->name, sizeof(s->name), "a trigger on %s", path);
        return r;
}

static int set_reading(struct source *s, struct event_base *base, const char *path, struct err *e) {
        static const struct timeval t = {.tv_sec = PRESSURE_WINDOW_USEC / 1000000};

        reset(s);
        s->fd = open(path, O_RDONLY | O_CLOEXEC);
        if (s->fd < 0)
                return err_set(e, ERR_SYS, "cannot open '%s'", path);
        begin(s);
        if (!s->has_totals)
                return err_set(e, ERR_FORMAT, "'%s' has no total", path);
        s->timer = loop_event_new(base, -1, EV_PERSIST, on_timer, s);
        if (!s->timer || event_add(s->timer, &t) < 0)
                return err_set(e, ERR_NOMEM, "no memory to watch for memory pressure");
        snprintf(s->name, sizeof(s->name), "reading %s", path);
        return 0;
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

static int set_manager(struct source *s, struct event_base *base, const char *path, struct err *e) {
        const char *text = getenv("MEMORY_PRESSURE_WRITE");
        uint8_t payload[PAYLOAD_MAX];
        ssize_t n = text ? decode_base64(text, payload, sizeof(payload)) : 0;
        struct stat st;
        int r;

        reset(s);
        if (n < 0)
                return err_set(e, ERR_INVALID, "MEMORY_PRESSURE_WRITE is no Base64");
        if (stat(path, &st) < 0)
                return err_set(e, ERR_SYS, "cannot look at it");
        if (S_ISSOCK(st.st_mode))
                s->fd = connect_to(path, e);
        else if (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode))
                s->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        else
                return err_set(e, ERR_INVALID, "neither file, FIFO nor socket");
        if (s->fd < 0)
                return S_ISSOCK(st.st_mode) ? s->fd : err_set(e, ERR_SYS, "cannot open it");
        r = write_payload(s->fd, payload, (size_t)n, e);
        if (r == 0)
                r = S_ISREG(st.st_mode) ? watch_trigger(s, base, e)
                                        : watch_fd(s, base, s->fd, on_bytes, e);
        if (r == 0)
                snprintf(s->name, sizeof(s->name), "the service manager's %s", path);
        return r;
}

/* ---- all together ---- */

/* Watch with a trigger, or else by reading. */
static void watch_file(
        struct source *s, struct event_base *base, enum pressure_origin origin, const char *path) {
        s->origin = origin;
        if (set_trigger(s, base, path, NULL) < 0 && set_reading(s, base, path, NULL) < 0)
                reset(s);
}

static void find_sources(struct pressure_watch *w, struct event_base *base, const char *root) {
        const char *manager = getenv("MEMORY_PRESSURE_WATCH");
        struct source *first = &w->sources[0], *second = &w->sources[1];
        char path[2 * MACHINE_PATH_MAX];
        struct stat st;

        if (manager && strcmp(manager, "/dev/null") == 0)
                return;
        if (manager && *manager) {
                first->origin = PRESSURE_OF_MANAGER;
                if (set_manager(first, base, manager, &w->problem) == 0) {
                        w->problem = (struct err){0};
                        /* A file is that of our group. Others tell of all that there is to tell of. */
                        if (stat(manager, &st) < 0 || !S_ISREG(st.st_mode))
                                return;
                } else {
                        reset(first);
                        (void)err_wrap(&w->problem, -(int)w->problem.code,
                                "MEMORY_PRESSURE_WATCH=%s", manager);
                }
        }
        if (!first->name[0] && machine_pressure_file(root, path, sizeof(path)))
                watch_file(first, base, PRESSURE_OF_GROUP, path);
        snprintf(path, sizeof(path), "%s%s", root ? root : "", SYSTEM_FILE);
        watch_file(second, base, PRESSURE_OF_SYSTEM, path);
}

int pressure_watch_new(struct pressure_watch **ret, struct event_base *base, const char *root,
        void (*fn)(void *arg, const struct pressure_report *report), void *arg, struct err *e) {
        struct pressure_watch *w = calloc(1, sizeof(*w));
        const struct source *s;

        if (!w)
                return err_set(e, ERR_NOMEM, "no memory to watch for memory pressure");
        w->fn = fn;
        w->arg = arg;
        for (size_t i = 0; i < ARRAY_SIZE(w->sources); i++)
                w->sources[i] = (struct source){.watch = w, .fd = -1, .epoll_fd = -1};
        find_sources(w, base, root);
        s = w->sources;
        snprintf(w->name, sizeof(w->name), "%s%s%s", s[0].name,
                s[0].name[0] && s[1].name[0] ? ", " : "", s[1].name);
        *ret = w;
        return 0;
}

struct pressure_watch *pressure_watch_free(struct pressure_watch *w) {
        for (size_t i = 0; w && i < ARRAY_SIZE(w->sources); i++)
                reset(&w->sources[i]);
        free(w);
        return NULL;
}
