/* SPDX-License-Identifier: MIT */
/*
 * Conversations in RAM.
 *
 * A conversation is loaded from the register when a request needs it. It is unloaded (forgotten in
 * RAM, never in the register) when room is needed and nothing uses it. The register's row stays the
 * truth for names and times. The struct has the things that the engine thread needs for computing:
 * tokens, turns, memory, and where the blocks lie.
 *
 * 1. tokens[0..n_tokens) are exactly the register's tokens without the gap, or a prefix of these
 *    while an edit is pending (memory/edit.c). tokens[n_tokens..n_all) belong to the request in
 *    `busy`. If the history is damaged in the register (`damage`), only the tokens before the damage
 *    are here. Such a conversation can be rewound or forked to a place before the damage. It cannot
 *    be continued from its end, since the lost text is unknown.
 * 2. seq_n_tokens(seq) <= n_all, and every cell of seq remembers tokens of this conversation, and no
 *    other ones before them.
 * 3. recs has records of the same tokens as the cells of seq (recs.c). It may have more than seq: cells
 *    behind its end, if they were not worth reading, and cells that are absent by now.
 * 4. Turns, and places that clients name, count in tokens of the transcript. Everything else counts
 *    in tokens of the memory, which leaves out the gap (base/gap.h has the mapping). `dropped` has
 *    the tokens of the gap, so that a Rewind or Fork to a place inside the gap has what it needs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/conv/tables.h"

/* --- records --- */

bool conv_cell_on_disk(const struct conv *c, enum seq_class class, const struct seq_cell *cell) {
        const struct conv_rec *entry = recs_at(&c->recs, class, cell->index);

        return entry && !entry->rec->damaged && entry->n_valid >= cell->n_tokens;
}

void conv_link_again(const struct engine *engine, struct conv *c, uint32_t from) {
        for (int class = 0; class < SEQ_N_CLASSES; class ++) {
                struct recs *recs = &c->recs.of[class];

                for (size_t i = recs->n;
                        i-- > 0 && record_end(engine, &recs->list[i].rec->r) > from;)
                        recs->list[i].linked = false;
        }
}

void conv_forget_recs(
        struct engine *engine, struct conv *c, enum seq_class class, uint32_t from, uint32_t to) {
        recs_drop(engine, &c->recs, class, from, to);
        recs_drop(engine, &c->old_recs, class, from, to);
}

/* The position up to which holes of SEQ_ALL can be read: an older record of a tail covers fewer tokens
 * of it. */
static uint32_t readable_end(const struct engine *engine, const struct conv *c) {
        struct seq_cell cell;
        size_t it = 0;

        while (seq_next_cell(c->seq, SEQ_ALL, &it, &cell)) {
                const struct conv_rec *entry = recs_at(&c->recs, SEQ_ALL, cell.index);

                if (!cell.block && !conv_cell_on_disk(c, SEQ_ALL, &cell))
                        return cell.index * engine->info.block_tokens +
                               (entry && !entry->rec->damaged ? entry->n_valid : 0);
        }
        return seq_n_tokens(c->seq);
}

void conv_note_cut(struct conv *c, const struct seq *from, uint32_t pos) {
        if (seq_n_tokens(c->seq) < MIN(pos, seq_n_tokens(from)))
                c->cut_at = seq_n_tokens(c->seq);
}

void conv_cut(struct conv *c, uint32_t pos) {
        uint32_t had = seq_n_tokens(c->seq);

        if (had > pos && seq_cut(c->seq, pos) < pos)
                c->cut_at = seq_n_tokens(c->seq);
}

void conv_trim(struct engine *engine, struct conv *c) {
        uint32_t end = readable_end(engine, c);

        if (end < seq_n_tokens(c->seq))
                seq_cut(c->seq, end);
        for (int class = SEQ_WINDOW; class < SEQ_N_CLASSES; class ++) {
                struct seq_cell cell;
                size_t it = 0;

                while (seq_next_cell(c->seq, (enum seq_class) class, &it, &cell))
                        if (!cell.block && !conv_cell_on_disk(c, (enum seq_class) class, &cell))
                                seq_forget(c->seq, (enum seq_class) class, cell.index);
        }
}

