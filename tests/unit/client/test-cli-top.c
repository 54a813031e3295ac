/* SPDX-License-Identifier: MIT */
/* top on a pseudoterminal, and without one, against a daemon played by this test. */
#include "list-fixture.h"
#include "util/terminal.h"
#include <sys/ioctl.h>
#include <termios.h>

#define TAKEN "\033[?1049h"
#define GIVEN "\033[?25h\033[?1049l"

/* What the daemon tells, and what it was asked. */
struct daemon {
        struct fixture f;
        int terminal;      /* or -1 */
        struct buf screen; /* what was printed and not looked at yet */
        struct conv convs[3];
        size_t n_convs;
        uint64_t decoded, watch; /* the figure; the request that watches */
        uint32_t n_generated;
        unsigned n_lists, n_stats, n_gets;
        bool user; /* who does not see all figures */
};

static void serve_stats(struct daemon *d, uint64_t id) {
        static const char *const names[] = {"budget", "ledger_used", "pool_idle_bytes",
                "requests_active", "tokens_decoded", "connections"};
        const uint64_t values[] = {1024, 768, 256, 1, d->decoded, 2};
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__StatsResult result = CONFAB__V1__STATS_RESULT__INIT;
        Confab__V1__Stat stats[6], *pointers[6];

        for (size_t i = 0; i < 6; i++) {
                confab__v1__stat__init(&stats[i]);
                stats[i].name = proto_borrow(names[i]);
                stats[i].has_value = true;
                stats[i].value = values[i];
                pointers[i] = &stats[i];
        }
        result.stats = d->user ? pointers + 4 : pointers;
        result.n_stats = d->user ? 2 : 6;
        event.has_request = true;
        event.request = id;
        event.kind_case = CONFAB__V1__EVENT__KIND_STATS;
        event.stats = &result;
        d->n_stats++;
        peer_send(&d->f.peer, &event);
}

static void serve_get(struct daemon *d, uint64_t id, uint64_t conversation) {
        Confab__V1__Writing writing = CONFAB__V1__WRITING__INIT;
        struct conv c = {0};

        for (size_t i = 0; i < d->n_convs; i++)
                if (d->convs[i].id == conversation)
                        c = d->convs[i];
        writing.has_state = writing.has_revision = writing.has_n_generated = true;
        writing.state = CONFAB__V1__WRITING_STATE__WRITING_WRITES;
        writing.revision = 6;
        writing.n_generated = d->n_generated;
        c.writing = &writing;
        d->n_gets++;
        send_conv(&d->f, id, &c);
}

static void notify(struct daemon *d, Confab__V1__NoticeKind kind) {
        Confab__V1__Event event = CONFAB__V1__EVENT__INIT;
        Confab__V1__Notice n = CONFAB__V1__NOTICE__INIT;

        event.has_request = n.has_kind = true;
        event.request = d->watch;
        event.kind_case = CONFAB__V1__EVENT__KIND_NOTICE;
        event.notice = &n;
        n.kind = kind;
        n.model = proto_borrow("tiny");
        peer_send(&d->f.peer, &event);
}

/* Answer what has come. */
static void serve(struct daemon *d) {
        struct proto_message *m;

        while ((m = peer_next(&d->f.peer))) {
                switch (m->request->verb_case) {
                case REQ(WATCH):
                        d->watch = m->request->id;
                        notify(d, CONFAB__V1__NOTICE_KIND__NOTICE_MODEL);
                        break;
                case REQ(STATS):
                        serve_stats(d, m->request->id);
                        break;
                case REQ(LIST):
                        d->n_lists++;
                        send_convs(&d->f, m->request->id, d->convs, d->n_convs, false, NULL);
                        break;
                case REQ(GET):
                        serve_get(d, m->request->id, m->request->get->conversation->id);
                        break;
                default:
                        fail_msg("an unexpected request");
                }
                proto_message_free(m);
        }
}

static void meet(struct daemon *d) {
        greet(&d->f);
        d->f.peer.may_leave = true;
        assert_int_equal(fcntl(d->f.peer.fd, F_SETFL, O_NONBLOCK), 0);
        serve(d); /* what came with its Hello */
}

