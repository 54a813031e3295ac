/* SPDX-License-Identifier: MIT */
/*
 * Reading conversations, each as of one moment of the register.
 *
 * A damaged register (a bad sector, a program that wrote behind the daemon's back) is still read as
 * far as it makes sense:
 *
 * 1. The history is sound up to the first turn that is missing, has an impossible row, does not
 *    begin where the previous turn ends, or has tokens that do not match the hash written with
 *    them. Tokens are returned only up to there: later turns were computed after tokens that are
 *    now unknown.
 * 2. If only a turn's tokens are damaged, the turn and those after it are still listed: their texts
 *    can be read. An impossible row ends the list.
 * 3. Damage is reported in struct store_reading, not as a failure, and does not affect other
 *    conversations.
 * 4. A page of turns costs what the page has, however long the history is, unless all tokens are asked for.
 */
#include "base/util.h"
#include "store/store-private.h"
#include <stdlib.h>
#include <string.h>

#define TEXT_COST 32  /* the allocation of a text, however short */
#define ARRAY_FIRST 8 /* items of an array that array_grow() begins */

void store_turns_deinit(struct store_turns *t) {
        for (size_t i = 0; i < t->n; i++)
                turn_deinit(&t->turns[i]);
        free(t->turns);
        *t = (struct store_turns){};
}

void store_reading_deinit(struct store_reading *x) {
        if (!x)
                return;
        store_turns_deinit(&x->turns);
        store_gone_deinit(&x->links);
        free(x->tokens);
        free(x->tools);
        free(x->first_tools);
        *x = (struct store_reading){};
}

static int push_turn(struct store_turns *ts, const struct store_turn *t, struct err *e) {
        void *p = ts->turns;

        if (array_grow(&p, ts->n, sizeof(*t)) < 0)
                return err_set(e, ERR_NOMEM, "no memory for turns");
        ts->turns = p;
        ts->turns[ts->n++] = *t;
        return 0;
}

/* The number of tokens for which memory is allocated to hold @n tokens. */
static size_t capacity_for(size_t n) {
        size_t capacity = 1024;

        while (capacity < n)
                capacity *= 2;
        return capacity;
}

static int push_tokens(struct store_reading *x, const uint8_t *p, size_t n, struct err *e) {
        size_t capacity = capacity_for(x->n_tokens + n);

        if (!x->tokens || capacity > capacity_for(x->n_tokens)) {
                int32_t *grown = reallocarray(x->tokens, capacity, sizeof(*grown));

                if (!grown)
                        return err_set(e, ERR_NOMEM, "no memory for %zu tokens", x->n_tokens + n);
                x->tokens = grown;
        }
        for (size_t i = 0; i < n; i++)
                x->tokens[x->n_tokens++] = (int32_t)load_le32(p + 4 * i);
        return 0;
}

/* The history is sound up to turn @n, exclusive. Only the first damage is reported. */
static void note_damage(struct store_reading *x, uint32_t n, uint32_t pos, const char *why) {
        if (x->damaged)
                return;
        x->damaged = true;
        x->n_sound_turns = n;
        x->n_sound_tokens = pos;
        err_set(&x->damage, ERR_CORRUPT, "conversation %llu is damaged from turn %u on: %s",
                (unsigned long long)x->conv.id, n, why);
}

/* Read the current row: turn @n, which begins at @pos. 1: it is sound, or only its tokens are not;
 * 0: neither this turn nor later ones can be read. */
static int read_turn(struct query *q, struct store_reading *x, uint32_t n, unsigned what,
        uint32_t *pos, struct err *e) {
        struct store_turn t;
        const uint8_t *tokens;
        struct err why;
        int r = turn_read(q, n, *pos, &t, &why);

        if (r == 0) {
                r = turn_read_tokens(q, &t, &tokens, &why);
                if (r == -ERR_CORRUPT) {
                        note_damage(x, n, *pos, why.msg);
                        q->bad = NULL;
                        r = 0;
                }
                if (r == 0 && !x->damaged && what & (STORE_READ_TOKENS | STORE_READ_RUN))
                        r = push_tokens(x, tokens, t.end - t.start, &why);
                if (r == 0 && what & STORE_READ_TURNS)
                        r = push_turn(&x->turns, &t, &why);
                if (r < 0 || !(what & STORE_READ_TURNS))
                        turn_deinit(&t);
        }
        if (r == -ERR_CORRUPT) {
                note_damage(x, n, *pos, why.msg);
                return 0;
        }
        if (r < 0) {
                if (e)
                        *e = why;
                return r;
        }
        *pos = t.end;
        return 1;
}

