/* SPDX-License-Identifier: MIT */
#include "fake-engine.h"
#include "base/list.h"
#include "base/util.h"
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

struct engine {
        struct list events; /* struct waiting, oldest first */
        int fd;             /* eventfd: how many of them */
};

struct waiting {
        struct list link;
        struct engine_event *event;
};

#define FAKE_AUTO (1ull << 30)

struct fake_engine fake;
static struct engine *the_engine;
static bool answers[ENGINE_N_VERBS];
static enum err_code open_code, submit_code;
static const char *open_message, *submit_message;

int engine_overrides(
        struct engine *engine, struct quota_override **ret, size_t *ret_n, struct err *e) {
        *ret = calloc(fake.n_overrides + 1, sizeof(**ret));
        if (!*ret)
                return err_set(e, ERR_NOMEM, "no memory");
        for (size_t i = 0; i < fake.n_overrides; i++)
                (*ret)[i] = fake.overrides[i];
        *ret_n = fake.n_overrides;
        return 0;
}

void fake_fail_open(enum err_code code, const char *message) {
        open_code = code;
        open_message = message;
}

void fake_fail_submit(enum err_code code, const char *message) {
        submit_code = code;
        submit_message = message;
}

void fake_answer(enum engine_verb verb, bool at_once) {
        answers[verb] = at_once;
}

void fake_reset(void) {
        for (size_t i = 0; i < fake.n; i++)
                if (fake.requests[i].fd >= 0)
                        close(fake.requests[i].fd);
        free(fake.requests);
        fake = (struct fake_engine){};
        memset(answers, 0, sizeof(answers));
        open_code = submit_code = ERR_NONE;
}

struct fake_request *fake_last(enum engine_verb verb) {
        for (size_t i = fake.n; i--;)
                if (fake.requests[i].r.verb == verb)
                        return &fake.requests[i];
        return NULL;
}

static struct fake_request *find(uint64_t handle) {
        for (size_t i = 0; i < fake.n; i++)
                if (fake.requests[i].r.handle == handle)
                        return &fake.requests[i];
        return NULL;
}

int engine_open(struct engine **ret, const struct engine_options *o, struct err *e) {
        struct engine *en;

        if (open_code) {
                enum err_code code = open_code;

                open_code = ERR_NONE;
                return err_set(e, code, "%s", open_message);
        }
        if (o->progress)
                o->progress(o->progress_arg, &(struct engine_opening){.stage = ENGINE_STAGE_MODEL});
        en = calloc(1, sizeof(*en));
        if (!en)
                return err_set(e, ERR_NOMEM, "no memory");
        list_init(&en->events);
        en->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
        if (en->fd < 0) {
                free(en);
                return err_set(e, ERR_SYS, "no eventfd");
        }
        fake.options = *o;
        fake.pool_size = o->pool_size ? o->pool_size : FAKE_AUTO;
        fake.pool_auto = FAKE_AUTO;
        snprintf(fake.model, sizeof(fake.model), "%s", o->model_path);
        snprintf(fake.state_dir, sizeof(fake.state_dir), "%s", o->state_dir);
        snprintf(fake.remote_password, sizeof(fake.remote_password), "%s",
                o->remote.password ? o->remote.password : "");
        fake.options.remote.password = NULL; /* it is wiped when the engine is open */
        *ret = the_engine = en;
        return 0;
}

struct engine *engine_free(struct engine *en) {
        struct engine_event *ev;

        if (!en)
                return NULL;
        while ((ev = engine_next_event(en)))
                engine_event_free(ev);
        close(en->fd);
        free(en);
        the_engine = NULL;
        return NULL;
}

void engine_stop(struct engine *en) {
        fake.stopping = true;
}

static void copy_text(char *dst, size_t size, const char *src) {
        snprintf(dst, size, "%s", src ? src : "");
}

static void add_line(char *dst, size_t size, const char *a, const char *b, const char *c) {
        size_t n = strlen(dst);

        snprintf(dst + n, size - n, "%s|%s|%s;", a ? a : "-", b ? b : "-", c ? c : "-");
}

static void add_message(char *dst, size_t size, const struct engine_message *m) {
        char role[2] = {(char)('0' + m->role), 0};

        add_line(dst, size, role, m->text_size > 0 ? m->text : NULL, m->reasoning);
        for (size_t i = 0; i < m->n_calls; i++)
                add_line(dst, size, m->calls[i].id, m->calls[i].name, m->calls[i].arguments);
        for (size_t i = 0; i < m->n_results; i++)
                add_line(dst, size, m->results[i].call_id, m->results[i].name, m->results[i].text);
}

