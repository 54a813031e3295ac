/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The page: files for a browser, for everybody who can connect. Nothing in them is secret: what a page may do is up to the
 * token that it has, or the user at the other end of the socket.
 *
 * 1. A client that does not read costs one piece of a file and no descriptor: the file is opened for each piece, which is
 *    written when the one before it has left. A file that is another one by then ends the connection, so no client has
 *    the beginning of one and the end of another.
 * 2. The browser may keep a file, but asks each time whether it is still the same (ETag): an upgrade is seen at once.
 * 3. `/` is also what Ollama's clients ask for to see whether the server lives: they get Ollama's answer, and only those that
 *    accept HTML the page.
 */
#include <stdbool.h>

struct http_exchange;

/* Folders; borrowed. */
struct page_folders {
        const char *files; /* NULL: there is no page */
        const char *
                libs; /* below which the distribution has its libraries; NULL: none are looked for */
};

/* The fields that all answers about files have. -ERR_NOMEM. */
int page_add_fields(struct http_exchange *exchange);
