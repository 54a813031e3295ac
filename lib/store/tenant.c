/* SPDX-License-Identifier: MIT */
/*
 * Tenants: whom a uid keeps apart as if they were users (base/owner.h).
 *
 * 1. A tenant is known by its uid and label, byte for byte. Its number is never given to another one, so
 *    what is left of a forgotten tenant (a record that others still use) never becomes somebody's own.
 * 2. A tenant is made when it is first named, and forgotten without a conversation: when the daemon starts, and when its user
 *    is purged. So labels that were tried once do not fill the register for ever. (Where several daemons share the register, only
 *    when its user is purged: another daemon may act for one that has no conversation yet.)
 * 3. No conversation is made for a tenant that is not here: whoever still holds its number hears that it was forgotten.
 */
#include "base/utf8.h"
#include "store/store-private.h"
#include <stdio.h>
#include <string.h>

static int check_label(const char *label, struct err *e) {
        size_t n = strnlen(label, STORE_NAME_MAX + 1);

        if (n == 0 || n > STORE_NAME_MAX)
                return err_set(
                        e, ERR_INVALID, "a tenant's label has 1 to %d bytes", STORE_NAME_MAX);
        if (!utf8_valid(label, n))
                return err_set(e, ERR_INVALID, "a tenant's label is UTF-8");
        return 0;
}

/* *ret: its number, or 0. */
static int find(struct store *s, uint32_t uid, const char *label, uint32_t *ret, struct err *e) {
        _query_ q = {};
        uint64_t number = 0;
        int r = query_begin(&q, s, STMT_TENANT_FIND, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, uid);
        query_bind_text(&q, label, strlen(label));
        r = query_step(&q, e);
        if (r < 0)
                return r;
        if (r > 0) {
                number = query_number(&q, 0, OWNER_MAX_TENANT);
                if (number == 0)
                        query_bad(&q, 0);
                r = query_check(&q, e);
                if (r < 0)
                        return r;
        }
        *ret = (uint32_t)number;
        return 0;
}

static int find_reading(
        struct store *s, uint32_t uid, const char *label, uint32_t *ret, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : find(s, uid, label, ret, e);
}

static int count(struct store *s, uint32_t uid, uint64_t *ret, struct err *e) {
        _query_ q = {};
        uint64_t n;
        int r = query_begin(&q, s, STMT_TENANT_COUNT, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, uid);
        r = query_step(&q, e);
        if (r < 0)
                return r;
        n = query_number(&q, 0, INT64_MAX);
        r = query_check(&q, e);
        if (r == 0)
                *ret = n;
        return r;
}

static int insert(struct store *s, uint32_t uid, const char *label, uint64_t *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TENANT_INSERT, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, uid);
        query_bind_text(&q, label, strlen(label));
        return query_insert(&q, ret, e);
}

static int make_once(struct store *s, uint32_t uid, const char *label, uint64_t max, uint32_t *ret,
        struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        uint32_t number = 0;
        uint64_t n = 0, id = 0;
        int r;

        r = txn_begin(s, &txn, e);
        if (r == 0)
                r = find(s, uid, label, &number, e);
        if (r < 0)
                return r;
        if (number > 0) {
                *ret = number;
                return 0;
        }
        r = count(s, uid, &n, e);
        if (r < 0)
                return r;
        if (n >= max)
                return err_set(e, ERR_LIMIT,
                        "user %u has %llu tenants, the limit for one user is %llu "
                        "(max-user-tenants); those without conversations are forgotten at the next "
                        "start, or ask the administrator for more",
                        uid, (unsigned long long)n, (unsigned long long)max);
        r = insert(s, uid, label, &id, e);
        if (r < 0)
                return r;
        if (id < 1 || id > OWNER_MAX_TENANT)
                return err_set(e, ERR_LIMIT, "the register has no number for another tenant");
        r = txn_commit(&txn, e);
        if (r == 0)
                *ret = (uint32_t)id;
        return r;
}

static int make(struct store *s, uint32_t uid, const char *label, uint64_t max, uint32_t *ret,
        struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = make_once(s, uid, label, max, ret, e);
        while (txn_again(s, &r, e));
        return r;
}

int store_tenant(struct store *s, uint32_t uid, const char *label, uint64_t max, uint32_t *ret,
        struct err *e) {
        uint32_t number = 0;
        int r = check_label(label, e);

        if (r < 0)
                return r;
        if (!owner_possible(uid))
                return err_set(e, ERR_INVALID, "a tenant belongs to one user");
        r = find_reading(s, uid, label, &number, e);
        if (r < 0)
                return r;
        if (number == 0 && max > 0)
                return make(s, uid, label, max, ret, e);
        if (number == 0)
                return err_set(e, ERR_NOT_FOUND, "user %u has no tenant '%s'", uid, label);
        *ret = number;
        return 0;
}

