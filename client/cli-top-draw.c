/* SPDX-License-Identifier: MIT */
/*
 * A sample of top, as lines and as JSON. Lines are cut at the screen's width by what terminals show of them, and names are
 * made harmless always: they may come from another user.
 */
#include "client/cli-top.h"
#include <string.h>
#include <time.h>

#define BAR 24        /* cells of the bar of memory */
#define NAME_WIDTH 24 /* of the column; more where there is room */

struct drawing {
        struct top *t;
        const struct top_view *view;
        const char *eol;
        unsigned n_rows; /* drawn so far */
};

/* ---- lines ---- */

/* The beginning of @s, of at most @width columns; the bytes of it. */
static size_t cut(const char *s, size_t n, size_t width) {
        size_t i = 0, next = 0;

        if (safe_width(s, n) <= width)
                return n;
        while (next < n) {
                do
                        next++;
                while (next < n && ((unsigned char)s[next] & 0xc0) == 0x80);
                if (safe_width(s, next) > width)
                        return i;
                i = next;
        }
        return i;
}

static bool has_room(const struct drawing *d) {
        return d->view->rows == 0 || d->n_rows < d->view->rows;
}

/* One line; takes what is in @b. */
static void line(struct drawing *d, struct buf *b) {
        const char *s = b->data ? (const char *)b->data : "";
        size_t n = d->view->columns ? cut(s, b->size, d->view->columns) : b->size;

        if (has_room(d))
                cli_printf(d->t->cli, "%.*s%s", (int)n, s, d->eol);
        d->n_rows++;
        buf_deinit(b);
}

/* @text, which is harmless, in @width columns. */
static void put_cell(struct buf *b, const char *text, size_t n, unsigned width, bool left) {
        size_t shown = cut(text, n, width), pad = width - safe_width(text, shown);

        (void)!buf_printf(b, "%*s%.*s%*s ", left ? 0 : (int)pad, "", (int)shown, text,
                left ? (int)pad : 0, "");
}

static void put_number(struct buf *b, uint64_t n, unsigned width) {
        (void)!buf_printf(b, "%*llu ", (int)width, (unsigned long long)n);
}

/* ---- the head ---- */

static void put_rate(struct buf *b, const struct top *t, enum top_figure f, const char *unit) {
        char size[16];

        if (!t->has_rate[f])
                (void)!buf_printf(b, "-%s", unit);
        else if (t->rates[f] < 9.95)
                (void)!buf_printf(b, "%.1f%s", t->rates[f], unit);
        else if (f == TOP_WRITTEN || f == TOP_READ)
                (void)!buf_printf(b, "%s%s", human_size(size, (uint64_t)t->rates[f]), unit);
        else
                (void)!buf_printf(b, "%.0f%s", t->rates[f], unit);
}

static void draw_title(struct drawing *d) {
        struct top *t = d->t;
        struct buf b = BUF_NULL;
        size_t n_busy = 0;
        time_t now = (time_t)(t->now_usec / 1000000);
        struct tm tm = {0};
        char clock[16];

        for (size_t i = 0; i < t->items.n; i++)
                n_busy += t->items.items[i].busy;
        localtime_r(&now, &tm);
        strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
        (void)!buf_printf(&b, "confab top  %s  ", clock);
        (void)!safe_append(&b, t->model, strlen(t->model), false);
        (void)!buf_printf(&b, "  %zu conversation%s, %zu busy", t->items.n,
                t->items.n == 1 ? "" : "s", n_busy);
        if (t->has[TOP_CONNECTIONS])
                (void)!buf_printf(&b, ", %llu connection%s",
                        (unsigned long long)t->figures[TOP_CONNECTIONS],
                        t->figures[TOP_CONNECTIONS] == 1 ? "" : "s");
        line(d, &b);
}

static void draw_memory(struct drawing *d) {
        const struct top *t = d->t;
        uint64_t budget = t->figures[TOP_BUDGET], used = t->figures[TOP_USED],
                 idle = MIN(t->figures[TOP_IDLE], used);
        struct buf b = BUF_NULL;
        char sizes[3][16];
        unsigned cells[2];

        if (!t->has[TOP_BUDGET] || budget == 0) {
                (void)!buf_append_str(
                        &b, "RAM   its figures are for those who run the daemon, and root");
                line(d, &b);
                return;
        }
        cells[0] = (unsigned)(MIN(used - idle, budget) * BAR / budget);
        cells[1] = (unsigned)(MIN(used, budget) * BAR / budget);
        (void)!buf_append_str(&b, "RAM   [");
        for (unsigned i = 0; i < BAR; i++)
                (void)!buf_append_str(&b, i < cells[0] ? "#" : i < cells[1] ? "+" : ".");
        (void)!buf_printf(&b, "] %s of %s, %s of it idle", human_size(sizes[0], used),
                human_size(sizes[1], budget), human_size(sizes[2], idle));
        line(d, &b);
}

