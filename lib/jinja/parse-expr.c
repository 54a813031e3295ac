/* SPDX-License-Identifier: MIT */
/*
 * Expressions, by Jinja's precedence, the weakest first:
 *
 *   a if b else c,  or,  and,  not,  comparisons (chained) and [not] in,  + -,  ~,  * / // %,  **,
 *   unary + -,  then .name [item] (call) |filter and "is test" behind a primary expression.
 *
 * Binary operators of one level are read by one loop (precedence climbing), so a level of brackets
 * takes few calls. Chains without brackets make the tree deeper, not the parser's stack.
 */
#include "jinja/parse.h"
#include "base/err.h"
#include "base/util.h"
#include <string.h>

struct level {
        unsigned token;
        uint8_t op, power;
};

static const struct level levels[] = {{'+', OP_ADD, 1}, {'-', OP_SUB, 1}, {'~', OP_CONCAT, 2},
        {'*', OP_MUL, 3}, {'/', OP_DIV, 3}, {OP2('/', '/'), OP_FLOORDIV, 3}, {'%', OP_MOD, 3},
        {OP2('*', '*'), OP_POW, 4}};

static const struct level comparisons[] = {{OP2('=', '='), OP_EQ, 0}, {OP2('!', '='), OP_NE, 0},
        {'<', OP_LT, 0}, {OP2('<', '='), OP_LE, 0}, {'>', OP_GT, 0}, {OP2('>', '='), OP_GE, 0}};

static const struct level *level_of(const struct parser *p, const struct level *table, size_t n) {
        for (size_t i = 0; i < n && p->l.token.kind == K_OP; i++)
                if (table[i].token == p->l.token.op)
                        return &table[i];
        return NULL;
}

static struct node *parse_test(struct parser *p, struct node *of);

static struct node *unary_node(
        struct parser *p, enum node_kind kind, uint32_t offset, struct node *a) {
        struct node *n = node_new(p, kind, offset);

        n->a = a;
        return node_done(p, n);
}

static struct node *binary_node(struct parser *p, enum node_kind kind, uint32_t offset,
        struct node *a, struct node *b, uint8_t op) {
        struct node *n = node_new(p, kind, offset);

        n->a = a;
        n->b = b;
        n->op = op;
        return node_done(p, n);
}

static struct node *parse_binary(struct parser *p, unsigned power) {
        struct node *left = parse_unary(p, true);
        const struct level *level;

        while ((level = level_of(p, levels, ARRAY_SIZE(levels))) && level->power >= power) {
                uint32_t offset = p->l.token.offset;

                lexer_next(&p->l);
                left = binary_node(
                        p, N_BINARY, offset, left, parse_binary(p, level->power + 1u), level->op);
        }
        return left;
}

/* The comparison operator at the present token, which is consumed; -1: there is none. */
static int take_comparison(struct parser *p) {
        const struct level *level = level_of(p, comparisons, ARRAY_SIZE(comparisons));

        if (level) {
                lexer_next(&p->l);
                return level->op;
        }
        if (skip_name(p, "in"))
                return OP_IN;
        if (at_name(p, "not")) {
                struct lexer before = p->l;

                lexer_next(&p->l);
                if (skip_name(p, "in"))
                        return OP_NOT_IN;
                if (!parser_failed(p))
                        p->l = before;
        }
        return -1;
}

static struct node *parse_compare(struct parser *p) {
        uint32_t offset = p->l.token.offset;
        struct node *first = parse_binary(p, 1), *n;
        struct nodes operands = {0};
        int op;

        while (!parser_failed(p) && (op = take_comparison(p)) >= 0) {
                struct node *operand = node_new(p, N_OPERAND, p->l.token.offset);

                operand->op = (uint8_t)op;
                operand->a = parse_binary(p, 1);
                nodes_add(p, &operands, node_done(p, operand));
        }
        if (operands.n == 0)
                return first;
        n = node_new(p, N_COMPARE, offset);
        n->a = first;
        n->items = operands.items;
        n->n_items = operands.n;
        return node_done(p, n);
}

static struct node *parse_not(struct parser *p) {
        uint32_t offset = p->l.token.offset;
        unsigned n_nots = 0;
        struct node *n;

