/* SPDX-License-Identifier: MIT */
/*
 * Chains: where in which conversations the same was said from the beginning.
 *
 * A turn's chain is a hash of what was said from the beginning to the end of the turn. What counts as
 * said, and for whom, is the business of whoever writes turns (engine/conv/normal.c): the register keeps
 * a number beside each turn, and finds turns by it.
 *
 * 1. A chain is written in the transaction that writes its turn, or that changes what the turn has. A
 *    fork copies the chains with the turns.
 * 2. NULL stands for a chain that is not known: of turns from before schema version 7, or if there was
 *    no memory to compute it. The turns behind such a turn have none either. store_chains_missing()
 *    finds these conversations by an index that is empty as a rule, and store_chains_set() makes up for
 *    them. A turn that was cut or removed meanwhile is passed over there, so the caller works on
 *    conversations that nobody changes.
 * 3. Every look-up takes a bounded number of steps through an index, whatever the number of
 *    conversations is. Where many conversations have one chain, those made last are looked at.
 * 4. Equal chains lead to candidates. The caller compares what was said (I6).
 */
#include "base/util.h"
#include "store/store-private.h"
#include <string.h>

void bind_chain(struct query *q, uint64_t chain) {
        if (chain == STORE_CHAIN_UNKNOWN)
                query_bind_null(q);
        else
                query_bind_u64(q, chain);
}

static int get_chain(struct store *s, uint64_t id, uint32_t n_turns, uint64_t *ret, struct err *e) {
        uint64_t chain = STORE_CHAIN_UNKNOWN;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CHAIN_GET, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, (int64_t)n_turns - 1);
        r = query_step(&q, e);
        if (r > 0) {
                if (!query_is_null(&q, 0))
                        chain = query_u64(&q, 0);
                r = query_check(&q, e);
        }
        if (r == 0)
                *ret = chain;
        return r;
}

int store_chain(struct store *s, uint64_t id, uint32_t n_turns, uint64_t *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : get_chain(s, id, n_turns, ret, e);
}

/* --- chains that are not known --- */

static void take_id(struct query *q, void *out) {
        *(uint64_t *)out = query_number(q, 0, INT64_MAX);
}

static int list_missing(
        struct store *s, uint64_t after, uint64_t *out, size_t max, size_t *ret_n, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CHAIN_MISSING, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, MIN(after, (uint64_t)INT64_MAX));
        query_bind_u64(&q, MIN((uint64_t)max, (uint64_t)INT64_MAX));
        return query_rows(&q, take_id, out, sizeof(*out), max, ret_n, e);
}

int store_chains_missing(
        struct store *s, uint64_t after, uint64_t *out, size_t max, size_t *ret_n, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : list_missing(s, after, out, max, ret_n, e);
}

static int set_chain(struct store *s, const struct store_chain_of *c, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CHAIN_SET, e);

        if (r < 0)
                return r;
        bind_chain(&q, c->chain);
        query_bind_u64(&q, c->conv);
        query_bind_i64(&q, c->turn);
        return query_run(&q, e);
}

static int chains_set_once(
        struct store *s, const struct store_chain_of *chains, size_t n, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        int r = txn_begin(s, &txn, e);

        for (size_t i = 0; r == 0 && i < n; i++)
                r = set_chain(s, &chains[i], e);
        return r < 0 ? r : txn_commit(&txn, e);
}

int store_chains_set(
        struct store *s, const struct store_chain_of *chains, size_t n, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = chains_set_once(s, chains, n, e);
        while (txn_again(s, &r, e));
        return r;
}

/* --- finding --- */

/* Two numbers stand for no hash. */
static bool is_hash(uint64_t chain) {
        return chain != STORE_CHAIN_UNKNOWN && chain != STORE_CHAIN_NEVER;
}

/* The first turn of conversation @id with this chain ends its first *ret turns; 0: there is none. */
static int find_place(struct store *s, uint64_t id, uint64_t chain, uint32_t *ret, struct err *e) {
        uint32_t n = 0;
        _query_ q = {};
        int r;

        if (!is_hash(chain)) {
                *ret = 0;
                return 0;
        }
        r = query_begin(&q, s, STMT_CHAIN_OF, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, chain);
        query_bind_u64(&q, id);
        r = query_step(&q, e);
        if (r > 0 && !query_is_null(&q, 0))
                n = (uint32_t)query_number(&q, 0, UINT32_MAX - 1) + 1;
        if (r >= 0)
                r = query_check(&q, e);
        if (r == 0)
                *ret = n;
        return r;
}

int store_chain_turns(struct store *s, uint64_t id, uint64_t chain, uint32_t *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : find_place(s, id, chain, ret, e);
}

/* 1 if a turn has this chain (@id: of this conversation), else 0. */
static int has_chain(struct store *s, uint64_t id, uint64_t chain, struct err *e) {
        uint32_t n_turns;
        _query_ q = {};
        int r;

        if (id != 0) {
                r = find_place(s, id, chain, &n_turns, e);
                return r < 0 ? r : n_turns > 0;
        }
        if (!is_hash(chain))
                return 0;
        r = query_begin(&q, s, STMT_CHAIN_HAS, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, chain);
        return query_step(&q, e);
}

