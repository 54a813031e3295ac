/* SPDX-License-Identifier: MIT */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/*
 * A template family: what stands around messages, as text. Special tokens in it are recognised, and
 * {bos} and {eos} stand for the texts of those tokens. Text between special tokens is tokenised on
 * its own, and so is the message - only a blank at the very end of `before` is tokenised together
 * with the message, as it is the first part of its first word.
 */
struct chat_family {
        const char *name;
        /* The template has all of these, and not the other. */
        const char *marks[3], *unless;
        struct chat_around {
                const char *before, *after;
        } message[3];      /* of a system, user and assistant message; NULL: see system */
        const char *reply; /* invites the reply */
        /* The token that ends a reply; message[CHAT_ASSISTANT].after contains it. What follows it
         * there is appended to replies that ended by themselves. */
        const char *end;
        enum chat_system {
                CHAT_SYSTEM_ANYWHERE,
                CHAT_SYSTEM_FIRST,   /* a role of its own, but only as the first message */
                CHAT_SYSTEM_IN_USER, /* opens the block of the first user message */
        } system;
        /* Message texts lose the whitespace at both ends: if the template has this ("": always). */
        const char *trim_mark;
};
extern const struct chat_family chat_families[];
extern const size_t chat_n_families;

struct buf;
/* literals.c: append the strings that the template can write, each with a NUL behind it. @text may
 * be NULL if @size is 0. 0, -ERR_NOMEM. */
int chat_literals(struct buf *out, const char *text, size_t size);
/* The same for one string that is known. */
int chat_literal_append(struct buf *out, const char *text);
