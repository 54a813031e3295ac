/* SPDX-License-Identifier: MIT */
/*
 * Limits that administrators set, and what there is to be limited.
 *
 * 1. A row of `usage` has the numbers of the owner's conversations and of the tokens in them. Triggers of the schema
 *    keep it, in the transaction that changes a conversation, so it is right whichever call that is, and
 *    looking costs one row. If a file was damaged, the next start counts anew.
 * 2. The same row has what was computed for the owner on a day. The day goes with it: with the first work of
 *    another day, even of an earlier one, the sum begins anew. So nothing has to happen at midnight.
 * 3. An override names its subject as people do: a tenant by its label. A tenant that is forgotten (tenant.c) and
 *    comes back has its limits again.
 * 4. A row whose words are not known here limits nothing, and stays.
 */
#include "base/utf8.h"
#include "base/util.h"
#include "store/pg.h"
#include <string.h>

static const char *const kinds[QUOTA_N_KINDS] = {
        [QUOTA_OF_USER] = "user",
        [QUOTA_OF_GROUP] = "group",
        [QUOTA_OF_TENANTS] = "tenants",
        [QUOTA_OF_TENANT] = "tenant",
};

/* --- usage --- */

static int read_usage(struct store *s, uint64_t owner, struct store_usage *ret, struct err *e) {
        struct store_usage u = {};
        _query_ q = {};
        int r = query_begin(&q, s, STMT_USAGE_GET, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, owner);
        r = query_step(&q, e);
        if (r > 0) {
                u.n_conversations = query_number(&q, 0, INT64_MAX);
                u.n_tokens = query_number(&q, 1, INT64_MAX);
                u.day = query_number(&q, 2, INT64_MAX);
                u.day_tokens = query_number(&q, 3, INT64_MAX);
                r = query_check(&q, e);
        }
        if (r < 0)
                return r;
        *ret = u;
        return 0;
}

int store_usage(struct store *s, uint64_t owner, struct store_usage *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : read_usage(s, owner, ret, e);
}

int usage_work(struct store *s, uint64_t owner, const struct store_work *work, struct err *e) {
        _query_ q = {};
        int r;

        if (!work || work->n_tokens == 0)
                return 0;
        r = query_begin(&q, s, STMT_USAGE_WORK, e);
        if (r < 0)
                return r;
        query_bind_u64(&q, owner);
        query_bind_u64(&q, work->day);
        query_bind_u64(&q, work->n_tokens);
        return query_run(&q, e);
}

static int work_once(
        struct store *s, uint64_t owner, const struct store_work *work, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        int r = txn_begin(s, &txn, e);

        if (r == 0)
                r = usage_work(s, owner, work, e);
        return r < 0 ? r : txn_commit(&txn, e);
}

int store_work(struct store *s, uint64_t owner, const struct store_work *work, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = work_once(s, owner, work, e);
        while (txn_again(s, &r, e));
        return r;
}

static int forget(struct store *s, uint64_t day, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_USAGE_FORGET, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, day);
        return query_run(&q, e);
}

/* 1: the numbers are wrong. */
static int is_wrong(struct store *s, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_CHECK_USAGE, e);

        return r < 0 ? r : query_step(&q, e);
}

static int run_bare(struct store *s, enum store_stmt which, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, which, e);

        return r < 0 ? r : query_run(&q, e);
}

static int usage_tidy_once(struct store *s, uint64_t day, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        int r = txn_begin(s, &txn, e);

        if (r == 0)
                r = is_wrong(s, e);
        /* Nobody changes a conversation while they are counted. */
        if (r > 0 && s->pg)
                r = pg_exec(s->pg, "LOCK TABLE conversation IN SHARE MODE", NULL, e) < 0 ? -ERR_BUSY
                                                                                         : 1;
        if (r > 0) {
                r = run_bare(s, STMT_USAGE_ENTER, e);
                if (r == 0)
                        r = run_bare(s, STMT_USAGE_COUNT, e);
        }
        if (r == 0)
                r = forget(s, day, e);
        return r < 0 ? r : txn_commit(&txn, e);
}

int store_usage_tidy(struct store *s, uint64_t day, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = usage_tidy_once(s, day, e);
        while (txn_again(s, &r, e));
        return r;
}

/* --- overrides --- */

/* The number of a word, or -1. */
static int find_word(struct query *q, int col, const char *const *words, size_t n) {
        size_t size;
        const char *p = query_bytes(q, col, &size);

        for (size_t i = 0; i < n; i++)
                if (strlen(words[i]) == size && memcmp(p, words[i], size) == 0)
                        return (int)i;
        return -1;
}

static int find_quota(struct query *q, int col) {
        const char *names[QUOTA_N];

        for (size_t i = 0; i < QUOTA_N; i++)
                names[i] = quota_info((enum quota)i)->name;
        return find_word(q, col, names, QUOTA_N);
}

/* Overrides and the bytes of their labels, apart while they grow. */
struct reading {
        struct quota_override *items;
        size_t n;
        char *labels;
        size_t labels_size;
};
static void reading_deinit(struct reading *x) {
        free(x->items);
        free(x->labels);
}

