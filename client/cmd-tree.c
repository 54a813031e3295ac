/* SPDX-License-Identifier: MIT */
/*
 * Forks as a tree. A parent's id is smaller than its children's; a conversation whose parent is
 * gone (or belongs to another user) is a root. So one pass in order of ids builds the tree, and no
 * list from the daemon can make a cycle.
 */
#include "client/cli-commands.h"
#include <langinfo.h>
#include <string.h>

#define NONE SIZE_MAX
/* Deeper chains of forks are drawn at this depth. */
#define MAX_INDENT 100

struct node {
        uint64_t id;
        char *name;
        uint32_t n_tokens, n_turns, fork_pos;
        enum confab_residency residency;
        bool busy;
        uint64_t ram_size, disk_size;
        size_t parent, first_child, last_child, next; /* indices or NONE */
};
struct tree {
        struct cli *cli;
        struct node *nodes; /* ids rise */
        size_t n, capacity;
        size_t first, last; /* roots */
        struct json j;
};
struct glyphs {
        const char *branch, *last, *through, *space;
};

static size_t find(const struct tree *t, uint64_t id) {
        size_t from = 0, to = t->n;

        while (from < to) {
                size_t mid = from + (to - from) / 2;

                if (t->nodes[mid].id == id)
                        return mid;
                if (t->nodes[mid].id < id)
                        from = mid + 1;
                else
                        to = mid;
        }
        return NONE;
}

static int add(void *userdata, const struct confab_conversation *c) {
        struct tree *t = userdata;
        size_t parent = find(t, c->parent), *first, *last;
        char *name = strdup(c->name);

        if (name && t->n == t->capacity) {
                size_t capacity = t->capacity ? 2 * t->capacity : 64;
                struct node *nodes = reallocarray(t->nodes, capacity, sizeof(*nodes));

                if (!nodes) {
                        free(TAKE_PTR(name));
                } else {
                        t->nodes = nodes;
                        t->capacity = capacity;
                }
        }
        if (!name) {
                cli_complain(t->cli, "no memory");
                return CLI_FAILED;
        }
        first = parent == NONE ? &t->first : &t->nodes[parent].first_child;
        last = parent == NONE ? &t->last : &t->nodes[parent].last_child;
        if (*last == NONE)
                *first = t->n;
        else
                t->nodes[*last].next = t->n;
        *last = t->n;
        t->nodes[t->n++] = (struct node){
                .id = c->id,
                .name = name,
                .n_tokens = c->n_tokens,
                .n_turns = c->n_turns,
                .fork_pos = c->fork_pos,
                .residency = c->residency,
                .busy = c->busy,
                .ram_size = c->ram_size,
                .disk_size = c->disk_size,
                .parent = parent,
                .first_child = NONE,
                .last_child = NONE,
                .next = NONE,
        };
        return 0;
}

/* "|  |  `- " before the node: one glyph for each ancestor that is not a root. */
static void draw_indent(struct tree *t, const struct node *n, const struct glyphs *g) {
        const char *parts[MAX_INDENT];
        size_t depth = 0;

        if (n->parent == NONE)
                return;
        parts[depth++] = n->next == NONE ? g->last : g->branch;
        for (n = &t->nodes[n->parent]; n->parent != NONE && depth < MAX_INDENT;
                n = &t->nodes[n->parent])
                parts[depth++] = n->next == NONE ? g->space : g->through;
        while (depth > 0)
                cli_printf(t->cli, "%s", parts[--depth]);
}

/* "partial (1.0M in RAM, 2.1M on disk)"; a star marks a busy one, as in ls. */
static void draw_residency(struct tree *t, const struct node *n) {
        char size[16];

        cli_printf(t->cli, "%s%s", confab_residency_name(n->residency), n->busy ? "*" : "");
        if (n->ram_size)
                cli_printf(t->cli, " (%s in RAM", human_size(size, n->ram_size));
        if (n->disk_size)
                cli_printf(t->cli, "%s%s on disk", n->ram_size ? ", " : " (",
                        human_size(size, n->disk_size));
        cli_printf(t->cli, "%s\n", n->ram_size || n->disk_size ? ")" : "");
}

static void draw_text(struct tree *t, const struct node *n, size_t depth) {
        static const struct glyphs utf8 = {"├─ ", "└─ ", "│  ", "   "},
                                   ascii = {"|- ", "`- ", "|  ", "   "};

        draw_indent(t, n, strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? &utf8 : &ascii);
        cli_name(t->cli, n->name);
        cli_printf(t->cli, " (#%llu)", (unsigned long long)n->id);
        if (n->parent != NONE)
                cli_printf(t->cli, " from token %u", n->fork_pos);
        cli_printf(t->cli, ": %u turn%s, %u token%s, ", n->n_turns, plural_s(n->n_turns),
                n->n_tokens, plural_s(n->n_tokens));
        draw_residency(t, n);
}

static void draw_json(struct tree *t, const struct node *n, size_t depth) {
        struct json *j = &t->j;

        json_object_begin(j);
        json_put_key_u64(j, "id", n->id);
        json_put_key_string(j, "name", n->name);
        json_put_key_u64(j, "parent", n->parent == NONE ? 0 : t->nodes[n->parent].id);
        json_put_key_u64(j, "depth", depth);
        json_put_key_u64(j, "fork_pos", n->fork_pos);
        json_put_key_u64(j, "n_turns", n->n_turns);
        json_put_key_u64(j, "n_tokens", n->n_tokens);
        json_put_key_string(j, "residency", confab_residency_name(n->residency));
        json_put_key_bool(j, "busy", n->busy);
        json_put_key_u64(j, "ram_bytes", n->ram_size);
        json_put_key_u64(j, "disk_bytes", n->disk_size);
        json_object_end(j);
}

/* Parents before children, siblings by id. */
static void walk(struct tree *t, void (*draw)(struct tree *t, const struct node *n, size_t depth)) {
        size_t i = t->first, depth = 0;

        while (i != NONE) {
                draw(t, &t->nodes[i], depth);
                if (t->nodes[i].first_child != NONE) {
                        i = t->nodes[i].first_child;
                        depth++;
                        continue;
                }
                while (i != NONE && t->nodes[i].next == NONE) {
                        i = t->nodes[i].parent;
                        depth--;
                }
                if (i != NONE)
                        i = t->nodes[i].next;
        }
}

static int run(struct cli *cli) {
        struct tree t = {.cli = cli, .first = NONE, .last = NONE};
        int status = cli_list_each(cli, false, add, &t);

        if (status == 0 && cli->json) {
                json_init(&t.j, &cli->out);
                json_object_begin(&t.j);
                json_put_key(&t.j, "conversations");
                json_array_begin(&t.j);
                walk(&t, draw_json);
                json_array_end(&t.j);
                json_object_end(&t.j);
                cli_json_end(cli, &t.j);
        } else if (status == 0) {
                walk(&t, draw_text);
        }
        for (size_t i = 0; i < t.n; i++)
                free(t.nodes[i].name);
        free(t.nodes);
        return status;
}

const struct cli_command cmd_tree = {
        .name = "tree",
        .args = "",
        .purpose = CLI_PURPOSE_LOOK,
        .summary = "Draw which conversation was forked from which",
        .help = "Each with where its memory is, and how much of it: what it shares with others "
                "counts for each. "
                "A star marks one that is busy. A conversation whose parent is closed hangs where "
                "the parent did. With --json it is a flat list, parents before children, with the "
                "depth of each.",
        .see = "ls fork",
        .run = run,
};
