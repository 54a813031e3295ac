/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"
#include "base/util.h"
#include "store/pg.h"
#include "store/words.h"
#include <stdio.h>
#include <string.h>

/* Attempts to choose a free name before the daemon gives up. */
#define NAME_ATTEMPTS 1000

int conv_check_name(const char *name, struct err *e) {
        size_t n = strnlen(name, STORE_NAME_MAX + 1);

        if (n > STORE_NAME_MAX)
                return err_set(e, ERR_INVALID, "a name has at most %d bytes", STORE_NAME_MAX);
        if (!utf8_valid(name, n))
                return err_set(e, ERR_INVALID, "a name is UTF-8");
        return 0;
}

static const char *const overflow_words[STORE_N_OVERFLOWS] = {"error", "shift"};

static uint32_t read_overflow(struct query *q, int col) {
        size_t size;
        const char *p = query_bytes(q, col, &size);

        for (uint32_t i = 0; i < STORE_N_OVERFLOWS; i++)
                if (strlen(overflow_words[i]) == size && memcmp(p, overflow_words[i], size) == 0)
                        return i;
        query_bad(q, col);
        return 0;
}

static void bind_overflow(struct query *q, uint32_t overflow) {
        query_bind_text(q, overflow_words[overflow], strlen(overflow_words[overflow]));
}

/* Four columns. Only classes that there are: all else is looked at where it is used. */
static void shape_read(struct query *q, int col, struct store_shape *ret) {
        *ret = (struct store_shape){.block_tokens = query_u32(q, col),
                .classes = (uint32_t)query_number(q, col + 1, (1u << STORE_N_CLASSES) - 1),
                .window = query_u32(q, col + 2),
                .chunk = query_u32(q, col + 3)};
}

void shape_bind(struct query *q, const struct store_shape *shape) {
        query_bind_i64(q, shape->block_tokens);
        query_bind_i64(q, shape->classes);
        query_bind_i64(q, shape->window);
        query_bind_i64(q, shape->chunk);
}

int conv_shape(struct store *s, uint64_t id, struct store_shape *ret, struct err *e) {
        struct store_shape shape = {};
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_SHAPE, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        r = query_step(&q, e);
        if (r < 0)
                return r;
        if (r > 0) {
                shape_read(&q, 0, &shape);
                r = query_check(&q, e);
                if (r < 0)
                        return r;
        }
        *ret = shape;
        return 0;
}

int conv_read_row(struct query *q, struct store_conv *c, struct err *e) {
        const char *name;
        size_t n;
        int r;

        *c = (struct store_conv){
                .id = query_number(q, 0, INT64_MAX),
                .owner = query_number(q, 1, OWNER_MAX),
                .parent = query_number(q, 3, INT64_MAX),
                .fork_pos = query_u32(q, 4),
                .revision = query_number(q, 5, INT64_MAX),
                .n_tokens = query_u32(q, 6),
                .n_turns = query_u32(q, 7),
                .created_usec = query_number(q, 8, INT64_MAX),
                .updated_usec = query_number(q, 9, INT64_MAX),
                .model.weights = query_u64(q, 10),
                .model.rules = query_u64(q, 11),
                .vocab = query_u64(q, 12),
                .n_published = query_u32(q, 23),
                .private_memory = query_number(q, 24, 1),
                .gap = {query_u32(q, 25), query_u32(q, 26)},
                .overflow = read_overflow(q, 27),
                .tools_size = query_u32(q, 32),
                .unanswered = query_number(q, 33, 1),
                .pinned = query_number(q, 34, 1),
        };
        name = query_bytes(q, 2, &n);
        if (n == 0 || n > STORE_NAME_MAX || memchr(name, 0, n) || !utf8_valid(name, n))
                query_bad(q, 2);
        else
                memcpy(c->name, name, n);
        if (c->id == 0)
                query_bad(q, 0);
        if (c->revision == 0)
                query_bad(q, 5);
        if (c->n_published > c->n_tokens)
                query_bad(q, 23);
        if (c->private_memory && c->n_published)
                query_bad(q, 24);
        if (!gap_is_possible(&c->gap, c->n_tokens))
                query_bad(q, 25);
        else if (!gap_is_none(&c->gap) && c->n_published > c->gap.from)
                query_bad(q, 23);
        if (query_n_columns(q) > CONV_LEASE_COLUMN + 1)
                pg_lease_told(q->s,
                        query_is_null(q, CONV_LEASE_COLUMN)
                                ? 0
                                : query_number(q, CONV_LEASE_COLUMN, INT64_MAX),
                        query_number(q, CONV_LEASE_COLUMN + 1, INT64_MAX), c);
        sampling_read(q, 13, &c->sampling);
        shape_read(q, 28, &c->shape);
        r = query_check(q, e);
        return r < 0 ? r : tenant_label(q->s, c->owner, c->tenant, e);
}