/* Which rows are read, and of which of them the texts. */
struct span {
        bool is_page;
        uint32_t first, past; /* turns with texts */
        uint32_t from, to;    /* all rows that are read */
};

static int begin_history(struct query *q, struct store *s, uint64_t id, unsigned what,
        const struct span *span, struct err *e) {
        bool text = what & STORE_READ_TEXTS;
        enum store_stmt which = span->is_page ? STMT_TURN_PAGE
                                : text        ? STMT_TURN_LIST
                                              : STMT_TURN_LIST_BARE;
        int r = query_begin(q, s, which, e);

        if (r < 0)
                return r;
        query_bind_u64(q, id);
        if (!span->is_page)
                return 0;
        query_bind_i64(q, span->first);
        query_bind_i64(q, text ? span->past : 0);
        query_bind_i64(q, span->from);
        query_bind_i64(q, span->to);
        return 0;
}

static int read_history(struct store *s, struct store_reading *x, unsigned what,
        const struct span *span, struct err *e) {
        bool all = span->from == 0 && span->to == x->conv.n_turns;
        uint32_t pos = 0, n = span->from;
        struct err why;
        _query_ q = {};
        int r = begin_history(&q, s, x->conv.id, what, span, e);

        if (r < 0)
                return r;
        x->turns_first = span->from;
        while ((r = query_step(&q, &why)) > 0) {
                /* What is before a page is not known: its first turn begins anywhere. */
                if (n == span->from && n > 0) {
                        pos = query_u32(&q, 2);
                        q.bad = NULL;
                }
                r = read_turn(&q, x, n, what, &pos, e);
                if (r < 0)
                        return r;
                if (r == 0)
                        return 0;
                n++;
        }
        if (r == -ERR_CORRUPT)
                note_damage(x, n, pos, why.msg);
        else if (r < 0) {
                if (e)
                        *e = why;
                return r;
        }
        if (n != span->to || (all && pos != x->conv.n_tokens))
                note_damage(x, n, pos, "turns are missing, or there are too many");
        return 0;
}

static int read_size(struct store *s, struct store_reading *x, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_LINK_SIZE, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, x->conv.id);
        r = query_step(&q, e);
        if (r <= 0)
                return r;
        x->disk_size = query_number(&q, 0, INT64_MAX);
        return query_check(&q, e);
}

static int step_sizes(struct query *q, struct store_sizes *ret, struct err *e) {
        struct store_sizes sizes;
        int r = query_step(q, e);

        if (r < 0)
                return r;
        sizes.texts_size = query_number(q, 0, INT64_MAX);
        sizes.n_links = query_number(q, 1, INT64_MAX);
        sizes.n_turns = query_number(q, 2, INT64_MAX);
        sizes.tokens_size = query_number(q, 3, INT64_MAX);
        r = query_check(q, e);
        if (r == 0)
                *ret = sizes;
        return r;
}

int sizes_read(struct store *s, uint64_t id, struct store_sizes *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TURN_SIZES, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        return step_sizes(&q, ret, e);
}

int store_sizes(struct store *s, uint64_t id, struct store_sizes *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : sizes_read(s, id, ret, e);
}

/* Most bytes that the parts can take: growing arrays have up to twice the room that they need. */
static uint64_t cost_of(const struct store_sizes *sizes, unsigned what) {
        uint64_t n = 0;

        if (what & (STORE_READ_TURNS | STORE_READ_TOKENS))
                n += TEXT_COST;
        if (what & STORE_READ_TURNS)
                n += (sizes->n_turns + ARRAY_FIRST) *
                     (2 * sizeof(struct store_turn) + 2 * TEXT_COST);
        if (what & STORE_READ_TEXTS)
                n += sizes->texts_size;
        if (what & STORE_READ_TOOLS)
                n += 2 * (sizes->texts_size + TEXT_COST);
        if (what & (STORE_READ_TOKENS | STORE_READ_RUN))
                n += capacity_for(sizes->tokens_size / 4) * sizeof(int32_t);
        if (what & STORE_READ_LINKS)
                n += 2 * (sizes->n_links + ARRAY_FIRST) * sizeof(struct store_record);
        return n;
}

