/* SPDX-License-Identifier: MIT */
/*
 * Carrying a conversation over to another vocabulary.
 *
 * 1. Only the tokens of the turns are replaced. Roles, texts, reasons and times stay in their rows:
 *    no statement here can change what was said.
 * 2. Tokens, vocabulary, gap, the links to memory of the old tokens, and every number that counts
 *    tokens change in one transaction. A stop leaves the whole old conversation or the whole new one.
 */
#include "base/util.h"
#include "store/store-private.h"
#include <string.h>

static int check_carried(const struct store_conv *c, const struct store_carried *x, struct err *e) {
        uint32_t pos = 0;

        if (x->n_turns != c->n_turns)
                return err_set(e, ERR_INVALID, "conversation has %u turns, not %zu", c->n_turns,
                        x->n_turns);
        for (size_t i = 0; i < x->n_turns; i++) {
                if (x->ends[i] < pos)
                        return err_set(
                                e, ERR_INVALID, "turn %zu ends at %u, before it begins", i, pos);
                pos = x->ends[i];
        }
        if (pos != x->n_tokens)
                return err_set(e, ERR_INVALID, "turns have %u tokens, %zu given", pos, x->n_tokens);
        if (!gap_is_possible(&x->gap, pos))
                return err_set(
                        e, ERR_INVALID, "a gap [%u, %u) in %u tokens", x->gap.from, x->gap.to, pos);
        if (x->n_published > pos)
                return err_set(e, ERR_INVALID, "%u tokens to publish of %u", x->n_published, pos);
        return 0;
}

static int set_origin(struct store *s, uint64_t id, const struct store_carried *x, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_SET_ORIGIN, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, x->model.weights);
        query_bind_u64(&q, x->model.rules);
        query_bind_u64(&q, x->vocab);
        query_bind_i64(&q, x->fork_pos);
        query_bind_i64(&q, x->n_published);
        query_bind_u64(&q, id);
        return query_run(&q, e);
}

static int carry_once(struct store *s, uint64_t id, const struct store_carried *x,
        uint64_t *ret_revision, struct store_gone *gone, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(store_gone_deinit) struct store_gone lost = {};
        struct store_conv c;
        int r;

        r = conv_begin(s, &txn, id, &c, e);
        if (r == 0)
                r = check_carried(&c, x, e);
        if (r == 0)
                r = turns_renew(s, id, x->ends, x->chains, x->n_turns, x->tokens, e);
        if (r == 0)
                r = links_cut(s, STMT_LINK_CUT, id, 0, 0, &lost, e);
        if (r == 0)
                r = set_origin(s, id, x, e);
        if (r < 0)
                return r;
        c.n_tokens = (uint32_t)x->n_tokens;
        c.gap = x->gap;
        c.revision++;
        r = conv_set_extent(s, &c, e);
        if (r == 0)
                r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        *ret_revision = c.revision;
        *gone = lost;
        lost = (struct store_gone){};
        return 0;
}

int store_carry(struct store *s, uint64_t id, const struct store_carried *x, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = carry_once(s, id, x, ret_revision, gone, e);
        while (txn_again(s, &r, e));
        return r;
}
