/* SPDX-License-Identifier: MIT */
/* The line editor on a pseudoterminal: keys in, lines out. */
#include "base/cleanup.h"
#include "client/line/line.h"
#include "client/cli.h"
#include "screen.h"
#include "util/terminal.h"
#include "util/test.h"
#include <locale.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

const struct cli_command *const cli_commands[] = {NULL};

#define READY "\x1b[?2004h" /* the editor has the terminal */

struct fixture {
        struct screen screen;
        int results;
        const char *editrc;
        pid_t pid;
};

static void complete(void *userdata, const char *text, struct line_words *ret) {
        static const char *const words[] = {
                "alpha", "alpine", "beta", "gamma/", "\xc3\xa9t\xc3\xa9"};

        ret->from = strrchr(text, ' ') ? (size_t)(strrchr(text, ' ') + 1 - text) : 0;
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (strncmp(words[i], text + ret->from, strlen(text + ret->from)) == 0)
                        line_words_add(ret, words[i]);
}

/* The child: each outcome is a letter, and the line, and a NUL. */
static void run_editor(int results) {
        const struct line_options options = {.prompt = "> ", .complete = complete};
        struct line *l = line_new(&options);
        enum line_outcome outcome = LINE_DONE;
        const char *text;

        while (l && outcome != LINE_END) {
                outcome = line_read(l, &text);
                dprintf(results, "%c%s", "DEI"[outcome], text);
                if (write(results, "", 1) != 1)
                        _exit(1);
        }
        line_free(l);
        _exit(l ? 0 : 1);
}

static void setup_with(
        struct fixture *f, const char *locale, const char *term, const char *editrc) {
        struct winsize size = {.ws_row = 24, .ws_col = 80};
        int results[2], slave;

        *f = (struct fixture){.editrc = editrc};
        assert_int_equal(pipe(results), 0);
        assert_int_equal(openpty(&f->screen.fd, &slave, NULL, NULL, &size), 0);
        f->pid = fork();
        assert_true(f->pid >= 0);
        if (f->pid == 0) {
                setsid();
                ioctl(slave, TIOCSCTTY, 0);
                for (int fd = 0; fd < 3; fd++)
                        dup2(slave, fd);
                close(f->screen.fd);
                close(results[0]);
                setenv("TERM", term, 1);
                setenv("EDITRC", f->editrc, 1);
                setlocale(LC_CTYPE, locale);
                signal(SIGHUP, SIG_IGN); /* so that it reads the end of the terminal */
                run_editor(results[1]);
        }
        close(slave);
        close(results[1]);
        f->results = results[0];
        alarm(60); /* a hang is a failure */
}

static void setup(struct fixture *f, const char *locale, const char *term) {
        setup_with(f, locale, term, "/dev/null");
}

static void teardown(struct fixture *f, int status) {
        int w;

        close(f->screen.fd);
        assert_int_equal(waitpid(f->pid, &w, 0), f->pid);
        assert_true(WIFEXITED(w));
        assert_int_equal(WEXITSTATUS(w), status);
        close(f->results);
        buf_deinit(&f->screen.text);
}

/* What comes of it, to be freed. */
static char *outcome(struct fixture *f) {
        struct buf b = BUF_NULL;
        char c = 1;

        while (c) {
                struct pollfd p[2] = {{f->results, POLLIN, 0}, {f->screen.fd, POLLIN, 0}};

                assert_true(poll(p, 2, -1) > 0);
                if (p[1].revents & POLLIN)
                        screen_look(&f->screen);
                if (!p[0].revents)
                        continue;
                assert_int_equal(read(f->results, &c, 1), 1);
                assert_int_equal(buf_append(&b, &c, 1), 0);
        }
        return buf_take(&b, NULL);
}

static void check(struct fixture *f, const char *keys, const char *expected) {
        _cleanup_(freep) char *got = NULL;

        screen_wait(&f->screen, READY);
        screen_type(&f->screen, keys);
        got = outcome(f);
        assert_string_equal(got, expected);
}

