/* SPDX-License-Identifier: MIT */
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static const char *const arg_names[N_ARGS] = {[ARG_CONV] = "c",
        [ARG_TO] = "to",
        [ARG_UID] = "u",
        [ARG_TEXT] = "t",
        [ARG_WHICH] = "by",
        [ARG_K] = "k",
        [ARG_MAX] = "max",
        [ARG_SEED] = "seed",
        [ARG_TEMP] = "temp",
        [ARG_HOW] = "how",
        [ARG_AFTER] = "after",
        [ARG_FILE] = "f",
        [ARG_BACK] = "back"};

#define SAMPLED                                                                                    \
        [ARG_MAX] = MAX_NEW, [ARG_SEED] = 50, [ARG_TEMP] = 3, [ARG_HOW] = N_TWISTS,                \
        [ARG_AFTER] = 6, [ARG_BACK] = 2, [ARG_WHICH] = N_KEEP_BY, [ARG_K] = 250
/* Each argument is below its limit; 0: not taken. */
static const struct op_type {
        const char *name;
        uint32_t weight;
        uint32_t limit[N_ARGS];
} types[N_OPS] = {
        [OP_OPEN] = {"open", 5, {[ARG_CONV] = N_SLOTS, [ARG_UID] = N_UIDS, [ARG_TEXT] = 8}},
        [OP_SAY] = {"say", 44, {[ARG_CONV] = N_SLOTS, [ARG_TEXT] = 40, SAMPLED}},
        [OP_RAW] = {"raw", 3, {[ARG_CONV] = N_SLOTS, [ARG_TEXT] = 40, SAMPLED}},
        [OP_TOKENS] = {"tokens", 8, {[ARG_CONV] = N_SLOTS, [ARG_TEXT] = 20, SAMPLED}},
        [OP_AGAIN] = {"again", 4, {[ARG_CONV] = N_SLOTS, SAMPLED}},
        [OP_FORK] = {"fork", 8,
                {[ARG_CONV] = N_SLOTS, [ARG_TO] = N_SLOTS, [ARG_WHICH] = BY_DROP, [ARG_K] = 250}},
        [OP_REWIND] = {"rewind", 6, {[ARG_CONV] = N_SLOTS, [ARG_WHICH] = N_KEEP_BY, [ARG_K] = 250}},
        [OP_UPDATE] = {"update", 1, {[ARG_CONV] = N_SLOTS, [ARG_SEED] = 50, [ARG_TEMP] = 3}},
        [OP_CLOSE] = {"close", 3, {[ARG_CONV] = N_SLOTS}},
        [OP_EVICT] = {"evict", 9, {[ARG_CONV] = N_SLOTS}},
        [OP_WARM] = {"warm", 5, {[ARG_CONV] = N_SLOTS, [ARG_BACK] = 2}},
        [OP_PUBLISH] = {"publish", 3, {[ARG_CONV] = N_SLOTS, [ARG_K] = 6}},
        [OP_UNPUBLISH] = {"unpublish", 1, {[ARG_CONV] = N_SLOTS}},
        [OP_PIN] = {"pin", 2, {[ARG_CONV] = N_SLOTS, [ARG_K] = 3}},
        [OP_EXPORT] = {"export", 2, {[ARG_CONV] = N_SLOTS, [ARG_FILE] = N_FILES, [ARG_K] = 2}},
        [OP_IMPORT] = {"import", 2,
                {[ARG_CONV] = N_SLOTS,
                        [ARG_UID] = N_UIDS,
                        [ARG_FILE] = N_FILES,
                        [ARG_K] = N_FILE_AS}},
        [OP_POOL] = {"pool", 3, {[ARG_K] = 24}},
        [OP_IDLE] = {"idle", 4, {[ARG_K] = 8}},
        [OP_DAMAGE] = {"damage", 2, {[ARG_K] = 1000}},
        [OP_RESTART] = {"restart", 2, {0}},
        [OP_KILL] = {"kill", 2, {0}},
};

static const struct {
        const char *name;
        uint32_t limit;
} options[N_OPTS] = {[OPT_MODEL] = {"model", N_MODELS},
        [OPT_KV] = {"kv", 3},
        [OPT_POOL] = {"pool", 12},
        [OPT_THREADS] = {"threads", 2},
        [OPT_BATCH] = {"batch", 40},
        [OPT_ACTIVE] = {"active", 5},
        [OPT_DISK] = {"disk", 60},
        [OPT_DISK_UID] = {"diskuid", 30},
        [OPT_WRITES] = {"writes", 80},
        [OPT_DELAY] = {"delay", N_DELAYS},
        [OPT_END] = {"end", N_ENDINGS},
        [OPT_CONTEXT] = {"context", 48}};

