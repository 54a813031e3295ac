/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * confabd --check: tells whether a daemon with these settings would start, and what it would do.
 *
 * 1. Nothing is changed: no file is written, no socket is made, no lock is held for long. The check
 *    may run next to a daemon.
 * 2. Anything that would make a start fail is a problem, and makes the result 1. A setting that
 *    works but is hardly intended is a warning.
 * 3. After a check has found a problem, all other checks that do not depend on it are still made.
 * 4. Root checks with the rights of the user who owns the state folder, so that files which the
 *    service cannot read are found.
 */
struct buf;
struct err;
struct settings;

/* Write the report to @out. 0: the daemon would start; 1: it would not; -ERR_NOMEM: no report. The
 * process may have another user afterwards. */
int check_run(struct buf *out, const struct settings *s, struct err *e);