/* 1: @q has it; 0: the register has no such tenant. */
static int find_label(struct query *q, struct store *s, uint64_t owner, struct err *e) {
        int r = query_begin(q, s, STMT_TENANT_LABEL, e);

        if (r < 0)
                return r;
        query_bind_i64(q, owner_tenant(owner));
        query_bind_i64(q, owner_uid(owner));
        return query_step(q, e);
}

int tenant_label(struct store *s, uint64_t owner, char ret[STORE_NAME_MAX + 1], struct err *e) {
        _query_ q = {};
        const char *label;
        size_t n;
        int r;

        memset(ret, 0, STORE_NAME_MAX + 1);
        if (owner_tenant(owner) == 0)
                return 0;
        r = find_label(&q, s, owner, e);
        if (r < 0)
                return r;
        if (r == 0) {
                snprintf(ret, STORE_NAME_MAX + 1, "#%u", owner_tenant(owner));
                return 0;
        }
        label = query_bytes(&q, 0, &n);
        if (n == 0 || n > STORE_NAME_MAX || memchr(label, 0, n) || !utf8_valid(label, n))
                query_bad(&q, 0);
        else
                memcpy(ret, label, n);
        return query_check(&q, e);
}

int store_tenant_label(
        struct store *s, uint64_t owner, char ret[STORE_NAME_MAX + 1], struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        char label[STORE_NAME_MAX + 1];
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = tenant_label(s, owner, label, e);
        if (r == 0)
                memcpy(ret, label, sizeof(label));
        return r;
}

static int forget_unused(struct store *s, struct err *e) {
        _query_ q = {};
        int r;

        if (s->pg)
                return 0;
        r = query_begin(&q, s, STMT_TENANT_FORGET, e);
        return r < 0 ? r : query_run(&q, e);
}

static int tenants_forget_once(struct store *s, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        int r = txn_begin(s, &txn, e);

        if (r == 0)
                r = forget_unused(s, e);
        if (r == 0)
                r = secrets_forget(s, e);
        return r < 0 ? r : txn_commit(&txn, e);
}

int store_tenants_forget(struct store *s, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = tenants_forget_once(s, e);
        while (txn_again(s, &r, e));
        return r;
}

static int remove_tenant(struct store *s, uint64_t number, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TENANT_REMOVE, e);

        if (r < 0)
                return r;
        query_bind_u64(&q, number);
        return query_run(&q, e);
}

static int list_unused(
        struct store *s, uint32_t uid, uint32_t number, struct ids *ret, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_TENANT_UNUSED, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, uid);
        query_bind_i64(&q, number);
        return ids_read(&q, ret, e);
}

static bool is_among(uint64_t number, const uint32_t *numbers, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (numbers[i] == number)
                        return true;
        return false;
}

static int tenants_forget_of_once(struct store *s, uint32_t uid, uint32_t number,
        const uint32_t *keep, size_t n_keep, struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        _cleanup_(ids_deinit) struct ids unused = {};
        int r = txn_begin(s, &txn, e);

        if (r == 0)
                r = list_unused(s, uid, number, &unused, e);
        for (size_t i = 0; r == 0 && i < unused.n; i++)
                if (!is_among(unused.v[i], keep, n_keep))
                        r = remove_tenant(s, unused.v[i], e);
        if (r == 0)
                r = secrets_forget(s, e);
        return r < 0 ? r : txn_commit(&txn, e);
}

int store_tenants_forget_of(struct store *s, uint32_t uid, uint32_t number, const uint32_t *keep,
        size_t n_keep, struct err *e) {
        STORE_LOCK(s);
        int r;

        do
                r = tenants_forget_of_once(s, uid, number, keep, n_keep, e);
        while (txn_again(s, &r, e));
        return r;
}

int tenant_check(struct store *s, uint64_t owner, struct err *e) {
        _query_ q = {};
        int r;

        if (owner_tenant(owner) == 0)
                return 0;
        r = find_label(&q, s, owner, e);
        if (r == 0)
                return err_set(e, ERR_NOT_FOUND,
                        "this tenant of user %u was purged by an administrator: connect again",
                        owner_uid(owner));
        return MIN(r, 0);
}
