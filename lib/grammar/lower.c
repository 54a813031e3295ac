/* SPDX-License-Identifier: MIT */
/*
 * Expressions to nodes. Nodes are written from their ends: lower_expr() gets the node that comes
 * next and returns the first one. Texts that are alternatives become a trie, so that a state has
 * few parses; characters become bytes of UTF-8.
 */
#include "base/utf8.h"
#include "base/util.h"
#include "grammar/build.h"
#include <stdlib.h>
#include <string.h>

#define SMALL_REPEAT 4 /* copies of something small are cheaper than a LOOP */
#define SMALL_SIZE 8

struct lower {
        struct build *b;
        struct program *p;
        uint32_t single[256]; /* set of one byte + 1 */
        uint32_t *todo;       /* rules whose nodes are to be written */
        uint32_t n_todo, todo_capacity;
};

static void failed(struct lower *l, int r) {
        if (l->b->failed == 0)
                l->b->failed = r;
}

static uint32_t add_node(struct lower *l, enum node_kind kind, uint32_t a, uint32_t next) {
        struct program *p = l->p;
        int r;

        if (!build_work(l->b, 1))
                return 0;
        if (p->n_nodes >= MAX_NODES) {
                build_fail(l->b, ERR_TOO_LARGE, "the grammar has more than %u nodes", MAX_NODES);
                return 0;
        }
        r = TABLE_ROOM(&p->charge, p->nodes, p->nodes_capacity, p->n_nodes, l->b->e);
        if (r < 0) {
                failed(l, r);
                return 0;
        }
        p->nodes[p->n_nodes] = (struct node){kind, a, next};
        return p->n_nodes++;
}

static uint32_t add_set(struct lower *l, const struct byte_set *s) {
        struct program *p = l->p;
        int r;

        for (uint32_t i = p->n_sets, n = 0; i-- > 0 && n < 64; n++)
                if (memcmp(&p->sets[i], s, sizeof(*s)) == 0)
                        return i;
        if (p->n_sets >= MAX_SETS)
                return build_fail(
                        l->b, ERR_TOO_LARGE, "the grammar has more than %u sets", MAX_SETS);
        r = TABLE_ROOM(&p->charge, p->sets, p->sets_capacity, p->n_sets, l->b->e);
        if (r < 0) {
                failed(l, r);
                return 0;
        }
        p->sets[p->n_sets] = *s;
        return p->n_sets++;
}

static uint32_t add_byte(struct lower *l, uint8_t byte, uint32_t next) {
        struct byte_set s = {{0}};

        if (l->single[byte] == 0) {
                byte_set_add(&s, byte, byte);
                l->single[byte] = add_set(l, &s) + 1;
        }
        return add_node(l, NODE_BYTES, l->single[byte] - 1, next);
}

static uint32_t add_bytes(struct lower *l, const uint8_t *bytes, size_t n, uint32_t next) {
        while (n > 0)
                next = add_byte(l, bytes[--n], next);
        return next;
}

/* --- characters --- */

#define MAX_CACHE 64

/* The first bytes of characters, by the node that comes next. */
struct heads {
        struct lower *l;
        uint32_t next;
        struct head {
                struct byte_set set;
                uint32_t to;
        } * heads;
        uint32_t n, capacity;
        /* bytes behind the first: [from, to] and then `next` is `node` */
        struct tail {
                uint8_t from, to;
                uint32_t next, node;
        } tails[MAX_CACHE];
        uint32_t n_tails;
};

static uint32_t tail_node(struct heads *h, uint8_t from, uint8_t to, uint32_t next) {
        struct byte_set s = {{0}};
        struct tail *t;

        for (uint32_t i = 0; i < MIN(h->n_tails, (uint32_t)MAX_CACHE); i++) {
                t = &h->tails[i];
                if (t->from == from && t->to == to && t->next == next)
                        return t->node;
        }
        byte_set_add(&s, from, to);
        t = &h->tails[h->n_tails++ % MAX_CACHE];
        *t = (struct tail){from, to, next, add_node(h->l, NODE_BYTES, add_set(h->l, &s), next)};
        return t->node;
}

