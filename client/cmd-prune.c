/* SPDX-License-Identifier: MIT */
/*
 * Closes what nobody uses any more.
 *
 * 1. Nothing is closed without --yes: else what would be closed is shown. So a rule can be tried, and the same line is
 *    what cron(8) runs, with --yes.
 * 2. At least one of --older, --keep, --empty and --throwaways says what is unused; all that are given have to hold.
 *    --keep N spares the N that were changed last, of those that --match, --tag and the like choose.
 * 3. Whatever the rules say, these stay, and are told: what is pinned, or published, or held by a request; and what
 *    others were forked from that stay. Closing that would lose nothing of the forks, but it is what they were made
 *    from, and will be again: a prepared document is old, and in use.
 * 4. The age of a conversation is the time since it was changed. Forking it, and reading it, is no change.
 */
#include "client/cli-close.h"
#include "client/cli-commands.h"
#include <string.h>

struct node {
        uint64_t id, parent;
        bool has_fork; /* one that stays was made from it */
};
struct prune {
        struct cli *cli;
        struct cli_selection selection;
        struct cli_items items; /* those that --match, --tag and the like choose, by id */
        const char **why; /* [items.n], owned: NULL: it goes; why it stays; "": it is not unused */
        struct node *nodes; /* owned: all conversations, by id */
        size_t n_nodes, capacity;
        bool *spared; /* [items.n], owned: by --keep */
};

static int no_memory(struct cli *cli) {
        return cli_error(cli, CLI_FAILED, CONFAB_NO_MEMORY, "no memory for the list");
}

/* ---- which ones ---- */

static const char *why_kept(const struct cli_item *item) {
        return item->pinned        ? "it is pinned"
               : item->n_published ? "it is published"
               : item->busy        ? "it is in use"
                                   : NULL;
}

/* Rule 2, but for --keep. */
static bool is_unused(struct prune *p, const struct cli_item *item, uint64_t older_usec) {
        if (older_usec && item->updated_usec >= older_usec)
                return false;
        if (cli_get(p->cli, "empty") && item->n_turns > 0)
                return false;
        return !cli_get(p->cli, "throwaways") || item->expires_after > 0;
}

static size_t find_item(const struct prune *p, uint64_t id) {
        size_t from = 0, to = p->items.n;

        while (from < to) {
                size_t mid = from + (to - from) / 2;

                if (p->items.items[mid].id < id)
                        from = mid + 1;
                else
                        to = mid;
        }
        return from < p->items.n && p->items.items[from].id == id ? from : SIZE_MAX;
}

/* Which ones the rules choose, each by itself. */
static int choose(struct prune *p, uint64_t older_usec) {
        const struct cli_value *keep = cli_get(p->cli, "keep");
        size_t n = p->items.n;
        uint64_t *latest = calloc(n + 1, sizeof(*latest));

        p->why = calloc(n + 1, sizeof(*p->why));
        p->spared = calloc(n + 1, sizeof(*p->spared));
        if (!latest || !p->why || !p->spared) {
                free(latest);
                return no_memory(p->cli);
        }
        cli_items_sort(&p->items, CLI_SORT_UPDATED);
        for (size_t i = 0; i < n; i++)
                latest[i] = p->items.items[i].id;
        cli_items_sort(&p->items, CLI_SORT_ID);
        for (size_t i = 0; keep && i < n && i < keep->u; i++)
                p->spared[find_item(p, latest[i])] = true;
        for (size_t i = 0; i < n; i++) {
                const struct cli_item *item = &p->items.items[i];

                p->why[i] = p->spared[i] || !is_unused(p, item, older_usec) ? "" : why_kept(item);
        }
        free(latest);
        return 0;
}

/* ---- forks ---- */

static int add_node(void *userdata, const struct confab_conversation *c) {
        struct prune *p = userdata;

        if (p->n_nodes == p->capacity) {
                size_t capacity = p->capacity ? 2 * p->capacity : 64;
                struct node *grown = reallocarray(p->nodes, capacity, sizeof(*grown));

                if (!grown)
                        return no_memory(p->cli);
                p->nodes = grown;
                p->capacity = capacity;
        }
        p->nodes[p->n_nodes++] = (struct node){.id = c->id, .parent = c->parent};
        return 0;
}

static int compare_nodes(const void *x, const void *y) {
        const struct node *a = x, *b = y;

        return (a->id > b->id) - (a->id < b->id);
}

