/* SPDX-License-Identifier: MIT */
/*
 * What readers of replies need of tool definitions: the names of functions, and which parameters are
 * strings. The text is read once to see that it is JSON, and once more for the names; both tables are
 * sorted, so that a look-up takes logarithmic time.
 *
 * 1. Every name lies in `text`, behind its function's number where it is a parameter's.
 * 2. A parameter is a string if its schema has "type": "string". Without a type, or with several,
 *    its value decides (reply-tags.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/charge.h"
#include "base/err.h"
#include "base/util.h"
#include "chat/reply-internal.h"

struct entry {
        uint32_t function; /* its number; of a function: 0 */
        uint32_t at, size; /* of the name, in text */
        uint32_t value;    /* of a function: its number; of a parameter: enum reply_type */
};
struct table {
        struct entry *entries; /* [n], owned */
        size_t n, capacity;
};
struct reply_tools {
        struct charge *charge;
        size_t charged;
        struct buf text;
        struct table functions, parameters;
};

/* Reads JSON that is known to be whole. */
struct reader {
        struct reply_tools *tools;
        const uint8_t *at, *end;
        uint32_t function;
        int failed;
};

static int compare_entries(const void *a, const void *b, void *text) {
        const struct entry *x = a, *y = b;
        const uint8_t *names = text;
        int order;

        if (x->function != y->function)
                return x->function < y->function ? -1 : 1;
        order = memcmp(names + x->at, names + y->at, MIN(x->size, y->size));
        if (order != 0 || x->size == y->size)
                return order;
        return x->size < y->size ? -1 : 1;
}

static int table_grow(struct reply_tools *t, struct table *table) {
        size_t capacity = table->capacity * 2 + 16, more = capacity - table->capacity;
        struct entry *entries;
        int r = t->charge
                        ? charge_take(t->charge, more * sizeof(*entries), "tool definitions", NULL)
                        : 0;

        if (r < 0)
                return r;
        entries = reallocarray(table->entries, capacity, sizeof(*entries));
        if (!entries) {
                if (t->charge)
                        charge_give(t->charge, more * sizeof(*entries));
                return -ERR_NOMEM;
        }
        t->charged += more * sizeof(*entries);
        table->entries = entries;
        table->capacity = capacity;
        return 0;
}

static void table_add(struct reader *in, struct table *table, struct entry entry) {
        if (in->failed == 0 && table->n == table->capacity)
                in->failed = table_grow(in->tools, table);
        if (in->failed == 0)
                table->entries[table->n++] = entry;
}

static void table_sort(struct reply_tools *t, struct table *table) {
        if (table->n > 0)
                qsort_r(table->entries, table->n, sizeof(*table->entries), compare_entries,
                        t->text.data);
}

/* --- reading --- */

static void skip_space(struct reader *in) {
        while (in->at < in->end && reply_is_space(*in->at))
                in->at++;
}

static bool next_is(struct reader *in, char c) {
        skip_space(in);
        return in->at < in->end && *in->at == (uint8_t)c;
}

static bool take(struct reader *in, char c) {
        bool is = next_is(in, c);

        in->at += is;
        return is;
}

/* A string, decoded, behind the other names; @ret is where. */
static bool take_string(struct reader *in, struct entry *ret) {
        struct reply_json j;
        struct buf *text = &in->tools->text;

        if (!next_is(in, '"'))
                return false;
        reply_json_init(&j);
        ret->at = (uint32_t)text->size;
        while (in->failed == 0 && !reply_json_done(&j)) {
                reply_json_byte(&j, *in->at++);
                in->failed = buf_append(text, j.decoded, j.n_decoded);
        }
        ret->size = (uint32_t)(text->size - ret->at);
        return in->failed == 0;
}

static void skip_value(struct reader *in) {
        struct reply_json j;

        skip_space(in);
        reply_json_init(&j);
        while (in->at < in->end && !reply_json_done(&j)) {
                struct reply_json before = j;

                if (reply_json_byte(&j, *in->at) & (REPLY_JSON_ERROR | REPLY_JSON_ENDED) &&
                        before.depth == 0)
                        return; /* a number ended */
                in->at++;
        }
}

typedef void (*member_fn)(struct reader *in, const struct entry *key, uint32_t *result);

/* Call @fn for each member of an object; it reads the value. Other values are read over. */
static void each_member(struct reader *in, member_fn fn, uint32_t *result) {
        if (!take(in, '{')) {
                skip_value(in);
                return;
        }
        while (in->failed == 0 && !take(in, '}')) {
                struct entry key = {0};

                take(in, ',');
                if (!take_string(in, &key))
                        return;
                take(in, ':');
                fn(in, &key, result);
        }
}

