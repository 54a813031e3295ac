/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the files of lib/chat share.
 *
 *   chat.c         the choice between template, family and none; raw messages
 *   render.c       one rendering of the template; variables.c: what the template can see
 *   definitions.c  definitions of tools: checked, and given to the template
 *   sample.c       a rendering for learning, and where the text of a message is in it
 *   roles.c        roles, and kinds of messages
 *   learn.c        how the template writes messages, learned once from a few renderings
 *   learn-tools.c  how it writes calls, results and definitions, learned likewise; pieces.c: what both
 *                  take from a sample
 *   notes.c        what the template does otherwise, learned likewise
 *   template.c     messages to tokens by the template; calls.c: those with calls, and results;
 *                  append.c: one rendering of any of them
 *   force.c        how it writes one call that is forced; force-write.c: as a grammar (force.h)
 *   family.c       messages to tokens by a family; families.c: the families
 *   encode.c       memory, bos, and the token that the history has already
 *   differences.c  sentences for persons; literals.c: the strings that a template can write
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "chat/chat.h"
#include "jinja/jinja.h"

struct buf;

/* --- encode.c --- */

/* How tokens continue the history. */
struct chat_join {
        bool bos;     /* put the begin token in front, if the vocabulary wants it */
        bool starts;  /* the text begins anew (tok_encode()) */
        int32_t skip; /* the first token is left out if it is this one; -1: none */
};
/* Append the tokens of the fragments to @out, directly, so that a long message is not held twice. */
int chat_encode(const struct tok *t, const struct tok_fragment *fragments, size_t n,
        const struct chat_join *join, size_t max, struct tok_ids *out, struct err *e);
/* The same for the bytes [from, to) of a rendering. */
int chat_encode_rendering(const struct tok *t, const struct jinja_out *rendering, size_t from,
        size_t to, const struct chat_join *join, size_t max, struct tok_ids *out, struct err *e);
/* The trusted ranges of the bytes [from, to), relative to @from; @ret has room for n_spans. */
size_t chat_trusted(
        const struct jinja_out *rendering, size_t from, size_t to, struct tok_range *ret);

/* --- families --- */

/*
 * A template family: the text around messages. Special tokens in this text are recognised, and
 * {bos} and {eos} stand for the texts of those tokens. Text between special tokens is tokenised
 * separately, and so is the message. Exception: a blank at the very end of `before` is tokenised
 * together with the message, since it is part of the message's first word.
 */
struct chat_family {
        const char *name;
        /* The template contains all of the marks, and does not contain `unless`. */
        const char *marks[3], *unless;
        struct chat_around {
                const char *before, *after;
        } message[3];      /* of a system, user and assistant message; NULL: see system */
        const char *reply; /* invites the reply */
        /* The token that ends a reply; message[CHAT_ASSISTANT].after contains it. The text after it
         * is appended to replies that ended by themselves. */
        const char *end;
        enum chat_system {
                CHAT_SYSTEM_ANYWHERE,
                CHAT_SYSTEM_FIRST,   /* a role of its own, but only as the first message */
                CHAT_SYSTEM_IN_USER, /* opens the block of the first user message */
        } system;
        /* If the template has this ("": always), message texts lose whitespace at both ends. */
        const char *trim_mark;
};
extern const struct chat_family chat_families[];
extern const size_t chat_n_families;

static inline bool chat_has(const char *text, size_t size, const char *mark) {
        return memmem(text, size, mark, strlen(mark)) != NULL;
}

/* A family with a vocabulary. */
struct chat_forms;
/* @trim: messages lose the white space at both ends. */
int chat_forms_new(struct chat_forms **ret, const struct tok *t, const struct chat_family *family,
        bool trim, struct err *e);
struct chat_forms *chat_forms_free(struct chat_forms *f);
DEFINE_CLEANUP(struct chat_forms *, chat_forms_free);
/* Append the family's strings, each followed by a NUL. */
int chat_forms_strings(const struct chat_forms *f, struct buf *out);
bool chat_forms_opens_system(const struct chat_forms *f);
/* The token that ends a reply, or -1 if the vocabulary does not have it. */
int32_t chat_forms_end_token(const struct chat_forms *f);
int chat_forms_append(const struct chat_forms *f, const struct chat_tail *tail,
        const struct chat_message *m, size_t max, struct tok_ids *out, struct err *e);
