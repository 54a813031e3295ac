/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Conversations in RAM, the spill records that they refer to, and the cutting of conversations
 * (struct keep). Engine thread, unless said otherwise. conv.c has the invariants.
 */
#include "base/buf.h"
#include "base/gap.h"
#include "base/list.h"
#include "chat/chat.h"
#include "chat/reply.h"
#include "engine/io/io.h"
#include "engine/parts.h"
#include "seq/seq.h"
#include "spill/spill.h"
#include "store/store.h"

struct edit;
struct request;

/* A spill record that loaded conversations refer to: one struct for each id. */
struct rec {
        struct store_record r;
        uint32_t n_refs; /* loaded conversations and pins */
        bool damaged;    /* it could not be read: never use it again */
};

/* Where one cell lies on disk. recs.c has the invariants. */
struct conv_rec {
        struct rec *rec;  /* a reference */
        uint32_t index;   /* of the cell */
        uint32_t n_valid; /* tokens of the cell, from its start, that are the conversation's */
        bool linked;      /* in the register, too */
};
struct recs {
        struct conv_rec *list; /* [n], by rising index */
        size_t n, capacity;
};
struct recs_all {
        struct recs of[SEQ_N_CLASSES];
};

struct conv_turn {
        enum chat_role role;
        uint32_t start, end; /* in the transcript */
        enum engine_finish finish;
        /* The register has more of it than its text: definitions of tools, or what it was given with
         * (struct store_turn). */
        bool extra;
};

/* A conversation in RAM; its memory may be elsewhere. */
struct conv {
        uint64_t id;
        uint64_t owner;
        uint64_t parent; /* as it was when the conversation was loaded; 0: none */
        uint64_t revision, created_usec;
        bool foreign_vocab;   /* the tokens belong to another model's vocabulary */
        bool private_memory;  /* imported from elsewhere: never shared, forks inherit it */
        uint32_t n_published; /* tokens of the prefix that all users may share; 0: none */
        bool pinned;          /* its memory goes out of RAM last: memory/evict.c */
        bool stale;           /* no longer as in the register: unload after use */
        /* The history is damaged in the register, and only the turns before the damage are here. */
        struct err *damage;                   /* owned; NULL: the history is sound */
        uint32_t n_lost_turns, n_lost_tokens; /* in the register, behind the damage */
        struct sampling sampling;
        int32_t *tokens; /* [n_all], of the memory; the first n_tokens are in the register */
        uint32_t n_tokens, n_all, capacity;
        struct gap gap;          /* tokens of the transcript that the memory leaves out */
        int32_t *dropped;        /* [gap_size()]: these tokens */
        bool shifts;             /* at the end of the context: drop old turns from the memory */
        bool opened_with_tools;  /* the register has definitions that hold from the beginning */
        struct conv_turn *turns; /* of the transcript */
        uint32_t n_turns, turns_capacity;
        struct seq *seq;
        struct recs_all recs; /* where its cells lie on disk */
        uint32_t n_known;     /* positions whose memory was ever computed (for statistics) */
        uint32_t cut_at; /* a cut farther on had to go back to this checkpoint; UINT32_MAX: none */
        size_t charged;  /* bytes in the ledger */

        /* Users of the conversation. */
        struct request *busy;    /* the request that holds it, or NULL */
        bool generates, removes; /* of `busy`: it generates a reply; its job removes tokens */
        unsigned n_io;           /* jobs under way that change the blocks or links */
        uint32_t n_forks;        /* fork transactions under way */
        uint32_t n_users;        /* requests and jobs that hold a pointer to the struct */
        struct list waiters;     /* requests that wait until n_io is 0 */
        struct list lru;         /* among the idle ones, least recently used first */
        struct list waits;       /* among those whose request waits for a place */
        uint64_t waits_order;    /* order of arrival of this request */

