/* SPDX-License-Identifier: MIT */
#include "service/conf.h"
#include "service/conf-origin.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/util.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Between the words of a list. */
#define LIST_BLANKS " ,\t"

struct suffix {
        const char *text;
        uint64_t factor;
};
static const struct suffix size_suffixes[] = {
        {"", 1}, {"K", 1ull << 10}, {"M", 1ull << 20}, {"G", 1ull << 30}, {"T", 1ull << 40}};
static const struct suffix time_suffixes[] = {{"", 1000000}, {"us", 1}, {"ms", 1000},
        {"s", 1000000}, {"min", 60000000}, {"h", 3600000000}};

/* Which settings one source (a file, the command line) has given so far: a list grows within a source, and a later
 * source replaces it. */
struct source {
        const char *path; /* NULL: the command line */
        unsigned line;
        bool given[CONF_MAX_SETTINGS];
};

const struct setting *conf_find(const struct conf *conf, const char *name, size_t name_size) {
        for (size_t i = 0; i < conf->n; i++)
                if (strlen(conf->table[i].name) == name_size &&
                        memcmp(conf->table[i].name, name, name_size) == 0)
                        return &conf->table[i];
        return NULL;
}

static bool is_text(const struct setting *t) {
        return t->type == SETTING_TEXT || t->type == SETTING_LIST;
}

static char **text_at(void *settings, const struct setting *t) {
        return (char **)(void *)((char *)settings + t->offset);
}

static uint64_t *number_at(void *settings, const struct setting *t) {
        return (uint64_t *)(void *)((char *)settings + t->offset);
}

