/* SPDX-License-Identifier: MIT */
/* The tables of expressions and rules. */
#include "grammar/build.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORK ((uint64_t)40000000) /* about a second */
#define STOP_EVERY 4096

int table_grow(struct charge *c, void **p, uint32_t *capacity, uint32_t n, size_t item_size,
        struct err *e) {
        uint32_t more;
        void *q;
        int r;

        if (n < *capacity)
                return 0;
        if (*capacity >= UINT32_MAX / 4)
                return err_set(e, ERR_TOO_LARGE, "a grammar's table is too long");
        more = *capacity / 2 + 32;
        r = charge_take(c, more * item_size, "a grammar", e);
        if (r < 0)
                return r;
        q = realloc(*p, (size_t)(*capacity + more) * item_size);
        if (!q) {
                charge_give(c, more * item_size);
                return err_set(e, ERR_NOMEM, "no memory for a grammar");
        }
        *p = q;
        *capacity += more;
        return 0;
}

static uint32_t add_expr(struct build *b, enum expr_kind kind, uint32_t a, uint32_t x, uint32_t y) {
        int r;

        if (b->failed)
                return NEVER;
        if (b->n_exprs >= MAX_EXPRS)
                return build_fail(
                        b, ERR_TOO_LARGE, "the grammar has more than %u expressions", MAX_EXPRS);
        r = TABLE_ROOM(&b->charge, b->exprs, b->exprs_capacity, b->n_exprs, b->e);
        if (r < 0) {
                b->failed = r;
                return NEVER;
        }
        b->exprs[b->n_exprs] = (struct expr){kind, a, x, y};
        return b->n_exprs++;
}

int build_init(struct build *b, struct ledger *ledger, const atomic_bool *stop, struct err *e) {
        *b = (struct build){.charge = {.ledger = ledger}, .e = e, .stop = stop};
        add_expr(b, EXPR_NEVER, 0, 0, 0);
        add_expr(b, EXPR_EMPTY, 0, 0, 0);
        return b->failed;
}

void build_deinit(struct build *b) {
        free(b->exprs);
        free(b->kids);
        free(b->bytes);
        free(b->ranges);
        free(b->rules);
        charge_deinit(&b->charge);
        *b = (struct build){0};
}

uint32_t build_fail(struct build *b, enum err_code code, const char *fmt, ...) {
        char text[256];
        va_list args;

        if (b->failed)
                return NEVER;
        va_start(args, fmt);
        vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        b->failed = err_set(b->e, code, "%s", text);
        return NEVER;
}

bool build_work(struct build *b, uint64_t n) {
        if (b->failed)
                return false;
        if (b->stop && b->work / STOP_EVERY != (b->work + n) / STOP_EVERY && atomic_load(b->stop))
                build_fail(b, ERR_CANCELLED, "cancelled while the grammar was compiled");
        b->work += n;
        if (b->work > MAX_WORK)
                build_fail(b, ERR_TOO_LARGE, "the grammar takes more than %llu steps to compile",
                        (unsigned long long)MAX_WORK);
        return !b->failed;
}

uint32_t build_bytes(struct build *b, const void *bytes, size_t n) {
        uint32_t at = b->n_bytes;

        if (n == 0)
                return EMPTY;
        for (size_t i = 0; i < n && !b->failed; i++) {
                int r = TABLE_ROOM(&b->charge, b->bytes, b->bytes_capacity, b->n_bytes, b->e);

                if (r < 0)
                        b->failed = r;
                else
                        b->bytes[b->n_bytes++] = ((const uint8_t *)bytes)[i];
        }
        return add_expr(b, EXPR_BYTES, at, (uint32_t)n, 0);
}

uint32_t build_text(struct build *b, const char *text) {
        return build_bytes(b, text, strlen(text));
}

static int compare_ranges(const void *a, const void *b) {
        const struct range *x = a, *y = b;

        return x->from < y->from ? -1 : x->from > y->from;
}

uint32_t build_chars(struct build *b, struct range *r, size_t n) {
        uint32_t at = b->n_ranges;

        qsort(r, n, sizeof(*r), compare_ranges);
        for (size_t i = 0; i < n && !b->failed; i++) {
                struct range *last = b->n_ranges > at ? &b->ranges[b->n_ranges - 1] : NULL;
                int k;

                if (r[i].from > r[i].to)
                        continue;
                if (last && r[i].from <= last->to + 1) {
                        last->to = MAX(last->to, r[i].to);
                        continue;
                }
                k = TABLE_ROOM(&b->charge, b->ranges, b->ranges_capacity, b->n_ranges, b->e);
                if (k < 0)
                        b->failed = k;
                else
                        b->ranges[b->n_ranges++] = r[i];
        }
        if (b->n_ranges == at)
                return NEVER;
        return add_expr(b, EXPR_CHARS, at, b->n_ranges - at, 0);
}

static uint32_t add_list(struct build *b, enum expr_kind kind, const uint32_t *kids, size_t n) {
        uint32_t at = b->n_kids;

        for (size_t i = 0; i < n && !b->failed; i++) {
                int r = TABLE_ROOM(&b->charge, b->kids, b->kids_capacity, b->n_kids, b->e);

                if (r < 0)
                        b->failed = r;
                else
                        b->kids[b->n_kids++] = kids[i];
        }
        return add_expr(b, kind, at, (uint32_t)n, 0);
}

uint32_t build_seq(struct build *b, const uint32_t *kids, size_t n) {
        return n == 0 ? EMPTY : n == 1 ? kids[0] : add_list(b, EXPR_SEQ, kids, n);
}

uint32_t build_alt(struct build *b, const uint32_t *kids, size_t n) {
        return n == 0 ? NEVER : n == 1 ? kids[0] : add_list(b, EXPR_ALT, kids, n);
}

uint32_t build_repeat(struct build *b, uint32_t expr, uint32_t min, uint32_t max) {
        if (min > max)
                return NEVER;
        if (max == 0)
                return EMPTY;
        if (min == 1 && max == 1)
                return expr;
        return add_expr(b, EXPR_REPEAT, expr, min, max);
}

uint32_t build_rule_use(struct build *b, uint32_t rule) {
        return add_expr(b, EXPR_RULE, rule, 0, 0);
}

uint32_t build_rule(struct build *b, bool keep) {
        int r;

        if (b->failed)
                return 0;
        if (b->n_rules >= MAX_RULES) {
                build_fail(b, ERR_TOO_LARGE, "the grammar has more than %u rules", MAX_RULES);
                return 0;
        }
        r = TABLE_ROOM(&b->charge, b->rules, b->rules_capacity, b->n_rules, b->e);
        if (r < 0) {
                b->failed = r;
                return 0;
        }
        b->rules[b->n_rules] = (struct rule){.keep = keep, .start = UINT32_MAX};
        return b->n_rules++;
}

void build_define(struct build *b, uint32_t rule, uint32_t expr) {
        if (b->failed)
                return;
        b->rules[rule].expr = expr;
        b->rules[rule].defined = true;
}