        /* Writing the memory to disk (memory/writebehind.c). */
        struct conv **writer; /* the write job's pointer to us, or NULL if no job writes */
        unsigned n_links;     /* 1 while the link transaction of this job is under way, else 0 */
        struct list dirty;    /* among idle ones that may have blocks not on disk */
        uint64_t t_parting;   /* since when it is to be given up (memory/part.c); 0: it is not */
        struct list unsent;   /* among those of which the remote store may lack what is on disk */
        uint64_t t_idle;      /* clock_monotonic_usec() when it became idle */

        /* Limits of the owner, as the last request said. */
        uint32_t ram_share;  /* percent; QUOTA_RAM_ALL: none */
        uint64_t disk_limit; /* bytes; QUOTA_NONE: none */
        bool is_over;        /* the owner may have more RAM than that (memory/ration.c) */

        /* Sharing (memory/share.c). */
        bool no_disk_share; /* another conversation's memory on disk proved damaged */
        size_t n_entered;   /* this many first blocks are in the prefix index */

        /* A Continue that cuts (memory/edit.c). */
        struct edit *edit;        /* pending, or NULL */
        struct recs_all old_recs; /* recs before the cut; they go with the edit */
};

/* --- tables.c --- */

/* Tables without any conversation. -ERR_NOMEM. */
int convs_new(struct convs **ret, struct err *e);
/* Call convs_unload_all() before. */
struct convs *convs_free(struct convs *t);
/* The loaded conversation, or NULL. */
struct conv *convs_find(struct engine *engine, uint64_t id);
/* Iterates over the loaded conversations; begin with *it = 0. NULL after the last. */
struct conv *convs_next(struct engine *engine, size_t *it);
size_t convs_count(struct engine *engine);
/* The conversation after @c in a list, or the first one (@c NULL); NULL at the end. idle: not in
 * use, least recently used first; dirty: idle and maybe not all on disk, longest idle first. */
struct conv *convs_next_idle(struct engine *engine, const struct conv *c);
struct conv *convs_next_dirty(struct engine *engine, const struct conv *c);
/* Those of which something was written to disk since they were last brought to the remote store; and enter one. */
struct conv *convs_next_unsent(struct engine *engine, const struct conv *c);
void conv_set_unsent(struct engine *engine, struct conv *c);
void conv_set_unsent_first(struct engine *engine, struct conv *c);
/* One that was unloaded before it was brought there, and is told once: 1 and its id; 0: there is none; 2: there are more than are
 * remembered. */
void convs_note_left(struct engine *engine, uint64_t id);
int convs_take_left(struct engine *engine, uint64_t *ret);
size_t convs_n_left(const struct engine *engine);
/* The same for conversations whose request waits for a place, latest arrival first. */
struct conv *convs_next_waiting(struct engine *engine, bool background, const struct conv *c);
/* Enter @c as waiting, or (@waits false) take it out: the request that holds @c waits for a place,
 * and is number @order by arrival. */
void conv_set_waiting(
        struct engine *engine, struct conv *c, bool waits, bool background, uint64_t order);

/* Whether a conversation of an owner whose RAM is limited has become idle since the last call, or (conv_limit_all())
 * limits have changed. */
bool convs_take_over(struct engine *engine);
void convs_set_over(struct engine *engine);
/* conv_limit() for all loaded conversations of @owner. */
void conv_limit_all(struct engine *engine, uint64_t owner, const struct quotas *quotas);
/* Move into @list the requests that may act now, after waiting for a conversation's I/O. */
void convs_take_ready(struct engine *engine, struct list *list);
/* Put request @link into the list of ready ones: the engine thread will go on with it. */
void convs_make_ready(struct engine *engine, struct list *link);

/* One request loads a conversation, others wait for it. Embedded in each request. */
struct conv_load {
        struct list link; /* among the loading ones, or among the followers of one of them */
        uint64_t id;
        struct list followers;
};
/* The load under way for conversation @id, or NULL. */
struct conv_load *conv_loader(struct engine *engine, uint64_t id);
void conv_load_begin(struct engine *engine, struct conv_load *load, uint64_t id);
/* The load is over; requests that waited for it are moved into @followers. */
void conv_load_end(struct conv_load *load, struct list *followers);