static void test_editing(void **state) {
        struct fixture f;

        test_need_terminal();
        setup(&f, "C.UTF-8", "xterm");
        check(&f, "abc\r", "Dabc");
        check(&f, "\r", "D");
        check(&f, "abc\x01x\r", "Dxabc");                  /* Ctrl-A */
        check(&f, "abc\x01\x05x\r", "Dabcx");              /* Ctrl-E */
        check(&f, "abc\x02\x02x\r", "Daxbc");              /* Ctrl-B */
        check(&f, "ab\x7f\x7f\x7f\r", "D");                /* Backspace */
        check(&f, "abc\x1b[D\x1b[D\x1b[3~\r", "Dac");      /* left, left, Delete */
        check(&f, "abc\x1bOD\x1bODx\r", "Daxbc");          /* as some terminals say it */
        check(&f, "abc\x1b[Hx\x1b[Fy\r", "Dxabcy");        /* Home, End */
        check(&f, "one two\x17\r", "Done ");               /* Ctrl-W */
        check(&f, "one two\x1b[1;5Dx\r", "Done xtwo");     /* Ctrl-left */
        check(&f, "one two\x01\x1b[1;5Cx\r", "Donex two"); /* to the end of a word */
        check(&f, "abc\x02\x0b\r", "Dab");                 /* Ctrl-K */
        check(&f, "ab\x02\x04\r", "Da");                   /* Ctrl-D on text deletes */
        check(&f, "abc\x03", "I");                         /* Ctrl-C */
        check(&f, "\x03", "I");
        check(&f, "next\r", "Dnext");
        check(&f, "st\x1aop\r", "Dstop"); /* Ctrl-Z, where nobody could make it go on */
        screen_wait(&f.screen, READY);    /* that of going on */
        check(&f, "\x04", "E");
        teardown(&f, 0);
}

/* UTF-8, also where the locale does not say so. */
static void test_utf8(void **state) {
        static const char *const locales[] = {"C.UTF-8", "C"};

        test_need_terminal();
        for (size_t i = 0; i < ARRAY_SIZE(locales); i++) {
                struct fixture f;

                setup(&f, locales[i], "xterm");
                check(&f, "h\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\r",
                        "Dh\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80");
                check(&f, "\xc3\xa9\x7f\r", "D");
                check(&f, "a\xe6\xbc\xa2\x1b[Dx\r", "Dax\xe6\xbc\xa2");
                check(&f, "\x04", "E");
                teardown(&f, 0);
        }
}

/* Type @keys in a line of its own until @shown is there. */
static void check_shown(struct fixture *f, const char *keys, const char *shown) {
        screen_wait(&f->screen, READY);
        screen_type(&f->screen, keys);
        screen_wait(&f->screen, shown);
        screen_type(&f->screen, "\x03");
        free(outcome(f));
}

#define WIDE "\xe6\xbc\xa2" /* two columns */
#define ACUTE "e\xcc\x81"   /* a letter, and a combining character without a column */
#define X70 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define CLEARED "\r\x1b[J> "

/* All of the line is shown, and the cursor where it is, also where characters do not have one column each. */
static void test_shown(void **state) {
        struct fixture f;

        test_need_terminal();
        setup(&f, "C.UTF-8", "xterm");
        check_shown(&f, WIDE "n" ACUTE "\x01y", CLEARED "y" WIDE "n" ACUTE "\x1b[4G");
        check_shown(&f, "n" ACUTE WIDE "\x02\x02", CLEARED "n" ACUTE WIDE "\x1b[5G");
        /* a row of 80 columns where nothing wide fits into the last one, and one that is full */
        check_shown(&f, WIDE X70 "1234" WIDE "z\x01y",
                CLEARED "y" WIDE X70 "1234 " WIDE "z\x1b[1A\x1b[4G");
        check_shown(&f, WIDE X70 "1234" WIDE "z\x01yy",
                CLEARED "yy" WIDE X70 "1234" WIDE "z\x1b[1A\x1b[5G");
        check_shown(&f, WIDE X70 "123456", CLEARED WIDE X70 "123456 \r\x1b[1G");
        check_shown(&f, "\x1b[200~" X70 "12345678\rb\tc\x1b[201~\x1b[D",
                CLEARED X70 "12345678 \r\r\r\nb       c\x1b[9G");
        check(&f, "\x04", "E");
        teardown(&f, 0);
}

