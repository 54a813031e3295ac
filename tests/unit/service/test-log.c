/* SPDX-License-Identifier: MIT */
/* Lines to standard error and to a journal that this program is: it has sd_journal_sendv() and the clock for itself. */
#include "service/log-limit.h"
#include "service/log-queue.h"
#include "service/log.h"
#include "util/test.h"
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* ---- the clock ---- */

static time_t ahead; /* seconds */

int clock_gettime(clockid_t id, struct timespec *ret) {
        int r = (int)syscall(SYS_clock_gettime, id, ret);

        ret->tv_sec += ahead;
        return r;
}

/* ---- the journal ---- */

#define LINES_MAX 8192

static struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool blocks;
        size_t n, n_waiting;
        char *lines
                [LINES_MAX]; /* fields with blanks between them, each with a blank in front; owned */
} journal = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int sd_journal_sendv(const struct iovec *iov, int n);
int sd_journal_sendv(const struct iovec *iov, int n) {
        char *line = calloc(1, 2 * LOG_RECORD_SIZE);
        size_t at = 0;

        assert_non_null(line);
        for (int i = 0; i < n; i++) {
                line[at++] = ' ';
                memcpy(line + at, iov[i].iov_base, iov[i].iov_len);
                at += iov[i].iov_len;
        }
        pthread_mutex_lock(&journal.lock);
        journal.n_waiting++;
        pthread_cond_broadcast(&journal.changed);
        while (journal.blocks)
                pthread_cond_wait(&journal.changed, &journal.lock);
        journal.n_waiting--;
        assert_true(journal.n < LINES_MAX);
        journal.lines[journal.n++] = line;
        pthread_cond_broadcast(&journal.changed);
        pthread_mutex_unlock(&journal.lock);
        return 0;
}

static void journal_block(bool blocks) {
        pthread_mutex_lock(&journal.lock);
        journal.blocks = blocks;
        pthread_cond_broadcast(&journal.changed);
        pthread_mutex_unlock(&journal.lock);
}

static void journal_clear(void) {
        pthread_mutex_lock(&journal.lock);
        while (journal.n > 0)
                free(journal.lines[--journal.n]);
        pthread_mutex_unlock(&journal.lock);
}

/* Until a writer stands in sd_journal_sendv(). */
static void journal_wait_writer(void) {
        pthread_mutex_lock(&journal.lock);
        while (journal.n_waiting == 0)
                pthread_cond_wait(&journal.changed, &journal.lock);
        pthread_mutex_unlock(&journal.lock);
}

/* Lines with @part. */
static size_t journal_count(const char *part) {
        size_t n = 0;

        for (size_t i = 0; i < journal.n; i++)
                n += strstr(journal.lines[i], part) != NULL;
        return n;
}

static void expect(const char *line, const char *part) {
        if (!strstr(line, part))
                fail_msg("no \"%s\" in \"%s\"", part, line);
}

/* What service managers do: standard error is the journal's, and JOURNAL_STREAM says so. */
static void connect_journal(int level) {
        char stream[64];
        struct stat st;

        assert_int_equal(fstat(STDERR_FILENO, &st), 0);
        snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
                (unsigned long long)st.st_ino);
        setenv("JOURNAL_STREAM", stream, 1);
        log_init("confabd", level);
        unsetenv("JOURNAL_STREAM");
        journal_clear();
}

/* ---- standard error ---- */

static int saved, pipe_fd;

static void capture(void) {
        int fds[2];

        fflush(stderr);
        assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
        saved = dup(STDERR_FILENO);
        dup2(fds[1], STDERR_FILENO);
        close(fds[1]);
        pipe_fd = fds[0];
}

static const char *captured(void) {
        static char text[65536];
        ssize_t n;

        dup2(saved, STDERR_FILENO);
        close(saved);
        n = read(pipe_fd, text, sizeof(text) - 1);
        text[n < 0 ? 0 : n] = 0;
        close(pipe_fd);
        return text;
}

