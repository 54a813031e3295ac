/* SPDX-License-Identifier: MIT */
/*
 * Statements. A body is read until a tag that ends it ("endfor", "else"), which its statement
 * consumes.
 */
#include "jinja/parse.h"
#include "base/err.h"
#include "base/util.h"
#include "jinja/jinja.h"
#include <assert.h>
#include <string.h>

/* A template longer than that is none. */
#define MAX_TEMPLATE (4 << 20)
/* What its nodes may take: about 40 bytes of memory for each byte of a dense template. */
#define MAX_TREE ((size_t)256 << 20)

struct node *node_new(struct parser *p, enum node_kind kind, uint32_t offset) {
        struct node *n = arena_alloc(parser_arena(p), sizeof(*n));

        if (!n)
                n = &p->none;
        *n = (struct node){.kind = (uint8_t)kind, .offset = offset, .depth = 1};
        return n;
}

static unsigned deepest(unsigned depth, const struct node *n) {
        return n && n->depth > depth ? n->depth : depth;
}

static unsigned deepest_of(unsigned depth, struct node *const *items, size_t n_items) {
        for (size_t i = 0; i < n_items; i++)
                depth = deepest(depth, items[i]);
        return depth;
}

struct node *node_done(struct parser *p, struct node *n) {
        unsigned depth = deepest(deepest(deepest(0, n->a), n->b), n->c);

        depth = deepest(deepest(depth, n->body), n->orelse);
        depth = deepest_of(depth, n->items, n->n_items);
        if (n->args) {
                depth = deepest_of(depth, n->args->positional, n->args->n_positional);
                depth = deepest_of(depth, n->args->named, n->args->n_named);
                depth = deepest(deepest(depth, n->args->star), n->args->star_star);
        }
        if (n->kind == N_MACRO || n->kind == N_CALL_BLOCK) {
                depth = deepest_of(depth, n->macro->defaults, n->macro->n_params);
                depth = deepest(depth, n->macro->body);
        }
        if (depth >= MAX_DEPTH)
                lexer_fail(&p->l, ERR_TOO_LARGE, n->offset, "nested too deeply");
        n->depth = (uint16_t)(depth + 1);
        return n;
}

void nodes_add(struct parser *p, struct nodes *list, struct node *n) {
        if (list->n == list->capacity) {
                size_t capacity = MAX(2 * list->capacity, (size_t)4);
                struct node **items = arena_grow(
                        parser_arena(p), list->items, list->n * sizeof(n), capacity * sizeof(n));

                if (!items)
                        return;
                list->items = items;
                list->capacity = capacity;
        }
        list->items[list->n++] = n;
}

bool parser_enter(struct parser *p) {
        if (p->depth >= MAX_DEPTH)
                lexer_fail(&p->l, ERR_TOO_LARGE, p->l.token.offset, "nested too deeply");
        if (parser_failed(p))
                return false;
        p->depth++;
        return true;
}

bool at_op(const struct parser *p, unsigned op) {
        return p->l.token.kind == K_OP && p->l.token.op == op;
}

bool at_name(const struct parser *p, const char *name) {
        const struct token *k = &p->l.token;

        return k->kind == K_NAME && k->n == strlen(name) && memcmp(k->text, name, k->n) == 0;
}

bool skip_op(struct parser *p, unsigned op) {
        bool there = at_op(p, op);

        if (there)
                lexer_next(&p->l);
        return there;
}

bool skip_name(struct parser *p, const char *name) {
        bool there = at_name(p, name);

        if (there)
                lexer_next(&p->l);
        return there;
}

void unexpected(struct parser *p, const char *what) {
        char words[64];

        lexer_fail(&p->l, ERR_FORMAT, p->l.token.offset, "expected %s, not %s", what,
                token_words(&p->l.token, words));
}

void expect_op(struct parser *p, unsigned op, const char *where) {
        char words[64];

        if (!skip_op(p, op))
                lexer_fail(&p->l, ERR_FORMAT, p->l.token.offset, "expected '%c' %s, not %s",
                        (int)op, where, token_words(&p->l.token, words));
}

void expect_name(struct parser *p, const char *name, const char *where) {
        char words[64];

        if (!skip_name(p, name))
                lexer_fail(&p->l, ERR_FORMAT, p->l.token.offset, "expected '%s' %s, not %s", name,
                        where, token_words(&p->l.token, words));
}

const struct string *take_name(struct parser *p, const char *what) {
        const struct string *name = p->l.token.name;

        if (p->l.token.kind != K_NAME) {
                unexpected(p, what);
                return string_empty();
        }
        lexer_next(&p->l);
        return name;
}

