/* SPDX-License-Identifier: MIT */
/*
 * States. A grammar that calls rules needs a stack; one that is ambiguous for a while has several
 * parses at once. So a state is a set of parses, each a node that reads the next byte, with a stack
 * of calls. Equal stacks are stored once, as cells, and equal sets once: a state is a number, and
 * the step from a state by a class of bytes is looked up in a table that is filled as steps are
 * taken.
 *
 * 1. A set is a function of the grammar and the bytes so far: the tables only remember.
 * 2. All tables have fixed sizes. When one is full, space_compact() forgets all states except those
 *    that the caller is using and those that masks belong to.
 * 3. A parse whose stack would be deeper than SPACE_MAX_DEPTH is not followed, so no text nests
 *    deeper. A call that is the last thing of its rule pushes nothing: the tails of lists do not
 *    nest.
 * 4. More than SPACE_MAX_PARSES parses are an error.
 * 5. A round of a loop that read nothing does not count and does not go on: so a step always ends.
 *    `pushed` counts the cells on top of a stack that were pushed since the last byte; a return
 *    through one of these has read nothing.
 */
#include "grammar/space.h"
#include "base/err.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

#define MAX_TODO 2048u /* ways that a closure still has to follow */
#define MAX_SEEN 8192u /* a power of two */

/* --- tables --- */

static void sizes(struct space *s, size_t size, uint32_t n_classes) {
        s->max_cells = (uint32_t)(size / 8 / sizeof(struct cell));
        s->max_parses = (uint32_t)(size / 8 / sizeof(struct parse));
        s->max_sets = (uint32_t)(size / 8 / sizeof(struct set));
        s->max_steps = (uint32_t)(size / 2 / sizeof(uint32_t));
        s->max_steps -= s->max_steps % n_classes;
        s->n_heads = 64;
        while (s->n_heads * 2 * sizeof(uint32_t) <= size / 16)
                s->n_heads *= 2;
}

size_t space_size(size_t size) {
        return size + SPACE_MAX_PARSES * sizeof(struct parse) +
               (MAX_TODO + MAX_SEEN) * sizeof(struct todo) + 1024;
}

static void clear(struct space *s) {
        memset(s->cell_heads, 0, s->n_heads * sizeof(*s->cell_heads));
        memset(s->set_heads, 0, s->n_heads * sizeof(*s->set_heads));
}

int space_init(struct space *s, const struct program *p, size_t size, struct err *e) {
        *s = (struct space){.program = p};
        sizes(s, size, p->n_classes);
        s->cells = malloc(s->max_cells * sizeof(*s->cells));
        s->sets = malloc(s->max_sets * sizeof(*s->sets));
        s->parses = malloc(s->max_parses * sizeof(*s->parses));
        s->steps = malloc((s->max_steps + 1) * sizeof(*s->steps));
        s->cell_heads = calloc(s->n_heads, sizeof(*s->cell_heads));
        s->set_heads = calloc(s->n_heads, sizeof(*s->set_heads));
        s->out = malloc(SPACE_MAX_PARSES * sizeof(*s->out));
        s->todo = malloc(MAX_TODO * sizeof(*s->todo));
        s->seen = calloc(MAX_SEEN, sizeof(*s->seen));
        if (!s->cells || !s->sets || !s->parses || !s->steps || !s->cell_heads || !s->set_heads ||
                !s->out || !s->todo || !s->seen) {
                space_deinit(s);
                return err_set(e, ERR_NOMEM, "no memory for a grammar");
        }
        s->n_cells = N_FIXED_CELLS;
        s->n_sets = N_FIXED_SETS;
        memset(s->cells, 0, N_FIXED_CELLS * sizeof(*s->cells));
        memset(s->sets, 0, N_FIXED_SETS * sizeof(*s->sets));
        s->epoch = 1;
        return 0;
}

void space_deinit(struct space *s) {
        free(s->cells);
        free(s->sets);
        free(s->parses);
        free(s->steps);
        free(s->cell_heads);
        free(s->set_heads);
        free(s->out);
        free(s->todo);
        free(s->seen);
        *s = (struct space){0};
}

static uint32_t mix(uint32_t h, uint32_t x) {
        uint64_t p = (uint64_t)(h ^ x) * 0x9E3779B97F4A7C15u;

        return (uint32_t)(p >> 32) ^ (uint32_t)p;
}

