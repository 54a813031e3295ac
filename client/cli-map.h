/* SPDX-License-Identifier: MIT */
#pragma once
/* What map has of one line of its input, and how its result is written. One thread. */
#include "base/list.h"
#include "client/cli-jobs.h"
#include "client/cli-record.h"
#include "client/cli-template.h"

enum map_state {
        MAP_RUNS,
        MAP_DONE,  /* item.job has the reply, or why there is none */
        MAP_BLANK, /* nothing was asked */
        MAP_KNOWN, /* it was answered before: item.known */
        MAP_LOST   /* it was cancelled, since this program is to end */
};
struct map_item {
        struct list link; /* in the order of the input */
        enum map_state state;
        uint64_t index, hash; /* of the line in all of the input; of what its reply depends on */
        struct question question;
        struct cli_job job;
        const struct record_entry *known;
};

/* A hash of what all replies depend on: the conversation, its revision, and the options in @say. */
uint64_t map_hash_options(const struct cli_jobs *jobs, const struct confab_request *say);
/* The result as a line of JSON with its newline, appended to @b. -ERR_NOMEM. */
int map_put_json(struct buf *b, const struct map_item *item);
/* A reply as one line of text: line breaks are spaces. -ERR_NOMEM. */
int map_put_line(struct buf *b, const char *text, size_t size);