        while (n_nots < MAX_DEPTH && skip_name(p, "not"))
                n_nots++;
        n = parse_compare(p);
        for (; n_nots > 0; n_nots--)
                n = unary_node(p, N_NOT, offset, n);
        return n;
}

static struct node *parse_and(struct parser *p) {
        struct node *left = parse_not(p);
        uint32_t offset = p->l.token.offset;

        while (skip_name(p, "and")) {
                left = binary_node(p, N_AND, offset, left, parse_not(p), 0);
                offset = p->l.token.offset;
        }
        return left;
}

static struct node *parse_or(struct parser *p) {
        struct node *left = parse_and(p);
        uint32_t offset = p->l.token.offset;

        while (skip_name(p, "or")) {
                left = binary_node(p, N_OR, offset, left, parse_and(p), 0);
                offset = p->l.token.offset;
        }
        return left;
}

struct node *parse_no_condition(struct parser *p) {
        struct node *n;

        if (!parser_enter(p))
                return &p->none;
        n = parse_or(p);
        parser_leave(p);
        return n;
}

struct node *parse_expression(struct parser *p) {
        struct node *n;
        uint32_t offset;

        if (!parser_enter(p))
                return &p->none;
        n = parse_or(p);
        offset = p->l.token.offset;
        while (skip_name(p, "if")) {
                struct node *choice = node_new(p, N_IF_ELSE, offset);

                choice->a = n;
                choice->b = parse_or(p);
                choice->c = skip_name(p, "else") ? parse_expression(p) : NULL;
                n = node_done(p, choice);
                offset = p->l.token.offset;
        }
        parser_leave(p);
        return n;
}

/* Whether the present token ends a list of expressions without brackets. */
static bool at_tuple_end(const struct parser *p) {
        enum token_kind k = p->l.token.kind;

        return k == K_END || k == K_VARIABLE_END || k == K_BLOCK_END || at_op(p, ')') ||
               at_op(p, '=') || at_name(p, "in") || at_name(p, "recursive");
}

struct node *parse_tuple(struct parser *p, bool conditions) {
        uint32_t offset = p->l.token.offset;
        struct nodes items = {0};
        bool comma = false;
        struct node *n;

        while (!at_tuple_end(p)) {
                nodes_add(p, &items, conditions ? parse_expression(p) : parse_no_condition(p));
                comma = skip_op(p, ',');
                if (!comma)
                        break;
        }
        if (items.n == 1 && !comma)
                return items.items[0];
        if (items.n == 0 && !at_op(p, ')'))
                unexpected(p, "an expression");
        n = node_new(p, N_TUPLE, offset);
        n->items = items.items;
        n->n_items = items.n;
        return node_done(p, n);
}

static struct node *parse_list(struct parser *p) {
        struct node *n = node_new(p, N_LIST, p->l.token.offset);
        struct nodes items = {0};

        lexer_next(&p->l);
        while (!parser_failed(p) && !at_op(p, ']')) {
                nodes_add(p, &items, parse_expression(p));
                if (!skip_op(p, ','))
                        break;
        }
        expect_op(p, ']', "at the end of the list");
        n->items = items.items;
        n->n_items = items.n;
        return node_done(p, n);
}

static struct node *parse_dict(struct parser *p) {
        struct node *n = node_new(p, N_DICT, p->l.token.offset);
        struct nodes items = {0};

        lexer_next(&p->l);
        while (!parser_failed(p) && !at_op(p, '}')) {
                nodes_add(p, &items, parse_expression(p));
                expect_op(p, ':', "between key and value");
                nodes_add(p, &items, parse_expression(p));
                if (!skip_op(p, ','))
                        break;
        }
        expect_op(p, '}', "at the end of the dict");
        n->items = items.items;
        n->n_items = items.n;
        return node_done(p, n);
}

/* true, false and none in both cases, or a variable. */
static struct node *parse_name(struct parser *p) {
        struct node *n = node_new(p, N_NAME, p->l.token.offset);
        const struct string *s = p->l.token.name;