static void add_head(struct heads *h, uint8_t from, uint8_t to, uint32_t next) {
        int r;

        for (uint32_t i = h->n; i-- > 0;)
                if (h->heads[i].to == next) {
                        byte_set_add(&h->heads[i].set, from, to);
                        return;
                }
        r = TABLE_ROOM(&h->l->b->charge, h->heads, h->capacity, h->n, h->l->b->e);
        if (r < 0) {
                failed(h->l, r);
                return;
        }
        build_work(h->l->b, h->n);
        h->heads[h->n] = (struct head){.to = next};
        byte_set_add(&h->heads[h->n++].set, from, to);
}

/* Code points of one length in bytes, without surrogates: cut so that bytes behind the first are
 * whole ranges. */
static void add_range(struct heads *h, uint32_t from, uint32_t to) {
        uint8_t low[4], high[4];
        uint32_t next = h->next;
        int n;

        for (unsigned i = 1; i < 4; i++) {
                uint32_t m = (1u << 6 * i) - 1;

                if (to <= 0x7F || (from & ~m) == (to & ~m))
                        continue;
                if ((from & m) != 0) {
                        add_range(h, from, from | m);
                        add_range(h, (from | m) + 1, to);
                        return;
                }
                if ((to & m) != m) {
                        add_range(h, from, (to & ~m) - 1);
                        add_range(h, to & ~m, to);
                        return;
                }
        }
        n = utf8_encode(from, low);
        utf8_encode(to, high);
        while (--n > 0)
                next = tail_node(h, low[n], high[n], next);
        add_head(h, low[0], high[0], next);
}

static void add_lengths(struct heads *h, struct range r) {
        static const struct range lengths[] = {
                {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};

        for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
                uint32_t from = MAX(r.from, lengths[i].from), to = MIN(r.to, lengths[i].to);

                if (from <= to && build_work(h->l->b, 1))
                        add_range(h, from, to);
        }
}

static uint32_t lower_chars(struct lower *l, const struct expr *x, uint32_t next) {
        struct heads h = {.l = l, .next = next};
        uint32_t node = 0;

        for (uint32_t i = 0; i < x->b; i++)
                add_lengths(&h, l->b->ranges[x->a + i]);
        for (uint32_t i = h.n; i-- > 0;) {
                uint32_t head = add_node(l, NODE_BYTES, add_set(l, &h.heads[i].set), h.heads[i].to);

                node = i + 1 == h.n ? head : add_node(l, NODE_SPLIT, head, node);
        }
        free(h.heads);
        charge_give(&l->b->charge, h.capacity * sizeof(*h.heads));
        return node;
}

/* --- alternatives --- */

struct literal {
        const uint8_t *bytes;
        uint32_t n;
};

static int compare_literals(const void *a, const void *b) {
        const struct literal *x = a, *y = b;
        int r = memcmp(x->bytes, y->bytes, MIN(x->n, y->n));

        return r ? r : x->n < y->n ? -1 : x->n > y->n;
}

/* A trie of texts that are sorted and begin with the same @depth bytes. */
static uint32_t lower_literals(
        struct lower *l, const struct literal *t, uint32_t n, uint32_t depth, uint32_t next) {
        uint32_t same = t[0].n, node = UINT32_MAX;

        if (l->b->failed)
                return 0;
        for (uint32_t i = depth; i < same; i++)
                if (t[n - 1].n <= i || t[n - 1].bytes[i] != t[0].bytes[i])
                        same = i; /* sorted: if the last one agrees, all do */
        /* from the last group to the first; the empty rest is the first */
        for (uint32_t end = n; end > 0;) {
                uint32_t from = end - 1, branch;

                if (t[from].n == same) {
                        node = node == UINT32_MAX ? next : add_node(l, NODE_SPLIT, next, node);
                        break;
                }
                while (from > 0 && t[from - 1].n > same &&
                        t[from - 1].bytes[same] == t[end - 1].bytes[same])
                        from--;
                branch = end - from == 1
                                 ? add_bytes(l, t[from].bytes + same, t[from].n - same, next)
                                 : lower_literals(l, t + from, end - from, same, next);
                node = node == UINT32_MAX ? branch : add_node(l, NODE_SPLIT, branch, node);
                end = from;
        }
        return add_bytes(l, t[0].bytes + depth, same - depth, node);
}

