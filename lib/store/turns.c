/* SPDX-License-Identifier: MIT */
/*
 * Turns and their tokens. A turn row holds the tokens of [first, past), 4 bytes each, so that
 * appending writes only new tokens, and a rewind only deletes rows and may shorten the last row it
 * keeps. The row also has a hash of the tokens, so that reading (read.c) detects tokens that a disk
 * or a program has changed.
 */
#include "base/utf8.h"
#include "base/util.h"
#include "store/words.h"
#include <string.h>

static const char *const role_words[STORE_N_ROLES] = {"system", "user", "assistant", "raw", "tool"};
static const char *const finish_words[STORE_N_FINISHES] = {
        NULL, "stop", "stop_string", "length", "context", "cancelled"};

/* Number of the word in column @col, or @none for NULL; else bad. */
static uint32_t read_word(
        struct query *q, int col, const char *const *words, uint32_t n, uint32_t none) {
        size_t size;
        const char *p = query_bytes(q, col, &size);

        if (query_is_null(q, col))
                return none;
        for (uint32_t i = 0; i < n; i++)
                if (words[i] && strlen(words[i]) == size && memcmp(p, words[i], size) == 0)
                        return i;
        query_bad(q, col);
        return none;
}

static bool is_plain_text(const char *s, size_t n) {
        return !memchr(s, 0, n) && utf8_valid(s, n);
}

static int check_turns(const struct store_conv *c, const struct store_turn *turns, size_t n_turns,
        size_t n_tokens, struct err *e) {
        uint64_t pos = c->n_tokens;

        for (size_t i = 0; i < n_turns; i++) {
                const struct store_turn *t = &turns[i];

                if (t->start != pos || t->end < t->start)
                        return err_set(e, ERR_INVALID, "turn [%u, %u) does not follow token %llu",
                                t->start, t->end, (unsigned long long)pos);
                if (t->role >= STORE_N_ROLES || t->finish >= STORE_N_FINISHES)
                        return err_set(
                                e, ERR_INVALID, "unknown role %u or finish %u", t->role, t->finish);
                if (t->created_usec > INT64_MAX)
                        return err_set(e, ERR_INVALID, "impossible time of a turn");
                if (t->extra && !is_plain_text(t->extra, t->extra_size))
                        return err_set(e, ERR_INVALID,
                                "what is given with a turn is UTF-8 without NUL bytes");
                pos = t->end;
        }
        if (pos - c->n_tokens != n_tokens)
                return err_set(e, ERR_INVALID, "turns have %llu tokens, %zu given",
                        (unsigned long long)(pos - c->n_tokens), n_tokens);
        if (n_turns > UINT32_MAX - c->n_turns)
                return err_set(e, ERR_TOO_LARGE, "too many turns");
        return 0;
}

/* Tokens lie in memory as they do in the register: no copy is needed. */
#define TOKENS_ARE_BYTES (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

static void put_tokens(uint8_t *p, const int32_t *tokens, size_t n) {
        for (size_t i = 0; i < n; i++) {
                uint32_t v = (uint32_t)tokens[i];

                for (unsigned k = 0; k < 4; k++)
                        p[4 * i + k] = (uint8_t)(v >> (8 * k));
        }
}

static void bind_finish(struct query *q, uint32_t finish) {
        if (finish)
                query_bind_text(q, finish_words[finish], strlen(finish_words[finish]));
        else
                query_bind_null(q);
}

/* The shell would show a text only up to its first NUL. */
static void bind_said(struct query *q, const struct store_turn *t) {
        if (t->text_size &&
                (memchr(t->text, 0, t->text_size) || !utf8_valid(t->text, t->text_size)))
                query_bind_blob(q, t->text, t->text_size);
        else
                query_bind_text(q, t->text, t->text_size);
}