static void draw_disk(struct drawing *d) {
        const struct top *t = d->t;
        struct buf b = BUF_NULL;
        char size[16];

        if (!t->has[TOP_DISK])
                return;
        (void)!buf_printf(&b, "Disk  %s; ", human_size(size, t->figures[TOP_DISK]));
        put_rate(&b, t, TOP_WRITTEN, "/s written, ");
        put_rate(&b, t, TOP_READ, "/s read; ");
        put_rate(&b, t, TOP_EVICTIONS, "/s put out of RAM, ");
        put_rate(&b, t, TOP_RESTORES, "/s brought back");
        line(d, &b);
}

static void draw_work(struct drawing *d) {
        const struct top *t = d->t;
        struct buf b = BUF_NULL;

        (void)!buf_append_str(&b, "Work  ");
        put_rate(&b, t, TOP_PREFILLED, " tokens/s read, ");
        put_rate(&b, t, TOP_DECODED, " tokens/s written");
        if (t->has[TOP_ACTIVE])
                (void)!buf_printf(&b, "; %llu at work, %llu queued, %llu wait",
                        (unsigned long long)t->figures[TOP_ACTIVE],
                        (unsigned long long)t->figures[TOP_QUEUED],
                        (unsigned long long)t->figures[TOP_WAITING]);
        line(d, &b);
}

/* ---- rows ---- */

/* "id" 6, state 12, rate 7, tokens 7, turns 5, RAM 5, disk 5, age 4, and a blank behind each but the name's. */
#define OTHERS (6 + 12 + 7 + 7 + 5 + 5 + 5 + 4 + 8)

static unsigned name_width(const struct drawing *d) {
        unsigned columns = d->view->columns;

        return columns > OTHERS + 1 + NAME_WIDTH ? columns - OTHERS - 1
               : columns == 0                    ? NAME_WIDTH + 8
               : columns > OTHERS + 9            ? columns - OTHERS - 1
                                                 : 8;
}

static void draw_head(struct drawing *d) {
        struct buf b = BUF_NULL;

        (void)!buf_printf(&b, "%6s ", "ID");
        put_cell(&b, d->t->all_users ? "OWNER NAME" : "NAME", d->t->all_users ? 10 : 4,
                name_width(d), true);
        (void)!buf_printf(&b, "%-12s %7s %7s %5s %5s %5s %4s", "STATE", "TOKEN/S", "TOKENS",
                "TURNS", "RAM", "DISK", "AGE");
        line(d, &b);
}

/* What it does, or where its memory is. */
static void put_state(char out[32], const struct cli_item *item, const struct top_writing *w) {
        if (w && w->state == CONFAB_WRITING_READS && w->total > 0)
                snprintf(out, 32, "reads %u%%",
                        (unsigned)(100ull * MIN(w->done, w->total) / w->total));
        else if (w)
                snprintf(out, 32, "%s", top_state_name(w->state));
        else
                snprintf(out, 32, "%s%s", confab_residency_name(item->residency),
                        item->busy ? "*" : "");
}

static void draw_row(struct drawing *d, const struct cli_item *item) {
        const struct top_writing *w = top_find_writing(d->t, item->id);
        char state[32], text[16], owner[CLI_OWNER_SIZE];
        struct buf b = BUF_NULL, name = BUF_NULL;

        put_number(&b, item->id, 6);
        if (d->t->all_users) {
                cli_owner_name(owner, item->uid, item->tenant);
                (void)!safe_append(&name, owner, strlen(owner), false);
                (void)!buf_append_str(&name, " ");
        }
        (void)!safe_append(&name, item->name, strlen(item->name), false);
        put_cell(&b, name.data ? (char *)name.data : "", name.size, name_width(d), true);
        buf_deinit(&name);
        put_state(state, item, w);
        (void)!buf_printf(&b, "%-12s ", state);
        if (w && w->rate >= 0)
                (void)!buf_printf(&b, "%7.1f ", w->rate);
        else
                (void)!buf_printf(&b, "%7s ", "");
        put_number(&b, item->n_tokens + (uint64_t)(w ? w->n_generated : 0), 7);
        put_number(&b, item->n_turns, 5);
        (void)!buf_printf(&b, "%5s ", human_size(text, item->ram_size));
        (void)!buf_printf(&b, "%5s ", human_size(text, item->disk_size));
        (void)!buf_printf(&b, "%4s", human_age(text, item->updated_usec, d->t->now_usec));
        line(d, &b);
}