/* Should this damage be logged? Once per conversation, and for a limited number of them. */
bool convs_tell_damage(struct engine *engine, uint64_t id);
void convs_forget_damage(struct engine *engine, uint64_t id);

/* --- rec.c --- */

/* The entry of this record, made if need be, with a new reference. NULL without memory. */
struct rec *rec_get(struct engine *engine, const struct store_record *r, struct err *e);
/* Gives back a reference. NULL is allowed. */
void rec_put(struct engine *engine, struct rec *rec);
/* The entry with this id, or NULL if there is none. Takes no reference. */
struct rec *rec_find(struct engine *engine, uint64_t id);

/* The position behind a record's last token. */
static inline uint32_t record_end(const struct engine *engine, const struct store_record *r) {
        return r->index * seq_cell_tokens(&engine->info.shape, (enum seq_class)r->block_class) +
               r->n_tokens;
}
static inline struct spill_ref record_ref(const struct store_record *r) {
        return (struct spill_ref){r->file_key, r->offset, r->stored_size, r->raw_size, r->owner};
}
static inline struct spill_meta record_meta(const struct store_record *r) {
        return (struct spill_meta){r->block_class, r->index, r->n_tokens, r->token_hash};
}
/* Chained hashes of tokens, for the identity of records: of all tokens up to the end of a block. Any
 * thread. */
uint64_t conv_token_hash(const int32_t *tokens, uint32_t block_tokens, uint32_t index,
        uint32_t n_in_block, uint64_t prev);
/* The hash of all tokens before position @end > 0. @hashes: of whole blocks, [end / block_tokens]. */
uint64_t conv_hash_at(
        const struct engine *engine, const int32_t *tokens, const uint64_t *hashes, uint32_t end);

/* --- recs.c --- */

/* The entry of a cell, borrowed until the list changes; NULL: not on disk. */
struct conv_rec *recs_at(const struct recs_all *all, enum seq_class c, uint32_t index);
/* Enter @entry in place of what its cell had. Takes over the reference, except on failure:
 * -ERR_NOMEM (never if the cell has an entry). */
int recs_set(struct engine *engine, struct recs_all *all, enum seq_class c,
        const struct conv_rec *entry, struct err *e);
/* Entries of cells [@from, @to) go. */
void recs_drop(
        struct engine *engine, struct recs_all *all, enum seq_class c, uint32_t from, uint32_t to);
void recs_drop_unlinked(struct engine *engine, struct recs_all *all);
/* The tokens from @from on are gone, or other ones. */
void recs_cut(struct engine *engine, struct recs_all *all, uint32_t from);
/* Copy what is of the first @n tokens. -ERR_NOMEM. */
int recs_copy(struct engine *engine, struct recs_all *ret, const struct recs_all *from, uint32_t n,
        struct err *e);
/* Empty the lists. */
void recs_free(struct engine *engine, struct recs_all *all);
size_t recs_count(const struct recs_all *all);
/* Bytes on disk of all entries. */
uint64_t recs_stored_size(const struct recs_all *all);

/* --- conv.c --- */

/* Load the conversation of row @sc, idle at first. @t: at least its tokens, with any gap; the
 * conversation gets the gap of the row. -ERR_LIMIT, -ERR_TOO_LARGE, -ERR_NOMEM. */
int conv_new(struct conv **ret, struct engine *engine, const struct store_conv *sc,
        const struct transcript *t, const struct store_turns *turns, struct err *e);