/* Go on until @text is on the screen; what came before it is forgotten. */
static void until(struct daemon *d, const char *text) {
        const uint8_t *at;

        while (!d->screen.size ||
                !(at = memmem(d->screen.data, d->screen.size, text, strlen(text)))) {
                struct pollfd p[] = {{d->terminal, POLLIN, 0}, {d->f.peer.fd, POLLIN, 0}};
                char chunk[4096];
                ssize_t n;

                assert_true(poll(p, 2, -1) > 0);
                if (p[1].revents)
                        serve(d);
                if (!p[0].revents)
                        continue;
                n = read(d->terminal, chunk, sizeof(chunk));
                assert_true(n > 0);
                assert_int_equal(buf_append(&d->screen, chunk, (size_t)n), 0);
        }
        buf_consume(&d->screen, (size_t)(at - d->screen.data) + strlen(text));
}

static void press(struct daemon *d, const char *keys) {
        assert_int_equal(write(d->terminal, keys, strlen(keys)), strlen(keys));
}

static void set_size(struct daemon *d, unsigned short rows, unsigned short columns) {
        struct winsize size = {.ws_row = rows, .ws_col = columns};

        assert_int_equal(ioctl(d->terminal, TIOCSWINSZ, &size), 0);
}

static void init(struct daemon *d) {
        *d = (struct daemon){.terminal = -1, .screen = BUF_NULL, .n_convs = 3, .decoded = 1000};
        d->convs[0] = (struct conv){.id = 1, .name = "old", .age = 9000, .tokens = 7, .ram = 3};
        d->convs[1] = (struct conv){.id = 2, .name = "new", .age = 5, .tokens = 5, .ram = 1};
        d->convs[2] = (struct conv){.id = 3,
                .name = "red\033[31m",
                .age = 90,
                .tokens = 9,
                .busy = true,
                .generating = true};
        setup(&d->f);
}

/* On a terminal of its own, of 80x24. */
static void begin(struct daemon *d, const char *term) {
        struct winsize size = {.ws_row = 24, .ws_col = 80};

        init(d);
        d->f.pid = forkpty(&d->terminal, NULL, NULL, &size);
        assert_true(d->f.pid >= 0);
        if (d->f.pid == 0) {
                /* A shell has those ignored that it starts in the background, nohup(1) the last one; and
                 * so a test run. */
                signal(SIGINT, SIG_DFL);
                signal(SIGQUIT, SIG_DFL);
                signal(SIGHUP, SIG_DFL);
                setenv("CONFAB_SOCKET", d->f.path, 1);
                setenv("LC_ALL", "C.UTF-8", 1);
                setenv("TERM", term, 1);
                execl(program, program, "top", "--interval", "0.1", NULL);
                _exit(99);
        }
        meet(d);
}

static void deinit(struct daemon *d) {
        if (d->terminal >= 0)
                close(d->terminal);
        buf_deinit(&d->screen);
        teardown(&d->f);
}

/* It has ended, and given the terminal back. The status as of waitpid(). */
static int end(struct daemon *d) {
        struct termios t;
        int w;

        until(d, GIVEN);
        assert_int_equal(tcgetattr(d->terminal, &t), 0);
        while (waitpid(d->f.pid, &w, WNOHANG) == 0)
                serve(d);
        assert_int_equal(tcgetattr(d->terminal, &t), 0);
        assert_true((t.c_lflag & ICANON) && (t.c_lflag & ECHO));
        deinit(d);
        return w;
}

static bool raw(const struct daemon *d) {
        struct termios t;

        assert_int_equal(tcgetattr(d->terminal, &t), 0);
        return !(t.c_lflag & (ICANON | ECHO));
}

/* ---- a screen ---- */

static void test_screen(void **state) {
        struct daemon d;
        unsigned n_lists;
        int w;

        test_need_terminal();
        begin(&d, "xterm");
        until(&d, TAKEN);
        until(&d, "  tiny  3 conversations, 1 busy, 2 connections\033[K");
        assert_true(raw(&d));
        until(&d, "RAM   [############++++++......] 768 of 1.0K, 256 of it idle");
        until(&d, "- tokens/s written; 1 at work, 0 queued, 0 wait");
        until(&d, "     3 red^[[31m           writes "); /* no control character passes */
        until(&d, "     2 new");
        until(&d, "     1 old");
        n_lists = d.n_lists;
        for (int i = 0; i < 3; i++) { /* nothing has happened: nobody is asked for a list */
                d.n_generated += 5;
                until(&d, "confab top");
        }
        assert_int_equal(d.n_lists, n_lists);
        assert_true(d.n_stats >= 3 && d.n_gets >= 3);
        d.convs[1].name = "other";
        notify(&d, CONFAB__V1__NOTICE_KIND__NOTICE_CHANGED);
        until(&d, "     2 other");
        assert_true(d.n_lists > n_lists);
        press(&d, "q");
        w = end(&d);
        assert_true(WIFEXITED(w) && WEXITSTATUS(w) == 0);
}

