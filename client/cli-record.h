/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The record of a map (--resume FILE): what was answered, so that a run which was interrupted goes on. cli-record.c has
 * the format. Prints nothing. One thread.
 */
#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct record_entry {
        uint64_t index, hash;
        uint64_t offset;
        size_t size; /* of the line, without its newline */
};
struct record {
        int fd;                       /* -1: there is no record */
        struct record_entry *entries; /* [n], by index, then by age */
        size_t n, at;
};
#define RECORD_NULL ((struct record){.fd = -1})

/* Open the file, or make it, lock it, and read what it has. A half line at its end is dropped. -ERR_BUSY: another map
 * writes it. -ERR_FORMAT: it is no record. -ERR_SYS, -ERR_NOMEM. */
int record_open(struct record *ret, const char *path, struct err *e);
void record_close(struct record *rec);
/* The answer to line @index with the question of this hash, or NULL. Indexes may not fall from call to call. */
const struct record_entry *record_find(struct record *rec, uint64_t index, uint64_t hash);
/* Append its line to @b. */
int record_read(
        const struct record *rec, const struct record_entry *entry, struct buf *b, struct err *e);
/* Write a line, which ends with its newline. */
int record_append(struct record *rec, const void *line, size_t size, struct err *e);