static int insert_turn(struct store *s, uint64_t id, uint32_t n, const struct store_turn *t,
        const uint8_t *tokens, struct err *e) {
        size_t size = ((size_t)t->end - t->start) * 4;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TURN_INSERT, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, n);
        query_bind_text(&q, role_words[t->role], strlen(role_words[t->role]));
        query_bind_i64(&q, t->start);
        query_bind_i64(&q, t->end);
        bind_finish(&q, t->finish);
        query_bind_u64(&q, t->created_usec ? t->created_usec : store_now_usec(s));
        bind_said(&q, t);
        query_bind_blob(&q, tokens, size);
        query_bind_u64(&q, turn_hash(tokens, size, t->start));
        if (t->extra)
                query_bind_text(&q, t->extra, t->extra_size);
        else
                query_bind_null(&q);
        bind_chain(&q, t->chain);
        return query_run(&q, e);
}

/* The tokens as the register has them; @copy is owned, and NULL if none was needed. */
static int bytes_of_tokens(const int32_t *tokens, size_t n_tokens, uint8_t **copy,
        const uint8_t **ret, struct err *e) {
        size_t size;

        if (mul_overflow(n_tokens, 4, &size))
                return err_set(e, ERR_TOO_LARGE, "too many tokens");
        *ret = (const uint8_t *)tokens;
        if (TOKENS_ARE_BYTES)
                return 0;
        *copy = malloc(MAX(size, (size_t)1));
        if (!*copy)
                return err_set(e, ERR_NOMEM, "no memory for %zu tokens", n_tokens);
        put_tokens(*copy, tokens, n_tokens);
        *ret = *copy;
        return 0;
}

int turns_insert(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e) {
        _cleanup_(freep) uint8_t *copy = NULL;
        const uint8_t *bytes = NULL;
        int r;

        r = check_turns(c, turns, n_turns, n_tokens, e);
        if (r == 0)
                r = bytes_of_tokens(tokens, n_tokens, &copy, &bytes, e);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n_turns; i++) {
                r = insert_turn(s, c->id, c->n_turns + (uint32_t)i, &turns[i],
                        bytes + 4 * (size_t)(turns[i].start - c->n_tokens), e);
                if (r == 0 && turns[i].figures)
                        r = figures_insert(s, c->id, c->n_turns + (uint32_t)i, turns[i].figures, e);
                if (r == 0)
                        r = words_add(s, c->owner, c->id, c->n_turns + (uint32_t)i, turns[i].text,
                                turns[i].text_size, e);
                if (r == 0)
                        r = usage_work(s, c->owner, turns[i].work, e);
                if (r < 0)
                        return r;
        }
        c->n_turns += (uint32_t)n_turns;
        c->n_tokens += (uint32_t)n_tokens;
        return 0;
}

/* Read role, start and end of turn @n. */
static int get_turn(
        struct store *s, uint64_t id, uint32_t n, struct store_turn *ret, struct err *e) {
        struct store_turn t = {};
        _query_ q = {};
        int r;

        r = query_begin(&q, s, STMT_TURN_GET, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, n);
        r = query_step(&q, e);
        if (r < 0)
                return r;
        if (r == 0)
                return err_set(e, ERR_CORRUPT, "register is damaged: turn %u of %llu is missing", n,
                        (unsigned long long)id);
        t.role = read_word(&q, 0, role_words, STORE_N_ROLES, UINT32_MAX);
        t.start = query_u32(&q, 1);
        t.end = query_u32(&q, 2);
        if (t.role == UINT32_MAX)
                query_bad(&q, 0);
        if (t.end < t.start)
                query_bad(&q, 2);
        r = query_check(&q, e);
        if (r < 0)
                return r;
        *ret = t;
        return 0;
}

