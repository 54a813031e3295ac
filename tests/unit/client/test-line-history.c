/* SPDX-License-Identifier: MIT */
/* The file of the lines' history: what several chats at once leave in it. */
#include "client/line/history.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "client/cli.h"
#include "util/test.h"
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

const struct cli_command *const cli_commands[] = {NULL};

struct fixture {
        char dir[64], folder[72], path[80];
};

static void setup(struct fixture *f) {
        strcpy(f->dir, "/tmp/confab-test-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        snprintf(f->folder, sizeof(f->folder), "%s/new", f->dir);
        snprintf(f->path, sizeof(f->path), "%s/history", f->folder);
}

static void teardown(struct fixture *f) {
        unlink(f->path);
        rmdir(f->folder);
        assert_int_equal(rmdir(f->dir), 0); /* nothing else was left there */
}

/* The newest @n lines, newest first, are @texts. */
static void check_newest(struct line_history *h, const char *const *texts, size_t n) {
        int r = 0;

        for (size_t i = 0; i < n; i++) {
                HistEvent event;

                r = history(line_history_entries(h), &event, i ? H_NEXT : H_FIRST);
                assert_true(r >= 0);
                assert_string_equal(event.str, texts[i]);
        }
}

static size_t count(struct line_history *h) {
        HistEvent event;

        assert_true(history(line_history_entries(h), &event, H_GETSIZE) >= 0);
        return (size_t)event.num;
}

/* Two that write at the same time both keep what they say; the next one knows all of it. */
static void test_two(void **state) {
        static const char *const newest[] = {"three", "two\nlines  \\n", "\xc3\xa9 one"};
        struct line_history *a, *b, *c;
        struct fixture f;
        struct stat st;

        setup(&f);
        a = line_history_new(f.path);
        b = line_history_new(f.path);
        line_history_add(a, "\xc3\xa9 one");
        line_history_add(b, "two\nlines  \\n");
        line_history_add(a, "three");
        check_newest(a, (const char *const[]){"three", "\xc3\xa9 one"}, 2);
        c = line_history_new(f.path);
        assert_int_equal(count(c), 3);
        check_newest(c, newest, 3);
        assert_int_equal(stat(f.path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(stat(f.folder, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
        line_history_free(a);
        line_history_free(b);
        line_history_free(c);
        teardown(&f);
}

/* A line of its own for each number. */
enum { LENGTH = 8000 };
static void add_line(struct line_history *h, char who, int number) {
        char text[LENGTH + 1];

        memset(text, 'x', LENGTH);
        text[LENGTH] = 0;
        text[0] = who;
        text[1] = (char)('0' + number);
        line_history_add(h, text);
}

/* Many processes, and a file that outgrows its bound while they write: none of their lines is lost, and the file has a
 * bound. */
static void test_many(void **state) {
        enum { N = 4, BEFORE = 128, LINES = 8, FILE_SIZE_MAX = 1 << 20 };
        struct line_history *h;
        unsigned seen[N] = {0};
        struct fixture f;
        struct stat st;
        HistEvent event;
        pid_t pids[N];
        int status;

        setup(&f);
        h = line_history_new(f.path);
        for (int k = 0; k < BEFORE; k++)
                add_line(h, 'z', k % 64);
        line_history_free(h);
        for (int i = 0; i < N; i++) {
                pids[i] = fork();
                assert_true(pids[i] >= 0);
                if (pids[i] > 0)
                        continue;
                h = line_history_new(f.path);
                for (int k = 0; h && k < LINES; k++)
                        add_line(h, (char)('a' + i), k);
                line_history_free(h);
                _exit(h ? 0 : 1);
        }
        for (int i = 0; i < N; i++) {
                assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
                assert_int_equal(status, 0);
        }
        assert_int_equal(stat(f.path, &st), 0);
        assert_in_range(st.st_size, FILE_SIZE_MAX / 4, FILE_SIZE_MAX);
        h = line_history_new(f.path);
        for (int r = history(line_history_entries(h), &event, H_FIRST); r >= 0;
                r = history(line_history_entries(h), &event, H_NEXT)) {
                assert_int_equal(strlen(event.str), LENGTH);
                if (event.str[0] != 'z')
                        seen[event.str[0] - 'a'] |= 1u << (event.str[1] - '0');
        }
        for (int i = 0; i < N; i++)
                assert_int_equal(seen[i], (1u << LINES) - 1);
        line_history_free(h);
        teardown(&f);
}

/* Entries that are too long, and files that are none: the lines of this program are known all the same. */
static void test_without_file(void **state) {
        static char big[20000];
        struct line_history *h;
        struct fixture f;
        struct stat st;

        setup(&f);
        memset(big, 'x', sizeof(big) - 1);
        h = line_history_new(f.path);
        line_history_add(h, big);
        check_newest(h, (const char *const[]){big}, 1);
        assert_int_equal(stat(f.path, &st), -1);
        line_history_free(h);
        for (int i = 0; i < 3; i++) {
                h = line_history_new(i == 0 ? NULL : i == 1 ? "/dev/null/x/history" : f.dir);
                assert_non_null(h);
                line_history_add(h, "one");
                line_history_add(h, "one"); /* twice the same is once */
                assert_int_equal(count(h), 1);
                line_history_free(h);
        }
        teardown(&f);
}

/* What stands in the file may be anything: what is a line of text is known, and what is said is appended. */
static void test_damaged(void **state) {
        static const struct {
                const char *text, *newest; /* before "new" */
        } files[] = {
                {"", NULL},
                {"\n\n", NULL},
                {"one\ntwo\\nlines\\\\n\n\xff\n", "two\nlines\\n"},
                {"one\nhalf", "one"}, /* what a crash left is none, until it is a line of its own */
                {"odd\\x\\\n", "oddx\\"},
        };
        struct fixture f;

        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
                _cleanup_(freep) char *text = NULL;
                struct line_history *h;
                struct err e;
                size_t size;

                setup(&f);
                assert_int_equal(mkdir(f.folder, 0700), 0);
                assert_int_equal(
                        file_replace(f.path, files[i].text, strlen(files[i].text), 0600, &e), 0);
                h = line_history_new(f.path);
                line_history_add(h, "new");
                check_newest(
                        h, (const char *const[]){"new", files[i].newest}, files[i].newest ? 2 : 1);
                line_history_free(h);
                h = line_history_new(f.path);
                check_newest(h, (const char *const[]){"new"}, 1);
                line_history_free(h);
                assert_int_equal(file_read_all(f.path, 4096, &text, &size, &e), 0);
                assert_int_equal(strncmp(text, files[i].text, strlen(files[i].text)), 0);
                assert_non_null(strstr(text, i == 0 ? "new\n" : "\nnew\n"));
                teardown(&f);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_two),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_without_file),
                cmocka_unit_test(test_damaged),
        };

        setlocale(LC_CTYPE, "C.UTF-8");
        return cmocka_run_group_tests(tests, NULL, NULL);
}
