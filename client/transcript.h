/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Transcripts from elsewhere as messages that a Continue takes: `confab open --from`. transcript.c has the forms. Prints
 * nothing, talks to nobody. One owner; not shared between threads.
 */
#include "base/cleanup.h"
#include "client/confab.h"

struct err;

/* Longest text of one, in bytes. */
#define TRANSCRIPT_MAX ((size_t)32 << 20)

struct transcript {
        struct confab_message *messages; /* [n_messages] */
        size_t n_messages;
        char *tools;  /* definitions that hold from the beginning, or NULL */
        void **owned; /* [n_owned], what the messages refer to */
        size_t n_owned;
};

/* Read @text into *ret, to be given to transcript_deinit(). -ERR_INVALID: no transcript, or what is wrong with it, with
 * line and column or the place, as in "messages[2].content"; -ERR_UNSUPPORTED: it has what no conversation here can
 * hold; -ERR_TOO_LARGE; -ERR_NOMEM. On failure *ret is empty. */
int transcript_parse(struct transcript *ret, const char *text, size_t size, struct err *e);
void transcript_deinit(struct transcript *t);
