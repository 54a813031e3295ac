/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Conversations in RAM, the spill records that they refer to, and what of a conversation is kept
 * when it is cut. Engine thread, unless said otherwise. conv.c has the invariants.
 */
#include "base/buf.h"
#include "base/list.h"
#include "chat/chat.h"
#include "engine/io/io.h"
#include "engine/parts.h"
#include "seq/seq.h"
#include "spill/spill.h"
#include "store/store.h"

struct edit;
struct request;

/* A spill record that loaded conversations refer to: one for each id. */
struct rec {
        struct store_record r;
        uint32_t n_refs; /* conversations in RAM */
        bool damaged;    /* it could not be read: good for nothing */
};

struct conv_turn {
        enum chat_role role;
        uint32_t start, end;
        enum engine_finish finish;
};

/* A conversation in RAM (with or without its memory). */
struct conv {
        uint64_t id;
        uint32_t uid;
        uint64_t revision;
        bool foreign_vocab;   /* its tokens belong to another model's vocabulary */
        bool private_memory;  /* imported and not ours: never shared, forks inherit it */
        uint32_t n_published; /* tokens of its beginning that all users may share; 0: none */
        bool stale;           /* no longer what the register says: unload after use */
        /* Its history is damaged in the register, and only the turns before that are here. */
        struct err *damage;                   /* owned; NULL: it is sound */
        uint32_t n_lost_turns, n_lost_tokens; /* that the register has besides */
        struct sampling sampling;
        int32_t *tokens; /* [n_all], the first n_tokens of which are in the register */
        uint32_t n_tokens, n_all, capacity;
        struct conv_turn *turns;
        uint32_t n_turns, turns_capacity;
        struct seq *seq;
        struct rec **recs; /* [n_recs], by block index; NULL: not on disk */
        size_t n_recs;
        uint32_t n_known; /* positions whose memory was computed at some time (for statistics) */
        size_t charged;   /* bytes in the ledger */

        /* Who uses it. */
        struct request *busy;    /* the request that holds it, or NULL */
        bool generates, removes; /* that request: generates a reply; takes tokens away by its job */
        unsigned n_io;           /* jobs under way that change its blocks or links */
        uint32_t n_forks;        /* fork transactions under way */
        uint32_t n_users;        /* requests and jobs that hold a pointer to it */
        struct list waiters;     /* requests that wait until n_io is 0 */
        struct list lru;         /* among the idle ones, least recently used first */
        struct list waits;       /* among those whose request waits for a place */
        uint64_t waits_order;    /* of that request's arrival */

        /* Writing it to disk (memory/writebehind.c). */
        struct conv **writer; /* a job writes it, which keeps its pointer here; or NULL */
        unsigned n_links;     /* of that: its link transaction is under way (0 or 1) */
        size_t link_from;     /* recs from this index on may not be linked in the register */
        struct list dirty;    /* among the idle ones that are perhaps not all on disk */
        uint64_t t_idle;      /* clock_monotonic_usec() when it became idle */

        /* Sharing (memory/share.c). */
        bool no_disk_share; /* what another one has on disk turned out to be damaged */
        size_t n_entered;   /* its first so many blocks are in the prefix index */

        /* A Continue that cuts (memory/edit.c). */
        struct edit *edit;     /* pending, or NULL */
        struct rec **old_recs; /* [n_old_recs]: what recs were before; owned by the edit */
        size_t n_old_recs;
};

/* --- tables.c --- */

/* No conversation yet. -ERR_NOMEM. */
int convs_new(struct convs **ret, struct err *e);
/* After convs_unload_all(). */
struct convs *convs_free(struct convs *t);
/* NULL if it is not loaded. */
struct conv *convs_find(struct engine *engine, uint64_t id);
/* Each loaded conversation in turn; begins with *it = 0. NULL: that was the last. */
struct conv *convs_next(struct engine *engine, size_t *it);
size_t convs_count(struct engine *engine);
/* Behind @c, or the first (@c NULL) of those nobody uses, least recently used first; of those that
 * are perhaps not all on disk, longest idle first. NULL: there is no other. */
struct conv *convs_next_idle(struct engine *engine, const struct conv *c);
struct conv *convs_next_dirty(struct engine *engine, const struct conv *c);
/* Those whose request waits for a place, the last to come first. */
struct conv *convs_next_waiting(struct engine *engine, bool background, const struct conv *c);
/* The request that holds @c waits for a place, or (not @waits) no longer does. @order: of arrival.
 */
void conv_set_waiting(
        struct engine *engine, struct conv *c, bool waits, bool background, uint64_t order);

/* Requests that waited for a conversation's I/O and may act now, moved into @list. */
void convs_take_ready(struct engine *engine, struct list *list);
/* The request @link goes on with its conversation when the engine thread comes round: it is found
 * among the ready ones. */
void convs_make_ready(struct engine *engine, struct list *link);

