/* SPDX-License-Identifier: MIT */
/*
 * The chat on a pseudoterminal, with a daemon played by the test. The program runs below a shell of five lines, in a
 * process group of its own, so that it can be stopped and go on. Each check waits for what is shown or asked.
 */
#include "cli-fixture.h"
#include "base/file.h"
#include "screen.h"
#include "util/terminal.h"
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

#define READY "\x1b[?2004h" /* a line is being edited */

struct chat {
        struct fixture f; /* its pipes are not used */
        struct screen screen;
        int told,
                orders; /* by the shell: 'S' stopped, 'E' and the status at the end; to it: 'C' go on */
        char state[80]; /* XDG_STATE_HOME */
        struct termios before;
};

/* ---- the shell ---- */

static void run_program(struct fixture *f, const char *const *args, const char *const *env) {
        const char *argv[16] = {program, "chat"};

        for (size_t i = 0; args[i]; i++)
                argv[i + 2] = args[i];
        setpgid(0, 0);
        signal(SIGTTOU, SIG_IGN);
        tcsetpgrp(0, getpid());
        signal(SIGTTOU, SIG_DFL);
        setenv("CONFAB_SOCKET", f->path, 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        setenv("TERM", "xterm", 1);
        setenv("EDITRC", "/dev/null", 1);
        unsetenv("NO_COLOR");
        for (size_t i = 0; env[i]; i += 2)
                setenv(env[i], env[i + 1], 1);
        execv(program, proto_borrow(argv));
        _exit(99);
}

static void run_shell(pid_t pid, int told, int orders) {
        char news[2];
        int status;

        while (waitpid(pid, &status, WUNTRACED) == pid) {
                news[0] = WIFSTOPPED(status) ? 'S' : 'E';
                news[1] = WIFEXITED(status) ? (char)WEXITSTATUS(status) : (char)WTERMSIG(status);
                if (write(told, news, 2) != 2 || !WIFSTOPPED(status) || read(orders, news, 1) != 1)
                        break;
                tcsetpgrp(0, pid);
                kill(-pid, SIGCONT);
        }
        kill(-pid, SIGKILL);
        _exit(0);
}

static void start_chat(struct chat *c, const char *const *args, const char *const *env) {
        struct winsize size = {.ws_row = 24, .ws_col = 40};
        int told[2], orders[2];

        assert_int_equal(pipe2(told, O_CLOEXEC) | pipe2(orders, O_CLOEXEC), 0);
        c->screen = (struct screen){.text = BUF_NULL};
        c->f.pid = forkpty(&c->screen.fd, NULL, NULL, &size);
        assert_true(c->f.pid >= 0);
        if (c->f.pid == 0) {
                pid_t pid;
                char go;

                signal(SIGTTOU, SIG_IGN);
                signal(SIGHUP, SIG_IGN); /* the program is killed below when the test ends early */
                if (read(orders[0], &go, 1) != 1)
                        _exit(1);
                pid = fork();
                if (pid == 0) {
                        signal(SIGHUP, SIG_DFL);
                        run_program(&c->f, args, env);
                }
                run_shell(pid, told[1], orders[0]);
        }
        close(told[1]);
        close(orders[0]);
        c->told = told[0];
        c->orders = orders[1];
        assert_int_equal(tcgetattr(c->screen.fd, &c->before), 0);
        assert_int_equal(write(c->orders, "C", 1), 1);
}

/* ---- the test's side ---- */

static void setup_chat(struct chat *c) {
        memset(c, 0, sizeof(*c));
        test_need_terminal();
        setup(&c->f);
        snprintf(c->state, sizeof(c->state), "%s/state", c->f.dir);
}

/* Start, and be in the conversation bob. */
static void begin_with(struct chat *c, const char *const *args, const char *const *env) {
        start_chat(c, args, env);
        greet(&c->f);
        peer_send_conversation(&c->f.peer, expect(&c->f, REQ(GET)), 3, "bob");
}
#define NO_MORE ((const char *const[]){NULL})

static void begin(struct chat *c) {
        setup_chat(c);
        begin_with(c, (const char *const[]){"bob", "--no-history", NULL}, NO_MORE);
        screen_wait(&c->screen, READY);
}

/* What the shell tells next. */
static void expect_told(struct chat *c, char what, int status) {
        char news[2];

        while (true) { /* the program may wait for room on the screen */
                struct pollfd p[] = {{c->told, POLLIN, 0}, {c->screen.fd, POLLIN, 0}};

                assert_true(poll(p, 2, -1) > 0);
                if (p[0].revents)
                        break;
                screen_look(&c->screen);
        }
        assert_int_equal(read(c->told, news, 2), 2);
        assert_int_equal(news[0], what);
        if (status >= 0)
                assert_int_equal(news[1], status);
}

static void check_as_before(struct chat *c) {
        struct termios now;

        assert_int_equal(tcgetattr(c->screen.fd, &now), 0);
        assert_int_equal(now.c_lflag, c->before.c_lflag);
        assert_int_equal(now.c_iflag, c->before.c_iflag);
        assert_int_equal(now.c_oflag, c->before.c_oflag);
}

/* The program has ended. */
static void end_with(struct chat *c, int status) {
        expect_told(c, 'E', status);
        check_as_before(c);
        assert_int_equal(waitpid(c->f.pid, NULL, 0), c->f.pid);
        close(c->screen.fd);
        close(c->told);
        close(c->orders);
        buf_deinit(&c->screen.text);
}

static void leave(struct chat *c) {
        screen_type(&c->screen, "/quit\r");
        end_with(c, 0);
}

static void remove_state(struct chat *c) {
        char path[120];

        snprintf(path, sizeof(path), "%s/confab/history", c->state);
        unlink(path);
        snprintf(path, sizeof(path), "%s/confab", c->state);
        rmdir(path);
        rmdir(c->state);
        teardown(&c->f);
}

/* The next message is @text: the request's id. */
static uint64_t expect_message(struct chat *c, const char *text) {
        struct proto_message *m = peer_next(&c->f.peer);
        uint64_t id;

        assert_int_equal(m->request->verb_case, REQ(CONTINUE));
        assert_int_equal(m->request->continue_->input_case, CONFAB__V1__CONTINUE__INPUT_MESSAGE);
        assert_string_equal(m->request->continue_->message, text);
        id = m->request->id;
        proto_message_free(m);
        return id;
}

static void done(struct chat *c, uint64_t id, Confab__V1__FinishReason finish) {
        peer_send_done(&c->f.peer, id, finish);
}

/* Say something; the reply begins with @text. */
static uint64_t reply_begins(
        struct chat *c, const char *keys, const char *message, const char *text) {
        uint64_t id;

        screen_type(&c->screen, keys);
        id = expect_message(c, message);
        peer_send_accepted(&c->f.peer, id);
        peer_send_delta(&c->f.peer, id, text);
        return id;
}

/* ---- tests ---- */

/* Markdown is made readable, wrapped at the terminal's width as it is then. */
static void test_markdown(void **state) {
        struct winsize size = {.ws_row = 24, .ws_col = 20};
        struct chat c;
        uint64_t id;

        begin(&c);
        id = reply_begins(&c, "hello\r", "hello", "# Title\n**bo");
        screen_wait(&c.screen, "\x1b[0;1;4mTitle\x1b[0m\r\n");
        peer_send_delta(&c.f.peer, id, "ld** one two three four five six seven eight\n");
        screen_wait(
                &c.screen, "\x1b[0;1mbold\x1b[0m one two three four five six seven\r\neight\r\n");
        assert_int_equal(
                ioctl(c.screen.fd, TIOCSWINSZ, &size), 0); /* told before what follows is sent */
        peer_send_delta(&c.f.peer, id, "one two three four five six\n");
        screen_wait(&c.screen, "one two three four\r\nfive six\r\n");
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, READY);
        leave(&c);
        teardown(&c.f);
}

