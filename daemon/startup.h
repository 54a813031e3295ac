/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Says what a start is doing, which may take minutes with a large model on a slow disk.
 *
 * 1. The service manager hears each step, and while the weights are read, how far that is: at most
 *    once a second. Each word asks it for STARTUP_EXTEND_USEC more, so that a start which goes on
 *    is not taken for one that hangs.
 * 2. The journal hears of long reads, and of weights that do not fit the RAM, before the reading
 *    begins.
 * 3. SIGTERM and SIGINT, which wait while the engine opens, break it off.
 *
 * Loop thread only.
 */
#include <stdint.h>

struct engine_opening;

#define STARTUP_EXTEND_USEC 60000000ull

struct startup {
        const char *model;  /* the path, borrowed */
        uint64_t told_usec; /* when the service manager heard of the read last, 0: not yet */
};

/* Files below some folders are hidden from confabd.service: the line of its unit that hides @path,
 * or NULL. */
const char *startup_hidden(const char *path);

/* For struct engine_options: @arg is a struct startup. */
int startup_progress(void *arg, const struct engine_opening *o);
