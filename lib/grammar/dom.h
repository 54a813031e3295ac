/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * JSON as a tree: what a schema is made of. All nodes are in one array in the order of the text, a
 * node's children chained. Strings are decoded; numbers keep their text.
 */
#include "grammar/build.h"

enum dom_kind { DOM_NULL, DOM_FALSE, DOM_TRUE, DOM_NUMBER, DOM_STRING, DOM_ARRAY, DOM_OBJECT };
#define DOM_NONE UINT32_MAX
#define DOM_MAX_NODES (1u << 16)

struct dom_node {
        enum dom_kind kind;
        uint32_t parent;
        uint32_t key, key_size;   /* in dom.bytes, if the parent is an object */
        uint32_t index;           /* among the parent's children */
        uint32_t text, text_size; /* in dom.bytes: of a string, or of a number as written */
        uint32_t child, next;     /* the first child; the next one of the parent; or DOM_NONE */
        uint32_t n;               /* children */
        uint32_t at;              /* offset in the text */
};

struct dom {
        struct build *b; /* charged, and told of errors */
        struct dom_node *nodes;
        uint8_t *bytes;
        uint32_t n_nodes, n_bytes, nodes_capacity, bytes_capacity;
};

/* Errors name line and column. Keys that come twice in an object are refused. */
void dom_parse(struct dom *d, struct build *b, const char *text, size_t size);
void dom_deinit(struct dom *d);
/* The member of object @node, or DOM_NONE. */
uint32_t dom_get(const struct dom *d, uint32_t node, const char *key);
uint32_t dom_get_n(const struct dom *d, uint32_t node, const uint8_t *key, uint32_t n);
bool dom_key_is(const struct dom *d, uint32_t node, const char *key);
bool dom_equal(const struct dom *d, uint32_t a, uint32_t b);
static inline const uint8_t *dom_text(const struct dom *d, uint32_t node) {
        return d->bytes + d->nodes[node].text;
}
/* Writes the node's JSON pointer as a URI fragment ("#/properties/a"), cut to fit. */
const char *dom_pointer(const struct dom *d, uint32_t node, char *dst, size_t size);
/* The node that a $ref names ("#", "#/$defs/x"), or DOM_NONE. */
uint32_t dom_resolve(const struct dom *d, const uint8_t *ref, uint32_t n);

/* --- decimal numbers, exactly --- */

#define DECIMAL_DIGITS 40
/* (-1)^negative * int.frac; zero has no digits and is not negative. */
struct decimal {
        bool negative;
        uint8_t n_int, n_frac;
        char int_digits[DECIMAL_DIGITS];  /* without leading zeros */
        char frac_digits[DECIMAL_DIGITS]; /* without zeros at the end */
};
/* False: more digits than that. */
bool decimal_parse(struct decimal *d, const uint8_t *text, size_t n);
int decimal_compare(const struct decimal *a, const struct decimal *b);