static void test_levels(void **state) {
        struct err e;

        capture();
        log_init("confabd", LOG_NOTICE);
        LOG(LOGGED_STOPPED, "not this");
        LOG(LOGGED_ADMIN_ACT, "but %s", "this");
        log_debug(NULL, "nor this");
        err_set(&e, ERR_FORMAT, "the reason");
        LOG_ERROR(LOGGED_CANNOT_START, &e, "what failed");
        LOG_ERROR(LOGGED_SETTINGS_WRONG, &e, "%s", "");
        LOG_ERROR(LOGGED_ADMIN_ACT, &(struct err){}, "without an error");
        assert_string_equal(captured(),
                "confabd: notice: but this\nconfabd: error: what failed: the reason\n"
                "confabd: error: the reason\nconfabd: notice: without an error\n");
}

/* What a peer names cannot forge a line. */
static void test_one_message_is_one_line(void **state) {
        capture();
        log_init("confabd", LOG_INFO);
        LOG(LOGGED_STOPPED, "name '%s'", "a\nconfabd: error: all is lost\r\x1b[2J");
        assert_string_equal(
                captured(), "confabd: info: name 'a confabd: error: all is lost  [2J'\n");
}

static void test_long_message_is_cut(void **state) {
        char text[5000];

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = 0;
        capture();
        log_init("confabd", LOG_INFO);
        LOG(LOGGED_STOPPED, "%s", text);
        assert_in_range(strlen(captured()), 500, 1100);
}

/* ---- the table ---- */

static bool has_word(const char *words, const char *word, size_t size) {
        for (const char *at = words; (at = strstr(at, "CONFAB_")); at += 7)
                if (strncmp(at, word, size) == 0 && (at[size] == ' ' || !at[size]))
                        return true;
        return false;
}

static void test_table(void **state) {
        for (size_t i = 0; i < N_LOGGED; i++) {
                const struct logged_info *info = &logged_table[i];
                const char *at, *end;

                assert_non_null(info->id);
                assert_int_equal(strlen(info->id), 32);
                assert_int_equal(strspn(info->id, "0123456789abcdef"), 32);
                assert_true(info->name && info->fields && strlen(info->subject) > 10 &&
                            strlen(info->text) > 20);
                assert_null(strchr(info->subject, '@'));
                for (size_t k = 0; k < i; k++)
                        if (strcmp(info->id, logged_table[k].id) == 0 ||
                                strcmp(info->name, logged_table[k].name) == 0)
                                fail_msg("'%s' has an id or a name twice", info->name);
                for (at = info->text; (at = strchr(at, '@')); at = end + 1) {
                        end = strchr(at + 1, '@');
                        assert_non_null(end);
                        if (!has_word(info->fields, at + 1, (size_t)(end - at - 1)))
                                fail_msg("'%s' has no field for %.20s", info->name, at);
                }
        }
}

/* What clients do wrong is never more than "info", and cannot flood. What they were asked to be logged for (the request logs)
 * is not limited. */
static void test_mistakes_of_clients(void **state) {
        static const enum logged clients[] = {LOGGED_LIMIT_REACHED, LOGGED_CONNECTION_REFUSED,
                LOGGED_HELLO_REFUSED, LOGGED_PROTOCOL_ERROR, LOGGED_CONNECTION_LOST,
                LOGGED_IMPORT_COLD, LOGGED_REQUEST, LOGGED_HTTP_REQUEST};
        size_t n = 0;

        for (size_t i = 0; i < N_LOGGED; i++) {
                const struct logged_info *info = &logged_table[i];
                bool asked_for = i == LOGGED_REQUEST || i == LOGGED_HTTP_REQUEST;

                if (!info->of_client)
                        continue;
                n++;
                assert_true(info->level >= LOG_INFO);
                assert_int_equal(info->limited, !asked_for);
        }
        assert_int_equal(n, sizeof(clients) / sizeof(clients[0]));
        for (size_t i = 0; i < n; i++)
                assert_true(logged_table[clients[i]].of_client);
        /* Who acts for an administrator, and what a user brings about against the others, is heard of. */
        assert_true(logged_table[LOGGED_LEFT_OUT].level == LOG_NOTICE);
        assert_true(logged_table[LOGGED_ADMIN_ACT].level == LOG_NOTICE);
        assert_true(logged_table[LOGGED_REQUEST_FAILED].limited);
        assert_true(logged_table[LOGGED_RECORD_DAMAGED].limited);
}