int chat_forms_reply(const struct chat_forms *f, size_t max, struct tok_ids *out, struct err *e);

/* --- the template --- */

/* What precedes a message. */
enum chat_after {
        CHAT_AFTER_NOTHING,
        CHAT_AFTER_SYSTEM,
        CHAT_AFTER_USER,
        CHAT_AFTER_REPLY, /* the assistant's message */
        CHAT_AFTER_RESULTS,
        CHAT_AFTER_OPEN_SYSTEM,
        CHAT_AFTER_OPEN_TOOLS, /* the same, and definitions of tools were told */
        CHAT_N_AFTER
};
/* What a template writes differently. The first three are roles. */
enum chat_kind {
        CHAT_KIND_SYSTEM = CHAT_SYSTEM,
        CHAT_KIND_USER = CHAT_USER,
        CHAT_KIND_ASSISTANT = CHAT_ASSISTANT,
        CHAT_KIND_CALLS,   /* the assistant's message with calls */
        CHAT_KIND_RESULTS, /* role tool */
        CHAT_N_KINDS
};
enum chat_kind chat_kind_of(const struct chat_message *m); /* not of raw text */

/* How a message of one role behind one kind of predecessor is taken from a rendering of stand-ins
 * and the message. Offsets are bytes of the rendering. */
struct chat_piece {
        bool works;
        bool followed; /* chat_stand_in_next follows the message in the rendering */
        size_t behind; /* the end of the last stand-in's text */
        size_t text;   /* where the message's own text begins */
        size_t fixed;  /* the beginning that must be as it was learned: what is cut off is in it */
        uint64_t hash; /* of the beginning */
        char *drop;    /* owned: what follows the message and its closing in the rendering */
        size_t drop_size;
};

/* What closes a message of one role. Offsets are behind the message's text. */
struct chat_closing {
        char *text; /* owned; NULL: not known, and no message of the role can be appended */
        size_t size;
        bool guessed; /* it is what renderings have in common, and has no end-of-generation token */
        /* If its last token is special: that token and where it begins. */
        int32_t last; /* or -1 */
        size_t last_at;
};

/* What of a template confab does otherwise (differences.c). */
enum chat_notes {
        CHAT_NOTE_REASONING = 1 << 0,
        CHAT_NOTE_SYSTEM_MOVED = 1 << 1,
        CHAT_NOTE_LAST_DIFFERS = 1 << 2,
        CHAT_NOTE_SYSTEM_REFUSED = 1 << 3,
        CHAT_NOTE_ALTERNATE = 1 << 4,
        CHAT_NOTE_OTHER_END = 1 << 5,
        CHAT_NOTE_TIME = 1 << 6,
        CHAT_NOTE_TOOLS_MOVED = 1 << 7,
        CHAT_NOTE_RESULTS_GROUPED = 1 << 8,
        CHAT_NOTE_ONE_CALL = 1 << 9,
        CHAT_NOTE_SHORT_IDS = 1 << 10,
        CHAT_NOTE_TOOLS_LATER = 1 << 11,
};

/* A system message is written into the user's message, or in front of something that is written with
 * it: the user's message begins at once. Learned without tools and with them. */
struct chat_open {
        bool opens;
        /* The system's part ends where the user's text begins; what follows that text then. */
        char *drop; /* owned */
        size_t drop_size;
        /* The last token before the user's text, if it is special, and where it begins; or -1. */
        int32_t opened;
        size_t opened_at;
};

/* How calls are given to the template, so that it writes them. */
struct chat_call_form {
        bool written;      /* the template writes them */
        bool as_text;      /* the arguments are given as a string, not as an object */
        bool without_text; /* only in a message whose content is none */
        bool short_ids;    /* ids have nine letters */
        bool one;          /* one in a message */
        bool end;          /* an end-of-generation token stands between calls and results */
        bool grouped;      /* results behind results are written otherwise than alone */
};