/* Those that do something come first, then those that did something last. */
static int by_activity(const void *x, const void *y, void *arg) {
        const struct cli_item *a = x, *b = y;
        const struct top *t = arg;
        int rank_a = top_find_writing(t, a->id) ? 0
                     : a->busy                  ? 1
                                                : 2,
            rank_b = top_find_writing(t, b->id) ? 0
                     : b->busy                  ? 1
                                                : 2;

        if (rank_a != rank_b)
                return rank_a - rank_b;
        if (rank_a == 0) /* a row keeps its place while it writes */
                return (a->id > b->id) - (a->id < b->id);
        if (a->updated_usec != b->updated_usec)
                return a->updated_usec < b->updated_usec ? 1 : -1;
        return (a->id > b->id) - (a->id < b->id);
}

static void sort(struct top *t, const struct top_view *view) {
        if (!view->by_activity)
                cli_items_sort(&t->items, view->sort);
        else if (t->items.n > 1)
                qsort_r(t->items.items, t->items.n, sizeof(*t->items.items), by_activity, t);
        if (view->reverse)
                cli_items_reverse(&t->items);
}

void top_draw(struct top *t, const struct top_view *view, const char *eol) {
        struct drawing d = {.t = t, .view = view, .eol = eol};
        struct buf b = BUF_NULL;

        sort(t, view);
        draw_title(&d);
        draw_memory(&d);
        draw_disk(&d);
        draw_work(&d);
        if (view->problem)
                (void)!safe_append(&b, view->problem, strlen(view->problem), false);
        line(&d, &b);
        draw_head(&d);
        for (size_t i = 0; i < t->items.n && has_room(&d); i++)
                draw_row(&d, &t->items.items[i]);
}

/* ---- JSON ---- */

static void put_writing(struct json *j, const struct top_writing *w) {
        json_object_begin(j);
        json_put_key_u64(j, "id", w->id);
        json_put_key_string(j, "state", top_state_name(w->state));
        json_put_key_u64(j, "revision", w->revision);
        json_put_key_u64(j, "done", w->done);
        json_put_key_u64(j, "total", w->total);
        json_put_key_u64(j, "n_generated", w->n_generated);
        if (w->rate >= 0) {
                json_put_key(j, "tokens_per_second");
                json_put_double(j, w->rate);
        }
        json_object_end(j);
}

void top_put_json(struct top *t) {
        struct json j;

        json_init(&j, &t->cli->out);
        json_object_begin(&j);
        json_put_key_u64(&j, "time_usec", t->now_usec);
        json_put_key_string(&j, "model", t->model);
        json_put_key(&j, "stats");
        json_object_begin(&j);
        for (size_t i = 0; i < TOP_N_FIGURES; i++)
                if (t->has[i])
                        json_put_key_u64(&j, top_figure_names[i].name, t->figures[i]);
        json_object_end(&j);
        json_put_key(&j, "per_second");
        json_object_begin(&j);
        for (size_t i = 0; i < TOP_N_FIGURES; i++)
                if (t->has_rate[i]) {
                        json_put_key(&j, top_figure_names[i].name);
                        json_put_double(&j, t->rates[i]);
                }
        json_object_end(&j);
        json_put_key(&j, "writing");
        json_array_begin(&j);
        for (size_t i = 0; i < t->n_writing; i++)
                put_writing(&j, &t->writing[i]);
        json_array_end(&j);
        json_put_key(&j, "conversations");
        json_array_begin(&j);
        for (size_t i = 0; i < t->items.n; i++)
                json_put_raw(&j, t->items.items[i].json, strlen(t->items.items[i].json));
        json_array_end(&j);
        json_object_end(&j);
        cli_json_end(t->cli, &j);
}