static int remember(const struct engine_request *r, struct err *e) {
        struct fake_request *q = realloc(fake.requests, (fake.n + 1) * sizeof(*q));

        if (!q)
                return err_set(e, ERR_NOMEM, "no memory for a request");
        fake.requests = q;
        q = &fake.requests[fake.n++];
        *q = (struct fake_request){.r = *r, .fd = -1};
        if (r->verb == ENGINE_IMPORT)
                q->fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 0);
        copy_text(q->conv_name, sizeof(q->conv_name), r->conv_name);
        copy_text(q->name, sizeof(q->name), r->name);
        copy_text(q->system, sizeof(q->system), r->system);
        for (size_t i = 0; i < r->n_stops; i++)
                copy_text(q->stops[i], sizeof(q->stops[i]), r->stops[i]);
        copy_text(q->tools, sizeof(q->tools), r->tools);
        copy_text(q->reasoning, sizeof(q->reasoning), r->reasoning);
        copy_text(q->cursor, sizeof(q->cursor), r->cursor);
        copy_text(q->tenant, sizeof(q->tenant), r->tenant);
        for (size_t i = 0; i < r->n_results; i++)
                add_line(q->results, sizeof(q->results), r->results[i].call_id, r->results[i].name,
                        r->results[i].text);
        for (size_t i = 0; i < r->n_calls; i++)
                add_line(q->calls, sizeof(q->calls), r->calls[i].id, r->calls[i].name,
                        r->calls[i].arguments);
        for (size_t i = 0; i < r->n_messages; i++)
                add_message(q->messages, sizeof(q->messages), &r->messages[i]);
        if (r->text)
                memcpy(q->text, r->text, MIN(r->text_size, sizeof(q->text) - 1));
        if (r->tokens)
                memcpy(q->tokens, r->tokens, MIN(r->n_tokens, ARRAY_SIZE(q->tokens)) * 4);
        return 0;
}

void engine_file_begin(struct engine *en, struct engine_file *file, int fd, uint64_t size) {
        *file = (struct engine_file){.fd = fd, .size = size};
        fake.file_bytes += size;
}

int engine_file_end(struct engine *en, struct engine_file *file) {
        int fd = file->fd;

        fake.file_bytes -= file->size;
        *file = ENGINE_FILE_NULL;
        return fd;
}

static void fake_read(const struct engine_request *r) {
        static uint8_t data[ENGINE_MAX_BYTES];

        if (pread(r->file->fd, data, r->n_bytes, (off_t)r->offset) != (ssize_t)r->n_bytes)
                abort();
        fake_emit(&(struct engine_event){.handle = r->handle,
                .kind = ENGINE_BYTES,
                .final = true,
                .bytes = {data, r->n_bytes}});
}

static void fake_write(const struct engine_request *r) {
        struct engine_file *file = r->file;

        if (file->fd < 0)
                file->fd = memfd_create("fake", MFD_CLOEXEC);
        if (pwrite(file->fd, r->text, r->text_size, (off_t)file->size) != (ssize_t)r->text_size)
                abort();
        file->size += r->text_size;
        fake.file_bytes += r->text_size;
        fake_emit(&(struct engine_event){.handle = r->handle, .kind = ENGINE_EMPTY, .final = true});
}

static void answer(const struct engine_request *r) {
        struct engine_event ev = {.handle = r->handle, .final = true, .kind = ENGINE_CONV};

        switch (r->verb) {
        case ENGINE_CLOSE:
        case ENGINE_CANCEL:
                ev.kind = ENGINE_EMPTY;
                break;
        case ENGINE_LIST:
                ev.kind = ENGINE_CONVS;
                break;
        case ENGINE_TOKENIZE:
                ev.kind = ENGINE_TOKENS;
                break;
        case ENGINE_MODEL_INFO:
                ev.kind = ENGINE_INFO;
                break;
        case ENGINE_STATS:
                ev.kind = ENGINE_STATS_RESULT;
                break;
        case ENGINE_EXPORT:
                fake_emit_exported(r->handle, "export");
                return;
        case ENGINE_TENANT:
                fake_emit_owner(r->handle, 1);
                return;
        case ENGINE_CONTINUE:
                ev.kind = ENGINE_DONE;
                break;
        case ENGINE_READ_FILE:
                fake_read(r);
                return;
        case ENGINE_WRITE_FILE:
                fake_write(r);
                return;
        case ENGINE_FIND:
                ev.kind = ENGINE_FOUND;
                __attribute__((fallthrough));
        default:
                ev.conv.id = 1;
                ev.conv.name = (char *)(uintptr_t) "fake";
        }
        fake_emit(&ev);
}

int engine_submit(struct engine *en, const struct engine_request *r, struct err *e) {
        if (submit_code) {
                enum err_code code = submit_code;

                submit_code = ERR_NONE;
                return err_set(e, code, "%s", submit_message);
        }
        if (fake.stopping)
                return err_set(e, ERR_SHUTDOWN, "stopping");
        if (remember(r, e) < 0)
                return -ERR_NOMEM;
        if (answers[r->verb])
                answer(r);
        return 0;
}