/* Rule 3's last part. A parent's id is smaller than its forks': so from the end, each is decided before its parent. */
static void spare_parents(struct prune *p) {
        for (size_t k = p->n_nodes; k-- > 0;) {
                const struct node *node = &p->nodes[k], key = {.id = node->parent};
                size_t i = find_item(p, node->id);
                struct node *parent;

                if (i != SIZE_MAX && !p->why[i] && node->has_fork)
                        p->why[i] = "conversations that stay were forked from it";
                if (i != SIZE_MAX && !p->why[i])
                        continue;
                parent = bsearch(&key, p->nodes, p->n_nodes, sizeof(key), compare_nodes);
                if (parent)
                        parent->has_fork = true;
        }
}

/* ---- closing ---- */

static int close_them(struct prune *p, bool dry_run) {
        _cleanup_(cli_close_deinit) struct cli_close x;
        size_t n_go = 0;
        int status = 0;

        cli_close_init(&x, p->cli, dry_run, true);
        x.keeps = true;
        for (size_t i = 0; i < p->items.n && status == 0; i++) {
                const struct cli_item *item = &p->items.items[i];

                n_go += !p->why[i];
                if (!p->why[i])
                        status = cli_close_item(&x, item);
                else if (*p->why[i])
                        cli_close_kept(&x, item, p->why[i]);
        }
        if (status)
                return status;
        status = cli_close_end(&x);
        if (n_go > 0 && dry_run && !p->cli->json && !cli_get(p->cli, "dry-run"))
                cli_complain(p->cli, "nothing was closed: --yes does it");
        return status;
}

static int prune(struct prune *p) {
        uint64_t older_usec = p->selection.older_usec;
        int status;

        p->selection.older_usec = 0; /* those that --keep spares may be younger */
        status = cli_select(p->cli, &p->selection, &p->items);
        if (status == 0)
                status = choose(p, older_usec);
        if (status == 0) /* later than the others: so that no fork is missed */
                status = cli_list_each(p->cli, false, add_node, p);
        if (status)
                return status;
        spare_parents(p);
        return close_them(p, !cli_get(p->cli, "yes") || cli_get(p->cli, "dry-run"));
}

static int run(struct cli *cli) {
        const char **patterns = calloc(cli->n_values + 1, sizeof(*patterns));
        struct prune p = {.cli = cli};
        const struct cli_value *v;
        size_t it = 0, n = 0;
        int status;

        if (!patterns)
                return no_memory(cli);
        while ((v = cli_get_each(cli, "match", &it)))
                patterns[n++] = v->s;
        if (!cli_get(cli, "older") && !cli_get(cli, "keep") && !cli_get(cli, "empty") &&
                !cli_get(cli, "throwaways"))
                status = cli_usage(
                        cli, "what is unused? --older AGE, --keep N, --empty or --throwaways");
        else
                status = cli_selection_init(&p.selection, cli, patterns, n);
        if (status == 0)
                status = prune(&p);
        cli_selection_deinit(&p.selection);
        cli_items_deinit(&p.items);
        free(p.why);
        free(p.spared);
        free(p.nodes);
        free(patterns);
        return status;
}

static const struct cli_option options[] = {
        {"keep", "N", CLI_UINT, .letter = 'k', .max_uint = UINT32_MAX,
                .help = "spare the N that were changed last",
                .more = "Of those that --match, --tag and the like choose, whatever their age."},
        {"empty", NULL, CLI_FLAG, .help = "only those without any turn"},
        {"throwaways", NULL, CLI_FLAG, .help = "only those that are to be thrown away",
                .more = "See --expires of 'confab set'."},
        {"match", "PATTERN", CLI_STRING, .repeat = true,
                .help = "only those with such a name; a glob, quoted from the shell"},
        {"yes", NULL, CLI_FLAG, .letter = 'y', .help = "close them; else they are only shown"},
        {"dry-run", NULL, CLI_FLAG, .letter = 'n',
                .help = "only show them, whatever else is given"},
        {.name = NULL},
};

const struct cli_command cmd_prune = {
        .name = "prune",
        .args = "",
        .purpose = CLI_PURPOSE_KEEP,
        .summary = "Close the conversations that nobody uses any more",
        .help = "--older, --keep, --empty and --throwaways say what is unused; one is needed, and "
                "all that are "
                "given have to hold. Without --yes nothing is closed, only shown.\n\n"
                "Whatever they say, a conversation stays that is pinned, published or in use, and "
                "one from which others were forked that stay; that is told.",
        .examples = "confab prune --older 30d --keep 20\n"
                    "confab prune --older 30d --keep 20 --yes",
        .see = "close ls",
        .options = {options, cli_selection_options},
        .run = run,
};