int conv_read(struct store *s, uint64_t id, struct store_conv *ret, struct err *e) {
        _query_ q = {};
        int r;

        if (!store_id_possible(id))
                return err_set(e, ERR_NOT_FOUND, "no conversation %llu", (unsigned long long)id);
        r = query_begin(&q, s, STMT_CONV_BY_ID, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        r = query_step(&q, e);
        if (r < 0)
                return r;
        if (r == 0)
                return err_set(e, ERR_NOT_FOUND, "no conversation %llu", (unsigned long long)id);
        return conv_read_row(&q, ret, e);
}

int conv_own(struct store *s, uint64_t id, struct err *e) {
        return s->pg ? pg_own(s, id, e) : 0;
}

int conv_begin(
        struct store *s, struct store **txn, uint64_t id, struct store_conv *ret, struct err *e) {
        int r = txn_begin(s, txn, e);

        if (r == 0)
                r = conv_own(s, id, e);
        return r < 0 ? r : conv_read(s, id, ret, e);
}

/* 1 if @owner has a conversation of that name, else 0. */
static int name_taken(struct store *s, uint64_t owner, const char *name, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_NAME_TAKEN, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, owner);
        query_bind_text(&q, name, strlen(name));
        return query_step(&q, e);
}

static int next_id(struct store *s, uint64_t *ret, struct err *e) {
        _query_ q = {};
        uint64_t id;
        int r = query_begin(&q, s, STMT_CONV_NEXT_ID, e);

        if (r < 0)
                return r;
        r = query_step(&q, e);
        if (r < 0)
                return r;
        id = query_number(&q, 0, INT64_MAX);
        r = query_check(&q, e);
        if (r < 0)
                return r;
        if (id == 0)
                return err_set(e, ERR_CORRUPT, "register is damaged: no next id");
        *ret = id;
        return 0;
}

/* Fill in id, name and the label of the tenant for a new row. */
int conv_choose_identity(struct store *s, struct store_conv *c, struct err *e) {
        int r = tenant_check(s, c->owner, e);

        if (r == 0)
                r = tenant_label(s, c->owner, c->tenant, e);
        if (r == 0 && c->name[0])
                r = name_taken(s, c->owner, c->name, e);
        if (r > 0)
                return err_set(e, ERR_EXISTS, "a conversation '%s' exists", c->name);
        if (r == 0) /* a server takes none back */
                r = next_id(s, &c->id, e);
        if (r < 0 || c->name[0])
                return r;
        for (unsigned i = 1; i <= NAME_ATTEMPTS; i++) {
                if (i == 1)
                        snprintf(c->name, sizeof(c->name), "chat-%llu", (unsigned long long)c->id);
                else
                        snprintf(c->name, sizeof(c->name), "chat-%llu-%u",
                                (unsigned long long)c->id, i);
                r = name_taken(s, c->owner, c->name, e);
                if (r <= 0)
                        return r;
        }
        return err_set(e, ERR_EXISTS, "no free name could be chosen");
}