void engine_cancel(struct engine *en, uint64_t handle) {
        struct fake_request *q = find(handle);

        if (q)
                q->cancelled = true;
}

void engine_pause(struct engine *en, uint64_t handle, bool pause) {
        struct fake_request *q = find(handle);

        if (!q)
                return;
        q->paused = pause;
        q->n_pauses += pause;
}

int engine_fd(struct engine *en) {
        return en->fd;
}

struct engine_event *engine_next_event(struct engine *en) {
        struct engine_event *event;
        struct waiting *first;
        uint64_t one;

        if (list_empty(&en->events))
                return NULL;
        (void)!read(en->fd, &one, sizeof(one));
        first = list_entry(en->events.next, struct waiting, link);
        list_unlink(&first->link);
        event = first->event;
        free(first);
        return event;
}

static bool add_event(struct engine *en, struct engine_event *event) {
        struct waiting *last = malloc(sizeof(*last));
        const uint64_t one = 1;

        if (!last)
                return false;
        last->event = event;
        list_append(&en->events, &last->link);
        (void)!write(en->fd, &one, sizeof(one));
        return true;
}

void engine_set_pool_size(struct engine *en, uint64_t bytes) {
        fake.pool_size = bytes;
        fake.n_resizes++;
}

void engine_set_spare(struct engine *en, bool keep) {
        fake.spare_refused = !keep;
}

void engine_set_speculation(struct engine *en, bool on) {
        fake.speculates = on;
}

uint64_t engine_pool_size(struct engine *en) {
        return fake.pool_size;
}

void engine_pool_use(struct engine *en, struct engine_pool_use *ret) {
        *ret = (struct engine_pool_use){
                .budget = fake.pool_size, .used = fake.pool_used, .idle = fake.pool_idle};
}

void engine_note_pressure(struct engine *en, bool pressed, uint64_t budget) {
        fake.pressed = pressed;
        fake.pressed_budget = budget;
        fake.n_notes++;
}

uint64_t engine_pool_auto(struct engine *en) {
        return fake.pool_auto;
}

uint64_t engine_heartbeat(struct engine *en) {
        return fake.heartbeat;
}

static char *copy_string(const char *s) {
        return s ? strdup(s) : NULL;
}

static void *copy_array(const void *p, size_t n, size_t size) {
        void *copy = p ? malloc(n * size + 1) : NULL;

        if (copy)
                memcpy(copy, p, n * size);
        return copy;
}

static void copy_conv(struct engine_conv *c) {
        c->name = copy_string(c->name);
        c->tenant = copy_string(c->tenant);
        c->turns = copy_array(c->turns, c->n_turn_list, sizeof(*c->turns));
        for (uint32_t i = 0; c->turns && i < c->n_turn_list; i++)
                c->turns[i].text = copy_array(c->turns[i].text, c->turns[i].text_size, 1);
        c->tokens = copy_array(c->tokens, c->n_token_list, sizeof(*c->tokens));
}

static void free_conv(struct engine_conv *c) {
        for (uint32_t i = 0; c->turns && i < c->n_turn_list; i++)
                free(c->turns[i].text);
        free(c->turns);
        free(c->tokens);
        free(c->name);
        free(c->tenant);
}

