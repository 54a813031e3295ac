/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The settings of confabd: one table (settings-table.c) is the master copy of names, types, units,
 * ranges, defaults and help. It makes the parser of the configuration file, the command-line flags,
 * --help, and the lists in the man pages.
 *
 * 1. The files (settings-files.c has their order) override the defaults, and flags override the
 *    files.
 * 2. A value that does not parse or is out of range is an error that names file and line, or the
 *    flag; nothing is clamped.
 * 3. Reloading (SIGHUP) reads the files again and changes reloadable settings only; if anything in
 *    the files is wrong, nothing changes.
 */
#include "base/cleanup.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

struct settings {
        char *model, *socket, *state, *config; /* owned, NULL when not given */
        char *socket_group, *admin_group;      /* likewise */
        char *defaults, *model_fingerprint;    /* likewise */
        char *chat_format, *trusted_users;     /* likewise */
        /* engine */
        uint64_t pool_size; /* 0: auto */
        uint64_t threads, context, kv_type, batch_tokens, max_active, default_max_tokens;
        uint64_t max_conversations, max_user_requests, max_queued, max_user_tenants, max_throwaways;
        uint64_t spill_delay;                                          /* usec; 0: never */
        uint64_t disk_limit, disk_limit_per_user, disk_writes_per_day; /* 0: none */
        uint64_t disk_floor;
        uint64_t pressure; /* 0 or 1 */
        uint64_t max_isa;
        uint64_t verify_model; /* 0 or 1 */
        /* peers */
        uint64_t socket_mode;
        uint64_t max_connections, max_user_connections, max_connection_requests;
        uint64_t max_frame, output_high, output_low, output_limit, io_memory;
        uint64_t hello_timeout, frame_timeout, stop_timeout; /* usec */
        uint64_t list_page;
        uint64_t log_level; /* syslog priority */
};

enum setting_type {
        SETTING_TEXT,     /* not empty */
        SETTING_COUNT,    /* decimal */
        SETTING_SIZE,     /* bytes, with K, M, G or T (1024-based) */
        SETTING_DURATION, /* seconds, or with us, ms, s, min, h; kept as microseconds */
        SETTING_MODE,     /* octal */
        SETTING_CHOICE,   /* one of the words in `choices` */
};

struct setting_choice {
        const char *word;
        uint64_t value;
};

struct setting {
        const char *name; /* in the file; as a flag with "--" before it */
        enum setting_type type;
        size_t offset; /* in struct settings: char * for text, else uint64_t */
        uint64_t min, max;
        const char *initial;                  /* default, as written in the file; NULL: none */
        const char *zero;                     /* word for the value 0 ("auto"), or NULL */
        const struct setting_choice *choices; /* ends with a NULL word */
        const char *metavar;
        const char *help; /* one sentence or two, without a line break */
        bool reloadable, flag_only;
};
extern const struct setting settings_table[];
extern const size_t settings_n;

#define SETTINGS_NULL ((struct settings){})
/* The file's size limit: a larger file was named by mistake. */
#define SETTINGS_FILE_MAX (1u << 20)

/* CHECK: check everything that a start needs. CHECK_SETTINGS: only check whether the settings are
 * acceptable, as a reload would. */
enum settings_action {
        SETTINGS_RUN,
        SETTINGS_CHECK,
        SETTINGS_CHECK_SETTINGS,
        SETTINGS_HELP,
        SETTINGS_VERSION
};

/* The defaults alone; @ret is SETTINGS_NULL before. -ERR_NOMEM. */
int settings_init(struct settings *ret, struct err *e);
/* Defaults, then the files that @argv names, then the flags. *ret_action is the requested action.
 * @ret is SETTINGS_NULL before; untouched on failure: -ERR_INVALID, -ERR_SYS, -ERR_NOMEM. */
int settings_load(struct settings *ret, int argc, char *const *argv,
        enum settings_action *ret_action, struct err *e);
/* As at start, but only reloadable settings of @s change. *ret_ignored: the name of a setting that
 * was changed in the file but needs a restart, or NULL. */
int settings_reload(
        struct settings *s, int argc, char *const *argv, const char **ret_ignored, struct err *e);
/* @ret is SETTINGS_NULL before; untouched on failure (-ERR_NOMEM). */
int settings_copy(struct settings *ret, const struct settings *s, struct err *e);
void settings_deinit(struct settings *s);

/* One setting from text (tests, and the parsers). */
int settings_set(struct settings *s, const char *name, const char *value, struct err *e);
const struct setting *settings_find(const char *name, size_t name_size);
/* Lines "name = value"; @path is for messages. */
int settings_parse_file(struct settings *s, const char *path, struct err *e);
/* Call @fn for each file that s->defaults and s->config lead to, in the order in which they are
 * applied; end with the first nonzero result and return it. -ERR_SYS if a file was named but there
 * is none. */
typedef int settings_file_fn(void *arg, const char *path, struct err *e);
int settings_each_file(const struct settings *s, settings_file_fn *fn, void *arg, struct err *e);

/* Texts made from the table: usage for --help, and man page sections (troff) of flags and of the
 * file. Return -ERR_NOMEM on failure. */
int settings_print_help(struct buf *out);
int settings_print_man(struct buf *out, bool flags);
/* A value in the notation of the file. */
int settings_print_value(struct buf *out, const struct settings *s, const struct setting *t);