/* Bytes of the figures of turns [first, past). */
static int figures_cost(
        struct store *s, uint64_t id, uint64_t first, uint64_t past, uint64_t *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_FIGURES_SIZES, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_u64(&q, first);
        query_bind_u64(&q, past);
        r = query_step(&q, e);
        if (r < 0)
                return r;
        *ret = query_number(&q, 0, UINT32_MAX) * (sizeof(struct figures) + 1 + TEXT_COST) +
               query_number(&q, 1, INT64_MAX);
        return query_check(&q, e);
}

/* The sizes of what is read of a page. */
static int page_sizes(struct store *s, uint64_t id, const struct span *span,
        struct store_sizes *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TURN_PAGE_SIZES, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, span->first);
        query_bind_i64(&q, span->past);
        query_bind_i64(&q, span->from);
        query_bind_i64(&q, span->to);
        return step_sizes(&q, ret, e);
}

/* Bytes of the definitions that hold behind the first @n_turns turns. */
static int tools_cost(
        struct store *s, uint64_t id, uint32_t n_turns, uint64_t *cost, struct err *e) {
        static const enum store_stmt places[] = {STMT_TURN_TOOLS, STMT_CONV_TOOLS};
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(places) && r == 0; i++) {
                _query_ q = {};
                size_t n;

                r = query_begin(&q, s, places[i], e);
                if (r < 0)
                        return r;
                query_bind_u64(&q, id);
                if (places[i] == STMT_TURN_TOOLS)
                        query_bind_i64(&q, n_turns);
                r = query_step(&q, e);
                if (r > 0) {
                        (void)query_bytes(&q, 0, &n);
                        *cost += n + TEXT_COST;
                        r = query_check(&q, e);
                        if (r == 0)
                                return 0;
                }
        }
        return r;
}

static int admit_reading(struct store *s, uint64_t id, unsigned what, const struct span *span,
        store_admit_fn *admit, void *arg, struct err *e) {
        struct store_sizes sizes;
        uint64_t more = 0, n;
        int r;

        /* The sums look at all texts. */
        if (!(what & ~(unsigned)STORE_READ_SIZE))
                return admit(arg, 0, e);
        r = span->is_page ? page_sizes(s, id, span, &sizes, e) : sizes_read(s, id, &sizes, e);

        if (r == 0 && what & STORE_READ_FIGURES)
                r = figures_cost(s, id, span->first, span->past, &more, e);
        /* Elsewhere they are among the texts. */
        if (r == 0 && span->is_page && what & STORE_READ_TOOLS)
                r = tools_cost(s, id, UINT32_MAX, &more, e);
        if (r == 0 && span->is_page && what & STORE_READ_TOOLS)
                r = tools_cost(s, id, span->first, &more, e);
        if (r < 0)
                return r;
        if (span->is_page)
                what &= ~(unsigned)STORE_READ_TOOLS;
        n = cost_of(&sizes, what) + more;
        return admit(arg, (size_t)MIN(n, (uint64_t)SIZE_MAX), e);
}

/* The text in column 0 of the present row: see store_tools(). */
static int take_text(struct query *q, store_admit_fn *admit, void *arg, char **ret,
        size_t *ret_size, struct err *e) {
        const void *text;
        size_t n;
        char *copy;
        int r;

        if (query_is_null(q, 0))
                return 0;
        text = query_bytes(q, 0, &n);
        r = query_check(q, e);
        if (r == 0 && admit)
                r = admit(arg, n + TEXT_COST, e);
        if (r < 0)
                return r;
        copy = malloc(n + 1);
        if (!copy)
                return err_set(e, ERR_NOMEM, "no memory for %zu bytes of text", n);
        if (n > 0)
                memcpy(copy, text, n);
        copy[n] = 0;
        *ret = copy;
        *ret_size = n;
        return 0;
}

static int read_tools(struct store *s, uint64_t id, uint32_t n_turns, store_admit_fn *admit,
        void *arg, char **ret, size_t *ret_size, struct err *e) {
        static const enum store_stmt places[] = {STMT_TURN_TOOLS, STMT_CONV_TOOLS};
        char *text = NULL;
        size_t size = 0;
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(places) && r == 0 && !text; i++) {
                _query_ q = {};

                r = query_begin(&q, s, places[i], e);
                if (r < 0)
                        return r;
                query_bind_u64(&q, id);
                if (places[i] == STMT_TURN_TOOLS)
                        query_bind_i64(&q, n_turns);
                r = query_step(&q, e);
                if (r > 0)
                        r = take_text(&q, admit, arg, &text, &size, e);
        }
        if (r == 0) {
                *ret = text;
                *ret_size = size;
        }
        return r;
}

