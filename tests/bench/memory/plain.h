/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Reading an uncompressed file as fast as plain reads go: what bringing memory back is compared
 * with. Two ways, because neither is the fastest everywhere.
 */
#include <stdbool.h>

/* A file of @size bytes that nothing can compress, in the new or existing folder @dir. */
void plain_make(const char *dir, double size);
/* Seconds to read it into @buf (its size and 1 MiB more, page aligned). */
double plain_read_one(const char *dir, void *buf);
/* The same by as many threads as the engine has I/O workers, 1 MiB at a time; @direct: past the page
 * cache (where the file system has no O_DIRECT: through it). */
double plain_read_many(const char *dir, void *buf, bool direct);
unsigned plain_n_readers(void);
