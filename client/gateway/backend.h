/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The confabd daemons behind the gateway, one per model, and lines to them.
 *
 * A line is one libconfab connection in the event loop that acts for one owner (uid, tenant). A talk takes a line for
 * itself, so that pausing a slow reader pauses nobody else, and gives it back; some idle lines are kept
 * per owner for a short time. The gateway's own uid needs no acting.
 *
 * 1. A line is never given to another owner than the one it was made for.
 * 2. A line that broke, or that was given back with requests in flight, is closed (the daemon cancels them).
 * 3. A daemon that is gone does not disturb the others; the next request tries to connect again.
 *
 * The model of a daemon is learned with the first line to it, and again with the first one after those that were told it
 * have broken or were closed (a restarted daemon may have another model). All functions: the thread of the event base.
 */
#include "base/err.h"
#include "base/list.h"
#include "client/confab.h"
#include "client/gateway/meter.h"
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct backends;
struct backend;
struct line;

/* For whom a request acts. */
struct gateway_owner {
        uint32_t uid;
        char tenant[129]; /* "": none */
};

/* @sockets: paths of the daemons' sockets, in order; the first is the default. Nothing is connected yet. */
int backends_new(struct backends **ret, struct event_base *base, const char *const *sockets,
        size_t n_sockets, struct err *e);
/* Ids that name a daemon by its socket name @socket (borrowed) in place of its own: another daemon with the same register. */
void backends_stand_for(struct backends *backends, const char *socket);
/* Whether some of them share a register with other machines, as far as they have told. */
bool backends_share(const struct backends *backends);
/* All lines must have been given back, but for those of guests. NULL is harmless; returns NULL. */
struct backends *backends_free(struct backends *backends);

/* What is known of the models, as of the last connection. */
struct backend_model {
        const char *socket; /* by which ids name the daemon */
        bool known;         /* else the daemon was never reached */
        bool reachable;     /* the last attempt succeeded */
        char name[256];     /* as clients name it */
        char architecture[64], fingerprint[80], chat_family[64], reply_format[64], tokenizer[64],
                path[1024];
        uint32_t context, context_train, n_vocab, n_embd;
        uint64_t n_params, weights_size;
        bool takes_tools, reasons;
        uint64_t since_usec; /* realtime, when this was learned */
};
typedef void (*backends_ready)(void *userdata);
/* Ask those daemons that are not known or were not reachable (and those whose answer is older than @max_age_usec), then
 * call @fn, from the loop; daemons that do not answer within 5 s count as not reachable. -ERR_NOMEM: @fn will not be
 * called. */
int backends_refresh(
        struct backends *backends, uint64_t max_age_usec, backends_ready fn, void *userdata);
/* Forget @fn of this @userdata: it will not be called. */
void backends_forget(struct backends *backends, void *userdata);
size_t backends_count(const struct backends *backends);
struct backend *backends_at(struct backends *backends, size_t i);
const struct backend_model *backend_model(const struct backend *backend);
/* The daemon of a model's name: its name, its file's name, either with ":latest" (Ollama) behind it. If none has it: with one
 * daemon alone, or if @name is NULL or "", the default one (clients invent names); else NULL. */
struct backend *backends_find(struct backends *backends, const char *name);

/* Whether this model takes one system message, in front: false until a talk has learned it (talk-messages.c), and again
 * for another model. */
bool backend_one_system(const struct backend *backend);
void backend_set_one_system(struct backend *backend);

/* A line for @owner. Connecting does not wait. Errors: those of confab_connect() as -ERR_UNAVAILABLE, -ERR_NOMEM,
 * -ERR_LIMIT (lines in use). */
int line_get(struct line **ret, struct backend *backend, const struct gateway_owner *owner,
        struct err *e);
/* As confab_submit(). @fn is called from the loop, never before this returns. */
int line_submit(struct line *line, const struct confab_request *request, confab_event_fn fn,
        void *userdata, uint64_t *ret_id, struct confab_error *e);
int line_cancel(struct line *line, uint64_t id);
/* As confab_send_chunk(): bytes of the import that was submitted in_stream as @id. They wait in memory: send more when
 * the line is drained. */
int line_send_chunk(struct line *line, uint64_t id, const void *data, size_t size, bool last,
        struct confab_error *e);
/* @fn is called from the loop, perhaps several times, while nothing waits to be sent to a daemon that has greeted; it may put
 * the line. NULL: not any more; so does line_put(). */
void line_set_drained(struct line *line, void (*fn)(void *userdata), void *userdata);
/* No callbacks until line_resume(), and nothing is read from the daemon: it holds back events, and generation, when its
 * queue is full. */
void line_pause(struct line *line);
void line_resume(struct line *line);
/* Give it back; callbacks of requests in flight are not called any more. Not from within line_submit(); may be called in
 * a callback. NULL is harmless. */
struct line *line_put(struct line *line);

/* What goes on for a while without an owner, such as a talk that cleans up behind itself: backends_free() ends it. */
struct backends_guest {
        struct list link;
        void (*end)(struct backends_guest *guest); /* frees it, and gives back its lines */
};
void backends_add_guest(struct backends *backends, struct backends_guest *guest);
void backends_remove_guest(struct backends_guest *guest);

/* What the replies over its lines took. */
const struct meter *backend_meter(const struct backend *backend);

struct backend_figures {
        uint64_t n_lines, n_idle, n_connects, n_failed;
};
void backends_figures(const struct backends *backends, struct backend_figures *ret);
