/* SPDX-License-Identifier: MIT */
/*
 * Forks. A child's turns are copies: tokens are 4 bytes each, and a copy stays readable, deletable
 * and checkable on its own. Its memory is not copied: it has links to the parent's records.
 */
#include "store/pg.h"
#include "store/words.h"
#include <string.h>

static int copy_turns(
        struct store *s, uint64_t from, uint64_t to, uint32_t n_turns, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TURN_COPY, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, to);
        query_bind_u64(&q, from);
        query_bind_i64(&q, n_turns);
        return query_run(&q, e);
}

/* The child's row as it will be, from the parent's, which is cut already. */
static int shape_child(struct store *s, const struct store_conv *parent, uint32_t n_turns,
        struct store_conv *child, struct err *e) {
        struct store_conv made = *parent;
        int r;

        memcpy(made.name, child->name, sizeof(made.name));
        made.parent = parent->id;
        made.fork_pos = made.n_tokens;
        made.n_turns = n_turns;
        made.n_published = 0;
        made.revision = 1;
        made.created_usec = made.updated_usec = store_now_usec(s);
        r = conv_choose_identity(s, &made, e);
        if (r < 0)
                return r;
        *child = made;
        return 0;
}

static int conv_fork_once(struct store *s, uint64_t parent, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, struct store_conv *child,
        struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        struct store_conv from, made = *child;
        uint32_t common;
        int r;

        r = conv_check_name(child->name, e);
        if (r == 0 && child->about)
                r = about_check(child->about, e);
        if (r < 0)
                return r;
        r = txn_begin(s, &txn, e);
        /* Any machine may fork what another one holds, as of one moment; not what it has lost since it looked. */
        if (r == 0 && s->pg)
                r = pg_lock(s, parent, e);
        if (r == 0)
                r = conv_read(s, parent, &from, e);
        if (r < 0)
                return r;
        r = gap_apply(s, &from, n_turns, last, gap, &common, e);
        if (r < 0)
                return r;
        r = shape_child(s, &from, n_turns, &made, e);
        if (r < 0)
                return r;
        r = conv_insert(s, &made, e);
        if (r < 0)
                return r;
        r = made.tools_size > 0 ? conv_copy_tools(s, parent, made.id, e) : 0;
        if (r == 0)
                r = about_inherit(s, parent, &made, e);
        if (r == 0 && child->about)
                r = about_set(s, &made, child->about, made.updated_usec, e);
        if (r == 0)
                r = copy_turns(s, parent, made.id, n_turns, e);
        if (r < 0)
                return r;
        r = figures_copy(s, parent, made.id, n_turns, e);
        if (r < 0)
                return r;
        r = last ? turn_shorten(s, made.id, n_turns - 1, last, e) : 0;
        if (r == 0)
                r = words_add_names(s, made.owner, made.id, e);
        if (r == 0)
                r = words_add_turns(s, made.owner, made.id, 0, n_turns, e);
        if (r < 0)
                return r;
        r = links_copy(s, parent, &made, common, e);
        /* Not all that is told of a row is inherited: whether its last turn waits for a reply, a pin. */
        if (r == 0)
                r = conv_read(s, made.id, &made, e);
        if (r < 0)
                return r;
        r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        *child = made;
        return 0;
}

int store_conv_fork(struct store *s, uint64_t parent, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, struct store_conv *child,
        struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = conv_fork_once(s, parent, n_turns, last, gap, child, e);
        while (txn_again(s, &r, e));
        return r;
}
