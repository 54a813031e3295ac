/* SPDX-License-Identifier: MIT */
/*
 * The daemons: their models, asking for them, and finding one by its model's name.
 *
 * backends_refresh() asks all daemons at once, each over a line of the gateway's own user. Whoever waits is called when
 * every daemon has answered, failed, or let BACKEND_ANSWER_SECONDS pass. Several who ask meanwhile wait for the
 * same answers.
 */
#include "base/clock.h"
#include "client/gateway/backend-private.h"
#include "service/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct waiter {
        struct list link;
        backends_ready fn;
        void *userdata;
        bool is_due;
};

/* ---- models ---- */

/* Cut to fit, at a character's beginning. */
static void copy_text(char *ret, size_t size, const char *text) {
        size_t n = strnlen(text ? text : "", size);

        if (n == size)
                for (n = size - 1; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80;)
                        n--;
        if (n > 0)
                memcpy(ret, text, n);
        ret[n] = '\0';
}

void backend_learn(struct backend *backend, const struct confab_model_info *info) {
        struct backend_model *model = &backend->model;

        if (!info->fingerprint || strcmp(model->fingerprint, info->fingerprint) != 0)
                backend->one_system = false;
        *model = (struct backend_model){.socket = backend->model.socket,
                .known = true,
                .reachable = true,
                .context = info->context,
                .context_train = info->context_train,
                .n_vocab = info->n_vocab,
                .n_embd = info->n_embd,
                .n_params = info->n_params,
                .weights_size = info->weights_size,
                .takes_tools = info->takes_tools,
                .reasons = info->reasons,
                .since_usec = clock_realtime_usec()};
        copy_text(model->name, sizeof(model->name), info->name);
        copy_text(model->architecture, sizeof(model->architecture), info->architecture);
        copy_text(model->fingerprint, sizeof(model->fingerprint), info->fingerprint);
        copy_text(model->chat_family, sizeof(model->chat_family), info->chat_family);
        copy_text(model->reply_format, sizeof(model->reply_format), info->reply_format);
        copy_text(model->tokenizer, sizeof(model->tokenizer), info->tokenizer);
        copy_text(model->path, sizeof(model->path), info->path);
        backend->known_usec = clock_monotonic_usec();
        backend_set_reachable(backend, true, NULL);
}

void backend_set_reachable(struct backend *backend, bool reachable, const char *why) {
        const struct backend_model *model = &backend->model;

        backend->model.reachable = reachable;
        if (backend->told && backend->told_reachable == reachable)
                return;
        backend->told = true;
        backend->told_reachable = reachable;
        if (reachable)
                LOG_FIELDS(LOGGED_DAEMON_BACK,
                        ({"CONFAB_SOCKET", backend->socket, 0}, {"CONFAB_MODEL", model->path, 0}),
                        "'%s' answers, with the model %s", backend->socket, model->path);
        else
                LOG_FIELDS(LOGGED_DAEMON_LOST, ({"CONFAB_SOCKET", backend->socket, 0}),
                        "'%s' does not answer: %s", backend->socket, why);
}

/* Whether @name is @known, with or without @end behind it. */
static bool is_name(const char *name, const char *known, size_t known_size, const char *end) {
        if (strncmp(name, known, known_size) != 0)
                return false;
        return name[known_size] == '\0' || strcmp(name + known_size, end) == 0;
}

static bool names_model(const char *name, const struct backend_model *model) {
        const char *slash = strrchr(model->path, '/'), *file = slash ? slash + 1 : model->path;
        size_t n = strlen(file);
        bool is_gguf = n > 5 && strcmp(file + n - 5, ".gguf") == 0;

        if (model->name[0] && is_name(name, model->name, strlen(model->name), ":latest"))
                return true;
        if (n == 0)
                return false;
        return is_name(name, file, n, ":latest") ||
               (is_gguf && is_name(name, file, n - 5, ":latest"));
}

struct backend *backends_find(struct backends *backends, const char *name) {
        if (!name || !*name)
                return &backends->items[0];
        for (size_t i = 0; i < backends->n_items; i++)
                if (backends->items[i].model.known && names_model(name, &backends->items[i].model))
                        return &backends->items[i];
        return backends->n_items == 1 ? &backends->items[0] : NULL;
}

const struct backend_model *backend_model(const struct backend *backend) {
        return &backend->model;
}

bool backend_one_system(const struct backend *backend) {
        return backend->one_system;
}

void backend_set_one_system(struct backend *backend) {
        backend->one_system = true;
}

const struct meter *backend_meter(const struct backend *backend) {
        return &backend->meter;
}

size_t backends_count(const struct backends *backends) {
        return backends->n_items;
}

struct backend *backends_at(struct backends *backends, size_t i) {
        return &backends->items[i];
}

/* ---- asking ---- */

static bool is_asked(const struct backends *backends) {
        for (size_t i = 0; i < backends->n_items; i++)
                if (backends->items[i].probe)
                        return true;
        return false;
}

/* @why: words for what was no answer. */
static void probe_end(struct backend *backend, bool answered, const char *why) {
        event_del(&backend->late);
        if (!answered)
                backend_set_reachable(backend, false, why);
        backend->probe = line_put(backend->probe);
        if (!is_asked(backend->backends))
                event_active(&backend->backends->settled, EV_TIMEOUT, 0);
}

static void on_answer(void *userdata, const struct confab_event *event) {
        struct backend *backend = userdata;

        if (event->kind == CONFAB_EVENT_MODEL_INFO)
                backend_learn(backend, event->model_info);
        probe_end(backend, event->kind == CONFAB_EVENT_MODEL_INFO,
                event->kind == CONFAB_EVENT_ERROR ? event->error->message : "another answer came");
}

