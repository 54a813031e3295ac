/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The metamorphic suite: random programs of everything that can happen to conversations, run on an
 * engine with little memory, and compared with a computation that never evicts.
 *
 * program.c     a program: random, to text, from text
 * life.c        carries one out, operation by operation
 * settle.c      compares the result of an operation with the expected one
 * sharing.c     looks for memory that somebody else has said
 * driver.c      requests and events
 * reference.c   the straight computation: one sequence per conversation, model_forward() on it
 * plant.c       faults for the suite to find
 * shrink.c      shortens a failing program to the shortest that still fails
 * soak.c        command line; each program runs in a child process
 *
 * The models are those of util/tiny-model.h.
 *
 * A program's operations do not depend on the results of earlier operations: a number that is too
 * large for the current state is reduced modulo the limit, and an impossible operation (say in a
 * conversation that is not open) is skipped. So any part of a program is a program, which shrinking
 * needs.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "util/sanitize.h"
#include "util/tiny-model.h"

enum {
        N_SLOTS = 20, /* conversations */
        N_UIDS = 3,
        N_FILES = 4, /* exported */
        MAX_OPS = 96,
        MAX_NEW = 13,  /* tokens of a reply, at most one less */
        LONGEST = 200, /* tokens; longer conversations are not continued */
        SAFE_POOL = 12 /* blocks in which every conversation has room */
};

/* --- program.c --- */

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
        OP_EVICT,
        OP_WARM,
        OP_PUBLISH,
        OP_UNPUBLISH,
        OP_PIN, /* or, with ARG_K 0, the opposite */
        OP_EXPORT,
        OP_IMPORT,
        OP_POOL, /* change the budget */
        OP_IDLE, /* let time pass */
        OP_DAMAGE,
        OP_RESTART,
        OP_KILL,
        N_OPS
};

enum arg {
        ARG_CONV,
        ARG_TO,    /* fork: slot of the copy */
        ARG_UID,   /* open, import */
        ARG_TEXT,  /* which text, system prompt or token list */
        ARG_WHICH, /* fork, rewind, replies (from an earlier place): enum keep_by */
        ARG_K,     /* a count, see the operation */
        ARG_MAX,   /* tokens of the reply */
        ARG_SEED,
        ARG_TEMP,  /* temperature in halves */
        ARG_HOW,   /* enum twist */
        ARG_AFTER, /* tokens until the twist */
        ARG_FILE,
        ARG_BACK, /* in the background */
        N_ARGS
};
enum keep_by { BY_ALL, BY_TURN, BY_POSITION, BY_DROP, N_KEEP_BY };
enum file_as { AS_IS, AS_DAMAGED, AS_FOREIGN, AS_DAMAGED_TOO, N_FILE_AS }; /* import, ARG_K */
enum twist { PLAIN, CANCEL, PAUSE, KILL, N_TWISTS };

struct op {
        enum op_kind kind;
        bool with; /* under way together with the one before */
        uint32_t arg[N_ARGS];
};

enum opt {
        OPT_MODEL,    /* enum tiny_model */
        OPT_KV,       /* enum engine_kv */
        OPT_POOL,     /* blocks more than SAFE_POOL */
        OPT_THREADS,  /* more than one */
        OPT_BATCH,    /* tokens per step beyond 4; 0: the default */
        OPT_ACTIVE,   /* 0: the default */
        OPT_DISK,     /* limit in pages of 4 KiB; 0: none */
        OPT_DISK_UID, /* the same per owner */
        OPT_WRITES,   /* bytes per day, in pages */
        OPT_DELAY,    /* of write-behind, in ms; N_DELAYS - 1: never */
        OPT_END,      /* enum ending */
        OPT_CONTEXT,  /* 0: the default; else so small that conversations reach its end */
        N_OPTS
};
enum { N_DELAYS = 8 };
enum ending { END_STOP, END_CLOSE, END_KILL, END_KILL_SAY_CLOSE, N_ENDINGS };

struct program {
        uint64_t seed; /* of the random one that it came from */
        uint32_t opt[N_OPTS];
        size_t n;
        struct op ops[MAX_OPS];
};

void program_random(struct program *p, uint64_t seed);
/* Onto one line, as program_parse() reads it: "set pool=3; open c=1; + say c=2 t=5". Returns what
 * was written without the NUL, cut to fit. */
size_t program_print(const struct program *p, char *dst, size_t size);
/* 0, or -1 with a message on stderr. */
int program_parse(struct program *p, const char *text);
const char *op_name(enum op_kind k);
/* Does this kind take the argument? */
bool op_has(enum op_kind k, enum arg a);
/* A reply is generated. */
static inline bool op_generates(enum op_kind k) {
        return k >= OP_SAY && k <= OP_AGAIN;
}
/* SplitMix64 (Steele, Lea and Flood 2014), a number below @n. */
uint64_t program_draw(uint64_t *state, uint64_t n);

/* --- what came of programs --- */

struct tally {
        uint64_t programs, ops, replies, compared; /* log-probabilities */
        uint64_t ram, disk, shared, computed;      /* prompt tokens */
        uint64_t restarts, kills, resolved, refused;
        uint64_t parked, evictions, merged, reclaimed, restores, restore_failures, write_behind,
                damaged, imported, overlapped, pressed, shifts, parts, fetched, sent;
};
void tally_add(struct tally *to, const struct tally *t);

struct outcome {
        bool failed;
        char category[16]; /* the first word of what went wrong; shrinking keeps it */
        char message[480];
        struct tally tally;
};

/* --- reference.c --- */

struct ref;
struct seq;
struct sample_params;

struct ref *ref_new(const char *model_path);
struct ref *ref_free(struct ref *r);
struct seq *ref_seq(struct ref *r, enum engine_kv kv);
struct seq *ref_fork(const struct seq *s, uint32_t n_tokens);
void ref_cut(struct seq *s, uint32_t n_tokens);
void ref_seq_free(struct seq *s);
/* What the engine should have sampled and reported for the last @n_new of @tokens. @s is the memory
 * of the conversation, of any part of @tokens; afterwards of all but perhaps the last. Returns the
 * index of the first that differs and tells what there should be, or @n_new. */
struct ref_difference {
        int32_t token;
        float logprob;
        bool is_token; /* else only the log-probability differs */
};
uint32_t ref_check(struct ref *r, enum engine_kv kv, struct seq *s, const int32_t *tokens,
        uint32_t n_tokens, uint32_t n_new, const float *logprobs,
        const struct sample_params *params, struct ref_difference *ret);

/* --- plant.c --- */

enum plant {
        PLANT_NONE,
        PLANT_FLIP,    /* a bit of a restored block */
        PLANT_FOREIGN, /* prefixes are shared between uids */
        PLANT_FORGET,  /* a turn is acknowledged, but not in the register */
        N_PLANTS
};
extern enum plant planted;

/* --- life.c --- */

struct setting {
        const char *model_path[N_MODELS];
        struct ref *ref[N_MODELS];
        const char *dir; /* for state folders, which are made and removed below it */
        bool verbose;
};
/* Carry out the program. What goes wrong ends in @failed, which does not return. */
void life_run(const struct program *p, const struct setting *s, struct tally *tally,
        void (*failed)(const struct outcome *o) __attribute__((noreturn)));

/* --- shrink.c --- */

/* Run a program in a process of its own. */
typedef bool shrink_run(void *arg, const struct program *p, struct outcome *ret);
/* @p fails like @o says; make it the shortest that does. Bounded by @seconds. Returns false if it
 * did not fail again at all. */
bool shrink(struct program *p, struct outcome *o, shrink_run *run, void *arg, unsigned seconds);
