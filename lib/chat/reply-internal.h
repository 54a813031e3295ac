/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What the files that read replies share.
 *
 *   reply.c          tokens to characters, characters to marks; reply-chat.c: for a chat format
 *   reply-state.c    states, text and reasoning: below all that follow
 *   reply-calls.c    which bytes are of a call; reply-call.c: what its machine says of it
 *   reply-formats.c  how models write, as data; the choice
 *   reply-out.c      parts to events
 *   reply-json.c     a reader of JSON that takes a byte at a time
 *   reply-tools.c    names and types out of tool definitions
 *
 * Ways to write a call, each with a machine that takes a byte or a mark at a time:
 *
 *   reply-object.c   a JSON object that has the name and the arguments, or a list of them
 *   reply-named.c    a name, then the arguments as JSON
 *   reply-tags.c     a name, then parameters between tags
 *   reply-loose.c    f(key="value") and call:f{key:value}
 *   reply-bare.c     calls without a mark: whether a text begins as one
 *   reply-channel.c  messages with headers (gpt-oss)
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/reply.h"
#include "tok/tok.h"

/* --- formats --- */

enum reply_kind {
        REPLY_KIND_NONE,
        REPLY_KIND_OBJECT,
        REPLY_KIND_NAMED,
        REPLY_KIND_TAGS,
        REPLY_KIND_PYTHON,
        REPLY_KIND_BRACES,
        REPLY_KIND_CHANNELS,
        REPLY_N_KINDS
};

/* What chooses a row: the template contains all of `marks`; or no row was chosen by the template, and
 * the vocabulary has all of `tokens` as special tokens. */
struct reply_choice {
        const char *marks[3];
        const char *tokens[3];
};

enum { REPLY_MAX_SAME = 3 };
/* How a family of models writes calls. Marks that a row leaves out are NULL. */
struct reply_calls {
        const char *name;   /* for persons */
        const char *models; /* the same: who writes so; docs/models.md has it too */
        struct reply_choice choice;
        enum reply_kind kind;
        const char *section, *section_end;   /* around all calls */
        const char *each[REPLY_MAX_SAME];    /* opens a call, or a list of objects */
        const char *each_end;                /* closes it */
        const char *ignored[REPLY_MAX_SAME]; /* behind a call: of no meaning */
        bool ends_reasoning; /* the opening marks are recognised in reasoning, and end it */
        bool bare;           /* without a mark too, where the name is one of the definitions' */

        /* REPLY_KIND_OBJECT: the keys of name, arguments and id beside the usual ones. */
        bool name_is_key; /* {"name": {arguments}} */

        /* REPLY_KIND_NAMED: the mark that ends the name, and the one in front of an id. */
        const char *before_arguments, *before_id;
        const char *type;      /* the name stands behind this word and a mark before_arguments; then
                                  ends with the line */
        const char *id_prefix; /* the name is written as an id: this, the name, ":", a number */

        /* REPLY_KIND_TAGS */
        const char *name_end; /* NULL: the name ends with the line, or at key */
        const char *key, *key_end;
        const char
                *key_end_text; /* key_end of a value that is a string; those of key_end are JSON */
        const char *value;     /* between key_end and the value; or NULL */
        const char *value_end;
        bool value_lines; /* a newline on both sides of a value is not part of it */

        /* REPLY_KIND_BRACES */
        const char *prefix; /* in front of the name */
        const char *quote;  /* around strings */
};
struct reply_thinking {
        const char *name;
        struct reply_choice choice;
        const char *open, *close;
};
/* Marks around text, which print nothing. */
struct reply_wrap {
        struct reply_choice choice;
        const char *open, *close;
};
extern const struct reply_calls reply_calls[];
extern const size_t reply_n_calls;
extern const struct reply_thinking reply_thinking[];
extern const size_t reply_n_thinking;
extern const struct reply_wrap reply_wraps[];
extern const size_t reply_n_wraps;

/* The rows of one model; NULL: none. Part of struct chat. */
struct reply_rules {
        const struct tok *tok;
        const struct reply_calls *calls;
        const struct reply_thinking *thinking;
        const struct reply_wrap *wrap;
};
/* @text: the template, may be NULL if @size is 0. */
void reply_choose(struct reply_rules *ret, const struct tok *t, const char *text, size_t size);
/* chat.c */
const struct reply_rules *chat_reply_rules(const struct chat *c);

