/* SPDX-License-Identifier: MIT */
#pragma once
/* Small models of each kind of memory, and conversations with them that are told how much they compute again. */
#include "rig.h"
#include "store/store.h"

struct kind {
        const char *arch;
        bool states, windows, blocks; /* blocks: attention over everything */
        char path[64];
};
enum { N_KINDS = 4 };
extern struct kind kinds[N_KINDS];
#define EACH_KIND(k) for (const struct kind *k = kinds; k < kinds + N_KINDS; k++)

/* Of their memory: tokens of a block, of the context, that a return may compute again; checkpoints that any
 * conversation may have, and the part of the cost of its blocks (memory/checkpoint.c). */
enum { KIND_BLOCK = 32, KIND_CONTEXT = 4096, KIND_AGAIN = 64, KIND_LEAST = 8, KIND_SHARE = 4 };

/* Write the models' files, and remove them: for cmocka's groups. */
int kinds_make(void **state);
int kinds_remove(void **state);

/* The least pool that has room for a conversation of @n tokens. */
uint64_t kind_least_pool(const struct kind *k, uint32_t n);
void kind_open(struct erig *r, const struct kind *k, uint32_t delay_ms);
/* Besides, nothing was damaged, and the register keeps its invariants. */
void kind_close(struct erig *r);

/* A message and a reply of four tokens. */
void kind_say(struct erig *r, uint64_t c, unsigned i, struct answer *a);
/* A system message and @n messages with replies: turn 2i + 2 is the i-th reply, and @a the last one. */
uint64_t kind_talk(struct erig *r, unsigned n, struct answer *a);
/* A user's: a conversation with a system message; a message, and a reply of four tokens. */
uint64_t kind_open_as(struct erig *r, uint64_t owner, const char *system);
void kind_say_as(struct erig *r, uint64_t owner, uint64_t c, const char *text, struct answer *a);
/* A raw turn of @n tokens, others for another @salt, without a reply. */
void kind_append(struct erig *r, uint64_t c, uint32_t n, unsigned salt);
/* The last reply once more. */
void kind_regenerate(struct erig *r, uint64_t c, struct answer *a);
/* A rewind to a turn, or a fork of what is before it. */
struct engine_request kind_cut_request(enum engine_verb verb, uint64_t c, unsigned at_turn);
/* Goes on with @c, which is now the beginning of the conversation @whole that ends at turn @n: what it computes
 * again, beyond a reply's last token. What comes of it is what comes in @fresh, which computes it all. */
uint32_t kind_go_on(struct erig *r, uint64_t c, const struct answer *whole, unsigned n,
        struct erig *fresh, struct answer *a);

/* What can be written in the background is written: see tests/fault/crash. */
void kind_wait_idle(struct erig *r);
/* What happens to a conversation before somebody comes back to it. What can be written in the background is
 * written before. */
enum kind_meanwhile { NOTHING, EVICTED, RESTARTED, KILLED, N_MEANWHILE };
void kind_let_happen(struct erig *r, uint64_t c, enum kind_meanwhile what);
/* Of the first @n tokens of the prompt so many were computed. */
uint32_t kind_computed_of(const struct answer *a, uint32_t n);
/* The links that the conversation has in the register; store_gone_deinit() them. */
struct store_gone kind_read_links(const struct erig *r, uint64_t c);
/* Their number, of a class of memory: 1 are windows, 2 states. */
size_t kind_links(const struct erig *r, uint64_t c, uint32_t class);
/* The same, and where the first @max of their cells end, in tokens. */
size_t kind_link_list(const struct erig *r, uint64_t c, uint32_t class, uint32_t *ends, size_t max);