int conv_insert(struct store *s, const struct store_conv *c, struct err *e) {
        uint8_t blob[SAMPLING_BLOB_SIZE];
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_INSERT, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        query_bind_i64(&q, c->owner);
        query_bind_text(&q, c->name, strlen(c->name));
        query_bind_u64(&q, c->parent);
        query_bind_i64(&q, c->fork_pos);
        query_bind_u64(&q, c->revision);
        query_bind_i64(&q, c->n_tokens);
        query_bind_i64(&q, c->n_turns);
        query_bind_u64(&q, c->created_usec);
        query_bind_u64(&q, c->updated_usec);
        query_bind_u64(&q, c->model.weights);
        query_bind_u64(&q, c->model.rules);
        query_bind_u64(&q, c->vocab);
        sampling_bind(&q, &c->sampling, blob);
        query_bind_i64(&q, c->n_published);
        query_bind_i64(&q, c->private_memory);
        query_bind_i64(&q, c->gap.from);
        query_bind_i64(&q, c->gap.to);
        bind_overflow(&q, c->overflow);
        shape_bind(&q, &c->shape);
        if (c->tools)
                query_bind_text(&q, c->tools, strlen(c->tools));
        else
                query_bind_null(&q);
        if (s->pg)
                pg_made(s, c->id);
        return query_run(&q, e);
}

int conv_copy_tools(struct store *s, uint64_t from, uint64_t to, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_COPY_TOOLS, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, to);
        query_bind_u64(&q, from);
        return query_run(&q, e);
}

int conv_set_extent(struct store *s, const struct store_conv *c, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_SET_EXTENT, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, c->revision);
        query_bind_i64(&q, c->n_tokens);
        query_bind_i64(&q, c->n_turns);
        query_bind_u64(&q, store_now_usec(s));
        query_bind_u64(&q, c->id);
        query_bind_i64(&q, gap_is_none(&c->gap) ? c->n_tokens : c->gap.from);
        query_bind_i64(&q, c->gap.from);
        query_bind_i64(&q, c->gap.to);
        return query_run(&q, e);
}

/* Check the caller's fields of a new conversation. */
static int check_new(const struct store_conv *c, struct err *e) {
        int r = conv_check_name(c->name, e);

        if (r < 0)
                return r;
        if (!owner_possible(c->owner))
                return err_set(e, ERR_INVALID, "a conversation belongs to one owner");
        if (c->parent > INT64_MAX)
                return err_set(e, ERR_INVALID, "impossible parent");
        if (c->created_usec > INT64_MAX)
                return err_set(e, ERR_INVALID, "impossible time of a conversation");
        if (c->overflow >= STORE_N_OVERFLOWS)
                return err_set(e, ERR_INVALID, "unknown overflow %u", c->overflow);
        if (c->tools && (!*c->tools || !utf8_valid(c->tools, strlen(c->tools))))
                return err_set(e, ERR_INVALID, "definitions of tools are UTF-8, and not empty");
        if (c->about) {
                r = about_check(c->about, e);
                if (r < 0)
                        return r;
        }
        return sampling_check(&c->sampling, e);
}

static int conv_create_once(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        struct store_conv made = *c;
        int r;

        r = check_new(c, e);
        if (r == 0 && !gap_is_possible(&c->gap, (uint32_t)MIN(n_tokens, (size_t)UINT32_MAX)))
                r = err_set(e, ERR_INVALID, "a gap [%u, %u) in %zu tokens", c->gap.from, c->gap.to,
                        n_tokens);
        if (r < 0)
                return r;
        r = txn_begin(s, &txn, e);
        if (r < 0)
                return r;
        r = conv_choose_identity(s, &made, e);
        if (r < 0)
                return r;
        made.revision = 1;
        made.updated_usec = store_now_usec(s);
        if (made.created_usec == 0)
                made.created_usec = made.updated_usec;
        made.n_tokens = made.n_turns = made.n_published = 0;
        r = conv_insert(s, &made, e);
        if (r < 0)
                return r;
        r = turns_insert(s, &made, turns, n_turns, tokens, n_tokens, e);
        if (r < 0)
                return r;
        r = conv_set_extent(s, &made, e);
        if (r == 0 && made.about)
                r = about_set(s, &made, made.about, made.updated_usec, e);
        if (r == 0)
                r = words_add_names(s, made.owner, made.id, e);
        /* What is told of it is what the register has. */
        if (r == 0)
                r = conv_read(s, made.id, &made, e);
        if (r < 0)
                return r;
        r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        *c = made;
        return 0;
}