const char *op_name(enum op_kind k) {
        return types[k].name;
}

bool op_has(enum op_kind k, enum arg a) {
        return types[k].limit[a] > 0;
}

uint64_t program_draw(uint64_t *state, uint64_t n) {
        uint64_t z = *state += 0x9e3779b97f4a7c15;

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return (z ^ (z >> 31)) % n;
}

/* --- random ones --- */

/* What the maker believes of the slots; the program does not depend on it. */
struct maker {
        uint64_t random;
        uint32_t n_slots;
        uint32_t system, tokens, owner; /* favourites: what most conversations begin with */
        bool open[N_SLOTS], fresh[N_SLOTS];
};

static uint32_t draw(struct maker *m, uint32_t n) {
        return (uint32_t)program_draw(&m->random, n);
}

static enum op_kind random_kind(struct maker *m) {
        uint32_t sum = 0, at;

        for (size_t i = 0; i < N_OPS; i++)
                sum += types[i].weight;
        at = draw(m, sum);
        for (size_t i = 0; i < N_OPS; i++) {
                if (at < types[i].weight)
                        return (enum op_kind)i;
                at -= types[i].weight;
        }
        return OP_SAY;
}

/* A slot that is open (or free) as far as there is one. */
static uint32_t random_slot(struct maker *m, bool open) {
        uint32_t at = draw(m, m->n_slots);

        for (uint32_t i = 0; i < m->n_slots; i++)
                if (m->open[(at + i) % m->n_slots] == open)
                        return (at + i) % m->n_slots;
        return at;
}

static void random_args(struct maker *m, struct op *op) {
        for (size_t a = 0; a < N_ARGS; a++)
                if (types[op->kind].limit[a] > 0)
                        op->arg[a] = draw(m, types[op->kind].limit[a]);
        if (op_has(op->kind, ARG_HOW) && draw(m, 5) > 0)
                op->arg[ARG_HOW] = PLAIN;
        if (op->arg[ARG_HOW] == PLAIN)
                op->arg[ARG_AFTER] = 0;
        if (op_generates(op->kind) && draw(m, 5) > 0)
                op->arg[ARG_WHICH] = BY_ALL;
        if (op_generates(op->kind) && op->arg[ARG_WHICH] == BY_ALL)
                op->arg[ARG_K] = 0;
        if (op->kind == OP_OPEN && draw(m, 2) == 0)
                op->arg[ARG_TEXT] = m->system;
        if (op->kind == OP_TOKENS && draw(m, 2) == 0)
                op->arg[ARG_TEXT] = m->tokens;
        if (op_has(op->kind, ARG_UID) && draw(m, 2) == 0)
                op->arg[ARG_UID] = m->owner;
        if (op->kind == OP_OPEN || op->kind == OP_IMPORT)
                op->arg[ARG_CONV] = random_slot(m, false);
        else if (op_has(op->kind, ARG_CONV))
                op->arg[ARG_CONV] = random_slot(m, true);
        if (op->kind == OP_FORK) {
                op->arg[ARG_TO] = random_slot(m, false);
                m->open[op->arg[ARG_TO]] = true;
        }
        if (!op_has(op->kind, ARG_CONV))
                return;
        /* Many begin with the same tokens: what is shared, published and withdrawn. */
        if (op_generates(op->kind) && m->fresh[op->arg[ARG_CONV]] && draw(m, 2) == 0) {
                uint32_t c = op->arg[ARG_CONV], max = op->arg[ARG_MAX];

                *op = (struct op){.kind = OP_TOKENS};
                op->arg[ARG_CONV] = c;
                op->arg[ARG_MAX] = max;
                op->arg[ARG_TEXT] = m->tokens;
        }
        m->open[op->arg[ARG_CONV]] = op->kind != OP_CLOSE;
        m->fresh[op->arg[ARG_CONV]] =
                op->kind == OP_OPEN || (m->fresh[op->arg[ARG_CONV]] && !op_generates(op->kind));
}

static struct op *add(struct program *p, struct maker *m, enum op_kind kind) {
        struct op *op = &p->ops[p->n++];

        *op = (struct op){.kind = kind};
        random_args(m, op);
        op->with = draw(m, 3) == 0;
        return op;
}