enum chat_tools_place {
        CHAT_TOOLS_NOWHERE,
        CHAT_TOOLS_VARIABLE,     /* the variable "tools" */
        CHAT_TOOLS_XML_VARIABLE, /* "xml_tools" */
        CHAT_TOOLS_KEY_TEXT,     /* the key "tools" of the system message, as text */
        CHAT_TOOLS_KEY           /* the same, as a list */
};

struct chat_template {
        const struct tok *tok;
        struct jinja *jinja; /* owned */
        char *bos, *eos;     /* owned: their texts */
        bool begins_with_bos;
        struct chat_piece piece[CHAT_N_AFTER][CHAT_N_KINDS];
        struct chat_closing closing[CHAT_N_KINDS]; /* that of calls is not used */
        /* The token that ends a reply when a message follows, and where it begins; -1: none. */
        int32_t end;
        size_t end_at;
        struct chat_open open[2]; /* without tools, with tools */
        bool joins_system;        /* by confab, since the template refuses system messages */
        struct chat_call_form calls;
        const char *result_role;   /* that the template gives to results; NULL: "tool" */
        const char *reasoning_key; /* of a message that has reasoning; NULL: never written */
        enum chat_tools_place tools;
        bool tools_with[CHAT_N_KINDS];      /* told with the first message, if it is of this kind */
        struct tok_ids reply[CHAT_N_AFTER]; /* the invitation to reply; charged to no one */
        unsigned notes;                     /* enum chat_notes */
};

/* 0; -ERR_FORMAT, -ERR_INVALID, -ERR_TOO_LARGE, -ERR_UNSUPPORTED: the template can't be used, and
 * @e says why; -ERR_NOMEM. Protects in @tok what the template writes. */
int chat_template_new(
        struct chat_template **ret, struct tok *tok, const char *text, size_t size, struct err *e);
struct chat_template *chat_template_free(struct chat_template *t);
DEFINE_CLEANUP(struct chat_template *, chat_template_free);
int chat_template_append(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_input *in, size_t max, struct tok_ids *out, struct err *e);
int chat_template_reply(const struct chat_template *t, const struct chat_tail *tail, size_t max,
        struct tok_ids *out, struct err *e);

/* --- renderings --- */

/* Stand-ins: what precedes a message when it is rendered. The last one's text is what is looked
 * for. */
extern const struct chat_message chat_stand_ins[CHAT_N_KINDS];
enum { CHAT_MAX_STAND_INS = 3 };
extern const struct chat_message chat_stand_in_next; /* a user's message that follows */
#define CHAT_STAND_IN_NAME "standinname"             /* of a function */
#define CHAT_STAND_IN_KEY "standinkey"               /* of its parameter */
extern const char chat_stand_in_tools[];             /* definitions that define it */
/* How many of them, into @ret. */
size_t chat_stand_ins_of(enum chat_after after, struct chat_message ret[CHAT_MAX_STAND_INS]);

struct chat_rendering {
        const struct chat_message *messages;
        size_t n;
        const char *tools; /* definitions that were checked; NULL: none */
        size_t tools_size;
        bool invite; /* add_generation_prompt */
        uint64_t created_usec;
        struct charge *charge; /* or NULL */
};
/* As jinja_render(); the bounds follow from the size of the messages. -ERR_INVALID: arguments of a
 * call that are no JSON object. */
int chat_render(const struct chat_template *t, const struct chat_rendering *in,
        struct jinja_out *ret, struct err *e);
/* The bytes of the messages and the definitions: what is text, and what is JSON. */
void chat_rendering_size(const struct chat_rendering *in, size_t *ret_text, size_t *ret_json);
const char *chat_result_name(const struct chat_message *m); /* "tool" where it is not known */
/* variables.c: all that the template can see. Errors are sticky in @d, except -ERR_INVALID. */
int chat_put_variables(struct jinja_data *d, const struct chat_template *t,
        const struct chat_rendering *in, struct err *e);
