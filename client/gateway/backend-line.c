/* SPDX-License-Identifier: MIT */
/*
 * Lines: libconfab connections in the event loop.
 *
 *      line_get() ──→ in use ──line_put()──→ idle ──line_get()──→ in use
 *                       │ broken, or with      │ after 30 s, or when the
 *                       │ requests in flight   │ daemon hangs up
 *                       └────────→ closed ←────┘
 *
 * 1. libconfab must not be freed while it calls back, so a line that is put within a callback is only marked, and
 *    becomes idle (`returned`) or is closed (`doomed`) when libconfab has returned: only then it is known whether the
 *    connection still lives. Such a line calls nobody but itself (on_model()).
 * 2. A line asks for the model first (line_ask()), so that a daemon which was restarted with another model is noticed
 *    with its first request; but not while another connection lives that was told the model, since that one would have
 *    broken. (The daemon counts the question as a request of the user: a hundred connections at once would use up the
 *    user's limit.) Whether a connection lives is asked of its socket, since nothing is read from a paused one.
 *    While another line's question is in flight, the new line is held: it calls nobody before the answer is there. If
 *    that question ends without an answer, one of the lines that are held asks in its place (pass_question()), but
 *    behind its own requests: only then, or where the daemon refuses the question, a line tells something before
 *    the model is known. The question is the line's own and counts as no request in flight here.
 * 3. A socket is connected without waiting, since one thread serves everybody: a daemon whose queue of connections is
 *    full is not available now.
 * 4. When a connection breaks, the idle lines to the same daemon are closed, so that the next request gets a new
 *    connection and not another broken one.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "client/gateway/backend-private.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct line {
        struct list link; /* of the backend's lines */
        struct backend *backend;
        struct gateway_owner owner;
        struct confab *confab;
        /* `in` and `out`: the socket; `wake`: something is to be done although the socket is not ready; `idle`: it
         * was idle for too long. */
        struct event in, out, wake, idle;
        bool in_use;     /* between line_get() and line_put() */
        bool processing; /* libconfab is at work */
        bool doomed;     /* to be closed as soon as it is not */
        bool returned;   /* to be idle as soon as it is not */
        bool broken;     /* the connection is over */
        bool told;       /* the daemon has told this line its model */
        bool paused;     /* by its owner */
        bool waits;      /* for the answer to another line's question */
        bool gone; /* a callback was told that the daemon has gone; `broken` comes behind it */
        struct list requests;            /* struct line_request, in flight */
        struct list question;            /* the same, the line's own */
        void (*drained)(void *userdata); /* or NULL */
        void *drained_userdata;
        struct meter_watch watch;
};

/* A request in flight. */
struct line_request {
        struct list link;
        struct line *line;
        confab_event_fn fn;
        void *userdata;
        bool is_metered;
};

static void free_requests(struct list *requests) {
        while (!list_empty(requests)) {
                struct line_request *request =
                        list_entry(requests->next, struct line_request, link);

                list_unlink(&request->link);
                free(request);
        }
}

static void pass_question(struct backend *backend);

static void line_close(struct line *line) {
        struct backend *backend = line->backend;
        struct backends *backends = backend->backends;
        bool asks;

        if (line->processing) {
                line->doomed = true;
                return;
        }
        list_unlink(&line->link);
        backends->figures.n_lines--;
        backends->figures.n_idle -= !line->in_use;
        event_del(&line->in);
        event_del(&line->out);
        event_del(&line->wake);
        event_del(&line->idle);
        confab_free(line->confab);
        asks = !list_empty(&line->question);
        free_requests(&line->requests);
        free_requests(&line->question);
        free(line);
        if (asks)
                pass_question(backend);
}

static bool same_owner(const struct gateway_owner *a, const struct gateway_owner *b) {
        return a->uid == b->uid && strcmp(a->tenant, b->tenant) == 0;
}

/* An idle line of @owner; *ret_n: how many there are. */
static struct line *find_idle(
        struct backend *backend, const struct gateway_owner *owner, size_t *ret_n) {
        struct line *found = NULL;
        struct list *it;

        *ret_n = 0;
        list_for_each (it, &backend->lines) {
                struct line *line = list_entry(it, struct line, link);

                if (line->in_use || !same_owner(&line->owner, owner))
                        continue;
                found = line;
                (*ret_n)++;
        }
        return found;
}

/* Nobody uses the line: it waits for the next one, or is closed. */
static void line_rest(struct line *line) {
        static const struct timeval idle = {.tv_sec = LINE_IDLE_SECONDS};
        struct backend_figures *figures = &line->backend->backends->figures;
        size_t n;

        line->returned = false;
        find_idle(line->backend, &line->owner, &n);
        if (line->broken || n >= LINES_IDLE_PER_OWNER || figures->n_idle >= LINES_IDLE_MAX ||
                event_add(&line->idle, &idle) < 0) {
                line_close(line);
                return;
        }
        line->in_use = false;
        figures->n_idle++;
}

