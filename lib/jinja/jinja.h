/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The language of chat templates: Jinja2 as models use it. A template is parsed once and rendered
 * any number of times. It can reach the values that it is given and nothing else: no file, no
 * network, no clock, no other template. The module knows no model and no role.
 *
 * Origin of text. The result says of each byte whether it is trusted: whether the template wrote it,
 * or it came from data. The origin follows each byte through every operation of the language; what
 * is made from both, or by the interpreter itself (the punctuation of JSON, say), counts as data.
 * Text that is not trusted must never be parsed as control tokens. The caller may declare strings
 * trusted: the text of a control token, and roles out of a fixed list, because templates put roles
 * into markers ('<|' + role + '|>').
 *
 * The language is that of Jinja2 3.1 with what model hubs add to it: trim_blocks and lstrip_blocks,
 * break and continue, {% generation %}, tojson that escapes nothing for HTML, raise_exception() and
 * strftime_now(). Values print as Python prints them. The file run.c lists the differences.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct charge;
struct err;
struct jinja;
struct jinja_data;
struct tm;

enum jinja_flags {
        JINJA_KEEP_SPACE = 1, /* trim_blocks and lstrip_blocks are off, as in Jinja's own default */
};

/*
 * Parse the @n bytes of @text, which are not referred to afterwards. @flags: enum jinja_flags. The
 * template is immutable: any thread, several at a time. Errors say "line L, column C: ...", both
 * from 1, columns in characters: -ERR_FORMAT for text that is not in the language, -ERR_UNSUPPORTED
 * for tags that reach other templates (include, import, extends, block), -ERR_TOO_LARGE if it is
 * too long or too deeply nested, -ERR_NOMEM.
 */
int jinja_parse(struct jinja **ret, const char *text, size_t n, unsigned flags, struct err *e);
struct jinja *jinja_free(struct jinja *t);
DEFINE_CLEANUP(struct jinja *, jinja_free);

/*
 * Values for a rendering: the template's variables, by name. Written once, front to back, then used
 * by any number of renderings (any thread, several at a time); templates cannot change them.
 *
 * Errors are sticky and returned by jinja_data_finish(): -ERR_NOMEM, -ERR_TOO_LARGE past the size,
 * what charge_take() returns, -ERR_INVALID for a call that does not fit (a value without key, an end
 * without beginning, deeper than 64 levels). Strings are copied. A key that is there already
 * gets the new value. Text should be UTF-8; of other bytes each counts as a character.
 *
 * @max: bytes that the values may take in all. @charge: NULL, or what they are reserved in; it
 * outlives the data.
 */
int jinja_data_new(struct jinja_data **ret, size_t max, struct charge *charge, struct err *e);
struct jinja_data *jinja_data_free(struct jinja_data *d);
DEFINE_CLEANUP(struct jinja_data *, jinja_data_free);

/* The next value's name: of a variable on the outermost level, else of the dict's entry. Keys are
 * data unless @trusted. */
void jinja_data_key(struct jinja_data *d, const char *key, bool trusted);
void jinja_data_key_n(struct jinja_data *d, const char *key, size_t n, bool trusted);
void jinja_data_string(struct jinja_data *d, const char *text, size_t n, bool trusted);
void jinja_data_int(struct jinja_data *d, int64_t v);
void jinja_data_double(struct jinja_data *d, double v);
void jinja_data_bool(struct jinja_data *d, bool v);
void jinja_data_none(struct jinja_data *d);
void jinja_data_list_begin(struct jinja_data *d);
void jinja_data_list_end(struct jinja_data *d);
void jinja_data_dict_begin(struct jinja_data *d);
void jinja_data_dict_end(struct jinja_data *d);
/* A value given as JSON (RFC 8259): data, never trusted. Objects keep the order of their members,
 * integers their digits. 0; -ERR_FORMAT with the place ("byte 17: ..."), and @d is then unchanged;
 * errors of @d itself are sticky as well. */
int jinja_data_json(struct jinja_data *d, const char *text, size_t n, struct err *e);
/* 0 or the first error. */
int jinja_data_finish(struct jinja_data *d, struct err *e);

/*
 * What one rendering may take. 0 stands for the default of a field.
 *
 * A step is the evaluation of a part of the template, or 32 bytes (or 4 list entries) that an
 * operation looks at or makes; the steps of an operation are taken before it is carried out. Time
 * is proportional to steps: 10 to 100 ns each.
 */
struct jinja_limits {
        uint64_t n_steps;   /* default 20,000,000 */
        size_t memory_size; /* bytes of values made while it runs; default 256 MiB */
        size_t output_size; /* bytes of text; default 16 MiB */
        unsigned depth;     /* levels of expressions, blocks and macros; default and most: 500 */
};

struct jinja_span {
        size_t offset, size; /* bytes; spans follow each other without gaps, sizes are not 0 */
        bool trusted;        /* differs from the span before */
};
struct jinja_out {
        char *text; /* owned, NUL-terminated */
        size_t size;
        struct jinja_span *spans; /* owned, [n_spans] */
        size_t n_spans;
        struct charge *charge; /* or NULL: where text and spans are reserved */
        size_t charged;
};
#define JINJA_OUT_NULL ((struct jinja_out){0})
void jinja_out_deinit(struct jinja_out *out);

struct jinja_input {
        const struct jinja_data *data;     /* finished; or NULL: no variables */
        const struct jinja_limits *limits; /* or NULL: the defaults */
        /* The time that strftime_now() tells, broken down by the caller so that the same input is
         * always rendered to the same text; NULL: the function is not defined. */
        const struct tm *now;
        struct charge *charge; /* or NULL: memory is reserved in it; outlives the result */
};

/*
 * Any thread. -ERR_INVALID with "line L, column C: ..." if an operation of the template fails (an
 * undefined name, operands that do not go together); also if the template refuses the input itself
 * by raise_exception(), whose text then follows "the template refuses this: ". -ERR_TOO_LARGE past a
 * limit, -ERR_NOMEM, or what charge_take() returns.
 */
int jinja_render(const struct jinja *t, const struct jinja_input *input, struct jinja_out *ret,
        struct err *e);