/* On 40 columns words stay whole, and the second column stays one. */
static void test_help(void **state) {
        struct chat c;

        begin(&c);
        screen_type(&c.screen, "/help\r/help save\r");
        screen_wait(&c.screen, "/regenerate        drop the last reply\r\n"
                               "                   and get another\r\n");
        screen_wait(&c.screen, "/save [-f] FILE  write the transcript:\r\n"
                               "  JSON if FILE ends with .json, else\r\n"
                               "  Markdown\r\n");
        screen_wait(&c.screen, READY);
        leave(&c);
        teardown(&c.f);
}

/* Without colours; as it comes; on a terminal that knows nothing. */
static void test_plainer(void **state) {
        static const char text[] = "**b** `c` \x1b[2J";
        struct chat c;
        uint64_t id;

        setup_chat(&c);
        begin_with(&c, (const char *const[]){"bob", "--no-history", NULL},
                (const char *const[]){"NO_COLOR", "1", NULL});
        screen_wait(&c.screen, READY);
        id = reply_begins(&c, "x\r", "x", text);
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, "\x1b[0;1mb\x1b[0m `c` ^[[2J\r\n");
        leave(&c);
        begin_with(&c, (const char *const[]){"bob", "--no-history", "--plain", NULL}, NO_MORE);
        screen_wait(&c.screen, READY);
        id = reply_begins(&c, "x\r", "x", text);
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, "**b** `c` ^[[2J\r\n");
        leave(&c);
        begin_with(&c, (const char *const[]){"bob", "--no-history", NULL},
                (const char *const[]){"TERM", "dumb", NULL});
        screen_wait_without(&c.screen, "> ", "\x1b");
        id = reply_begins(&c, "one \\\rtwo\r", "one \ntwo", text);
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait_without(&c.screen, "**b** `c` ^[[2J\r\n> ", "\x1b");
        screen_type(&c.screen, "half a line\x03"); /* is given up */
        screen_wait(&c.screen, "^C");
        screen_wait(&c.screen, "\n> ");
        screen_type(&c.screen, "/quit\r");
        end_with(&c, 0);
        teardown(&c.f);
}