/* Whether @m's text is in the rendering, once; if so, @ret is where. */
bool chat_find_once(const struct jinja_out *out, const struct chat_message *m, size_t *ret);
bool chat_begins(const char *text, size_t n, const char *with, size_t n_with);
/* For templates that refuse system messages: the text of the first user message with the system
 * text in front, in @ret. */
#define CHAT_SYSTEM_GAP "\n\n"
int chat_join_system(struct buf *ret, const struct chat_message *system,
        const struct chat_message *user, struct chat_message *message);

/* --- definitions.c --- */

enum { CHAT_TOOLS_MOST = 256 << 10 }; /* bytes */
/* 0, -ERR_INVALID with the place, -ERR_TOO_LARGE, -ERR_NOMEM, what charge_take() returns. */
int chat_definitions_check(const char *tools, size_t n, struct charge *charge, struct err *e);
/* Whether it is JSON: 0, -ERR_FORMAT with the place, and as above. */
int chat_json_check(const char *text, size_t n, struct charge *charge, struct err *e);
/* Of definitions that were checked: the value, a list; errors are sticky in @d. */
int chat_definitions_put(struct jinja_data *d, const char *tools, size_t n, struct err *e);
/* A JSON list of the functions alone. 0, or what buf_append() returns. */
int chat_definitions_functions(struct buf *out, const char *tools, size_t n);

/* The texts of an entry's parts. */
struct chat_definition {
        const char *name, *parameters, *type; /* name with its quotes; type: of the parameters */
        size_t name_size, parameters_size, type_size; /* 0: it has none */
};
/* Call @fn for each entry of definitions that were checked, until it fails. 0, or what it returned. */
int chat_definitions_each(const char *tools, size_t n,
        int (*fn)(void *arg, const struct chat_definition *d, struct err *e), void *arg,
        struct err *e);

/* --- messages --- */

/* What one message, or several results, are cut out of. */
struct chat_place {
        enum chat_after after;
        enum chat_kind kind;
        enum chat_state state; /* what the history ended with */
};
enum chat_after chat_after_of(const struct chat_template *t, const struct chat_tail *tail);
/* Whether a system message leaves the user's message open. */
bool chat_template_opens(const struct chat_template *t, bool has_tools);
/* Where the message begins in the rendering, and how it joins the history. */
size_t chat_cut_of(
        const struct chat_template *t, const struct chat_place *at, struct chat_join *join);
/* The messages rendered at @at; -ERR_INVALID if the template does not write them there. */
int chat_append_at(const struct chat_template *t, const struct chat_place *at,
        const struct chat_tail *tail, const struct chat_input *in, size_t max, struct tok_ids *out,
        struct err *e);
/* chat_render(), and remember in @out whether it was the charge that refused. */
int chat_render_for(const struct chat_template *t, const struct chat_rendering *in,
        struct jinja_out *ret, struct tok_ids *out, struct err *e);
/* An error: definitions are told with other messages than this one, or with none. */
int chat_tools_elsewhere(const struct chat_template *t, struct err *e);
/* Behind the rendering @with of @in: an error if the definitions are not in it. */
int chat_check_told(const struct chat_template *t, const struct chat_rendering *in,
        const struct jinja_out *with, struct tok_ids *out, struct err *e);
int chat_differs(struct err *e); /* -ERR_INVALID: the front is not as it was learned */
/* Close what the history left open, for a message that is then written in its regular place. */
int chat_close_tail(const struct chat_template *t, const struct chat_tail *tail, size_t max,
        struct tok_ids *out, struct err *e);

/* calls.c */
/* What ends a reply with calls in a rendering. */
struct chat_end {
        int32_t token; /* the end-of-generation token; -1: none */
        size_t start;  /* where it begins, or would */
        size_t behind; /* the token */
        size_t end;    /* behind all that closes the reply */
};
/* The last one in the bytes [from, to) of @out, whose special tokens are @special. False: none. */
bool chat_find_end(const struct chat_template *t, const struct jinja_out *out,
        const struct tok_place *special, size_t n_special, size_t from, size_t to,
        struct chat_end *ret);