/* Whether libconfab calls back: not while the line is paused, or waits. */
static void line_hold(struct line *line) {
        bool held = line->paused || line->waits;

        confab_hold(line->confab, held);
        if (held)
                event_del(&line->in);
        else
                event_active(&line->wake, EV_TIMEOUT, 0);
}

/* ---- the event loop ---- */

/* The loop has no memory to wait for the socket: everybody who waits for the line hears that it broke. */
static void line_break(struct line *line) {
        struct confab_error e = {.code = CONFAB_NO_MEMORY,
                .message = "no memory to wait for the daemon",
                .retry = true};

        while (!line->doomed && !line->returned && !list_empty(&line->requests)) {
                struct line_request *request =
                        list_entry(line->requests.next, struct line_request, link);
                struct confab_event event = {
                        .kind = CONFAB_EVENT_ERROR, .final = true, .error = &e};

                list_unlink(&request->link);
                if (request->fn)
                        request->fn(request->userdata, &event);
                free(request);
        }
}

/* Wait for what libconfab waits for. -1: no memory. */
static int line_watch(struct line *line) {
        int events = confab_get_events(line->confab), r = 0;

        if (events & POLLIN)
                r = event_add(&line->in, NULL);
        else
                event_del(&line->in);
        if (r == 0 && events & POLLOUT)
                r = event_add(&line->out, NULL);
        return r;
}

/* The last thing that is done with the line in a turn, for it may be put. */
static void tell_drained(struct line *line) {
        if (line->drained && confab_get_server(line->confab) &&
                !(confab_get_events(line->confab) & POLLOUT))
                line->drained(line->drained_userdata);
}

static void line_process(struct line *line) {
        struct backend *backend = line->backend;
        bool was_broken = line->broken, breaks;

        line->processing = true;
        line->broken = confab_process(line->confab, NULL) < 0 || line->broken;
        if (!line->broken && !line->doomed && line_watch(line) < 0) {
                line->broken = true;
                line_break(line);
        }
        line->processing = false;
        breaks = line->broken && !was_broken;
        if (line->broken) {
                event_del(&line->in);
                event_del(&line->out);
        }
        if (line->doomed || (line->broken && !line->in_use))
                line_close(line);
        else if (line->returned)
                line_rest(line);
        else if (!line->broken)
                tell_drained(line);
        if (breaks)
                backend_drop_idle(backend); /* invariant 4 */
}

static void on_ready(evutil_socket_t fd, short what, void *userdata) {
        (void)fd;
        (void)what;
        line_process(userdata);
}

static void on_idle(evutil_socket_t fd, short what, void *userdata) {
        (void)fd;
        (void)what;
        line_close(userdata);
}

/* ---- connecting ---- */

static int connect_error(const char *path, int error, struct err *e) {
        return err_set(e, ERR_UNAVAILABLE, "no daemon answers on %s: %s", path,
                error == EAGAIN ? "too many connections wait" : strerrordesc_np(error));
}

/* A socket that is connected to @path (invariant 3). */
static int connect_now(int *ret, const char *path, struct err *e) {
        struct sockaddr_un addr = {.sun_family = AF_UNIX};
        _cleanup_(closep) int fd = -1;
        size_t n = strlen(path);

        if (n == 0 || n >= sizeof(addr.sun_path))
                return err_set(e, ERR_UNAVAILABLE,
                        "the path of the daemon's socket has %zu bytes: %s", n, path);
        memcpy(addr.sun_path, path, n + 1);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_set(e, ERR_LIMIT, "cannot make a socket: %s", strerrordesc_np(errno));
        if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
                return connect_error(path, errno, e);
        *ret = TAKE_FD(fd);
        return 0;
}

static int err_from(struct err *e, const struct confab_error *from) {
        enum err_code code = confab_error_is(from, CONFAB_INVALID)     ? ERR_INVALID
                             : confab_error_is(from, CONFAB_NO_MEMORY) ? ERR_NOMEM
                                                                       : ERR_UNAVAILABLE;

        return err_set(e, code, "%s", from->message);
}

