/* SPDX-License-Identifier: MIT */
/* The functions that every template can call. */
#include "base/util.h"
#include "jinja/jinja.h"
#include "jinja/run.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

static struct value g_range(struct run *r, const struct call *c) {
        int64_t from = 0, to, step = 1, n;
        bool trusted = c->n_named == 0;
        struct value v[3];
        struct list *l;

        if (!bind_args(r, c, "start stop step", 1, v))
                return UNDEFINED;
        to = arg_int(r, c, v[0], 0);
        if (c->n + c->n_named > 1) {
                from = to;
                to = arg_int(r, c, v[1], 0);
                step = arg_int(r, c, v[2], 1);
        }
        if (step == 0)
                return run_fail(r, "range() has a step of 0");
        if (step > 0 ? from >= to : from <= to)
                return v_list(list_new(&r->arena, 0));
        n = (int64_t)((step > 0 ? ((uint64_t)to - (uint64_t)from - 1) / (uint64_t)step
                                : ((uint64_t)from - (uint64_t)to - 1) / (0 - (uint64_t)step)));
        if (n == INT64_MAX || n < 0 || !run_items(r, (size_t)n + 1))
                return run_fail(r, "range() is too long");
        l = list_new(&r->arena, (size_t)n + 1);
        for (size_t i = 0; i < c->n; i++)
                trusted = trusted && c->args[i].trusted;
        for (int64_t i = 0; i <= n && !run_failed(r); i++)
                list_add(&r->arena, l, v_trusted(v_int(from + i * step), trusted));
        return v_list(l);
}

static struct value make_dict(struct run *r, const struct call *c) {
        struct dict *d = dict_new(&r->arena);
        struct entry *e;
        size_t at = 0;

        if (c->n > 1 || (c->n == 1 && c->args[0].type != T_DICT))
                return run_fail(r, "%s() takes a dict and named arguments", c->name);
        while (c->n == 1 && run_work(r, 1) && (e = dict_next(c->args[0].dict, &at)))
                dict_set(&r->arena, d, e->key, e->value);
        for (size_t i = 0; i < c->n_named && run_work(r, 1); i++)
                dict_set(&r->arena, d, v_string(c->names[i]), c->named[i]);
        return v_dict(d);
}

static struct value g_namespace(struct run *r, const struct call *c) {
        struct value v = make_dict(r, c);

        if (v.type == T_DICT)
                v.type = T_NAMESPACE;
        return v;
}

static struct value g_raise_exception(struct run *r, const struct call *c) {
        const struct string *s;
        struct value v;

        if (!bind_args(r, c, "message", 1, &v))
                return UNDEFINED;
        s = to_string(r, v);
        return run_fail(r, "the template refuses this: %.*s", (int)MIN(s->n, (size_t)250), s->text);
}

static struct value make_cycler(struct run *r, const struct call *c, enum type type) {
        struct cycler *cycler = arena_alloc(&r->arena, sizeof(*cycler));

        if (!cycler)
                return UNDEFINED;
        cycler->items = list_new(&r->arena, c->n);
        for (size_t i = 0; i < c->n; i++)
                list_add(&r->arena, cycler->items, c->args[i]);
        return (struct value){.type = (uint8_t)type, .cycler = cycler};
}

static struct value g_cycler(struct run *r, const struct call *c) {
        if (c->n == 0)
                return run_fail(r, "cycler() of nothing");
        return make_cycler(r, c, T_CYCLER);
}

static struct value g_joiner(struct run *r, const struct call *c) {
        struct call one = {.n = 1};
        struct value v;

        if (!bind_args(r, c, "sep", 0, &v))
                return UNDEFINED;
        if (v.type == T_UNDEFINED)
                v = v_string(string_static(&r->arena, ", ", true));
        one.args = &v;
        return make_cycler(r, &one, T_JOINER);
}

/* ---- strftime_now ---- */

static const char *const months[] = {"January", "February", "March", "April", "May", "June", "July",
        "August", "September", "October", "November", "December"};