/* The least recently used idle conversation: one without memory in RAM, which loses nothing; else one that is
 * not pinned; else any. */
static struct conv *find_to_unload(struct engine *engine) {
        struct conv *victim = NULL, *c = NULL;

        while ((c = convs_next_idle(engine, c))) {
                if (c->n_links > 0)
                        continue; /* a transaction is under way: see writebehind.c */
                if (seq_n_resident(c->seq) == 0)
                        return c;
                if (!victim || (victim->pinned && !c->pinned))
                        victim = c;
        }
        return victim;
}

int conv_charge(struct engine *engine, size_t n) {
        for (;;) {
                struct conv *victim;

                if (ledger_reserve(&engine->budget->conversations, n) == 0)
                        return 0;
                victim = find_to_unload(engine);
                if (!victim)
                        return 1;
                if (seq_n_resident(victim->seq) > 0) {
                        engine->count.unspilled_drops++;
                        notice_conv(engine, ENGINE_NOTICE_EVICTED, victim->owner, victim->id,
                                victim->revision);
                }
                conv_unload(engine, victim);
        }
}

void conv_discharge(struct engine *engine, size_t n) {
        ledger_release(&engine->budget->conversations, n);
}

static int grow_turns(struct engine *engine, struct conv *c, struct err *e) {
        uint32_t n = MAX(c->turns_capacity * 2, 16u);
        size_t more = (size_t)(n - c->turns_capacity) * sizeof(*c->turns);
        struct conv_turn *p;

        if (conv_charge(engine, more) != 0)
                return err_set(e, budget_code(engine->budget, &engine->budget->conversations, more),
                        "the memory budget has no room for %u turns", n);
        p = realloc(c->turns, n * sizeof(*p));
        if (!p) {
                conv_discharge(engine, more);
                return err_set(e, ERR_NOMEM, "no memory for a conversation's turns");
        }
        c->turns = p;
        c->turns_capacity = n;
        c->charged += more;
        return 0;
}

int conv_add_turn(struct engine *engine, struct conv *c, const struct conv_turn *t, struct err *e) {
        int r = c->n_turns == c->turns_capacity ? grow_turns(engine, c, e) : 0;

        if (r < 0)
                return r;
        c->turns[c->n_turns++] = *t;
        return 0;
}

static void conv_free(struct engine *engine, struct conv *c) {
        if (!c)
                return;
        recs_free(engine, &c->recs);
        seq_free(c->seq);
        free(c->tokens);
        free(c->dropped);
        free(c->turns);
        free(c->damage);
        conv_discharge(engine, c->charged);
        free(c);
}

/* The most that memory may cost in addition to its blocks: for each cell an entry in the list of records
 * (which may be twice as large as needed), the record, and the entries of the sequence's tables (the
 * same). At most one state is kept for each block's tokens, on average, and a few more
 * (memory/checkpoint.c). */
#define FEW_STATES 16

static size_t cells_cost(const struct engine *engine, uint32_t n_tokens) {
        const struct seq_shape *shape = &engine->info.shape;
        size_t n = ((size_t)n_tokens + engine->info.block_tokens - 1) / engine->info.block_tokens;
        size_t n_classes = 0;

        for (int class = 0; class < SEQ_N_CLASSES; class ++)
                n_classes += shape->size[class] > 0;
        if (n > 0 && shape->size[SEQ_STATE])
                n += FEW_STATES;
        return n * n_classes *
               (2 * sizeof(struct conv_rec) + sizeof(struct rec) + 4 * sizeof(void *));
}

static size_t tokens_cost(const struct engine *engine, uint32_t capacity, const struct gap *gap) {
        return (size_t)capacity * sizeof(int32_t) + cells_cost(engine, capacity) +
               (size_t)gap_size(gap) * sizeof(int32_t);
}