/* Frees the conversation, which must not be in use, and removes it from all tables. */
void conv_unload(struct engine *engine, struct conv *c);
void convs_unload_all(struct engine *engine);
/* These limits of the owner hold for the conversation from now on. */
static inline void conv_limit(struct conv *c, const struct quotas *quotas) {
        c->ram_share = quotas->max[QUOTA_RAM] < QUOTA_RAM_ALL ? (uint32_t)quotas->max[QUOTA_RAM]
                                                              : QUOTA_RAM_ALL;
        c->disk_limit = quotas->max[QUOTA_DISK];
}
/* Count a user more or less; a conversation without users is in the list of idle ones. */
void conv_use(struct engine *engine, struct conv *c);
void conv_unuse(struct engine *engine, struct conv *c);
/* Charge @n bytes of bookkeeping: unloads idle conversations where needed. 0, or 1: no room. */
int conv_charge(struct engine *engine, size_t n);
void conv_discharge(struct engine *engine, size_t n);
int conv_add_turn(struct engine *engine, struct conv *c, const struct conv_turn *t, struct err *e);
/* Room for @n tokens in all, charged by conv_charge(). -ERR_LIMIT, -ERR_TOO_LARGE, -ERR_NOMEM. */
int conv_reserve_tokens(struct engine *engine, struct conv *c, uint32_t n, struct err *e);
/* The tokens of a conversation as arrays of its own. Owned, and charged. */
struct conv_tokens {
        int32_t *tokens, *dropped;
        uint32_t capacity; /* of tokens; 0: never arranged */
        struct gap gap;
};
/* Arrange the first @n tokens of transcript @t with gap @gap. Fails as conv_reserve_tokens(). */
int conv_arrange(struct engine *engine, struct conv_tokens *ret, const struct transcript *t,
        uint32_t n, const struct gap *gap, struct err *e);
/* Exchange the arrays and the gap of @c and of @x; n_tokens and n_all are the caller's. */
void conv_swap_tokens(struct engine *engine, struct conv *c, struct conv_tokens *x);
void conv_free_tokens(struct engine *engine, struct conv_tokens *x);
/* The tokens of @c, borrowed. */
static inline struct transcript conv_transcript(const struct conv *c) {
        return (struct transcript){c->tokens, c->dropped, c->gap};
}
/* The number of tokens of the transcript that are in the register. Not while an edit is pending. */
static inline uint32_t conv_n_transcript(const struct conv *c) {
        return c->n_tokens + gap_size(&c->gap);
}
/* Whether a cell that is not in RAM can be read from disk. */
bool conv_cell_on_disk(const struct conv *c, enum seq_class class, const struct seq_cell *cell);
/* Tokens from @from on are committed: records with such tokens that an eviction of the request under
 * way has linked are linked anew, by whatever writes next (store_record.n_ahead). */
void conv_link_again(const struct engine *engine, struct conv *c, uint32_t from);
/* The register has lost the records of cells [@from, @to) of the class, both of the present conversation
 * and of an old end that was put aside. */
void conv_forget_recs(
        struct engine *engine, struct conv *c, enum seq_class class, uint32_t from, uint32_t to);
/* Cut the memory at @pos, or before it: at the last checkpoint. */
void conv_cut(struct conv *c, uint32_t pos);
/* The same for a sequence @from that was forked into the conversation's. */
void conv_note_cut(struct conv *c, const struct seq *from, uint32_t pos);
/* Cells that are neither in RAM nor on disk become absent: shorten the memory accordingly. */
void conv_trim(struct engine *engine, struct conv *c);
/* Make the requests that wait for the conversation's I/O ready, if no I/O is left. */
void conv_resume(struct engine *engine, struct conv *c);
/* A job counted in n_io is over; calls conv_unuse(). */
void conv_io_over(struct engine *engine, struct conv *c);
/* Log, only once, that reading the conversation found damage. */
void conv_tell_damage(struct engine *engine, const struct store_reading *x);
/* The damaged part of @c is gone; the rest is sound. */
void conv_forget_damage(struct engine *engine, struct conv *c);
/* Whether definitions of tools were told with the first message; whether any hold at the end (the
 * register has them: store_tools()). */
