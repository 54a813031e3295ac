/* SPDX-License-Identifier: MIT */
/*
 * Late pushes: of what is on this machine's disk and nobody has brought to the remote store, because its conversation was unloaded before
 * its turn came, or the daemon ended before, or had no remote store when it was written. What a push needs is read from the register.
 *
 *      opened ──→ walk: the next conversation with memory on this disk ──┐
 *      unloaded (convs_note_left()) ─────────────────────────────────────┴─→ has its table of contents all of it? ─→ the next one
 *                                                                               └─ no: its tokens are read, it is pushed as any other
 *
 * 1. They come last, one at a time, and rest as others do; a drain waits for all of them (far_hand_over()).
 * 2. The walk goes by falling numbers, each conversation once. It stays where it is when the remote store or the register fails.
 * 3. Passed over are conversations that another machine holds, which brings them itself; those of another model; and those that nobody
 *    has changed for as long as memory is kept there.
 * 4. Nothing is removed: another machine may have brought what is not on this disk. Of both tables, that stays which belongs to the
 *    conversation's tokens, and of two cells in one place the longer one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/gap.h"
#include "engine/budget/budget.h"
#include "engine/far/state.h"

/* --- its thread --- */

static int admit(void *arg, size_t n, struct err *e) {
        struct push *push = arg;

        return charge_take(&push->charge, n, "reading a conversation", e);
}

/* Rule 3. */
static bool is_wanted(const struct engine *engine, const struct store_reading *x) {
        uint64_t kept_usec = (uint64_t)engine->far->keep_sec * 1000000;

        return x->links.n > 0 && x->conv.lease != STORE_LEASE_ELSEWHERE &&
               x->conv.vocab == engine->vocab_hash &&
               fingerprint_equal(&x->conv.model, &engine->info.fingerprint) &&
               x->conv.updated_usec + kept_usec > store_now_usec(engine->store);
}

static bool is_whole(const struct engine *engine, const struct store_record *r, uint32_t n_tokens) {
        uint32_t ct;

        if (r->block_class >= SEQ_N_CLASSES || !engine->info.shape.size[r->block_class])
                return false;
        ct = seq_cell_tokens(&engine->info.shape, (enum seq_class)r->block_class);
        return r->n_tokens > 0 && r->n_tokens <= ct && r->n_valid >= r->n_tokens &&
               (uint64_t)r->index * ct + r->n_tokens <= n_tokens;
}

static int take(struct engine *engine, struct push *push, struct store_reading *x, struct err *e) {
        const struct transcript all = {.memory = x->tokens};
        uint32_t n = (uint32_t)x->n_tokens;
        struct gap gap = gap_cut(&x->conv.gap, n);
        int r;

        push->n_tokens = gap_to_memory(&gap, n);
        r = admit(push, push_size(engine, push->n_tokens, x->links.n), e);
        if (r < 0)
                return r;
        push->owner = x->conv.owner;
        push->is_private = x->conv.private_memory;
        push->tokens = malloc(push->n_tokens * sizeof(*push->tokens) + 1);
        push->records = calloc(x->links.n, sizeof(*push->records));
        if (!push->tokens || !push->records)
                return err_no_memory(e);
        (void)transcript_memory(&all, n, &gap, push->tokens);
        for (size_t i = 0; i < x->links.n; i++)
                if (is_whole(engine, &x->links.records[i], push->n_tokens))
                        push->records[push->n++] = x->links.records[i];
        return push->n > 0 ? 0 : 1;
}

static int read_conv(struct engine *engine, struct push *push, unsigned what,
        struct store_reading *ret, struct err *e) {
        int r = store_read_admitted(
                engine->store, OWNER_ANY, push->conv, NULL, what, admit, push, ret, e);

        return r == -ERR_NOT_FOUND || (r == 0 && !is_wanted(engine, ret)) ? 1 : r;
}