/* Rendered at @at, or in the regular place. */
int chat_append_calls(const struct chat_template *t, const struct chat_place *at,
        const struct chat_tail *tail, const struct chat_message *m, size_t max, struct tok_ids *out,
        struct err *e);
int chat_append_results(const struct chat_template *t, const struct chat_tail *tail,
        const struct chat_input *in, size_t max, struct tok_ids *out, struct err *e);

/* learn.c: fill in what is learned. As chat_template_new(). */
int chat_learn(struct chat_template *t, struct tok *tok, struct err *e);
/* notes.c: fill in the notes, at last. 0, -ERR_NOMEM. */
int chat_learn_notes(struct chat_template *t, struct err *e);

enum chat_kind chat_kind_before(enum chat_after after); /* behind a message of which kind */
struct chat_sample;
/* What follows the message and its closing in @s. -ERR_NOMEM. */
int chat_take_drop(struct chat_piece *p, const struct chat_sample *s,
        const struct chat_closing *own, struct err *e);
/* The message of @kind in @s, behind @after; -ERR_NOMEM. */
int chat_take_piece(struct chat_template *t, enum chat_after after, enum chat_kind kind,
        const struct chat_sample *s, struct err *e);
/* The system text is written into the user's message, by the template or by confab: the user's text is
 * the probe in @s. @tools: definitions are told. */
int chat_learn_open(
        struct chat_template *t, bool tools, const struct chat_sample *s, struct err *e);

/* learn-tools.c. 0, -ERR_NOMEM. */
int chat_learn_call_form(struct chat_template *t, struct err *e);   /* how calls are given */
int chat_learn_result_role(struct chat_template *t, struct err *e); /* NULL: it takes none */
int chat_learn_calls(struct chat_template *t, struct err *e);       /* how they are cut out */
int chat_learn_definitions(struct chat_template *t, struct err *e);

/* --- sample.c --- */

enum { CHAT_MAX_MESSAGES = CHAT_MAX_STAND_INS + 2 };
#define CHAT_PROBE "probemessage"
extern const struct chat_message chat_probes[CHAT_N_KINDS];

/* One rendering, and where the text of one of its messages is. */
struct chat_sample {
        struct jinja_out out;
        size_t at, end;            /* the message's text */
        size_t before;             /* the end of the text of the message before; 0: it has none */
        size_t before_at;          /* its beginning */
        struct tok_place *special; /* owned */
        size_t n_special;
};
#define CHAT_SAMPLE_NULL ((struct chat_sample){0})
void chat_sample_deinit(struct chat_sample *s);
/* Render @in and find the text of in->messages[i]. 0; or 1, with the reason in @e: the template
 * refuses the messages, or the text is not to be found in its place; or -ERR_NOMEM. */
int chat_sample_take(const struct chat_template *t, const struct chat_rendering *in, size_t i,
        struct chat_sample *ret, struct err *e);
/* The stand-ins of @after, and behind them @last, whose text is found (NULL: that of the last
 * stand-in). */
int chat_sample_after(const struct chat_template *t, enum chat_after after,
        const struct chat_message *last, bool invite, struct chat_sample *ret, struct err *e);
/* The special tokens that the template wrote: an owned array. */
int chat_find_special(const struct chat_template *t, const struct jinja_out *out,
        struct tok_place **ret, size_t *ret_n, struct err *e);

/* --- differences.c --- */

enum { CHAT_MAX_DIFFERENCES = 14 };
/* The sentences for chat_difference(), a NULL behind the last. Of a family: @family is NULL if none
 * is like the template; @trim: messages lose the white space at both ends. */
void chat_family_differences(const char *ret[CHAT_MAX_DIFFERENCES + 1],
        const struct chat_family *family, bool trim, const char *text, size_t size);
void chat_template_differences(const char *ret[CHAT_MAX_DIFFERENCES + 1], unsigned notes);

/* --- literals.c --- */

/* Append the strings that the template can write, each followed by a NUL. @text may be NULL if
 * @size is 0. 0, -ERR_NOMEM. */
int chat_literals(struct buf *out, const char *text, size_t size);
/* The same for one string that is known. */
int chat_literal_append(struct buf *out, const char *text);
