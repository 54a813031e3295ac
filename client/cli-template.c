/* SPDX-License-Identifier: MIT */
#include "client/cli-template.h"
#include "base/err.h"
#include "base/json-tree.h"
#include "base/util.h"
#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

struct filling {
        struct buf out;
        const char *line; /* plain: */
        size_t size;
        const struct json_value *object; /* JSON: */
        struct err *e;
};

static int put(struct filling *f, const void *s, size_t n) {
        int r = buf_append(&f->out, s, n);

        if (r == -ERR_LIMIT)
                return err_set(
                        f->e, ERR_TOO_LARGE, "the question is longer than %zu bytes", f->out.max);
        return r < 0 ? err_no_memory(f->e) : 0;
}

/* A string as it is, other values as JSON. */
static int put_value(struct filling *f, const struct json_value *v) {
        struct buf b = BUF_NULL;
        struct json j;
        int r;

        if (v->kind == JSON_KIND_STRING)
                return put(f, v->text, v->size);
        json_init(&j, &b);
        json_tree_put(&j, v);
        r = json_finish(&j) < 0 ? err_no_memory(f->e) : put(f, b.data, b.size);
        buf_deinit(&b);
        return r;
}

/* What {NAME}, or {} if @n is 0, stands for. */
static int put_member(struct filling *f, const char *name, size_t n) {
        const struct json_value *v;
        char key[128];

        if (!f->object && n == 0)
                return put(f, f->line, f->size);
        if (n >= sizeof(key))
                return err_set(f->e, ERR_INVALID, "a name in the template is too long");
        memcpy(key, name, n);
        key[n] = 0;
        v = json_tree_get(f->object, n ? key : "message");
        if (!v && n == 0)
                v = json_tree_get(f->object, "text");
        if (!v && n == 0)
                return err_set(
                        f->e, ERR_INVALID, "the object has no member \"message\" or \"text\"");
        if (!v)
                return err_set(f->e, ERR_INVALID, "the object has no member \"%s\"", key);
        return put_value(f, v);
}

/* The length of "{NAME}" or "{}" at the beginning of @s, or 0. Plain lines have no names. */
static size_t place_at(const struct filling *f, const char *s) {
        size_t n = *s == '{' ? strspn(s + 1, f->object ? NAME_CHARS : "") : 0;

        return *s == '{' && s[1 + n] == '}' ? n + 2 : 0;
}

static int fill(struct filling *f, const char *template) {
        int r = 0;

        while (*template && r == 0) {
                size_t text = strcspn(template, "{"), n;

                if (text > 0) {
                        r = put(f, template, text);
                        template += text;
                } else if ((n = place_at(f, template))) {
                        r = put_member(f, template + 1, n - 2);
                        template += n;
                } else if ((n = place_at(f, template + 1)) && template[1 + n] == '}') {
                        r = put(f, template + 1, n);
                        template += n + 2;
                } else {
                        r = put(f, template ++, 1);
                }
        }
        return r;
}

static bool is_blank(const char *s, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!memchr(" \t\r\n\v\f", s[i], 6))
                        return false;
        return true;
}

static int take_id(struct question *q, const struct json_value *id, struct err *e) {
        struct buf b = BUF_NULL;
        struct json j;

        if (!id)
                return 0;
        json_init(&j, &b);
        json_tree_put(&j, id);
        if (json_finish(&j) == 0)
                q->id = buf_take(&b, NULL);
        buf_deinit(&b);
        return q->id ? 0 : err_no_memory(e);
}

/* The reader tells line and column of what it read, which is one line of many. */
static int parse(struct json_value **ret, const char *line, size_t size, struct err *e) {
        static const char line_1[] = "line 1, ";
        int r = json_tree_parse(ret, line, size, e);

        if (r < 0 && e && strncmp(e->msg, line_1, strlen(line_1)) == 0)
                memmove(e->msg, e->msg + strlen(line_1), strlen(e->msg + strlen(line_1)) + 1);
        return r;
}

int question_make(struct question *ret, const char *template, bool json, const char *line,
        size_t size, size_t max, struct err *e) {
        struct filling f = {.out.max = max, .line = line, .size = size, .e = e};
        struct json_value *root = NULL;
        int r = 0;

        *ret = (struct question){0};
        if (is_blank(line, size))
                return 0;
        if (json)
                r = parse(&root, line, size, e);
        if (r == 0 && json && !json_tree_is(root, JSON_KIND_OBJECT))
                r = err_set(e, ERR_INVALID, "a line of JSON has to be an object");
        f.object = root;
        if (r == 0)
                r = take_id(ret, json_tree_get(root, "id"), e);
        if (r == 0)
                r = template ? fill(&f, template) : put_member(&f, "", 0);
        if (r == 0 && is_blank((const char *)f.out.data, f.out.size))
                r = err_set(e, ERR_INVALID, "the question is empty");
        if (r == 0 && !(ret->text = buf_take(&f.out, &ret->size)))
                r = err_no_memory(e);
        buf_deinit(&f.out);
        json_tree_free(root);
        return r;
}

void question_deinit(struct question *q) {
        free(q->text);
        free(q->id);
        *q = (struct question){0};
}
