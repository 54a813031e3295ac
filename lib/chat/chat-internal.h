/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the files of lib/chat share.
 *
 *   chat.c         the choice between template, family and none; raw messages
 *   render.c       one rendering of the template
 *   learn.c        how the template writes messages, learned once from a few renderings
 *   notes.c        what the template does otherwise, learned likewise
 *   template.c     messages to tokens by the template
 *   family.c       messages to tokens by a family; families.c: the families
 *   encode.c       memory, bos, and the token that the history has already
 *   differences.c  sentences for persons; literals.c: the strings that a template can write
 */
#include <stdbool.h>
#include <stddef.h>

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

bool chat_has(const char *text, size_t size, const char *mark);

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
        CHAT_AFTER_OPEN_SYSTEM,
        CHAT_N_AFTER
};
enum { CHAT_N_SPOKEN = CHAT_RAW }; /* roles that a template knows */

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
};

struct chat_template {
        const struct tok *tok;
        struct jinja *jinja; /* owned */
        char *bos, *eos;     /* owned: their texts */
        bool begins_with_bos;
        struct chat_piece piece[CHAT_N_AFTER][CHAT_N_SPOKEN];
        struct chat_closing closing[CHAT_N_SPOKEN];
        /* The token that ends a reply when a message follows, and where it begins; -1: none. */
        int32_t end;
        size_t end_at;
        /* A system message is written into the user's message. It ends where that message's text
         * begins; what follows that text then is system_drop (owned). */
        bool opens_system;
        bool joins_system; /* by confab, since the template refuses system messages */
        char *system_drop;
        size_t system_drop_size;
        /* The last token before the user's text, if it is special, and where it begins. */
        int32_t opened;
        size_t opened_at;
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
        const struct chat_message *m, size_t max, struct tok_ids *out, struct err *e);
int chat_template_reply(const struct chat_template *t, const struct chat_tail *tail, size_t max,
        struct tok_ids *out, struct err *e);

/* learn.c: fill in what is learned. As chat_template_new(). */
int chat_learn(struct chat_template *t, struct tok *tok, struct err *e);
/* notes.c: fill in the notes, at last. 0, -ERR_NOMEM. */
int chat_learn_notes(struct chat_template *t, struct err *e);
#define CHAT_PROBE "probemessage"

/* Stand-ins: what precedes a message when it is rendered. The last one's text is what is looked
 * for. */
extern const struct chat_message chat_stand_ins[CHAT_N_SPOKEN];
enum { CHAT_MAX_STAND_INS = 2 };
extern const struct chat_message chat_stand_in_next; /* a user's message that follows */
/* How many of them, into @ret. */
size_t chat_stand_ins_of(enum chat_after after, struct chat_message ret[CHAT_MAX_STAND_INS]);

struct chat_rendering {
        const struct chat_message *messages;
        size_t n;
        bool invite; /* add_generation_prompt */
        uint64_t created_usec;
        struct charge *charge; /* or NULL */
};
/* As jinja_render(); the bounds follow from the size of the messages. */
int chat_render(const struct chat_template *t, const struct chat_rendering *in,
        struct jinja_out *ret, struct err *e);
/* Whether @m's text is in the rendering, once; if so, @ret is where. */
bool chat_find_once(const struct jinja_out *out, const struct chat_message *m, size_t *ret);
bool chat_begins(const char *text, size_t n, const char *with, size_t n_with);
/* For templates that refuse system messages: the text of the first user message with the system
 * text in front, in @ret. */
#define CHAT_SYSTEM_GAP "\n\n"
int chat_join_system(struct buf *ret, const struct chat_message *system,
        const struct chat_message *user, struct chat_message *message);

/* --- differences.c --- */

enum { CHAT_MAX_DIFFERENCES = 8 };
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
