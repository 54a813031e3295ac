/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Who comes by TCP: a file of tokens. Each line is "TOKEN USER [TENANT]", USER a name or a number; empty lines and those
 * that begin with '#' are skipped.
 *
 * 1. The file must belong to root or to the user of the process, and nobody else may read it.
 * 2. How long a look-up takes does not depend on how much of a token is right, or on which one it is.
 * 3. A file with anything wrong in it is not taken at all.
 */
#include "client/gateway/backend.h"
#include <stdbool.h>
#include <stddef.h>

#define TOKEN_MIN 16
#define TOKEN_MAX 256
#define TOKENS_MAX 4096

struct token {
        char text[TOKEN_MAX]; /* zeroes behind its end */
        struct gateway_owner owner;
};

struct tokens {
        struct token *items; /* [n], owned */
        size_t n;
};
#define TOKENS_NULL ((struct tokens){})

/* @ret is TOKENS_NULL before, and untouched on failure: -ERR_SYS, -ERR_PERMISSION (the file's mode or owner), -ERR_INVALID
 * (with the number of the line), -ERR_NOMEM. */
int tokens_read(struct tokens *ret, const char *path, struct err *e);
/* The same from text, of which lines are cut off. */
int tokens_parse(struct tokens *ret, char *text, struct err *e);
/* One more, for the user @uid. -ERR_INVALID: it is no token, or there already; -ERR_NOMEM. On failure @tokens is as it was. */
int tokens_add(struct tokens *tokens, const char *token, uint32_t uid, struct err *e);
void tokens_deinit(struct tokens *tokens);
/* The owner of @token, or NULL. */
const struct gateway_owner *tokens_find(const struct tokens *tokens, const char *token);
/* 1 to 128 bytes of text without control characters: what the daemon takes as a tenant's label. */
bool tokens_tenant_possible(const char *label);