/* Parse digits of @base at the start of @value, up to *ret_rest. False: none, or too large. */
static bool parse_digits(const char *value, unsigned base, uint64_t *ret, const char **ret_rest) {
        uint64_t v = 0;
        const char *p = value;

        for (; *p >= '0' && (unsigned)(*p - '0') < base; p++)
                if (__builtin_mul_overflow(v, base, &v) ||
                        __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
                        return false;
        *ret = v;
        *ret_rest = p;
        return p != value;
}

static bool parse_scaled(
        const char *value, const struct suffix *suffixes, size_t n, uint64_t *ret) {
        const char *rest;
        uint64_t v;

        if (!parse_digits(value, 10, &v, &rest))
                return false;
        for (size_t i = 0; i < n; i++)
                if (strcmp(rest, suffixes[i].text) == 0)
                        return !__builtin_mul_overflow(v, suffixes[i].factor, ret);
        return false;
}

static bool parse_choice(const struct setting *t, const char *value, uint64_t *ret) {
        for (const struct setting_choice *c = t->choices; c->word; c++)
                if (strcmp(c->word, value) == 0) {
                        *ret = c->value;
                        return true;
                }
        return false;
}

static bool parse_number(const struct setting *t, const char *value, uint64_t *ret) {
        const char *rest;

        switch (t->type) {
        case SETTING_COUNT:
                return parse_digits(value, 10, ret, &rest) && !*rest;
        case SETTING_MODE:
                return parse_digits(value, 8, ret, &rest) && !*rest;
        case SETTING_SIZE:
                return parse_scaled(value, size_suffixes, ARRAY_SIZE(size_suffixes), ret);
        case SETTING_DURATION:
                return parse_scaled(value, time_suffixes, ARRAY_SIZE(time_suffixes), ret);
        case SETTING_CHOICE:
                return parse_choice(t, value, ret);
        case SETTING_FLAG:
                *ret = strcmp(value, "yes") == 0;
                return *ret == 1 || strcmp(value, "no") == 0;
        case SETTING_TEXT:
        case SETTING_LIST:
                break;
        }
        return false;
}

const char *conf_next_word(const char **at, size_t *ret_size) {
        const char *word = *at ? *at + strspn(*at, LIST_BLANKS) : NULL;

        if (!word || !*word)
                return NULL;
        *ret_size = strcspn(word, LIST_BLANKS);
        *at = word + *ret_size;
        return word;
}

/* @grows: @value is put behind what is there. */
static int set_text(
        void *settings, const struct setting *t, const char *value, bool grows, struct err *e) {
        char **text = text_at(settings, t), *copy;

        if (!value[strspn(value, LIST_BLANKS)])
                return err_set(e, ERR_INVALID, "%s: empty", t->name);
        if (!grows || !*text)
                copy = strdup(value);
        else if (asprintf(&copy, "%s %s", *text, value) < 0)
                copy = NULL;
        if (!copy)
                return err_set(e, ERR_NOMEM, "no memory for %s", t->name);
        free(*text);
        *text = copy;
        return 0;
}

/* The range, in the notation of the file. */
static int out_of_range(const struct setting *t, const char *value, struct err *e) {
        uint64_t unit = t->type == SETTING_DURATION ? 1000 : 1;

        if (t->type == SETTING_MODE)
                return err_set(e, ERR_INVALID, "%s: '%s' is not within 0000 to %04llo", t->name,
                        value, (unsigned long long)t->max);
        return err_set(e, ERR_INVALID, "%s: '%s' is not within %llu to %llu%s", t->name, value,
                (unsigned long long)(t->min / unit), (unsigned long long)(t->max / unit),
                t->type == SETTING_DURATION ? " ms"
                : t->type == SETTING_SIZE   ? " bytes"
                                            : "");
}

static int set_number(void *settings, const struct setting *t, const char *value, struct err *e) {
        uint64_t v;

        if (t->zero && strcmp(value, t->zero) == 0) {
                *number_at(settings, t) = 0;
                return 0;
        }
        if (!parse_number(t, value, &v))
                return err_set(e, ERR_INVALID, "%s: '%s' is not a %s", t->name, value,
                        t->type == SETTING_COUNT    ? "number"
                        : t->type == SETTING_MODE   ? "file mode in octal"
                        : t->type == SETTING_SIZE   ? "size (like 512M)"
                        : t->type == SETTING_CHOICE ? "known word"
                        : t->type == SETTING_FLAG   ? "yes or no"
                                                    : "time (like 10s)");
        /* Timers and the engine count milliseconds: nothing is rounded silently. */
        if (t->type == SETTING_DURATION && v % 1000 != 0)
                return err_set(e, ERR_INVALID, "%s: '%s' is not a whole number of milliseconds",
                        t->name, value);
        if (t->type != SETTING_CHOICE && t->type != SETTING_FLAG && (v < t->min || v > t->max))
                return out_of_range(t, value, e);
        *number_at(settings, t) = v;
        return 0;
}

/* @source may be NULL. */
static int set_one(const struct conf *conf, void *settings, const struct setting *t,
        const char *value, struct source *source, struct err *e) {
        bool *given = source ? &source->given[t - conf->table] : NULL;
        int r;

        if (is_text(t))
                r = set_text(settings, t, value, t->type == SETTING_LIST && given && *given, e);
        else
                r = set_number(settings, t, value, e);
        if (r == 0 && given)
                *given = true;
        if (r == 0 && given && conf->given_offset > 0)
                ((bool *)settings + conf->given_offset)[t - conf->table] = true;
        if (r == 0 && given)
                r = origin_note(conf, settings, t, source->path, source->line, e);
        return r;
}

bool conf_is_given(const struct conf *conf, const void *settings, const char *name) {
        const struct setting *t = conf_find(conf, name, strlen(name));

        return ((const bool *)settings + conf->given_offset)[t - conf->table];
}

int conf_set(const struct conf *conf, void *settings, const char *name, const char *value,
        struct err *e) {
        const struct setting *t = conf_find(conf, name, strlen(name));

        if (!t)
                return err_set(e, ERR_INVALID, "unknown setting '%s'", name);
        return set_one(conf, settings, t, value, NULL, e);
}

int conf_init(const struct conf *conf, void *settings, struct err *e) {
        for (size_t i = 0; i < conf->n; i++) {
                const struct setting *t = &conf->table[i];
                int r = t->initial ? set_one(conf, settings, t, t->initial, NULL, e) : 0;

                if (r < 0)
                        return r;
        }
        return 0;
}

static char *trim(char *s) {
        size_t n;

        while (isspace((unsigned char)*s))
                s++;
        n = strlen(s);
        while (n && isspace((unsigned char)s[n - 1]))
                n--;
        s[n] = 0;
        return s;
}

static int parse_line(
        const struct conf *conf, void *settings, char *line, struct source *source, struct err *e) {
        const struct setting *t;
        char *name = trim(line), *value;

        if (!*name || *name == '#')
                return 0;
        value = strchr(name, '=');
        if (!value)
                return err_set(e, ERR_INVALID, "'%s' is not 'name = value'", name);
        *value++ = 0;
        name = trim(name);
        t = conf_find(conf, name, strlen(name));
        if (!t)
                return err_set(e, ERR_INVALID, "unknown setting '%s'", name);
        if (t->flag_only)
                return err_set(e, ERR_INVALID, "'%s' is for the command line only", name);
        return set_one(conf, settings, t, trim(value), source, e);
}

int conf_parse_file(const struct conf *conf, void *settings, const char *path, struct err *e) {
        struct source source = {.path = path};
        _cleanup_(freep) char *text = NULL;
        size_t size;
        int r;

        r = file_read_all(path, CONF_FILE_MAX, &text, &size, e);
        if (r < 0)
                return r;
        if (strlen(text) != size)
                return err_set(e, ERR_INVALID, "%s: has a NUL byte", path);
        for (char *line = text, *next; line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                source.line++;
                r = parse_line(conf, settings, line, &source, e);
                if (r < 0)
                        return err_wrap(e, r, "%s:%u", path, source.line);
        }
        return 0;
}

/* True for a flag that asks for another action than serving. The last of several flags counts. */
static bool find_action(const struct conf *conf, const char *arg, enum conf_action *ret) {
        static const struct {
                const char *flag;
                enum conf_action action;
        } actions[] = {{"--help", CONF_HELP}, {"-h", CONF_HELP}, {"--version", CONF_VERSION},
                {"--check", CONF_CHECK}, {"--check-settings", CONF_CHECK_SETTINGS}};

        for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
                if (strcmp(arg, actions[i].flag) == 0 &&
                        (actions[i].action != CONF_CHECK || conf->takes_check)) {
                        *ret = actions[i].action;
                        return true;
                }
        return false;
}

/* What is filled, and what was asked for. */
struct reader {
        const struct conf *conf;
        void *settings;
        enum conf_action action;
};

/* Parse the flag at argv[*i]; *i moves on past it. */
static int parse_flag(struct reader *reader, int argc, char *const *argv, int *i,
        struct source *source, struct err *e) {
        const char *arg = argv[*i], *value;
        const struct setting *t;
        size_t n;
        int r;

        if (find_action(reader->conf, arg, &reader->action)) {
                ++*i;
                return 0;
        }
        if (strncmp(arg, "--", 2) != 0)
                return err_set(e, ERR_INVALID, "unexpected argument '%s'", arg);
        n = strcspn(arg + 2, "=");
        t = conf_find(reader->conf, arg + 2, n);
        if (!t)
                return err_set(e, ERR_INVALID, "unknown flag '%.*s'", (int)MIN(n + 2, 100ul), arg);
        if (t->type == SETTING_FLAG && arg[2 + n])
                return err_set(e, ERR_INVALID, "--%s takes no value", t->name);
        if (t->type == SETTING_FLAG)
                value = "yes";
        else if (arg[2 + n] == '=')
                value = arg + 2 + n + 1;
        else if (*i + 1 < argc)
                value = argv[++*i];
        else
                return err_set(e, ERR_INVALID, "--%s: a value is missing", t->name);
        ++*i;
        r = set_one(reader->conf, reader->settings, t, value, source, e);
        return err_wrap(e, r, "command line");
}

static int parse_flags(struct reader *reader, int argc, char *const *argv, struct err *e) {
        struct source source = {};

        for (int i = 1; i < argc;) {
                int r = parse_flag(reader, argc, argv, &i, &source, e);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_file(void *arg, const char *path, struct err *e) {
        struct reader *reader = arg;

        return conf_parse_file(reader->conf, reader->settings, path, e);
}

static int read_all(struct reader *reader, int argc, char *const *argv, struct err *e) {
        int r;

        r = conf_init(reader->conf, reader->settings, e);
        /* Once for --config, then again, so that flags win over the files. */
        if (r == 0)
                r = parse_flags(reader, argc, argv, e);
        if (r < 0 || reader->action > CONF_CHECK_SETTINGS)
                return r;
        r = conf_each_file(reader->conf, reader->settings, read_file, reader, e);
        if (r == 0)
                r = parse_flags(reader, argc, argv, e);
        return r == 0 ? reader->conf->check(reader->settings, e) : r;
}

int conf_load(const struct conf *conf, void *ret, int argc, char *const *argv,
        enum conf_action *ret_action, struct err *e) {
        struct reader reader = {.conf = conf, .settings = calloc(1, conf->size)};
        int r;

        if (!reader.settings)
                return err_set(e, ERR_NOMEM, "no memory for settings");
        r = read_all(&reader, argc, argv, e);
        if (r == 0) {
                memcpy(ret, reader.settings, conf->size);
                *ret_action = reader.action;
        } else {
                conf_deinit(conf, reader.settings);
        }
        free(reader.settings);
        return r;
}

static bool same_text(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The old one is freed with the settings that were read. */
static void swap_texts(char **a, char **b) {
        char *was = *a;

        *a = *b;
        *b = was;
}

bool conf_same(const void *a, const void *b, const struct setting *t) {
        const char *at = (const char *)a + t->offset, *bt = (const char *)b + t->offset;
        const char *text[2];

        if (!is_text(t))
                return memcmp(at, bt, sizeof(uint64_t)) == 0;
        memcpy(&text[0], at, sizeof(text[0]));
        memcpy(&text[1], bt, sizeof(text[1]));
        return same_text(text[0], text[1]);
}

static void add_name(char *names, size_t size, const char *name) {
        size_t n = strlen(names);

        (void)snprintf(names + n, size - n, "%s%s", n > 0 ? ", " : "", name);
}

/* Take over what may change. @waiting gets the names of what else differs. */
static void take_reloadable(
        const struct conf *conf, void *settings, void *fresh, char *waiting, size_t size) {
        for (size_t i = 0; i < conf->n; i++) {
                const struct setting *t = &conf->table[i];
                bool same = conf_same(settings, fresh, t);

                /* The same value may stand in another line now. */
                if (same || t->reloadable)
                        origin_swap(conf, settings, fresh, t);
                if (same)
                        continue;
                if (!t->reloadable)
                        add_name(waiting, size, t->name);
                else if (is_text(t))
                        swap_texts(text_at(settings, t), text_at(fresh, t));
                else
                        *number_at(settings, t) = *number_at(fresh, t);
        }
}

int conf_reload(const struct conf *conf, void *settings, int argc, char *const *argv,
        char *ret_waiting, size_t size, struct err *e) {
        _cleanup_(freep) void *fresh = calloc(1, conf->size);
        enum conf_action action;
        int r;

        *ret_waiting = '\0';
        if (!fresh)
                return err_set(e, ERR_NOMEM, "no memory for settings");
        r = conf_load(conf, fresh, argc, argv, &action, e);
        if (r < 0)
                return r;
        take_reloadable(conf, settings, fresh, ret_waiting, size);
        conf_deinit(conf, fresh);
        return 0;
}

int conf_copy(const struct conf *conf, void *ret, const void *settings, struct err *e) {
        _cleanup_(freep) void *copy = malloc(conf->size);
        bool complete = true;

        if (!copy)
                return err_set(e, ERR_NOMEM, "no memory for settings");
        memcpy(copy, settings, conf->size);
        for (size_t i = 0; i < conf->n; i++) {
                char **text = text_at(copy, &conf->table[i]);

                if (!is_text(&conf->table[i]) || !*text)
                        continue;
                *text = strdup(*text);
                complete = complete && *text;
        }
        complete = origins_dup(conf, copy) && complete;
        if (!complete) {
                conf_deinit(conf, copy);
                return err_set(e, ERR_NOMEM, "no memory for settings");
        }
        memcpy(ret, copy, conf->size);
        return 0;
}

void conf_deinit(const struct conf *conf, void *settings) {
        for (size_t i = 0; i < conf->n; i++)
                if (is_text(&conf->table[i]))
                        free(*text_at(settings, &conf->table[i]));
        origins_free(conf, settings);
        memset(settings, 0, conf->size);
}
