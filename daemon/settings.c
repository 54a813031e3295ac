/* SPDX-License-Identifier: MIT */
#include "daemon/settings.h"
#include "base/err.h"
#include "base/file.h"
#include "base/util.h"
#include "daemon/trusted.h"
#include <ctype.h>
#include <string.h>

struct suffix {
        const char *text;
        uint64_t factor;
};
static const struct suffix size_suffixes[] = {
        {"", 1}, {"K", 1ull << 10}, {"M", 1ull << 20}, {"G", 1ull << 30}, {"T", 1ull << 40}};
static const struct suffix time_suffixes[] = {{"", 1000000}, {"us", 1}, {"ms", 1000},
        {"s", 1000000}, {"min", 60000000}, {"h", 3600000000}};

const struct setting *settings_find(const char *name, size_t name_size) {
        for (size_t i = 0; i < settings_n; i++)
                if (strlen(settings_table[i].name) == name_size &&
                        memcmp(settings_table[i].name, name, name_size) == 0)
                        return &settings_table[i];
        return NULL;
}

static char **text_at(struct settings *s, const struct setting *t) {
        return (char **)((char *)s + t->offset);
}

static uint64_t *number_at(struct settings *s, const struct setting *t) {
        return (uint64_t *)((char *)s + t->offset);
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
        case SETTING_TEXT:
                break;
        }
        return false;
}