/* Newlines of a paste do not send, its control characters do nothing, keys after it are keys. */
static void test_paste(void **state) {
        static char big[80000], expected[80000];
        struct fixture f;

        test_need_terminal();
        setup(&f, "C.UTF-8", "xterm");
        check(&f, "\x1b[200~one\rtwo\tx\x03\x04\x1b[A\nlast\x1b[201~!\r", "Done\ntwo\tx[A\nlast!");
        check(&f, "ac\x1b[D\x1b[200~b\r\n\x1b[201~\r", "Dab\nc");
        check(&f, "\x1b[200~\x1b[201~x\r", "Dx");
        check(&f, "\x1b[200~\xe6\xbc\xa2\r\xc3\xa9\x1b[201~\r", "D\xe6\xbc\xa2\n\xc3\xa9");
        /* recalled as it was */
        check(&f, "\x1b[A\r", "D\xe6\xbc\xa2\n\xc3\xa9");
        memset(big, 'x', sizeof(big) - 16);
        memcpy(big, "\x1b[200~", 6);
        strcpy(big + sizeof(big) - 16, "\x1b[201~\r");
        expected[0] = 'D';
        memset(expected + 1, 'x', sizeof(big) - 16 - 6);
        check(&f, big, expected);
        screen_wait(&f.screen, READY);
        screen_type(&f.screen, "\x1b[200~never ended");
        teardown(&f, 0);
}

static void test_history(void **state) {
        struct fixture f;
        char keys[32], line[32];

        test_need_terminal();
        setup(&f, "C.UTF-8", "xterm");
        check(&f, "one\r", "Done");
        check(&f, "two\r", "Dtwo");
        check(&f, "\r", "D"); /* empty lines are not kept, nor are those that were given up */
        check(&f, "three\x03", "I");
        check(&f, "dra\x1b[A\r", "Dtwo");
        check(&f, "\x1b[A\x1b[A\x1b[A\r", "Done");
        check(&f, "draft\x1b[A\x1b[B\r", "Ddraft");
        for (unsigned i = 0; i < 105; i++) {
                snprintf(keys, sizeof(keys), "%u\r", i);
                snprintf(line, sizeof(line), "D%u", i);
                check(&f, keys, line);
        }
        check(&f, "\x10\r", "D104"); /* Ctrl-P */
        check(&f, "\x04", "E");
        teardown(&f, 0);
}

/* A backslash before Enter, and Alt-Enter, begin another line; both are one entry of the history. */
static void test_lines(void **state) {
        struct fixture f;

        test_need_terminal();
        setup(&f, "C.UTF-8", "xterm");
        check(&f, "one\\\rtwo\r", "Done\ntwo");
        check(&f, "one\x1b\r\x1b\rtwo\r", "Done\n\ntwo");
        check(&f, "\x10\x10\r", "Done\ntwo");
        check(&f, "two\\\\\r", "Dtwo\\\\"); /* two are two */
        check(&f, "a\\\x02\r", "Da\\");     /* and this is not the end */
        check(&f, "\xc2\x80\x1b[Zx\r",
                "D\xef\xbf\xbdx"); /* nobody types what stands for keys here */
        check(&f, "\x04", "E");
        teardown(&f, 0);
}

