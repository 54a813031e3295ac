/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * A line as it goes to the journal: fields "NAME=value", each ended by a NUL, the message first. Private to log*.c.
 * Pure but for log_record_write(), which may take as long as the journal or the reader of standard error likes.
 */
#include <stdbool.h>
#include <stddef.h>

#define LOG_RECORD_FIELDS 48
#define LOG_RECORD_SIZE 6144

struct log_record {
        int level;
        size_t n, size;
        char text[LOG_RECORD_SIZE];
};

/* The fields that every line has. @id: MESSAGE_ID, or NULL. */
void log_record_begin(struct log_record *record, const char *program, int level,
        const char *message, const char *id);
/* A field that does not fit is cut; one of which nothing fits is left out. */
void log_record_add(struct log_record *record, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));
/* @text has @n fields, and begins as log_record_begin() made it. Any thread. */
void log_record_write(bool to_journal, const char *program, int level, const char *text, size_t n);