bool conv_begins_with_tools(const struct conv *c);
bool conv_has_tools(const struct conv *c);
/* What a message is appended to: the end of the memory so far. */
struct chat_tail conv_chat_tail(const struct engine *engine, const struct conv *c);
/* The same for a memory that ends where gap @g begins. */
struct chat_tail conv_front_tail(
        const struct engine *engine, const struct conv *c, const struct gap *g);
void conv_fill_residency(const struct conv *c, struct engine_conv *out);

/* --- keep.c --- */

/* The part of a conversation that Rewind, Fork or a Continue that cuts keeps, or Publish shares. */
struct keep {
        uint32_t n_turns, n_tokens; /* of the transcript */
        struct gap gap;             /* what the memory of this part leaves out */
        bool inside;                /* the last kept turn is cut; then: */
        struct conv_turn last;      /* its new form */
        struct buf text;            /* text of the cut turn */
        uint64_t chain;             /* of what is kept: chain_kept() */
};

/* Find out which part of @c the request @r keeps. @ret: zeroed; call keep_deinit() also on failure.
 * -ERR_INVALID, -ERR_STATE, -ERR_CORRUPT (behind damage), -ERR_NOMEM. */
int keep_resolve(struct engine *engine, const struct conv *c, const struct engine_request *r,
        struct keep *ret, struct err *e);
/* The number of tokens at the beginning of a reply's turn that invite the reply; 0 if the turn
 * continued an open reply. -ERR_NOMEM. */
int keep_reply_header(
        struct engine *engine, const struct conv *c, const struct conv_turn *t, uint32_t *ret);
/* For the register: the last kept turn if it changes, else NULL. Borrows from @k. */
const struct store_turn *keep_last(const struct keep *k, struct store_turn *out);
void keep_deinit(struct keep *k);

/* --- said.c: messages of tools, and given ones, in the register --- */

/* Memory for what is read: at least one byte; NULL: @e tells why. */
typedef void *said_alloc_fn(void *arg, size_t n, struct err *e);
struct said_memory {
        said_alloc_fn *alloc;
        void *arg;
        struct charge *charge; /* of memory that is needed while reading; or NULL */
};
/* What a message of the assistant was given with. */
struct given {
        const char *reasoning;     /* or NULL */
        struct engine_call *calls; /* [n_calls]; the block that has everything */
        size_t n_calls;
};
/* Append the text of a turn of tools, or the extra of a given message. -ERR_NOMEM, -ERR_LIMIT,
 * -ERR_TOO_LARGE. Any thread. */
int results_format(struct buf *out, const struct engine_result *results, size_t n, struct err *e);
int given_format(struct buf *out, const char *reasoning, const struct engine_call *calls, size_t n,
        struct err *e);
/* Read them back into one block: *ret, or ret->calls. -ERR_INVALID, with the place, if the text has
 * not the form that is written. A block that was made is returned even on failure. Any thread. */
int results_parse(const char *text, size_t size, const struct said_memory *memory,
        struct engine_result **ret, size_t *ret_n, struct err *e);
int given_parse(const char *text, size_t size, const struct said_memory *memory, struct given *ret,
        struct err *e);

/* --- parts.c: parts of what the assistant said. Any thread --- */

/* Collects parts. News of one part that follow each other become one. */
struct parts {
        struct buf items, bytes;
        uint32_t at; /* where the reply begins, in the transcript: what the reader was fed first */
        uint32_t n_calls; /* proper calls that ended */
        bool silent;      /* only count */
        /* The newest part, and the bytes of its text so far. */
        uint32_t index;
        size_t index_size;
        /* This many bytes more of part skip_index were given out before: they are left out. */
        uint32_t skip_index;
        size_t skip;
};
void parts_init(struct parts *p, struct charge *charge);
void parts_deinit(struct parts *p);
void parts_clear(struct parts *p);
bool parts_any(const struct parts *p);
/* A chat_part_fn; @arg: the struct parts. */
int parts_add(void *arg, const struct chat_part_event *event, struct err *e);
/* The parts of a message that was given; @given: or NULL. p->at is the turn's start: a call that has no id
 * gets one from there and from its number. */
