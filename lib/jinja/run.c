/* SPDX-License-Identifier: MIT */
/*
 * The bounds of a rendering, and its result.
 *
 * Differences from Jinja2 3.1 with the sandbox that model hubs use:
 *
 * - map, select, reject and the like give lists, not generators, so their length can be asked for.
 * - Integers beyond 64 bits can be passed through (from JSON), not computed with; an overflow is an
 *   error.
 * - A template can change the lists and dicts that it made, not those that it was given.
 * - Escaped text is ordinary text (there is no Markup), as autoescape is off.
 * - lower() does not write a sigma at the end of a word differently; ** is computed by squaring, and
 *   takes whole exponents only; %c is no conversion of a format.
 * - A macro that is called when the loop is over that it was defined in still sees that loop's
 *   variables.
 * - A list or dict that contains itself cannot be printed or compared.
 * - include, import, extends and block are refused; random, pprint, urlize and lipsum do not exist.
 */
#include "jinja/run.h"
#include "base/charge.h"
#include "base/err.h"
#include "base/util.h"
#include "jinja/data.h"
#include "jinja/jinja.h"
#include "jinja/parse.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_STEPS 20000000
#define DEFAULT_MEMORY ((size_t)256 << 20)
#define DEFAULT_OUTPUT ((size_t)16 << 20)

static struct value fail(struct run *r, enum err_code code, const char *words) {
        unsigned line, column;

        if (!run_failed(r)) {
                jinja_place(r->t, r->offset, &line, &column);
                r->error = err_set(r->e, code, "line %u, column %u: %s", line, column, words);
        }
        return UNDEFINED;
}

struct value run_fail(struct run *r, const char *fmt, ...) {
        char words[256];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(words, sizeof(words), fmt, ap);
        va_end(ap);
        return fail(r, ERR_INVALID, words);
}

void run_too_large(struct run *r, const char *fmt, ...) {
        char words[256];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(words, sizeof(words), fmt, ap);
        va_end(ap);
        fail(r, ERR_TOO_LARGE, words);
}

bool run_failed(struct run *r) {
        if (r->error == 0 && r->arena.error < 0) {
                unsigned line, column;

                jinja_place(r->t, r->offset, &line, &column);
                r->error = err_wrap(r->e, r->arena.error, "line %u, column %u", line, column);
        }
        return r->error < 0;
}

bool run_work(struct run *r, uint64_t n) {
        if (run_failed(r))
                return false;
        if (n <= r->n_steps) {
                r->n_steps -= n;
                return true;
        }
        run_too_large(
                r, "the rendering takes more than %llu steps", (unsigned long long)r->max_steps);
        return false;
}

bool run_enter(struct run *r) {
        r->depth++;
        if (run_failed(r))
                return false;
        if (r->depth <= r->max_depth)
                return true;
        run_too_large(r, "nested more than %u levels deep", r->max_depth);
        return false;
}

void jinja_out_deinit(struct jinja_out *out) {
        free(out->text);
        free(out->spans);
        if (out->charge)
                charge_give(out->charge, out->charged);
        *out = JINJA_OUT_NULL;
}

/* The end of the span that begins at @i. */
static size_t span_end(const struct text *t, size_t i) {
        const uint8_t *end;

        if (!t->marks)
                return t->used;
        end = memchr(t->marks + i, !t->marks[i], t->used - i);
        return end ? (size_t)(end - t->marks) : t->used;
}

/* @t as a result of its own. */
static int make_out(
        struct run *r, const struct text *t, struct charge *charge, struct jinja_out *ret) {
        struct jinja_out out = {.size = t->used, .charge = charge};
        size_t k = 0;

        for (size_t i = 0; i < t->used; i = span_end(t, i))
                out.n_spans++;
        out.charged = t->used + 1 + out.n_spans * sizeof(*out.spans);
        if (charge) {
                int code = charge_take(charge, out.charged, "a rendered template", r->e);

                if (code < 0)
                        return code;
        }
        out.text = malloc(t->used + 1);
        out.spans = malloc((out.n_spans ? out.n_spans : 1) * sizeof(*out.spans));
        if (!out.text || !out.spans) {
                jinja_out_deinit(&out);
                return err_set(r->e, ERR_NOMEM, "no memory for a rendered template");
        }
        if (t->used > 0)
                memcpy(out.text, t->data, t->used);
        out.text[t->used] = 0;
        for (size_t i = 0; i < t->used; k++) {
                size_t end = span_end(t, i);

                out.spans[k] = (struct jinja_span){.offset = i,
                        .size = end - i,
                        .trusted = t->marks ? t->marks[i] : t->trusted};
                i = end;
        }
        *ret = out;
        return 0;
}

int jinja_render(const struct jinja *t, const struct jinja_input *input, struct jinja_out *ret,
        struct err *e) {
        struct jinja_limits limits = input->limits ? *input->limits : (struct jinja_limits){0};
        struct run r = {.t = t,
                .input = input,
                .e = e,
                .n_steps = limits.n_steps ? limits.n_steps : DEFAULT_STEPS,
                .max_depth = limits.depth ? MIN(limits.depth, (unsigned)MAX_DEPTH) : MAX_DEPTH,
                .max_output = limits.output_size ? limits.output_size : DEFAULT_OUTPUT};
        int code;

        r.max_steps = r.n_steps;
        r.arena = (struct arena){.max = limits.memory_size ? limits.memory_size : DEFAULT_MEMORY,
                .charge = input->charge,
                .what = "the rendering",
                .e = e};
        r.root = r.out = text_new(&r.arena, 0);
        r.frame = arena_alloc(&r.arena, sizeof(*r.frame));
        if (!run_failed(&r))
                exec(&r, t->body);
        code = run_failed(&r) ? r.error : make_out(&r, r.root, input->charge, ret);
        arena_deinit(&r.arena);
        return code;
}
