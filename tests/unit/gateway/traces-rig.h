/* SPDX-License-Identifier: MIT */
#pragma once
/* The requests that real clients were recorded to send: shared/facts/http/traces. */
#include <jansson.h>
#include <stdbool.h>

/* A recorded request. A list of tools that was cut for the recording ends with a text that names the others, which no
 * client has sent: it is taken out. */
struct trace {
        const char *name; /* of its file */
        const char *path;
        json_t *body; /* may be changed; gone after the call */
};
/* Whether it is one of those that the test is about. */
typedef bool (*trace_check)(const struct trace *trace, void *userdata);

/* Call @check with every request. Returns how many were what the test is about. Without the folder the test is skipped,
 * aloud. */
int traces_check_all(trace_check check, void *userdata);
/* The same for the one in the file @name. */
bool traces_check(const char *name, trace_check check, void *userdata);