/* Whether the table of contents has all of the records, which stand in its order. Names are not made for it: that takes all tokens. */
static bool is_told(const struct engine *engine, const struct store_reading *x,
        const struct far_contents *table) {
        uint32_t n_tokens = store_memory_tokens(&x->conv);
        size_t at = 0;

        for (size_t i = 0; i < x->links.n; i++) {
                const struct store_record *record = &x->links.records[i];
                const struct far_cell own = {
                        .class = (enum seq_class)record->block_class, .index = record->index};
                const struct far_cell *cell;

                if (!is_whole(engine, record, n_tokens))
                        continue;
                while (at < table->n && far_compare_cells(&table->cells[at], &own) < 0)
                        at++;
                cell = at < table->n ? &table->cells[at] : NULL;
                if (!cell || far_compare_cells(cell, &own) != 0 ||
                        cell->n_tokens != record->n_tokens ||
                        cell->token_hash != record->token_hash)
                        return false;
        }
        return true;
}

/* 1: there is nothing to bring. */
static int look(struct engine *engine, struct push *push, struct err *e) {
        struct far_contents table = {0};
        struct store_reading x = {0};
        struct far_scope scope;
        int r = read_conv(engine, push, STORE_READ_LINKS, &x, e);

        if (r == 0)
                r = far_scope(engine, x.conv.owner, push->conv, x.conv.private_memory, &scope, e);
        push->register_failed = r < 0;
        if (r == 0)
                r = far_contents_read(engine, &scope, push->conv, far_deadline(engine), &table, e);
        if (r == 0)
                r = is_told(engine, &x, &table);
        far_contents_deinit(&table);
        store_reading_deinit(&x);
        return r;
}

int late_read(struct engine *engine, struct push *push, struct err *e) {
        struct store_reading x = {0};
        int r = 1;

        if (push->conv == 0)
                r = store_on_disk_before(engine->store, push->before, &push->conv, e);
        push->register_failed = r < 0;
        if (r <= 0)
                return r < 0 ? r : 1;
        r = look(engine, push, e);
        if (r != 0)
                return r;
        r = read_conv(engine, push, STORE_READ_TOKENS | STORE_READ_LINKS, &x, e);
        push->register_failed = r < 0;
        if (r == 0)
                r = take(engine, push, &x, e);
        store_reading_deinit(&x);
        return r;
}

/* Rule 4. */
static bool is_ours(
        const struct engine *engine, const struct far_names *names, const struct far_cell *cell) {
        struct far_cell own = *cell;

        if (far_cell_end(engine, cell) > names->n_tokens)
                return false;
        far_names_cell(engine, names, &own);
        return memcmp(&own.name, &cell->name, sizeof(own.name)) == 0;
}

int late_merge(struct engine *engine, struct push *push, struct err *e) {
        const struct far_contents *old = &push->old, *now = &push->now;
        struct far_contents all = {.cells = calloc(old->n + now->n + 1, sizeof(*all.cells))};
        struct far_names names;
        size_t i = 0, k = 0;
        int r = all.cells ? far_names_make(
                                    engine, &push->scope, push->tokens, push->n_tokens, &names, e)
                          : err_no_memory(e);

        if (r < 0) {
                far_contents_deinit(&all);
                return r;
        }
        while (i < old->n || k < now->n) {
                const struct far_cell *a = i < old->n ? &old->cells[i] : NULL;
                const struct far_cell *b = k < now->n ? &now->cells[k] : NULL;
                int order = !a ? 1 : !b ? -1 : far_compare_cells(a, b);

                i += order <= 0;
                if (order <= 0 && !is_ours(engine, &names, a))
                        continue;
                k += order >= 0;
                all.cells[all.n++] =
                        order < 0 || (order == 0 && a->n_tokens > b->n_tokens) ? *a : *b;
        }
        far_names_deinit(&names);
        far_contents_deinit(&push->now);
        push->now = all;
        return 0;
}

/* --- engine thread --- */

size_t late_n_pending(const struct engine *engine) {
        return convs_n_left(engine) + engine->far->late.walks;
}

struct push *late_next(struct engine *engine) {
        struct push *push = push_new(engine, sizeof(*push));
        int left;

        if (!push)
                return NULL;
        push->is_late = true;
        left = convs_take_left(engine, &push->conv);
        if (left == 2)
                late_open(engine->far);
        push->is_walk = left != 1;
        push->before = engine->far->late.before;
        return push;
}

void late_done(struct engine *engine, const struct push *push, bool again) {
        struct late *late = &engine->far->late;

        if (again && !push->is_walk)
                convs_note_left(engine, push->conv);
        if (again || !push->is_walk || late->before != push->before)
                return; /* it has begun anew meanwhile */
        late->before = push->conv;
        late->walks = push->conv > 0;
}
