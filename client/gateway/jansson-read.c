/* SPDX-License-Identifier: MIT */
#include "client/gateway/jansson-read.h"
#include "base/err.h"
#include "base/json-read.h"
#include "base/util.h"
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A value takes up to some hundred times as many bytes as its text, so a body of many short ones would take gigabytes. */
#define VALUES_LEAST ((size_t)64 << 20)
#define VALUES_TIMES 4

/* ---- what the values take ---- */

static struct {
        json_malloc_t malloc;
        json_free_t free;
        size_t size, limit; /* bytes held now */
        bool full;
} watched;

static void *watched_malloc(size_t size) {
        void *memory;

        watched.full = watched.full || size > watched.limit - watched.size;
        memory = watched.full ? NULL : watched.malloc(size);
        /* The allocator may give more than was asked for. */
        if (memory)
                watched.size += MIN(malloc_usable_size(memory), watched.limit - watched.size);
        return memory;
}

static void watched_free(void *memory) {
        if (memory)
                watched.size -= MIN(malloc_usable_size(memory), watched.size);
        watched.free(memory);
}

static void watch(size_t size) {
        json_get_alloc_funcs(&watched.malloc, &watched.free);
        json_set_alloc_funcs(watched_malloc, watched_free);
        watched.size = 0;
        watched.limit = VALUES_LEAST + VALUES_TIMES * size;
        watched.full = false;
}

static void unwatch(void) {
        json_set_alloc_funcs(watched.malloc, watched.free);
}

/* ---- values ---- */

struct reading {
        struct json_reader json;
        struct buf key;    /* of the next value, in an object */
        struct buf number; /* its text, with a NUL */
        json_t *root;      /* owned */
        json_t *open
                [JSON_MAX_DEPTH]; /* [json.depth] borrowed: the arrays and objects around the next item */
};

static int make_number(struct reading *x, json_t **ret, struct err *e) {
        const char *text;
        long long whole;
        double real;
        int r;

        x->number.size = 0;
        r = buf_append(&x->number, x->json.text + x->json.start, x->json.at - x->json.start);
        if (r < 0)
                return r;
        text = (const char *)x->number.data;
        if (!strpbrk(text, ".eE")) {
                errno = 0;
                whole = strtoll(text, NULL, 10);
                if (errno == 0) {
                        *ret = json_integer(whole);
                        return 0;
                }
        }
        real = strtod(text, NULL);
        if (!isfinite(real))
                return json_wrong(&x->json, e, "the number is too large");
        *ret = json_real(real);
        return 0;
}

/* The value that begins with @item. 0, and *ret NULL without memory; -ERR_INVALID. */
static int make_value(struct reading *x, enum json_item item, json_t **ret, struct err *e) {
        const struct buf *s = &x->json.string;

        *ret = NULL;
        switch (item) {
        case JSON_ITEM_NUMBER:
                return make_number(x, ret, e);
        case JSON_ITEM_STRING:
                *ret = json_stringn_nocheck(s->size > 0 ? (const char *)s->data : "", s->size);
                return 0;
        case JSON_ITEM_OBJECT:
                *ret = json_object();
                return 0;
        case JSON_ITEM_ARRAY:
                *ret = json_array();
                return 0;
        case JSON_ITEM_TRUE:
        case JSON_ITEM_FALSE:
                *ret = json_boolean(item == JSON_ITEM_TRUE);
                return 0;
        default:
                *ret = json_null();
                return 0;
        }
}

/* Put @value where it belongs, @depth levels down. It is libjansson's from now on, also on failure. */
static int put_value(struct reading *x, unsigned depth, json_t *value) {
        json_t *parent = depth > 0 ? x->open[depth - 1] : NULL;

        if (!parent) {
                x->root = value;
                return 0;
        }
        if (json_is_array(parent))
                return json_array_append_new(parent, value) < 0 ? -ERR_NOMEM : 0;
        return json_object_set_new_nocheck(parent, (const char *)x->key.data, value) < 0
                       ? -ERR_NOMEM
                       : 0;
}

static int take_key(struct reading *x, struct err *e) {
        const struct buf *s = &x->json.string;

        if (s->size > 0 && memchr(s->data, 0, s->size))
                return json_wrong(&x->json, e, "a key with NUL");
        x->key.size = 0;
        return buf_append(&x->key, s->size > 0 ? (const char *)s->data : "", s->size);
}

static int take_item(struct reading *x, enum json_item item, struct err *e) {
        bool opens = item == JSON_ITEM_OBJECT || item == JSON_ITEM_ARRAY;
        unsigned depth = x->json.depth - opens;
        json_t *value;
        int r;

        if (item == JSON_ITEM_KEY)
                return take_key(x, e);
        if (item == JSON_ITEM_OBJECT_END || item == JSON_ITEM_ARRAY_END)
                return 0;
        r = make_value(x, item, &value, e);
        if (r < 0)
                return r;
        if (!value || put_value(x, depth, value) < 0)
                return -ERR_NOMEM;
        if (opens)
                x->open[depth] = value;
        return 0;
}

static int read_values(struct reading *x, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        int r;

        while ((r = json_next(&x->json, &item, e)) == 0 && item != JSON_ITEM_END) {
                r = take_item(x, item, e);
                if (r < 0)
                        return r;
        }
        return r;
}

int jansson_read(json_t **ret, const char *text, size_t size, struct err *e) {
        struct reading x = {.root = NULL};
        int r;

        watch(size);
        json_reader_init(&x.json, text, size);
        r = read_values(&x, e);
        unwatch();
        json_reader_deinit(&x.json);
        buf_deinit(&x.key);
        buf_deinit(&x.number);
        if (r == 0) {
                *ret = x.root;
                return 0;
        }
        json_decref(x.root);
        if (r == -ERR_INVALID)
                return r;
        if (!watched.full)
                return err_no_memory(e);
        /* Else the allocator keeps all of the small pieces. */
        malloc_trim(0);
        return err_set(
                e, ERR_TOO_LARGE, "too many values: more than %zu bytes of memory", watched.limit);
}