int turns_extent(struct store *s, const struct store_conv *c, uint32_t n_turns,
        const struct store_turn *last, uint32_t *ret, struct err *e) {
        struct store_turn t = {};
        int r;

        if (n_turns > c->n_turns)
                return err_set(
                        e, ERR_INVALID, "conversation has %u turns, not %u", c->n_turns, n_turns);
        if (n_turns == 0) {
                if (last)
                        return err_set(e, ERR_INVALID, "no turn is kept that could be shortened");
                *ret = 0;
                return 0;
        }
        r = get_turn(s, c->id, n_turns - 1, &t, e);
        if (r < 0)
                return r;
        if (t.end > c->n_tokens)
                return err_set(e, ERR_CORRUPT, "register is damaged: turn %u of %llu is too long",
                        n_turns - 1, (unsigned long long)c->id);
        if (!last) {
                *ret = t.end;
                return 0;
        }
        if (last->start != t.start || last->role != t.role || last->end < t.start ||
                last->end > t.end)
                return err_set(e, ERR_INVALID, "[%u, %u) does not begin turn %u, [%u, %u)",
                        last->start, last->end, n_turns - 1, t.start, t.end);
        if (last->finish >= STORE_N_FINISHES || last->created_usec > INT64_MAX)
                return err_set(e, ERR_INVALID, "unknown finish %u or impossible time of a turn",
                        last->finish);
        *ret = last->end;
        return 0;
}

/* A copy of the bytes of turn @n's first tokens, up to token @end. */
static int copy_tokens(struct store *s, uint64_t id, uint32_t n, const struct store_turn *to,
        uint8_t **ret, struct err *e) {
        size_t size = ((size_t)to->end - to->start) * 4;
        const uint8_t *tokens = NULL;
        struct store_turn t = {};
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TURN_TOKENS_OF, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        query_bind_i64(&q, n);
        r = query_step(&q, e);
        if (r == 0)
                r = err_set(e, ERR_CORRUPT, "register is damaged: turn %u of %llu is missing", n,
                        (unsigned long long)id);
        if (r < 0)
                return r;
        r = turn_read(&q, n, to->start, &t, e);
        if (r < 0)
                return r;
        turn_deinit(&t);
        r = turn_read_tokens(&q, &t, &tokens, e);
        if (r < 0)
                return err_wrap(e, r, "turn %u of %llu", n, (unsigned long long)id);
        if (to->end > t.end)
                return err_set(e, ERR_INVALID, "turn %u of %llu ends at %u", n,
                        (unsigned long long)id, t.end);
        *ret = malloc(MAX(size, (size_t)1));
        if (!*ret)
                return err_set(e, ERR_NOMEM, "no memory for a turn's tokens");
        memcpy(*ret, tokens, size);
        return 0;
}

int turn_shorten(
        struct store *s, uint64_t id, uint32_t n, const struct store_turn *to, struct err *e) {
        size_t size = ((size_t)to->end - to->start) * 4;
        _cleanup_(freep) uint8_t *tokens = NULL;
        _query_ q = {};
        int r = copy_tokens(s, id, n, to, &tokens, e);

        if (r == 0)
                r = query_begin(&q, s, STMT_TURN_SHORTEN, e);
        if (r < 0)
                return r;
        query_bind_i64(&q, to->end);
        query_bind_blob(&q, tokens, size);
        query_bind_u64(&q, turn_hash(tokens, size, to->start));
        bind_finish(&q, to->finish);
        if (to->created_usec)
                query_bind_u64(&q, to->created_usec);
        else
                query_bind_null(&q);
        bind_said(&q, to);
        bind_chain(&q, to->chain);
        query_bind_u64(&q, id);
        query_bind_i64(&q, n);
        return query_run(&q, e);
}

/* Of @place only its extent and its chain. */
static int renew_turn(struct store *s, uint64_t id, uint32_t n, const struct store_turn *place,
        const uint8_t *tokens, struct err *e) {
        size_t size = ((size_t)place->end - place->start) * 4;
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TURN_RENEW, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, place->start);
        query_bind_i64(&q, place->end);
        query_bind_blob(&q, tokens, size);
        query_bind_u64(&q, turn_hash(tokens, size, place->start));
        bind_chain(&q, place->chain);
        query_bind_u64(&q, id);
        query_bind_i64(&q, n);
        r = query_run(&q, e);
        if (r == 0 && query_changes(&q) != 1)
                r = err_set(e, ERR_CORRUPT, "register is damaged: turn %u of %llu is missing", n,
                        (unsigned long long)id);
        return r;
}

