/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to service/conf*.c: where each setting was given. All do nothing for a program without origins_offset. */
#include "service/conf.h"

/* @t was just given: in line @line of the file @path, or (NULL) on the command line. -ERR_NOMEM. */
int origin_note(const struct conf *conf, void *settings, const struct setting *t, const char *path,
        unsigned line, struct err *e);
/* Exchange the origins of @t. */
void origin_swap(const struct conf *conf, void *a, void *b, const struct setting *t);
/* @copy has the pointers of the settings that it is a copy of: give it texts of its own. False: some are NULL
 * now for lack of memory. */
bool origins_dup(const struct conf *conf, void *copy);
void origins_free(const struct conf *conf, void *settings);