static uint32_t cell_hash(const struct cell *c) {
        return mix(mix(mix(mix(1, c->node), c->need), c->left), c->parent);
}

uint32_t space_cell(struct space *s, uint32_t node, uint32_t need, uint32_t left, uint32_t parent) {
        struct cell c = {node, need, left, parent, s->cells[parent].depth + 1, 0};
        uint32_t *head = &s->cell_heads[cell_hash(&c) & (s->n_heads - 1)];

        for (uint32_t i = *head; i != 0; i = s->cells[i].link) {
                const struct cell *k = &s->cells[i];

                if (k->node == node && k->need == need && k->left == left && k->parent == parent)
                        return i;
        }
        if (s->n_cells == s->max_cells) {
                s->full = true;
                return UINT32_MAX;
        }
        c.link = *head;
        *head = s->n_cells;
        s->cells[s->n_cells] = c;
        return s->n_cells++;
}

static int compare_parses(const void *a, const void *b) {
        const struct parse *x = a, *y = b;

        if (x->node != y->node)
                return x->node < y->node ? -1 : 1;
        return x->cell < y->cell ? -1 : x->cell > y->cell;
}

static uint32_t set_hash(const struct parse *p, uint32_t n, uint32_t flags) {
        uint32_t h = mix(2, flags);

        for (uint32_t i = 0; i < n; i++)
                h = mix(mix(h, p[i].node), p[i].cell);
        return h;
}

uint32_t space_intern(struct space *s, struct parse *p, uint32_t n, uint32_t flags) {
        uint32_t h, *head, m = 0;

        if (n > 1)
                qsort(p, n, sizeof(*p), compare_parses);
        for (uint32_t i = 0; i < n; i++)
                if (m == 0 || compare_parses(&p[m - 1], &p[i]) != 0)
                        p[m++] = p[i];
        if (m == 0 && flags == 0)
                return STEP_DEAD;
        h = set_hash(p, m, flags);
        head = &s->set_heads[h & (s->n_heads - 1)];
        for (uint32_t i = *head; i != 0; i = s->sets[i].link) {
                const struct set *k = &s->sets[i];

                if (k->hash == h && k->n == m && k->flags == flags &&
                        (m == 0 || memcmp(s->parses + k->first, p, m * sizeof(*p)) == 0))
                        return i;
        }
        if (s->n_sets == s->max_sets || s->max_parses - s->n_parses < m) {
                s->full = true;
                return STEP_UNKNOWN;
        }
        s->sets[s->n_sets] = (struct set){
                .first = s->n_parses, .n = m, .flags = flags, .hash = h, .link = *head};
        if (m > 0)
                memcpy(s->parses + s->n_parses, p, m * sizeof(*p));
        for (uint32_t i = 0; i < m; i++)
                s->sets[s->n_sets].depth = MAX(s->sets[s->n_sets].depth, s->cells[p[i].cell].depth);
        s->n_parses += m;
        *head = s->n_sets;
        return s->n_sets++;
}

/* --- closures --- */

static void closure_begin(struct space *s) {
        s->n_out = s->out_flags = s->n_todo = s->n_seen = 0;
        s->full = s->overflow = false;
        if (++s->stamp == 0) {
                memset(s->seen, 0, MAX_SEEN * sizeof(*s->seen));
                s->stamp = 1;
        }
}

/* Follow the way at @node with the stack @cell, unless that was done. */
static void follow(struct space *s, uint32_t node, uint32_t cell, uint32_t pushed) {
        uint32_t i = mix(mix(mix(3, node), cell), pushed) & (MAX_SEEN - 1);

        for (; s->seen[i].stamp == s->stamp; i = (i + 1) & (MAX_SEEN - 1))
                if (s->seen[i].node == node && s->seen[i].cell == cell &&
                        s->seen[i].pushed == pushed)
                        return;
        if (s->n_seen == MAX_SEEN / 2 || s->n_todo == MAX_TODO) {
                s->overflow = true;
                return;
        }
        s->n_seen++;
        s->seen[i] = s->todo[s->n_todo++] = (struct todo){node, cell, pushed, s->stamp};
}

static void push(struct space *s, uint32_t node, uint32_t need, uint32_t left, uint32_t parent,
        uint32_t pushed, uint32_t to) {
        uint32_t cell;

        if (s->cells[parent].depth >= SPACE_MAX_DEPTH)
                return; /* rule 3 */
        cell = space_cell(s, node, need, left, parent);
        if (cell != UINT32_MAX)
                follow(s, to, cell, pushed + 1);
}