static uint32_t lower_expr(struct lower *l, uint32_t expr, uint32_t next);

static uint32_t lower_alt(struct lower *l, const struct expr *x, uint32_t next) {
        struct build *b = l->b;
        uint32_t n = 0, node = UINT32_MAX, branch;
        struct literal *texts;
        size_t size = x->b * sizeof(*texts);
        int r = charge_take(&b->charge, size, "a grammar", b->e);

        if (r < 0) {
                failed(l, r);
                return 0;
        }
        texts = malloc(size + 1);
        if (!texts)
                build_fail(b, ERR_NOMEM, "no memory for a grammar");
        for (uint32_t i = x->b; i-- > 0 && !b->failed;) {
                uint32_t kid = b->kids[x->a + i];
                const struct expr *k = &b->exprs[kid];

                if (k->kind == EXPR_BYTES) {
                        texts[n++] = (struct literal){b->bytes + k->a, k->b};
                } else if (expr_productive(b, kid)) {
                        branch = lower_expr(l, kid, next);
                        node = node == UINT32_MAX ? branch : add_node(l, NODE_SPLIT, branch, node);
                }
        }
        if (n > 0 && !b->failed) {
                uint32_t m = 1;

                build_work(b, n);
                qsort(texts, n, sizeof(*texts), compare_literals);
                for (uint32_t i = 1; i < n; i++) /* twice the same would be two parses */
                        if (compare_literals(&texts[i], &texts[m - 1]) != 0)
                                texts[m++] = texts[i];
                branch = lower_literals(l, texts, m, 0, next);
                node = node == UINT32_MAX ? branch : add_node(l, NODE_SPLIT, branch, node);
        }
        free(texts);
        charge_give(&b->charge, size);
        return node == UINT32_MAX ? next : node;
}

/* --- the rest --- */

static uint32_t lower_loop(struct lower *l, const struct expr *x, uint32_t next) {
        struct program *p = l->p;
        uint32_t at = p->n_loops, body, node;
        int r = TABLE_ROOM(&p->charge, p->loops, p->loops_capacity, p->n_loops, l->b->e);

        if (r < 0) {
                failed(l, r);
                return 0;
        }
        p->n_loops++;
        /* A round that reads nothing can be left out. */
        p->loops[at] = (struct loop){0, expr_nullable(l->b, x->a) ? 0 : x->b, x->c};
        node = add_node(l, NODE_LOOP, at, next);
        body = lower_expr(l, x->a, PROGRAM_RET);
        p->loops[at].body = body;
        return node;
}

static uint32_t lower_repeat(struct lower *l, const struct expr *x, uint32_t next) {
        const struct build *b = l->b;
        const struct expr *kid = &b->exprs[x->a];
        uint32_t node, min = x->b, max = x->c;
        bool small = (kid->kind == EXPR_BYTES && kid->b <= SMALL_SIZE) || kid->kind == EXPR_CHARS;

        if (!expr_productive(b, x->a))
                return next; /* no times */
        if (max == BUILD_ENDLESS && min <= 1) {
                uint32_t split = add_node(l, NODE_SPLIT, 0, next);
                uint32_t body = lower_expr(l, x->a, split);

                if (b->failed)
                        return 0;
                l->p->nodes[split].a = body;
                return min == 0 ? split : lower_expr(l, x->a, split);
        }
        if (max != 1 && (max > SMALL_REPEAT || !small))
                return lower_loop(l, x, next);
        node = next;
        for (uint32_t i = max; i-- > 0 && !b->failed;) {
                node = lower_expr(l, x->a, node);
                if (i >= min)
                        node = add_node(l, NODE_SPLIT, node, next);
        }
        return node;
}

