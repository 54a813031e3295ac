/* SPDX-License-Identifier: MIT */
/*
 * A pre-tokenizer is a list of rules. Each rule is applied inside every piece that the earlier
 * rules left; its matches and the text between them become pieces.
 *
 * Rules are regexes, run by PCRE2 on text that is known to be well-formed. \s is Unicode's
 * White_Space here (PCRE2's own also has U+180E); \d is Nd, as in Unicode mode. A word character,
 * where it matters, is that of Unicode's regex guidelines (UTS 18).
 *
 * No text may stall a pre-tokenizer (I7). A regex that looks far ahead from every position is
 * quadratic, whatever the engine, and PCRE2's limits count per attempt. So the table has no such
 * regex: these rules are written differently (a look-behind lets runs begin only at their start),
 * or are one of the following, which find runs of digits by regex and cut them by counting:
 *
 *   @digits     \d{1,3}(?=(?:\d{3})*\b)   groups of three from the right, if no letter follows
 *   @thousands  (?=(\d{3})+(?!\d))        cuts only: before every third digit from the right
 *
 * The limits on memory and steps guard against cases that were overlooked: -ERR_LIMIT.
 *
 * PCRE2's interpreter is used, not its compiler: a few megabytes per second are far more than a
 * model reads, and the process needs no memory that is both writable and executable.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"
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
/* No rule of the table needs more than PCRE2's first frames (20 KiB and the match data). */
#define RULE_HEAP_LIMIT_KIB (64u * 1024)
#define RULE_MATCH_MEMORY ((size_t)24 << 10)

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

/* \s and \S as Unicode defines them. */
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

size_t tok_pretok_memory(const struct tok_pretok *p) {
        return p->n_rules * RULE_MATCH_MEMORY;
}

void tok_pretok_work_free(void *match) {
        pcre2_match_data_free(match);
}

/*
 * One text on its way through the rules. As soon as a rule finds a piece, the piece goes through
 * the later rules and then to its receiver: no list of pieces is kept.
 */
struct split {
        const struct tok_pretok *p;
        struct tok_work *w;
        const char *text;
        tok_piece_fn *put;
        void *userdata;
        struct err *e;
};

static int apply_rules(struct split *s, size_t rule, uint32_t start, uint32_t size);

/* Receives the pieces of one rule. */
struct rule_sink {
        struct split *split;
        size_t next;   /* the rule that they go through next */
        uint32_t base; /* of the piece that is cut */
        uint32_t done; /* so far, relative to it */
        int r;
};

static void rule_cut(struct rule_sink *s, uint32_t at) {
        uint32_t from = s->done;

        if (s->r < 0 || at <= from)
                return;
        s->done = at;
        s->r = apply_rules(s->split, s->next, s->base + from, at - from);
}

/* Cut before every third digit from the right; digits have 1 to 4 bytes. */
static void rule_cut_digits(
        struct rule_sink *s, const char *text, uint32_t from, uint32_t to, bool whole) {
        uint32_t n = 0, k = 0;

        for (uint32_t i = from; i < to; i++)
                n += ((uint8_t)text[i] & 0xc0) != 0x80;
        if (whole)
                rule_cut(s, from);
        for (uint32_t i = from; s->r >= 0 && i < to; i++)
                if (((uint8_t)text[i] & 0xc0) != 0x80 && (n - k++) % 3 == 0)
                        rule_cut(s, i);
        if (whole)
                rule_cut(s, to);
}

static int rule_failed(struct split *s, int code) {
        if (code == PCRE2_ERROR_NOMEMORY)
                return err_set(s->e, ERR_NOMEM, "out of memory to tokenise");
        return err_set(s->e, ERR_LIMIT, "the pre-tokenizer's rules are too hard on this text");
}

static int apply_rule(struct split *s, size_t i, uint32_t start, uint32_t size) {
        const struct tok_rule *rule = &s->p->rules[i];
        struct rule_sink sink = {.split = s, .next = i + 1, .base = start};
        const char *text = s->text + start;
        pcre2_match_data *data = s->w->match[i];
        uint32_t at = 0;

        if (!data)
                data = s->w->match[i] = pcre2_match_data_create(2, s->p->general);
        if (!data)
                return rule_failed(s, PCRE2_ERROR_NOMEMORY);
        while (sink.r >= 0 && at < size) {
                int n = pcre2_match(rule->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK,
                        data, s->p->match);
                const PCRE2_SIZE *match = pcre2_get_ovector_pointer(data);
                uint32_t from, to;

                if (n == PCRE2_ERROR_NOMATCH)
                        break;
                if (n < 0 || match[1] <= at)
                        return rule_failed(s, n);
                from = (uint32_t)match[0];
                at = to = (uint32_t)match[1];
                switch (rule->kind) {
                case RULE_REGEX:
                        rule_cut(&sink, from);
                        rule_cut(&sink, to);
                        break;
                case RULE_DIGITS:
                        if (n < 2)
                                rule_cut_digits(&sink, text, from, to, true);
                        break;
                case RULE_THOUSANDS:
                        rule_cut_digits(&sink, text, from, to, false);
                        break;
                }
        }
        rule_cut(&sink, size);
        return sink.r;
}

static int apply_rules(struct split *s, size_t rule, uint32_t start, uint32_t size) {
        if (rule < s->p->n_rules)
                return apply_rule(s, rule, start, size);
        return s->put(s->userdata, s->text + start, size, s->e);
}

int tok_pretok_each(const struct tok_pretok *p, struct tok_work *w, const char *text, size_t n,
        tok_piece_fn *put, void *userdata, struct err *e) {
        struct split s = {p, w, text, put, userdata, e};

        return apply_rules(&s, 0, 0, (uint32_t)n);
}

/* Size of the run at text[0..n) that is all well-formed, or all not. */
static size_t text_run(const char *text, size_t n, bool *ret_well_formed) {
        size_t at = 0;

        while (at < n) {
                int len = (uint8_t)text[at] < 0x80
                                  ? 1
                                  : utf8_decode((const uint8_t *)text + at, n - at, NULL);

                if (at == 0)
                        *ret_well_formed = len > 0;
                else if (*ret_well_formed != (len > 0))
                        break;
                at += len > 0 ? (size_t)len : 1;
        }
        return at;
}

int tok_pretok_any(const struct tok_pretok *p, struct tok_work *w, const char *text, size_t n,
        tok_piece_fn *put, void *userdata, struct err *e) {
        while (n > 0) {
                bool well_formed;
                size_t run = text_run(text, n, &well_formed);
                int r = well_formed ? tok_pretok_each(p, w, text, run, put, userdata, e)
                                    : put(userdata, text, run, e);

                if (r < 0)
                        return r;
                text += run;
                n -= run;
        }
        return 0;
}