/* ---- fields ---- */

static void test_fields(void **state) {
        const struct log_field own[] = {
                {"CONFAB_LIMIT", "max-queued", 0}, {"CONFAB_COUNT", NULL, 7}};
        struct log_about about = {.owner = owner_make(1000, 3),
                .acts = true,
                .actor_uid = 990,
                .tenant = "anna\nPRIORITY=0",
                .pid = 77,
                .conversation = 12,
                .fields = own,
                .n_fields = 2};
        struct err e;

        connect_journal(LOG_INFO);
        err_set(&e, ERR_LIMIT, "too many");
        about.err = &e;
        log_event(LOGGED_LIMIT_REACHED, &about, "someone");
        log_debug(&about, "not at this level");
        log_set_level(LOG_DEBUG);
        log_debug(NULL, "at this one");
        assert_int_equal(journal.n, 2);
        expect(journal.lines[0],
                " MESSAGE=someone: too many PRIORITY=6 SYSLOG_IDENTIFIER=confabd ");
        expect(journal.lines[0], logged_table[LOGGED_LIMIT_REACHED].id);
        expect(journal.lines[0], " MESSAGE_ID=");
        expect(journal.lines[0], " CONFAB_ERROR=limit CODE_FILE=");
        expect(journal.lines[0], " CONFAB_UID=1000 CONFAB_ACTOR_UID=990 "
                                 "CONFAB_TENANT=anna\nPRIORITY=0 CONFAB_PID=77 "
                                 "CONFAB_CONVERSATION=12 CONFAB_LIMIT=max-queued CONFAB_COUNT=7");
        expect(journal.lines[1], " MESSAGE=at this one PRIORITY=7 ");
        assert_null(strstr(journal.lines[1], "MESSAGE_ID"));
        assert_null(strstr(journal.lines[1], "CONFAB_UID"));
}

/* Nobody in particular is no user, not root; fields of any length fit. */
static void test_nobody_and_long_fields(void **state) {
        char text[5000];
        struct log_field own[60];

        memset(text, 'y', sizeof(text) - 1);
        text[sizeof(text) - 1] = 0;
        for (size_t i = 0; i < 60; i++)
                own[i] = (struct log_field){"CONFAB_TEXT", text, 0};
        connect_journal(LOG_INFO);
        log_event(LOGGED_STOPPED,
                &(struct log_about){.owner = OWNER_ANY, .fields = own, .n_fields = 60}, "%s", text);
        LOG(LOGGED_STOPPED, "bye");
        assert_int_equal(journal.n, 2);
        assert_in_range(strlen(journal.lines[0]), 2000, LOG_RECORD_SIZE + 64);
        assert_null(strstr(journal.lines[0], "CONFAB_UID"));
        assert_null(strstr(journal.lines[1], "CONFAB_"));
}

/* ---- limits ---- */

#define SECOND 1000000ull

static unsigned allow(struct log_limits *limits, uint64_t owner, unsigned n, uint64_t now) {
        unsigned passed = 0;

        for (unsigned i = 0; i < n; i++)
                passed += log_limits_allow(limits, owner, now);
        return passed;
}