        n->name = s;
        if (string_is_lit(s, "true") || string_is_lit(s, "True") || string_is_lit(s, "false") ||
                string_is_lit(s, "False")) {
                n->kind = N_CONST;
                n->value = v_trusted(v_bool((s->text[0] | 32) == 't'), true);
        } else if (string_is_lit(s, "none") || string_is_lit(s, "None")) {
                n->kind = N_CONST;
                n->value = NONE;
        } else if (p->macro) {
                p->macro->uses_caller |= string_is_lit(s, "caller");
                p->macro->uses_varargs |= string_is_lit(s, "varargs");
                p->macro->uses_kwargs |= string_is_lit(s, "kwargs");
        }
        lexer_next(&p->l);
        return node_done(p, n);
}

static struct node *parse_literal(struct parser *p) {
        struct node *n = node_new(p, N_CONST, p->l.token.offset);
        bool is_string = p->l.token.kind == K_STRING;

        n->value = p->l.token.value;
        lexer_next(&p->l);
        while (is_string && p->l.token.kind == K_STRING) { /* 'a' 'b' */
                n->value.s = string_concat(parser_arena(p), n->value.s, p->l.token.value.s);
                lexer_next(&p->l);
        }
        return node_done(p, n);
}

struct node *parse_primary(struct parser *p) {
        struct node *n;

        switch (p->l.token.kind) {
        case K_NAME:
                return parse_name(p);
        case K_STRING:
        case K_INT:
        case K_FLOAT:
                return parse_literal(p);
        default:
                break;
        }
        if (at_op(p, '['))
                return parse_list(p);
        if (at_op(p, '{'))
                return parse_dict(p);
        if (!at_op(p, '(')) {
                unexpected(p, "an expression");
                return &p->none;
        }
        lexer_next(&p->l);
        n = parse_tuple(p, true);
        expect_op(p, ')', "for the bracket that was opened");
        return n;
}

struct node *parse_unary(struct parser *p, bool filters) {
        uint32_t offset = p->l.token.offset;
        struct node *n;

        if (!parser_enter(p))
                return &p->none;
        if (at_op(p, '-') || at_op(p, '+')) {
                uint8_t op = at_op(p, '-') ? OP_SUB : OP_ADD;

                lexer_next(&p->l);
                n = binary_node(p, N_UNARY, offset, parse_unary(p, false), NULL, op);
        } else {
                n = parse_primary(p);
        }
        n = parse_postfix(p, n);
        for (bool more = filters; more && !parser_failed(p);) {
                if (skip_op(p, '|'))
                        n = parse_filters(p, n);
                else if (at_name(p, "is"))
                        n = parse_test(p, n);
                else if (at_op(p, '('))
                        n = parse_postfix(p, n);
                else
                        more = false;
        }
        parser_leave(p);
        return n;
}

/* A part of a slice, or NULL: at ":" or the end. */
static struct node *slice_part(struct parser *p) {
        return at_op(p, ':') || at_op(p, ']') || at_op(p, ',') ? NULL : parse_expression(p);
}

static struct node *parse_subscript(struct parser *p, struct node *of) {
        uint32_t offset = p->l.token.offset;
        struct node *first, *n;

        lexer_next(&p->l);
        first = slice_part(p);
        if (!at_op(p, ':')) {
                if (!first)
                        unexpected(p, "an index");
                n = binary_node(p, N_ITEM, offset, of, first, 0);
        } else {
                struct nodes parts = {0};

                nodes_add(p, &parts, first);
                for (int i = 1; i < 3; i++)
                        nodes_add(p, &parts, skip_op(p, ':') ? slice_part(p) : NULL);
                n = node_new(p, N_SLICE, offset);
                n->a = of;
                n->items = parts.items;
                n->n_items = parts.n;
                n = node_done(p, n);
        }
        expect_op(p, ']', "behind the index");
        return n;
}

static struct node *parse_attribute(struct parser *p, struct node *of) {
        uint32_t offset = p->l.token.offset;
        struct node *n;

        lexer_next(&p->l);
        if (p->l.token.kind == K_INT)
                return binary_node(p, N_ITEM, offset, of, parse_literal(p), 0);
        n = node_new(p, N_ATTRIBUTE, offset);
        n->a = of;
        n->name = take_name(p, "the name of an attribute");
        return node_done(p, n);
}