/* --- JSON --- */

enum reply_json_flags {
        REPLY_JSON_ERROR = 1 << 0,
        REPLY_JSON_BEGINS = 1 << 1, /* a value begins with this byte */
        REPLY_JSON_ENDS = 1 << 2,   /* a string or container that is a value, or a literal, ends */
        REPLY_JSON_ENDED = 1 << 3,  /* a number ended before this byte */
        REPLY_JSON_KEY = 1 << 4,    /* a key begins */
        REPLY_JSON_KEY_ENDS = 1 << 5,
        REPLY_JSON_CONTENT = 1 << 6, /* the byte is inside of a string or key: see decoded */
};
enum { REPLY_JSON_DEPTH = 60 };
/* A reader of one JSON text (RFC 8259). Control characters in strings are let through: the caller
 * writes them as escapes. */
struct reply_json {
        uint8_t state;
        uint8_t depth;
        bool key;
        uint64_t objects; /* one bit per depth: an object, else an array */
        const char *literal;
        uint8_t n_hex;
        uint32_t hex, high; /* high: of a surrogate pair, waits for the low one; 0: none */
        uint8_t n_decoded;
        char decoded[8]; /* what the content byte completes */
        const char *error;
};
void reply_json_init(struct reply_json *j);
unsigned reply_json_byte(struct reply_json *j, uint8_t c);
bool reply_json_done(const struct reply_json *j); /* a value, and nothing begins behind it */
/* The value is over: true if it is whole (a number may have ended with the last byte). */
bool reply_json_finish(struct reply_json *j);
bool reply_json_in_string(const struct reply_json *j);
bool reply_json_in_number(const struct reply_json *j);

/* --- definitions --- */

enum reply_type { REPLY_TYPE_ANY, REPLY_TYPE_STRING, REPLY_TYPE_OTHER };
struct reply_tools;
int reply_tools_new(struct reply_tools **ret, const char *text, size_t size, struct charge *charge,
        struct err *e);
struct reply_tools *reply_tools_free(struct reply_tools *t);
/* @t may be NULL: nothing is known. */
bool reply_tools_has(const struct reply_tools *t, const char *name, size_t n);
enum reply_type reply_tools_type(
        const struct reply_tools *t, const char *function, const char *key, size_t n_key);

/* --- the reader --- */

enum reply_state {
        REPLY_TEXT,
        REPLY_REASONING,
        REPLY_SECTION, /* in front of the first call, or between two */
        REPLY_CALL,    /* a machine reads it */
        REPLY_AFTER,   /* behind a call, before its closing mark */
        REPLY_BROKEN,  /* in a call that is broken */
        REPLY_HEADER,  /* of a message (channels) */
        REPLY_OPENING, /* behind an opening mark: the object must follow, or the mark is text */
        REPLY_N_STATES
};

enum reply_mark_id {
        REPLY_MARK_THINK,
        REPLY_MARK_THINK_END,
        REPLY_MARK_SECTION,
        REPLY_MARK_SECTION_END,
        REPLY_MARK_EACH,
        REPLY_MARK_EACH_END,
        REPLY_MARK_IGNORED,
        REPLY_MARK_ARGUMENTS,
        REPLY_MARK_ID,
        REPLY_MARK_NAME_END,
        REPLY_MARK_KEY,
        REPLY_MARK_KEY_END,
        REPLY_MARK_KEY_END_TEXT,
        REPLY_MARK_VALUE,
        REPLY_MARK_VALUE_END,
        REPLY_MARK_QUOTE,
        REPLY_MARK_CHANNEL,
        REPLY_MARK_START,
        REPLY_MARK_CONSTRAIN,
        REPLY_MARK_MESSAGE,
        REPLY_MARK_MESSAGE_END,
        REPLY_N_MARKS
};
struct reply_mark {
        const char *text;
        size_t size;
        enum reply_mark_id id;
};
/* Marks that are looked for in one state. None is the beginning of another. */
enum { REPLY_MAX_MARKS = 14 };
struct reply_marks {
        struct reply_mark mark[REPLY_MAX_MARKS];
        size_t n;
};
void reply_marks_add(struct reply_marks *m, const char *text, enum reply_mark_id id);

