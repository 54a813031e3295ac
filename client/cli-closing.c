/* SPDX-License-Identifier: MIT */
#include "client/cli-closing.h"
#include "base/clock.h"
#include "base/util.h"

#define MSEC 1000ull
#define PAUSE_FIRST (50 * MSEC)
#define PAUSE_LONGEST (1000 * MSEC)
#define TRIES 30

struct closing {
        struct list link;
        struct cli_closings *all;
        uint64_t id;
        uint64_t again; /* monotonic: when to try again; 0: it is being tried */
        unsigned n_tries;
};

static void done(struct closing *x) {
        list_unlink(&x->link);
        free(x);
}

static void on_closed(void *userdata, const struct confab_event *event) {
        struct closing *x = userdata;
        uint64_t pause = PAUSE_FIRST << MIN(x->n_tries, 10u);

        if (event->kind != CONFAB_EVENT_ERROR || !event->error->retry || ++x->n_tries >= TRIES)
                done(x);
        else
                x->again = clock_monotonic_usec() + MIN(pause, (uint64_t)PAUSE_LONGEST);
}

static void try(struct closing *x) {
        struct confab_request r = CONFAB_REQUEST_INIT;

        x->again = 0;
        r.verb = CONFAB_CLOSE;
        r.conversation_id = x->id;
        if (confab_submit(x->all->confab, &r, on_closed, x, NULL, NULL) < 0)
                done(x);
}

void cli_closings_init(struct cli_closings *c, struct confab *confab) {
        c->confab = confab;
        list_init(&c->list);
}

void cli_closings_add(struct cli_closings *c, uint64_t id) {
        struct closing *x = calloc(1, sizeof(*x));

        if (!x) /* the daemon will do it */
                return;
        x->all = c;
        x->id = id;
        list_append(&c->list, &x->link);
        try(x);
}

uint64_t cli_closings_due(struct cli_closings *c) {
        uint64_t now = clock_monotonic_usec(), next = UINT64_MAX;
        struct list *it, *tmp;

        list_for_each_safe (it, tmp, &c->list) {
                struct closing *x = list_entry(it, struct closing, link);

                if (x->again && now >= x->again)
                        try(x);
                else if (x->again)
                        next = MIN(next, x->again);
        }
        return next == UINT64_MAX ? next : next - now;
}

int cli_closings_step(struct cli_closings *c) {
        uint64_t usec = cli_closings_due(c);

        return confab_wait(c->confab, usec == UINT64_MAX ? -1 : (int)(usec / MSEC) + 1, NULL) < 0
                       ? -1
                       : 0;
}

void cli_closings_wait(struct cli_closings *c) {
        while (!list_empty(&c->list))
                if (cli_closings_step(c) < 0)
                        return;
}

void cli_closings_deinit(struct cli_closings *c) {
        while (!list_empty(&c->list))
                done(list_entry(c->list.next, struct closing, link));
}
