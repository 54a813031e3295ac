/* SPDX-License-Identifier: MIT */
/*
 * What must be known of all rules before nodes are written.
 *
 * 1. Productive: some finite text meets it. What is not productive is left out of the program, so
 *    that from every state of the automaton the end can be reached: a reply never runs into a
 *    corner.
 * 2. Nullable: the empty text meets it.
 * 3. Left recursion, which would never read a byte, is refused. A rule is left-recursive if it can
 *    call itself before it has read anything.
 * 4. Inlined: small rules without endless repetition are copied to where they are used. The masks
 *    of a state are cached by rule (mask.c), so a rule for one character would spoil the cache.
 *
 * 1 and 2 are least fixed points, found by going over all rules until nothing changes; callees come
 * first, so that takes one or two rounds. All walks are counted (build_work()).
 */
#include "base/util.h"
#include "grammar/build.h"
#include <stdlib.h>

#define MAX_INLINED 64 /* nodes */
#define MAX_INLINE_DEPTH 16

/* For each rule a list of rules: those that it calls. */
struct graph {
        struct build *b;
        uint32_t *calls;
        uint32_t n_calls, calls_capacity;
        uint32_t *first; /* [n_rules + 1] */
        uint32_t *order; /* [n_order]: rules that root reaches, callees first */
        uint32_t n_order;
        uint8_t *color;         /* [n_rules] */
        uint32_t *stack, *next; /* [n_rules] */
        size_t size;            /* charged, without `calls` */
};

bool expr_productive(const struct build *b, uint32_t expr) {
        const struct expr *x = &b->exprs[expr];

        switch (x->kind) {
        case EXPR_NEVER:
                return false;
        case EXPR_SEQ:
                for (uint32_t i = 0; i < x->b; i++)
                        if (!expr_productive(b, b->kids[x->a + i]))
                                return false;
                return true;
        case EXPR_ALT:
                for (uint32_t i = 0; i < x->b; i++)
                        if (expr_productive(b, b->kids[x->a + i]))
                                return true;
                return false;
        case EXPR_REPEAT:
                return x->b == 0 || expr_productive(b, x->a);
        case EXPR_RULE:
                return b->rules[x->a].productive;
        default:
                return true;
        }
}

bool expr_nullable(const struct build *b, uint32_t expr) {
        const struct expr *x = &b->exprs[expr];

        switch (x->kind) {
        case EXPR_EMPTY:
                return true;
        case EXPR_SEQ:
                for (uint32_t i = 0; i < x->b; i++)
                        if (!expr_nullable(b, b->kids[x->a + i]))
                                return false;
                return true;
        case EXPR_ALT:
                for (uint32_t i = 0; i < x->b; i++)
                        if (expr_nullable(b, b->kids[x->a + i]))
                                return true;
                return false;
        case EXPR_REPEAT:
                return x->b == 0 || expr_nullable(b, x->a);
        case EXPR_RULE:
                return b->rules[x->a].nullable;
        default:
                return false;
        }
}

static void add_call(struct graph *g, uint32_t rule) {
        int r = TABLE_ROOM(&g->b->charge, g->calls, g->calls_capacity, g->n_calls, g->b->e);

        if (r < 0)
                g->b->failed = r;
        else
                g->calls[g->n_calls++] = rule;
}

/* Add the rules that the expression calls; @left: only those that it may call before it has read a
 * byte. */
static void add_calls(struct graph *g, uint32_t expr, bool left) {
        const struct build *b = g->b;
        const struct expr x = b->exprs[expr];

        if (!build_work(g->b, 1))
                return;
        switch (x.kind) {
        case EXPR_SEQ:
        case EXPR_ALT:
                for (uint32_t i = 0; i < x.b && !b->failed; i++) {
                        add_calls(g, b->kids[x.a + i], left);
                        if (left && x.kind == EXPR_SEQ && !expr_nullable(b, b->kids[x.a + i]))
                                return;
                }
                return;
        case EXPR_REPEAT:
                add_calls(g, x.a, left);
                return;
        case EXPR_RULE:
                add_call(g, x.a);
                return;
        default:
                return;
        }
}