int store_conv_create(struct store *s, struct store_conv *c, const struct store_turn *turns,
        size_t n_turns, const int32_t *tokens, size_t n_tokens, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = conv_create_once(s, c, turns, n_turns, tokens, n_tokens, e);
        while (txn_again(s, &r, e));
        return r;
}

static int set_access(struct store *s, const struct store_conv *c, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_SET_ACCESS, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, c->n_published);
        query_bind_i64(&q, c->private_memory);
        query_bind_u64(&q, store_now_usec(s));
        query_bind_u64(&q, c->id);
        return query_run(&q, e);
}

static int conv_publish_once(struct store *s, uint64_t id, uint32_t n_tokens, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        struct store_conv c;
        int r;

        r = conv_begin(s, &txn, id, &c, e);
        if (r < 0)
                return r;
        if (n_tokens > c.n_tokens)
                return err_set(
                        e, ERR_INVALID, "conversation has %u tokens, not %u", c.n_tokens, n_tokens);
        if (n_tokens && c.private_memory)
                return err_set(
                        e, ERR_STATE, "imported memory that was not audited cannot be published");
        if (!gap_is_none(&c.gap) && n_tokens > c.gap.from)
                return err_set(e, ERR_STATE,
                        "the memory leaves out tokens %u to %u: what is published ends before them",
                        c.gap.from, c.gap.to);
        c.n_published = n_tokens;
        r = set_access(s, &c, e);
        if (r < 0)
                return r;
        return txn_commit(&txn, e);
}

int store_conv_publish(struct store *s, uint64_t id, uint32_t n_tokens, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = conv_publish_once(s, id, n_tokens, e);
        while (txn_again(s, &r, e));
        return r;
}

static int conv_set_private_once(struct store *s, uint64_t id, bool is_private, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        struct store_conv c;
        int r;

        r = conv_begin(s, &txn, id, &c, e);
        if (r < 0)
                return r;
        if (is_private && c.n_published)
                return err_set(e, ERR_STATE, "the conversation is published");
        if (!is_private) {
                r = links_any_private(s, id, e);
                if (r > 0)
                        return err_set(e, ERR_STATE, "the conversation has private memory");
                if (r < 0)
                        return r;
        }
        c.private_memory = is_private;
        r = set_access(s, &c, e);
        if (r < 0)
                return r;
        return txn_commit(&txn, e);
}

int store_conv_set_private(struct store *s, uint64_t id, bool is_private, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = conv_set_private_once(s, id, is_private, e);
        while (txn_again(s, &r, e));
        return r;
}

static int get_by_name(
        struct store *s, uint64_t owner, const char *name, struct store_conv *ret, struct err *e) {
        bool any = owner == OWNER_ANY;
        struct store_conv c;
        _query_ q = {};
        int r;

        r = query_begin(&q, s, any ? STMT_CONV_BY_NAME_ANY : STMT_CONV_BY_NAME, e);
        if (r < 0)
                return r;
        query_bind_text(&q, name, strlen(name));
        if (!any)
                query_bind_i64(&q, owner);
        r = query_step(&q, e);
        if (r < 0)
                return r;
        if (r == 0)
                return err_set(e, ERR_NOT_FOUND, "no conversation '%s'", name);
        r = conv_read_row(&q, &c, e);
        if (r < 0)
                return r;
        r = query_step(&q, e);
        if (r < 0)
                return r;
        if (r > 0)
                return err_set(e, ERR_INVALID, "several users have a conversation '%s'", name);
        *ret = c;
        return 0;
}