static uint32_t lower_rule(struct lower *l, uint32_t rule, uint32_t next) {
        struct build *b = l->b;
        int r;

        if (b->rules[rule].inlined)
                return lower_expr(l, b->rules[rule].expr, next);
        if (b->rules[rule].start == UINT32_MAX) {
                b->rules[rule].start = UINT32_MAX - 1; /* to be written */
                r = TABLE_ROOM(&b->charge, l->todo, l->todo_capacity, l->n_todo, b->e);
                if (r < 0) {
                        failed(l, r);
                        return 0;
                }
                l->todo[l->n_todo++] = rule;
        }
        return add_node(l, NODE_CALL, rule, next); /* the rule becomes its start later */
}

static uint32_t lower_expr(struct lower *l, uint32_t expr, uint32_t next) {
        struct build *b = l->b;
        const struct expr x = b->exprs[expr];

        if (!build_work(b, 1))
                return 0;
        switch (x.kind) {
        case EXPR_NEVER:
        case EXPR_EMPTY: /* NEVER was left out by its users */
                return next;
        case EXPR_BYTES:
                return add_bytes(l, b->bytes + x.a, x.b, next);
        case EXPR_CHARS:
                return lower_chars(l, &x, next);
        case EXPR_SEQ:
                for (uint32_t i = x.b; i-- > 0 && !b->failed;)
                        next = lower_expr(l, b->kids[x.a + i], next);
                return next;
        case EXPR_ALT:
                return lower_alt(l, &x, next);
        case EXPR_REPEAT:
                return lower_repeat(l, &x, next);
        default:
                return lower_rule(l, x.a, next);
        }
}

/* --- classes of bytes --- */

static void find_classes(struct lower *l) {
        struct program *p = l->p;
        unsigned n = 1;

        build_work(l->b, p->n_sets * 64);
        for (uint32_t s = 0; s < p->n_sets && n < 256; s++) {
                int16_t moved[256]; /* [class] the class of its bytes in the set, or -1 */
                bool stays[256] = {false};

                for (unsigned i = 0; i < 256; i++) {
                        moved[i] = -1;
                        if (!byte_set_has(&p->sets[s], i))
                                stays[p->class_of[i]] = true;
                }
                for (unsigned i = 0; i < 256; i++) {
                        unsigned c = p->class_of[i];

                        if (!byte_set_has(&p->sets[s], i) || !stays[c])
                                continue;
                        if (moved[c] < 0)
                                moved[c] = (int16_t)n++;
                        p->class_of[i] = (uint8_t)moved[c];
                }
        }
        for (unsigned i = 256; i-- > 0;)
                p->byte_of[p->class_of[i]] = (uint8_t)i;
        p->n_classes = n;
}

void lower(struct build *b, uint32_t root, struct program *p) {
        struct lower l = {.b = b, .p = p};

        if (b->failed)
                return;
        add_node(&l, NODE_RET, 0, 0);
        p->start = lower_rule(&l, root, PROGRAM_RET);
        for (uint32_t i = 0; i < l.n_todo && !b->failed; i++) {
                uint32_t start = lower_expr(&l, b->rules[l.todo[i]].expr, PROGRAM_RET);

                b->rules[l.todo[i]].start = start;
        }
        for (uint32_t i = 0; i < p->n_nodes && !b->failed; i++)
                if (p->nodes[i].kind == NODE_CALL)
                        p->nodes[i].a = b->rules[p->nodes[i].a].start;
        if (!b->failed)
                find_classes(&l);
        free(l.todo);
        charge_give(&b->charge, l.todo_capacity * sizeof(*l.todo));
}

void program_deinit(struct program *p) {
        free(p->nodes);
        free(p->sets);
        free(p->loops);
        charge_deinit(&p->charge);
        *p = (struct program){0};
}
