/* SPDX-License-Identifier: MIT */
#include "jinja/value.h"
#include "base/hash.h"
#include "base/util.h"
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#define FEW_ENTRIES 8 /* that are compared one by one */

/* A container that takes nothing, for when there is no memory. */
static struct list NO_LIST = {.constant = true};
static struct dict NO_DICT = {.constant = true};

struct list *list_new(struct arena *a, size_t expected) {
        struct list *l = arena_alloc(a, sizeof(*l));

        if (!l)
                return &NO_LIST;
        if (expected > 0) {
                l->items = arena_array(a, expected, sizeof(*l->items));
                l->capacity = l->items ? expected : 0;
        }
        return l;
}

void list_add(struct arena *a, struct list *l, struct value v) {
        if (a->error < 0)
                return;
        if (l->n == l->capacity) {
                size_t capacity = MAX(2 * l->capacity, (size_t)4);
                struct value *items =
                        arena_grow(a, l->items, l->n * sizeof(*items), capacity * sizeof(*items));

                if (!items)
                        return;
                l->items = items;
                l->capacity = capacity;
        }
        l->items[l->n++] = v;
}

struct dict *dict_new(struct arena *a) {
        struct dict *d = arena_alloc(a, sizeof(*d));

        return d ? d : &NO_DICT;
}

static uint64_t seed[2];
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

/* Without random numbers the keys are still found, only their hashes can be foreseen. */
static void draw_seed(void) {
        if (getrandom(seed, sizeof(seed), 0) != sizeof(seed))
                seed[0] = (uint64_t)(uintptr_t)&seed_once;
}

bool key_possible(struct value v) {
        return v.type == T_STRING || v.type == T_NONE || v.type == T_UNDEFINED || v.type == T_BIG ||
               is_number(v);
}

/* Equal keys have equal hashes: 1, 1.0 and true are one key. */
static uint64_t key_hash(struct value v) {
        struct {
                int64_t i;
                double f;
        } number = {0};

        pthread_once(&seed_once, draw_seed);
        if (v.type == T_STRING || v.type == T_BIG)
                return hash64_keyed(v.s->text, v.s->n, seed);
        if (v.type == T_NONE || v.type == T_UNDEFINED)
                return v.type;
        if (v.type == T_FLOAT && !(v.f >= -0x1p62 && v.f <= 0x1p62 && v.f == floor(v.f)))
                number.f = v.f;
        else
                number.i = v.type == T_FLOAT ? (int64_t)v.f : as_int(v);
        return hash64_keyed(&number, sizeof(number), seed);
}

static struct entry *find_indexed(const struct dict *d, struct value key, uint64_t hash) {
        for (size_t i = hash & (d->n_index - 1); d->index[i]; i = (i + 1) & (d->n_index - 1)) {
                struct entry *e = &d->entries[d->index[i] - 1];

                if (!e->gone && e->hash == hash && scalar_equal(e->key, key))
                        return e;
        }
        return NULL;
}

struct entry *dict_find(const struct dict *d, struct value key) {
        if (!key_possible(key))
                return NULL;
        if (d->index)
                return find_indexed(d, key, key_hash(key));
        for (size_t i = 0; i < d->n_used; i++)
                if (!d->entries[i].gone && scalar_equal(d->entries[i].key, key))
                        return &d->entries[i];
        return NULL;
}

struct entry *dict_find_string(const struct dict *d, const struct string *key) {
        return dict_find(d, v_string(key));
}

/* An index with room for twice the entries that there is room for, those that are gone left out. */
static bool rehash(struct arena *a, struct dict *d) {
        size_t n_index = 4 * FEW_ENTRIES, n = 0;
        uint32_t *index;

        while (n_index < 2 * d->capacity)
                n_index *= 2;
        index = arena_array(a, n_index, sizeof(*index));
        if (!index)
                return false;
        for (size_t i = 0; i < d->n_used; i++)
                if (!d->entries[i].gone)
                        d->entries[n++] = d->entries[i];
        d->n_used = n;
        for (size_t i = 0; i < n; i++) {
                size_t at;

                d->entries[i].hash = key_hash(d->entries[i].key);
                at = d->entries[i].hash & (n_index - 1);
                while (index[at])
                        at = (at + 1) & (n_index - 1);
                index[at] = (uint32_t)i + 1;
        }
        d->index = index;
        d->n_index = n_index;
        return true;
}

