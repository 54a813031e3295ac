/* SPDX-License-Identifier: MIT */
/*
 * Secrets of owners: what the names of an owner's memory outside of the machine are made with (lib/engine/memory/names.c). One is drawn
 * when it is first asked for, by whichever machine asks first. It stays as long as the register, but for a tenant's, which goes with
 * the tenant.
 */
#include <string.h>
#include <sys/random.h>

#include "store/store-private.h"

/* 1: *ret is filled; 0: there is none. */
static int get(struct store *s, uint64_t owner, uint8_t ret[STORE_SECRET_SIZE], struct err *e) {
        _query_ q = {};
        const void *bytes;
        size_t n;
        int r = query_begin(&q, s, STMT_SECRET_GET, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, owner);
        r = query_step(&q, e);
        if (r <= 0)
                return r;
        bytes = query_bytes(&q, 0, &n);
        if (n != STORE_SECRET_SIZE)
                query_bad(&q, 0);
        r = query_check(&q, e);
        if (r < 0)
                return r;
        memcpy(ret, bytes, STORE_SECRET_SIZE);
        return 1;
}

static int get_reading(
        struct store *s, uint64_t owner, uint8_t ret[STORE_SECRET_SIZE], struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        int r = read_begin(&s, &reading, e);

        return r < 0 ? r : get(s, owner, ret, e);
}

/* What another machine has entered meanwhile stays. */
static int enter(
        struct store *s, uint64_t owner, const uint8_t secret[STORE_SECRET_SIZE], struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_SECRET_ENTER, e);

        if (r < 0)
                return r;
        query_bind_i64(&q, owner);
        query_bind_blob(&q, secret, STORE_SECRET_SIZE);
        return query_run(&q, e);
}

static int make_once(struct store *s, uint64_t owner, const uint8_t drawn[STORE_SECRET_SIZE],
        uint8_t ret[STORE_SECRET_SIZE], struct err *e) {
        _cleanup_(txn_endp) struct store *txn = NULL;
        int r = txn_begin(s, &txn, e);

        if (r == 0)
                r = enter(s, owner, drawn, e);
        if (r == 0)
                r = get(s, owner, ret, e);
        if (r == 0)
                return err_set(e, ERR_CORRUPT, "register: the secret of an owner is not there");
        return r < 0 ? r : txn_commit(&txn, e);
}

static int make(struct store *s, uint64_t owner, uint8_t ret[STORE_SECRET_SIZE], struct err *e) {
        STORE_LOCK(s);
        uint8_t drawn[STORE_SECRET_SIZE];
        int r;

        if (getrandom(drawn, sizeof(drawn), 0) != sizeof(drawn))
                return err_set(e, ERR_SYS, "getrandom");
        do
                r = make_once(s, owner, drawn, ret, e);
        while (txn_again(s, &r, e));
        return r;
}

int store_secret(struct store *s, uint64_t owner, uint8_t ret[STORE_SECRET_SIZE], struct err *e) {
        uint8_t secret[STORE_SECRET_SIZE];
        int r;

        if (!owner_possible(owner))
                return err_set(e, ERR_INVALID, "impossible owner");
        r = get_reading(s, owner, secret, e);
        if (r == 0)
                r = make(s, owner, secret, e);
        if (r < 0)
                return r;
        memcpy(ret, secret, sizeof(secret));
        return 0;
}

int secrets_forget(struct store *s, struct err *e) {
        _query_ q = {};
        int r = query_begin(&q, s, STMT_SECRET_FORGET, e);

        return r < 0 ? r : query_run(&q, e);
}

int store_has_memory(
        struct store *s, uint64_t owner, const struct store_record *cell, struct err *e) {
        _cleanup_(read_endp) struct store *reading = NULL;
        _query_ q = {};
        int r = read_begin(&s, &reading, e);

        if (r == 0)
                r = query_begin(&q, s, STMT_MEMORY_HAS, e);
        if (r < 0)
                return r;
        query_bind_i64(&q, owner);
        query_bind_u64(&q, cell->token_hash);
        query_bind_i64(&q, cell->index);
        query_bind_i64(&q, cell->n_tokens);
        query_bind_i64(&q, cell->block_class);
        r = query_step(&q, e);
        query_end(&q);
        return r;
}