/* Each owner by itself, whatever the numbers are; what was left out is told once, when its interval is over. */
static void test_each_has_its_own_limit(void **state) {
        struct log_limits limits = {};
        uint64_t owner = 0, now = 1000 * SECOND;

        assert_int_equal(allow(&limits, 1000, 500, now), LOG_BURST);
        for (uint64_t other = 1001; other < 1041; other++)
                assert_int_equal(allow(&limits, other, 1, now), 1);
        assert_int_equal(allow(&limits, owner_make(1000, 1), 1, now), 1);
        assert_int_equal(log_limits_next(&limits, now + 9 * SECOND, false, &owner), 0);
        assert_int_equal(allow(&limits, 1000, 1, now + 9 * SECOND), 0);
        assert_int_equal(
                log_limits_next(&limits, now + 10 * SECOND, false, &owner), 501 - LOG_BURST);
        assert_int_equal(owner, 1000);
        assert_int_equal(log_limits_next(&limits, now + 10 * SECOND, false, &owner), 0);
        assert_int_equal(allow(&limits, 1000, 500, now + 10 * SECOND), LOG_BURST);
        assert_int_equal(
                log_limits_next(&limits, now + 11 * SECOND, true, &owner), 500 - LOG_BURST);
}

/* More owners than there are places: nobody gets a second burst by being forgotten, and those without a place share one. */
static void test_many_owners(void **state) {
        struct log_limits limits = {};
        uint64_t owner = 0, now = 1000 * SECOND;

        for (uint64_t uid = 1; uid <= LOG_USERS; uid++)
                assert_int_equal(allow(&limits, uid, 1, now), 1);
        assert_int_equal(allow(&limits, 5000, LOG_BURST, now), LOG_BURST);
        assert_int_equal(allow(&limits, 5001, 1, now), 0);
        assert_int_equal(allow(&limits, 1, LOG_BURST, now + SECOND), LOG_BURST - 1);
        /* The shared count is told of nobody. */
        now += 10 * SECOND;
        assert_int_equal(log_limits_next(&limits, now, false, &owner), 1);
        assert_true(owner == 1 || owner == OWNER_ANY);
        assert_int_equal(log_limits_next(&limits, now, false, &owner), 1);
        assert_int_equal(log_limits_next(&limits, now, false, &owner), 0);
        /* Their intervals are over: a newcomer has a place of its own. */
        assert_int_equal(allow(&limits, 6000, 2, now), 2);
        assert_int_equal(allow(&limits, 6001, LOG_BURST + 1, now), LOG_BURST);
}

static void test_total(void **state) {
        struct log_limits limits = {};
        uint64_t owner, now = 1000 * SECOND;
        unsigned passed = 0;

        for (uint64_t uid = 1; uid <= 200; uid++)
                passed += allow(&limits, uid, 2 * LOG_BURST, now);
        assert_int_equal(passed, LOG_TOTAL);
        assert_int_equal(log_limits_next(&limits, now + 10 * SECOND, false, &owner), LOG_BURST);
        assert_int_equal(allow(&limits, 300, 5, now + 10 * SECOND), 5);
}

/* The whole way: a loud user hides nothing of a quiet one's, and its count comes by itself. */
static void test_left_out_is_told(void **state) {
        const struct log_about loud = {.owner = 1000}, quiet = {.owner = 1031};
        struct event_base *base = event_base_new();
        struct err e;

        assert_non_null(base);
        capture();
        log_init("confabd", LOG_INFO);
        assert_int_equal(log_start(base, &e), 0);
        for (unsigned i = 0; i < 10000; i++)
                log_event(LOGGED_PROTOCOL_ERROR, &loud, "loud");
        log_event(LOGGED_PROTOCOL_ERROR, &quiet, "quiet");
        ahead += 5;
        event_base_loop(base, EVLOOP_NONBLOCK);
        LOG(LOGGED_STOPPED, "-- five seconds");
        ahead += 6;
        event_base_loop(base, EVLOOP_NONBLOCK);
        LOG(LOGGED_STOPPED, "-- eleven");
        log_event(LOGGED_PROTOCOL_ERROR, &loud, "once more");
        for (unsigned i = 0; i < LOG_BURST + 2; i++)
                log_event(LOGGED_PROTOCOL_ERROR, &loud, "more");
        log_stop();
        event_base_free(base);
        ahead = 0;
        {
                const char *text = captured(), *at = text;

                for (unsigned i = 0; i < LOG_BURST; i++, at++)
                        assert_non_null(at = strstr(at, "info: loud"));
                assert_null(strstr(at, "info: loud"));
                expect(at, "info: quiet\nconfabd: info: -- five seconds\n"
                           "confabd: notice: 9980 messages about clients of user 1000 were left "
                           "out\n"
                           "confabd: info: -- eleven\nconfabd: info: once more\n");
                expect(at, "notice: 3 messages about clients of user 1000 were left out\n");
        }
}