/* Another answer to the last message, or another message instead of it. */
static void add_edit(struct program *p, struct maker *m) {
        struct op *rewind = add(p, m, OP_REWIND), *say;

        rewind->arg[ARG_WHICH] = BY_DROP;
        rewind->arg[ARG_K] = 1 + draw(m, 2);
        say = add(p, m, rewind->arg[ARG_K] == 1 ? OP_AGAIN : OP_SAY);
        say->arg[ARG_CONV] = rewind->arg[ARG_CONV];
        say->with = false;
        /* As two requests, or as one that is cancelled as often as not. */
        if (draw(m, 2) == 0) {
                say->arg[ARG_WHICH] = BY_DROP;
                say->arg[ARG_K] = rewind->arg[ARG_K];
                *rewind = *say;
                p->ops[--p->n] = (struct op){0};
        }
}

static void add_beginning(struct program *p, struct maker *m, uint32_t c, uint64_t owner) {
        struct op *op = add(p, m, OP_CLOSE);

        op->arg[ARG_CONV] = c;
        op = add(p, m, OP_OPEN);
        op->arg[ARG_CONV] = c;
        op->arg[ARG_UID] = owner;
        op->arg[ARG_TEXT] = m->system;
        op = add(p, m, OP_TOKENS);
        op->arg[ARG_CONV] = c;
        op->arg[ARG_TEXT] = m->tokens;
        op->arg[ARG_HOW] = PLAIN;
}

/* From one conversation to another, by way of a file; and then its new owner says the same. */
static void add_transfer(struct program *p, struct maker *m) {
        uint32_t from = random_slot(m, true), to = random_slot(m, false), file = draw(m, N_FILES);
        uint64_t owner = draw(m, N_UIDS);
        bool whole = p->n + 10 <= MAX_OPS && draw(m, 2) == 0;
        struct op *op;

        if (whole)
                add_beginning(p, m, from, (owner + 1) % N_UIDS);
        op = add(p, m, OP_EXPORT);
        op->arg[ARG_CONV] = from;
        op->arg[ARG_FILE] = file;
        if (whole)
                op->arg[ARG_K] = 0;
        op = add(p, m, OP_IMPORT);
        op->arg[ARG_CONV] = to;
        op->arg[ARG_UID] = owner;
        op->arg[ARG_FILE] = file;
        if (draw(m, 3) > 0)
                op->arg[ARG_K] = draw(m, 2) ? AS_IS : AS_FOREIGN;
        op = add(p, m, OP_SAY);
        op->arg[ARG_CONV] = to;
        if (whole)
                add_beginning(p, m, draw(m, m->n_slots), owner);
}

/* Something is published and perhaps withdrawn, and then another user says the same. */
static void add_publication(struct program *p, struct maker *m) {
        uint64_t owner = draw(m, N_UIDS), c = draw(m, m->n_slots), other = draw(m, m->n_slots);

        if (p->n + 10 > MAX_OPS || c == other)
                return;
        add_beginning(p, m, c, owner);
        add(p, m, OP_PUBLISH)->arg[ARG_CONV] = c;
        if (draw(m, 2) == 0)
                add(p, m, OP_FORK)->arg[ARG_CONV] = c;
        if (draw(m, 2) == 0)
                add(p, m, OP_EVICT)->arg[ARG_CONV] = c;
        switch (draw(m, 4)) {
        case 0:
                add(p, m, OP_CLOSE)->arg[ARG_CONV] = c;
                break;
        case 1:
                add(p, m, OP_REWIND)->arg[ARG_CONV] = c;
                break;
        case 2:
                add(p, m, OP_UNPUBLISH)->arg[ARG_CONV] = c;
                break;
        default:
                break;
        }
        add_beginning(p, m, other, (owner + 1 + draw(m, N_UIDS - 1)) % N_UIDS);
}

void program_random(struct program *p, uint64_t seed) {
        struct maker m = {.random = seed};
        size_t n_ops = 20 + draw(&m, 40);

        memset(p, 0, sizeof(*p));
        p->seed = seed;
        m.n_slots = 3 + draw(&m, N_SLOTS - 2);
        m.system = draw(&m, types[OP_OPEN].limit[ARG_TEXT]);
        m.tokens = draw(&m, types[OP_TOKENS].limit[ARG_TEXT]);
        m.owner = draw(&m, N_UIDS);
        for (size_t i = 0; i < N_OPTS; i++)
                p->opt[i] = draw(&m, options[i].limit);
        if (draw(&m, 8) > 0)
                p->opt[OPT_MODEL] = MODEL_TINY;
        if (draw(&m, 3) > 0)
                p->opt[OPT_KV] = 0;
        if (draw(&m, 6) > 0)
                p->opt[OPT_THREADS] = 0;
        for (size_t i = OPT_DISK; i <= OPT_WRITES; i++)
                if (draw(&m, 5) > 0)
                        p->opt[i] = 0;
        if (draw(&m, 2) == 0)
                p->opt[OPT_DELAY] = 0;
        if (draw(&m, 3) > 0)
                p->opt[OPT_CONTEXT] = 0;
        /* A few conversations become so long that several shifts come after one another. */
        else
                m.n_slots = MIN(m.n_slots, 4u);
        for (size_t i = 0, n = 2 + draw(&m, MIN(m.n_slots, 9u)); i < n; i++)
                add(p, &m, OP_OPEN);
        while (p->n < n_ops && p->n + 12 < MAX_OPS) {
                uint32_t which = draw(&m, 32);

                if (which < 2)
                        add_edit(p, &m);
                else if (which < 3)
                        add_transfer(p, &m);
                else if (which < 4)
                        add_publication(p, &m);
                else
                        add(p, &m, random_kind(&m));
        }
}

