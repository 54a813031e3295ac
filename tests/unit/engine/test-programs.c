/* SPDX-License-Identifier: MIT */
/*
 * Random programs, run twice: in a tiny pool where memory comes and goes (evict, warm, restart,
 * kill, pause, many at once, cancel), and in a huge pool with none of that and one request at a
 * time. Every generated token and every log-probability must be the same (I2), compared with
 * memcmp. A program depends on its seed only, except for the moment at which a cancel takes effect:
 * the length of a cancelled reply is recorded, and the second run generates just as much.
 *
 * Both runs use the bundled model through the engine; programs/ has thousands of more varied
 * programs on a tiny model.
 *
 * Usage: test-programs [first seed] [number of programs]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "rig.h"
#include "util/sanitize.h"
#include "util/test.h"

#if TEST_SANITIZED
#define N_PROGRAMS 8
#else
#define N_PROGRAMS 30
#endif

enum { N_SLOTS = 6, MAX_OPS = 160, MAX_TOKENS = 16, LONGEST = 200 };

enum op_kind {
        OP_OPEN,
        OP_SAY,
        OP_RAW,
        OP_TOKENS,
        OP_AGAIN, /* go on without input */
        OP_FORK,
        OP_REWIND,
        OP_UPDATE,
        OP_CLOSE,
        /* Without effect in the second run: */
        OP_EVICT,
        OP_WARM,
        OP_RESTART,
        OP_KILL,
        N_OPS
};
static const char *const op_names[N_OPS] = {"open", "say", "raw", "tokens", "again", "fork",
        "rewind", "update", "close", "evict", "warm", "restart", "kill"};

/* What is done to a request while it runs. */
enum twist { PLAIN, CANCEL, PAUSE, KILL };

struct op {
        enum op_kind kind;
        uint32_t group; /* requests of one group are under way together */
        int slot, to;   /* to: fork */
        enum twist twist;
        uint32_t after; /* tokens until the twist */
        uint32_t max_tokens, at_turn;
        uint64_t salt; /* text */
        struct sampling sampling;
        /* What came of it. */
        bool done, cancelled;
        size_t n_tokens;
        int32_t tokens[MAX_TOKENS];
        float logprobs[MAX_TOKENS];
};

struct program {
        uint64_t seed, random;
        struct engine_options o;
        size_t n_ops;
        struct op ops[MAX_OPS];
};

struct slot {
        uint64_t id; /* 0: free */
        uint32_t n_tokens, n_turns;
};

struct life {
        struct erig r;
        struct slot slots[N_SLOTS];
        struct answer answers[N_SLOTS];
        struct engine_request requests[N_SLOTS];
        char texts[N_SLOTS][256];
        int32_t tokens[N_SLOTS][24];
};

static struct program P;
static struct life L;
static struct answer A;
static uint64_t first_seed = 1, n_programs = N_PROGRAMS;

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t draw(struct program *p, uint64_t n) {
        uint64_t z = p->random += 0x9e3779b97f4a7c15;

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return (z ^ (z >> 31)) % n;
}

static void print_program(const struct program *p, size_t n) {
        print_message("seed %llu: pool %llu, threads %u, batch %u, active %u, disk %llu\n",
                (unsigned long long)p->seed, (unsigned long long)p->o.pool_size, p->o.n_threads,
                p->o.batch_tokens, p->o.max_active, (unsigned long long)p->o.disk_limit);
        for (size_t i = 0; i < n; i++) {
                const struct op *op = &p->ops[i];

                print_message("%3zu [%u] %s %d to %d, turn %d, max %u, salt %llu, twist %d after "
                              "%u -> %s%s%zu tokens\n",
                        i, op->group, op_names[op->kind], op->slot, op->to, (int)op->at_turn,
                        op->max_tokens, (unsigned long long)op->salt, (int)op->twist, op->after,
                        op->done ? "" : "failed, ", op->cancelled ? "cancelled, " : "",
                        op->n_tokens);
        }
}

