/* SPDX-License-Identifier: MIT */
#pragma once
/* Runs the confab program against a daemon played by the test. */
#include "peer.h"
#include "base/util.h"
#include "util/test.h"
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

static const char *program; /* argv[1] */

/* A socket in a folder of its own, and one run of the program. */
struct fixture {
        char dir[64], path[96];
        int listen_fd, in, out, err; /* our ends */
        bool closed_output;          /* the program's standard output is closed */
        bool small_output;           /* it is a pipe of a page that does not block */
        bool err_terminal;           /* standard error is a terminal, which changes no byte */
        const char *term;            /* TERM, or NULL: xterm */
        pid_t pid;
        struct peer peer;
        char *text; /* standard output so far */
        char *told; /* all of standard error, after finish() */
        size_t text_size;
};

static inline void setup(struct fixture *f) {
        struct sockaddr_un addr = {.sun_family = AF_UNIX};

        *f = (struct fixture){.in = -1, .out = -1, .err = -1, .peer.fd = -1};
        strcpy(f->dir, "/tmp/confab-test-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        snprintf(f->path, sizeof(f->path), "%s/s", f->dir);
        strcpy(addr.sun_path, f->path);
        f->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(f->listen_fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        assert_int_equal(listen(f->listen_fd, 5), 0);
        alarm(60); /* a hang is a failure */
}

static inline void teardown(struct fixture *f) {
        if (f->peer.fd >= 0)
                peer_deinit(&f->peer);
        close(f->listen_fd);
        unlink(f->path);
        rmdir(f->dir);
        free(f->text);
        free(f->told);
}

static inline void child(struct fixture *f, const char *const *args, int in, int out, int err) {
        const char *argv[32] = {program};

        for (size_t i = 0; args[i]; i++)
                argv[i + 1] = args[i];
        dup2(in, 0);
        dup2(out, 1);
        dup2(err, 2);
        if (f->closed_output)
                close(1);
        setenv("CONFAB_SOCKET", f->path, 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        setenv("TERM", f->term ? f->term : "xterm", 1);
        setenv("EDITRC", "/dev/null", 1);
        execv(program, proto_borrow(argv));
        _exit(99);
}

/* Both ends of standard error; of a terminal, as wide as it should be. */
static inline void make_err(struct fixture *f, int err[2]) {
        const struct winsize size = {.ws_row = 24, .ws_col = 80};
        struct termios raw = {0};

        if (!f->err_terminal) {
                assert_int_equal(pipe2(err, O_CLOEXEC), 0);
                return;
        }
        assert_int_equal(openpty(&err[0], &err[1], NULL, NULL, &size), 0);
        assert_int_equal(fcntl(err[0], F_SETFD, FD_CLOEXEC), 0);
        assert_int_equal(fcntl(err[1], F_SETFD, FD_CLOEXEC), 0);
        assert_int_equal(tcgetattr(err[1], &raw), 0);
        cfmakeraw(&raw);
        assert_int_equal(tcsetattr(err[1], TCSANOW, &raw), 0);
}

/* Run with descriptor @in as standard input; it stays the caller's. */
static inline void start_with_input(struct fixture *f, const char *const *args, int in) {
        int out[2], err[2];

        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        make_err(f, err);
        if (f->small_output) {
                assert_true(fcntl(out[1], F_SETPIPE_SZ, 4096) > 0);
                assert_int_equal(fcntl(out[1], F_SETFL, O_NONBLOCK), 0);
        }
        f->pid = fork();
        assert_true(f->pid >= 0);
        if (f->pid == 0)
                child(f, args, in, out[1], err[1]);
        close(out[1]);
        close(err[1]);
        f->out = out[0];
        f->err = err[0];
}

static inline void start(struct fixture *f, const char *const *args) {
        int in[2];

        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        start_with_input(f, args, in[0]);
        close(in[0]);
        f->in = in[1];
}
#define START(f, ...) start((f), (const char *const[]){__VA_ARGS__, NULL})

/* With standard input that has been written and closed: however late the program looks, it waits for
 * nothing. */
static inline void start_given(struct fixture *f, const char *const *args, const char *text) {
        int in[2];

        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(write(in[1], text, strlen(text)), strlen(text));
        close(in[1]);
        start_with_input(f, args, in[0]);
        close(in[0]);
        f->in = -1;
}

static inline void give_input(struct fixture *f, const char *text) {
        assert_int_equal(write(f->in, text, strlen(text)), strlen(text));
}

static inline void end_input(struct fixture *f) {
        close(f->in);
        f->in = -1;
}

/* The program connects once it has what it is to say: a test that gives input has given it. */
static inline void accept_client(struct fixture *f) {
        if (f->in >= 0)
                end_input(f);
        if (f->peer.fd >= 0)
                peer_deinit(&f->peer);
        peer_init(&f->peer, accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC));
        assert_true(f->peer.fd >= 0);
}
static inline void greet(struct fixture *f) {
        accept_client(f);
        peer_hello(&f->peer);
}

/* Set up, with the program started and greeted. */
#define BEGIN(f, ...)                                                                              \
        do {                                                                                       \
                setup(f);                                                                          \
                START(f, __VA_ARGS__);                                                             \
                greet(f);                                                                          \
        } while (0)

static inline uint64_t expect(struct fixture *f, Confab__V1__Request__VerbCase verb) {
        return peer_expect(&f->peer, verb);
}

static inline char *read_all(int fd) {
        struct buf b = BUF_NULL;
        char chunk[4096];
        ssize_t n;

        while ((n = read(fd, chunk, sizeof(chunk))) > 0)
                assert_int_equal(buf_append(&b, chunk, (size_t)n), 0);
        close(fd);
        return buf_take(&b, NULL);
}

/* The program ends with @status, having printed exactly @out, and on standard error something with
 * @err in it, or nothing if NULL. */
static inline void finish(struct fixture *f, int status, const char *out, const char *err) {
        int w;

        if (f->in >= 0)
                end_input(f);
        free(f->text);
        free(f->told);
        f->text = read_all(f->out);
        f->told = read_all(f->err);
        assert_int_equal(waitpid(f->pid, &w, 0), f->pid);
        assert_true(WIFEXITED(w));
        if (WEXITSTATUS(w) != status)
                print_message("%s", f->told);
        assert_int_equal(WEXITSTATUS(w), status);
        if (out)
                assert_string_equal(f->text, out);
        if (!err)
                assert_string_equal(f->told, "");
        else
                assert_non_null(strstr(f->told, err));
}

#define REQ(name) CONFAB__V1__REQUEST__VERB_##name