struct node *parse_target(struct parser *p, bool attributes) {
        struct node *n = node_new(p, N_TUPLE, p->l.token.offset);
        struct nodes items = {0};
        bool comma = false;

        if (!parser_enter(p))
                return n;
        while (p->l.token.kind == K_NAME || at_op(p, '(')) {
                struct node *one = node_new(p, N_NAME, p->l.token.offset);

                if (skip_op(p, '(')) {
                        one = parse_target(p, attributes);
                        expect_op(p, ')', "behind the names");
                } else {
                        one->name = take_name(p, "a name");
                        if (attributes && at_op(p, '.')) {
                                struct node *of = one;

                                lexer_next(&p->l);
                                one = node_new(p, N_ATTRIBUTE, of->offset);
                                one->a = of;
                                one->name = take_name(p, "the name of an attribute");
                        }
                }
                nodes_add(p, &items, node_done(p, one));
                comma = skip_op(p, ',');
                if (!comma || at_name(p, "in"))
                        break;
        }
        parser_leave(p);
        if (items.n == 0)
                unexpected(p, "a name");
        if (items.n == 1 && !comma)
                return items.items[0];
        n->items = items.items;
        n->n_items = items.n;
        return node_done(p, n);
}

static void end_block(struct parser *p, const char *tag) {
        char words[64];

        if (p->l.token.kind != K_BLOCK_END)
                lexer_fail(&p->l, ERR_FORMAT, p->l.token.offset,
                        "expected '%%}' at the end of '%s', not %s", tag,
                        token_words(&p->l.token, words));
        else
                lexer_next(&p->l);
}

static struct node *parse_statement(struct parser *p);

/* Whether the present token is one of the words in @ends ("endfor else"). */
static bool at_end(const struct parser *p, const char *ends) {
        const struct token *k = &p->l.token;

        for (const char *s = ends; *s;) {
                size_t n = strcspn(s, " ");

                if (k->n == n && memcmp(k->text, s, n) == 0)
                        return true;
                s += n + (s[n] == ' ');
        }
        return false;
}

/* Up to a tag of @ends, whose name is then the present token; the whole template for "". @offset:
 * the tag that needs the end. */
static struct node *parse_body(struct parser *p, const char *ends, uint32_t offset) {
        struct node *n = node_new(p, N_BODY, offset);
        struct nodes items = {0};

        if (!parser_enter(p))
                return n;
        while (!parser_failed(p)) {
                const struct token *k = &p->l.token;
                struct node *one = NULL;

                if (k->kind == K_END && *ends)
                        lexer_fail(&p->l, ERR_FORMAT, offset, "'%.*s' is missing",
                                (int)strcspn(ends, " "), ends);
                if (k->kind == K_END)
                        break;
                if (k->kind == K_DATA) {
                        one = node_new(p, N_TEXT, k->offset);
                        one->value = v_string(string_new(parser_arena(p), k->text, k->n, true));
                        lexer_next(&p->l);
                } else if (k->kind == K_VARIABLE_BEGIN) {
                        one = node_new(p, N_OUTPUT, k->offset);
                        lexer_next(&p->l);
                        one->a = parse_tuple(p, true);
                        if (p->l.token.kind != K_VARIABLE_END)
                                unexpected(p, "'}}' at the end of the expression");
                        else
                                lexer_next(&p->l);
                        one = node_done(p, one);
                } else {
                        lexer_next(&p->l);
                        if (k->kind == K_NAME && at_end(p, ends))
                                break;
                        one = parse_statement(p);
                }
                if (one)
                        nodes_add(p, &items, one);
        }
        parser_leave(p);
        n->items = items.items;
        n->n_items = items.n;
        return node_done(p, n);
}

static struct node *parse_if(struct parser *p, uint32_t offset) {
        struct node *n = node_new(p, N_IF, offset);
        struct nodes items = {0};
        bool more = true;

        while (more && !parser_failed(p)) {
                nodes_add(p, &items, parse_tuple(p, true));
                end_block(p, "if");
                nodes_add(p, &items, parse_body(p, "endif else elif", offset));
                more = skip_name(p, "elif");
        }
        if (skip_name(p, "else")) {
                end_block(p, "else");
                n->c = parse_body(p, "endif", offset);
        }
        expect_name(p, "endif", "at the end of 'if'");
        n->items = items.items;
        n->n_items = items.n;
        return n;
}

static struct node *parse_for(struct parser *p, uint32_t offset) {
        struct node *n = node_new(p, N_FOR, offset);

