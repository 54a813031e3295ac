/* SPDX-License-Identifier: MIT */
#include "service/log-record.h"
#include "base/util.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#include <unistd.h>

#define MESSAGE "MESSAGE="
#define MESSAGE_MAX 1024
#define VALUE_MAX 512

/* @most bytes at most, with the NUL. */
static void __attribute__((format(printf, 3, 0)))
add(struct log_record *record, size_t most, const char *fmt, va_list ap) {
        size_t room = MIN(sizeof(record->text) - record->size, most);
        int n;

        if (record->n == LOG_RECORD_FIELDS || room < 2)
                return;
        n = vsnprintf(record->text + record->size, room, fmt, ap);
        if (n <= 0)
                return;
        record->size += MIN((size_t)n, room - 1) + 1;
        record->n++;
}

void log_record_add(struct log_record *record, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        add(record, VALUE_MAX, fmt, ap);
        va_end(ap);
}

static void __attribute__((format(printf, 2, 3)))
add_message(struct log_record *record, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        add(record, sizeof(MESSAGE) + MESSAGE_MAX, fmt, ap);
        va_end(ap);
}

void log_record_begin(struct log_record *record, const char *program, int level,
        const char *message, const char *id) {
        record->level = level;
        record->n = record->size = 0;
        add_message(record, MESSAGE "%s", message);
        log_record_add(record, "PRIORITY=%d", level);
        log_record_add(record, "SYSLOG_IDENTIFIER=%s", program);
        if (id)
                log_record_add(record, "MESSAGE_ID=%s", id);
}

static void write_journal(const char *text, size_t n) {
        struct iovec iov[LOG_RECORD_FIELDS];

        for (size_t i = 0; i < n; i++) {
                iov[i].iov_base = (void *)(uintptr_t)text;
                iov[i].iov_len = strlen(text);
                text += iov[i].iov_len + 1;
        }
        /* There is nowhere left to say that saying it failed. */
        (void)sd_journal_sendv(iov, (int)n);
}

static void write_stderr(const char *program, int level, const char *message) {
        static const char *const names[] = {
                "emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"};
        char line[MESSAGE_MAX + 64];
        int n = snprintf(line, sizeof(line), "%.30s: %s: %s\n", program, names[level & 7], message);

        if (n > 0 && write(STDERR_FILENO, line, MIN((size_t)n, sizeof(line) - 1)) < 0)
                return;
}

void log_record_write(bool to_journal, const char *program, int level, const char *text, size_t n) {
        if (to_journal)
                write_journal(text, n);
        else
                write_stderr(program, level, text + strlen(MESSAGE));
}