int parts_add_given(
        struct parts *p, const char *text, size_t size, const struct given *given, struct err *e);
/* The parts so far as one block, for the caller to free; @p is empty then. */
int parts_take(struct parts *p, said_alloc_fn *alloc, void *arg, struct engine_part **ret,
        size_t *ret_n, struct err *e);

/* A history, in RAM or just read; borrowed. */
struct said {
        struct transcript tokens;
        const struct conv_turn *turns;
        uint64_t created_usec; /* of the conversation */
};
static inline struct said conv_said(const struct conv *c) {
        return (struct said){conv_transcript(c), c->turns, c->created_usec};
}
/* The number of tokens at the beginning of a reply's turn that invite the reply; 0 if the turn goes on
 * with an open reply. -ERR_NOMEM. */
int said_reply_header(struct engine *engine, const struct said *said, uint32_t turn, uint32_t *ret);
/* 1: reply @turn goes on with the open reply before it; 0: not; -ERR_NOMEM. *ret_header: as above. */
int said_goes_on(
        struct engine *engine, const struct said *said, uint32_t turn, uint32_t *ret_header);
/* Where the reply begins that @turn is (a part of): the tokens that invite it are [start, begin). */
struct said_reply {
        uint32_t turn, start, begin;
};
int said_find_reply(struct engine *engine, const struct said *said, uint32_t turn,
        struct said_reply *ret, struct err *e);
int said_feed_header(const struct said *said, const struct said_reply *at,
        struct chat_reply *reader, struct err *e);
/* Feed tokens [@from, @to) to the reader, which tells @parts. */
int said_feed(const struct said *said, uint32_t from, uint32_t to, struct chat_reply *reader,
        struct parts *parts, struct err *e);

/* Feed the tokens of @turn from @from on, the last one of a reply that ended at a stop string, as far as
 * its @text goes. */
int said_feed_text(struct engine *engine, const struct said *said, uint32_t turn, uint32_t from,
        const char *text, size_t size, struct chat_reply *reader, chat_part_fn fn, void *arg,
        struct err *e);

/* --- normal.c: the form in which Find compares what was said. Any thread --- */

struct normal {
        struct buf
                items; /* of the messages since normal_clear(), but for what normal_meet() took */
        struct buf exact;     /* likewise: the texts of the assistant, with their white space */
        struct buf reasoning; /* likewise, trimmed */
        bool reasons;         /* there is reasoning */
        uint64_t chain;       /* of all items, whether they were cleared or not */
        /* Of the message that is being said. */
        struct buf calls;
        size_t said_at, reasoning_at, call_at;
};
/* @chain: where the chain goes on from. @charge (or NULL) pays, and outlives the form. */
void normal_init(struct normal *n, uint64_t chain, struct charge *charge);
void normal_deinit(struct normal *n);
void normal_clear(struct normal *n);
/* All of these: -ERR_NOMEM, or what charge_take() returns. */
int normal_put_message(struct normal *n, const struct engine_message *m, struct err *e);
int normal_put_tools(struct normal *n, const char *tools, size_t size, struct err *e);
/* A message of the assistant, bit by bit: texts and reasoning are joined, and calls keep their order. */
void normal_begin(struct normal *n);
int normal_put_text(struct normal *n, const char *text, size_t size, struct err *e);
int normal_put_reasoning(struct normal *n, const char *text, size_t size, struct err *e);
int normal_begin_call(struct normal *n, const char *name, struct err *e);
int normal_put_arguments(struct normal *n, const char *text, size_t size, struct err *e);
int normal_end(struct normal *n, struct err *e);
/* Take off the items that both begin with. False: they differ; else one of them has none left. */
bool normal_meet(struct normal *a, struct normal *b);
/* Whether the reasoning is the same, or one of them has none; whether the exact texts are. */
bool normal_same_reasoning(const struct normal *a, const struct normal *b);
bool normal_same_text(const struct normal *a, const struct normal *b);
/* The chain of no messages, for this owner and these definitions (or NULL). */
int chain_seed(uint64_t owner, const char *tools, size_t size, struct charge *charge, uint64_t *ret,
        struct err *e);

