/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Reports the progress of a start, which may take minutes with a large model on a slow disk.
 *
 * 1. The service manager is told of each step, and of the progress while the weights are read, at
 *    most once a second. Each message asks for STARTUP_EXTEND_USEC more, so that a start that makes
 *    progress is not taken for a hanging one.
 * 2. The journal is told of long reads, and of weights that do not fit the RAM, before the reading
 *    begins.
 * 3. SIGTERM and SIGINT are blocked while the engine opens; one that is pending aborts the opening.
 *
 * Loop thread only.
 */
#include <stdint.h>

struct engine_opening;

#define STARTUP_EXTEND_USEC 60000000ull

struct startup {
        const char *model;  /* the path, borrowed */
        uint64_t told_usec; /* when the service manager was last told of the read, 0: not yet */
};

/* The line of confabd.service that hides the folder of @path from the service, or NULL. */
const char *startup_hidden(const char *path);

/* For struct engine_options: @arg is a struct startup. */
int startup_progress(void *arg, const struct engine_opening *o);