int store_tools(struct store *s, uint64_t id, uint32_t n_turns, store_admit_fn *admit, void *arg,
        char **ret, size_t *ret_size, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : read_tools(s, id, n_turns, admit, arg, ret, ret_size, e);
}

static int read_part(struct store *s, uint64_t id, uint32_t n, bool extra, store_admit_fn *admit,
        void *arg, char **ret, size_t *ret_size, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, extra ? STMT_TURN_EXTRA : STMT_TURN_TEXT, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, n);
        r = query_step(&q, e);
        if (r == 0)
                return err_set(e, ERR_NOT_FOUND, "conversation %llu has no turn %u",
                        (unsigned long long)id, n);
        return r < 0 ? r : take_text(&q, admit, arg, ret, ret_size, e);
}

int store_turn_part(struct store *s, uint64_t id, uint32_t n, bool extra, store_admit_fn *admit,
        void *arg, char **ret, size_t *ret_size, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        char *text = NULL;
        size_t size = 0;
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = read_part(s, id, n, extra, admit, arg, &text, &size, e);
        if (r == 0) {
                *ret = text;
                *ret_size = size;
        }
        return r;
}

int store_read(struct store *s, uint64_t owner, uint64_t id, const char *name, unsigned what,
        struct store_reading *ret, struct err *e) {
        return store_read_admitted(s, owner, id, name, what, NULL, NULL, ret, e);
}

/* The first row that STORE_READ_RUN reads for a page that begins with turn @first. */
static int find_run(struct store *s, uint64_t id, uint32_t first, uint32_t *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TURN_RUN, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, first);
        r = query_step(&q, e);
        if (r < 0)
                return r;
        *ret = r > 0 ? query_u32(&q, 0) : 0;
        return query_check(&q, e);
}

/* The turns of the page, and the rows that are to be read for @what. */
static int find_span(struct store *s, const struct store_conv *c, unsigned what,
        const struct store_turn_page *page, struct span *ret, struct err *e) {
        uint32_t first = 0, past = c->n_turns;

        *ret = (struct span){.past = past, .to = past};
        if (!page)
                return 0;
        if (page->before != STORE_TURN_UNSET && page->before > past)
                return err_set(e, ERR_INVALID, "before_turn %u: the conversation has %u turns",
                        page->before, past);
        if (page->from != STORE_TURN_UNSET && page->from > past)
                return err_set(e, ERR_INVALID, "from_turn %u: the conversation has %u turns",
                        page->from, past);
        if (page->before != STORE_TURN_UNSET)
                past = page->before;
        if (page->from != STORE_TURN_UNSET) {
                first = MIN(page->from, past);
                if (page->max > 0 && page->max < past - first)
                        past = first + page->max;
        } else if (page->max > 0) {
                first = past - MIN(page->max, past);
        }
        *ret = (struct span){.is_page = true, .first = first, .past = past};
        ret->from = what & STORE_READ_TOKENS ? 0 : first;
        ret->to = what & STORE_READ_TOKENS ? c->n_turns : past;
        if (what & STORE_READ_TOKENS || !(what & STORE_READ_RUN) || first == past)
                return 0;
        ret->to = past + (past < c->n_turns);
        return find_run(s, c->id, first, &ret->from, e);
}

/* The figures of the page's turns, as far as these were read. */
static int read_figures(
        struct store *s, struct store_reading *x, const struct span *span, struct err *e) {
        uint32_t skip = span->first - x->turns_first;
        struct store_turns some;

        if (skip >= x->turns.n)
                return 0;
        some = (struct store_turns){
                x->turns.turns + skip, MIN(x->turns.n - skip, (size_t)(span->past - span->first))};
        return figures_read(s, x->conv.id, span->first, &some, e);
}