void fake_emit(const struct engine_event *from) {
        struct engine_event *ev = calloc(1, sizeof(*ev));
        struct fake_request *q = find(from->handle);

        /* Under fault injection an event may be lost: the test must not rely on it. */
        if (!ev) {
                if (from->kind == ENGINE_EXPORTED)
                        close(from->exported.fd);
                return;
        }
        *ev = *from;
        if (q && ev->final)
                q->over = true;
        switch (ev->kind) {
        case ENGINE_DELTA:
                ev->delta.text = copy_string(ev->delta.text);
                ev->delta.top = copy_array(ev->delta.top, ev->delta.n_top, sizeof(*ev->delta.top));
                ev->delta.n_top = ev->delta.top ? ev->delta.n_top : 0;
                break;
        case ENGINE_DONE:
                ev->done.stop = copy_string(ev->done.stop);
                break;
        case ENGINE_CONV:
        case ENGINE_FOUND:
                copy_conv(&ev->conv);
                break;
        case ENGINE_CONVS:
                ev->convs.convs =
                        copy_array(ev->convs.convs, ev->convs.n, sizeof(*ev->convs.convs));
                ev->convs.n = ev->convs.convs ? ev->convs.n : 0;
                for (size_t i = 0; i < ev->convs.n; i++)
                        copy_conv(&ev->convs.convs[i]);
                break;
        case ENGINE_TOKENS:
                ev->tokens.ids = copy_array(ev->tokens.ids, ev->tokens.n, sizeof(int32_t));
                if (ev->tokens.piece_ends)
                        ev->tokens.pieces = copy_array(
                                ev->tokens.pieces, ev->tokens.piece_ends[ev->tokens.n - 1], 1);
                ev->tokens.piece_ends =
                        copy_array(ev->tokens.piece_ends, ev->tokens.n, sizeof(uint32_t));
                break;
        case ENGINE_BYTES:
                ev->bytes.data = copy_array(ev->bytes.data, ev->bytes.n, 1);
                ev->bytes.n = ev->bytes.data ? ev->bytes.n : 0;
                break;
        case ENGINE_STATS_RESULT:
                ev->stats.stats =
                        copy_array(ev->stats.stats, ev->stats.n, sizeof(*ev->stats.stats));
                ev->stats.n = ev->stats.stats ? ev->stats.n : 0;
                if (ev->stats.meters)
                        ev->stats.meters =
                                copy_array(ev->stats.meters, 1, sizeof(*ev->stats.meters));
                if (ev->stats.users)
                        ev->stats.users = copy_array(
                                ev->stats.users, ev->stats.n_users, sizeof(*ev->stats.users));
                break;
        default:
                break;
        }
        if (!add_event(the_engine, ev))
                engine_event_free(ev);
}

struct engine_event *engine_event_free(struct engine_event *ev) {
        if (!ev)
                return NULL;
        switch (ev->kind) {
        case ENGINE_DELTA:
                free(ev->delta.text);
                free(ev->delta.top);
                break;
        case ENGINE_DONE:
                free(ev->done.stop);
                break;
        case ENGINE_CONV:
        case ENGINE_FOUND:
                free_conv(&ev->conv);
                break;
        case ENGINE_CONVS:
                for (size_t i = 0; i < ev->convs.n; i++)
                        free_conv(&ev->convs.convs[i]);
                free(ev->convs.convs);
                break;
        case ENGINE_USERS_RESULT:
                free(ev->users.users);
                break;
        case ENGINE_CHECKED:
                free(ev->checked.problems);
                break;
        case ENGINE_TOKENS:
                free(ev->tokens.ids);
                free(ev->tokens.pieces);
                free(ev->tokens.piece_ends);
                break;
        case ENGINE_STATS_RESULT:
                free(ev->stats.stats);
                free(ev->stats.meters);
                free(ev->stats.users);
                break;
        case ENGINE_EXPORTED:
                if (ev->exported.fd >= 0)
                        close(ev->exported.fd);
                break;
        case ENGINE_BYTES:
                free(ev->bytes.data);
                break;
        default:
                break;
        }
        free(ev);
        return NULL;
}

void fake_emit_delta(uint64_t handle, const char *text, int32_t token) {
        fake_emit(&(struct engine_event){.handle = handle,
                .kind = ENGINE_DELTA,
                .delta = {.text = (char *)(uintptr_t)text,
                        .text_size = strlen(text),
                        .has_token = true,
                        .token = token}});
}

void fake_emit_error(uint64_t handle, enum err_code code, const char *message) {
        struct engine_event ev = {.handle = handle, .kind = ENGINE_ERROR, .final = true};

        err_set(&ev.err, code, "%s", message);
        fake_emit(&ev);
}

void fake_emit_exported(uint64_t handle, const char *text) {
        struct engine_event ev = {.handle = handle, .kind = ENGINE_EXPORTED, .final = true};
        size_t n = strlen(text);

        ev.exported.fd = memfd_create("fake", MFD_CLOEXEC);
        ev.exported.size = n;
        ev.exported.n_memory_tokens = 64;
        if (ev.exported.fd >= 0 && pwrite(ev.exported.fd, text, n, 0) == (ssize_t)n)
                fake_emit(&ev);
}

void fake_emit_stats(uint64_t handle) {
        struct engine_stat stats[] = {{"budget", fake.pool_size}};

        fake_emit(&(struct engine_event){.handle = handle,
                .kind = ENGINE_STATS_RESULT,
                .final = true,
                .stats = {.stats = stats, .n = ARRAY_SIZE(stats)}});
}

void fake_emit_done(uint64_t handle) {
        fake_emit(&(struct engine_event){.handle = handle,
                .kind = ENGINE_DONE,
                .final = true,
                .done = {.finish = ENGINE_FINISH_STOP, .revision = 2}});
}

void fake_emit_owner(uint64_t handle, uint32_t tenant) {
        const struct fake_request *q = find(handle);

        fake_emit(&(struct engine_event){.handle = handle,
                .kind = ENGINE_OWNER,
                .final = true,
                .owner = owner_make(owner_uid(q->r.owner), tenant)});
}
