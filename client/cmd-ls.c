/* SPDX-License-Identifier: MIT */
/* The table is as wide as its contents; --json is the form for programs. */
#include "base/clock.h"
#include "client/cli-commands.h"
#include "client/event-json.h"
#include <pwd.h>
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
        COL_NOTE, /* if a conversation has one */
        N_COLUMNS
};

#define NOTE_SIZE 80

struct row {
        char *cells[N_COLUMNS];
};
struct table {
        struct cli *cli;
        bool all, has_notes;
        struct row *rows;
        size_t n_rows, capacity;
        uint64_t now_usec;
        struct json j;
};

static const char *const titles[N_COLUMNS] = {
        "ID", "OWNER", "NAME", "STATE", "TOKENS", "TURNS", "RAM", "DISK", "AGE", "NOTE"};

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

#define OWNER_SIZE 256

/* The user's name, or the number, and the tenant: "alice", "alice/anna". */
static void owner_name(char out[OWNER_SIZE], const struct confab_conversation *c) {
        const struct passwd *p = getpwuid(c->uid);
        char number[16];

        snprintf(number, sizeof(number), "%u", c->uid);
        snprintf(out, OWNER_SIZE, "%s%s%s", p ? p->pw_name : number, c->tenant ? "/" : "",
                c->tenant ? c->tenant : "");
}

/* Whether it is pinned, and what of it is of another model. */
static void fill_note(struct table *t, char note[NOTE_SIZE], const struct confab_conversation *c) {
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
        t->has_notes = t->has_notes || note[0];
}

static int fill_row(struct table *t, struct row *row, const struct confab_conversation *c) {
        char number[N_COLUMNS][24], size[16], owner[OWNER_SIZE] = "", note[NOTE_SIZE];

        snprintf(number[COL_ID], 24, "%llu", (unsigned long long)c->id);
        snprintf(number[COL_STATE], 24, "%s%s", confab_residency_name(c->residency),
                c->busy ? "*" : "");
        snprintf(number[COL_TOKENS], 24, "%u", c->n_tokens);
        snprintf(number[COL_TURNS], 24, "%u", c->n_turns);
        snprintf(number[COL_RAM], 24, "%s", human_size(size, c->ram_size));
        snprintf(number[COL_DISK], 24, "%s", human_size(size, c->disk_size));
        snprintf(number[COL_AGE], 24, "%s", human_age(size, c->updated_usec, t->now_usec));
        if (t->all)
                owner_name(owner, c);
        fill_note(t, note, c);
        for (size_t i = 0; i < N_COLUMNS; i++) {
                row->cells[i] = i == COL_NAME    ? shown_name(t->cli, c->name)
                                : i == COL_OWNER ? shown_name(t->cli, owner)
                                : i == COL_NOTE  ? strdup(note)
                                                 : strdup(number[i]);
                if (!row->cells[i])
                        return CLI_FAILED;
        }
        return 0;
}

static int add_row(void *userdata, const struct confab_conversation *c) {
        struct table *t = userdata;

        if (t->n_rows == t->capacity) {
                size_t capacity = t->capacity ? 2 * t->capacity : 64;
                struct row *rows = reallocarray(t->rows, capacity, sizeof(*rows));

                if (!rows)
                        goto no_memory;
                t->rows = rows;
                t->capacity = capacity;
        }
        t->rows[t->n_rows] = (struct row){0};
        if (fill_row(t, &t->rows[t->n_rows++], c) == 0)
                return 0;
no_memory:
        cli_complain(t->cli, "no memory");
        return CLI_FAILED;
}

static void print_table(struct table *t) {
        size_t widths[N_COLUMNS], n = t->has_notes ? N_COLUMNS : COL_NOTE;

        for (size_t i = 0; i < N_COLUMNS; i++) {
                widths[i] = strlen(titles[i]);
                for (size_t k = 0; k < t->n_rows; k++) {
                        const char *s = t->rows[k].cells[i];

                        widths[i] = MAX(widths[i], safe_width(s, strlen(s)));
                }
        }
        for (size_t k = 0; k <= t->n_rows; k++) {
                size_t end = k && !t->rows[k - 1].cells[COL_NOTE][0] ? COL_NOTE : n;

                for (size_t i = 0; i < end; i++) {
                        const char *s = k ? t->rows[k - 1].cells[i] : titles[i];
                        int pad = (int)(widths[i] - safe_width(s, strlen(s)));
                        bool left =
                                i == COL_OWNER || i == COL_NAME || i == COL_STATE || i == COL_NOTE;

                        if (i == COL_OWNER && !t->all)
                                continue;
                        cli_printf(t->cli, "%*s%s%*s%s", left ? 0 : pad, "", s,
                                left && i + 1 < end ? pad : 0, "", i + 1 < end ? "  " : "\n");
                }
        }
}

static int add_json(void *userdata, const struct confab_conversation *c) {
        struct table *t = userdata;

        json_object_begin(&t->j);
        event_json_conversation(&t->j, c, EVENT_JSON_SEED_NUMBER);
        json_object_end(&t->j);
        return 0;
}

static int run(struct cli *cli) {
        struct table t = {
                .cli = cli,
                .now_usec = clock_realtime_usec(),
                .all = cli_get(cli, "all") != NULL,
        };
        int status;

        if (cli->json) {
                json_init(&t.j, &cli->out);
                json_object_begin(&t.j);
                json_put_key(&t.j, "conversations");
                json_array_begin(&t.j);
                status = cli_list_each(cli, t.all, add_json, &t);
                if (status)
                        return status;
                json_array_end(&t.j);
                json_object_end(&t.j);
                cli_json_end(cli, &t.j);
                return 0;
        }
        status = cli_list_each(cli, t.all, add_row, &t);
        if (status == 0)
                print_table(&t);
        for (size_t k = 0; k < t.n_rows; k++)
                for (size_t i = 0; i < N_COLUMNS; i++)
                        free(t.rows[k].cells[i]);
        free(t.rows);
        return status;
}

static const struct cli_option options[] = {
        {"all", NULL, CLI_FLAG, .letter = 'a', .help = "of all users (root and the admin group)"},
        {.name = NULL},
};

const struct cli_command cmd_ls = {
        .name = "ls",
        .args = "",
        .purpose = CLI_PURPOSE_LOOK,
        .summary = "List the conversations",
        .help = "The columns are number, name, state, tokens, turns, size in RAM and on disk, and "
                "the time since the last turn. STATE is where the memory is: resident, partial, "
                "spilled or cold (only the tokens are kept); a star marks a conversation that is "
                "busy.\n\nNOTE tells which are pinned, which were made with another model, and how "
                "much of the memory on disk the present model cannot use. With --all the owners "
                "are named, too: user, or user/tenant.",
        .see = "show tree",
        .options = {options},
        .run = run,
};
