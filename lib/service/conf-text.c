/* SPDX-License-Identifier: MIT */
/* The table of settings as text: --help and man pages. */
#include "base/buf.h"
#include "base/err.h"
#include "service/conf.h"
#include <string.h>

#define HELP_INDENT 10
#define HELP_WIDTH 79

static int print_words(struct buf *out, const struct setting *t, const char *between) {
        int r = 0;

        for (const struct setting_choice *c = t->choices; c && c->word && r == 0; c++)
                r = buf_printf(out, "%s%s", c == t->choices ? "" : between, c->word);
        return r;
}

/* The value's name with the words that may replace it: "BYTES|auto", "f16|f32". */
static int print_metavar(struct buf *out, const struct setting *t) {
        if (t->choices)
                return print_words(out, t, "|");
        if (t->zero)
                return buf_printf(out, "%s|%s", t->metavar, t->zero);
        return buf_append_str(out, t->metavar);
}

/* @text in lines of at most HELP_WIDTH, each indented. */
static int print_wrapped(struct buf *out, const char *text) {
        size_t column = 0;
        int r = 0;

        while (*text && r == 0) {
                size_t n = strcspn(text, " ");

                if (column == 0 || column + 1 + n > HELP_WIDTH) {
                        r = buf_printf(out, "%s%*s%.*s", column ? "\n" : "", HELP_INDENT, "",
                                (int)n, text);
                        column = HELP_INDENT + n;
                } else {
                        r = buf_printf(out, " %.*s", (int)n, text);
                        column += 1 + n;
                }
                text += n;
                text += strspn(text, " ");
        }
        return r < 0 ? r : buf_append_str(out, "\n");
}

static int print_setting(struct buf *out, const struct setting *t) {
        size_t start = out->size;
        int r;

        r = buf_printf(out, "  --%s", t->name);
        if (r == 0 && t->type != SETTING_FLAG)
                r = buf_append_str(out, " ");
        if (r == 0 && t->type != SETTING_FLAG)
                r = print_metavar(out, t);
        if (r == 0 && t->initial) {
                bool fits = out->size - start + strlen(" (default: )") + strlen(t->initial) <=
                            HELP_WIDTH;

                r = buf_printf(out, "%s%*s(default: %s)", fits ? "" : "\n", fits ? 1 : HELP_INDENT,
                        "", t->initial);
        }
        if (r == 0)
                r = buf_append_str(out, "\n");
        return r == 0 ? print_wrapped(out, t->help) : r;
}

int conf_print_help(const struct conf *conf, struct buf *out) {
        int r = buf_append_str(out, conf->usage);

        for (size_t i = 0; i < conf->n && r == 0; i++)
                r = print_setting(out, &conf->table[i]);
        return r == 0 ? buf_append_str(out, conf->actions) : r;
}

/* In troff, minus signs must be written "\-" to be copyable. */
static int print_troff(struct buf *out, const char *s) {
        int r = 0;

        for (; *s && r == 0; s++)
                r = *s == '-'    ? buf_append_str(out, "\\-")
                    : *s == '\\' ? buf_append_str(out, "\\e")
                                 : buf_append(out, s, 1);
        return r;
}

static int print_man_entry(struct buf *out, const struct setting *t, bool flag) {
        int r;

        r = buf_printf(out, ".TP\n.B %s", flag ? "\\-\\-" : "");
        if (r == 0)
                r = print_troff(out, t->name);
        if (r == 0 && t->type != SETTING_FLAG) {
                r = buf_append_str(out, flag ? " \\fI" : " = \\fI");
                if (r == 0)
                        r = print_metavar(out, t);
                if (r == 0)
                        r = buf_append_str(out, "\\fR");
        }
        if (r == 0)
                r = buf_append_str(out, "\n");
        if (r == 0)
                r = print_troff(out, t->help);
        if (r == 0 && t->initial) {
                r = buf_append_str(out, "\nDefault: ");
                if (r == 0)
                        r = print_troff(out, t->initial);
                if (r == 0)
                        r = buf_append_str(out, ".");
        }
        if (r == 0 && t->reloadable && !flag)
                r = buf_append_str(out, "\nTaken over on reload.");
        return r < 0 ? r : buf_append_str(out, "\n");
}

int conf_print_man(const struct conf *conf, struct buf *out, bool flags) {
        int r = 0;

        for (size_t i = 0; i < conf->n && r == 0; i++)
                if (flags || !conf->table[i].flag_only)
                        r = print_man_entry(out, &conf->table[i], flags);
        return r;
}

static int print_size(struct buf *out, uint64_t v) {
        static const char units[] = {'T', 'G', 'M', 'K'};

        for (unsigned i = 0; i < 4; i++) {
                uint64_t factor = 1ull << (40 - 10 * i);

                if (v && v % factor == 0)
                        return buf_printf(
                                out, "%llu%c", (unsigned long long)(v / factor), units[i]);
        }
        return buf_printf(out, "%llu", (unsigned long long)v);
}

static int print_duration(struct buf *out, uint64_t usec) {
        if (usec % 1000000 == 0)
                return buf_printf(out, "%llus", (unsigned long long)(usec / 1000000));
        if (usec % 1000 == 0)
                return buf_printf(out, "%llums", (unsigned long long)(usec / 1000));
        return buf_printf(out, "%lluus", (unsigned long long)usec);
}

int conf_print_value(struct buf *out, const void *settings, const struct setting *t) {
        const void *at = (const char *)settings + t->offset;
        const char *text;
        uint64_t v;

        if (t->type == SETTING_TEXT || t->type == SETTING_LIST) {
                memcpy(&text, at, sizeof(text));
                return buf_append_str(out, text ? text : "");
        }
        memcpy(&v, at, sizeof(v));
        if (v == 0 && t->zero)
                return buf_append_str(out, t->zero);
        switch (t->type) {
        case SETTING_FLAG:
                return buf_append_str(out, v ? "yes" : "no");
        case SETTING_MODE:
                return buf_printf(out, "%04llo", (unsigned long long)v);
        case SETTING_SIZE:
                return print_size(out, v);
        case SETTING_DURATION:
                return print_duration(out, v);
        case SETTING_CHOICE:
                for (const struct setting_choice *c = t->choices; c->word; c++)
                        if (c->value == v)
                                return buf_append_str(out, c->word);
                return -ERR_INVALID;
        default:
                return buf_printf(out, "%llu", (unsigned long long)v);
        }
}

size_t conf_list_changes(
        const struct conf *conf, const void *before, const void *after, char *ret, size_t size) {
        size_t n = 0, at = 0;

        ret[0] = '\0';
        for (size_t i = 0; i < conf->n; i++) {
                const struct setting *t = &conf->table[i];

                if (conf_same(before, after, t))
                        continue;
                if (at < size)
                        at += (size_t)snprintf(
                                ret + at, size - at, "%s%s", n > 0 ? ", " : "", t->name);
                n++;
        }
        return n;
}