int turns_renew(struct store *s, uint64_t id, const uint32_t *ends, const uint64_t *chains,
        size_t n_turns, const int32_t *tokens, struct err *e) {
        size_t n_tokens = n_turns > 0 ? ends[n_turns - 1] : 0;
        _cleanup_(freep) uint8_t *copy = NULL;
        struct store_turn place = {};
        const uint8_t *bytes = NULL;
        int r = bytes_of_tokens(tokens, n_tokens, &copy, &bytes, e);

        for (size_t i = 0; r == 0 && i < n_turns; i++) {
                place.end = ends[i];
                place.chain = chains ? chains[i] : STORE_CHAIN_UNKNOWN;
                r = renew_turn(s, id, (uint32_t)i, &place, bytes + 4 * (size_t)place.start, e);
                place.start = place.end;
        }
        return r;
}

static int append_once(struct store *s, uint64_t id, const struct store_turn *turns, size_t n_turns,
        const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        struct store_conv c;
        int r;

        r = conv_begin(s, &txn, id, &c, e);
        if (r < 0)
                return r;
        r = turns_insert(s, &c, turns, n_turns, tokens, n_tokens, e);
        if (r < 0)
                return r;
        c.revision++;
        r = conv_set_extent(s, &c, e);
        if (r < 0)
                return r;
        r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        *ret_revision = c.revision;
        return 0;
}

int store_append(struct store *s, uint64_t id, const struct store_turn *turns, size_t n_turns,
        const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = append_once(s, id, turns, n_turns, tokens, n_tokens, ret_revision, e);
        while (txn_again(s, &r, e));
        return r;
}