static int connect_for(
        struct confab **ret, const char *path, const struct gateway_owner *owner, struct err *e) {
        bool is_other = owner->uid != (uint32_t)geteuid();
        struct confab_error error;
        struct confab *confab;
        int fd = -1, r = connect_now(&fd, path, e);

        if (r < 0)
                return r;
        if (confab_new_from_fd(&confab, fd, &error) < 0)
                return err_from(e, &error);
        if ((is_other || owner->tenant[0]) &&
                confab_act_for(confab, is_other ? owner->uid : CONFAB_OWN_UID,
                        owner->tenant[0] ? owner->tenant : NULL, &error) < 0) {
                confab_free(confab);
                return err_from(e, &error);
        }
        *ret = confab;
        return 0;
}

/* ---- the line's own question ---- */

static bool is_gone(const struct confab_error *e) {
        return confab_error_is(e, CONFAB_NO_DAEMON) || confab_error_is(e, CONFAB_DISCONNECTED) ||
               confab_error_is(e, CONFAB_UNAVAILABLE) || confab_error_is(e, CONFAB_SHUTDOWN);
}

/* True: the line waited for an answer, and does not any more. */
static bool line_release(struct line *line) {
        if (!line->waits)
                return false;
        line->waits = false;
        line_hold(line);
        return true;
}

/* The model is known. */
static void release_all(struct backend *backend) {
        struct list *it;

        list_for_each (it, &backend->lines)
                line_release(list_entry(it, struct line, link));
}

/* The answer to the line's own question. */
static void on_model(void *userdata, const struct confab_event *event) {
        struct line *line = userdata;

        line->told = event->kind == CONFAB_EVENT_MODEL_INFO;
        if (line->told) {
                if (confab_get_machine(line->confab))
                        line->backend->backends->shares = true;
                backend_learn(line->backend, event->model_info);
                release_all(line->backend);
                return;
        }
        if (event->kind == CONFAB_EVENT_ERROR && is_gone(event->error))
                backend_set_reachable(line->backend, false, event->error->message);
        pass_question(line->backend);
}

static void on_event(void *userdata, const struct confab_event *event) {
        struct line_request *request = userdata;
        struct line *line = request->line;
        confab_event_fn fn = request->fn;
        void *fn_data = request->userdata;

        if (request->is_metered)
                meter_see(&line->backend->meter, &line->watch, event);
        /* The callback may take another line at once. */
        line->gone = line->gone || (event->kind == CONFAB_EVENT_ERROR && is_gone(event->error));
        if (event->final) {
                list_unlink(&request->link);
                free(request);
        }
        if (fn && (fn == on_model || (!line->doomed && !line->returned)))
                fn(fn_data, event);
}

static int submit(struct line *line, struct list *list, const struct confab_request *request,
        confab_event_fn fn, void *userdata, uint64_t *ret_id, struct confab_error *e) {
        struct line_request *own = calloc(1, sizeof(*own));
        struct confab_error unused;

        if (!own) {
                *(e ? e : &unused) = (struct confab_error){.code = CONFAB_NO_MEMORY,
                        .message = "no memory for a request",
                        .retry = true};
                return -1;
        }
        *own = (struct line_request){.line = line,
                .fn = fn,
                .userdata = userdata,
                .is_metered = request->verb == CONFAB_CONTINUE};
        if (confab_submit(line->confab, request, on_event, own, ret_id, e) < 0) {
                free(own);
                return -1;
        }
        list_append(list, &own->link);
        event_active(&line->wake, EV_TIMEOUT, 0);
        return 0;
}

/* Whether the daemon at the other end is still there: a paused line would not notice. */
static bool lives(const struct line *line) {
        struct pollfd fd = {.fd = confab_get_fd(line->confab), .events = POLLRDHUP};

        return !line->broken && !line->gone && !line->doomed && poll(&fd, 1, 0) == 0;
}

/* Ask for the model, or wait for the answer to another line's question, or neither (invariant 2). */
static int line_ask(struct line *line) {
        const struct confab_request question = {
                .size = sizeof(question), .verb = CONFAB_MODEL_INFO};
        bool is_asked = false;
        struct list *it;

        list_for_each (it, &line->backend->lines) {
                const struct line *other = list_entry(it, struct line, link);
                bool is_told = other->told && line->backend->model.reachable;
                bool asks = !list_empty(&other->question) && !other->paused;

                if (!(is_told || asks) || !lives(other))
                        continue;
                if (!asks)
                        return 0;
                is_asked = true;
        }
        if (!list_empty(&line->question))
                return 0;
        line->waits = is_asked;
        line_hold(line);
        return is_asked ? 0 : submit(line, &line->question, &question, on_model, line, NULL, NULL);
}

/* A question has ended without an answer. */
static void pass_question(struct backend *backend) {
        struct list *it;

        list_for_each (it, &backend->lines) {
                struct line *line = list_entry(it, struct line, link);

                if (line_release(line) && lives(line) && line_ask(line) == 0 &&
                        (line->waits || !list_empty(&line->question)))
                        return;
        }
}

