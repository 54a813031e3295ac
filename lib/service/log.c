/* SPDX-License-Identifier: MIT */
#include "base/clock.h"
#include "base/util.h"
#include "service/log.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>
#include <unistd.h>

#define MESSAGE_MAX 1024
#define N_FIELDS 9

static const char *log_program = "confab";
static int log_level = LOG_INFO;
static bool to_journal;

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
}

void log_set_level(int level) {
        log_level = level;
}

struct fields {
        struct iovec iov[N_FIELDS];
        char text[N_FIELDS][MESSAGE_MAX + 16];
        int n;
};

static void __attribute__((format(printf, 2, 3))) field(struct fields *f, const char *fmt, ...) {
        va_list ap;
        int n;

        va_start(ap, fmt);
        n = vsnprintf(f->text[f->n], sizeof(f->text[f->n]), fmt, ap);
        va_end(ap);
        if (n <= 0)
                return;
        f->iov[f->n].iov_base = f->text[f->n];
        f->iov[f->n].iov_len = MIN((size_t)n, sizeof(f->text[f->n]) - 1);
        f->n++;
}

static void write_journal(int level, const struct log_about *about, const char *message) {
        struct fields f = {};

        field(&f, "MESSAGE=%s", message);
        field(&f, "PRIORITY=%d", level);
        field(&f, "SYSLOG_IDENTIFIER=%s", log_program);
        if (about && about->err) {
                field(&f, "CONFAB_ERROR=%s", err_code_name(about->err->code));
                if (about->err->file) {
                        field(&f, "CODE_FILE=%s", about->err->file);
                        field(&f, "CODE_LINE=%d", about->err->line);
                }
        }
        if (about && about->uid >= 0)
                field(&f, "CONFAB_UID=%lld", (long long)about->uid);
        if (about && about->pid > 0)
                field(&f, "CONFAB_PID=%lld", (long long)about->pid);
        if (about && about->conversation)
                field(&f, "CONFAB_CONVERSATION=%llu", (unsigned long long)about->conversation);
        /* There is nowhere left to say that saying it failed. */
        (void)sd_journal_sendv(f.iov, f.n);
}

static void write_stderr(int level, const char *message) {
        static const char *const names[] = {
                "emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"};
        char line[MESSAGE_MAX + 64];
        int n = snprintf(
                line, sizeof(line), "%.30s: %s: %s\n", log_program, names[level & 7], message);

        if (n > 0 && write(STDERR_FILENO, line, MIN((size_t)n, sizeof(line) - 1)) < 0)
                return;
}

void log_write(int level, const struct log_about *about, const char *fmt, ...) {
        char message[MESSAGE_MAX];
        va_list ap;
        size_t n;

        if (level > log_level)
                return;
        va_start(ap, fmt);
        vsnprintf(message, sizeof(message), fmt, ap);
        va_end(ap);
        n = strlen(message);
        if (about && about->err)
                snprintf(message + n, sizeof(message) - n, "%s%s", n ? ": " : "", about->err->msg);
        /* Names and paths come from elsewhere: one message stays one line. */
        for (char *p = message; *p; p++)
                if ((unsigned char)*p < 0x20 || *p == 0x7f)
                        *p = ' ';
        if (to_journal)
                write_journal(level, about, message);
        else
                write_stderr(level, message);
}

/* Counts of recent messages that one user provoked. The first bucket is for messages about no user;
 * users whose numbers fall into the same bucket share it. */
struct bucket {
        uint64_t since;
        unsigned n, suppressed;
};

bool log_peer_allowed(const struct log_about *about) {
        static struct bucket buckets[LOG_BUCKETS];
        int64_t uid = about ? about->uid : -1;
        struct bucket *b = &buckets[uid < 0 ? 0 : 1 + uid % (LOG_BUCKETS - 1)];
        uint64_t now = clock_monotonic_usec();

        if (b->n == 0 || now - b->since >= LOG_INTERVAL_USEC) {
                unsigned count = b->suppressed;

                *b = (struct bucket){.since = now};
                if (count)
                        log_write(LOG_WARNING, &(struct log_about){.uid = uid},
                                "%u messages about clients were left out", count);
        }
        if (b->n >= LOG_BURST) {
                b->suppressed++;
                return false;
        }
        b->n++;
        return true;
}
