/* SPDX-License-Identifier: MIT */
/*
 * The terminal is somebody else's, and is given back as it was, whatever ends or stops the program:
 *
 * 1. Signals that would end it (INT, TERM, HUP, QUIT) are blocked while the screen is taken, and come as events, by a
 *    descriptor (signalfd). So no handler paints, and none runs between two writes.
 * 2. TSTP comes the same way: the terminal is given back, the program stops itself, and takes the terminal again once it
 *    goes on. A STOP cannot be seen coming; the CONT behind it makes the screen be taken and painted anew.
 * 3. Any other end (KILL, a crash) leaves the terminal as it is: reset(1) helps, as with any program.
 *
 * The sequences are those of xterm, which all terminals of today have that are not "dumb"; unlike terminfo they need no
 * library and no data base.
 */
#include "client/cli-screen.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define TAKE "\033[?1049h\033[?25l\033[2J\033[H" /* alternate screen, no cursor, empty */
#define GIVE "\033[?25h\033[?1049l"

struct screen {
        struct termios before;
        sigset_t mask_before;
        int signals; /* signalfd */
};

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

bool screen_possible(void) {
        const char *term = getenv("TERM");

        return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
               strcmp(term, "dumb") != 0;
}

static int take(struct screen *s) {
        struct termios raw = s->before;

        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: keys make signals */
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
                return -1;
        return file_write(STDOUT_FILENO, TAKE, strlen(TAKE), NULL);
}

static void give(struct screen *s) {
        (void)file_write(STDOUT_FILENO, GIVE, strlen(GIVE), NULL);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &s->before);
}

struct screen *screen_new(void) {
        struct screen *s = calloc(1, sizeof(*s));
        sigset_t mask;

        if (!s)
                return NULL;
        sigemptyset(&mask);
        for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
                sigaddset(&mask, watched[i]);
        s->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
        if (s->signals < 0 || tcgetattr(STDIN_FILENO, &s->before) < 0 ||
                sigprocmask(SIG_BLOCK, &mask, &s->mask_before) < 0) {
                if (s->signals >= 0)
                        close(s->signals);
                free(s);
                return NULL;
        }
        if (take(s) < 0)
                return screen_free(s);
        return s;
}

struct screen *screen_free(struct screen *s) {
        if (!s)
                return NULL;
        give(s);
        close(s->signals);
        sigprocmask(SIG_SETMASK, &s->mask_before, NULL);
        free(s);
        return NULL;
}

void screen_size(const struct screen *s, unsigned *ret_rows, unsigned *ret_columns) {
        struct winsize size = {0};

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
                size.ws_row = 0;
        *ret_rows = size.ws_row ? size.ws_row : 24;
        *ret_columns = size.ws_col ? size.ws_col : 80;
}

static enum screen_event take_signal(struct screen *s, int *key) {
        struct signalfd_siginfo info;

        if (read(s->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
                return SCREEN_NOTHING;
        switch (info.ssi_signo) {
        case SIGTSTP:
                give(s);
                raise(SIGSTOP);
                return take(s) < 0 ? SCREEN_GONE : SCREEN_RESIZED;
        case SIGCONT: /* whoever had the terminal meanwhile */
                return take(s) < 0 ? SCREEN_GONE : SCREEN_RESIZED;
        case SIGWINCH:
                return SCREEN_RESIZED;
        default:
                *key = (int)info.ssi_signo;
                return SCREEN_SIGNAL;
        }
}

enum screen_event screen_wait(struct screen *s, int fd, short events, int msec, int *key) {
        struct pollfd fds[] = {
                {.fd = s->signals, .events = POLLIN},
                {.fd = STDIN_FILENO, .events = POLLIN},
                {.fd = fd, .events = events},
        };
        unsigned char byte;
        ssize_t n;

        if (poll(fds, ARRAY_SIZE(fds), msec) < 0)
                return errno == EINTR ? SCREEN_NOTHING : SCREEN_GONE;
        if (fds[0].revents)
                return take_signal(s, key);
        if (!fds[1].revents)
                return SCREEN_NOTHING;
        n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return SCREEN_NOTHING;
        if (n <= 0)
                return SCREEN_GONE;
        *key = byte;
        return SCREEN_KEY;
}
