/* SPDX-License-Identifier: MIT */
#pragma once
/* Users in settings: a name or a number. Asks the system's user database; loop thread only. */
#include <stdint.h>

struct err;

/* -ERR_INVALID: no such user. */
int uid_find(uint32_t *ret, const char *word, struct err *e);