int conv_arrange(struct engine *engine, struct conv_tokens *ret, const struct transcript *t,
        uint32_t n, const struct gap *gap, struct err *e) {
        uint32_t capacity = MAX(gap_to_memory(gap, n), 1u);
        struct conv_tokens x = {.capacity = capacity, .gap = *gap};
        size_t size = tokens_cost(engine, capacity, gap);

        if (conv_charge(engine, size) != 0)
                return err_set(e, budget_code(engine->budget, &engine->budget->conversations, size),
                        "the memory budget has no room for %u tokens", n);
        x.tokens = malloc((size_t)capacity * sizeof(*x.tokens));
        x.dropped = gap_is_none(gap) ? NULL : malloc((size_t)gap_size(gap) * sizeof(*x.dropped));
        if (!x.tokens || (!x.dropped && !gap_is_none(gap))) {
                conv_free_tokens(engine, &x);
                return err_set(e, ERR_NOMEM, "no memory for %u tokens", n);
        }
        (void)transcript_memory(t, n, gap, x.tokens);
        transcript_copy(t, gap->from, gap->to, x.dropped);
        *ret = x;
        return 0;
}

void conv_swap_tokens(struct engine *engine, struct conv *c, struct conv_tokens *x) {
        struct conv_tokens old = {
                .tokens = c->tokens, .dropped = c->dropped, .capacity = c->capacity, .gap = c->gap};

        c->charged += tokens_cost(engine, x->capacity, &x->gap);
        c->charged -= tokens_cost(engine, old.capacity, &old.gap);
        c->tokens = x->tokens;
        c->dropped = x->dropped;
        c->capacity = x->capacity;
        c->gap = x->gap;
        *x = old;
}

void conv_free_tokens(struct engine *engine, struct conv_tokens *x) {
        if (x->capacity == 0)
                return; /* never arranged */
        free(x->tokens);
        free(x->dropped);
        conv_discharge(engine, tokens_cost(engine, x->capacity, &x->gap));
        *x = (struct conv_tokens){0};
}

int conv_reserve_tokens(struct engine *engine, struct conv *c, uint32_t n, struct err *e) {
        uint32_t capacity;
        size_t more;
        int32_t *p;

        if (n <= c->capacity)
                return 0;
        capacity = MAX(n, (uint32_t)MIN((uint64_t)c->capacity * 2, (uint64_t)engine->info.context));
        more = (size_t)(capacity - c->capacity) * sizeof(int32_t) + cells_cost(engine, capacity) -
               cells_cost(engine, c->capacity);
        if (conv_charge(engine, more) != 0)
                return err_set(e, budget_code(engine->budget, &engine->budget->conversations, more),
                        "the memory budget has no room for %u tokens", n);
        p = realloc(c->tokens, (size_t)capacity * sizeof(*p));
        if (!p) {
                conv_discharge(engine, more);
                return err_set(e, ERR_NOMEM, "no memory for %u tokens", n);
        }
        c->tokens = p;
        c->capacity = capacity;
        c->charged += more;
        return 0;
}

/* A manipulated register must not make the model read outside its tables. */
static bool tokens_are_known(const struct transcript *t, uint32_t n, uint32_t n_vocab) {
        for (uint32_t i = 0; i < n; i++)
                if (transcript_token(t, i) < 0 || (uint32_t)transcript_token(t, i) >= n_vocab)
                        return false;
        return true;
}

