/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * SIGINT while requests are in flight: the first one asks for their end, the second one ends the program at once. One
 * run of requests catches it at a time; one thread.
 */
#include <signal.h>
#include <stdbool.h>

/* Catch SIGINT from now on, forgetting earlier ones; what was set before is in *old. 0, or -1 with errno. */
int cli_interrupts_catch(struct sigaction *old);
void cli_interrupts_release(const struct sigaction *old);
/* Whether one has come since they are caught. */
bool cli_interrupted(void);
/* Becomes readable when one comes: for poll(). */
int cli_interrupt_fd(void);
/* Let it be readable no more. */
void cli_interrupt_seen(void);