static void on_late(evutil_socket_t fd, short what, void *userdata) {
        (void)fd;
        (void)what;
        probe_end(userdata, false, "no answer came in time");
}

static void probe_begin(struct backend *backend) {
        static const struct timeval late = {.tv_sec = BACKEND_ANSWER_SECONDS};
        const struct confab_request request = {.size = sizeof(request), .verb = CONFAB_MODEL_INFO};
        const struct gateway_owner self = {.uid = (uint32_t)geteuid()};
        struct err e;

        if (backend->probe)
                return;
        if (line_get(&backend->probe, backend, &self, &e) < 0) {
                backend_set_reachable(backend, false, e.msg);
                return;
        }
        if (event_add(&backend->late, &late) < 0 ||
                line_submit(backend->probe, &request, on_answer, backend, NULL, NULL) < 0)
                probe_end(backend, false, "no memory to ask it");
}

static struct waiter *first_due(struct backends *backends) {
        struct list *it;

        list_for_each (it, &backends->waiters)
                if (list_entry(it, struct waiter, link)->is_due)
                        return list_entry(it, struct waiter, link);
        return NULL;
}

/* Who begins to wait in a callback waits for the next time. */
static void on_settled(evutil_socket_t fd, short what, void *userdata) {
        struct backends *backends = userdata;
        struct waiter *waiter;
        struct list *it;

        (void)fd;
        (void)what;
        if (is_asked(backends))
                return;
        list_for_each (it, &backends->waiters)
                list_entry(it, struct waiter, link)->is_due = true;
        while ((waiter = first_due(backends))) {
                backends_ready fn = waiter->fn;
                void *fn_data = waiter->userdata;

                list_unlink(&waiter->link);
                free(waiter);
                fn(fn_data);
        }
}

int backends_refresh(
        struct backends *backends, uint64_t max_age_usec, backends_ready fn, void *userdata) {
        struct waiter *waiter = calloc(1, sizeof(*waiter));
        uint64_t now = clock_monotonic_usec();

        if (!waiter)
                return -ERR_NOMEM;
        waiter->fn = fn;
        waiter->userdata = userdata;
        list_append(&backends->waiters, &waiter->link);
        for (size_t i = 0; i < backends->n_items; i++) {
                struct backend *backend = &backends->items[i];

                if (!backend->model.known || !backend->model.reachable ||
                        now - backend->known_usec > max_age_usec)
                        probe_begin(backend);
        }
        if (!is_asked(backends))
                event_active(&backends->settled, EV_TIMEOUT, 0);
        return 0;
}

void backends_forget(struct backends *backends, void *userdata) {
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &backends->waiters) {
                struct waiter *waiter = list_entry(it, struct waiter, link);

                if (waiter->userdata != userdata)
                        continue;
                list_unlink(&waiter->link);
                free(waiter);
        }
}

/* ---- all of them ---- */

int backends_new(struct backends **ret, struct event_base *base, const char *const *sockets,
        size_t n_sockets, struct err *e) {
        struct backends *backends;

        if (n_sockets == 0)
                return err_set(e, ERR_INVALID, "no daemon is named");
        backends = calloc(1, sizeof(*backends));
        if (!backends)
                return err_no_memory(e);
        backends->base = base;
        list_init(&backends->waiters);
        list_init(&backends->guests);
        event_assign(&backends->settled, base, -1, 0, on_settled, backends);
        backends->items = calloc(n_sockets, sizeof(*backends->items));
        for (size_t i = 0; backends->items && i < n_sockets; i++) {
                struct backend *backend = &backends->items[i];

                backend->backends = backends;
                list_init(&backend->lines);
                event_assign(&backend->late, base, -1, 0, on_late, backend);
                backend->socket = strdup(sockets[i]);
                backend->model.socket = backend->socket;
                backends->n_items = i + 1;
                if (!backend->socket)
                        break;
        }
        if (!backends->items || !backends->items[n_sockets - 1].socket) {
                backends_free(backends);
                return err_no_memory(e);
        }
        *ret = backends;
        return 0;
}

bool backends_share(const struct backends *backends) {
        return backends->shares;
}

void backends_stand_for(struct backends *backends, const char *socket) {
        for (size_t i = 0; i < backends->n_items; i++)
                backends->items[i].model.socket = socket;
}

struct backends *backends_free(struct backends *backends) {
        if (!backends)
                return NULL;
        while (!list_empty(&backends->guests)) {
                struct backends_guest *guest =
                        list_entry(backends->guests.next, struct backends_guest, link);

                backends_remove_guest(guest);
                guest->end(guest);
        }
        for (size_t i = 0; i < backends->n_items; i++) {
                event_del(&backends->items[i].late);
                backend_drop_all(&backends->items[i]);
                free(backends->items[i].socket);
        }
        while (!list_empty(&backends->waiters)) {
                struct waiter *waiter = list_entry(backends->waiters.next, struct waiter, link);

                list_unlink(&waiter->link);
                free(waiter);
        }
        event_del(&backends->settled);
        free(backends->items);
        free(backends);
        return NULL;
}

void backends_add_guest(struct backends *backends, struct backends_guest *guest) {
        list_append(&backends->guests, &guest->link);
}

void backends_remove_guest(struct backends_guest *guest) {
        list_unlink(&guest->link);
}

void backends_figures(const struct backends *backends, struct backend_figures *ret) {
        *ret = backends->figures;
}
