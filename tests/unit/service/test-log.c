/* SPDX-License-Identifier: MIT */
#include "service/log.h"
#include "util/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        LOG(LOG_INFO, "not this");
        LOG(LOG_NOTICE, "but %s", "this");
        err_set(&e, ERR_FORMAT, "the reason");
        LOG_ERROR(LOG_ERR, &e, "what failed");
        assert_string_equal(
                captured(), "confabd: notice: but this\nconfabd: error: what failed: the reason\n");
}

/* What a peer names cannot forge a line. */
static void test_one_message_is_one_line(void **state) {
        capture();
        log_init("confabd", LOG_INFO);
        LOG(LOG_INFO, "name '%s'", "a\nconfabd: error: all is lost\r\x1b[2J");
        assert_string_equal(
                captured(), "confabd: info: name 'a confabd: error: all is lost  [2J'\n");
}

static void test_long_message_is_cut(void **state) {
        char text[5000];
        size_t n;

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = 0;
        capture();
        log_init("confabd", LOG_INFO);
        LOG(LOG_INFO, "%s", text);
        n = strlen(captured());
        assert_in_range(n, 500, 1100);
}

static void test_peers_cannot_flood(void **state) {
        const char *text;
        unsigned lines = 0;

        capture();
        log_init("confabd", LOG_INFO);
        for (unsigned i = 0; i < 10000; i++)
                LOG_PEER(LOG_NOTICE, NULL, "again");
        text = captured();
        for (; (text = strchr(text, '\n')); text++)
                lines++;
        assert_in_range(lines, 1, 2 * LOG_BURST);
}

static unsigned count(const char *text, const char *part) {
        unsigned n = 0;

        for (; (text = strstr(text, part)); text++)
                n++;
        return n;
}

/* Nor can one of them hide what is said about another. */
static void test_each_has_its_own_rate(void **state) {
        struct log_about loud = {.uid = 1000}, quiet = {.uid = 1001};
        const char *text;

        capture();
        log_init("confabd", LOG_INFO);
        for (unsigned i = 0; i < 10000; i++)
                LOG_PEER(LOG_NOTICE, &loud, "loud");
        LOG_PEER(LOG_NOTICE, &quiet, "quiet");
        text = captured();
        assert_in_range(count(text, "loud"), 1, 2 * LOG_BURST);
        assert_int_equal(count(text, "quiet"), 1);
        /* Many users are not many more lines. */
        capture();
        for (int64_t uid = 2000; uid < 12000; uid++)
                LOG_PEER(LOG_NOTICE, (&(struct log_about){.uid = uid}), "many");
        assert_in_range(count(captured(), "many"), 1, 2 * LOG_BURST * LOG_BUCKETS);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_levels),
                cmocka_unit_test(test_one_message_is_one_line),
                cmocka_unit_test(test_long_message_is_cut),
                cmocka_unit_test(test_peers_cannot_flood),
                cmocka_unit_test(test_each_has_its_own_rate),
        };

        unsetenv("JOURNAL_STREAM");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