/* What is typed while a reply is written is not seen, and is the next line; Ctrl-C drops it. */
static void test_type_ahead(void **state) {
        struct chat c;
        uint64_t id;

        begin(&c);
        id = reply_begins(&c, "one\r", "one", "first ");
        screen_wait(&c.screen, "first");
        screen_type(&c.screen, "two\rthr\xc3\xa9");
        peer_send_delta(&c.f.peer, id, "second ");
        screen_wait_without(&c.screen, "second", "tw");
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        id = expect_message(&c, "two");
        peer_send_delta(&c.f.peer, id, "third ");
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, "third");
        screen_wait(&c.screen, "thr\xc3\xa9");
        id = reply_begins(&c, "\xc3\xa9\r", "thr\xc3\xa9\xc3\xa9", "fourth ");
        screen_wait(&c.screen, "fourth");
        screen_type(&c.screen, "lost\r\x03");
        assert_int_not_equal(expect(&c.f, REQ(CANCEL)), 0);
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_CANCELLED);
        screen_wait(&c.screen, READY);
        id = reply_begins(&c, "kept\r", "kept", "fifth ");
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, READY);
        leave(&c);
        teardown(&c.f);
}

/* Ctrl-Z, while a line is typed and while a reply is written: the terminal is as it was, and then ours again. */
static void test_stop(void **state) {
        struct termios now;
        struct chat c;
        uint64_t id;

        begin(&c);
        screen_type(&c.screen, "half");
        screen_wait(&c.screen, "half");
        screen_type(&c.screen, "\x1a");
        expect_told(&c, 'S', -1);
        check_as_before(&c);
        screen_wait(&c.screen, "\x1b[?2004l");
        assert_int_equal(write(c.orders, "C", 1), 1);
        screen_wait(&c.screen, READY);
        screen_wait(&c.screen, "half");
        id = reply_begins(&c, " a line\r", "half a line", "first ");
        screen_wait(&c.screen, "first");
        screen_type(&c.screen, "\x1a");
        expect_told(&c, 'S', -1);
        check_as_before(&c);
        peer_send_delta(&c.f.peer, id, "second ");
        assert_int_equal(write(c.orders, "C", 1), 1);
        screen_wait(&c.screen, "second");
        assert_int_equal(tcgetattr(c.screen.fd, &now), 0);
        assert_false(now.c_lflag & (ICANON | ECHO));
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, READY);
        leave(&c);
        teardown(&c.f);
}

/* Whatever ends the program, the terminal is as it was. */
static void test_end(void **state) {
        static const int signals[] = {SIGTERM, SIGHUP, SIGINT};
        struct chat c;

        for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
                bool twice = signals[i] == SIGINT; /* the first one ends the reply */

                begin(&c);
                reply_begins(&c, "hello\r", "hello", "first ");
                screen_wait(&c.screen, "first");
                kill(-tcgetpgrp(c.screen.fd), signals[i]);
                if (twice) {
                        expect(&c.f, REQ(CANCEL));
                        kill(-tcgetpgrp(c.screen.fd), signals[i]);
                }
                end_with(&c, twice ? (char)130 : signals[i]);
                teardown(&c.f);
        }
        begin(&c);
        screen_type(&c.screen, "half a line");
        screen_wait(&c.screen, "line");
        kill(-tcgetpgrp(c.screen.fd), SIGTERM);
        end_with(&c, SIGTERM);
        teardown(&c.f);
}

