/* SPDX-License-Identifier: MIT */
/* Transcripts, and questions, lines and the record of map, where an allocation fails: nothing, or all of it. */
#include "base/err.h"
#include "client/cli-lines.h"
#include "client/cli-record.h"
#include "client/cli-template.h"
#include "client/transcript.h"
#include "fault/loop.h"
#include "util/test.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void check_transcript(const char *text, size_t n_messages) {
        struct fault_loop loop = {.at_least = 10, .at_most = 1000};
        struct transcript t;

        while (fault_loop_next(&loop)) {
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = transcript_parse(&t, text, strlen(text), &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                assert_int_equal(t.n_messages, r == 0 ? n_messages : 0);
                transcript_deinit(&t);
        }
}

static void test_transcript(void **state) {
        check_transcript("{\"tools\":[1],\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
                         "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":\"r\","
                         "\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\","
                         "\"arguments\":{\"x\":1}}}]},"
                         "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"r\"},"
                         "{\"role\":\"tool\",\"tool_call_id\":\"2\",\"content\":\"r\"}]}",
                3);
        check_transcript("{\"turns\":[{\"role\":\"system\",\"text\":\"s\"},"
                         "{\"role\":\"assistant\",\"parts\":[{\"kind\":\"text\",\"text\":\"a\"},"
                         "{\"kind\":\"call\",\"call_id\":\"1\",\"name\":\"f\",\"text\":\"{}\"}]},"
                         "{\"role\":\"tool\",\"results\":[{\"call_id\":\"1\",\"name\":\"f\","
                         "\"content\":[1]}]}]}",
                3);
        check_transcript("[{\"prompt\":\"a\",\"system\":\"s\",\"response\":\"b\",\"tool_calls\":["
                         "{\"tool_call_id\":\"1\",\"name\":\"f\",\"arguments\":{}}]},"
                         "{\"prompt\":\"\",\"tool_results\":[{\"tool_call_id\":\"1\","
                         "\"output\":\"r\"}],\"response\":\"d\"}]",
                5);
}

static void test_question(void **state) {
        static const char line[] = "{\"id\":[1],\"text\":\"what\",\"n\":{\"a\":1}}";
        struct fault_loop loop = {.at_least = 8, .at_most = 1000};
        struct question q;

        while (fault_loop_next(&loop)) {
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = question_make(&q, "{} is {n}?", true, line, strlen(line), 100, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                if (r == 0)
                        assert_string_equal(q.text, "what is {\"a\":1}?");
                else
                        assert_null(q.text);
                question_deinit(&q);
        }
}

/* The first line of a file. */
static int first_line(const char *path, char **ret, size_t *ret_size, struct err *e) {
        struct lines l;
        int r = 0;

        lines_init(&l, &path, 1, 100);
        while (r == 0 && !lines_end(&l)) {
                r = lines_fill(&l, e);
                if (r == 0)
                        r = lines_next(&l, ret, ret_size, e);
        }
        lines_deinit(&l);
        return r > 0 ? 0 : r;
}

static void test_lines(void **state) {
        struct fault_loop loop = {.at_least = 2, .at_most = 100};
        char path[] = "/tmp/test-oom-map-XXXXXX";
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "first\nsecond\n", 13), 13);
        close(fd);
        while (fault_loop_next(&loop)) {
                char *line = NULL;
                size_t size = 0;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = first_line(path, &line, &size, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                if (r == 0)
                        assert_string_equal(line, "first");
                else
                        assert_null(line);
                free(line);
        }
        unlink(path);
}

static void test_record(void **state) {
        static const char line[] =
                "{\"index\":3,\"input\":\"00000000000000ff\",\"text\":\"yes\"}\n";
        struct fault_loop loop = {.at_least = 3, .at_most = 100};
        char path[] = "/tmp/test-oom-map-XXXXXX";
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, line, strlen(line)), strlen(line));
        close(fd);
        while (fault_loop_next(&loop)) {
                struct record rec = RECORD_NULL;
                struct buf b = BUF_NULL;
                const struct record_entry *entry;
                struct err e = {0};
                int r;

                fault_loop_arm(&loop);
                r = record_open(&rec, path, &e);
                entry = r == 0 ? record_find(&rec, 3, 0xff) : NULL;
                if (entry)
                        r = record_read(&rec, entry, &b, &e);
                fault_loop_disarm(&loop);
                fault_loop_expect(&loop, r, &e);
                if (r == 0)
                        assert_memory_equal(b.data, line, strlen(line) - 1);
                buf_deinit(&b);
                record_close(&rec);
        }
        unlink(path);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_transcript),
                cmocka_unit_test(test_question),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_record),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
