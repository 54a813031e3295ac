/* SPDX-License-Identifier: MIT */
/*
 * A screen that is painted. That the terminal is given back as it was, whatever ends or stops the program, client/line/terminal.c
 * sees to; signals are looked at between two paintings, in screen_wait().
 *
 * The sequences are those of xterm, which all terminals of today have that are not "dumb"; unlike terminfo they need no
 * library and no data base.
 */
#include "client/cli-screen.h"
#include "base/util.h"
#include "client/line/terminal.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define TAKE "\033[?1049h\033[?25l\033[2J\033[H" /* alternate screen, no cursor, empty */
#define GIVE "\033[?25h\033[?1049l"

bool screen_possible(void) {
        const char *term = getenv("TERM");

        return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
               strcmp(term, "dumb") != 0;
}

int screen_take(void) {
        struct termios raw;

        if (terminal_take(TERMINAL_BETWEEN) < 0)
                return -1;
        if (tcgetattr(STDIN_FILENO, &raw) == 0) {
                raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: keys make signals */
                raw.c_cc[VMIN] = 1;
                raw.c_cc[VTIME] = 0;
                if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0) {
                        terminal_note();
                        terminal_mark(TAKE, GIVE);
                        return 0;
                }
        }
        terminal_give_back();
        return -1;
}

void screen_give(void) {
        terminal_give_back();
}

void screen_size(unsigned *ret_rows, unsigned *ret_columns) {
        struct winsize size = {0};

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
                size.ws_row = 0;
        *ret_rows = size.ws_row ? size.ws_row : 24;
        *ret_columns = size.ws_col ? size.ws_col : 80;
}

static enum screen_event take_news(int *key) {
        unsigned news = terminal_news();

        if (news & (TERMINAL_INTERRUPTED | TERMINAL_ENDING)) {
                *key = news & TERMINAL_INTERRUPTED ? SIGINT : terminal_ending();
                return SCREEN_SIGNAL;
        }
        if (news & TERMINAL_STOPPING)
                terminal_stop();
        else if (news & TERMINAL_RESUMED)
                terminal_reclaim(); /* from whoever had it meanwhile */
        return news ? SCREEN_RESIZED : SCREEN_NOTHING;
}

enum screen_event screen_wait(int fd, short events, int msec, int *key) {
        struct pollfd fds[] = {
                {.fd = terminal_fd(), .events = POLLIN},
                {.fd = STDIN_FILENO, .events = POLLIN},
                {.fd = fd, .events = events},
        };
        unsigned char byte;
        ssize_t n;

        if (poll(fds, ARRAY_SIZE(fds), msec) < 0)
                return errno == EINTR ? SCREEN_NOTHING : SCREEN_GONE;
        if (fds[0].revents)
                return take_news(key);
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
