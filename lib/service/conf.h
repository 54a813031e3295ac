/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Settings of a program that serves: one table is the master copy of names, types, units, ranges, defaults and help. It
 * makes the parser of the configuration files, the command-line flags, --help, and the lists in the man pages. What
 * the settings are is the program's (daemon/settings.h, client/gateway/settings.h).
 *
 * 1. The files (conf-files.c has their order) override the defaults, and flags override the files.
 * 2. A value that does not parse or is out of range is an error that names file and line, or the
 *    flag; nothing is clamped.
 * 3. Reloading (SIGHUP) reads the files again and changes reloadable settings only; if anything in
 *    the files is wrong, nothing changes.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

enum setting_type {
        SETTING_TEXT,  /* not empty */
        SETTING_LIST,  /* words; given several times in one file, or as several flags, it grows */
        SETTING_COUNT, /* decimal */
        SETTING_SIZE,  /* bytes, with K, M, G or T (1024-based) */
        SETTING_DURATION, /* seconds, or with us, ms, s, min, h; kept as microseconds */
        SETTING_MODE,     /* octal */
        SETTING_CHOICE,   /* one of the words in `choices` */
        SETTING_FLAG,     /* 1 if the flag is there, which takes no value; flag_only */
};

struct setting_choice {
        const char *word;
        uint64_t value;
};

struct setting {
        const char *name; /* in the file; as a flag with "--" before it */
        enum setting_type type;
        size_t offset; /* in the program's struct: char * for text and lists, else uint64_t */
        uint64_t min, max;
        const char *initial;                  /* default, as written in the file; NULL: none */
        const char *zero;                     /* word for the value 0 ("auto"), or NULL */
        const struct setting_choice *choices; /* ends with a NULL word */
        const char *metavar;
        const char *help; /* one sentence or two, without a line break */
        bool reloadable, flag_only;
};

/* The file's size limit: a larger file was named by mistake. */
#define CONF_FILE_MAX (1u << 20)
/* A table has at most so many settings. */
#define CONF_MAX_SETTINGS 128

/* Settings of one program. All members are set, and never change. */
struct conf {
        const struct setting *table;
        size_t n;
        size_t size; /* of the program's struct, which is all zeroes before it is first filled */
        size_t defaults_offset,
                config_offset; /* of the names of the first two files: char *, may be NULL */
        size_t given_offset; /* of bool [CONF_MAX_SETTINGS], for conf_is_given(); 0: there is none */
        /* Of char *[CONF_MAX_SETTINGS], owned, for conf_origin(); 0: there is none. */
        size_t origins_offset;
        /* Whether the settings make sense together, and none is missing: 0 or -ERR_INVALID. */
        int (*check)(const void *settings, struct err *e);
        const char *usage;   /* --help, before the list */
        const char *actions; /* and behind it: flags that are no settings */
        bool takes_check;    /* --check is one of them */
};

/* CHECK: check everything that a start needs. CHECK_SETTINGS: only check whether the settings are
 * acceptable, as a reload would. */
enum conf_action { CONF_RUN, CONF_CHECK, CONF_CHECK_SETTINGS, CONF_HELP, CONF_VERSION };

/* @settings is the program's struct. It belongs to one thread. */

/* The defaults alone. -ERR_NOMEM. */
int conf_init(const struct conf *conf, void *settings, struct err *e);
/* Defaults, then the files that @argv names, then the flags. *ret_action is the requested action.
 * @ret is untouched on failure: -ERR_INVALID, -ERR_SYS, -ERR_NOMEM. */
int conf_load(const struct conf *conf, void *ret, int argc, char *const *argv,
        enum conf_action *ret_action, struct err *e);
/* As at start, but only reloadable settings change. @ret_waiting: the names of those that were changed in the files and wait
 * for a restart, as "a, b", cut to @size bytes, which are 1 or more; "": none. It is "" on failure, too. */
int conf_reload(const struct conf *conf, void *settings, int argc, char *const *argv,
        char *ret_waiting, size_t size, struct err *e);
/* @ret is all zeroes before; untouched on failure (-ERR_NOMEM). */
int conf_copy(const struct conf *conf, void *ret, const void *settings, struct err *e);
/* All zeroes afterwards. */
void conf_deinit(const struct conf *conf, void *settings);

/* One setting from text. */
int conf_set(const struct conf *conf, void *settings, const char *name, const char *value,
        struct err *e);
/* Whether a file or a flag gave it, be it the default; @name is one of the table. */
bool conf_is_given(const struct conf *conf, const void *settings, const char *name);
/* Where the value of @t comes from: "FILE:LINE" or "command line"; NULL: it is the default. The text is the
 * settings' own. @conf has an origins_offset. */
const char *conf_origin(const struct conf *conf, const void *settings, const struct setting *t);
/* Whether both have the same value of @t. */
bool conf_same(const void *a, const void *b, const struct setting *t);
const struct setting *conf_find(const struct conf *conf, const char *name, size_t name_size);
/* Lines "name = value"; @path is for messages. */
int conf_parse_file(const struct conf *conf, void *settings, const char *path, struct err *e);
/* Call @fn for each file that the settings lead to, in the order in which they are
 * applied; end with the first nonzero result and return it. -ERR_SYS if a file was named but there
 * is none. */
typedef int conf_file_fn(void *arg, const char *path, struct err *e);
int conf_each_file(
        const struct conf *conf, const void *settings, conf_file_fn *fn, void *arg, struct err *e);

/* The words of a list one by one: *at begins as the setting's value (may be NULL) and moves on; NULL at the end.
 * The word has *ret_size bytes and no NUL behind it. */
const char *conf_next_word(const char **at, size_t *ret_size);

/* Enough for most lists of names. */
#define CONF_NAMES_SIZE 512
/* The names of the settings that have another value in @after than in @before, as "a, b", cut to @size bytes; returns how many
 * they are. */
size_t conf_list_changes(
        const struct conf *conf, const void *before, const void *after, char *ret, size_t size);

/* Texts made from the table: usage for --help, and man page sections (troff) of flags and of the
 * file. Return -ERR_NOMEM on failure. */
int conf_print_help(const struct conf *conf, struct buf *out);
int conf_print_man(const struct conf *conf, struct buf *out, bool flags);
/* A value in the notation of the file. */
int conf_print_value(struct buf *out, const void *settings, const struct setting *setting);
