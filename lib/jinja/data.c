/* SPDX-License-Identifier: MIT */
#include "jinja/data.h"
#include "base/err.h"
#include "base/util.h"
#include "jinja/jinja.h"
#include <string.h>

int jinja_data_new(struct jinja_data **ret, size_t max, struct charge *charge, struct err *e) {
        _cleanup_(jinja_data_freep) struct jinja_data *d = calloc(1, sizeof(*d));

        if (!d)
                return err_set(e, ERR_NOMEM, "no memory for a template's values");
        d->arena = (struct arena){.max = max, .charge = charge, .what = "a template's input"};
        d->variables = dict_new(&d->arena);
        if (d->arena.error < 0)
                return err_set(
                        e, (enum err_code) - d->arena.error, "no room for a template's values");
        d->variables->constant = true;
        d->open[0] = v_dict(d->variables);
        d->depth = 1;
        *ret = TAKE_PTR(d);
        return 0;
}

struct jinja_data *jinja_data_free(struct jinja_data *d) {
        if (!d)
                return NULL;
        arena_deinit(&d->arena);
        free(d);
        return NULL;
}

static void fail(struct jinja_data *d, int code) {
        if (d->error == 0)
                d->error = code;
}

void data_put(struct jinja_data *d, struct value v) {
        struct value *open = &d->open[d->depth - 1], *key = &d->keys[d->depth - 1];

        if (d->error < 0)
                return;
        if (open->type == T_LIST) {
                list_add(&d->arena, open->list, v);
        } else if (key->type == T_UNDEFINED) {
                fail(d, -ERR_INVALID);
        } else {
                dict_set(&d->arena, open->dict, *key, v);
                *key = UNDEFINED;
        }
        if (d->arena.error < 0)
                fail(d, d->arena.error);
}

void jinja_data_key_n(struct jinja_data *d, const char *key, size_t n, bool trusted) {
        if (d->open[d->depth - 1].type == T_LIST || d->keys[d->depth - 1].type != T_UNDEFINED)
                fail(d, -ERR_INVALID);
        if (d->error == 0)
                d->keys[d->depth - 1] = v_string(string_new(&d->arena, key, n, trusted));
}

void jinja_data_key(struct jinja_data *d, const char *key, bool trusted) {
        jinja_data_key_n(d, key, strlen(key), trusted);
}

void jinja_data_string(struct jinja_data *d, const char *text, size_t n, bool trusted) {
        if (d->error == 0)
                data_put(d, v_string(string_new(&d->arena, text, n, trusted)));
}

void jinja_data_int(struct jinja_data *d, int64_t v) {
        data_put(d, v_int(v));
}

void jinja_data_double(struct jinja_data *d, double v) {
        data_put(d, v_float(v));
}

void jinja_data_bool(struct jinja_data *d, bool v) {
        data_put(d, v_bool(v));
}

void jinja_data_none(struct jinja_data *d) {
        data_put(d, v_trusted(NONE, false));
}

static void begin(struct jinja_data *d, struct value container) {
        if (d->error < 0)
                return;
        if (d->arena.error < 0) {
                fail(d, d->arena.error);
                return;
        }
        if (d->depth == DATA_DEPTH) {
                fail(d, -ERR_INVALID);
                return;
        }
        if (container.type == T_LIST)
                container.list->constant = true;
        else
                container.dict->constant = true;
        data_put(d, container);
        d->keys[d->depth] = UNDEFINED;
        d->open[d->depth++] = container;
}

void jinja_data_list_begin(struct jinja_data *d) {
        begin(d, v_list(list_new(&d->arena, 0)));
}

void jinja_data_dict_begin(struct jinja_data *d) {
        begin(d, v_dict(dict_new(&d->arena)));
}

static void end(struct jinja_data *d, enum type type) {
        if (d->depth < 2 || d->open[d->depth - 1].type != type ||
                d->keys[d->depth - 1].type != T_UNDEFINED)
                fail(d, -ERR_INVALID);
        else if (d->error == 0)
                d->depth--;
}

void jinja_data_list_end(struct jinja_data *d) {
        end(d, T_LIST);
}

void jinja_data_dict_end(struct jinja_data *d) {
        end(d, T_DICT);
}

int jinja_data_json(struct jinja_data *d, const char *text, size_t n, struct err *e) {
        struct value v;
        int r;

        if (d->error < 0)
                return jinja_data_finish(d, e);
        r = data_parse_json(&d->arena, text, n, &v, e);
        if (r < 0 && d->arena.error == 0)
                return r;
        data_put(d, v);
        return d->error < 0 ? jinja_data_finish(d, e) : 0;
}

int jinja_data_finish(struct jinja_data *d, struct err *e) {
        if (d->error == 0 && d->arena.error < 0)
                d->error = d->arena.error;
        if (d->error == 0 && (d->depth != 1 || d->keys[0].type != T_UNDEFINED))
                d->error = -ERR_INVALID;
        if (d->error == -ERR_TOO_LARGE)
                return err_set(e, ERR_TOO_LARGE,
                        "a template's input takes more than %zu bytes of memory", d->arena.max);
        if (d->error == -ERR_INVALID)
                return err_set(e, ERR_INVALID,
                        "a template's input: values, keys and containers do not fit together");
        if (d->error < 0)
                return err_set(e, (enum err_code) - d->error,
                        "a template's input does not fit into memory now");
        return 0;
}
