/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers: a list of rules, one after another, each applied inside every piece that the
 * earlier ones left. A rule's matches and the text between them are pieces.
 *
 * Rules are regexes, run by PCRE2 on text that is known to be well-formed. \s is Unicode's
 * White_Space here (PCRE2's own has U+180E as well); \d is Nd, as Unicode mode has it. A word
 * character, where it matters, is that of Unicode's regex guidelines (UTS 18).
 *
 * No text may stall this (I7). A regex whose attempts look far ahead from every position is
 * quadratic, whatever the engine, and PCRE2's limits count per attempt. So the table has none:
 * such rules are written differently there (a look-behind lets runs begin only at their start), or
 * are one of these, which find runs of digits by regex and cut them by counting:
 *
 *   @digits     \d{1,3}(?=(?:\d{3})*\b)   groups of three from the right, if no letter follows
 *   @thousands  (?=(\d{3})+(?!\d))        cuts only: before every third digit from the right
 *
 * The limits on memory and steps are for what was overlooked: -ERR_LIMIT then.
 *
 * PCRE2's interpreter is used, not its compiler: some megabytes per second are far more than a
 * model reads, and the process needs no memory that is writable and executable.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/util.h"
#include "tok/tok-internal.h"

enum rule_kind { RULE_REGEX, RULE_DIGITS, RULE_THOUSANDS };

struct tok_pretok {
        pcre2_general_context *general;
        pcre2_match_context *match;
        size_t n_rules;
        struct tok_rule {
                enum rule_kind kind;
                pcre2_code *code;
        } rules[TOK_PRETOK_MAX_RULES];
};

/* One attempt takes at most a few steps per byte of a run. */
#define RULE_MATCH_LIMIT 500000000u
#define RULE_HEAP_LIMIT_KIB (64u * 1024)

static void *rule_malloc(size_t n, void *unused) {
        return malloc(n);
}

static void rule_free(void *p, void *unused) {
        free(p);
}

const struct tok_pretok_row *tok_pretok_find(const char *name, size_t n) {
        if (n == 0 || memchr(name, ' ', n))
                return NULL;
        for (size_t i = 0; i < tok_pretok_table_size; i++) {
                const char *p = tok_pretok_table[i].names;

                while (*p) {
                        size_t len = strcspn(p, " ");

                        if (len == n && memcmp(p, name, n) == 0)
                                return &tok_pretok_table[i];
                        p += len + strspn(p + len, " ");
                }
        }
        return NULL;
}

/* \s and \S as Unicode has them. */
static int rule_translate(const char *rule, struct buf *out) {
        int r = 0;

        while (r >= 0 && *rule) {
                if (rule[0] == '\\' && rule[1] == 's')
                        r = buf_append_str(out, "\\p{White_Space}");
                else if (rule[0] == '\\' && rule[1] == 'S')
                        r = buf_append_str(out, "\\P{White_Space}");
                else
                        r = buf_append(out, rule, rule[0] == '\\' ? 2 : 1);
                rule += rule[0] == '\\' ? 2 : 1;
        }
        return r;
}

static int rule_compile(struct tok_pretok *p, const char *text, struct err *e) {
        _cleanup_(buf_deinit) struct buf pattern = BUF_NULL;
        struct tok_rule *rule = &p->rules[p->n_rules];
        pcre2_compile_context *context;
        PCRE2_SIZE where;
        int code, r;

        rule->kind = RULE_REGEX;
        if (strcmp(text, "@digits") == 0) {
                rule->kind = RULE_DIGITS;
                text = "\\d++([\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}])?";
        } else if (strcmp(text, "@thousands") == 0) {
                rule->kind = RULE_THOUSANDS;
                text = "\\d++";
        }
        r = rule_translate(text, &pattern);
        if (r < 0)
                return err_set(e, -r, "out of memory for a pre-tokenizer");
        context = pcre2_compile_context_create(p->general);
        if (!context)
                return err_set(e, ERR_NOMEM, "out of memory for a pre-tokenizer");
        rule->code = pcre2_compile(
                pattern.data, pattern.size, PCRE2_UTF | PCRE2_UCP, &code, &where, context);
        pcre2_compile_context_free(context);
        if (!rule->code)
                return err_set(e, code == PCRE2_ERROR_HEAP_FAILED ? ERR_NOMEM : ERR_UNSUPPORTED,
                        "PCRE2 does not compile a pre-tokenizer's rule (error %d at %zu)", code,
                        (size_t)where);
        p->n_rules++;
        return 0;
}

static void tok_pretok_freep(struct tok_pretok **p) {
        tok_pretok_free(*p);
}

int tok_pretok_new(struct tok_pretok **ret, const struct tok_pretok_row *row, struct err *e) {
        _cleanup_(tok_pretok_freep) struct tok_pretok *p = calloc(1, sizeof(*p));

        if (!p)
                return err_set(e, ERR_NOMEM, "out of memory for a pre-tokenizer");
        p->general = pcre2_general_context_create(rule_malloc, rule_free, NULL);
        if (p->general)
                p->match = pcre2_match_context_create(p->general);
        if (!p->match)
                return err_set(e, ERR_NOMEM, "out of memory for a pre-tokenizer");
        pcre2_set_match_limit(p->match, RULE_MATCH_LIMIT);
        pcre2_set_heap_limit(p->match, RULE_HEAP_LIMIT_KIB);
        for (size_t i = 0; i < TOK_PRETOK_MAX_RULES && row->rules[i]; i++) {
                int r = rule_compile(p, row->rules[i], e);

                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(p);
        return 0;
}

struct tok_pretok *tok_pretok_free(struct tok_pretok *p) {
        if (!p)
                return NULL;
        for (size_t i = 0; i < p->n_rules; i++)
                pcre2_code_free(p->rules[i].code);
        pcre2_match_context_free(p->match);
        pcre2_general_context_free(p->general);
        free(p);
        return NULL;
}

void tok_pretok_work_free(void *match) {
        pcre2_match_data_free(match);
}

/* The pieces of one rule as they come. */
struct rule_sink {
        struct tok_spans *out;
        uint32_t base; /* of the piece that is cut */
        uint32_t done; /* so far, relative to it */
        int r;
};

static void rule_cut(struct rule_sink *s, uint32_t at) {
        if (s->r < 0 || at <= s->done)
                return;
        s->r = tok_spans_push(s->out, s->base + s->done, at - s->done, -1);
        s->done = at;
}

/* Cut before every third digit from the right; digits have 1 to 4 bytes. */
static void rule_cut_digits(
        struct rule_sink *s, const char *text, uint32_t from, uint32_t to, bool whole) {
        uint32_t n = 0, k = 0;

        for (uint32_t i = from; i < to; i++)
                n += ((uint8_t)text[i] & 0xc0) != 0x80;
        if (whole)
                rule_cut(s, from);
        for (uint32_t i = from; i < to; i++)
                if (((uint8_t)text[i] & 0xc0) != 0x80 && (n - k++) % 3 == 0)
                        rule_cut(s, i);
        if (whole)
                rule_cut(s, to);
}

static int rule_apply(const struct tok_pretok *p, const struct tok_rule *rule, struct tok_work *w,
        const char *text, struct tok_span piece) {
        struct rule_sink sink = {.out = &w->pieces_next, .base = piece.start};
        PCRE2_SIZE *match = pcre2_get_ovector_pointer(w->match);
        PCRE2_SIZE at = 0;

        text += piece.start;
        while (sink.r >= 0 && at < piece.size) {
                int n = pcre2_match(rule->code, (PCRE2_SPTR)text, piece.size, at,
                        PCRE2_NO_UTF_CHECK, w->match, p->match);

                if (n == PCRE2_ERROR_NOMATCH)
                        break;
                if (n == PCRE2_ERROR_NOMEMORY)
                        return -ERR_NOMEM;
                if (n < 0 || match[1] <= at)
                        return -ERR_LIMIT;
                at = match[1];
                switch (rule->kind) {
                case RULE_REGEX:
                        rule_cut(&sink, (uint32_t)match[0]);
                        rule_cut(&sink, (uint32_t)match[1]);
                        break;
                case RULE_DIGITS:
                        if (n < 2)
                                rule_cut_digits(
                                        &sink, text, (uint32_t)match[0], (uint32_t)match[1], true);
                        break;
                case RULE_THOUSANDS:
                        rule_cut_digits(&sink, text, (uint32_t)match[0], (uint32_t)match[1], false);
                        break;
                }
        }
        rule_cut(&sink, piece.size);
        return sink.r;
}

int tok_pretok_split(
        const struct tok_pretok *p, struct tok_work *w, const char *text, size_t n, struct err *e) {
        int r;

        if (!w->match)
                w->match = pcre2_match_data_create(2, p->general);
        if (!w->match)
                return err_set(e, ERR_NOMEM, "out of memory to tokenise %zu bytes", n);
        w->pieces.n = 0;
        r = tok_spans_push(&w->pieces, 0, (uint32_t)n, -1);
        for (size_t i = 0; r >= 0 && i < p->n_rules; i++) {
                struct tok_spans swap;

                w->pieces_next.n = 0;
                for (size_t k = 0; r >= 0 && k < w->pieces.n; k++)
                        r = rule_apply(p, &p->rules[i], w, text, w->pieces.v[k]);
                swap = w->pieces;
                w->pieces = w->pieces_next;
                w->pieces_next = swap;
        }
        if (r == -ERR_NOMEM)
                return err_set(e, ERR_NOMEM, "out of memory to tokenise %zu bytes", n);
        if (r < 0)
                return err_set(e, ERR_LIMIT, "the pre-tokenizer's rules are too hard on this text");
        return 0;
}
