/* SPDX-License-Identifier: MIT */
#pragma once
/* Private to the confab command: samples of what a daemon does, for top. One thread. */
#include "client/cli-select.h"

/* Figures of Stats that are shown, and whether their differences make a rate. */
enum top_figure {
        TOP_BUDGET,
        TOP_USED,
        TOP_IDLE,
        TOP_ACTIVE,
        TOP_QUEUED,
        TOP_WAITING,
        TOP_PREFILLED,
        TOP_DECODED,
        TOP_DISK,
        TOP_WRITTEN,
        TOP_READ,
        TOP_EVICTIONS,
        TOP_RESTORES,
        TOP_CONNECTIONS,
        TOP_N_FIGURES
};
extern const struct top_figure_name {
        const char *name;
        bool counts; /* since the daemon started: it has a rate */
} top_figure_names[TOP_N_FIGURES];

/* A reply that is being written. */
struct top_writing {
        uint64_t id, revision, at_usec;
        enum confab_writing_state state;
        uint32_t done, total, n_generated;
        double rate; /* tokens per second, of the prompt or the reply; negative: not known yet */
};
#define TOP_MAX_WRITING 64 /* so many are looked at in each sample */

struct top {
        struct cli *cli;
        bool all_users, want_json;
        /* what a sample has found out: */
        char model[64];
        uint64_t at_usec, now_usec; /* monotonic; since 1970 */
        bool has[TOP_N_FIGURES], has_rate[TOP_N_FIGURES];
        uint64_t figures[TOP_N_FIGURES];
        double rates[TOP_N_FIGURES]; /* per second */
        struct cli_items items;
        struct top_writing writing[TOP_MAX_WRITING];
        size_t n_writing, n_samples;
        /* how it is taken: */
        bool watching, greeting, listing;
        bool stale;       /* something has happened since the list was asked for */
        unsigned pending; /* requests of this sample in flight */
        uint64_t last_id, list_begun_usec, list_took_usec, listed_usec;
        struct cli_items next; /* the list as it comes */
        struct top_writing before[TOP_MAX_WRITING];
        size_t n_before;
        struct confab_error error; /* code "": none */
};

/* Ask for the next sample, over cli->confab, which is connected; confab_process() then goes on with it. */
void top_begin(struct top *t);
/* Whether it is complete. If t->error is set it never will be: the connection is to be made anew, and top_reset()
 * called. */
bool top_complete(const struct top *t);
/* Forget what was under way, and what depends on the daemon's counting. */
void top_reset(struct top *t);
void top_deinit(struct top *t);
/* What is known of the reply that conversation @id writes, or NULL. */
const struct top_writing *top_find_writing(const struct top *t, uint64_t id);
const char *top_state_name(enum confab_writing_state state);

/* How rows are ordered. */
struct top_view {
        bool by_activity; /* else by @sort */
        enum cli_sort sort;
        bool reverse;
        unsigned rows, columns; /* 0: as many as there are, and as wide as they are */
        const char *problem;    /* a line on top, or NULL */
};
/* The sample as text, into cli->out: lines of at most view->columns, at most view->rows of them, each ended by @eol. */
void top_draw(struct top *t, const struct top_view *view, const char *eol);
/* The sample as a JSON object on a line. */
void top_put_json(struct top *t);
