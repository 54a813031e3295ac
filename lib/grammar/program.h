/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The compiled form of a grammar: a network of nodes. A node that reads a byte has a set of bytes
 * and a next node. Other nodes are followed at once: SPLIT to both of its nodes, CALL into a rule
 * and back to its next node, LOOP into its body as often as its counts allow, RET back to the
 * caller.
 */
#include <stdint.h>

#include "base/charge.h"

#define PROGRAM_RET 0u /* the number of the only RET node */
#define PROGRAM_ENDLESS UINT32_MAX

enum node_kind { NODE_RET, NODE_BYTES, NODE_SPLIT, NODE_CALL, NODE_LOOP };

struct node {
        enum node_kind kind;
        uint32_t a;    /* BYTES: set; SPLIT: node; CALL: start of the rule; LOOP: loop */
        uint32_t next; /* node */
};

struct byte_set {
        uint64_t bits[4];
};

struct loop {
        uint32_t body, min, max; /* a node; max may be PROGRAM_ENDLESS */
};

struct program {
        struct charge charge;
        struct node *nodes;
        struct byte_set *sets;
        struct loop *loops;
        uint32_t n_nodes, n_sets, n_loops;
        uint32_t nodes_capacity, sets_capacity, loops_capacity;
        uint32_t start;
        /* Bytes that no set tells apart are one class. */
        uint8_t class_of[256];
        uint8_t byte_of[256]; /* [n_classes] a byte of each class */
        uint32_t n_classes;
};

static inline int byte_set_has(const struct byte_set *s, unsigned byte) {
        return (int)(s->bits[byte / 64] >> (byte % 64) & 1);
}
static inline void byte_set_add(struct byte_set *s, unsigned from, unsigned to) {
        for (unsigned i = from; i <= to; i++)
                s->bits[i / 64] |= (uint64_t)1 << (i % 64);
}

void program_deinit(struct program *p);