#define check(cond, i)                                                                             \
        do {                                                                                       \
                if (!(cond)) {                                                                     \
                        print_program(&P, (i) + 1);                                                \
                        fail_msg("operation %zu: %s", (size_t)(i), #cond);                         \
                }                                                                                  \
        } while (0)

static bool generates(const struct op *op) {
        return op->kind >= OP_SAY && op->kind <= OP_AGAIN;
}

/* --- making a program --- */

static struct sampling random_sampling(struct program *p) {
        struct sampling s = {.has = SAMPLING_SEED | SAMPLING_TEMPERATURE, .seed = draw(p, 1000)};

        s.temperature = (float)draw(p, 3) * 0.5f;
        if (draw(p, 4) == 0) {
                s.has |= SAMPLING_REPETITION | SAMPLING_LAST_N;
                s.repetition_penalty = 1.25f;
                s.penalty_last_n = 40;
        }
        return s;
}

static enum op_kind random_kind(struct program *p) {
        static const uint8_t weights[N_OPS] = {[OP_OPEN] = 4,
                [OP_SAY] = 30,
                [OP_RAW] = 4,
                [OP_TOKENS] = 4,
                [OP_AGAIN] = 3,
                [OP_FORK] = 9,
                [OP_REWIND] = 7,
                [OP_UPDATE] = 2,
                [OP_CLOSE] = 3,
                [OP_EVICT] = 10,
                [OP_WARM] = 5,
                [OP_RESTART] = 2,
                [OP_KILL] = 1};
        uint64_t sum = 0, at;

        for (size_t i = 0; i < N_OPS; i++)
                sum += weights[i];
        at = draw(p, sum);
        for (size_t i = 0; i < N_OPS; i++) {
                if (at < weights[i])
                        return (enum op_kind)i;
                at -= weights[i];
        }
        return OP_SAY;
}

static int free_slot(const struct life *l) {
        for (int i = 0; i < N_SLOTS; i++)
                if (l->slots[i].id == 0)
                        return i;
        return -1;
}

/* The next operation, fit for what the slots hold. */
static struct op random_op(struct program *p, const struct life *l) {
        struct op op = {.kind = random_kind(p),
                .slot = (int)draw(p, N_SLOTS),
                .to = -1,
                .max_tokens = (uint32_t)draw(p, MAX_TOKENS),
                .salt = draw(p, 1 << 20),
                .at_turn = ENGINE_UNSET,
                .sampling = random_sampling(p)};
        const struct slot *s = &l->slots[op.slot];

        if (op.kind == OP_RESTART || op.kind == OP_KILL)
                return op;
        if (s->id == 0) {
                op.kind = OP_OPEN;
                return op;
        }
        if (op.kind == OP_OPEN)
                op.kind = OP_SAY;
        if (s->n_tokens > LONGEST && (generates(&op) || op.kind == OP_FORK))
                op.kind = draw(p, 2) ? OP_CLOSE : OP_REWIND;
        if (op.kind == OP_AGAIN && s->n_turns == 0)
                op.kind = OP_SAY;
        if (op.kind == OP_AGAIN && op.max_tokens == 0)
                op.max_tokens = 3;
        if (op.kind == OP_FORK) {
                op.to = free_slot(l);
                if (op.to < 0)
                        op.kind = OP_EVICT;
        }
        if (op.kind == OP_FORK || op.kind == OP_REWIND)
                op.at_turn = (uint32_t)draw(p, s->n_turns + 1);
        if (generates(&op) && draw(p, 6) == 0) {
                op.twist = CANCEL + (enum twist)draw(p, 3);
                op.after = (uint32_t)draw(p, MAX_TOKENS / 2);
        }
        return op;
}

/* --- carrying out --- */

static void make_text(char *text, size_t size, uint64_t salt) {
        static const char *const list[] = {"green", "the house", "a river", "seven", "bird",
                "last night", "Ada", "stone", "in winter", "music", "what", "my name is"};
        size_t at = 0;

        for (uint64_t i = 0, n = 1 + salt % 17; i < n && at + 16 < size; i++)
                at += (size_t)snprintf(text + at, size - at, "%s%s", i ? " " : "",
                        list[(salt / (i + 1) + i * 5) % ARRAY_SIZE(list)]);
}

static struct engine_request request_of(struct life *l, const struct op *op, size_t k) {
        struct engine_request q = {.conv_id = l->slots[op->slot].id,
                .max_tokens = op->max_tokens,
                .at_turn = op->at_turn,
                .at_position = ENGINE_UNSET,
                .sampling = op->sampling,
                .role = ENGINE_USER,
                .want_logprobs = true};

        make_text(l->texts[k], sizeof(l->texts[k]), op->salt);
        for (size_t i = 0; i < ARRAY_SIZE(l->tokens[k]); i++)
                l->tokens[k][i] = (int32_t)((op->salt + i * i * 31) % 500) + 300;
        switch (op->kind) {
        case OP_OPEN:
                q.verb = ENGINE_OPEN;
                q.system = op->salt % 3 == 0 ? l->texts[k] : NULL;
                break;
        case OP_SAY:
        case OP_RAW:
                q.verb = ENGINE_CONTINUE;
                q.input = op->kind == OP_SAY ? ENGINE_INPUT_MESSAGE : ENGINE_INPUT_RAW;
                q.text = l->texts[k];
                q.text_size = strlen(l->texts[k]);
                break;
        case OP_TOKENS:
                q.verb = ENGINE_CONTINUE;
                q.input = ENGINE_INPUT_TOKENS;
                q.tokens = l->tokens[k];
                q.n_tokens = 1 + op->salt % ARRAY_SIZE(l->tokens[k]);
                break;
        case OP_AGAIN:
                q.verb = ENGINE_CONTINUE;
                break;
        default:
                q.verb = op->kind == OP_FORK     ? ENGINE_FORK
                         : op->kind == OP_REWIND ? ENGINE_REWIND
                         : op->kind == OP_UPDATE ? ENGINE_UPDATE
                         : op->kind == OP_CLOSE  ? ENGINE_CLOSE
                         : op->kind == OP_EVICT  ? ENGINE_EVICT
                                                 : ENGINE_WARM;
        }
        return q;
}

static void refresh(struct life *l, int slot, size_t i) {
        struct slot *s = &l->slots[slot];

        if (s->id == 0)
                return;
        check(erig_simple(&l->r, ENGINE_GET, s->id, &A) == ENGINE_CONV, i);
        check(!A.conv.busy, i);
        s->n_tokens = A.conv.n_tokens;
        s->n_turns = A.conv.n_turns;
}

/* Take over what the request of operation @i gave. */
static void note(struct life *l, struct op *op, const struct answer *a, size_t i) {
        op->done = a->kind != ENGINE_ERROR;
        if (!op->done) {
                if (op->twist == CANCEL)
                        check(a->err.code == ERR_CANCELLED, i);
                else
                        fail_msg("operation %zu: %s", i, (print_program(&P, i + 1), a->err.msg));
                return;
        }
        if (op->kind == OP_OPEN)
                l->slots[op->slot].id = a->conv.id;
        if (op->kind == OP_FORK)
                l->slots[op->to].id = a->conv.id;
        if (op->kind == OP_CLOSE)
                l->slots[op->slot] = (struct slot){0};
        check(a->n_tokens <= MAX_TOKENS, i);
        op->cancelled = a->finish == ENGINE_FINISH_CANCELLED;
        op->n_tokens = a->n_tokens;
        memcpy(op->tokens, a->tokens, a->n_tokens * sizeof(a->tokens[0]));
        memcpy(op->logprobs, a->logprobs, a->n_tokens * sizeof(a->logprobs[0]));
}

/* The power goes while the request runs: its turn is there whole, cut short, or not at all. It is
 * taken back, so that the conversation is in a known state. */
static void kill_within(struct life *l, struct op *op, size_t i) {
        struct engine_request q = {.verb = ENGINE_REWIND,
                .conv_id = l->slots[op->slot].id,
                .at_turn = l->slots[op->slot].n_turns,
                .at_position = ENGINE_UNSET};

        erig_restart(&l->r, false);
        check(erig_simple(&l->r, ENGINE_GET, q.conv_id, &A) == ENGINE_CONV, i);
        check(A.conv.n_turns >= q.at_turn, i);
        if (A.conv.n_turns > q.at_turn)
                check(erig_do(&l->r, &q, &A) == ENGINE_CONV, i);
        op->done = false;
}

/* A group of operations in the tiny pool, all at the same time. */
static void run_group(struct life *l, struct op *ops, size_t n, size_t at) {
        for (size_t k = 0; k < n; k++) {
                l->requests[k] = request_of(l, &ops[k], k);
                erig_send(&l->r, &l->requests[k], &l->answers[k]);
        }
        for (size_t k = 0; k < n; k++) {
                struct answer *a = &l->answers[k];

                while (ops[k].twist != PLAIN && !a->final && a->n_tokens < ops[k].after)
                        erig_step(&l->r);
                if (ops[k].twist == CANCEL)
                        engine_cancel(l->r.en, l->requests[k].handle);
                else if (ops[k].twist == PAUSE)
                        engine_pause(l->r.en, l->requests[k].handle, true);
        }
        if (ops[0].twist == KILL) {
                kill_within(l, &ops[0], at);
                return;
        }
        for (size_t k = 0; k < n; k++)
                if (ops[k].twist != PAUSE)
                        erig_wait(&l->r, &l->answers[k]);
        for (size_t k = 0; k < n; k++) {
                engine_pause(l->r.en, l->requests[k].handle, false);
                erig_wait(&l->r, &l->answers[k]);
                note(l, &ops[k], &l->answers[k], at + k);
        }
}

static bool touches(const struct op *ops, size_t n, const struct op *op) {
        for (size_t k = 0; k < n; k++)
                if (ops[k].slot == op->slot || ops[k].to == op->slot || ops[k].slot == op->to ||
                        (op->to >= 0 && ops[k].to == op->to))
                        return true;
        return false;
}

/* Make and carry out the next group; returns its size. */
static size_t next_group(struct program *p, struct life *l, uint32_t group) {
        struct op *ops = &p->ops[p->n_ops];
        size_t wanted = draw(p, 3) == 0 ? 2 + draw(p, N_SLOTS - 2) : 1, n = 0;

        while (wanted-- > 0) {
                struct op op = random_op(p, l);
                bool alone = op.kind == OP_RESTART || op.kind == OP_KILL || op.twist == KILL;

                if (n > 0 && (alone || touches(ops, n, &op)))
                        continue;
                op.group = group;
                ops[n++] = op;
                if (alone)
                        break;
        }
        if (ops[0].kind == OP_RESTART || ops[0].kind == OP_KILL) {
                erig_restart(&l->r, ops[0].kind == OP_RESTART);
                ops[0].done = true;
        } else {
                run_group(l, ops, n, p->n_ops);
        }
        for (int i = 0; i < N_SLOTS; i++)
                refresh(l, i, p->n_ops + n - 1);
        return n;
}

static void run_tiny(struct program *p, struct life *l) {
        uint32_t n_groups = 30 + (uint32_t)draw(p, 20);

        erig_open(&l->r, &p->o);
        for (uint32_t i = 0; i < n_groups && p->n_ops + N_SLOTS < MAX_OPS; i++) {
                p->n_ops += next_group(p, l, i);
                check(erig_stat(&l->r, "ledger_used") <= p->o.pool_size, p->n_ops - 1);
                check(erig_stat(&l->r, "ledger_peak") <= p->o.pool_size, p->n_ops - 1);
        }
        for (int i = 0; i < N_SLOTS; i++)
                if (l->slots[i].id)
                        check(erig_simple(&l->r, ENGINE_CLOSE, l->slots[i].id, &A) == ENGINE_EMPTY,
                                p->n_ops - 1);
        erig_check_empty(&l->r);
        erig_close(&l->r);
}

/* The same once more, undisturbed. */
static void run_straight(struct program *p, struct life *l) {
        struct engine_options o = erig_options(256 << 20);

        erig_open(&l->r, &o);
        for (size_t i = 0; i < p->n_ops; i++) {
                const struct op *was = &p->ops[i];
                struct op op = *was;

                if (op.kind >= OP_EVICT || !was->done)
                        continue;
                op.twist = PLAIN;
                if (was->cancelled)
                        op.max_tokens = (uint32_t)was->n_tokens;
                l->requests[0] = request_of(l, &op, 0);
                erig_do(&l->r, &l->requests[0], &l->answers[0]);
                note(l, &op, &l->answers[0], i);
                check(op.n_tokens == was->n_tokens, i);
                check(memcmp(op.tokens, was->tokens, op.n_tokens * sizeof(op.tokens[0])) == 0, i);
                check(memcmp(op.logprobs, was->logprobs, op.n_tokens * sizeof(op.logprobs[0])) == 0,
                        i);
        }
        erig_close(&l->r);
}

static void test_programs(void **state) {
        for (uint64_t seed = first_seed; seed < first_seed + n_programs; seed++) {
                memset(&P, 0, sizeof(P));
                P.seed = P.random = seed;
                P.o = erig_options(erig_pool(10 + (uint32_t)draw(&P, 6)));
                P.o.n_threads = 1 + (uint32_t)draw(&P, 2);
                P.o.batch_tokens = 4 + (uint32_t)draw(&P, 40);
                P.o.max_active = 1 + (uint32_t)draw(&P, 4);
                if (draw(&P, 5) == 0)
                        P.o.disk_limit = 300000;
                memset(&L, 0, sizeof(L));
                run_tiny(&P, &L);
                memset(L.slots, 0, sizeof(L.slots));
                run_straight(&P, &L);
        }
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs)};

        if (argc > 1)
                first_seed = strtoull(argv[1], NULL, 0);
        if (argc > 2)
                n_programs = strtoull(argv[2], NULL, 0);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
