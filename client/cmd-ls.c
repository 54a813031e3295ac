/* SPDX-License-Identifier: MIT */
/*
 * The table is as wide as its contents; --json is the form for programs, --names the one for scripts. What the
 * list has is copied, ordered, and then printed: 10,000 conversations take some megabytes for a moment.
 */
#include "base/clock.h"
#include "client/cli-commands.h"
#include "client/cli-select.h"
#include <string.h>

enum column {
        COL_ID,
        COL_OWNER, /* with --all */
        COL_NAME,
        COL_STATE,
        COL_TOKENS,
        COL_TURNS,
        COL_RAM,
        COL_DISK,
        COL_AGE,
        COL_TITLE, /* if a conversation has one */
        COL_NOTE,  /* likewise */
        N_COLUMNS
};

#define NOTE_SIZE 80
#define TITLE_WIDTH 40 /* characters; what is longer is cut */

struct row {
        char *cells[N_COLUMNS];
};
struct table {
        struct cli *cli;
        bool all, shown[N_COLUMNS];
        struct row *rows; /* owned */
        size_t n_rows;
        uint64_t now_usec;
};

static const char *const titles[N_COLUMNS] = {
        "ID", "OWNER", "NAME", "STATE", "TOKENS", "TURNS", "RAM", "DISK", "AGE", "TITLE", "NOTE"};

/* A name as it will be shown. */
static char *shown_name(struct cli *cli, const char *name) {
        struct buf b = BUF_NULL;
        char *s = NULL;

        if ((cli->out_tty ? safe_append(&b, name, strlen(name), false)
                          : buf_append_str(&b, name)) == 0)
                s = buf_take(&b, NULL);
        buf_deinit(&b);
        return s;
}

/* The beginning of a title, as it will be shown. */
static char *shown_title(struct cli *cli, const char *title) {
        size_t n = 0, n_characters = 0;
        char cut[4 * TITLE_WIDTH + 8];

        for (; title[n] && n + 8 < sizeof(cut); n++) {
                n_characters += ((unsigned char)title[n] & 0xc0) != 0x80;
                if (n_characters > TITLE_WIDTH)
                        break;
        }
        snprintf(cut, sizeof(cut), "%.*s%s", (int)n, title, title[n] ? "..." : "");
        return shown_name(cli, cut);
}

/* Whether it is pinned, and what of it is of another model. */
static void fill_note(char note[NOTE_SIZE], const struct cli_item *c) {
        const char *pinned = c->pinned ? "pinned" : "";
        const char *sep = c->pinned ? "; " : "";
        char size[16];

        if (c->other_vocabulary)
                snprintf(note, NOTE_SIZE, "%s%smade with another model: confab carry NAME", pinned,
                        sep);
        else if (c->unusable_size > 0)
                snprintf(note, NOTE_SIZE, "%s%s%s on disk are of another model: computed again",
                        pinned, sep, human_size(size, c->unusable_size));
        else
                snprintf(note, NOTE_SIZE, "%s", pinned);
}

static int fill_row(struct table *t, struct row *row, const struct cli_item *c) {
        char number[N_COLUMNS][24], size[16], owner[CLI_OWNER_SIZE] = "", note[NOTE_SIZE];

        snprintf(number[COL_ID], 24, "%llu", (unsigned long long)c->id);
        snprintf(number[COL_STATE], 24, "%s%s", confab_residency_name(c->residency),
                c->busy ? "*" : "");
        snprintf(number[COL_TOKENS], 24, "%u", c->n_tokens);
        snprintf(number[COL_TURNS], 24, "%u", c->n_turns);
        snprintf(number[COL_RAM], 24, "%s", human_size(size, c->ram_size));
        snprintf(number[COL_DISK], 24, "%s", human_size(size, c->disk_size));
        snprintf(number[COL_AGE], 24, "%s", human_age(size, c->updated_usec, t->now_usec));
        if (t->all)
                cli_owner_name(owner, c->uid, c->tenant);
        fill_note(note, c);
        for (size_t i = 0; i < N_COLUMNS; i++) {
                row->cells[i] = i == COL_NAME    ? shown_name(t->cli, c->name)
                                : i == COL_OWNER ? shown_name(t->cli, owner)
                                : i == COL_TITLE ? shown_title(t->cli, c->title ? c->title : "")
                                : i == COL_NOTE  ? strdup(note)
                                                 : strdup(number[i]);
                if (!row->cells[i])
                        return CLI_FAILED;
        }
        t->shown[COL_TITLE] = t->shown[COL_TITLE] || row->cells[COL_TITLE][0];
        t->shown[COL_NOTE] = t->shown[COL_NOTE] || row->cells[COL_NOTE][0];
        return 0;
}

/* The last column that row @k has something in; 0 is the title. */
static size_t last_column(const struct table *t, size_t k) {
        size_t i = N_COLUMNS - 1;

        while (!t->shown[i] || (k && !t->rows[k - 1].cells[i][0]))
                i--;
        return i;
}

static void print_table(struct table *t) {
        size_t widths[N_COLUMNS];

        for (size_t i = 0; i < N_COLUMNS; i++) {
                widths[i] = strlen(titles[i]);
                for (size_t k = 0; k < t->n_rows; k++) {
                        const char *s = t->rows[k].cells[i];

                        widths[i] = MAX(widths[i], safe_width(s, strlen(s)));
                }
        }
        for (size_t k = 0; k <= t->n_rows; k++) {
                size_t last = last_column(t, k);

                for (size_t i = 0; i <= last; i++) {
                        const char *s = k ? t->rows[k - 1].cells[i] : titles[i];
                        int pad = (int)(widths[i] - safe_width(s, strlen(s)));
                        bool left = i == COL_OWNER || i == COL_NAME || i == COL_STATE ||
                                    i == COL_TITLE || i == COL_NOTE;

                        if (!t->shown[i])
                                continue;
                        cli_printf(t->cli, "%*s%s%*s%s", left ? 0 : pad, "", s,
                                left && i < last ? pad : 0, "", i < last ? "  " : "\n");
                }
        }
}