static void test_keys(void **state) {
        static const struct {
                const char *keys, *rows[3];
        } cases[] = {
                {"i", {" 1 old", " 2 new", " 3 red"}},
                {"r", {" 3 red", " 2 new", " 1 old"}},
                {"rn", {" 2 new", " 1 old", " 3 red"}},
                {"t", {" 3 red", " 1 old", " 2 new"}},
                {"m", {" 1 old", " 2 new", " 3 red"}},
                {"u", {" 2 new", " 3 red", " 1 old"}},
                {"a", {" 3 red", " 2 new", " 1 old"}},
        };
        struct daemon d;

        test_need_terminal();
        begin(&d, "xterm");
        until(&d, "1 old");
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                press(&d, cases[i].keys);
                /* a screen may still be on its way that was drawn before the key */
                for (int round = 0; round < 2; round++)
                        until(&d, "confab top");
                for (size_t k = 0; k < 3; k++)
                        until(&d, cases[i].rows[k]);
                buf_consume(&d.screen, d.screen.size);
        }
        press(&d, "q");
        end(&d);
}

/* No more than there is room for, and after a change of size as much as that has room for. */
static void test_sizes(void **state) {
        struct daemon d;

        test_need_terminal();
        begin(&d, "xterm");
        until(&d, "1 old");
        set_size(&d, 8, 30);
        until(&d, "  tiny  3\033[K");
        until(&d, "     2 new      resident     \033[K\r\n\033[J"); /* the seventh row */
        set_size(&d, 24, 200);
        until(&d, "connections\033[K");
        until(&d, "1 old");
        set_size(&d, 1, 1);
        until(&d, "\033[Hc\033[K\r\n\033[J");
        press(&d, "q");
        end(&d);
}

static void test_signals(void **state) {
        static const int ending[] = {SIGTERM, SIGHUP, SIGQUIT};
        struct daemon d;
        int w;

        test_need_terminal();
        begin(&d, "xterm");
        until(&d, "1 old");
        press(&d, "\003"); /* Ctrl-C */
        w = end(&d);
        assert_true(WIFEXITED(w) && WEXITSTATUS(w) == 130);
        for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
                begin(&d, "xterm");
                until(&d, "1 old");
                kill(d.f.pid, ending[i]);
                w = end(&d);
                assert_true(WIFSIGNALED(w) && WTERMSIG(w) == ending[i]);
        }
}

/* Stopped, it leaves the terminal to others; it takes it again when it goes on. */
static void test_stopped(void **state) {
        struct termios t;
        struct daemon d;
        int w;

        test_need_terminal();
        begin(&d, "xterm");
        until(&d, "1 old");
        kill(d.f.pid, SIGTSTP);
        until(&d, GIVEN);
        assert_int_equal(waitpid(d.f.pid, &w, WUNTRACED), d.f.pid);
        assert_true(WIFSTOPPED(w));
        assert_false(raw(&d));
        kill(d.f.pid, SIGCONT);
        until(&d, TAKEN);
        until(&d, "1 old");
        assert_true(raw(&d));
        kill(d.f.pid, SIGSTOP); /* this it does not see coming */
        assert_int_equal(waitpid(d.f.pid, &w, WUNTRACED), d.f.pid);
        assert_int_equal(tcgetattr(d.terminal, &t), 0);
        t.c_lflag |= ICANON | ECHO; /* as a shell does */
        assert_int_equal(tcsetattr(d.terminal, TCSANOW, &t), 0);
        buf_consume(&d.screen, d.screen.size);
        kill(d.f.pid, SIGCONT);
        do { /* one may be of before, on its way through the terminal */
                until(&d, TAKEN);
                until(&d, "1 old");
        } while (!raw(&d));
        press(&d, "q");
        end(&d);
}

/* A daemon that goes away is told, and waited for; what was known stays on the screen. */
static void test_gone(void **state) {
        struct daemon d;

        test_need_terminal();
        begin(&d, "xterm");
        until(&d, "1 old");
        peer_send_error(&d.f.peer, d.watch, "shutdown", "the daemon is stopping", true);
        until(&d, "no daemon: the daemon is stopping");
        until(&d, "1 old");
        d.convs[0].name = "back";
        meet(&d);
        until(&d, "q quit");
        until(&d, "1 back");
        press(&d, "q");
        end(&d);
}

