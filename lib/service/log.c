/* SPDX-License-Identifier: MIT */
#include "service/log.h"
#include "base/clock.h"
#include "base/util.h"
#include "service/log-limit.h"
#include "service/log-queue.h"
#include "service/log-record.h"
#include "service/loop.h"
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MESSAGE_MAX 1024

static const char *log_program = "confab";
static int log_level = LOG_INFO;
static bool to_journal;
static struct log_limits limits;
static struct event *timer; /* NULL: there is no loop */

/* JOURNAL_STREAM names device and inode of the socket that the service manager connected. */
static bool stderr_is_journal(void) {
        const char *stream = getenv("JOURNAL_STREAM");
        unsigned long long dev, ino;
        struct stat st;

        if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2)
                return false;
        return fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void log_init(const char *program, int level) {
        log_program = program;
        log_level = level;
        to_journal = stderr_is_journal();
        limits = (struct log_limits){};
}

void log_set_level(int level) {
        log_level = level;
}

bool log_wants(enum logged what) {
        return logged_table[what].level <= log_level;
}

/* ---- a line ---- */

static void add_about(struct log_record *record, const struct log_about *about) {
        const struct err *err = about->err;

        if (err && err->code != ERR_NONE) {
                log_record_add(record, "CONFAB_ERROR=%s", err_code_name(err->code));
                if (err->file) {
                        log_record_add(record, "CODE_FILE=%s", err->file);
                        log_record_add(record, "CODE_LINE=%d", err->line);
                }
        }
        if (about->owner != OWNER_ANY)
                log_record_add(record, "CONFAB_UID=%u", owner_uid(about->owner));
        if (about->acts)
                log_record_add(record, "CONFAB_ACTOR_UID=%u", about->actor_uid);
        if (about->tenant)
                log_record_add(record, "CONFAB_TENANT=%s", about->tenant);
        if (about->pid > 0)
                log_record_add(record, "CONFAB_PID=%lld", (long long)about->pid);
        if (about->conversation)
                log_record_add(record, "CONFAB_CONVERSATION=%llu",
                        (unsigned long long)about->conversation);
        for (size_t i = 0; i < about->n_fields; i++) {
                const struct log_field *field = &about->fields[i];

                if (field->text)
                        log_record_add(record, "%s=%s", field->name, field->text);
                else
                        log_record_add(
                                record, "%s=%llu", field->name, (unsigned long long)field->number);
        }
}

static void __attribute__((format(printf, 4, 0)))
write_line(int level, const char *id, const struct log_about *about, const char *fmt, va_list ap) {
        char message[MESSAGE_MAX];
        struct log_record record;
        size_t n;

        vsnprintf(message, sizeof(message), fmt, ap);
        n = strlen(message);
        if (about && about->err && about->err->msg[0])
                snprintf(message + n, sizeof(message) - n, "%s%s", n ? ": " : "", about->err->msg);
        /* Paths and labels come from elsewhere. */
        for (char *p = message; *p; p++)
                if ((unsigned char)*p < 0x20 || *p == 0x7f)
                        *p = ' ';
        log_record_begin(&record, log_program, level, message, id);
        if (about)
                add_about(&record, about);
        if (log_queue_is_on())
                log_queue_put(&record);
        else
                log_record_write(to_journal, log_program, level, record.text, record.n);
}

static void __attribute__((format(printf, 3, 4)))
write_event(enum logged what, const struct log_about *about, const char *fmt, ...) {
        const struct logged_info *info = &logged_table[what];
        va_list ap;

        if (info->level > log_level)
                return;
        va_start(ap, fmt);
        write_line(info->level, info->id, about, fmt, ap);
        va_end(ap);
}

/* ---- what was left out ---- */

static void tell_left_out(uint64_t now, bool all) {
        uint64_t owner;
        unsigned n;

        while ((n = log_limits_next(&limits, now, all, &owner)) > 0) {
                const struct log_field count = {"CONFAB_COUNT", NULL, n};
                const struct log_about about = {.owner = owner, .fields = &count, .n_fields = 1};

                write_event(LOGGED_LEFT_OUT, &about,
                        "%u messages about clients of %s were left out", n,
                        owner == OWNER_ANY ? "several users" : OWNER_TEXT(owner));
        }
}

static void arm(void) {
        const struct timeval t = {.tv_sec = LOG_INTERVAL_USEC / 1000000};

        /* Without memory for the timer the count is told with the next limited event. */
        if (timer && limits.n_left_out > 0 && !event_pending(timer, EV_TIMEOUT, NULL))
                (void)event_add(timer, &t);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
        (void)fd, (void)what, (void)arg;
        tell_left_out(clock_monotonic_usec(), false);
        arm();
}

static bool allowed(uint64_t owner) {
        uint64_t now = clock_monotonic_usec();
        bool is;

        tell_left_out(now, false);
        is = log_limits_allow(&limits, owner, now);
        arm();
        return is;
}

int log_start(struct event_base *base, struct err *e) {
        int r = 0;

        timer = loop_event_new(base, -1, 0, on_timer, NULL);
        if (!timer)
                return err_set(e, ERR_NOMEM, "no memory for a timer");
        if (to_journal)
                r = log_queue_start(log_program, e);
        if (r < 0)
                timer = loop_event_free(timer);
        return r;
}

void log_stop(void) {
        timer = loop_event_free(timer);
        tell_left_out(clock_monotonic_usec(), true);
        log_queue_stop(LOG_STOP_USEC);
}

/* ---- the ways in ---- */

void log_event(enum logged what, const struct log_about *about, const char *fmt, ...) {
        const struct logged_info *info = &logged_table[what];
        va_list ap;

        if (info->level > log_level ||
                (info->limited && !allowed(about ? about->owner : OWNER_ANY)))
                return;
        va_start(ap, fmt);
        write_line(info->level, info->id, about, fmt, ap);
        va_end(ap);
}

void log_debug(const struct log_about *about, const char *fmt, ...) {
        va_list ap;

        if (LOG_DEBUG > log_level)
                return;
        va_start(ap, fmt);
        write_line(LOG_DEBUG, NULL, about, fmt, ap);
        va_end(ap);
}
