/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The settings of confabd: their table is settings-table.c, what is made of it service/conf.h.
 */
#include "base/cleanup.h"
#include "service/conf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct settings {
        char *model, *socket, *state, *config; /* owned, NULL when not given */
        char *socket_group, *admin_group;      /* likewise */
        char *defaults, *model_fingerprint;    /* likewise */
        char *chat_format, *trusted_users;     /* likewise */
        char *store, *address;                 /* likewise */
        uint64_t store_timeout, lease_time;    /* usec */
        char *remote, *remote_user, *remote_password_file, *remote_ca_file; /* as above */
        uint64_t remote_timeout, remote_keep;                               /* usec */
        uint64_t remote_write_share, remote_writes_per_day;                 /* 0: none */
        /* engine */
        uint64_t pool_size; /* 0: auto */
        uint64_t threads, context, kv_type, batch_tokens, prefill_share, max_active,
                default_max_tokens, speculation, repack;
        uint64_t max_conversations, max_user_requests, max_queued, max_user_tenants, max_throwaways;
        uint64_t max_user_tokens, max_user_tokens_per_day, ram_share_per_user; /* 0: none */
        uint64_t spill_delay;                                                  /* usec; 0: never */
        uint64_t spill_codec;                                          /* UINT32_MAX: auto */
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
        uint64_t log_level;               /* syslog priority */
        uint64_t request_log;             /* 0 or 1 */
        char *origins[CONF_MAX_SETTINGS]; /* owned: see conf_origin() */
};

extern const struct setting settings_table[];
extern const size_t settings_n;
extern const struct conf settings_conf;
/* What struct conf has as check(). */
int settings_check(const void *settings, struct err *e);

#define SETTINGS_NULL ((struct settings){})

/* As the functions of service/conf.h. */

/* The defaults alone; @ret is SETTINGS_NULL before. -ERR_NOMEM. */
int settings_init(struct settings *ret, struct err *e);
/* Defaults, then the files that @argv names, then the flags. *ret_action is the requested action.
 * @ret is SETTINGS_NULL before; untouched on failure: -ERR_INVALID, -ERR_SYS, -ERR_NOMEM. */
int settings_load(struct settings *ret, int argc, char *const *argv, enum conf_action *ret_action,
        struct err *e);
/* As at start, but only reloadable settings of @s change: conf_reload(). */
int settings_reload(struct settings *s, int argc, char *const *argv, char *ret_waiting, size_t size,
        struct err *e);
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
int settings_each_file(const struct settings *s, conf_file_fn *fn, void *arg, struct err *e);

/* Texts made from the table: usage for --help, and man page sections (troff) of flags and of the
 * file. Return -ERR_NOMEM on failure. */
int settings_print_help(struct buf *out);
int settings_print_man(struct buf *out, bool flags);
/* A value in the notation of the file. */
int settings_print_value(struct buf *out, const struct settings *s, const struct setting *t);