static bool key_is(const struct reader *in, const struct entry *key, const char *name) {
        return key->size == strlen(name) &&
               memcmp(in->tools->text.data + key->at, name, key->size) == 0;
}

static void read_type(struct reader *in, const struct entry *key, uint32_t *result) {
        struct entry type;

        if (!key_is(in, key, "type")) {
                skip_value(in);
        } else if (take_string(in, &type)) {
                *result = key_is(in, &type, "string") ? REPLY_TYPE_STRING : REPLY_TYPE_OTHER;
        } else
                skip_value(in);
}

static void read_property(struct reader *in, const struct entry *key, uint32_t *result) {
        struct entry entry = {in->function, key->at, key->size, REPLY_TYPE_ANY};

        (void)result;
        each_member(in, read_type, &entry.value);
        table_add(in, &in->tools->parameters, entry);
}

static void read_schema(struct reader *in, const struct entry *key, uint32_t *result) {
        if (key_is(in, key, "properties"))
                each_member(in, read_property, result);
        else
                skip_value(in);
}

static void read_function(struct reader *in, const struct entry *key, uint32_t *result) {
        struct entry name = {0};

        if (key_is(in, key, "function"))
                each_member(in, read_function, result);
        else if (key_is(in, key, "parameters"))
                each_member(in, read_schema, result);
        else if (key_is(in, key, "name") && take_string(in, &name)) {
                name.value = in->function;
                table_add(in, &in->tools->functions, name);
        } else
                skip_value(in);
}

static int read_tools(struct reply_tools *t, const char *text, size_t size) {
        struct reader in = {.tools = t, .at = (const uint8_t *)text};
        uint32_t unused = 0;

        in.end = in.at + size;
        if (!take(&in, '['))
                return -ERR_INVALID;
        while (in.failed == 0 && !take(&in, ']')) {
                take(&in, ',');
                each_member(&in, read_function, &unused);
                in.function++;
        }
        return in.failed;
}

static int check_json(const char *text, size_t size, struct err *e) {
        struct reply_json j;

        reply_json_init(&j);
        for (size_t i = 0; i < size; i++)
                if (reply_json_byte(&j, (uint8_t)text[i]) & REPLY_JSON_ERROR)
                        return err_set(e, ERR_INVALID, "tools: byte %zu: %s", i + 1, j.error);
        if (!reply_json_finish(&j))
                return err_set(e, ERR_INVALID, "tools: the text ends too early");
        return 0;
}

int reply_tools_new(struct reply_tools **ret, const char *text, size_t size, struct charge *charge,
        struct err *e) {
        struct reply_tools *t;
        int r = check_json(text, size, e);

        if (r < 0)
                return r;
        t = calloc(1, sizeof(*t));
        if (!t)
                return err_set(e, ERR_NOMEM, "out of memory for tool definitions");
        t->charge = t->text.charge = charge;
        r = read_tools(t, text, size);
        if (r < 0) {
                reply_tools_free(t);
                return err_set(e, (enum err_code) - r,
                        r == -ERR_INVALID ? "tools: it is no list"
                                          : "no memory for tool definitions");
        }
        table_sort(t, &t->functions);
        table_sort(t, &t->parameters);
        *ret = t;
        return 0;
}

struct reply_tools *reply_tools_free(struct reply_tools *t) {
        if (!t)
                return NULL;
        if (t->charge)
                charge_give(t->charge, t->charged);
        buf_deinit(&t->text);
        free(t->functions.entries);
        free(t->parameters.entries);
        free(t);
        return NULL;
}

/* --- looking up --- */

static const struct entry *find(const struct reply_tools *t, const struct table *table,
        uint32_t function, const char *name, size_t n) {
        size_t low = 0, high = table->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                const struct entry *entry = &table->entries[middle];
                int order;

                if (entry->function != function)
                        order = entry->function < function ? -1 : 1;
                else
                        order = memcmp(t->text.data + entry->at, name, MIN(n, entry->size));
                if (order == 0 && entry->size != n)
                        order = entry->size < n ? -1 : 1;
                if (order == 0)
                        return entry;
                if (order < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return NULL;
}

bool reply_tools_has(const struct reply_tools *t, const char *name, size_t n) {
        return t && find(t, &t->functions, 0, name, n);
}

enum reply_type reply_tools_type(
        const struct reply_tools *t, const char *function, const char *key, size_t n_key) {
        const struct entry *entry =
                t ? find(t, &t->functions, 0, function, strlen(function)) : NULL;

        if (entry)
                entry = find(t, &t->parameters, entry->value, key, n_key);
        return entry ? (enum reply_type)entry->value : REPLY_TYPE_ANY;
}
