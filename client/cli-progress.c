/* SPDX-License-Identifier: MIT */
/*
 * What a terminal shows while nothing has come yet: one line on standard error, which is written over and erased
 * before anything else is printed.
 *
 * 1. Only people see it: standard error is a terminal that can erase a line (TERM is set and not "dumb"), and neither
 *    --quiet nor --json is given.
 * 2. What takes less than PATIENCE_USEC shows nothing.
 * 3. Of a Continue that is not accepted yet, the conversation tells what it waits for (Get, once in ASK_USEC): for a
 *    place, for its memory to come back, or, with --wait, for another request. Then the daemon tells how many tokens of the
 *    prompt it has read. What is left is estimated from the time that those have taken.
 * 4. The first part of a reply ends it, and so does the request's end.
 * 5. Of a file (export, import, backup, restore), and of a check, the line tells how many bytes have gone by, and what is left
 *    where the number of all is known.
 */
#include "base/clock.h"
#include "client/cli.h"
#include <string.h>
#include <sys/ioctl.h>

#define PATIENCE_USEC 500000u
#define DRAW_USEC 100000u
#define ASK_USEC 500000u
#define ESTIMATE_USEC 1000000u /* before that an estimate says nothing */
#define ERASE "\r\033[K"

static uint64_t seconds(uint64_t usec) {
        return (usec + 500000) / 1000000;
}

const char *human_count(char buf[32], uint64_t n) {
        char digits[24];
        int size = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
        char *to = buf;

        for (int i = 0; i < size; i++) {
                if (i > 0 && (size - i) % 3 == 0)
                        *to++ = ',';
                *to++ = digits[i];
        }
        *to = 0;
        return buf;
}

void cli_progress_init(
        struct cli_progress *p, struct cli *cli, const struct confab_request *r, const char *what) {
        *p = (struct cli_progress){
                .cli = cli,
                .request = r,
                .what = what,
                .on = cli->err_tty && !cli->json && !cli->quiet && cli_terminal_erases(),
                .began_usec = clock_monotonic_usec(),
        };
        cli->asking = false; /* of an older connection */
}

void cli_progress_erase(struct cli_progress *p) {
        if (p->shown)
                fputs(ERASE, stderr);
        p->shown = false;
}

void cli_progress_end(struct cli_progress *p) {
        cli_progress_erase(p);
        p->on = false;
        p->cli->asks = NULL;
}

/* ---- what is said ---- */

/* "12 s left", after @done of @total in @spent; nothing where that says nothing yet. */
static void say_left(char buf[40], uint64_t done, uint64_t total, uint64_t spent) {
        *buf = 0;
        if (done > 0 && total > 0 && spent >= ESTIMATE_USEC)
                snprintf(buf, 40, ", %llu s left",
                        (unsigned long long)seconds(
                                (uint64_t)((double)spent * (double)(total - MIN(done, total)) /
                                           (double)done)));
}

static void say_bytes(const struct cli_progress *p, char *line, size_t size, uint64_t now) {
        char done[16], all[16], left[40];

        say_left(left, p->bytes, p->all, now - p->bytes_usec);
        human_size(done, p->bytes);
        if (p->all > 0)
                snprintf(
                        line, size, "%s, %s of %s%s", p->what, done, human_size(all, p->all), left);
        else
                snprintf(line, size, "%s, %s, %llu s", p->what, done,
                        (unsigned long long)seconds(now - p->began_usec));
}

static void say_reading(const struct cli_progress *p, char *line, size_t size, uint64_t now) {
        char done[32], total[32], left[40];

        human_count(total, p->total);
        say_left(left, p->done, p->total, now - p->accepted_usec);
        if (p->done == 0)
                snprintf(line, size, "reading %s tokens", total);
        else
                snprintf(line, size, "reading %s of %s tokens%s", human_count(done, p->done), total,
                        left);
}

static void draw(struct cli_progress *p, uint64_t now) {
        struct winsize size = {.ws_col = 0};
        char line[160];

        if (p->counts)
                say_bytes(p, line, sizeof(line), now);
        else if (p->accepted_usec)
                say_reading(p, line, sizeof(line), now);
        else
                snprintf(line, sizeof(line), "%s, %llu s", p->what,
                        (unsigned long long)seconds(now - p->began_usec));
        if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 &&
                size.ws_col <= strlen(line))
                line[size.ws_col - 1] = 0; /* a line that wraps could not be erased */
        fprintf(stderr, ERASE "%s", line);
        p->shown = true;
}

/* ---- asking the conversation ---- */