        n->a = parse_target(p, false);
        expect_name(p, "in", "behind the names of 'for'");
        n->b = parse_tuple(p, false);
        if (skip_name(p, "if"))
                n->c = parse_expression(p);
        n->flag = skip_name(p, "recursive");
        end_block(p, "for");
        p->n_loops++;
        n->body = parse_body(p, "endfor else", offset);
        p->n_loops--;
        if (skip_name(p, "else")) {
                end_block(p, "else");
                n->orelse = parse_body(p, "endfor", offset);
        }
        expect_name(p, "endfor", "at the end of 'for'");
        return n;
}

static struct node *parse_set(struct parser *p, uint32_t offset) {
        struct node *n = node_new(p, N_SET, offset);

        n->a = parse_target(p, true);
        if (skip_op(p, '=')) {
                n->b = parse_tuple(p, true);
                return n;
        }
        n->kind = N_SET_BLOCK;
        if (skip_op(p, '|'))
                n->b = parse_filters(p, NULL);
        end_block(p, "set");
        n->body = parse_body(p, "endset", offset);
        expect_name(p, "endset", "at the end of 'set'");
        return n;
}

static struct node *parse_with(struct parser *p, uint32_t offset) {
        struct node *n = node_new(p, N_WITH, offset);
        struct nodes items = {0};

        while (!parser_failed(p) && p->l.token.kind != K_BLOCK_END) {
                nodes_add(p, &items, parse_target(p, false));
                expect_op(p, '=', "behind the name");
                nodes_add(p, &items, parse_expression(p));
                if (!skip_op(p, ','))
                        break;
        }
        end_block(p, "with");
        n->items = items.items;
        n->n_items = items.n;
        n->body = parse_body(p, "endwith", offset);
        expect_name(p, "endwith", "at the end of 'with'");
        return n;
}

/* ( name, name=default, ... ) of a macro or call block. */
static void parse_params(struct parser *p, struct macro_def *m) {
        struct nodes names = {0}, defaults = {0};

        expect_op(p, '(', "before the parameters");
        while (!parser_failed(p) && !at_op(p, ')')) {
                struct node *name = node_new(p, N_NAME, p->l.token.offset);

                name->name = take_name(p, "the name of a parameter");
                nodes_add(p, &names, name);
                if (skip_op(p, '='))
                        nodes_add(p, &defaults, parse_expression(p));
                else if (defaults.n > 0 && defaults.items[defaults.n - 1])
                        unexpected(p, "'=', as the parameter before has a default");
                else
                        nodes_add(p, &defaults, NULL);
                if (!skip_op(p, ','))
                        break;
        }
        expect_op(p, ')', "behind the parameters");
        if (names.n > 255)
                lexer_fail(&p->l, ERR_TOO_LARGE, p->l.token.offset, "more than 255 parameters");
        m->params = arena_array(parser_arena(p), names.n, sizeof(*m->params));
        if (!m->params || defaults.n < names.n)
                return;
        for (size_t i = 0; i < names.n; i++)
                m->params[i] = names.items[i]->name;
        m->n_params = names.n;
        m->defaults = defaults.items;
}

/* The body of a macro, whose loops and special names are its own. */
static void parse_macro_body(
        struct parser *p, struct macro_def *m, const char *end, uint32_t offset) {
        struct macro_def *around = p->macro;
        unsigned n_loops = p->n_loops;

        p->macro = m;
        p->n_loops = 0;
        m->body = parse_body(p, end, offset);
        p->macro = around;
        p->n_loops = n_loops;
}

static struct node *parse_macro(struct parser *p, uint32_t offset) {
        struct node *n = node_new(p, N_MACRO, offset);
        struct macro_def *m = arena_alloc(parser_arena(p), sizeof(*m));

        if (!m)
                return NULL;
        n->macro = m;
        m->name = take_name(p, "the macro's name");
        parse_params(p, m);
        end_block(p, "macro");
        parse_macro_body(p, m, "endmacro", offset);
        expect_name(p, "endmacro", "at the end of 'macro'");
        return n;
}

static struct node *parse_call_block(struct parser *p, uint32_t offset) {
        struct node *n = node_new(p, N_CALL_BLOCK, offset);
        struct macro_def *m = arena_alloc(parser_arena(p), sizeof(*m));

        if (!m)
                return NULL;
        n->macro = m;
        if (at_op(p, '('))
                parse_params(p, m);
        n->a = parse_expression(p);
        if (n->a->kind != N_CALL)
                unexpected(p, "the call of a macro");
        end_block(p, "call");
        parse_macro_body(p, m, "endcall", offset);
        expect_name(p, "endcall", "at the end of 'call'");
        return n;
}

static struct node *parse_filter_block(struct parser *p, uint32_t offset) {
        struct node *n = node_new(p, N_FILTER_BLOCK, offset);

