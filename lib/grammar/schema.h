/* SPDX-License-Identifier: MIT */
#pragma once
/* A JSON schema while it becomes rules: what schema.c shares with the files for the types. */
#include "base/map.h"
#include "grammar/dom.h"

/* A set of schemas that must all hold: a value meets the set if it meets each of them. */
#define MAX_ITEMS 128
struct item {
        uint32_t node;   /* of the schema */
        uint32_t used;   /* ITEM_*: what of it was dealt with */
        uint32_t parent; /* the item that brought it in by $ref, allOf, ..., or UINT32_MAX */
};
#define ITEM_ANY_OF 1u
#define ITEM_ONE_OF 2u
#define ITEM_FLAT 4u /* its $ref and allOf */

struct all {
        struct item items[MAX_ITEMS];
        uint32_t n;
};

enum {
        TYPE_NULL = 1,
        TYPE_BOOL = 2,
        TYPE_INTEGER = 4,
        TYPE_FRACTION = 8, /* a number that is no integer */
        TYPE_STRING = 16,
        TYPE_ARRAY = 32,
        TYPE_OBJECT = 64,
        TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
        TYPE_ANY = 127
};

struct schema {
        struct build *b;
        struct dom dom;
        struct map *rules; /* of sets of schemas: rule + 1 */
        size_t map_size;   /* charged for it */
        struct todo_rule {
                uint32_t rule, first, n;
        } * todo;
        struct item *items; /* of the sets in `todo` */
        uint32_t n_todo, n_items, todo_capacity, items_capacity;
        uint8_t *checked; /* [dom.n_nodes] its keywords were looked at */
        uint32_t space, string, any_char, number, integer; /* expressions */
        uint32_t rule;                                     /* that is being written */
};

/* Refuse the schema because of @node; the message begins with its pointer. Returns NEVER. */
uint32_t schema_fail(struct schema *s, enum err_code code, uint32_t node, const char *what);
/* Nothing meets the rule that is being written: NEVER. @node and @why explain it. */
uint32_t schema_never(struct schema *s, uint32_t node, const char *why);
/* The rule of all these schemas. Changes @a. */
uint32_t schema_use(struct schema *s, struct all *a);
void all_add(struct schema *s, struct all *a, uint32_t node, uint32_t parent);
/* The keyword of the item's schema, or DOM_NONE. */
static inline uint32_t item_get(const struct schema *s, const struct item *i, const char *key) {
        return dom_get(&s->dom, i->node, key);
}
/* The value of @node as a count; refused if it is none. */
uint32_t schema_count(struct schema *s, uint32_t node);
/* The least or most of all values of a count: @most: the least of the most. @ret_node: whose. */
uint32_t schema_bound(struct schema *s, const struct all *a, const char *key, bool most,
        uint32_t none, uint32_t *ret_node);

/* --- the types --- */

/* The bounds of numbers. */
struct bounds {
        struct decimal low, high;
        bool has_low, has_high, low_open, high_open;
        uint32_t low_node, high_node;
};
void bounds_find(struct schema *s, const struct all *a, struct bounds *ret);
bool bounds_hold(const struct bounds *b, const struct decimal *d);
uint32_t schema_number(struct schema *s, const struct all *a, unsigned types);
uint32_t schema_string(struct schema *s, const struct all *a);
uint32_t schema_array(struct schema *s, const struct all *a);
uint32_t schema_object(struct schema *s, const struct all *a);
/* One of the values of enum and const; NEVER if there is none. @found: there is such a keyword. */
uint32_t schema_enum(struct schema *s, const struct all *a, unsigned types, bool *found);
unsigned schema_type_of(const struct schema *s, uint32_t node);