static int read_all(struct store *s, struct store_reading *x, unsigned what,
        const struct span *span, struct err *e) {
        int r = 0;

        if (what & STORE_READ_SIZE)
                r = read_size(s, x, e);
        if (r == 0 && what & (STORE_READ_TURNS | STORE_READ_TOKENS))
                r = read_history(s, x, what, span, e);
        if (r == 0 && what & STORE_READ_FIGURES)
                r = read_figures(s, x, span, e);
        if (r == 0 && what & STORE_READ_TOOLS)
                r = read_tools(s, x->conv.id, UINT32_MAX, NULL, NULL, &x->tools, &x->tools_size, e);
        if (r == 0 && what & STORE_READ_TOOLS)
                r = read_tools(s, x->conv.id, span->first, NULL, NULL, &x->first_tools,
                        &x->first_tools_size, e);
        if (r == 0 && what & STORE_READ_LINKS)
                r = links_read(s, x->conv.id, &x->links, e);
        return r;
}

int store_read_page(struct store *s, uint64_t owner, uint64_t id, const char *name, unsigned what,
        const struct store_turn_page *page, store_admit_fn *admit, void *arg,
        struct store_reading *ret, struct err *e) {
        _cleanup_(store_reading_deinit) struct store_reading x = {};
        _cleanup_(read_endp) struct store *reading = NULL;
        struct span span = {};
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = conv_get(s, owner, id, name, &x.conv, e);
        if (r == 0)
                r = find_span(s, &x.conv, what, page, &span, e);
        if (r == 0 && admit)
                r = admit_reading(s, x.conv.id, what, &span, admit, arg, e);
        if (r < 0)
                return r;
        x.page_first = span.first;
        x.page_past = span.past;
        x.n_sound_turns = x.conv.n_turns;
        x.n_sound_tokens = x.conv.n_tokens;
        r = read_all(s, &x, what, &span, e);
        if (r < 0)
                return r;
        *ret = x;
        x = (struct store_reading){};
        return 0;
}

int store_read_admitted(struct store *s, uint64_t owner, uint64_t id, const char *name,
        unsigned what, store_admit_fn *admit, void *arg, struct store_reading *ret, struct err *e) {
        return store_read_page(s, owner, id, name, what, NULL, admit, arg, ret, e);
}

int store_read_head(struct store *s, uint64_t owner, uint64_t id, uint32_t n_turns,
        store_admit_fn *admit, void *arg, struct store_reading *ret, struct err *e) {
        const unsigned what =
                STORE_READ_TURNS | STORE_READ_TEXTS | STORE_READ_TOKENS | STORE_READ_TOOLS;
        _cleanup_(store_reading_deinit) struct store_reading x = {};
        _cleanup_(read_endp) struct store *reading = NULL;
        struct span span = {.is_page = true};
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = conv_get(s, owner, id, NULL, &x.conv, e);
        if (r < 0)
                return r;
        span.past = span.to = MIN(n_turns, x.conv.n_turns);
        if (admit)
                r = admit_reading(s, x.conv.id, what, &span, admit, arg, e);
        x.page_past = x.n_sound_turns = span.to;
        if (r == 0)
                r = read_all(s, &x, what, &span, e);
        if (r < 0)
                return r;
        if (!x.damaged)
                x.n_sound_tokens = (uint32_t)x.n_tokens;
        *ret = x;
        x = (struct store_reading){};
        return 0;
}

int store_tokens(struct store *s, uint64_t id, int32_t *out, size_t n, struct err *e) {
        _cleanup_(store_reading_deinit) struct store_reading x = {};
        int r = store_read(s, OWNER_ANY, id, NULL, STORE_READ_TOKENS, &x, e);

        if (r < 0)
                return r;
        if (n != x.conv.n_tokens)
                return err_set(
                        e, ERR_INVALID, "conversation has %u tokens, not %zu", x.conv.n_tokens, n);
        if (x.damaged) {
                if (e)
                        *e = x.damage;
                return -ERR_CORRUPT;
        }
        if (n > 0)
                memcpy(out, x.tokens, n * sizeof(*out));
        return 0;
}

int store_turns(
        struct store *s, uint64_t id, bool with_text, struct store_turns *ret, struct err *e) {
        _cleanup_(store_reading_deinit) struct store_reading x = {};
        unsigned what = STORE_READ_TURNS | (with_text ? STORE_READ_TEXTS : 0);
        int r = store_read(s, OWNER_ANY, id, NULL, what, &x, e);

        if (r < 0)
                return r;
        if (x.damaged) {
                if (e)
                        *e = x.damage;
                return -ERR_CORRUPT;
        }
        *ret = x.turns;
        x.turns = (struct store_turns){};
        return 0;
}
