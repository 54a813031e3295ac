/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * confabd --check: would a daemon with these settings start, and what would it do?
 *
 * 1. Nothing is changed: no file is written, no socket is made, no lock is held for long. It may
 *    run beside a daemon.
 * 2. What a start would fail at is a problem, and makes the result negative. What works but is
 *    hardly meant so is a warning.
 * 3. All checks are made, also after one that found a problem, as far as they do not build on it.
 * 4. Root looks with the eyes of the user whom the state folder belongs to: what the service cannot
 *    read is then found.
 */
struct buf;
struct err;
struct settings;

/* Writes the report to @out. 0: it would start; 1: it would not; -ERR_NOMEM: no report. The process
 * may have another user afterwards. */
int check_run(struct buf *out, const struct settings *s, struct err *e);