        n->a = parse_filters(p, NULL);
        end_block(p, "filter");
        n->body = parse_body(p, "endfilter", offset);
        expect_name(p, "endfilter", "at the end of 'filter'");
        return n;
}

/* Marks what the model itself wrote, for training; what it surrounds is rendered. */
static struct node *parse_generation(struct parser *p, uint32_t offset) {
        struct node *n;

        end_block(p, "generation");
        n = parse_body(p, "endgeneration", offset);
        expect_name(p, "endgeneration", "at the end of 'generation'");
        return n;
}

static struct node *parse_jump(struct parser *p, enum node_kind kind, uint32_t offset) {
        if (p->n_loops == 0)
                lexer_fail(&p->l, ERR_FORMAT, offset, "'%s' outside of a loop",
                        kind == N_BREAK ? "break" : "continue");
        return node_new(p, kind, offset);
}

static struct node *parse_break(struct parser *p, uint32_t offset) {
        return parse_jump(p, N_BREAK, offset);
}

static struct node *parse_continue(struct parser *p, uint32_t offset) {
        return parse_jump(p, N_CONTINUE, offset);
}

static struct node *refuse(struct parser *p, uint32_t offset) {
        lexer_fail(&p->l, ERR_UNSUPPORTED, offset,
                "the tag reaches for another template, which a chat template does not have");
        return NULL;
}

static const struct {
        const char *tag;
        struct node *(*parse)(struct parser *p, uint32_t offset);
} statements[] = {{"if", parse_if}, {"for", parse_for}, {"set", parse_set}, {"macro", parse_macro},
        {"call", parse_call_block}, {"filter", parse_filter_block}, {"with", parse_with},
        {"generation", parse_generation}, {"break", parse_break}, {"continue", parse_continue},
        {"include", refuse}, {"import", refuse}, {"from", refuse}, {"extends", refuse},
        {"block", refuse}};

/* At the name of a tag; consumes its end too. */
static struct node *parse_statement(struct parser *p) {
        uint32_t offset = p->l.token.offset;
        char words[64];

        for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
                if (skip_name(p, statements[i].tag)) {
                        struct node *n = statements[i].parse(p, offset);

                        if (!n)
                                return NULL;
                        end_block(p, statements[i].tag);
                        return node_done(p, n);
                }
        lexer_fail(&p->l, ERR_FORMAT, offset, "no tag begins with %s here",
                token_words(&p->l.token, words));
        return NULL;
}

void jinja_place(const struct jinja *t, uint32_t offset, unsigned *ret_line, unsigned *ret_column) {
        size_t start = 0;

        *ret_line = 1;
        for (size_t i = 0; i < offset && i < t->n; i++)
                if (t->text[i] == '\n') {
                        ++*ret_line;
                        start = i + 1;
                }
        *ret_column = (unsigned)count_chars(t->text + start, offset - start) + 1;
}

/* A copy with \n as the only newline; a newline at the end of the template goes. */
static void copy_text(struct jinja *t, const char *text, size_t n) {
        char *copy = arena_grow(&t->arena, NULL, 0, n + 1);
        size_t k = 0;

        if (!copy)
                return;
        for (size_t i = 0; i < n; i++) {
                if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n')
                        continue;
                copy[k++] = text[i] == '\r' ? '\n' : text[i];
        }
        if (k > 0 && copy[k - 1] == '\n')
                k--;
        copy[k] = 0;
        t->text = copy;
        t->n = k;
}

struct jinja *jinja_free(struct jinja *t) {
        if (!t)
                return NULL;
        arena_deinit(&t->arena);
        free(t);
        return NULL;
}

int jinja_parse(struct jinja **ret, const char *text, size_t n, unsigned flags, struct err *e) {
        _cleanup_(jinja_freep) struct jinja *t = calloc(1, sizeof(*t));
        struct parser p = {0};

        if (!t)
                return err_set(e, ERR_NOMEM, "no memory for a template");
        if (n > MAX_TEMPLATE)
                return err_set(
                        e, ERR_TOO_LARGE, "a template of %zu bytes, more than %d", n, MAX_TEMPLATE);
        t->arena = (struct arena){.max = MAX_TREE, .what = "a template", .e = e};
        t->names = dict_new(&t->arena);
        copy_text(t, text, n);
        if (t->arena.error < 0)
                return t->arena.error;
        lexer_init(&p.l, t, flags, e);
        lexer_next(&p.l);
        t->body = parse_body(&p, "", 0);
        if (t->arena.error < 0)
                return t->arena.error;
        if (p.l.error < 0)
                return p.l.error;
        t->arena.e = NULL;
        *ret = TAKE_PTR(t);
        return 0;
}