/* ---- a slow journal ---- */

static void test_order(void **state) {
        struct event_base *base = event_base_new();
        struct err e;

        connect_journal(LOG_INFO);
        assert_int_equal(log_start(base, &e), 0);
        for (unsigned i = 0; i < 500; i++)
                LOG(LOGGED_REQUEST, "line %u.", i);
        log_stop();
        event_base_free(base);
        assert_int_equal(journal.n, 500);
        for (unsigned i = 0; i < 500; i++) {
                char want[32];

                snprintf(want, sizeof(want), "MESSAGE=line %u. ", i);
                expect(journal.lines[i], want);
        }
        /* Afterwards, directly. */
        LOG(LOGGED_STOPPED, "bye");
        assert_int_equal(journal_count("bye"), 1);
        assert_false(log_queue_is_on());
}

/* The loop goes on, memory is bounded, and what is missing is said. */
static void test_slow_journal(void **state) {
        struct event_base *base = event_base_new();
        size_t n_lines;
        struct err e;

        connect_journal(LOG_INFO);
        journal_block(true);
        assert_int_equal(log_start(base, &e), 0);
        LOG(LOGGED_STOPPED, "first");
        journal_wait_writer();
        for (unsigned i = 0; i < LINES_MAX - 8; i++)
                LOG(LOGGED_REQUEST,
                        "line %u, which is as long as lines of the request log are%100s", i, ".");
        journal_block(false);
        log_stop();
        event_base_free(base);
        n_lines = journal_count("which is as long");
        assert_in_range(n_lines, 500, LOG_QUEUE_SIZE / 200);
        assert_int_equal(journal_count("lines were left out"), 1);
        expect(journal.lines[2], "because the journal was too slow for them PRIORITY=4 ");
        expect(journal.lines[2], logged_table[LOGGED_JOURNAL_SLOW].id);
        {
                char want[64];

                snprintf(want, sizeof(want), "CONFAB_COUNT=%zu", LINES_MAX - 8 - n_lines);
                expect(journal.lines[2], want);
        }
}

/* A journal that never reads does not hold up the end, and what comes behind it is written nowhere rather than waited for. */
static void test_dead_journal(void **state) {
        struct log_record record;
        struct err e;

        connect_journal(LOG_INFO);
        journal_block(true);
        assert_int_equal(log_queue_start("confabd", &e), 0);
        log_record_begin(&record, "confabd", LOG_INFO, "first", NULL);
        log_queue_put(&record);
        journal_wait_writer();
        log_queue_stop(1000);
        LOG(LOGGED_STOPPED, "lost");
        journal_block(false);
        /* The thread comes to its end. */
        log_queue_stop(60 * SECOND);
        assert_int_equal(journal_count("first"), 1);
        assert_int_equal(journal_count("lost"), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_levels),
                cmocka_unit_test(test_one_message_is_one_line),
                cmocka_unit_test(test_long_message_is_cut),
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_mistakes_of_clients),
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_nobody_and_long_fields),
                cmocka_unit_test(test_each_has_its_own_limit),
                cmocka_unit_test(test_many_owners),
                cmocka_unit_test(test_total),
                cmocka_unit_test(test_left_out_is_told),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_slow_journal),
                cmocka_unit_test(test_dead_journal),
        };

        unsetenv("JOURNAL_STREAM");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