static const char *const days[] = {
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

/* The number of one conversion, and how many digits it has; false: no such conversion. */
static bool time_number(char conversion, const struct tm *t, int *ret, int *ret_digits) {
        const struct {
                char conversion;
                int value, digits;
        } numbers[] = {{'Y', t->tm_year + 1900, 4}, {'y', (t->tm_year + 1900) % 100, 2},
                {'m', t->tm_mon + 1, 2}, {'d', t->tm_mday, 2}, {'e', t->tm_mday, 2},
                {'H', t->tm_hour, 2}, {'I', (t->tm_hour + 11) % 12 + 1, 2}, {'M', t->tm_min, 2},
                {'S', t->tm_sec, 2}, {'j', t->tm_yday + 1, 3}, {'w', t->tm_wday, 1},
                {'u', (t->tm_wday + 6) % 7 + 1, 1}, {'f', 0, 6},
                {'U', (t->tm_yday + 7 - t->tm_wday) / 7, 2},
                {'W', (t->tm_yday + 7 - (t->tm_wday + 6) % 7) / 7, 2}};

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                if (numbers[i].conversion == conversion) {
                        *ret = numbers[i].value;
                        *ret_digits = numbers[i].digits;
                        return true;
                }
        return false;
}

static const char *time_word(char conversion, const struct tm *t) {
        switch (conversion) {
        case 'p':
                return t->tm_hour < 12 ? "AM" : "PM";
        case 'B':
        case 'b':
        case 'h':
                return months[(unsigned)t->tm_mon % 12];
        case 'A':
        case 'a':
                return days[(unsigned)t->tm_wday % 7];
        case '%':
                return "%";
        default:
                return NULL;
        }
}

/* What stands for several conversions. */
static const char *time_composite(char conversion) {
        switch (conversion) {
        case 'F':
                return "%Y-%m-%d";
        case 'T':
        case 'X':
                return "%H:%M:%S";
        case 'R':
                return "%H:%M";
        case 'D':
        case 'x':
                return "%m/%d/%y";
        case 'c':
                return "%a %b %e %H:%M:%S %Y";
        default:
                return NULL;
        }
}

/* The conversion at format[*at], behind its '%'; English, whatever the locale. */
static bool put_time(
        struct text *t, const char *format, size_t n, size_t *at, const struct tm *tm) {
        bool bare = *at < n && format[*at] == '-';
        char conversion = 0, digits[16];
        const char *word;
        int v, width;

        *at += bare;
        if (*at < n)
                conversion = format[(*at)++];
        word = time_word(conversion, tm);
        if (word) {
                bool brief = conversion == 'b' || conversion == 'a' || conversion == 'h';

                text_add(t, word, brief ? 3 : strlen(word), true);
                return true;
        }
        if (!time_number(conversion, tm, &v, &width))
                return false;
        snprintf(digits, sizeof(digits), conversion == 'e' && !bare ? "%*d" : "%0*d",
                bare ? 0 : width, v);
        text_add(t, digits, strlen(digits), true);
        return true;
}

static bool put_times(
        struct text *t, const struct string *format, const struct tm *tm, bool composites) {
        for (size_t i = 0; i < format->n;) {
                const char *p = memchr(format->text + i, '%', format->n - i);
                size_t to = p ? (size_t)(p - format->text) : format->n;
                const char *more;

                text_add_part(t, format, i, to);
                i = to + 1;
                if (!p)
                        break;
                more = composites && i < format->n ? time_composite(format->text[i]) : NULL;
                if (more) {
                        struct string s = {.text = more, .n = strlen(more), .trusted = true};

                        put_times(t, &s, tm, false);
                        i++;
                } else if (!put_time(t, format->text, format->n, &i, tm)) {
                        return false;
                }
        }
        return true;
}

static struct value g_strftime_now(struct run *r, const struct call *c) {
        struct text *t = text_new(&r->arena, 0);
        const struct string *format;
        struct value v;

        if (!bind_args(r, c, "format", 1, &v) || !(format = arg_string(r, c, v, NULL)) ||
                !run_work(r, 1 + format->n))
                return UNDEFINED;
        if (!put_times(t, format, r->input->now, true))
                return run_fail(r, "strftime_now() does not know a conversion of its format");
        /* Which parts of the date are shown is the format's choice. */
        if (string_trusted_all(format, 0, format->n))
                return v_string(text_finish(t));
        return v_string(t ? string_new(&r->arena, t->data, t->used, false) : string_empty());
}

static const struct function functions[] = {{"range", g_range}, {"dict", make_dict},
        {"namespace", g_namespace}, {"raise_exception", g_raise_exception}, {"cycler", g_cycler},
        {"joiner", g_joiner}, {"strftime_now", g_strftime_now}};

const struct function *global_find(struct run *r, const struct string *name) {
        const struct function *f = function_find(functions, ARRAY_SIZE(functions), name);

        return f && f->run == g_strftime_now && !r->input->now ? NULL : f;
}