int store_chain_longest(struct store *s, uint64_t id, const uint64_t *chains, size_t n, size_t *ret,
        struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        size_t has = 0, has_not = n + 1; /* chains[has - 1] is there; chains[has_not - 1] is not */
        size_t step = 1;
        int r = read_begin(&s, &reading, e);

        /* Mostly only the last one is new: from the end in steps that double, until one is there. */
        while (r == 0 && has_not - has > 1) {
                size_t middle =
                        has > 0 ? has + (has_not - has) / 2 : has_not - MIN(step, has_not - 1);

                r = has_chain(s, id, chains[middle - 1], e);
                if (r < 0)
                        break;
                if (r > 0)
                        has = middle;
                else
                        has_not = middle;
                step *= 2;
                r = 0;
        }
        if (r == 0)
                *ret = has;
        return r;
}

/* Who may be looked at: places that are found, before their conversations are read. Those of the session
 * come first. */
struct seen {
        struct store_candidate list[2 * STORE_CANDIDATES_SEEN];
        size_t n, n_session;
};

/* The latest conversations of the session, without their places. */
static int see_session(
        struct store *s, uint64_t owner, const char *session, struct seen *seen, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CHAIN_SESSION, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, owner);
        query_bind_text(&q, session, strlen(session));
        query_bind_i64(&q, STORE_CANDIDATES_SEEN);
        while (seen->n < STORE_CANDIDATES_SEEN && (r = query_step(&q, e)) > 0)
                seen->list[seen->n++] = (struct store_candidate){
                        .conv = query_number(&q, 0, INT64_MAX), .session = true};
        return r < 0 ? r : query_check(&q, e);
}

static bool was_seen(const struct seen *seen, uint64_t conv) {
        for (size_t i = 0; i < seen->n_session; i++)
                if (seen->list[i].conv == conv)
                        return true;
        return false;
}

static int see_latest(struct store *s, uint64_t chain, struct seen *seen, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CHAIN_CONVS, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, chain);
        query_bind_i64(&q, STORE_CANDIDATES_SEEN);
        while (seen->n < ARRAY_SIZE(seen->list) && (r = query_step(&q, e)) > 0) {
                const struct store_candidate c = {.conv = query_number(&q, 0, INT64_MAX),
                        .n_turns = (uint32_t)query_number(&q, 1, UINT32_MAX - 1) + 1};

                if (!was_seen(seen, c.conv))
                        seen->list[seen->n++] = c;
        }
        return r < 0 ? r : query_check(&q, e);
}

/* Fill in what the conversation's row says. 0: it is no candidate after all. */
static int look_at(
        struct store *s, uint64_t owner, uint64_t vocab, struct store_candidate *c, struct err *e) {
        struct store_conv row;
        int r = conv_read(s, c->conv, &row, e);

        /* A damaged row is no candidate, and is reported to those who name it. */
        if (r == -ERR_NOT_FOUND || r == -ERR_CORRUPT)
                return 0;
        if (r < 0)
                return r;
        c->own_vocab = row.vocab == vocab;
        c->ends = row.n_turns == c->n_turns;
        c->updated_usec = row.updated_usec;
        return row.owner == owner && row.n_turns >= c->n_turns;
}

static bool is_better(const struct store_candidate *a, const struct store_candidate *b) {
        if (a->session != b->session)
                return a->session;
        if (a->own_vocab != b->own_vocab)
                return a->own_vocab;
        if (a->ends != b->ends)
                return a->ends;
        return a->updated_usec > b->updated_usec;
}

int store_chain_candidates(struct store *s, uint64_t owner, uint64_t vocab, const char *session,
        uint64_t chain, struct store_candidate *out, size_t max, size_t *ret_n, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        struct seen seen = {.n = 0};
        size_t n = 0;
        int r = read_begin(&s, &reading, e);

        if (r == 0 && session)
                r = see_session(s, owner, session, &seen, e);
        seen.n_session = seen.n;
        for (size_t i = 0; r == 0 && i < seen.n_session; i++)
                r = find_place(s, seen.list[i].conv, chain, &seen.list[i].n_turns, e);
        if (r == 0)
                r = see_latest(s, chain, &seen, e);
        for (size_t i = 0; r >= 0 && i < seen.n; i++) {
                struct store_candidate c = seen.list[i];
                size_t k;

                r = c.n_turns > 0 ? look_at(s, owner, vocab, &c, e) : 0;
                if (r <= 0)
                        continue;
                for (k = n; k > 0 && is_better(&c, &out[k - 1]); k--)
                        if (k < max)
                                out[k] = out[k - 1];
                if (k < max)
                        out[k] = c;
                n = MIN(n + 1, max);
        }
        if (r < 0)
                return r;
        *ret_n = n;
        return 0;
}