int conv_new(struct conv **ret, struct engine *engine, const struct store_conv *sc,
        const struct transcript *t, const struct store_turns *turns, struct err *e) {
        struct conv_tokens x = {0};
        struct conv *c;
        int r;

        if (conv_charge(engine, sizeof(*c)) != 0)
                return err_set(e, ERR_LIMIT, "the memory budget has no room for a conversation");
        c = calloc(1, sizeof(*c));
        if (!c) {
                conv_discharge(engine, sizeof(*c));
                return err_set(e, ERR_NOMEM, "no memory for a conversation");
        }
        c->id = sc->id;
        c->owner = sc->owner;
        c->parent = sc->parent;
        c->revision = sc->revision;
        c->created_usec = sc->created_usec;
        /* Even if it is empty: its row in the register would keep the other vocabulary. */
        c->foreign_vocab = sc->vocab != engine->vocab_hash ||
                           !tokens_are_known(t, sc->n_tokens, engine->info.n_vocab);
        c->private_memory = sc->private_memory;
        c->n_published = sc->n_published;
        c->pinned = sc->pinned;
        c->shifts = sc->overflow == STORE_OVERFLOW_SHIFT;
        c->opened_with_tools = sc->tools_size > 0;
        c->sampling = sc->sampling;
        c->charged = sizeof(*c);
        c->cut_at = UINT32_MAX;
        c->ram_share =
                engine->o.ram_share_per_owner > 0 ? engine->o.ram_share_per_owner : QUOTA_RAM_ALL;
        c->disk_limit =
                engine->o.disk_limit_per_owner > 0 ? engine->o.disk_limit_per_owner : QUOTA_NONE;
        list_init(&c->lru);
        list_init(&c->waiters);
        list_init(&c->dirty);
        list_init(&c->unsent);
        list_init(&c->waits);
        r = conv_arrange(engine, &x, t, sc->n_tokens, &sc->gap, e);
        if (r == 0) {
                conv_swap_tokens(engine, c, &x);
                r = seq_new(&c->seq, engine->pool, e);
        }
        for (size_t i = 0; r == 0 && i < turns->n; i++) {
                const struct store_turn *turn = &turns->turns[i];
                struct conv_turn ct = {(enum chat_role)turn->role, turn->start, turn->end,
                        (enum engine_finish)turn->finish, turn->extra != NULL};

                r = conv_add_turn(engine, c, &ct, e);
        }
        if (r == 0)
                r = map_add_u64(engine->convs->by_id, c->id, c, e);
        if (r > 0)
                r = err_set(e, ERR_EXISTS, "the conversation is loaded already");
        if (r < 0) {
                conv_free(engine, c);
                return r;
        }
        c->n_tokens = c->n_all = gap_to_memory(&c->gap, sc->n_tokens);
        /* A generated reply's last token was sampled, but its memory comes with the next turn. */
        c->n_known = c->n_tokens;
        if (c->n_turns > 0 && c->turns[c->n_turns - 1].finish != ENGINE_FINISH_NONE)
                c->n_known--;
        list_append(&engine->convs->idle, &c->lru);
        *ret = c;
        return 0;
}

void conv_tell_damage(struct engine *engine, const struct store_reading *x) {
        if (convs_tell_damage(engine, x->conv.id))
                event_log(engine, ENGINE_LOG_TURN_DAMAGED, x->conv.owner, x->conv.id, &x->damage);
}

void conv_forget_damage(struct engine *engine, struct conv *c) {
        if (!c->damage)
                return;
        free(TAKE_PTR(c->damage));
        c->n_lost_turns = c->n_lost_tokens = 0;
        convs_forget_damage(engine, c->id);
}

void conv_unload(struct engine *engine, struct conv *c) {
        if (c->writer)
                *c->writer = NULL; /* the write job will give back what it wrote */
        list_unlink(&c->lru);
        list_unlink(&c->dirty);
        if (!list_empty(&c->unsent))
                convs_note_left(engine, c->id);
        list_unlink(&c->unsent);
        map_remove_u64(engine->convs->by_id, c->id);
        conv_free(engine, c);
}

void conv_use(struct engine *engine, struct conv *c) {
        (void)engine;
        c->n_users++;
        c->t_parting = 0;
        list_unlink(&c->lru);
        list_unlink(&c->dirty);
}

void conv_unuse(struct engine *engine, struct conv *c) {
        if (--c->n_users > 0)
                return;
        list_append(&engine->convs->idle, &c->lru);
        if (c->stale && c->n_links == 0) {
                conv_unload(engine, c);
                return;
        }
        c->t_idle = clock_monotonic_usec();
        if (!c->stale && seq_n_resident(c->seq) > 0)
                list_append(&engine->convs->dirty, &c->dirty);
        if (c->ram_share < QUOTA_RAM_ALL && seq_n_resident(c->seq) > 0)
                c->is_over = engine->convs->over = true;
}

