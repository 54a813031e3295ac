/* SPDX-License-Identifier: MIT */
#include "base/json-tree.h"
#include "base/err.h"
#include "base/json-read.h"
#include "base/util.h"
#include <errno.h>

#define DEPTH_MAX 64 /* the reader's */

struct builder {
        struct json_reader reader;
        struct json_value *open
                [DEPTH_MAX]; /* arrays and objects that are not at their ends, the outermost first */
        size_t depth, n_values;
        char *key; /* owned: of the member that comes */
        size_t key_size;
        struct err *e;
};

/* Children before parents, without recursion: a value whose first child was taken away comes again. */
struct json_value *json_tree_free(struct json_value *value) {
        while (value) {
                struct json_value *child = value->first, *next = value->next;

                if (child) { /* the children go first, and then what is behind them */
                        value->first = NULL;
                        value->last->next = value;
                        value = child;
                        continue;
                }
                free(value->key);
                free(value->text);
                free(value);
                value = next;
        }
        return NULL;
}

static int no_memory(struct builder *b) {
        return err_set(b->e, ERR_NOMEM, "no memory for a JSON value");
}

/* A copy of the reader's present string; *ret is untouched on failure. */
static int copy_string(struct builder *b, char **ret, size_t *ret_size) {
        char *copy = text_dup(b->reader.string.data, b->reader.string.size);

        if (!copy)
                return no_memory(b);
        *ret = copy;
        *ret_size = b->reader.string.size;
        return 0;
}

static enum json_kind kind_of(enum json_item item) {
        switch (item) {
        case JSON_ITEM_FALSE:
                return JSON_KIND_FALSE;
        case JSON_ITEM_TRUE:
                return JSON_KIND_TRUE;
        case JSON_ITEM_NUMBER:
                return JSON_KIND_NUMBER;
        case JSON_ITEM_STRING:
                return JSON_KIND_STRING;
        case JSON_ITEM_ARRAY:
                return JSON_KIND_ARRAY;
        case JSON_ITEM_OBJECT:
                return JSON_KIND_OBJECT;
        default:
                return JSON_KIND_NULL;
        }
}

static int fill(struct builder *b, struct json_value *value) {
        const struct json_reader *reader = &b->reader;

        if (value->kind == JSON_KIND_STRING)
                return copy_string(b, &value->text, &value->size);
        if (value->kind == JSON_KIND_NUMBER) {
                value->size = reader->at - reader->start;
                value->text = text_dup(reader->text + reader->start, value->size);
                return value->text ? 0 : no_memory(b);
        }
        return 0;
}

/* The value that begins with @item, put into the one that is open, or into *root. */
static int add_value(struct builder *b, enum json_item item, struct json_value **root) {
        struct json_value *value, *parent = b->depth ? b->open[b->depth - 1] : NULL;

        if (b->n_values++ == JSON_TREE_VALUES_MAX)
                return err_set(b->e, ERR_TOO_LARGE, "the JSON has more than %zu values",
                        JSON_TREE_VALUES_MAX);
        value = calloc(1, sizeof(*value));
        if (!value)
                return no_memory(b);
        value->kind = kind_of(item);
        value->key = TAKE_PTR(b->key);
        value->key_size = b->key_size;
        if (!parent)
                *root = value;
        else if (parent->last)
                parent->last->next = value;
        else
                parent->first = value;
        if (parent) {
                parent->last = value;
                parent->n++;
        }
        if (value->kind == JSON_KIND_ARRAY || value->kind == JSON_KIND_OBJECT)
                b->open[b->depth++] = value; /* the reader refuses what is nested deeper */
        return fill(b, value);
}

static int build(struct builder *b, struct json_value **root) {
        enum json_item item;
        int r;

        for (;;) {
                r = json_next(&b->reader, &item, b->e);
                if (r < 0 || item == JSON_ITEM_END)
                        return r;
                if (item == JSON_ITEM_KEY)
                        r = copy_string(b, &b->key, &b->key_size);
                else if (item == JSON_ITEM_ARRAY_END || item == JSON_ITEM_OBJECT_END)
                        b->depth--;
                else
                        r = add_value(b, item, root);
                if (r < 0)
                        return r;
        }
}

int json_tree_parse(struct json_value **ret, const char *text, size_t size, struct err *e) {
        _cleanup_(json_tree_freep) struct json_value *root = NULL;
        struct builder b = {.e = e};
        int r;

        json_reader_init(&b.reader, text, size);
        r = build(&b, &root);
        json_reader_deinit(&b.reader);
        free(b.key);
        if (r == 0)
                *ret = TAKE_PTR(root);
        return r;
}

/* ---- looking ---- */

const struct json_value *json_tree_get(const struct json_value *object, const char *name) {
        const struct json_value *found = NULL;
        size_t size = strlen(name);

        if (!json_tree_is(object, JSON_KIND_OBJECT))
                return NULL;
        for (const struct json_value *v = object->first; v; v = v->next)
                if (v->key_size == size && memcmp(v->key, name, size) == 0)
                        found = v;
        return found;
}

const char *json_tree_string(const struct json_value *value) {
        if (!json_tree_is(value, JSON_KIND_STRING) || strlen(value->text) != value->size)
                return NULL;
        return value->text;
}

bool json_tree_integer(const struct json_value *value, int64_t *ret) {
        long long v;

        if (!json_tree_is(value, JSON_KIND_NUMBER) || strpbrk(value->text, ".eE"))
                return false;
        errno = 0;
        v = strtoll(value->text, NULL, 10);
        if (errno)
                return false;
        *ret = v;
        return true;
}

static void put_children(struct json *j, const struct json_value *value) {
        for (const struct json_value *v = value->first; v && j->error == 0; v = v->next) {
                if (v->key)
                        json_put_key_n(j, v->key, v->key_size);
                json_tree_put(j, v);
        }
}

/* As deep as the reader goes at most. */
void json_tree_put(struct json *j, const struct json_value *value) {
        switch (value ? value->kind : JSON_KIND_NULL) {
        case JSON_KIND_NULL:
                json_put_null(j);
                break;
        case JSON_KIND_FALSE:
        case JSON_KIND_TRUE:
                json_put_bool(j, value->kind == JSON_KIND_TRUE);
                break;
        case JSON_KIND_NUMBER:
                json_put_raw(j, value->text, value->size);
                break;
        case JSON_KIND_STRING:
                json_put_string_n(j, value->text, value->size);
                break;
        case JSON_KIND_ARRAY:
                json_array_begin(j);
                put_children(j, value);
                json_array_end(j);
                break;
        case JSON_KIND_OBJECT:
                json_object_begin(j);
                put_children(j, value);
                json_object_end(j);
                break;
        }
}