/* Whether a test's only argument follows without brackets: "is divisibleby 3". */
static bool at_bare_argument(const struct parser *p) {
        switch (p->l.token.kind) {
        case K_STRING:
        case K_INT:
        case K_FLOAT:
                return true;
        case K_NAME:
                return !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and") &&
                       !at_name(p, "is") && !at_name(p, "if") && !at_name(p, "not") &&
                       !at_name(p, "in");
        default:
                return at_op(p, '[') || at_op(p, '{');
        }
}

static struct node *parse_test(struct parser *p, struct node *of) {
        struct node *n = node_new(p, N_TEST, p->l.token.offset);
        bool negated;

        lexer_next(&p->l);
        negated = skip_name(p, "not");
        n->a = of;
        n->name = take_name(p, "the name of a test");
        n->function = n->name ? test_find(n->name) : NULL;
        if (at_op(p, '(')) {
                n->args = parse_args(p);
        } else if (at_bare_argument(p)) {
                struct nodes only = {0};

                nodes_add(p, &only, parse_postfix(p, parse_primary(p)));
                n->args = arena_alloc(parser_arena(p), sizeof(*n->args));
                if (n->args)
                        *n->args = (struct args){.positional = only.items, .n_positional = only.n};
        }
        n = node_done(p, n);
        return negated ? unary_node(p, N_NOT, n->offset, n) : n;
}

struct node *parse_postfix(struct parser *p, struct node *of) {
        while (!parser_failed(p)) {
                if (at_op(p, '.')) {
                        of = parse_attribute(p, of);
                } else if (at_op(p, '[')) {
                        of = parse_subscript(p, of);
                } else if (at_op(p, '(')) {
                        struct node *n = node_new(p, N_CALL, p->l.token.offset);

                        n->a = of;
                        n->args = parse_args(p);
                        of = node_done(p, n);
                } else {
                        break;
                }
        }
        return of;
}

struct node *parse_filters(struct parser *p, struct node *of) {
        do {
                struct node *n = node_new(p, N_FILTER, p->l.token.offset);

                n->a = of;
                n->name = take_name(p, "the name of a filter");
                n->function = n->name ? filter_find(n->name) : NULL;
                if (at_op(p, '('))
                        n->args = parse_args(p);
                of = node_done(p, n);
        } while (!parser_failed(p) && skip_op(p, '|'));
        return of;
}

/* One argument: "*list", "**dict", "name=value" or a value. */
static void parse_argument(
        struct parser *p, struct args *args, struct nodes *positional, struct nodes *named) {
        struct lexer before = p->l;

        if (skip_op(p, '*')) {
                args->star = parse_expression(p);
                return;
        }
        if (skip_op(p, OP2('*', '*'))) {
                args->star_star = parse_expression(p);
                return;
        }
        if (p->l.token.kind == K_NAME) {
                struct arena *a = parser_arena(p);
                const struct string *name = p->l.token.name;

                lexer_next(&p->l);
                if (skip_op(p, '=')) {
                        const struct string **names = arena_grow(a, args->names,
                                named->n * sizeof(*names), (named->n + 1) * sizeof(*names));

                        if (!names)
                                return;
                        names[named->n] = name;
                        args->names = names;
                        nodes_add(p, named, parse_expression(p));
                        return;
                }
                if (parser_failed(p))
                        return;
                p->l = before;
        }
        if (named->n > 0)
                unexpected(p, "NAME=VALUE, as the argument before");
        nodes_add(p, positional, parse_expression(p));
}

struct args *parse_args(struct parser *p) {
        struct args *args = arena_alloc(parser_arena(p), sizeof(*args));
        struct nodes positional = {0}, named = {0};

        if (!args)
                return NULL;
        lexer_next(&p->l);
        while (!parser_failed(p) && !at_op(p, ')')) {
                if (named.n >= 255)
                        lexer_fail(&p->l, ERR_TOO_LARGE, p->l.token.offset,
                                "more than 255 named arguments");
                parse_argument(p, args, &positional, &named);
                if (!skip_op(p, ','))
                        break;
        }
        expect_op(p, ')', "behind the arguments");
        args->positional = positional.items;
        args->n_positional = positional.n;
        args->named = named.items;
        args->n_named = named.n;
        return args;
}
