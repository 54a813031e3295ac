/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * --open: the page for the user who runs the gateway, and nobody else.
 *
 * 1. The gateway makes a token for that user when it starts, and forgets it when it ends. The token is printed, as part of a link,
 *    on standard output, which is the user's; it is in no log, file or list of processes.
 * 2. The browser is started with a link, too, which any user of the machine can read in the list of processes. So that one has a code
 *    in place of the token. The page exchanges it (POST /confab/v1/session): once, within a minute, and only by a
 *    connection whose other end is the user's, as the kernel says. A wrong user's attempt does not use it up.
 * 3. The browser is no child that anybody waits for: it outlives the gateway, and leaves no zombie.
 */
#include "client/gateway/tokens.h"

#define SHOW_CODE_USEC 60000000ull

/* 32 random bytes in base64url. */
#define SHOW_WORD_SIZE 44

struct show {
        char token[SHOW_WORD_SIZE]; /* "": there is none */
        struct tokens codes;        /* the one that can be exchanged, or none */
        uint64_t codes_until_usec;
};
#define SHOW_NULL ((struct show){})

/* Make the token. -ERR_SYS: there are no random numbers. */
int show_init(struct show *show, struct err *e);
void show_deinit(struct show *show);
/* "http://127.0.0.1:8080/#token=TOKEN" as a line on standard output. @address is one that the gateway listens on; if it is all
 * addresses, that of this machine is put in its place. -ERR_SYS. */
int show_print(const struct show *show, const char *address, struct err *e);
/* Make a code, and start the desktop's browser with it, if there is a desktop. What fails is logged: the user has the printed link. */
void show_start_browser(struct show *show, const char *address);
/* Whether @code can be exchanged now. */
bool show_knows(const struct show *show, const char *code);
/* The token in exchange for the code, which is of no more use. */
const char *show_exchange(struct show *show);