/* --- teller.c: what turns say, and their chains. Any thread --- */

/* Turns one after the other, with their texts and tokens. */
struct teller {
        struct engine *engine;
        struct charge *charge;          /* pays; or NULL */
        struct said said;               /* turns[] and the tokens of all of them */
        const struct store_turn *turns; /* the same turns as the register has them */
        const char *tools; /* definitions that hold before the next turn, or NULL: borrowed */
        size_t tools_size;
        bool foreign;   /* the tokens are of another vocabulary: replies are told by their texts */
        uint64_t owner; /* of the conversation */
        /* Of the turns so far; and of those before the reply that the last one is (a part of). */
        uint64_t chain, before_reply;
        bool begun; /* there are turns before the next one */
};
/* What turn @i says. 0; 1: nothing that a message could say (rule 7 of normal.c). */
int teller_say(struct teller *t, uint32_t i, struct normal *to, struct err *e);
/* Whether turn @i goes on with the reply of the turn before. 1, 0, -ERR_NOMEM. */
int teller_goes_on(struct teller *t, uint32_t i, struct err *e);
/* Add turn @i to the chain. -ERR_NOMEM, or what charge_take() returns: the chain is unknown then. */
int teller_chain(struct teller *t, uint32_t i, struct err *e);

/* The chains of turns [0, @n), the first of the conversation. On failure the rest is unknown. */
int teller_chain_all(struct teller *t, uint32_t n, uint64_t *ret, struct err *e);
struct conv_turn teller_turn(const struct store_turn *row);

/* --- chain.c. Any thread --- */

/* A teller of what was read, from the first turn on: of n turns, those that are sound. Borrows from
 * @reading, which has turns, texts, tokens and first_tools. */
struct told {
        struct teller teller;
        struct conv_turn *turns; /* [n], owned, and charged */
        uint32_t n;
        size_t charged;
};
/* On failure, too, told_deinit() is to be called. */
int told_init(struct told *x, struct engine *engine, const struct store_reading *reading,
        struct charge *charge, struct err *e);
void told_deinit(struct told *x);
/* The chains of a whole conversation as it was read: [conv.n_turns]. */
int chain_reading(struct engine *engine, const struct store_reading *reading, struct charge *charge,
        uint64_t *ret, struct err *e);

/* Fill in the chains of new turns behind those of @c, and that of @cut (the edit of @c that is pending, or
 * NULL) if it cuts a turn. What there is no memory for is unknown. Not the turns of @c, nor its tokens
 * before these, may change meanwhile. */
void chain_new_turns(struct engine *engine, const struct conv *c, struct keep *cut,
        struct store_turn *turns, size_t n);
/* Fill in the chain of what @keep keeps of conversation @id, if it cuts a turn; as above. Reads the
 * register. */
void chain_kept(struct engine *engine, uint64_t id, struct keep *keep);

/* --- shift.c: what the memory leaves out --- */

/* What must fit beside the history. */
struct shift_need {
        uint32_t limit;   /* tokens that a memory can have */
        size_t n_input;   /* tokens of the input */
        uint32_t n_reply; /* tokens to leave room for; at least 1 if there is to be a reply */
        bool goes_on;     /* the reply, or results, go on from the newest turn, which must stay */
};

/* The gap with which the kept part of @c, and what @need tells, fit. @keep has the gap that the
 * memory has without this request; it is the answer if everything fits with it. -ERR_CONTEXT, with
 * figures. Any thread, while the conversation is held. */
int shift_plan(struct engine *engine, const struct conv *c, const struct keep *keep,
        const struct shift_need *need, struct gap *ret, struct err *e);
/* The gap of the kept part, if nothing is added to it: the present one, or none, or a new one. */
struct gap shift_kept(struct engine *engine, const struct conv *c, const struct keep *keep);