int conv_get(struct store *s, uint64_t owner, uint64_t id, const char *name, struct store_conv *ret,
        struct err *e) {
        struct store_conv c;
        int r;

        if (id == 0)
                return get_by_name(s, owner, name ? name : "", ret, e);
        r = conv_read(s, id, &c, e);
        if (r < 0)
                return r;
        /* Another user's conversation is reported like one that does not exist. */
        if (owner != OWNER_ANY && c.owner != owner)
                return err_set(e, ERR_NOT_FOUND, "no conversation %llu", (unsigned long long)id);
        *ret = c;
        return 0;
}

int store_conv_get(struct store *s, uint64_t owner, uint64_t id, const char *name,
        struct store_conv *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : conv_get(s, owner, id, name, ret, e);
}

static int count_convs(struct store *s, uint64_t owner, uint64_t *ret, struct err *e) {
        bool any = owner == OWNER_ANY;
        _query_ q = {};
        uint64_t n;
        int r;

        r = query_begin(&q, s, any ? STMT_CONV_COUNT_ANY : STMT_CONV_COUNT, e);
        if (r < 0)
                return r;
        if (!any)
                query_bind_i64(&q, owner);
        r = query_step(&q, e);
        if (r < 0)
                return r;
        n = query_number(&q, 0, INT64_MAX);
        r = query_check(&q, e);
        if (r < 0)
                return r;
        *ret = n;
        return 0;
}

int store_conv_count(struct store *s, uint64_t owner, uint64_t *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : count_convs(s, owner, ret, e);
}

static int set_name(struct store *s, const struct store_conv *c, const char *name, struct err *e) {
        _query_ q = {};
        int r;

        if (strcmp(c->name, name) == 0)
                return 0;
        r = name_taken(s, c->owner, name, e);
        if (r > 0)
                return err_set(e, ERR_EXISTS, "a conversation '%s' exists", name);
        if (r < 0)
                return r;
        r = query_begin(&q, s, STMT_CONV_SET_NAME, e);
        if (r < 0)
                return r;
        query_bind_text(&q, name, strlen(name));
        query_bind_u64(&q, store_now_usec(s));
        query_bind_u64(&q, c->id);
        return query_run(&q, e);
}

static int set_sampling(
        struct store *s, uint64_t id, const struct sampling *sampling, struct err *e) {
        uint8_t blob[SAMPLING_BLOB_SIZE];
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_SET_SAMPLING, e);

        if (r < 0)
                return r;
        sampling_bind(&q, sampling, blob);
        query_bind_u64(&q, store_now_usec(s));
        query_bind_u64(&q, id);
        return query_run(&q, e);
}

static int set_overflow(struct store *s, uint64_t id, uint32_t overflow, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_SET_OVERFLOW, e);

        if (r < 0)
                return r;
        bind_overflow(&q, overflow);
        query_bind_u64(&q, store_now_usec(s));
        query_bind_u64(&q, id);
        return query_run(&q, e);
}

static int set_pinned(struct store *s, uint64_t id, bool pinned, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CONV_SET_PINNED, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, pinned);
        query_bind_u64(&q, store_now_usec(s));
        query_bind_u64(&q, id);
        return query_run(&q, e);
}