static int add_label(struct reading *x, const char *label, size_t size, struct err *e) {
        char *p = realloc(x->labels, x->labels_size + size + 1);

        if (!p)
                return err_set(e, ERR_NOMEM, "no memory for quotas");
        x->labels = p;
        memcpy(p + x->labels_size, label, size);
        p[x->labels_size + size] = '\0';
        x->labels_size += size + 1;
        return 0;
}

/* The present row (rule 4). */
static int add_row(struct query *q, struct reading *x, struct err *e) {
        int kind = find_word(q, 0, kinds, QUOTA_N_KINDS), quota = find_quota(q, 3), r;
        uint32_t number = query_u32(q, 1);
        uint64_t value = query_is_null(q, 4) ? QUOTA_NONE : query_number(q, 4, INT64_MAX);
        size_t size;
        const char *label = query_bytes(q, 2, &size);
        struct quota_override *last;

        r = query_check(q, e);
        if (r < 0 || kind < 0 || quota < 0)
                return r;
        if (size > STORE_NAME_MAX || memchr(label, 0, size) || x->n == STORE_MAX_OVERRIDES)
                return 0;
        r = array_grow((void **)&x->items, x->n, sizeof(*x->items));
        if (r < 0)
                return err_set(e, ERR_NOMEM, "no memory for quotas");
        r = add_label(x, label, size, e);
        if (r < 0)
                return r;
        last = &x->items[x->n++];
        *last = (struct quota_override){
                .subject = {.kind = (enum quota_kind)kind, .number = number},
                .quota = (enum quota)quota,
                .value = value};
        return 0;
}

static int read_rows(struct store *s, struct reading *x, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_QUOTA_LIST, e);

        if (r < 0)
                return r;
        while ((r = query_step(&q, e)) > 0) {
                r = add_row(&q, x, e);
                if (r < 0)
                        return r;
        }
        return r;
}

/* One block of both. */
static int join(const struct reading *x, struct quota_override **ret, struct err *e) {
        struct quota_override *all = malloc(x->n * sizeof(*all) + x->labels_size + 1);
        char *label;

        if (!all)
                return err_set(e, ERR_NOMEM, "no memory for quotas");
        label = (char *)(all + x->n);
        if (x->n > 0) {
                memcpy(all, x->items, x->n * sizeof(*all));
                memcpy(label, x->labels, x->labels_size);
        }
        for (size_t i = 0; i < x->n; i++) {
                all[i].subject.label = label;
                label += strlen(label) + 1;
        }
        *ret = all;
        return 0;
}

int store_overrides(struct store *s, struct quota_override **ret, size_t *ret_n, struct err *e) {
        _cleanup_(reading_deinit) struct reading x = {};
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = read_rows(s, &x, e);
        if (r == 0)
                r = join(&x, ret, e);
        if (r == 0)
                *ret_n = x.n;
        return r;
}

static int check_subject(const struct quota_subject *subject, struct err *e) {
        size_t n = strnlen(subject->label, STORE_NAME_MAX + 1);

        if ((subject->kind == QUOTA_OF_TENANT) != (n > 0) || n > STORE_NAME_MAX ||
                !utf8_valid(subject->label, n))
                return err_set(e, ERR_INVALID, "a tenant's label is UTF-8 of 1 to %d bytes",
                        STORE_NAME_MAX);
        return 0;
}

static int change_one(struct store *s, const struct quota_subject *subject,
        const struct store_override_change *change, struct err *e) {
        const char *name = quota_info(change->quota)->name, *kind = kinds[subject->kind];
        _query_ q = {};
        int r = query_begin(&q, s, change->clear ? STMT_QUOTA_CLEAR : STMT_QUOTA_SET, e);

        if (r < 0)
                return r;
        query_bind_text(&q, kind, strlen(kind));
        query_bind_i64(&q, subject->number);
        query_bind_text(&q, subject->label, strlen(subject->label));
        query_bind_text(&q, name, strlen(name));
        if (!change->clear && change->value == QUOTA_NONE)
                query_bind_null(&q);
        else if (!change->clear)
                query_bind_u64(&q, change->value);
        return query_run(&q, e);
}

static int check_count(struct store *s, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_QUOTA_COUNT, e);

        if (r == 0)
                r = query_step(&q, e);
        if (r < 0)
                return r;
        if (query_number(&q, 0, INT64_MAX) > STORE_MAX_OVERRIDES)
                return err_set(e, ERR_LIMIT,
                        "%d overrides of limits are set, the most that there can be; clear some",
                        STORE_MAX_OVERRIDES);
        return query_check(&q, e);
}

/* They hear of it when the transaction is committed. */
static int tell_others(struct store *s, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_QUOTA_TELL, e);

        if (r == 0)
                r = query_step(&q, e);
        return MIN(r, 0);
}

static int overrides_change_once(struct store *s, const struct quota_subject *subject,
        const struct store_override_change *changes, size_t n, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        int r = check_subject(subject, e);

        if (r == 0)
                r = txn_begin(s, &txn, e);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = change_one(s, subject, &changes[i], e);
        if (r == 0)
                r = check_count(s, e);
        if (r == 0 && s->pg)
                r = tell_others(s, e);
        return r < 0 ? r : txn_commit(&txn, e);
}

int store_overrides_change(struct store *s, const struct quota_subject *subject,
        const struct store_override_change *changes, size_t n, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = overrides_change_once(s, subject, changes, n, e);
        while (txn_again(s, &r, e));
        return r;
}
