/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The terminal that a program has for itself while it runs: how it was, how it is, and the signals that are about it.
 * There is one in a process, since signals are the process's. One thread; terminal_restore() in signal handlers too.
 *
 * From terminal_take() to terminal_give_back(), whatever ends or stops the program (SIGTERM, SIGHUP, SIGQUIT, SIGTSTP)
 * leaves the terminal as it was, and the program that goes on has it back as it had it. Signals that were ignored
 * stay ignored. There are two ways:
 *
 *      TERMINAL_AT_ONCE    for what may block anywhere, as a line editor does: handlers give the terminal back
 *      TERMINAL_BETWEEN    for what paints, and waits in one place: a handler would write into the middle of a sequence. So the
 *                          program is told (terminal_news()), and leaves, or calls terminal_stop() or terminal_reclaim()
 */
#include <stdbool.h>

enum terminal_way { TERMINAL_AT_ONCE, TERMINAL_BETWEEN };
enum terminal_news {
        TERMINAL_RESIZED = 1 << 0,
        TERMINAL_RESUMED =
                1 << 1, /* the program was stopped and goes on; others have written meanwhile */
        TERMINAL_INTERRUPTED = 1 << 2, /* SIGINT */
        /* TERMINAL_BETWEEN: */
        TERMINAL_STOPPING = 1 << 3, /* SIGTSTP */
        TERMINAL_ENDING = 1 << 4    /* terminal_ending() */
};

/* Standard input, which has to be a terminal. 0, or -1 with errno. */
int terminal_take(enum terminal_way way);
/* As it was, with the signals as they were. May be called without terminal_take(). */
void terminal_give_back(void);
/* The terminal is as the program wants it from now on: remember that, for when it was stopped. */
void terminal_note(void);
/* Write @on now, and whenever the terminal is taken again; and @off whenever it is given back, and when other marks take the
 * place of these. Both are constants, or both NULL. */
void terminal_mark(const char *on, const char *off);
/* Lend it to a program that runs meanwhile: as it was, and SIGINT, SIGQUIT and SIGTSTP are the other's affair. Then take
 * it again. */
void terminal_lend(void);
void terminal_reclaim(void);
/* Stop the program, with the terminal as it was. Returns when it goes on and has the terminal again. */
void terminal_stop(void);
/* The signal that is to end the program. */
int terminal_ending(void);

/* Readable when there is news; -1 before terminal_take(). */
int terminal_fd(void);
/* What has happened since the last call, as bits of enum terminal_news. A second SIGINT before the first one
 * was seen ends the program. */
unsigned terminal_news(void);
/* Columns of standard output; 0 if it does not tell. */
unsigned terminal_columns(void);
unsigned terminal_rows(void);

/* For signal handlers that end the program: as it was, if it was taken. */
void terminal_restore(void);