static void test_refused(void **state) {
        struct daemon d;
        int w;

        test_need_terminal();
        begin(&d, "xterm");
        until(&d, "1 old");
        peer_send_error(&d.f.peer, d.watch, "limit", "too many watches", true);
        until(&d, GIVEN);
        until(&d, "confab: too many watches");
        assert_int_equal(waitpid(d.f.pid, &w, 0), d.f.pid);
        assert_true(WIFEXITED(w) && WEXITSTATUS(w) == 5);
        deinit(&d);
}

/* ---- no screen ---- */

/* A terminal that can't be painted on gets samples one after the other. */
static void test_dumb(void **state) {
        struct daemon d;
        int w;

        test_need_terminal();
        begin(&d, "dumb");
        until(&d, "1 old");
        until(&d, "\r\n\r\nconfab top");
        until(&d, "0.0 tokens/s written");
        until(&d, "1 old");
        assert_null(d.screen.data ? memchr(d.screen.data, 033, d.screen.size) : NULL);
        kill(d.f.pid, SIGTERM);
        assert_int_equal(waitpid(d.f.pid, &w, 0), d.f.pid);
        deinit(&d);
}

/* Run to its end with @args; d->f.text has the output. */
static void run_plain(struct daemon *d, const char *const *args) {
        init(d);
        d->user = args[1] && strcmp(args[1], "--once") == 0;
        start(&d->f, args);
        meet(d);
        for (char byte; poll(&(struct pollfd){d->f.peer.fd, POLLIN, 0}, 1, -1) > 0 &&
                        recv(d->f.peer.fd, &byte, 1, MSG_PEEK) > 0;) {
                d->decoded += 1000;
                d->n_generated += 10;
                serve(d);
        }
        finish(&d->f, 0, NULL, NULL);
}

static double number_behind(const char *text, const char *key) {
        const char *at = strstr(text, key);

        assert_non_null(at);
        return strtod(at + strlen(key), NULL);
}

static void test_plain(void **state) {
        struct daemon d;

        run_plain(&d, (const char *const[]){"top", "--once", NULL});
        assert_non_null(strstr(d.f.text, "RAM   its figures are for those who run the daemon"));
        assert_non_null(strstr(d.f.text, "\n     1 old"));
        assert_int_equal(d.n_stats, 1);
        deinit(&d);
        run_plain(&d, (const char *const[]){"top", NULL}); /* a pipe gets one, too */
        assert_int_equal(d.n_stats, 1);
        deinit(&d);
        run_plain(&d,
                (const char *const[]){"top", "--json", "--samples", "2", "--interval=0.1", NULL});
        assert_int_equal(d.n_stats, 2);
        assert_int_equal(d.n_lists, 1);
        assert_non_null(strstr(d.f.text, "\"model\":\"tiny\",\"stats\":{\"budget\":1024,"));
        assert_non_null(
                strstr(d.f.text, "\"per_second\":{},\"writing\":[{\"id\":3,\"state\":\"writes\","));
        assert_non_null(strstr(d.f.text, "\n{\"time_usec\":"));
        assert_true(number_behind(d.f.text, "\"per_second\":{\"tokens_decoded\":") > 1);
        assert_true(number_behind(d.f.text, "\"tokens_per_second\":") > 1);
        assert_non_null(strstr(d.f.text, "\"conversations\":[{\"id\":1,\"name\":\"old\","));
        deinit(&d);
}

static void test_wrong(void **state) {
        struct fixture f;

        setup(&f);
        USAGE(&f, "not a number from 0.1", "top", "--interval", "0");
        USAGE(&f, "exclude each other", "top", "--once", "--samples", "2");
        USAGE(&f, "--sort takes activity|", "top", "--sort", "size");
        START(&f, "top", "--socket", "/nonexistent/s");
        finish(&f, 6, "", "/nonexistent/s");
        teardown(&f);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_screen),
                cmocka_unit_test(test_keys),
                cmocka_unit_test(test_sizes),
                cmocka_unit_test(test_signals),
                cmocka_unit_test(test_stopped),
                cmocka_unit_test(test_gone),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_dumb),
                cmocka_unit_test(test_plain),
                cmocka_unit_test(test_wrong),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: test-cli-top PROGRAM\n");
                return 2;
        }
        program = argv[1];
        test_now = clock_realtime_usec();
        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
