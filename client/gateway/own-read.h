/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * What a request of /confab/v1 asks for: JSON, or parameters of the query, to a struct confab_request. It knows no server.
 *
 *      own-fields.c    the table: which field is whose, of what type, and where it goes
 *      own-read.c      the types
 *      own-messages.c  inputs that are lists: messages, results, what was given
 *
 * 1. Names and meanings are those of confab.proto, but for `about`, `sampling` and inputs, which docs/http.md describes.
 * 2. A field of another verb is unknown, and unknown fields are ignored. null counts as absent.
 * 3. Whatever is of a wrong type is named. Whether a value makes sense is the daemon's to say.
 */
#include "client/gateway/fields.h"
#include "client/gateway/form.h"

/* Points into the JSON and into the form that it was read with: both have to live as long. */
struct own_asked {
        struct confab_request request;
        struct confab_sampling sampling;
        struct confab_about about;
        bool whole; /* of a reply: one JSON text, not a stream */
};

/* @body: an object. @ret is filled, but for the conversation (of find: with it). -ERR_INVALID with fields->wrong,
 * -ERR_NOMEM. */
int own_read(struct form *memory, struct fields *fields, enum confab_verb verb, const json_t *body,
        struct own_asked *ret, struct err *e);

/* The parameters of a query that @verb knows, as such a body: numbers and flags are read as JSON has them ("true", or nothing
 * behind the name), and `stop` may be a list in JSON. @get gives the decoded value of a name, or NULL. *ret is to be given to
 * json_decref(). -ERR_NOMEM. */
int own_read_query(json_t **ret, enum confab_verb verb,
        const char *(*get)(void *userdata, const char *name), void *userdata, struct err *e);

/* A conversation as a path has it: digits are an id, anything else is a name. 1: it can't be either. */
int own_read_ref(const char *text, struct confab_request *request);
/* Where a stream of a reply broke, as "id:" of its events had it: REVISION, REVISION-POSITION, or REVISION-end. 0; 1: the reply
 * has ended, there is nothing more; -ERR_INVALID. */
int own_read_place(const char *text, struct confab_request *request, struct err *e);

/* ---- for own-*.c ---- */

struct own_reader {
        struct form *memory;
        struct fields *fields;
        struct own_asked *asked;
        const char *input; /* the field that has the input, or NULL */
};

enum own_type { OWN_FLAG, OWN_U32, OWN_U64, OWN_FLOAT, OWN_TEXT, OWN_WORD, OWN_OTHER };
struct own_field {
        const char *name;
        enum own_type type;
        uint32_t verbs; /* 1 << CONFAB_...; 0: of a part, which has a table of its own */
        size_t at;      /* offset: where it goes */
        size_t has; /* of a bool that tells that it was given, or with @bit of a uint32_t; 0: none */
        uint32_t bit;
        const char *const
                *words; /* OWN_WORD: names of the numbers from 1 on, NULL behind the last */
        /* OWN_OTHER; @value is not null */
        int (*read)(struct own_reader *reader, const struct own_field *field, const json_t *object,
                void *base, struct err *e);
};
extern const struct own_field own_fields[]; /* the last has no name */
extern const char *const own_roles[];

/* Read the fields of @object that @table has (with @verb, unless that is 0) into @base. */
int own_read_table(struct own_reader *reader, const struct own_field *table, enum confab_verb verb,
        const json_t *object, void *base, struct err *e);
/* The input is in field @name: an error if another one has it, too. */
int own_take_input(
        struct own_reader *reader, const char *name, enum confab_input input, struct err *e);
/* A text, or another JSON value as text (tools, schemas, metadata); NULL: absent. */
int own_read_json(struct own_reader *reader, const json_t *object, const char *name,
        const char **ret, struct err *e);

/* own-messages.c; as own_field.read */
int own_read_messages(struct own_reader *reader, const struct own_field *field,
        const json_t *object, void *base, struct err *e);
int own_read_results(struct own_reader *reader, const struct own_field *field, const json_t *object,
        void *base, struct err *e);
int own_read_given(struct own_reader *reader, const struct own_field *field, const json_t *object,
        void *base, struct err *e);