static void state_event(void *userdata, const struct confab_event *event) {
        static const char *const what[] = {
                [CONFAB_WRITING_WAITS] = "waiting for a place",
                [CONFAB_WRITING_RESTORES] = "bringing its memory back",
                /* of another request: ours would be accepted */
                [CONFAB_WRITING_READS] = "waiting for another request",
                [CONFAB_WRITING_WRITES] = "waiting for another request",
                [CONFAB_WRITING_ENDS] = "waiting for another request",
        };
        struct cli *cli = userdata;
        const struct confab_writing *w;

        if (event->final)
                cli->asking = false;
        if (!cli->asks || event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        w = event->conversation->writing;
        if (w && (size_t)w->state < ARRAY_SIZE(what) && what[w->state])
                cli->asks->what = what[w->state];
}

/* The answer may come when the request has ended, and this with it: so it belongs to the program. */
static void ask(struct cli_progress *p, uint64_t now) {
        struct confab_request get = CONFAB_REQUEST_INIT;
        struct cli *cli = p->cli;

        if (cli->asking || now < p->ask_usec)
                return;
        get.verb = CONFAB_GET;
        get.conversation = p->request->conversation;
        get.conversation_id = p->request->conversation_id;
        p->ask_usec = now + ASK_USEC;
        cli->asks = p;
        cli->asking = confab_submit(cli->confab, &get, state_event, cli, NULL, NULL) == 0;
}

/* ---- time and events ---- */

int cli_progress_timeout(const struct cli_progress *p) {
        return p->on ? (int)(DRAW_USEC / 1000) : -1;
}

void cli_progress_tick(struct cli_progress *p) {
        uint64_t now = p->on ? clock_monotonic_usec() : 0;

        if (!p->on || now < p->began_usec + PATIENCE_USEC || now < p->draw_usec)
                return;
        p->draw_usec = now + DRAW_USEC;
        if (p->request && p->request->verb == CONFAB_CONTINUE && !p->accepted_usec)
                ask(p, now);
        draw(p, now);
}

void cli_progress_bytes(struct cli_progress *p, uint64_t n, uint64_t all) {
        if (p->on && !p->counts)
                p->bytes_usec = clock_monotonic_usec();
        p->counts = true;
        p->bytes = n;
        p->all = all;
        cli_progress_tick(p);
}

void cli_progress_event(struct cli_progress *p, const struct confab_event *event) {
        const struct confab_delta *d = event->kind == CONFAB_EVENT_DELTA ? event->delta : NULL;

        if (event->kind == CONFAB_EVENT_ACCEPTED && p->on) {
                p->accepted_usec = clock_monotonic_usec();
                p->total = event->accepted->n_computed;
        } else if (event->kind == CONFAB_EVENT_PROGRESS) {
                p->done = event->progress->done;
                p->total = event->progress->total;
                if (event->progress->total_size > 0)
                        cli_progress_bytes(
                                p, event->progress->done_size, event->progress->total_size);
        } else if (event->kind == CONFAB_EVENT_CHUNK) {
                cli_progress_bytes(p, p->bytes + event->chunk->size, 0);
        } else if (event->final || (d && (d->text_size > 0 || d->n_parts > 0 || d->n_tokens > 0))) {
                cli_progress_end(p);
        }
}

/* ---- afterwards ---- */

/* "12.3/s", or nothing where nothing was measured. */
static const char *rate(char buf[32], uint64_t n, uint64_t usec) {
        *buf = 0;
        if (n > 0 && usec > 0)
                snprintf(buf, 32, ", %.1f/s", (double)n * 1e6 / (double)usec);
        return buf;
}

void cli_tell_done(struct cli *cli, const struct confab_done *d) {
        char n[6][32], fast[2][32];

        cli_complain(cli,
                "prompt: %s token%s, %s in RAM, %s from disk, %s shared, %s computed%s; "
                "reply: %s token%s%s; waited %.2f s, restored in %.2f s; seed %llu",
                human_count(n[0], d->n_prompt), plural_s(d->n_prompt), human_count(n[1], d->n_ram),
                human_count(n[2], d->n_disk), human_count(n[3], d->n_shared),
                human_count(n[4], d->n_computed), rate(fast[0], d->n_computed, d->prefill_usec),
                human_count(n[5], d->n_generated), plural_s(d->n_generated),
                rate(fast[1], d->n_generated, d->decode_usec), (double)d->queued_usec / 1e6,
                (double)d->restore_usec / 1e6, (unsigned long long)d->seed);
}

void cli_total_add(struct cli_total *t, const struct confab_done *d) {
        t->n_replies++;
        t->n_prompt += d->n_prompt;
        t->n_ram += d->n_ram;
        t->n_disk += d->n_disk;
        t->n_shared += d->n_shared;
        t->n_computed += d->n_computed;
        t->n_generated += d->n_generated;
}

void cli_tell_total(struct cli *cli, const struct cli_total *t, uint64_t usec) {
        char n[7][32], fast[32];

        /* Replies that are made together share their time, so the rate is of all of it. */
        cli_complain(cli,
                "%s %s in %.2f s; prompts: %s token%s, %s in RAM, %s from disk, %s shared, "
                "%s computed; replies: %s token%s%s",
                human_count(n[0], t->n_replies), t->n_replies == 1 ? "reply" : "replies",
                (double)usec / 1e6, human_count(n[1], t->n_prompt), plural_s(t->n_prompt),
                human_count(n[2], t->n_ram), human_count(n[3], t->n_disk),
                human_count(n[4], t->n_shared), human_count(n[5], t->n_computed),
                human_count(n[6], t->n_generated), plural_s(t->n_generated),
                rate(fast, t->n_generated, usec));
}
