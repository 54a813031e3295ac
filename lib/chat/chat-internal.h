/* SPDX-License-Identifier: MIT */
#pragma once
#include <stdbool.h>
#include <stddef.h>

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

/* differences.c: the sentences for chat_difference(), a NULL behind the last. @family: NULL if none
 * is like the template. @trim: messages lose the white space at both ends. */
enum { CHAT_MAX_DIFFERENCES = 5 };
void chat_differences(const char *ret[CHAT_MAX_DIFFERENCES + 1], const struct chat_family *family,
        bool trim, const char *text, size_t size);

struct buf;
/* literals.c: append the strings that the template can write, each followed by a NUL. @text may be
 * NULL if @size is 0. 0, -ERR_NOMEM. */
int chat_literals(struct buf *out, const char *text, size_t size);
/* The same for one string that is known. */
int chat_literal_append(struct buf *out, const char *text);
