/* SPDX-License-Identifier: MIT */
#include "daemon/check.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/util.h"
#include "daemon/bytes.h"
#include "daemon/engine-options.h"
#include "daemon/settings.h"
#include "daemon/startup.h"
#include "engine/engine.h"
#include "service/secret.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SERVICE_STATE "/var/lib/confab"
#define SERVICE_USER "confab"

/* A report being written. The first write error is kept; later text is dropped. */
struct report {
        struct buf *out;
        int r;
        unsigned n_problems, n_warnings;
};

static void __attribute__((format(printf, 2, 3))) say(struct report *p, const char *fmt, ...) {
        char line[1024];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(line, sizeof(line), fmt, ap);
        va_end(ap);
        if (p->r == 0)
                p->r = buf_printf(p->out, "%s\n", line);
}

#define PROBLEM(p, ...)                                                                            \
        do {                                                                                       \
                (p)->n_problems++;                                                                 \
                say((p), "  PROBLEM: " __VA_ARGS__);                                               \
        } while (0)
#define WARN(p, ...)                                                                               \
        do {                                                                                       \
                (p)->n_warnings++;                                                                 \
                say((p), "  warning: " __VA_ARGS__);                                               \
        } while (0)

/* ---- who looks ---- */

static int become(const struct passwd *pw, struct report *p) {
        if (initgroups(pw->pw_name, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 ||
                setuid(pw->pw_uid) < 0) {
                PROBLEM(p, "cannot look as user %s: %s", pw->pw_name, strerror(errno));
                return -1;
        }
        say(p, "Looking as user %s, who owns the state folder", pw->pw_name);
        return 0;
}

static void choose_user(struct report *p, const struct settings *s) {
        const struct passwd *pw;
        struct stat st;

        if (geteuid() == 0) {
                if (stat(s->state, &st) == 0)
                        pw = st.st_uid ? getpwuid(st.st_uid) : NULL;
                else
                        pw = strcmp(s->state, SERVICE_STATE) == 0 ? getpwnam(SERVICE_USER) : NULL;
                if (pw && become(pw, p) == 0)
                        return;
        }
        pw = getpwuid(geteuid());
        say(p, "Looking as user %s", pw ? pw->pw_name : "without a name");
}

/* ---- settings ---- */

/* The settings, as file after file is added. */
struct layers {
        struct report *p;
        struct settings now;
};

static int print_difference(
        struct report *p, const struct settings *before, const struct settings *after) {
        bool any = false;

        for (size_t i = 0; i < settings_n; i++) {
                const struct setting *t = &settings_table[i];
                struct buf a = BUF_NULL, b = BUF_NULL;
                int r = settings_print_value(&a, before, t);

                if (r == 0)
                        r = settings_print_value(&b, after, t);
                if (r == 0 && (a.size != b.size || (a.size && memcmp(a.data, b.data, a.size)))) {
                        say(p, "    %s = %.*s", t->name, (int)b.size, (const char *)b.data);
                        any = true;
                }
                buf_deinit(&a);
                buf_deinit(&b);
                if (r < 0)
                        return r;
        }
        if (!any)
                say(p, "    (nothing that differs)");
        return 0;
}

/* List what a file changes. */
static int print_file(void *arg, const char *path, struct err *e) {
        _cleanup_(settings_deinit) struct settings before = SETTINGS_NULL;
        struct layers *l = arg;
        int r;

        r = settings_copy(&before, &l->now, e);
        if (r == 0)
                r = settings_parse_file(&l->now, path, e);
        if (r < 0)
                return r;
        say(l->p, "  %s", path);
        return print_difference(l->p, &before, &l->now);
}

static void check_settings(struct report *p, const struct settings *s) {
        struct layers l = {.p = p, .now = SETTINGS_NULL};
        struct err e;
        int r;

        say(p, "Settings, and what sets them");
        r = settings_init(&l.now, &e);
        if (r == 0)
                r = settings_each_file(s, print_file, &l, &e);
        if (r < 0) {
                PROBLEM(p, "%s", e.msg);
        } else {
                say(p, "  flags");
                if (print_difference(p, &l.now, s) < 0)
                        p->r = -ERR_NOMEM;
        }
        settings_deinit(&l.now);
}

static void check_group(struct report *p, const char *setting, const char *group) {
        if (group && getgrnam(group))
                say(p, "  %s: %s", setting, group);
        else if (group)
                PROBLEM(p, "%s: unknown group '%s'", setting, group);
}

/* ---- folders ---- */

static void say_owner(struct report *p, const char *path, const struct stat *st) {
        const struct passwd *pw = getpwuid(st->st_uid);
        const struct group *gr = getgrgid(st->st_gid);

        say(p, "  %s: owner %s, group %s, mode %04o", path, pw ? pw->pw_name : "without a name",
                gr ? gr->gr_name : "without a name", (unsigned)(st->st_mode & 07777));
}

static bool may(const char *path, int mode) {
        return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

/* The nearest existing folder above @path. */
static void nearest(char *path) {
        char *slash;

        while (access(path, F_OK) < 0 && (slash = strrchr(path, '/')) && slash != path)
                *slash = '\0';
        if (access(path, F_OK) < 0)
                strcpy(path, *path == '/' ? "/" : ".");
}

static void check_space(struct report *p, const char *path, uint64_t floor) {
        struct statvfs v;
        uint64_t free_size;

        if (statvfs(path, &v) < 0)
                return;
        free_size = (uint64_t)v.f_bavail * v.f_frsize;
        say(p, "  free there: %s", BYTES_TEXT(free_size));
        if (free_size < floor)
                WARN(p, "that is less than disk-floor (%s): no memory will be spilled",
                        BYTES_TEXT(floor));
}

static void check_state(struct report *p, const struct settings *s) {
        char path[4096];
        struct stat st;

        snprintf(path, sizeof(path), "%s", s->state);
        if (stat(path, &st) < 0) {
                nearest(path);
                if (strcmp(s->state, SERVICE_STATE) == 0)
                        say(p, "  %s is not there: the service manager makes it", s->state);
                else if (may(path, W_OK | X_OK))
                        say(p, "  %s is not there: it would be made", s->state);
                else
                        PROBLEM(p, "%s is not there, and cannot be made in %s", s->state, path);
        } else {
                say_owner(p, path, &st);
                if (!S_ISDIR(st.st_mode))
                        PROBLEM(p, "%s is not a folder", path);
                else if (!may(path, R_OK | W_OK | X_OK))
                        PROBLEM(p, "%s cannot be read and written", path);
                if (st.st_mode & 077)
                        WARN(p, "%s is open to others than its owner", path);
        }
        check_space(p, path, s->disk_floor);
}

/* Copy the name of @path's folder to @ret of @size bytes. */
static void folder_of(const char *path, char *ret, size_t size) {
        const char *slash = strrchr(path, '/');

        snprintf(ret, size, "%.*s", slash ? (int)MAX(slash - path, 1) : 1, slash ? path : ".");
}

static void check_folders(struct report *p, const struct settings *s) {
        char folder[4096], above[4096];

        say(p, "State folder");
        check_state(p, s);
        say(p, "Socket");
        say(p, "  %s, unless the service manager passes sockets", s->socket);
        /* The service's own folder is made together with its socket. */
        if (strncmp(s->socket, "/run/confab/", strlen("/run/confab/")) == 0)
                return;
        folder_of(s->socket, folder, sizeof(folder));
        folder_of(folder, above, sizeof(above));
        if (!may(folder, W_OK | X_OK) && (may(folder, F_OK) || !may(above, W_OK | X_OK)))
                PROBLEM(p, "no socket can be made in %s", folder);
}

static void check_groups(struct report *p, const struct settings *s) {
        if (!s->socket_group && !s->admin_group)
                return;
        say(p, "Groups");
        check_group(p, "socket-group", s->socket_group);
        check_group(p, "admin-group", s->admin_group);
}

/* ---- model and memory ---- */

static void say_model(struct report *p, const struct settings *s, const struct engine_view *v) {
        const struct engine_model_info *m = &v->model;

        say(p, "  %s, %s, %.1f million parameters, %u layers",
                *m->name ? m->name : "without a name", m->arch, (double)m->n_params / 1e6,
                m->n_layer);
        say(p, "  fingerprint: %016llx%016llx%s", (unsigned long long)m->fingerprint[0],
                (unsigned long long)m->fingerprint[1],
                v->remembered && !s->verify_model ? " (as the register remembers it)" : "");
        say(p, "  weights: %s of a file of %s", BYTES_TEXT(m->weights_size),
                BYTES_TEXT(v->file_size));
        if (m->repacked_size)
                say(p, "  repacked in RAM for %s: %s of them", m->isa,
                        BYTES_TEXT(m->repacked_size));
        say(p, "  computed with: %u threads, %s", v->n_threads, m->isa);
}

static void say_chat(struct report *p, const struct engine *en, const struct engine_view *v) {
        const char *difference;

        say(p, "  chat format: %s", v->model.chat_family);
        for (size_t i = 0; (difference = engine_view_difference(en, i)); i++)
                WARN(p, "chat template: %s", difference);
}

static void say_memory(struct report *p, const struct settings *s, const struct engine_view *v) {
        const struct engine_model_info *m = &v->model;

        say(p, "  RAM that may be used: %s",
                v->ram_size == UINT64_MAX ? "not known" : BYTES_TEXT(v->ram_size));
        if (v->token_size)
                say(p, "  memory per token: %s (%s)", BYTES_TEXT(v->token_size), m->kv_type);
        if (m->window)
                say(p, "  local layers: %s more for each of the last %u tokens",
                        BYTES_TEXT(v->window_token_size), m->window);
        if (m->state_size)
                say(p, "  state of the recurrent layers: %s", BYTES_TEXT(m->state_size));
        say(p, "  budget: %s (%s)", BYTES_TEXT(v->budget),
                s->pool_size ? "pool-size" : "auto, by what is free now");
        say(p, "  longest conversation: %u tokens, by %s", v->most_tokens,
                v->most_tokens < m->context ? "the budget" : "the context");
        if (m->weights_size > v->ram_size)
                WARN(p, "the weights do not fit the RAM: they will be read from disk again and "
                        "again, and everything will be slow");
        else if (s->pool_size && m->weights_size + v->budget > v->ram_size)
                WARN(p, "weights and budget together do not fit the RAM: %s",
                        BYTES_TEXT(m->weights_size + v->budget));
        if (v->most_tokens < m->context)
                WARN(p, "a conversation as long as the context (%u tokens) does not fit",
                        m->context);
}

static double gb(uint64_t n) {
        return (double)n / 1e9;
}

static void say_codec(struct report *p, const struct engine_view *v) {
        static const char *const names[] = {
                [ENGINE_CODEC_RAW] = "raw", [ENGINE_CODEC_LZ4] = "lz4", [ENGINE_CODEC_KV] = "kv"};
        const struct engine_codec *c = &v->codec;
        char disk[64];

        if (c->why == ENGINE_CODEC_SET) {
                say(p, "  spilled by codec: %s (spill-codec)", names[c->codec]);
                return;
        }
        snprintf(disk, sizeof(disk), "disk not measured yet");
        if (c->disk_speed)
                snprintf(disk, sizeof(disk), "disk %.2f GB/s", gb(c->disk_speed));
        say(p,
                "  spilled by codec: %s, while space is not short (a GB is expected back in %.2f s "
                "by kv, %.2f s raw: %s, decoding %.2f GB/s a thread)",
                names[c->codec], (double)c->kv_usec / 1e6, (double)c->raw_usec / 1e6, disk,
                gb(c->decode_speed));
}

static void say_register(struct report *p, const struct engine_view *v) {
        switch (v->register_state) {
        case ENGINE_REGISTER_NONE:
                say(p, "  none yet");
                break;
        case ENGINE_REGISTER_BUSY:
                say(p, "  in use by a running daemon: not looked at");
                break;
        case ENGINE_REGISTER_OLD:
                say(p, "  of an older confab: it would be brought up to date");
                break;
        case ENGINE_REGISTER_READ:
                say(p, "  %llu conversations", (unsigned long long)v->n_conversations);
                break;
        }
}

/* On a terminal, show the progress of a long read. */
static int show_progress(void *arg, const struct engine_opening *o) {
        bool *shown = arg;

        if (o->stage != ENGINE_STAGE_WEIGHTS || !isatty(STDERR_FILENO))
                return 0;
        fprintf(stderr, "\r\033[Kreading the weights: %s of %s", BYTES_TEXT(o->done),
                BYTES_TEXT(o->total));
        *shown = true;
        return 0;
}

static void say_remote(struct report *p, const struct settings *s, const struct engine_view *v) {
        if (!s->remote)
                return;
        say(p, "Remote store");
        if (v->remote.code == ERR_NONE)
                say(p, "  %s", s->remote);
        else
                WARN(p, "it can't be used now, and memory would be computed: %s", v->remote.msg);
}

static void check_remote(struct report *p, const struct settings *s, char **ret_password) {
        struct err e;

        if (!s->remote)
                return;
        if (engine_options_password(s, ret_password, &e) < 0)
                PROBLEM(p, "%s", e.msg);
}

static void check_engine(struct report *p, const struct settings *s, const char *password) {
        struct engine_options o = engine_options_of(s);
        _cleanup_(engine_freep) struct engine *en = NULL;
        const char *hidden = startup_hidden(s->model);
        struct engine_view v;
        bool shown = false;
        struct err e;
        int r;

        o.remote.password = password;
        if (s->remote_password_file && !password)
                o.remote.uri = NULL; /* that was told */
        o.progress = show_progress;
        o.progress_arg = &shown;
        r = engine_look(&en, &o, &e);
        if (shown)
                fprintf(stderr, "\r\033[K");
        say(p, "Model");
        say(p, "  %s", s->model);
        if (hidden && strcmp(s->state, SERVICE_STATE) == 0)
                WARN(p,
                        "confabd.service cannot see this file, because its unit has %s: put the "
                        "model into /var/lib/confab/models",
                        hidden);
        if (r < 0) {
                PROBLEM(p, "%s", e.msg);
                return;
        }
        engine_view(en, &v);
        say_model(p, s, &v);
        say_chat(p, en, &v);
        say(p, "Memory");
        say_memory(p, s, &v);
        say_codec(p, &v);
        say(p, "Register");
        say_register(p, &v);
        say_remote(p, s, &v);
}

int check_run(struct buf *out, const struct settings *s, struct err *e) {
        struct report p = {.out = out};
        _cleanup_(secret_freep) char *password = NULL;

        choose_user(&p, s);
        check_settings(&p, s);
        check_folders(&p, s);
        check_groups(&p, s);
        check_remote(&p, s, &password);
        check_engine(&p, s, password);
        if (p.n_problems)
                say(&p, "It would not start. Problems: %u, warnings: %u", p.n_problems,
                        p.n_warnings);
        else
                say(&p, "It would start. Warnings: %u", p.n_warnings);
        if (p.r < 0)
                return err_set(e, ERR_NOMEM, "no memory for the report");
        return p.n_problems ? 1 : 0;
}