/* ---- lines ---- */

static int line_new(struct line **ret, struct backend *backend, const struct gateway_owner *owner,
        struct err *e) {
        struct event_base *base = backend->backends->base;
        struct line *line = calloc(1, sizeof(*line));
        int r;

        if (!line)
                return err_set(e, ERR_NOMEM, "no memory for a connection");
        r = connect_for(&line->confab, backend->socket, owner, e);
        if (r < 0) {
                free(line);
                return r;
        }
        line->backend = backend;
        line->owner = *owner;
        line->in_use = true;
        line->watch.since_usec = clock_monotonic_usec();
        list_init(&line->requests);
        list_init(&line->question);
        event_assign(
                &line->in, base, confab_get_fd(line->confab), EV_READ | EV_PERSIST, on_ready, line);
        event_assign(&line->out, base, confab_get_fd(line->confab), EV_WRITE, on_ready, line);
        event_assign(&line->wake, base, -1, 0, on_ready, line);
        event_assign(&line->idle, base, -1, 0, on_idle, line);
        list_append(&backend->lines, &line->link);
        backend->backends->figures.n_lines++;
        if (event_add(&line->in, NULL) < 0 || line_ask(line) < 0) {
                line_close(line);
                return err_set(e, ERR_NOMEM, "no memory for a connection");
        }
        event_active(
                &line->wake, EV_TIMEOUT, 0); /* the greeting is on its way, whoever asks what */
        *ret = line;
        return 0;
}

int line_get(struct line **ret, struct backend *backend, const struct gateway_owner *owner,
        struct err *e) {
        struct backend_figures *figures = &backend->backends->figures;
        size_t n;
        struct line *line = find_idle(backend, owner, &n);
        struct err why;
        int r;

        if (line) {
                line->in_use = true;
                figures->n_idle--;
                event_del(&line->idle);
                line->watch = (struct meter_watch){.since_usec = clock_monotonic_usec()};
                if (line_ask(line) < 0) {
                        line_close(line);
                        return err_set(e, ERR_NOMEM, "no memory for a request");
                }
                *ret = line;
                return 0;
        }
        if (figures->n_lines - figures->n_idle >= LINES_MAX)
                return err_set(e, ERR_LIMIT, "%d requests are under way", LINES_MAX);
        r = line_new(&line, backend, owner, &why);
        if (r < 0) {
                figures->n_failed++;
                if (r == -ERR_UNAVAILABLE)
                        backend_set_reachable(backend, false, why.msg);
                if (e)
                        *e = why;
                return r;
        }
        figures->n_connects++;
        *ret = line;
        return 0;
}

int line_submit(struct line *line, const struct confab_request *request, confab_event_fn fn,
        void *userdata, uint64_t *ret_id, struct confab_error *e) {
        return submit(line, &line->requests, request, fn, userdata, ret_id, e);
}

int line_cancel(struct line *line, uint64_t id) {
        int r = confab_cancel(line->confab, id, NULL);

        event_active(&line->wake, EV_TIMEOUT, 0);
        return r;
}

int line_send_chunk(struct line *line, uint64_t id, const void *data, size_t size, bool last,
        struct confab_error *e) {
        int r = confab_send_chunk(line->confab, id, data, size, last, e);

        event_active(&line->wake, EV_TIMEOUT, 0);
        return r;
}

void line_set_drained(struct line *line, void (*fn)(void *userdata), void *userdata) {
        line->drained = fn;
        line->drained_userdata = userdata;
        event_active(&line->wake, EV_TIMEOUT, 0);
}

void line_pause(struct line *line) {
        line->paused = true;
        line_hold(line);
        if (!list_empty(&line->question)) /* its answer would not be read */
                pass_question(line->backend);
}

void line_resume(struct line *line) {
        line->paused = false;
        line_hold(line);
}

struct line *line_put(struct line *line) {
        if (!line)
                return NULL;
        line->paused = false;
        line_hold(line);
        line->drained = NULL;
        event_active(&line->wake, EV_TIMEOUT, 0);
        if (!list_empty(&line->requests))
                line_close(line);
        else if (line->processing)
                line->returned = true;
        else
                line_rest(line);
        return NULL;
}

/* ---- of a backend ---- */

void backend_drop_idle(struct backend *backend) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &backend->lines) {
                struct line *line = list_entry(it, struct line, link);

                if (!line->in_use)
                        line_close(line);
        }
}

void backend_drop_all(struct backend *backend) {
        while (!list_empty(&backend->lines))
                line_close(list_entry(backend->lines.next, struct line, link));
}