/* One request loads a conversation, others wait for it. Embedded in each request. */
struct conv_load {
        struct list link; /* among those that load, or among the followers of one of them */
        uint64_t id;
        struct list followers;
};
/* The one that loads the conversation now, or NULL. */
struct conv_load *conv_loader(struct engine *engine, uint64_t id);
void conv_load_begin(struct engine *engine, struct conv_load *load, uint64_t id);
/* No longer; who waited for it is moved into @followers. */
void conv_load_end(struct conv_load *load, struct list *followers);

/* True the first time only for each conversation, and never beyond what a journal has use for. */
bool convs_tell_damage(struct engine *engine, uint64_t id);
void convs_forget_damage(struct engine *engine, uint64_t id);

/* --- rec.c --- */

/* The record's entry, with a reference more. NULL without memory. */
struct rec *rec_get(struct engine *engine, const struct store_record *r, struct err *e);
void rec_put(struct engine *engine, struct rec *rec);
/* That with this id, or NULL: no loaded conversation refers to it. No reference is taken. */
struct rec *rec_find(struct engine *engine, uint64_t id);

/* Does the record hold the memory of just these tokens? */
static inline bool record_fits(
        const struct store_record *r, uint32_t index, uint64_t hash, uint32_t n) {
        return r->index == index && r->n_tokens == n && r->token_hash == hash;
}
static inline struct spill_ref record_ref(const struct store_record *r) {
        return (struct spill_ref){r->file_key, r->offset, r->stored_size, r->raw_size, r->uid};
}
static inline struct spill_meta record_meta(const struct store_record *r) {
        return (struct spill_meta){r->block_class, r->index, r->n_tokens, r->token_hash};
}
/* Hash of the first tokens up to the end of block @index (or of @n_tokens inside it), chained. Any
 * thread. */
uint64_t conv_token_hash(const int32_t *tokens, uint32_t block_tokens, uint32_t index,
        uint32_t n_in_block, uint64_t prev);

/* --- conv.c --- */

int conv_new(struct conv **ret, struct engine *engine, const struct store_conv *sc,
        const int32_t *tokens, const struct store_turns *turns, struct err *e);
/* Takes everything back, out of all tables. The conversation must not be in use. */
void conv_unload(struct engine *engine, struct conv *c);
void convs_unload_all(struct engine *engine);
/* Take it out of / put it back among the idle ones. */
void conv_use(struct engine *engine, struct conv *c);
void conv_unuse(struct engine *engine, struct conv *c);
/* Room for @n bytes of bookkeeping: unloads idle conversations where needed. 0 or 1. */
int conv_charge(struct engine *engine, size_t n);
void conv_discharge(struct engine *engine, size_t n);
int conv_add_turn(struct engine *engine, struct conv *c, const struct conv_turn *t, struct err *e);
/* Room for @n tokens in all; charged to the ledger (room is made by unloading idle ones). */
int conv_reserve_tokens(struct engine *engine, struct conv *c, uint32_t n, struct err *e);
int conv_set_rec(
        struct engine *engine, struct conv *c, size_t index, struct rec *rec, struct err *e);
void conv_drop_recs(struct engine *engine, struct conv *c, size_t from);
/* The register has no records of blocks from @from on any more, neither of the conversation as it
 * is nor of an old end that was put aside. */
void conv_forget_recs(struct engine *engine, struct conv *c, size_t from);
/* Holes that nothing can fill are no memory: shorten it to what is there or on disk. */
void conv_trim(struct engine *engine, struct conv *c);
/* Requests that wait for the conversation's I/O become ready, if it is over. */
void conv_resume(struct engine *engine, struct conv *c);
/* A job of n_io on the conversation is over. */
void conv_io_over(struct engine *engine, struct conv *c);
/* Its reading found damage: told in the journal once. */
void conv_tell_damage(struct engine *engine, const struct store_reading *x);
/* What is left of @c is sound. */
void conv_forget_damage(struct engine *engine, struct conv *c);
enum chat_state conv_chat_state(const struct engine *engine, const struct conv *c);
void conv_fill_residency(
        const struct engine *engine, const struct conv *c, struct engine_conv *out);

/* --- keep.c --- */

/* What Rewind, Fork, Publish and a Continue that cuts keep of a conversation. */
struct keep {
        uint32_t n_turns, n_tokens;
        bool inside;           /* the last kept turn is cut: */
        struct conv_turn last; /* its new form */
        struct buf text;       /* of that */
};

/* What @r keeps of @c. @ret: zeroed; to be freed with keep_deinit(), also on failure. */
int keep_resolve(struct engine *engine, const struct conv *c, const struct engine_request *r,
        struct keep *ret, struct err *e);
/* For the register: the last kept turn if it changes, else NULL. Borrows from @k. */
const struct store_turn *keep_last(const struct keep *k, struct store_turn *out);
void keep_deinit(struct keep *k);