static int conv_update_once(struct store *s, uint64_t id, const char *name,
        const struct sampling *sampling, uint32_t overflow, const bool *pinned,
        const struct about *about, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        struct store_conv c;
        bool renamed;
        int r;

        if (name) {
                r = conv_check_name(name, e);
                if (r < 0)
                        return r;
                if (!*name)
                        return err_set(e, ERR_INVALID, "a name has at least one byte");
        }
        if (sampling) {
                r = sampling_check(sampling, e);
                if (r < 0)
                        return r;
        }
        if (overflow != STORE_OVERFLOW_KEEP && overflow >= STORE_N_OVERFLOWS)
                return err_set(e, ERR_INVALID, "unknown overflow %u", overflow);
        if (about) {
                r = about_check(about, e);
                if (r < 0)
                        return r;
        }
        r = conv_begin(s, &txn, id, &c, e);
        if (r < 0)
                return r;
        renamed = name || (about && about->has & (ABOUT_TITLE | ABOUT_TAGS));
        r = renamed ? words_take_out_names(s, c.owner, id, e) : 0;
        if (r == 0 && name)
                r = set_name(s, &c, name, e);
        if (r < 0)
                return r;
        r = sampling ? set_sampling(s, id, sampling, e) : 0;
        if (r == 0 && overflow != STORE_OVERFLOW_KEEP)
                r = set_overflow(s, id, overflow, e);
        if (r == 0 && pinned)
                r = set_pinned(s, id, *pinned, e);
        if (r == 0 && about && about->has)
                r = about_set(s, &c, about, store_now_usec(s), e);
        if (r == 0 && renamed)
                r = words_add_names(s, c.owner, id, e);
        if (r < 0)
                return r;
        return txn_commit(&txn, e);
}

int store_conv_update(struct store *s, uint64_t id, const char *name,
        const struct sampling *sampling, uint32_t overflow, const bool *pinned,
        const struct about *about, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = conv_update_once(s, id, name, sampling, overflow, pinned, about, e);
        while (txn_again(s, &r, e));
        return r;
}

/* A conversation that is about to be deleted leaves its forks to its own parent, with which they share as much as it did:
 * so what descends from one conversation stays one tree. Without a parent its id stays as what joins them. */
static int bequeath(struct store *s, const struct store_conv *c, struct err *e) {
        _query_ q = {};
        int r;

        if (c->parent == 0)
                return 0;
        r = query_begin(&q, s, STMT_CONV_BEQUEATH, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, c->id);
        query_bind_u64(&q, c->parent);
        query_bind_i64(&q, c->fork_pos);
        return query_run(&q, e);
}

/* @due: NULL, or the time at which it must be due. */
static int conv_delete_once(
        struct store *s, uint64_t id, const uint64_t *due, struct store_gone *gone, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(store_gone_deinit) struct store_gone lost = {};
        _query_ q = {};
        struct store_conv c;
        int r;

        r = txn_begin(s, &txn, e);
        if (r == 0)
                r = conv_own(s, id, e);
        if (r < 0)
                return r;
        r = conv_read(s, id, &c, e);
        if (due && r == 0)
                r = expire_check(s, &c, *due, e);
        if (due && r < 0)
                return r;
        if (r == 0)
                r = bequeath(s, &c, e);
        if (r == 0)
                r = words_take_out_names(s, c.owner, id, e);
        if (r == 0)
                r = words_take_out_turns(s, c.owner, id, 0, UINT32_MAX, e);
        /* A damaged row must be removable. Whose words are its turns' is not known then. */
        if (r == -ERR_CORRUPT)
                r = words_give_up(s, e);
        if (r < 0)
                return r;
        r = links_cut(s, STMT_LINK_CUT, id, 0, 0, &lost, e);
        if (r < 0)
                return r;
        r = query_begin(&q, s, STMT_CONV_DELETE, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, id);
        r = query_run(&q, e);
        query_end(&q);
        if (r < 0)
                return r;
        if (s->pg)
                pg_removed(s);
        r = txn_commit(&txn, e);
        if (r < 0)
                return r;
        *gone = lost;
        lost = (struct store_gone){};
        return 0;
}

static int conv_delete(
        struct store *s, uint64_t id, const uint64_t *due, struct store_gone *gone, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = conv_delete_once(s, id, due, gone, e);
        while (txn_again(s, &r, e));
        return r;
}

int store_conv_delete(struct store *s, uint64_t id, struct store_gone *gone, struct err *e) {
        return conv_delete(s, id, NULL, gone, e);
}

int store_conv_expire(
        struct store *s, uint64_t id, uint64_t now_usec, struct store_gone *gone, struct err *e) {
        return conv_delete(s, id, &now_usec, gone, e);
}