static void graph_fill(struct graph *g, bool left) {
        struct build *b = g->b;

        g->n_calls = 0;
        for (uint32_t i = 0; i < b->n_rules; i++) {
                g->first[i] = g->n_calls;
                if (!b->failed)
                        add_calls(g, b->rules[i].expr, left);
        }
        g->first[b->n_rules] = g->n_calls;
}

static void graph_init(struct graph *g, struct build *b) {
        size_t n = b->n_rules;
        int r;

        *g = (struct graph){.b = b, .size = (n + 1) * (4 * sizeof(uint32_t) + 1)};
        r = charge_take(&b->charge, g->size, "a grammar", b->e);
        if (r < 0) {
                b->failed = r;
                g->size = 0;
                return;
        }
        g->first = calloc(n + 1, sizeof(*g->first));
        g->order = calloc(n + 1, sizeof(*g->order));
        g->stack = calloc(n + 1, sizeof(*g->stack));
        g->next = calloc(n + 1, sizeof(*g->next));
        g->color = calloc(n + 1, 1);
        if (!g->first || !g->order || !g->stack || !g->next || !g->color)
                build_fail(b, ERR_NOMEM, "no memory for a grammar");
}

static void graph_deinit(struct graph *g) {
        free(g->first);
        free(g->order);
        free(g->stack);
        free(g->next);
        free(g->color);
        free(g->calls);
        charge_give(&g->b->charge, g->size + g->calls_capacity * sizeof(*g->calls));
}

enum { NEW, OPEN, CLOSED };

/* Depth first from @root; with @order callees first into `order`. Returns a rule on a cycle, or
 * UINT32_MAX. */
static uint32_t graph_walk(struct graph *g, uint32_t root, bool order) {
        uint32_t depth = 0, cycle = UINT32_MAX;

        if (g->color[root] != NEW)
                return cycle;
        g->stack[0] = root;
        g->next[root] = g->first[root];
        g->color[root] = OPEN;
        for (;;) {
                uint32_t rule = g->stack[depth], callee;

                if (g->next[rule] == g->first[rule + 1]) {
                        g->color[rule] = CLOSED;
                        if (order)
                                g->order[g->n_order++] = rule;
                        if (depth == 0)
                                return cycle;
                        depth--;
                        continue;
                }
                callee = g->calls[g->next[rule]++];
                if (g->color[callee] == OPEN && cycle == UINT32_MAX)
                        cycle = callee;
                if (g->color[callee] != NEW)
                        continue;
                g->color[callee] = OPEN;
                g->next[callee] = g->first[callee];
                g->stack[++depth] = callee;
        }
}

/* Go over the rules, callees first, until neither property changes. */
static void find_properties(struct graph *g) {
        struct build *b = g->b;
        bool changed = true;

        while (changed && !b->failed) {
                changed = false;
                for (uint32_t i = 0; i < g->n_order; i++) {
                        struct rule *rule = &b->rules[g->order[i]];

                        if (!rule->productive && expr_productive(b, rule->expr))
                                changed = rule->productive = true;
                        if (!rule->nullable && expr_nullable(b, rule->expr))
                                changed = rule->nullable = true;
                        if (!build_work(b, 4))
                                return;
                }
                if (!build_work(b, changed ? b->n_exprs : 0))
                        return;
        }
}

/* Nodes of the expression, or UINT32_MAX if it must not be inlined. */
static uint32_t inlined_size(const struct build *b, uint32_t expr) {
        const struct expr *x = &b->exprs[expr];
        uint64_t n = 1;

        switch (x->kind) {
        case EXPR_BYTES:
                return x->b;
        case EXPR_CHARS:
                return MIN(8 * x->b, MAX_INLINED + 1);
        case EXPR_SEQ:
        case EXPR_ALT:
                for (uint32_t i = 0; i < x->b && n <= MAX_INLINED; i++)
                        n += inlined_size(b, b->kids[x->a + i]);
                return (uint32_t)MIN(n, (uint64_t)UINT32_MAX);
        case EXPR_REPEAT:
                if (x->c == BUILD_ENDLESS)
                        return UINT32_MAX;
                n += inlined_size(b, x->a);
                return (uint32_t)MIN(n, (uint64_t)UINT32_MAX);
        case EXPR_RULE:
                return b->rules[x->a].inlined ? b->rules[x->a].size : UINT32_MAX;
        default:
                return 1;
        }
}