static int set_text(struct settings *s, const struct setting *t, const char *value, struct err *e) {
        char *copy;

        if (!*value)
                return err_set(e, ERR_INVALID, "%s: empty", t->name);
        copy = strdup(value);
        if (!copy)
                return err_set(e, ERR_NOMEM, "no memory for %s", t->name);
        free(*text_at(s, t));
        *text_at(s, t) = copy;
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

static int set_one(struct settings *s, const struct setting *t, const char *value, struct err *e) {
        uint64_t v;

        if (t->type == SETTING_TEXT)
                return set_text(s, t, value, e);
        if (t->zero && strcmp(value, t->zero) == 0) {
                *number_at(s, t) = 0;
                return 0;
        }
        if (!parse_number(t, value, &v))
                return err_set(e, ERR_INVALID, "%s: '%s' is not a %s", t->name, value,
                        t->type == SETTING_COUNT    ? "number"
                        : t->type == SETTING_MODE   ? "file mode in octal"
                        : t->type == SETTING_SIZE   ? "size (like 512M)"
                        : t->type == SETTING_CHOICE ? "known word"
                                                    : "time (like 10s)");
        /* Timers and the engine count milliseconds: nothing is rounded silently. */
        if (t->type == SETTING_DURATION && v % 1000 != 0)
                return err_set(e, ERR_INVALID, "%s: '%s' is not a whole number of milliseconds",
                        t->name, value);
        if (t->type != SETTING_CHOICE && (v < t->min || v > t->max))
                return out_of_range(t, value, e);
        *number_at(s, t) = v;
        return 0;
}

int settings_set(struct settings *s, const char *name, const char *value, struct err *e) {
        const struct setting *t = settings_find(name, strlen(name));

        if (!t)
                return err_set(e, ERR_INVALID, "unknown setting '%s'", name);
        return set_one(s, t, value, e);
}

int settings_init(struct settings *s, struct err *e) {
        for (size_t i = 0; i < settings_n; i++) {
                int r = settings_table[i].initial
                                ? set_one(s, &settings_table[i], settings_table[i].initial, e)
                                : 0;

                if (r < 0)
                        return r;
        }
        return 0;
}

/* Settings that only make sense together. */
static int check_whole(const struct settings *s, struct err *e) {
        _cleanup_(trusted_deinit) struct trusted trusted = TRUSTED_NULL;

        if (s->output_low >= s->output_high)
                return err_set(e, ERR_INVALID, "output-low must be less than output-high");
        if (s->output_high >= s->output_limit)
                return err_set(e, ERR_INVALID, "output-high must be less than output-limit");
        return trusted_parse(&trusted, s->trusted_users, e);
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

static int parse_line(struct settings *s, char *line, struct err *e) {
        const struct setting *t;
        char *name = trim(line), *value;

        if (!*name || *name == '#')
                return 0;
        value = strchr(name, '=');
        if (!value)
                return err_set(e, ERR_INVALID, "'%s' is not 'name = value'", name);
        *value++ = 0;
        name = trim(name);
        t = settings_find(name, strlen(name));
        if (!t)
                return err_set(e, ERR_INVALID, "unknown setting '%s'", name);
        if (t->flag_only)
                return err_set(e, ERR_INVALID, "'%s' is for the command line only", name);
        return set_one(s, t, trim(value), e);
}

int settings_parse_file(struct settings *s, const char *path, struct err *e) {
        _cleanup_(freep) char *text = NULL;
        unsigned n = 0;
        size_t size;
        int r;

        r = file_read_all(path, SETTINGS_FILE_MAX, &text, &size, e);
        if (r < 0)
                return r;
        if (strlen(text) != size)
                return err_set(e, ERR_INVALID, "%s: has a NUL byte", path);
        for (char *line = text, *next; line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                n++;
                r = parse_line(s, line, e);
                if (r < 0)
                        return err_wrap(e, r, "%s:%u", path, n);
        }
        return 0;
}

/* True for a flag that asks for another action than serving. The last of several flags counts. */
static bool find_action(const char *arg, enum settings_action *ret) {
        static const struct {
                const char *flag;
                enum settings_action action;
        } actions[] = {{"--help", SETTINGS_HELP}, {"-h", SETTINGS_HELP},
                {"--version", SETTINGS_VERSION}, {"--check", SETTINGS_CHECK},
                {"--check-settings", SETTINGS_CHECK_SETTINGS}};

        for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
                if (strcmp(arg, actions[i].flag) == 0) {
                        *ret = actions[i].action;
                        return true;
                }
        return false;
}

/* Parse the flag at argv[*i]; *i moves on past it. */
static int parse_flag(struct settings *s, int argc, char *const *argv, int *i,
        enum settings_action *action, struct err *e) {
        const char *arg = argv[*i], *value;
        const struct setting *t;
        size_t n;

        if (find_action(arg, action)) {
                ++*i;
                return 0;
        }
        if (strncmp(arg, "--", 2) != 0)
                return err_set(e, ERR_INVALID, "unexpected argument '%s'", arg);
        n = strcspn(arg + 2, "=");
        t = settings_find(arg + 2, n);
        if (!t)
                return err_set(e, ERR_INVALID, "unknown flag '%.*s'", (int)MIN(n + 2, 100ul), arg);
        if (arg[2 + n] == '=')
                value = arg + 2 + n + 1;
        else if (*i + 1 < argc)
                value = argv[++*i];
        else
                return err_set(e, ERR_INVALID, "--%s: a value is missing", t->name);
        ++*i;
        n = (size_t)set_one(s, t, value, e);
        return err_wrap(e, (int)n, "command line");
}

static int parse_flags(struct settings *s, int argc, char *const *argv,
        enum settings_action *action, struct err *e) {
        for (int i = 1; i < argc;) {
                int r = parse_flag(s, argc, argv, &i, action, e);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_file(void *arg, const char *path, struct err *e) {
        return settings_parse_file(arg, path, e);
}

static int no_model(const struct settings *s, struct err *e) {
        if (s->config)
                return err_set(e, ERR_INVALID, "no model: put 'model = FILE' into %s", s->config);
        return err_set(e, ERR_INVALID, "no model: give --model FILE");
}

int settings_load(struct settings *ret, int argc, char *const *argv,
        enum settings_action *ret_action, struct err *e) {
        _cleanup_(settings_deinit) struct settings s = SETTINGS_NULL;
        enum settings_action action = SETTINGS_RUN;
        int r;

        r = settings_init(&s, e);
        if (r < 0)
                return r;
        /* Once for --config, then again, so that flags win over the files. */
        r = parse_flags(&s, argc, argv, &action, e);
        if (r < 0)
                return r;
        if (action <= SETTINGS_CHECK_SETTINGS) {
                r = settings_each_file(&s, read_file, &s, e);
                if (r == 0)
                        r = parse_flags(&s, argc, argv, &action, e);
                if (r == 0)
                        r = s.model ? check_whole(&s, e) : no_model(&s, e);
                if (r < 0)
                        return r;
        }
        *ret = s;
        s = SETTINGS_NULL;
        *ret_action = action;
        return 0;
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

int settings_reload(
        struct settings *s, int argc, char *const *argv, const char **ret_ignored, struct err *e) {
        _cleanup_(settings_deinit) struct settings fresh = SETTINGS_NULL;
        enum settings_action action;
        const char *ignored = NULL;
        int r;

        r = settings_load(&fresh, argc, argv, &action, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < settings_n; i++) {
                const struct setting *t = &settings_table[i];
                bool same = t->type == SETTING_TEXT ? same_text(*text_at(s, t), *text_at(&fresh, t))
                                                    : *number_at(s, t) == *number_at(&fresh, t);

                if (same)
                        continue;
                if (!t->reloadable)
                        ignored = t->name;
                else if (t->type == SETTING_TEXT)
                        swap_texts(text_at(s, t), text_at(&fresh, t));
                else
                        *number_at(s, t) = *number_at(&fresh, t);
        }
        *ret_ignored = ignored;
        return 0;
}

int settings_copy(struct settings *ret, const struct settings *s, struct err *e) {
        _cleanup_(settings_deinit) struct settings copy = *s;
        bool complete = true;

        for (size_t i = 0; i < settings_n; i++) {
                char **text = text_at(&copy, &settings_table[i]);

                if (settings_table[i].type != SETTING_TEXT || !*text)
                        continue;
                *text = strdup(*text);
                complete = complete && *text;
        }
        if (!complete)
                return err_set(e, ERR_NOMEM, "no memory for settings");
        *ret = copy;
        copy = SETTINGS_NULL;
        return 0;
}

void settings_deinit(struct settings *s) {
        for (size_t i = 0; i < settings_n; i++)
                if (settings_table[i].type == SETTING_TEXT)
                        free(*text_at(s, &settings_table[i]));
        *s = SETTINGS_NULL;
}