/* --- as text --- */

size_t program_print(const struct program *p, char *dst, size_t size) {
        size_t n = 0;

#define PUT(...) n += n < size ? (size_t)snprintf(dst + n, size - n, __VA_ARGS__) : 0
        for (size_t i = 0, first = 1; i < N_OPTS; i++)
                if (p->opt[i] > 0) {
                        PUT("%s %s=%u", first ? "set" : "", options[i].name, p->opt[i]);
                        first = 0;
                }
        for (size_t i = 0; i < p->n; i++) {
                const struct op *op = &p->ops[i];

                PUT("%s%s%s", n > 0 ? "; " : "", op->with ? "+ " : "", types[op->kind].name);
                for (size_t a = 0; a < N_ARGS; a++)
                        if (op->arg[a] > 0)
                                PUT(" %s=%u", arg_names[a], op->arg[a]);
        }
#undef PUT
        return MIN(n, size - 1);
}

static int parse_option(struct program *p, const char *name, uint32_t value) {
        for (size_t i = 0; i < N_OPTS; i++)
                if (strcmp(name, options[i].name) == 0) {
                        p->opt[i] = value % options[i].limit;
                        return 0;
                }
        return -1;
}

static int parse_arg(struct op *op, const char *name, uint32_t value) {
        for (size_t a = 0; a < N_ARGS; a++)
                if (strcmp(name, arg_names[a]) == 0 && op_has(op->kind, (enum arg)a)) {
                        op->arg[a] = value % types[op->kind].limit[a];
                        return 0;
                }
        return -1;
}

/* One operation: words of @text, which is taken apart. */
static int parse_op(struct program *p, char *text) {
        struct op op = {0};
        bool set = false;
        char *save, *word = strtok_r(text, " \n", &save);

        if (!word)
                return 0;
        if (strcmp(word, "+") == 0) {
                op.with = true;
                word = strtok_r(NULL, " \n", &save);
        }
        set = word && strcmp(word, "set") == 0;
        for (op.kind = 0; !set && op.kind < N_OPS; op.kind++)
                if (word && strcmp(word, types[op.kind].name) == 0)
                        break;
        if (op.kind == N_OPS) {
                fprintf(stderr, "no operation '%s'\n", word ? word : "");
                return -1;
        }
        while ((word = strtok_r(NULL, " \n", &save))) {
                char *equals = strchr(word, '=');
                uint32_t value = equals ? (uint32_t)strtoul(equals + 1, NULL, 10) : 0;

                if (equals)
                        *equals = '\0';
                if (!equals || (set ? parse_option(p, word, value) : parse_arg(&op, word, value))) {
                        fprintf(stderr, "no argument '%s' of '%s'\n", word,
                                set ? "set" : types[op.kind].name);
                        return -1;
                }
        }
        if (!set && p->n == MAX_OPS) {
                fprintf(stderr, "more than %d operations\n", MAX_OPS);
                return -1;
        }
        if (!set)
                p->ops[p->n++] = op;
        return 0;
}

int program_parse(struct program *p, const char *text) {
        char *copy = strdup(text), *save, *part;
        int r = copy ? 0 : -1;

        memset(p, 0, sizeof(*p));
        for (part = copy ? strtok_r(copy, ";", &save) : NULL; part && r == 0;
                part = strtok_r(NULL, ";", &save))
                r = parse_op(p, part);
        free(copy);
        return r;
}

void tally_add(struct tally *to, const struct tally *t) {
        uint64_t *a = (uint64_t *)to;
        const uint64_t *b = (const uint64_t *)t;

        for (size_t i = 0; i < sizeof(*to) / sizeof(uint64_t); i++)
                a[i] += b[i];
}