static void choose_inlined(struct graph *g) {
        struct build *b = g->b;

        for (uint32_t i = 0; i < g->n_order; i++) {
                struct rule *rule = &b->rules[g->order[i]];
                uint32_t depth = 0;

                for (uint32_t k = g->first[g->order[i]]; k < g->first[g->order[i] + 1]; k++)
                        depth = MAX(depth, b->rules[g->calls[k]].start);
                /* Until nodes are written, `start` has the depth of what is inlined. */
                rule->start = 0;
                rule->size = rule->keep || depth >= MAX_INLINE_DEPTH ? UINT32_MAX
                                                                     : inlined_size(b, rule->expr);
                rule->inlined = rule->size <= MAX_INLINED;
                if (rule->inlined)
                        rule->start = depth + 1;
        }
}

static void refuse_left_recursion(struct graph *g) {
        struct build *b = g->b;

        for (uint32_t i = 0; i < b->n_rules; i++)
                g->color[i] = NEW;
        graph_fill(g, true);
        for (uint32_t i = 0; i < g->n_order && !b->failed; i++) {
                uint32_t rule = g->order[i];
                uint32_t cycle = g->color[rule] == NEW ? graph_walk(g, rule, false) : UINT32_MAX;
                if (cycle != UINT32_MAX && b->rules[cycle].line > 0)
                        build_fail(b, ERR_INVALID,
                                "grammar, %u:%u: this rule is left-recursive: it can begin with "
                                "itself",
                                b->rules[cycle].line, b->rules[cycle].column);
                else if (cycle != UINT32_MAX)
                        build_fail(b, ERR_INVALID, "the schema refers to itself without end");
        }
}

/* The rule at fault when nothing meets @rule: perhaps one of a circle of rules. */
static uint32_t find_fault(const struct build *b, uint32_t rule) {
        uint32_t expr = b->rules[rule].expr;

        for (uint32_t steps = 0; steps < 4 * b->n_exprs; steps++) {
                const struct expr *x = &b->exprs[expr];

                switch (x->kind) {
                case EXPR_SEQ:
                        for (uint32_t i = 0; i < x->b; i++)
                                if (!expr_productive(b, b->kids[x->a + i])) {
                                        expr = b->kids[x->a + i];
                                        break;
                                }
                        break;
                case EXPR_ALT:
                        expr = b->kids[x->a + x->b - 1];
                        break;
                case EXPR_REPEAT:
                        expr = x->a;
                        break;
                case EXPR_RULE:
                        rule = x->a;
                        expr = b->rules[rule].expr;
                        break;
                default:
                        return rule;
                }
        }
        return rule;
}

static void refuse_unmet(struct build *b, uint32_t root) {
        const struct rule *rule = &b->rules[find_fault(b, root)];

        if (rule->line > 0)
                build_fail(b, ERR_INVALID, "grammar, %u:%u: no text of any length meets this rule",
                        rule->line, rule->column);
        else if (rule->why)
                build_fail(b, ERR_INVALID, "schema, %.*s: nothing can meet it: %s",
                        (int)rule->name_size, (const char *)b->bytes + rule->name, rule->why);
        else
                build_fail(b, ERR_INVALID,
                        "schema: nothing can meet it: a value would have to go on without end");
}

void analyse(struct build *b, uint32_t root) {
        struct graph g;

        if (b->failed)
                return;
        graph_init(&g, b);
        if (!b->failed)
                graph_fill(&g, false);
        if (!b->failed) {
                for (uint32_t i = 0; i < b->n_rules; i++)
                        b->rules[i].start = 0;
                graph_walk(&g, root, true);
                find_properties(&g);
        }
        if (!b->failed) {
                choose_inlined(&g);
                for (uint32_t i = 0; i < b->n_rules; i++)
                        b->rules[i].start = UINT32_MAX;
        }
        if (!b->failed && !b->rules[root].productive)
                refuse_unmet(b, root);
        if (!b->failed)
                refuse_left_recursion(&g);
        graph_deinit(&g);
}