/* Before a round of a loop: @need rounds must and @left may follow. */
static void enter_loop(struct space *s, uint32_t node, uint32_t need, uint32_t left,
        uint32_t parent, uint32_t pushed) {
        const struct node *k = &s->program->nodes[node];

        if (need == 0)
                follow(s, k->next, parent, pushed);
        if (left > 0)
                push(s, node, need ? need - 1 : 0, left == PROGRAM_ENDLESS ? left : left - 1,
                        parent, pushed, s->program->loops[k->a].body);
}

static void follow_return(struct space *s, uint32_t cell, uint32_t pushed) {
        const struct cell *c = &s->cells[cell];

        if (cell == CELL_ROOT)
                s->out_flags |= SET_ACCEPTS;
        else if (cell == CELL_BASE)
                s->out_flags |= SET_RETURNS;
        else if (s->program->nodes[c->node].kind == NODE_CALL)
                follow(s, s->program->nodes[c->node].next, c->parent, pushed ? pushed - 1 : 0);
        else if (pushed == 0) /* rule 5 */
                enter_loop(s, c->node, c->need, c->left, c->parent, 0);
}

static void closure_run(struct space *s) {
        while (s->n_todo > 0 && !s->full && !s->overflow) {
                struct todo t = s->todo[--s->n_todo];
                const struct node *k = &s->program->nodes[t.node];

                switch (k->kind) {
                case NODE_BYTES:
                        if (s->n_out == SPACE_MAX_PARSES)
                                s->overflow = true;
                        else
                                s->out[s->n_out++] = (struct parse){t.node, t.cell};
                        break;
                case NODE_SPLIT:
                        follow(s, k->a, t.cell, t.pushed);
                        follow(s, k->next, t.cell, t.pushed);
                        break;
                case NODE_CALL:
                        if (k->next == PROGRAM_RET)
                                follow(s, k->a, t.cell, t.pushed);
                        else
                                push(s, t.node, 0, 0, t.cell, t.pushed, k->a);
                        break;
                case NODE_LOOP:
                        enter_loop(s, t.node, s->program->loops[k->a].min,
                                s->program->loops[k->a].max, t.cell, t.pushed);
                        break;
                case NODE_RET:
                        follow_return(s, t.cell, t.pushed);
                        break;
                }
        }
}

static uint32_t closure_end(struct space *s) {
        closure_run(s);
        if (s->full || s->overflow)
                return STEP_UNKNOWN;
        return space_intern(s, s->out, s->n_out, s->out_flags);
}

uint32_t space_start(struct space *s) {
        closure_begin(s);
        follow(s, s->program->start, CELL_ROOT, 0);
        return closure_end(s);
}

uint32_t space_return(struct space *s, uint32_t cell) {
        closure_begin(s);
        follow_return(s, cell, 0);
        return closure_end(s);
}

static uint32_t *steps_of(struct space *s, uint32_t set) {
        struct set *k = &s->sets[set];
        uint32_t n = s->program->n_classes;

        if (k->steps == 0) {
                if (s->max_steps - s->n_steps < n)
                        return NULL;
                memset(s->steps + s->n_steps, 0, n * sizeof(*s->steps));
                k->steps = s->n_steps + 1;
                s->n_steps += n;
        }
        return s->steps + k->steps - 1;
}

uint32_t space_step(struct space *s, uint32_t set, uint32_t class) {
        const struct program *p = s->program;
        uint32_t *row = steps_of(s, set), first = s->sets[set].first, n = s->sets[set].n, to;

        if (!row) {
                s->full = true;
                s->overflow = false;
                return STEP_UNKNOWN;
        }
        if (row[class] != STEP_UNKNOWN)
                return row[class];
        closure_begin(s);
        for (uint32_t i = 0; i < n; i++) {
                struct parse at = s->parses[first + i];
                const struct node *k = &p->nodes[at.node];

                if (byte_set_has(&p->sets[k->a], p->byte_of[class]))
                        follow(s, k->next, at.cell, 0);
        }
        to = closure_end(s);
        row[class] = to;
        return to;
}

/* --- compacting --- */

static void keep_cells(struct space *s, const struct set *k) {
        for (uint32_t i = 0; i < k->n; i++)
                for (uint32_t c = s->parses[k->first + i].cell;
                        c >= N_FIXED_CELLS && s->cells[c].link == 0; c = s->cells[c].parent)
                        s->cells[c].link = 1;
}

