/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The way of lines to a journal that may be slow. Private to log*.c.
 *
 * sd_journal_sendv() waits while the journal's socket is full: as long as journald sleeps on its disk, or for ever where it is
 * stopped. So a thread writes, and the loop only appends to a list of at most LOG_QUEUE_SIZE bytes.
 *
 * 1. Lines are written in the order in which they were put.
 * 2. A line that does not fit, or for which there is no memory, is dropped and counted. The count is told (LOGGED_JOURNAL_SLOW) behind the
 *    line that the journal takes next, so it is told as soon as it can be.
 * 3. log_queue_stop() waits for what was put before it, but not longer than it is told to. Then the thread is left behind, and nothing is
 *    written any more: whoever wrote by itself would wait as well.
 *
 * One queue for a process. put, start and stop: the loop thread.
 */
#include "service/log-record.h"
#include <stdint.h>

struct err;

/* @program: a literal. -ERR_NOMEM: there is no thread. */
int log_queue_start(const char *program, struct err *e);
/* Is there a thread, or was it left behind? */
bool log_queue_is_on(void);
void log_queue_put(const struct log_record *record);
void log_queue_stop(uint64_t usec);
