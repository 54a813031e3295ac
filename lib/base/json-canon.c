/* SPDX-License-Identifier: MIT */
/*
 * The canonical form of a JSON value: two texts have the same one if a program that reads one of them
 * and writes it anew may have made the other.
 *
 * 1. There is no white space between items.
 * 2. The members of an object are sorted by their keys. Of members with equal keys the last one counts,
 *    as in JavaScript and Python.
 * 3. A string is written as lib/base/json.c writes it, whatever escapes it had.
 * 4. A number is the double that it reads as, in shortest form, without a sign if it is 0. So 1, 1.0 and
 *    1e0 are equal, and so are long integers that JavaScript can't tell apart. A number beyond the
 *    doubles stays as it is written.
 * 5. Nothing is kept but the form itself, an entry for each member of the objects that are open, and one
 *    copy of an object while its members are sorted. All of this is charged to the owner of the output.
 */
#include "base/json-canon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json-read.h"
#include "base/json.h"
#include "base/util.h"

/* A member of an object, as offsets in the output: "key":value. */
struct member {
        size_t at, key_size, end;
};

struct writer {
        struct json_reader in;
        struct buf *out;
        struct buf members; /* of all objects that are open, outer ones first */
        struct buf copy;
};

static int no_memory(int r, struct err *e) {
        return err_set(e, (enum err_code) - r, "no memory for a JSON value");
}

static int put(struct writer *w, const char *s, struct err *e) {
        int r = buf_append_str(w->out, s);

        return r < 0 ? no_memory(r, e) : 0;
}

static int put_string(struct writer *w, struct err *e) {
        const struct buf *s = &w->in.string;
        struct json j;
        int r;

        json_init(&j, w->out);
        json_put_string_n(&j, s->size ? (const char *)s->data : "", s->size);
        r = json_finish(&j);
        return r < 0 ? no_memory(r, e) : 0;
}

static int put_number(struct writer *w, struct err *e) {
        size_t at = w->out->size;
        struct json j;
        double v;
        int r = buf_append(w->out, w->in.text + w->in.start, w->in.at - w->in.start);

        if (r < 0)
                return no_memory(r, e);
        v = strtod((const char *)w->out->data + at, NULL);
        if (!isfinite(v))
                return 0;
        w->out->size = at;
        json_init(&j, w->out);
        json_put_double(&j, v == 0 ? 0 : v);
        r = json_finish(&j);
        return r < 0 ? no_memory(r, e) : 0;
}

/* --- objects --- */

/* By key; of equal keys in the order of the text. */
static bool before(const struct writer *w, const struct member *a, const struct member *b) {
        const uint8_t *data = w->copy.data;
        int order = memcmp(data + a->at, data + b->at, MIN(a->key_size, b->key_size));

        if (order == 0 && a->key_size != b->key_size)
                return a->key_size < b->key_size;
        return order == 0 ? a->at < b->at : order < 0;
}

static void sift(const struct writer *w, struct member *m, size_t i, size_t n) {
        for (size_t child; (child = 2 * i + 1) < n; i = child) {
                struct member swap = m[i];

                if (child + 1 < n && before(w, &m[child], &m[child + 1]))
                        child++;
                if (!before(w, &m[i], &m[child]))
                        return;
                m[i] = m[child];
                m[child] = swap;
        }
}

/* In place, and never slower than n log n: keys may come from anybody. */
static void sort(const struct writer *w, struct member *m, size_t n) {
        for (size_t i = n / 2; i-- > 0;)
                sift(w, m, i, n);
        while (n > 1) {
                struct member swap = m[0];

                m[0] = m[--n];
                m[n] = swap;
                sift(w, m, 0, n);
        }
}

static bool same_key(const struct writer *w, const struct member *a, const struct member *b) {
        return a->key_size == b->key_size &&
               memcmp(w->copy.data + a->at, w->copy.data + b->at, a->key_size) == 0;
}