/* Lines of one chat are known to the next one, unless they begin with a space; several lines are one entry. */
static void test_history(void **state) {
        _cleanup_(freep) char *text = NULL;
        const char *env[] = {"XDG_STATE_HOME", NULL, NULL};
        struct stat st;
        char path[120];
        struct chat c;
        struct err e;
        uint64_t id;
        size_t size;

        setup_chat(&c);
        env[1] = c.state;
        begin_with(&c, (const char *const[]){"bob", NULL}, env);
        screen_wait(&c.screen, READY);
        id = reply_begins(&c, "h\xc3\xa9llo\x1b\rworld\r", "h\xc3\xa9llo\nworld", "a");
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, READY);
        id = reply_begins(&c, " secret\r", " secret", "b");
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, READY);
        leave(&c);
        snprintf(path, sizeof(path), "%s/confab/history", c.state);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(file_read_all(path, 4096, &text, &size, &e), 0);
        assert_non_null(strstr(text, "world"));
        assert_null(strstr(text, "secret"));
        begin_with(&c, (const char *const[]){"bob", NULL}, env);
        screen_wait(&c.screen, READY);
        id = reply_begins(&c, "\x1b[A\x1b[A\r", "h\xc3\xa9llo\nworld", "c"); /* behind /quit */
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, READY);
        id = reply_begins(&c, "\x12h\xc3\xa9l\r", "h\xc3\xa9llo\nworld", "d"); /* Ctrl-R */
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, READY);
        leave(&c);
        remove_state(&c);
}

/* Tab: commands, conversations, keys. */
static void test_completion(void **state) {
        struct chat c;
        uint64_t id;

        begin(&c);
        screen_type(&c.screen, "/sw\tbo\t");
        id = expect(&c.f, REQ(LIST));
        peer_send_list(&c.f.peer, id, (const char *const[]){"bob", "alice", "bobby"}, 3);
        screen_type(&c.screen, "\t");
        id = expect(&c.f, REQ(LIST));
        peer_send_list(&c.f.peer, id, (const char *const[]){"bob", "alice", "bobby"}, 3);
        screen_wait(&c.screen, "bob    bobby\r\n");
        screen_type(&c.screen, "by\r");
        id = expect(&c.f, REQ(GET));
        peer_send_conversation(&c.f.peer, id, 4, "bobby");
        screen_wait(&c.screen, "bobby (#4)");
        screen_wait(&c.screen, READY);
        screen_type(&c.screen, "/set ti\tx\r");
        id = expect(&c.f, REQ(UPDATE));
        peer_send_conversation(&c.f.peer, id, 4, "bobby");
        screen_wait(&c.screen, READY);
        leave(&c);
        teardown(&c.f);
}

/* /edit without a text brings the last message back; Ctrl-X Ctrl-E opens the user's editor. */
static void test_edit(void **state) {
        static const char *const texts[] = {"one\ntwo", "reply"};
        struct chat c;
        uint64_t id;

        setup_chat(&c);
        begin_with(&c, (const char *const[]){"bob", "--no-history", NULL},
                (const char *const[]){"VISUAL", "sed -i s/two/three/", NULL});
        screen_wait(&c.screen, READY);
        screen_type(&c.screen, "/edit\r");
        id = expect(&c.f, REQ(GET));
        peer_send_texts(&c.f.peer, id, texts, 2);
        screen_wait(&c.screen, "/edit one");
        screen_wait(&c.screen, "two");
        screen_type(&c.screen, "\x18\x05");
        screen_wait(&c.screen, "three");
        screen_type(&c.screen, "\r");
        id = expect(&c.f, REQ(GET));
        peer_send_texts(&c.f.peer, id, texts, 2);
        id = expect_message(&c, "one\nthree");
        done(&c, id, CONFAB__V1__FINISH_REASON__FINISH_STOP);
        screen_wait(&c.screen, READY);
        leave(&c);
        teardown(&c.f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_markdown),
                cmocka_unit_test(test_help),
                cmocka_unit_test(test_plainer),
                cmocka_unit_test(test_type_ahead),
                cmocka_unit_test(test_stop),
                cmocka_unit_test(test_end),
                cmocka_unit_test(test_history),
                cmocka_unit_test(test_completion),
                cmocka_unit_test(test_edit),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-chat PROGRAM\n");
                return 2;
        }
        program = argv[1];
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