/* Sets of marks that machines look for. */
enum reply_set {
        REPLY_SET_NONE,
        REPLY_SET_NAME,
        REPLY_SET_ID,
        REPLY_SET_BETWEEN,
        REPLY_SET_KEY,
        REPLY_SET_VALUE_BEGINS,
        REPLY_SET_VALUE,
        REPLY_SET_BODY,
        REPLY_N_SETS
};

enum reply_origin {
        REPLY_VISIBLE,
        REPLY_CONTROL, /* the text of a control token: prints nothing */
        REPLY_END,     /* of the token that ends the reply */
};
/* A byte of the reply. */
struct reply_byte {
        uint8_t c;
        uint8_t origin;
        uint32_t token; /* its number within the reply */
};

/* What a machine did with a byte. */
enum reply_took {
        REPLY_TOOK,
        REPLY_AGAIN /* the state has changed; the byte is looked at anew */
};
struct reply_machine {
        void (*start)(struct chat_reply *r);
        enum reply_took (*byte)(struct chat_reply *r, const struct reply_byte *b);
        void (*mark)(struct chat_reply *r, enum reply_mark_id id);
};
extern const struct reply_machine reply_object, reply_named, reply_tags, reply_loose,
        reply_channel_call;

static inline bool reply_is_space(uint8_t c) {
        return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Of the name of a function. */
static inline bool reply_is_name(uint8_t c) {
        return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' ||
               c == '.' || c == '-';
}

#define REPLY_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

struct reply_string {
        char text[CHAT_REPLY_NAME + 1];
        size_t size;
        bool too_long;
};
void reply_string_add(struct reply_string *s, char c);
void reply_string_trim(struct reply_string *s);

enum { REPLY_HOLD = 96, REPLY_SPACES = 256, REPLY_OUT = 1024, REPLY_TRIAL = 512 };

/* One call that is being read. */
struct reply_call {
        const struct reply_machine *machine;
        bool empty;   /* nothing of it was read */
        bool between; /* of a list: no object has begun and not ended */
        bool begun;   /* the part has begun */
        bool named;   /* its name is known */
        uint32_t token;
        struct reply_string name, id, key;
        bool has_id;
        uint8_t step;            /* of the machine */
        struct reply_json json;  /* the object, or the arguments */
        struct reply_json inner; /* arguments that are written as a string */
        uint8_t level;           /* reply-object.c: the depth of its members */
        uint8_t outer;           /* the depth of the list that it stands in */
        uint8_t field;
        bool has_arguments;
        bool wrapped;
        /* reply-tags.c */
        size_t n_keys;
        enum reply_type type;
        uint8_t value; /* how the value is read */
        bool newline;  /* held back */
        /* reply-loose.c */
        uint8_t depth;
        uint64_t objects, tuples; /* one bit per level */
        bool list, first, is_key;
        uint8_t quote, n_hex;
        struct reply_string word;
};

struct chat_reply {
        const struct reply_rules *rules;
        const struct reply_calls *calls;     /* never NULL: a row without marks */
        const struct reply_machine *machine; /* that reads these calls */
        struct reply_tools *tools;           /* owned; or NULL */
        struct charge *charge;
        int failed; /* the first negative code; then nothing more is done */
        bool muted; /* the invitation is read */
        uint64_t n_steps;

        struct tok_stream stream;
        struct buf piece;
        uint32_t n_tokens, held_token;

        struct reply_byte hold[REPLY_HOLD]; /* the beginning of a mark, maybe */
        size_t n_hold;
        enum reply_state state;
        bool in_section;
        struct reply_marks marks[REPLY_N_STATES], sets[REPLY_N_SETS];
        bool has_sets;
        const struct reply_marks *looked_for;

        bool skip_spaces; /* behind a mark */
        bool at_start;    /* of a text: a call without a mark may begin */
        struct reply_byte space[REPLY_SPACES];
        size_t n_spaces;
        struct reply_byte trial[REPLY_TRIAL]; /* what may begin a call without a mark */
        size_t n_trial;

        struct reply_call call;
        struct buf early;           /* arguments before the name is known */
        struct buf value;           /* a value before its type is known */
        struct reply_string header; /* of a message; channels */
        bool header_marked;         /* it has a mark, and so is a header */

        /* reply-out.c */
        chat_part_fn fn;
        void *arg;
        struct err *e;
        bool open;         /* a part has begun */
        bool begin_untold; /* and no event told it */
        enum chat_part part;
        uint32_t index, n_parts, part_token;
        char out[REPLY_OUT];
        size_t n_out;
};

/* reply.c */
/* As chat_reply_new(). @rules outlive the reader. */
int reply_new(struct chat_reply **ret, const struct reply_rules *rules, const char *tools,
        size_t tools_size, struct charge *charge, struct err *e);

/* reply-state.c */
void reply_enter(struct chat_reply *r, enum reply_state state);
void reply_look_for(struct chat_reply *r, enum reply_set set);
void reply_fail(struct chat_reply *r, int code, const char *what);
/* One byte of a text or of reasoning. */
void reply_plain_byte(struct chat_reply *r, const struct reply_byte *b);
/* White space that waited belongs to the text. */
void reply_give_spaces(struct chat_reply *r);
/* It is no call: what waited in trial is text. */
void reply_give_trial(struct chat_reply *r);
/* A mark ends the part; what follows it loses the white space in front. */
void reply_end_plain(struct chat_reply *r);

/* reply-calls.c */
/* The machine and the marks of the row. */
void reply_calls_init(struct chat_reply *r);
/* Whether an opening mark is one only if an object follows. */
bool reply_call_waits(const struct chat_reply *r, enum reply_mark_id id);
enum reply_took reply_opening_byte(struct chat_reply *r, const struct reply_byte *b);
enum reply_took reply_call_byte(struct chat_reply *r, const struct reply_byte *b);
void reply_call_finish(struct chat_reply *r);

/* reply-object.c: the call is written as an object, whatever the row says. */
void reply_call_object(struct chat_reply *r);

/* reply-call.c */
void reply_call_start(struct chat_reply *r);
/* Behind a call, or a section. */
void reply_call_leave(struct chat_reply *r);
/* A mark outside of calls, or one that the machine does not know. */
void reply_call_mark(struct chat_reply *r, enum reply_mark_id id);
/* call.name has been read. False: it is none, and the call is broken. */
bool reply_call_named(struct chat_reply *r);
/* The part begins, with call.name and call.id; arguments given before follow. */
void reply_call_begin(struct chat_reply *r);
void reply_call_arguments(struct chat_reply *r, const char *text, size_t n);
/* The same for a byte of a string within the arguments. */
void reply_call_string_byte(struct chat_reply *r, uint8_t c);
/* A byte of JSON, as it is: control characters in strings become escapes. */
void reply_call_json_byte(struct chat_reply *r, const struct reply_json *j, uint8_t c);
/* A byte of arguments that are JSON; the call ends with them. */
enum reply_took reply_call_body_byte(struct chat_reply *r, const struct reply_byte *b);
/* The call ends well. */
void reply_call_done(struct chat_reply *r);
/* The call ends badly: a sentence. */
void reply_call_broken(struct chat_reply *r, const char *why);

/* reply-bare.c: 1: a call begins so; 0: more is needed; -1: no. */
int reply_bare(const struct chat_reply *r);

/* reply-channel.c */
void reply_channel_marks(struct chat_reply *r);
void reply_channel_mark(struct chat_reply *r, enum reply_mark_id id);
void reply_channel_byte(struct chat_reply *r, const struct reply_byte *b);
void reply_channel_finish(struct chat_reply *r);

/* reply-out.c */
void reply_part_begin(struct chat_reply *r, enum chat_part part, uint32_t token);
void reply_part_byte(struct chat_reply *r, char c);
void reply_part_end(struct chat_reply *r, const char *broken);
void reply_part_flush(struct chat_reply *r);
/* For tests: it grows with the time taken. */
uint64_t reply_steps(const struct chat_reply *r);
