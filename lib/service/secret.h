/* SPDX-License-Identifier: MIT */
#pragma once
/* Files with what nobody else may read: tokens, passwords. Any thread. */
#include "base/cleanup.h"
#include <stddef.h>

struct err;

/* Read a whole file of at most @max bytes of text. *ret is to be freed by secret_free(). Messages do not name the file.
 * -ERR_PERMISSION: it belongs neither to root nor to this process's user, or others may read or write it. -ERR_INVALID: it is no file, too
 * long, or has a NUL byte. -ERR_SYS, -ERR_NOMEM. */
int secret_read(char **ret, const char *path, size_t max, struct err *e);
/* The same of the file's first line, without its end. -ERR_INVALID: that is empty, too. */
int secret_read_line(char **ret, const char *path, size_t max, struct err *e);
/* Overwrites it before. NULL is fine; returns NULL. */
char *secret_free(char *text);
DEFINE_CLEANUP(char *, secret_free);