/* Room for one more entry. */
static bool dict_reserve(struct arena *a, struct dict *d) {
        size_t capacity = MAX(2 * d->capacity, (size_t)FEW_ENTRIES);
        struct entry *entries;

        if (d->n_used < d->capacity)
                return true;
        if (capacity > UINT32_MAX / 4)
                capacity = SIZE_MAX / sizeof(*entries); /* which the arena refuses */
        entries = arena_grow(
                a, d->entries, d->n_used * sizeof(*entries), capacity * sizeof(*entries));
        if (!entries)
                return false;
        d->entries = entries;
        d->capacity = capacity;
        return capacity <= FEW_ENTRIES || rehash(a, d);
}

void dict_set(struct arena *a, struct dict *d, struct value key, struct value v) {
        struct entry *e = dict_find(d, key);

        if (a->error < 0)
                return;
        if (e) {
                e->value = v;
                return;
        }
        if (!dict_reserve(a, d))
                return;
        e = &d->entries[d->n_used++];
        *e = (struct entry){.key = key, .value = v};
        d->n++;
        if (d->index) {
                size_t at;

                e->hash = key_hash(key);
                at = e->hash & (d->n_index - 1);
                while (d->index[at])
                        at = (at + 1) & (d->n_index - 1);
                d->index[at] = (uint32_t)d->n_used;
        }
}

bool dict_remove(struct dict *d, struct value key) {
        struct entry *e = dict_find(d, key);

        if (!e)
                return false;
        e->gone = true;
        d->n--;
        return true;
}

struct entry *dict_next(const struct dict *d, size_t *at) {
        while (*at < d->n_used) {
                struct entry *e = &d->entries[(*at)++];

                if (!e->gone)
                        return e;
        }
        return NULL;
}

bool is_true(struct value v) {
        switch ((enum type)v.type) {
        case T_UNDEFINED:
        case T_NONE:
                return false;
        case T_BOOL:
                return v.b;
        case T_INT:
                return v.i != 0;
        case T_FLOAT:
                return v.f != 0;
        case T_STRING:
                return v.s->n > 0;
        case T_LIST:
        case T_TUPLE:
                return v.list->n > 0;
        case T_DICT:
                return v.dict->n > 0;
        default:
                return true;
        }
}

const char *type_name(struct value v) {
        static const char *const names[] = {[T_UNDEFINED] = "Undefined",
                [T_NONE] = "NoneType",
                [T_BOOL] = "bool",
                [T_INT] = "int",
                [T_BIG] = "int",
                [T_FLOAT] = "float",
                [T_STRING] = "str",
                [T_LIST] = "list",
                [T_TUPLE] = "tuple",
                [T_DICT] = "dict",
                [T_NAMESPACE] = "Namespace",
                [T_LOOP] = "LoopContext",
                [T_MACRO] = "Macro",
                [T_FUNCTION] = "function",
                [T_METHOD] = "method",
                [T_CYCLER] = "Cycler",
                [T_JOINER] = "Joiner"};

        return names[v.type];
}

bool is_number(struct value v) {
        return v.type == T_BOOL || v.type == T_INT || v.type == T_FLOAT;
}

double as_double(struct value v) {
        return v.type == T_FLOAT ? v.f : (double)as_int(v);
}

int64_t as_int(struct value v) {
        return v.type == T_BOOL ? v.b : v.i;
}

bool scalar_equal(struct value a, struct value b) {
        if (a.type == T_STRING || a.type == T_BIG)
                return b.type == a.type && string_equal(a.s, b.s);
        if (!is_number(a) || !is_number(b))
                return a.type == b.type && (a.type == T_NONE || a.type == T_UNDEFINED);
        if (a.type == T_FLOAT || b.type == T_FLOAT)
                return as_double(a) == as_double(b);
        return as_int(a) == as_int(b);
}
