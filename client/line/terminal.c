/* SPDX-License-Identifier: MIT */
/*
 * Modes and signals of the terminal.
 *
 * libedit can care for signals itself, but it does more in its handlers than handlers may do, sends what it gets to the
 * whole process group, and is not there while a reply is written. So the signals are handled here, at all times:
 *
 * 1. What ends or stops the program restores the terminal in the handler, with functions that POSIX allows there, and
 *    then does what the signal does by default. So it works at any moment, also while something blocks.
 * 2. What can wait (a new size, going on after a stop, the first SIGINT) sets a bit and wakes whoever polls.
 * 3. A write to the terminal may block (Ctrl-S); the mark that ends marking of pastes is not worth a program that
 *    can't be killed, so a handler writes it only if there is room. Nor does a handler wait for output to drain.
 * 4. What paints is told of everything instead (TERMINAL_BETWEEN), and no handler touches the terminal. A STOP cannot be
 *    seen coming; the CONT behind it makes the program take the terminal anew. Any other end (KILL, a crash) leaves the
 *    terminal as it is: reset(1) helps, as with any program.
 */
#include "client/line/terminal.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const int signals[] = {SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH, SIGINT};
#define N_SIGNALS ARRAY_SIZE(signals)

static struct {
        volatile sig_atomic_t taken, lent, between, ending;
        const char *volatile on, *volatile off; /* marks, or NULL */
        struct termios before, modes[2];        /* modes[now] are what the program wants */
        volatile sig_atomic_t now;
        struct sigaction old[N_SIGNALS];
        int wake[2];
} terminal = {.wake = {-1, -1}};
static atomic_uint news;

/* ---- in handlers, too ---- */

static void set_modes(const struct termios *modes) {
        while (tcsetattr(STDIN_FILENO, TCSANOW, modes) < 0 && errno == EINTR)
                ;
}

static void put_mark(const char *mark) {
        struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

        if (terminal.between || (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT)))
                (void)!write(STDOUT_FILENO, mark, strlen(mark));
}

static void put_back(void) {
        if (terminal.off)
                put_mark(terminal.off);
        set_modes(&terminal.before);
}

static void retake(void) {
        if (!terminal.taken || terminal.lent)
                return;
        set_modes(&terminal.modes[terminal.now]);
        if (terminal.on)
                put_mark(terminal.on);
}

void terminal_restore(void) {
        if (terminal.taken && !terminal.lent)
                put_back();
}

static void tell(unsigned what) {
        atomic_fetch_or(&news, what);
        (void)!write(terminal.wake[1], "", 1);
}

/* ---- handlers ---- */

/* Do what @sig does by default, at once. */
static void let_it_happen(int sig) {
        struct sigaction action = {.sa_handler = SIG_DFL}, mine;
        sigset_t set;

        sigaction(sig, &action, &mine);
        sigemptyset(&set);
        sigaddset(&set, sig);
        raise(sig);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* here it ends, or stops */
        sigaction(sig, &mine, NULL);
}

static void on_end(int sig) {
        if (sig == SIGQUIT && terminal.lent)
                return;
        terminal_restore();
        let_it_happen(sig);
}

static void on_stop(int sig) {
        int saved = errno;

        terminal_restore();
        let_it_happen(sig);
        /* SIGCONT has done the same, unless nobody could make the program go on, and so it was not stopped */
        retake();
        tell(TERMINAL_RESUMED);
        errno = saved;
}

static void on_news(int sig) {
        int saved = errno;

        if (sig == SIGINT && terminal.lent)
                return;
        if (sig == SIGCONT)
                retake();
        if (sig == SIGINT && atomic_load(&news) & TERMINAL_INTERRUPTED)
                on_end(sig);
        tell(sig == SIGCONT     ? TERMINAL_RESUMED
                : sig == SIGINT ? TERMINAL_INTERRUPTED
                                : TERMINAL_RESIZED);
        errno = saved;
}

static void on_any(int sig) {
        int saved = errno;

        if (sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT)
                terminal.ending = sig;
        tell(sig == SIGCONT       ? TERMINAL_RESUMED
                : sig == SIGINT   ? TERMINAL_INTERRUPTED
                : sig == SIGTSTP  ? TERMINAL_STOPPING
                : sig == SIGWINCH ? TERMINAL_RESIZED
                                  : TERMINAL_ENDING);
        errno = saved;
}

static void (*handler_of(int sig))(int) {
        if (terminal.between)
                return on_any;
        switch (sig) {
        case SIGTSTP:
                return on_stop;
        case SIGCONT:
        case SIGWINCH:
        case SIGINT:
                return on_news;
        default:
                return on_end;
        }
}

/* ---- taking it ---- */

int terminal_take(enum terminal_way way) {
        if (tcgetattr(STDIN_FILENO, &terminal.before) < 0)
                return -1;
        if (terminal.wake[0] < 0 && pipe2(terminal.wake, O_CLOEXEC | O_NONBLOCK) < 0)
                return -1;
        terminal.modes[terminal.now] = terminal.before;
        terminal.between = way == TERMINAL_BETWEEN;
        terminal.taken = 1;
        for (size_t i = 0; i < N_SIGNALS; i++) {
                struct sigaction action = {
                        .sa_handler = handler_of(signals[i]), .sa_flags = SA_RESTART};

                sigaction(signals[i], NULL, &terminal.old[i]);
                if (terminal.old[i].sa_handler != SIG_IGN)
                        sigaction(signals[i], &action, NULL);
        }
        return 0;
}

void terminal_give_back(void) {
        if (!terminal.taken)
                return;
        put_back();
        for (size_t i = 0; i < N_SIGNALS; i++)
                sigaction(signals[i], &terminal.old[i], NULL);
        terminal.taken = terminal.lent = terminal.between = 0;
        terminal.on = terminal.off = NULL;
}

void terminal_note(void) {
        int next = !terminal.now; /* a handler may read the other one meanwhile */

        if (tcgetattr(STDIN_FILENO, &terminal.modes[next]) == 0)
                terminal.now = next;
}

void terminal_mark(const char *on, const char *off) {
        terminal.on = NULL; /* a handler between these gives back what is there */
        if (terminal.off)
                (void)!write(STDOUT_FILENO, terminal.off, strlen(terminal.off));
        terminal.off = off;
        terminal.on = on;
        if (on)
                (void)!write(STDOUT_FILENO, on, strlen(on));
}

void terminal_lend(void) {
        put_back();
        terminal.lent = 1;
}

void terminal_reclaim(void) {
        terminal.lent = 0;
        retake();
}

void terminal_stop(void) {
        put_back();
        raise(SIGSTOP);
        retake();
}

/* ---- news ---- */

int terminal_ending(void) {
        return terminal.ending;
}

int terminal_fd(void) {
        return terminal.wake[0];
}

unsigned terminal_news(void) {
        char bytes[64];

        while (terminal.wake[0] >= 0 && read(terminal.wake[0], bytes, sizeof(bytes)) > 0)
                ;
        return atomic_exchange(&news, 0);
}

unsigned terminal_columns(void) {
        struct winsize size;

        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

unsigned terminal_rows(void) {
        struct winsize size;

        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}