static int show_table(struct cli *cli, const struct cli_items *items, bool all) {
        struct table t = {
                .cli = cli,
                .all = all,
                .now_usec = clock_realtime_usec(),
                .rows = calloc(items->n + 1, sizeof(*t.rows)),
        };
        int status = t.rows ? 0 : CLI_FAILED;

        for (size_t i = 0; i < COL_TITLE; i++)
                t.shown[i] = i != COL_OWNER || all;
        for (; status == 0 && t.n_rows < items->n; t.n_rows++)
                status = fill_row(&t, &t.rows[t.n_rows], &items->items[t.n_rows]);
        if (status == 0)
                print_table(&t);
        else
                cli_complain(cli, "no memory");
        for (size_t k = 0; k < t.n_rows; k++)
                for (size_t i = 0; i < N_COLUMNS; i++)
                        free(t.rows[k].cells[i]);
        free(t.rows);
        return status;
}

static void show_json(struct cli *cli, const struct cli_items *items) {
        struct json j;

        json_init(&j, &cli->out);
        json_object_begin(&j);
        json_put_key(&j, "conversations");
        json_array_begin(&j);
        for (size_t i = 0; i < items->n; i++)
                json_put_raw(&j, items->items[i].json, strlen(items->items[i].json));
        json_array_end(&j);
        json_object_end(&j);
        cli_json_end(cli, &j);
}

static void show_names(struct cli *cli, const struct cli_items *items, bool null) {
        for (size_t i = 0; i < items->n; i++) {
                cli_name(cli, items->items[i].name);
                cli_text(cli, null ? "" : "\n", 1);
        }
}

static int check_options(struct cli *cli, bool all, bool names) {
        if (names && cli->json)
                return cli_usage(cli, "--names and --json exclude each other");
        if (names && all)
                return cli_usage(cli, "--names goes without --all: a name reaches one's own "
                                      "conversations only");
        if (cli_get(cli, "null") && !names)
                return cli_usage(cli, "--null goes with --names");
        return 0;
}

static int list(struct cli *cli, struct cli_selection *s, struct cli_items *items) {
        const struct cli_value *v = cli_get(cli, "sort");
        bool names = cli_get(cli, "names") != NULL;
        enum cli_sort sort = CLI_SORT_ID;
        int status, unmatched;

        if (v && !cli_sort_parse(v->s, &sort))
                return cli_usage(cli, "--sort takes " CLI_SORT_ARG ", not '%s'", v->s);
        s->all_users = cli_get(cli, "all") != NULL;
        s->want_json = cli->json;
        status = check_options(cli, s->all_users, names);
        if (status == 0)
                status = cli_select(cli, s, items);
        if (status)
                return status;
        unmatched = cli_selection_unmatched(cli, s);
        if (unmatched && (cli->json || items->n == 0))
                return unmatched;
        if (v || !s->search) /* what was searched for comes in an order of its own */
                cli_items_sort(items, sort);
        if (cli_get(cli, "reverse"))
                cli_items_reverse(items);
        if (cli->json)
                show_json(cli, items);
        else if (names)
                show_names(cli, items, cli_get(cli, "null") != NULL);
        else
                status = show_table(cli, items, s->all_users);
        return status ? status : unmatched;
}

static int run(struct cli *cli) {
        struct cli_items items = {0};
        struct cli_selection s;
        int status = cli_selection_init(&s, cli, cli->args, cli->n_args);

        if (status == 0)
                status = list(cli, &s, &items);
        cli_selection_deinit(&s);
        cli_items_deinit(&items);
        return status;
}

static const struct cli_option options[] = {
        {"sort", CLI_SORT_ARG, CLI_STRING, .letter = 's',
                .help = "by id (as without it) or name; or latest, or largest first"},
        {"reverse", NULL, CLI_FLAG, .letter = 'r', .help = "the other way round"},
        {"names", NULL, CLI_FLAG, .help = "only the names, one on each line, for scripts"},
        {"null", NULL, CLI_FLAG, .letter = 'z', .help = "with --names: a NUL behind each instead"},
        {"all", NULL, CLI_FLAG, .letter = 'a', .help = "of all users (for administrators)"},
        {.name = NULL},
};

const struct cli_command cmd_ls = {
        .name = "ls",
        .args = "[NAME|PATTERN...]",
        .max_args = SIZE_MAX,
        .purpose = CLI_PURPOSE_LOOK,
        .summary = "List the conversations",
        .help = "A PATTERN is a glob of names, quoted from the shell: 'trip-*'; '*' fits a slash, "
                "too. One that "
                "fits no name is told, and the exit status is 3.\n\n"
                "The columns are number, name, state, tokens, turns, size in RAM and on disk, and "
                "the time since the last change. STATE is where the memory is: resident, partial, "
                "spilled or cold (only the tokens are kept); a star marks a conversation that is "
                "busy.\n\nTITLE and NOTE are there if one has any. NOTE tells which are pinned, "
                "which were "
                "made with another model, and how much of the memory on disk the present model "
                "cannot use. With --all the owners are named, too: user, or user/tenant.",
        .examples = "confab ls --sort disk --tag work\n"
                    "confab ls --names -z 'trip-*' | xargs -0 -n1 confab evict",
        .see = "show tree log",
        .options = {options, cli_selection_options},
        .run = run,
};