/* Write the @n members @m anew, in order, where they begin in the output. */
static int write_members(struct writer *w, const struct member *m, size_t n, struct err *e) {
        size_t at = w->out->size;

        for (size_t i = 0; i < n; i++) {
                int r = 0;

                if (i + 1 < n && same_key(w, &m[i], &m[i + 1]))
                        continue;
                if (w->out->size > at)
                        r = buf_append(w->out, ",", 1);
                if (r == 0)
                        r = buf_append(w->out, w->copy.data + m[i].at, m[i].end - m[i].at);
                if (r < 0)
                        return no_memory(r, e);
        }
        return 0;
}

/* The members from entry @first on are those of the object whose text begins at @at. */
static int order_members(struct writer *w, size_t at, size_t first, struct err *e) {
        size_t n = (w->members.size - first) / sizeof(struct member);
        struct member *m;
        int r;

        w->members.size = first;
        if (n < 2)
                return 0;
        m = (struct member *)(void *)(w->members.data + first);
        w->copy.size = 0;
        r = buf_append(&w->copy, w->out->data + at, w->out->size - at);
        if (r < 0)
                return no_memory(r, e);
        for (size_t i = 0; i < n; i++) {
                m[i].at -= at;
                m[i].end -= at;
        }
        sort(w, m, n);
        w->out->size = at;
        return write_members(w, m, n, e);
}

static int put_item(struct writer *w, enum json_item item, struct err *e);

static int put_object(struct writer *w, struct err *e) {
        size_t first = w->members.size, at;
        enum json_item item = JSON_ITEM_END;
        int r = put(w, "{", e);

        at = w->out->size;
        while (r == 0 && (r = json_next(&w->in, &item, e)) == 0 && item == JSON_ITEM_KEY) {
                struct member m = {.at = w->out->size};

                /* Members have a comma between them until they are sorted. */
                if (m.at > at) {
                        r = put(w, ",", e);
                        m.at = w->out->size;
                }
                if (r == 0)
                        r = put_string(w, e);
                m.key_size = w->out->size - m.at;
                if (r == 0)
                        r = put(w, ":", e);
                if (r == 0)
                        r = json_next(&w->in, &item, e);
                if (r == 0)
                        r = put_item(w, item, e);
                m.end = w->out->size;
                if (r == 0 && (r = buf_append(&w->members, &m, sizeof(m))) < 0)
                        r = no_memory(r, e);
        }
        if (r == 0)
                r = order_members(w, at, first, e);
        return r < 0 ? r : put(w, "}", e);
}

static int put_array(struct writer *w, struct err *e) {
        enum json_item item = JSON_ITEM_END;
        bool comma = false;
        int r = put(w, "[", e);

        while (r == 0 && (r = json_next(&w->in, &item, e)) == 0 && item != JSON_ITEM_ARRAY_END) {
                r = comma ? put(w, ",", e) : 0;
                comma = true;
                if (r == 0)
                        r = put_item(w, item, e);
        }
        return r < 0 ? r : put(w, "]", e);
}

/* Recursion ends at the reader's limit of nesting. */
static int put_item(struct writer *w, enum json_item item, struct err *e) {
        switch (item) {
        case JSON_ITEM_OBJECT:
                return put_object(w, e);
        case JSON_ITEM_ARRAY:
                return put_array(w, e);
        case JSON_ITEM_STRING:
                return put_string(w, e);
        case JSON_ITEM_NUMBER:
                return put_number(w, e);
        case JSON_ITEM_NULL:
                return put(w, "null", e);
        case JSON_ITEM_TRUE:
                return put(w, "true", e);
        default:
                return put(w, "false", e);
        }
}

int json_canonical(struct buf *out, const char *text, size_t size, struct err *e) {
        struct writer w = {.out = out};
        enum json_item item = JSON_ITEM_END;
        size_t before_it = out->size;
        int r;

        json_reader_init(&w.in, text, size);
        w.in.string.charge = w.members.charge = w.copy.charge = out->charge;
        r = json_next(&w.in, &item, e);
        if (r == 0)
                r = put_item(&w, item, e);
        if (r == 0)
                r = json_next(&w.in, &item, e); /* the end, or something follows */
        if (r < 0 && out->data) {
                out->size = before_it;
                out->data[before_it] = 0;
        }
        json_reader_deinit(&w.in);
        buf_deinit(&w.members);
        buf_deinit(&w.copy);
        return r;
}