static int cut_turns(struct store *s, const struct store_conv *c, uint32_t n_turns, struct err *e) {
        _query_ q = {};
        int r = words_take_out_turns(s, c->owner, c->id, n_turns, UINT32_MAX, e);

        if (r == 0)
                r = query_begin(&q, s, STMT_TURN_CUT, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        query_bind_i64(&q, n_turns);
        return query_run(&q, e);
}

/* Cut the last turn, n_turns - 1, short; its words change with its text. */
static int cut_last(struct store *s, const struct store_conv *c, uint32_t n_turns,
        const struct store_turn *last, struct err *e) {
        int r = words_take_out_turns(s, c->owner, c->id, n_turns - 1, n_turns, e);

        if (r == 0)
                r = turn_shorten(s, c->id, n_turns - 1, last, e);
        if (r == 0)
                r = words_add(s, c->owner, c->id, n_turns - 1, last->text, last->text_size, e);
        return r;
}

int gap_apply(struct store *s, struct store_conv *c, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, uint32_t *ret, struct err *e) {
        uint32_t before = store_memory_tokens(c), n;
        struct gap old = c->gap;
        int r = turns_extent(s, c, n_turns, last, &n, e);

        if (r < 0)
                return r;
        if (gap && !gap_is_possible(gap, n))
                return err_set(
                        e, ERR_INVALID, "a gap [%u, %u) in %u tokens", gap->from, gap->to, n);
        c->n_tokens = n;
        c->gap = gap ? *gap : gap_cut(&old, n);
        *ret = gap_common(&old, before, &c->gap, store_memory_tokens(c));
        return 0;
}

/* Within a transaction: rewind, except for the revision. @c becomes the rewound conversation. The
 * extent is set here, not together with the tokens appended next, because this also ends the
 * publication of the removed tokens. */
static int cut_conv(struct store *s, struct store_conv *c, uint32_t n_turns,
        const struct store_turn *last, const struct gap *gap, struct store_gone *lost,
        struct err *e) {
        uint32_t common;
        int r = gap_apply(s, c, n_turns, last, gap, &common, e);

        if (r == 0)
                r = cut_turns(s, c, n_turns, e);
        if (r == 0 && last)
                r = cut_last(s, c, n_turns, last, e);
        if (r == 0)
                r = links_shorten(s, c, common, lost, e);
        if (r < 0)
                return r;
        c->n_turns = n_turns;
        return conv_set_extent(s, c, e);
}

static int replace_once(struct store *s, uint64_t id, uint32_t n_kept,
        const struct store_turn *last, const struct gap *gap, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision,
        struct store_gone *gone, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(store_gone_deinit) struct store_gone lost = {};
        struct store_conv c;
        int r;

        r = conv_begin(s, &txn, id, &c, e);
        if (r < 0)
                return r;
        r = cut_conv(s, &c, n_kept, last, gap, &lost, e);
        if (r < 0)
                return r;
        r = turns_insert(s, &c, turns, n_turns, tokens, n_tokens, e);
        if (r < 0)
                return r;
        c.revision++;
        r = conv_set_extent(s, &c, e);
        if (r < 0)
                return r;
        r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        *ret_revision = c.revision;
        *gone = lost;
        lost = (struct store_gone){};
        return 0;
}

int store_replace(struct store *s, uint64_t id, uint32_t n_kept, const struct store_turn *last,
        const struct gap *gap, const struct store_turn *turns, size_t n_turns,
        const int32_t *tokens, size_t n_tokens, uint64_t *ret_revision, struct store_gone *gone,
        struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = replace_once(s, id, n_kept, last, gap, turns, n_turns, tokens, n_tokens,
                        ret_revision, gone, e);
        while (txn_again(s, &r, e));
        return r;
}

int store_rewind(struct store *s, uint64_t id, uint32_t n_turns, const struct store_turn *last,
        const struct gap *gap, uint64_t *ret_revision, struct store_gone *gone, struct err *e) {
        return store_replace(s, id, n_turns, last, gap, NULL, 0, NULL, 0, ret_revision, gone, e);
}

/* Rows must be turns 0, 1, 2, ... that join without gaps; @pos is where this one should begin. */
static void check_place(struct query *q, uint32_t n, uint32_t expected, uint32_t first,
        uint32_t past, uint32_t pos) {
        if (n != expected)
                query_bad(q, 0);
        if (first != pos || past < first)
                query_bad(q, 1);
}

void turn_deinit(struct store_turn *t) {
        free((void *)(uintptr_t)t->text);
        free((void *)(uintptr_t)t->extra);
        free((void *)(uintptr_t)t->figures);
        t->text = t->extra = NULL;
        t->figures = NULL;
}

int turn_read(
        struct query *q, uint32_t expected, uint32_t pos, struct store_turn *ret, struct err *e) {
        struct store_turn t = {
                .role = read_word(q, 1, role_words, STORE_N_ROLES, UINT32_MAX),
                .start = query_u32(q, 2),
                .end = query_u32(q, 3),
                .finish = read_word(q, 4, finish_words, STORE_N_FINISHES, 0),
                .created_usec = query_number(q, 5, INT64_MAX),
        };
        const void *text = query_bytes(q, 6, &t.text_size);
        const void *extra = query_bytes(q, 9, &t.extra_size);
        int r;

        if (t.role == UINT32_MAX)
                query_bad(q, 1);
        check_place(q, query_u32(q, 0), expected, t.start, t.end, pos);
        r = query_check(q, e);
        if (r < 0)
                return r;
        t.text = text_dup(text, t.text_size);
        t.extra = query_is_null(q, 9) ? NULL : text_dup(extra, t.extra_size);
        if (!t.text || (!t.extra && !query_is_null(q, 9))) {
                turn_deinit(&t);
                return err_set(e, ERR_NOMEM, "no memory for a turn's text");
        }
        *ret = t;
        return 0;
}

int turn_read_tokens(
        struct query *q, const struct store_turn *t, const uint8_t **ret, struct err *e) {
        uint64_t hash = query_u64(q, 8);
        size_t size;
        const uint8_t *tokens = query_bytes(q, 7, &size);
        int r = query_check(q, e);

        if (r < 0)
                return r;
        if (size != ((size_t)t->end - t->start) * 4)
                return err_set(e, ERR_CORRUPT, "has %zu bytes of tokens, not 4 for each of %u",
                        size, t->end - t->start);
        if (hash != turn_hash(tokens, size, t->start))
                return err_set(e, ERR_CORRUPT, "its tokens are not those that were written");
        *ret = tokens;
        return 0;
}