static void test_completion(void **state) {
        struct fixture f;

        test_need_terminal();
        setup(&f, "C.UTF-8", "xterm");
        check(&f, "a\t!\r", "Dalp!");
        check(&f, "al\th\t!\r", "Dalpha !");
        check(&f, "x b\t\xc3\t\r", "Dx beta \xef\xbf\xbd");
        check(&f, "\xc3\xa9\t\r", "D\xc3\xa9t\xc3\xa9 ");
        check(&f, "g\tz\t\r", "Dgamma/z"); /* nothing is known there */
        screen_wait(&f.screen, READY);
        screen_type(&f.screen, "alp\t");
        screen_wait(&f.screen, "alpha   alpine\r\n");
        screen_wait(&f.screen, "alp");
        screen_type(&f.screen, "i\t\x01\t\r"); /* at the beginning of the line all are listed */
        screen_wait(&f.screen, "alpha   alpine  beta    gamma/  \xc3\xa9t\xc3\xa9\r\n");
        free(outcome(&f));
        check(&f, "\x04", "E");
        teardown(&f, 0);
}

/* With vi's keys Escape is a key by itself, and what the chat adds is there, too. */
static void test_vi(void **state) {
        char path[] = "/tmp/confab-test-XXXXXX";
        int fd = mkstemp(path);
        struct fixture f;

        assert_int_equal(write(fd, "bind -v\n", 8), 8);
        close(fd);
        test_need_terminal();
        setup_with(&f, "C.UTF-8", "xterm", path);
        check(&f,
                "one two\x1b"
                "bix\x1b"
                "Ay\r",
                "Done xtwoy");
        check(&f, "a\x1b[200~b\rc\x1b[201~d\r", "Dab\ncd");
        check(&f, "\x12one\x1b\r", "Done xtwoy"); /* Ctrl-R, and Enter in command mode */
        check(&f, "abc\x1b\x03", "I");
        check(&f, "a\\\rb\r", "Da\nb");
        check(&f, "\x04", "E");
        teardown(&f, 0);
        unlink(path);
}

static void test_dumb(void **state) {
        _cleanup_(freep) char *got = NULL;
        struct fixture f;

        test_need_terminal();
        setup(&f, "C.UTF-8", "dumb");
        screen_wait(&f.screen, "> ");
        screen_type(&f.screen, "plain\r"); /* which the terminal makes a newline */
        got = outcome(&f);
        assert_string_equal(got, "Dplain");
        assert_null(f.screen.text.size ? memmem(f.screen.text.data, f.screen.text.size, "\x1b", 1)
                                       : NULL);
        teardown(&f, 0);
}

/* The terminal is given back, also to a signal that ends the program. */
static void test_terminal(void **state) {
        struct termios during, after;
        struct fixture f;
        int w;

        test_need_terminal();
        setup(&f, "C.UTF-8", "xterm");
        screen_wait(&f.screen, READY);
        assert_int_equal(tcgetattr(f.screen.fd, &during), 0);
        assert_false(during.c_lflag & ICANON);
        screen_type(&f.screen, "half a line");
        screen_wait(&f.screen, "line");
        kill(f.pid, SIGTERM);
        assert_int_equal(waitpid(f.pid, &w, 0), f.pid);
        assert_true(WIFSIGNALED(w) && WTERMSIG(w) == SIGTERM);
        assert_int_equal(tcgetattr(f.screen.fd, &after), 0);
        assert_true(after.c_lflag & ICANON && after.c_lflag & ECHO && after.c_lflag & ISIG);
        close(f.screen.fd);
        close(f.results);
        buf_deinit(&f.screen.text);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_editing),
                cmocka_unit_test(test_utf8),
                cmocka_unit_test(test_shown),
                cmocka_unit_test(test_paste),
                cmocka_unit_test(test_history),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_completion),
                cmocka_unit_test(test_vi),
                cmocka_unit_test(test_dumb),
                cmocka_unit_test(test_terminal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