bool conv_begins_with_tools(const struct conv *c) {
        return c->n_turns > 0 &&
               (c->turns[0].role == CHAT_SYSTEM || c->turns[0].role == CHAT_USER) &&
               (c->opened_with_tools || c->turns[0].extra);
}

bool conv_has_tools(const struct conv *c) {
        bool any = c->opened_with_tools;

        for (uint32_t i = 0; i < c->n_turns && !any; i++)
                any = c->turns[i].extra && c->turns[i].role != CHAT_ASSISTANT;
        return any;
}

/* What the first @n turns end with. */
static enum chat_state state_after(const struct engine *engine, const struct conv *c, uint32_t n) {
        const struct conv_turn *last;

        if (n == 0)
                return CHAT_EMPTY;
        last = &c->turns[n - 1];
        if (last->role != CHAT_ASSISTANT || last->finish == ENGINE_FINISH_NONE)
                return chat_state_after(engine->chat, last->role, conv_begins_with_tools(c));
        return last->finish == ENGINE_FINISH_STOP ? CHAT_ENDED_REPLY : CHAT_OPEN_REPLY;
}

/* How the first @n turns end, as a beginning of the memory. */
static struct chat_tail tail_after(const struct engine *engine, const struct conv *c, uint32_t n) {
        return (struct chat_tail){.state = state_after(engine, c, n),
                .role = n > 0 ? c->turns[n - 1].role : CHAT_RAW,
                .created_usec = c->created_usec,
                .has_tools = n > 0 && conv_begins_with_tools(c)};
}

struct chat_tail conv_front_tail(
        const struct engine *engine, const struct conv *c, const struct gap *g) {
        struct chat_tail tail;
        uint32_t n = 0;

        while (n < c->n_turns && c->turns[n].end <= g->from)
                n++;
        tail = tail_after(engine, c, n);
        /* In front of the gap there may be only the tokens that begin every text. */
        if (g->from > (n > 0 ? c->turns[n - 1].end : 0))
                tail.state = CHAT_CLOSED;
        return tail;
}

struct chat_tail conv_chat_tail(const struct engine *engine, const struct conv *c) {
        if (!gap_is_none(&c->gap) && c->n_turns > 0 && c->turns[c->n_turns - 1].end <= c->gap.to)
                return conv_front_tail(engine, c, &c->gap);
        return tail_after(engine, c, c->n_turns);
}

void conv_fill_residency(const struct conv *c, struct engine_conv *out) {
        out->busy = c->busy != NULL;
        out->generating = c->busy && c->generates;
        out->ram_size = seq_resident_size(c->seq);
        out->disk_size = recs_stored_size(&c->recs);
        /* The memory of a reply's last token is computed only with the next turn. */
        if (seq_n_tokens(c->seq) == 0)
                out->residency = ENGINE_COLD;
        else if (seq_n_missing(c->seq) == 0 && seq_n_tokens(c->seq) + 1 >= c->n_tokens)
                out->residency = ENGINE_RESIDENT;
        else
                out->residency = seq_n_resident(c->seq) == 0 ? ENGINE_SPILLED : ENGINE_PARTIAL;
}

/* --- waiting --- */

void conv_resume(struct engine *engine, struct conv *c) {
        if (c->n_io > 0)
                return;
        /* A waiting request uses the conversation, so it lives until the list is empty. */
        while (!list_empty(&c->waiters)) {
                struct list *link = c->waiters.next;

                list_unlink(link);
                convs_make_ready(engine, link);
        }
}

void conv_io_over(struct engine *engine, struct conv *c) {
        c->n_io--;
        conv_resume(engine, c);
        conv_unuse(engine, c);
}

void convs_unload_all(struct engine *engine) {
        for (;;) {
                size_t it = 0;
                struct conv *c = engine->convs ? convs_next(engine, &it) : NULL;

                if (!c)
                        return;
                conv_unload(engine, c);
        }
}