/* Number the cells that stay, and move them down. Parents come first. */
static void move_cells(struct space *s) {
        uint32_t n = N_FIXED_CELLS;

        s->cells[CELL_ROOT].link = CELL_ROOT;
        for (uint32_t i = N_FIXED_CELLS; i < s->n_cells; i++) {
                struct cell c = s->cells[i];

                if (c.link == 0)
                        continue;
                c.parent = c.parent < N_FIXED_CELLS ? c.parent : s->cells[c.parent].link;
                s->cells[i].link = n;
                /* The moved cell must not hide the new number of the cell in its place. */
                s->cells[n].node = c.node;
                s->cells[n].need = c.need;
                s->cells[n].left = c.left;
                s->cells[n].parent = c.parent;
                s->cells[n].depth = c.depth;
                n++;
        }
}

static uint32_t new_cell(const struct space *s, uint32_t cell) {
        return cell < N_FIXED_CELLS ? cell : s->cells[cell].link;
}

static void move_sets(struct space *s, uint32_t *ids, uint32_t n_ids) {
        uint32_t n = N_FIXED_SETS, n_parses = 0;

        for (uint32_t i = N_FIXED_SETS; i < s->n_sets; i++)
                if (s->sets[i].live)
                        s->sets[i].link = n++;
        for (uint32_t i = 0; i < n_ids; i++)
                if (ids[i] >= N_FIXED_SETS)
                        ids[i] = s->sets[ids[i]].link;
        n = N_FIXED_SETS;
        for (uint32_t i = N_FIXED_SETS; i < s->n_sets; i++) {
                struct set k = s->sets[i];

                if (!k.live)
                        continue;
                for (uint32_t j = 0; j < k.n; j++) {
                        struct parse p = s->parses[k.first + j];

                        p.cell = new_cell(s, p.cell);
                        s->parses[n_parses + j] = p;
                }
                k.first = n_parses;
                k.hash = set_hash(s->parses + n_parses, k.n, k.flags);
                k.steps = 0;
                k.live = false;
                n_parses += k.n;
                s->sets[n++] = k;
        }
        s->n_sets = n;
        s->n_parses = n_parses;
}

static void rebuild_heads(struct space *s, uint32_t n_cells) {
        clear(s);
        s->n_cells = n_cells;
        for (uint32_t i = N_FIXED_CELLS; i < s->n_cells; i++) {
                uint32_t *head = &s->cell_heads[cell_hash(&s->cells[i]) & (s->n_heads - 1)];

                s->cells[i].link = *head;
                *head = i;
        }
        for (uint32_t i = N_FIXED_SETS; i < s->n_sets; i++) {
                uint32_t *head = &s->set_heads[s->sets[i].hash & (s->n_heads - 1)];

                s->sets[i].link = *head;
                *head = i;
        }
        s->cells[CELL_ROOT].link = 0;
}

void space_compact(struct space *s, uint32_t *ids, uint32_t n, uint32_t *cells, uint32_t n_cells) {
        uint32_t n_kept = N_FIXED_CELLS;

        for (uint32_t i = 0; i < s->n_cells; i++)
                s->cells[i].link = 0;
        for (uint32_t i = N_FIXED_SETS; i < s->n_sets; i++)
                s->sets[i].live = s->sets[i].mask != 0;
        for (uint32_t i = 0; i < n; i++)
                if (ids[i] >= N_FIXED_SETS)
                        s->sets[ids[i]].live = true;
        for (uint32_t i = N_FIXED_SETS; i < s->n_sets; i++)
                if (s->sets[i].live)
                        keep_cells(s, &s->sets[i]);
        for (uint32_t i = 0; i < n_cells; i++)
                for (uint32_t c = cells[i]; c >= N_FIXED_CELLS && s->cells[c].link == 0;
                        c = s->cells[c].parent)
                        s->cells[c].link = 1;
        for (uint32_t i = N_FIXED_CELLS; i < s->n_cells; i++)
                n_kept += s->cells[i].link != 0;
        move_cells(s);
        for (uint32_t i = 0; i < n_cells; i++)
                cells[i] = new_cell(s, cells[i]);
        move_sets(s, ids, n);
        rebuild_heads(s, n_kept);
        s->n_steps = 0;
        s->epoch++;
        s->n_compactions++;
}
