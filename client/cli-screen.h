/* SPDX-License-Identifier: MIT */
#pragma once
/* The whole terminal that is standard input and output, for a live view. One at a time in a program; one thread. */
#include <stdbool.h>
#include <stddef.h>

/* Whether standard input and output are a terminal that can be painted on. */
bool screen_possible(void);
/* Take the terminal: the alternate screen, keys as they come, no cursor; and the signals that end, stop or resize.
 * 0, or -1 with errno, and nothing changed. */
int screen_take(void);
/* Give all of it back. */
void screen_give(void);
/* Rows and columns, at least 1 each; 24 and 80 if the terminal does not say. */
void screen_size(unsigned *ret_rows, unsigned *ret_columns);

enum screen_event {
        SCREEN_NOTHING, /* the time is over, or @fd is ready */
        SCREEN_KEY,     /* *key */
        SCREEN_RESIZED, /* or stopped and gone on: to be painted anew */
        SCREEN_SIGNAL,  /* *key is its number: leave */
        SCREEN_GONE     /* the terminal is */
};
/* Wait for something to happen, at most @msec. Ctrl-Z stops the program in here, with the terminal as it was before. */
enum screen_event screen_wait(int fd, short events, int msec, int *key);
