/* SPDX-License-Identifier: MIT */
/*
 * Programs to tables. A state is the ordered list of the instructions at which a backtracking
 * engine might be between two characters, the preferred one first.
 *
 * 1. From a state, with the class of the next character known, the instructions are followed in
 *    order. One that consumes the character goes into the next state's list. When the end of the
 *    program is reached, a match ends before this character, and what is preferred less is dropped.
 * 2. So whether a match ends at a place is known one character later; the end of the text counts as
 *    one more class. That is also how (?!X) sees the next character.
 * 3. (?<!X) is only at the beginning, so it only decides with which list a match begins: there is a
 *    first state for each class of the character before.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/map.h"
#include "base/util.h"
#include "tok/regex.h"

struct builder {
        const struct regex_compiler *c;
        const struct regex_classes *k;
        struct regex_table *t;
        struct map *numbers; /* list -> number of the state + 1 */
        uint32_t **lists;    /* [REGEX_MAX_STATES], each with its length in front */
        size_t n_states;
        uint32_t *seen; /* [n_code] the step in which an instruction was followed */
        uint32_t step;
        uint32_t *list; /* of the next state, its length in front */
        struct err *e;
};

static void map_freep(struct map **m) {
        map_free(*m);
}

static int no_memory(struct builder *b) {
        return err_set(b->e, ERR_NOMEM, "out of memory for a pre-tokenizer");
}

/* The state of b->list, or a negative error. */
static int state_of(struct builder *b) {
        size_t size = (b->list[0] + 1) * sizeof(*b->list);
        void *found = map_get(b->numbers, b->list, size);
        uint32_t *list;
        int r;

        if (found)
                return (int)((uintptr_t)found - 1);
        if (b->n_states == REGEX_MAX_STATES)
                return err_set(b->e, ERR_UNSUPPORTED, "a pre-tokenizer's rule has too many states");
        list = malloc(size);
        if (!list)
                return no_memory(b);
        memcpy(list, b->list, size);
        b->lists[b->n_states] = list;
        r = map_add(b->numbers, list, size, (void *)(uintptr_t)(b->n_states + 1), b->e);
        return r < 0 ? r : (int)b->n_states++;
}

static bool class_in(const struct builder *b, unsigned class, uint32_t set) {
        return class < b->k->n && b->c->members[class] >> set & 1;
}

static void add(struct builder *b, uint32_t at) {
        b->list[++b->list[0]] = at;
}

/* Follow the instruction @at, the next character being of @class. False: the match ends here. */
static bool follow(struct builder *b, uint32_t at, unsigned class) {
        for (;;) {
                const struct regex_code *code = &b->c->code[at];

                if (b->seen[at] == b->step)
                        return true;
                b->seen[at] = b->step;
                switch (code->op) {
                case REGEX_SET:
                        if (class_in(b, class, code->x))
                                add(b, at + 1);
                        return true;
                case REGEX_SPLIT:
                        if (!follow(b, code->x, class))
                                return false;
                        at = code->y;
                        break;
                case REGEX_JUMP:
                        at = code->x;
                        break;
                case REGEX_NOT_NEXT:
                        if (class_in(b, class, code->x))
                                return true;
                        at++;
                        break;
                case REGEX_NOT_BEFORE: /* never here: follow_start() */
                        return true;
                case REGEX_MATCH:
                        return false;
                }
        }
}

/* Collect the instructions that come first, the character before being of the class @before. */
static void follow_start(struct builder *b, uint32_t at, unsigned before) {
        for (;;) {
                const struct regex_code *code = &b->c->code[at];

                if (b->seen[at] == b->step)
                        return;
                b->seen[at] = b->step;
                switch (code->op) {
                case REGEX_SPLIT:
                        follow_start(b, code->x, before);
                        at = code->y;
                        break;
                case REGEX_JUMP:
                        at = code->x;
                        break;
                case REGEX_NOT_BEFORE:
                        if (class_in(b, before, code->x))
                                return;
                        at++;
                        break;
                default:
                        add(b, at);
                        return;
                }
        }
}

static int build_starts(struct builder *b, uint32_t program) {
        for (unsigned before = 0; before < b->t->n_columns; before++) {
                int state;

                b->step++;
                b->list[0] = 0;
                follow_start(b, program, before);
                state = state_of(b);
                if (state < 0)
                        return state;
                b->t->start[before] = (uint16_t)state;
        }
        return 0;
}

static int build_row(struct builder *b, size_t state) {
        struct regex_table *t = b->t;
        uint16_t *row = t->next + state * t->n_columns;
        const uint32_t *from = b->lists[state];

        for (unsigned class = 0; class < t->n_columns; class ++) {
                bool matched = false;
                int next;

                b->step++;
                b->list[0] = 0;
                for (uint32_t i = 1; !matched && i <= from[0]; i++)
                        matched = !follow(b, from[i], class);
                next = state_of(b);
                if (next < 0)
                        return next;
                row[class] = (uint16_t)((unsigned)next | (matched ? REGEX_MATCHED : 0));
        }
        return 0;
}

static int build(struct builder *b, uint32_t program) {
        struct regex_table *t = b->t;
        size_t capacity = 0;
        int r;

        b->list[0] = 0;
        r = state_of(b); /* REGEX_DEAD */
        if (r >= 0)
                r = build_starts(b, program);
        for (size_t state = 0; r >= 0 && state < b->n_states; state++) {
                if (state == capacity) {
                        uint16_t *p;

                        capacity = capacity * 2 + 64;
                        p = realloc(t->next, capacity * t->n_columns * sizeof(*p));
                        if (!p)
                                return no_memory(b);
                        t->next = p;
                }
                r = build_row(b, state);
        }
        return r;
}

int regex_table_build(struct regex_table *t, const struct regex_compiler *c,
        const struct regex_classes *k, uint32_t program, struct err *e) {
        _cleanup_(map_freep) struct map *numbers = NULL;
        _cleanup_(freep) uint32_t **lists = calloc(REGEX_MAX_STATES, sizeof(*lists));
        _cleanup_(freep) uint32_t *seen = calloc(c->n_code, sizeof(*seen));
        _cleanup_(freep) uint32_t *list = calloc(c->n_code + 2, sizeof(*list));
        struct builder b = {
                .c = c, .k = k, .t = t, .lists = lists, .seen = seen, .list = list, .e = e};
        int r = map_new(&numbers, e);

        b.numbers = numbers;
        t->n_columns = k->n + 1;
        t->start = calloc(t->n_columns, sizeof(*t->start));
        if (r >= 0 && (!lists || !seen || !list || !t->start))
                r = no_memory(&b);
        if (r >= 0)
                r = build(&b, program);
        for (size_t i = 0; lists && i < REGEX_MAX_STATES && lists[i]; i++)
                free(lists[i]);
        return r < 0 ? r : 0;
}

void regex_table_deinit(struct regex_table *t) {
        free(t->next);
        free(t->start);
        *t = (struct regex_table){0};
}
