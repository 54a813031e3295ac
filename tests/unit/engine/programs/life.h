/* SPDX-License-Identifier: MIT */
#pragma once
/* What the parts that carry out a program share. */
#include "base/gap.h"
#include "programs.h"

enum { SMALL_CONTEXT = 120 }; /* tokens, at least */

/* What one request led to. */
struct reply {
        bool final;
        enum engine_event_kind kind;
        struct err err;
        bool accepted;
        /* Of Accepted and of Done. */
        struct counts {
                uint32_t n_prompt, n_ram, n_disk, n_shared, n_computed;
                uint32_t differs_at;
                enum engine_differs differs_why;
        } counts, counts_done;
        enum engine_finish finish;
        uint64_t revision;
        uint32_t n_generated, n_tokens;
        int32_t tokens[MAX_NEW];
        float logprobs[MAX_NEW];
        char text[2048];
        char parts[4096];           /* see life_put_parts() */
        struct engine_conv conv;    /* owned */
        struct engine_event *event; /* the final one, owned */
        int fd;
        uint64_t size;
};

/* A request of the group that is under way. */
struct call {
        const struct op *op;
        size_t index; /* of the operation */
        struct engine_request q;
        struct reply a;
        /* Fork, rewind, a reply: tokens that should be left of what there was, and turns, the last
         * of which may be cut. */
        uint32_t n_kept, n_kept_turns;
        uint32_t n_before; /* a reply: tokens of the conversation before */
        char text[256], name[24], call_id[24];
        struct engine_call asks;      /* of a given message */
        struct engine_result answers; /* of such a message's call */
        int32_t tokens[128];
};

/* What a conversation should be. */
struct mirror {
        uint64_t id; /* 0: not open */
        uint64_t owner;
        struct engine_conv c; /* turns, tokens, texts: owned */
        struct seq *memory;   /* the reference's, of the tokens without the gap */
};

/* A history that a user's conversation has had. */
struct past {
        struct past *next;
        uint64_t owner;
        uint32_t n;
        bool is_public;
        const struct call *call; /* of the present group, which made it */
        int32_t tokens[];
};

struct file {
        int fd; /* a sealed memfd, 0: none */
        uint64_t size;
        uint32_t n_tokens, n_turns;
        int32_t *tokens;
        struct gap gap;
};

struct life {
        const struct program *p;
        const struct setting *s;
        struct tally *tally;
        void (*failed)(const struct outcome *o) __attribute__((noreturn));
        size_t at; /* operation under way */
        char dir[256];
        char uri[512]; /* of the register, on a server; empty: a file */
        struct engine *en;
        struct engine_options o;
        uint64_t next_handle;
        unsigned n_names;
        uint32_t blocks;    /* that the pool was last asked to have, but for pressure */
        uint64_t most_pool; /* bytes that it was asked to have at most, since the start */
        bool stopped;
        struct mirror m[N_SLOTS];
        struct file files[N_FILES];
        struct past *past, *published;
        uint64_t owners[N_UIDS]; /* by number in the program: a uid, a tenant of it, another uid */
        bool aborted[N_UIDS];    /* the owner has said something that is in no history */
        struct call calls[N_SLOTS];
        size_t n_calls;
        struct reply own; /* of life_ask() */
        uint64_t own_handle;
};

/* --- driver.c --- */

/* The program has shown something wrong. */
void life_fail(struct life *l, const char *category, const char *fmt, ...)
        __attribute__((noreturn, format(printf, 3, 4)));
void life_start(struct life *l);
/* As a clean shutdown does, or as kill -9. */
void life_stop(struct life *l, bool clean);
void reply_reset(struct reply *a);
/* Append parts of a reply, or news of them, to a text of @size bytes. False: it is full. */
bool life_put_parts(char *text, size_t size, const struct engine_part *parts, size_t n);
/* Send; false if it is refused at once (final, with an error). */
bool life_send(struct life *l, struct engine_request *q, struct reply *a);
/* Take one event, waiting for it. */
void life_step(struct life *l);
/* Send and wait; the answer is valid until the next one. */
struct reply *life_ask(struct life *l, struct engine_request *q);
/* A figure by name; @missing if there is none of that name. */
uint64_t life_stat(struct life *l, const char *name, uint64_t missing);
/* The ledger is within its budget (I3). */
void life_check_budget(struct life *l);
enum { MOST_BLOCKS = 64 };
/* [model][kind of memory][blocks], what is known of life_pool_size(). Shared by processes. */
extern uint64_t (*life_pool_sizes)[3][MOST_BLOCKS];
/* Bytes of a pool that has @n < MOST_BLOCKS blocks. */
uint64_t life_pool_size(struct life *l, uint32_t n);
void life_remove_dir(const char *path);

/* --- settle.c --- */

/* The conversation as the engine has it now, with turns and tokens; NULL if there is none. Valid
 * until the next life_ask(). */
/* Its number in the program. */
static inline unsigned life_owner_index(uint64_t owner) {
        return owner_tenant(owner) ? 1 : owner == 1000 ? 0 : 2;
}
struct engine_conv *life_get(struct life *l, uint64_t owner, uint64_t id, const char *name);
/* It is what it should be. */
void life_verify(struct life *l, struct mirror *m);
/* All of them, and no others. */
void life_verify_all(struct life *l);
void mirror_close(struct mirror *m);
void file_close(struct file *f);
/* An answer came: compare it with what should have come. */
void life_settle(struct life *l, struct call *k);
/* The engine was killed before the answer came. */
void life_resolve(struct life *l, struct call *k);

/* --- sharing.c --- */

/* The tokens that the model sees of a conversation. To be freed. */
int32_t *life_memory_of(const struct engine_conv *c);
/* The first @n of them are a history of the user of @m, or public; @k: the call under way that has said them, or NULL. */
void past_add(struct past **list, const struct mirror *m, uint32_t n, bool is_public,
        const struct call *k);
struct past *past_free(struct past *p);
void life_begin_group(struct life *l);
/* After the whole group: nobody got memory of what only others had said (I6). */
void life_check_sharing(struct life *l);
