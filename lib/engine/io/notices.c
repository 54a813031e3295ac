/* SPDX-License-Identifier: MIT */
/*
 * Notices: what has happened to conversations, in the order in which it happened, for Watch.
 *
 * A notice is pushed after the change is durable (I4). The newest N_NOTICES of them are kept in a ring
 * of fixed size, which engine_open() allocates like the buffers for steps: the ledger does not know it,
 * and pushing never fails. A watcher has a place in the sequence of all notices and reads on from there
 * (verbs/watch.c), so a watcher that reads slowly holds no memory.
 *
 * 1. Nothing is missed silently. The ring remembers, for each owner, how far its notices have been
 *    overwritten (`lost`). A watcher whose place is before that has missed a notice of this owner, and
 *    learns it (NOTICES_LOST). Owners share N_BUCKETS entries by a keyed hash; sharing an entry can
 *    report a loss that was none, never hide one.
 * 2. An owner's notices are for this owner, and for administrators who ask for those of all. Other
 *    owners' notices can't be seen, counted or noticed: they take no place that the owner could tell.
 *    An owner learns of a loss only when a notice of its own was lost (or by 1, of an unknown owner in
 *    the same entry).
 * 3. A cursor is a place as text: the place masked by a keyed hash of a nonce, and a keyed hash of both
 *    that shows it to be genuine. The keys are random and live as long as the engine, so a cursor
 *    of an earlier engine is as unknown as any other text. Nonces never repeat, so two cursors of one
 *    place do not look alike, and nobody can tell from cursors whether other owners were active.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"
#include "engine/io/io.h"

#define N_NOTICES 4096
#define N_BUCKETS 1024
#define CURSOR_TEXT (3 * 16) /* hexadecimal digits */

static_assert(CURSOR_TEXT <= ENGINE_CURSOR_MAX, "a cursor fits");

enum { KEY_OWNER, KEY_NONCE, KEY_MASK, KEY_TAG, N_KEYS };

struct notices {
        uint64_t keys[N_KEYS][2];
        struct bell *bell;

        /* under lock */
        pthread_mutex_t lock;
        uint64_t end; /* the place behind the newest notice */
        uint64_t lost
                [N_BUCKETS]; /* the place behind the newest notice of the entry that was overwritten */
        uint64_t lost_any;     /* the same for all owners together */
        uint64_t lost_general; /* the same for notices that are of no owner */
        uint64_t n_cursors;    /* made so far: the source of nonces */
        struct notice ring[N_NOTICES];
};

int notices_new(struct notices **ret, struct bell *bell, struct err *e) {
        struct notices *n = calloc(1, sizeof(*n));

        if (!n)
                return err_set(e, ERR_NOMEM, "no memory for the engine");
        if (getrandom(n->keys, sizeof(n->keys), 0) != sizeof(n->keys)) {
                free(n);
                return err_set(e, ERR_SYS, "getrandom");
        }
        n->bell = bell;
        pthread_mutex_init(&n->lock, NULL);
        *ret = n;
        return 0;
}

struct notices *notices_free(struct notices *n) {
        if (!n)
                return NULL;
        pthread_mutex_destroy(&n->lock);
        free(n);
        return NULL;
}

/* --- pushing --- */

static bool is_general(const struct notice *notice) {
        return notice->kind == ENGINE_NOTICE_PRESSURE;
}

static uint64_t *lost_of(struct notices *n, uint64_t owner) {
        return &n->lost[hash64_keyed(&owner, sizeof(owner), n->keys[KEY_OWNER]) % N_BUCKETS];
}

/* Under the lock: the notice before place @behind goes. */
static void overwrite(struct notices *n, const struct notice *notice, uint64_t behind) {
        if (is_general(notice))
                n->lost_general = behind;
        else
                *lost_of(n, notice->owner) = n->lost_any = behind;
}

static void push(struct notices *n, const struct notice *notice) {
        struct notice *place;

        pthread_mutex_lock(&n->lock);
        place = &n->ring[n->end % N_NOTICES];
        if (n->end >= N_NOTICES)
                overwrite(n, place, n->end - N_NOTICES + 1);
        *place = *notice;
        n->end++;
        pthread_mutex_unlock(&n->lock);
}

void notice_push(struct engine *engine, const struct notice *notice) {
        push(engine->notices, notice);
        engine->again = true;
}

void engine_note_pressure(struct engine *engine, bool pressed, uint64_t budget) {
        const struct notice notice = {
                .kind = ENGINE_NOTICE_PRESSURE, .pressed = pressed, .budget = budget};

        push(engine->notices, &notice);
        bell_ring(engine->notices->bell);
}

/* --- reading --- */

static bool is_seen(const struct notice *notice, const struct notice_scope *scope) {
        if (is_general(notice))
                return scope->general;
        return scope->all || notice->owner == scope->owner;
}

/* Under the lock: the place behind the newest notice of this scope that was overwritten. */
static uint64_t lost_before(struct notices *n, const struct notice_scope *scope) {
        uint64_t lost = scope->general ? n->lost_general : 0;

        return MAX(lost, scope->all ? n->lost_any : *lost_of(n, scope->owner));
}

enum notices_next notices_next(struct engine *engine, const struct notice_scope *scope,
        uint64_t *place, struct notice *ret) {
        struct notices *n = engine->notices;
        enum notices_next result = NOTICES_NONE;

        pthread_mutex_lock(&n->lock);
        if (*place < n->end && *place < lost_before(n, scope)) {
                *place = n->end;
                result = NOTICES_LOST;
        } else if (n->end > N_NOTICES) {
                *place = MAX(*place, n->end - N_NOTICES);
        }
        while (result == NOTICES_NONE && *place < n->end) {
                const struct notice *notice = &n->ring[(*place)++ % N_NOTICES];

                if (!is_seen(notice, scope))
                        continue;
                *ret = *notice;
                result = NOTICES_ONE;
        }
        pthread_mutex_unlock(&n->lock);
        return result;
}

uint64_t notices_end(struct engine *engine) {
        struct notices *n = engine->notices;
        uint64_t end;

        pthread_mutex_lock(&n->lock);
        end = n->end;
        pthread_mutex_unlock(&n->lock);
        return end;
}

/* --- cursors (3) --- */

static uint64_t cursor_mask(const struct notices *n, uint64_t nonce) {
        return hash64_keyed(&nonce, sizeof(nonce), n->keys[KEY_MASK]);
}

static uint64_t cursor_tag(const struct notices *n, uint64_t nonce, uint64_t masked) {
        const uint64_t both[] = {nonce, masked};

        return hash64_keyed(both, sizeof(both), n->keys[KEY_TAG]);
}

void notices_write_cursor(struct engine *engine, uint64_t place, char ret[ENGINE_CURSOR_MAX + 1]) {
        struct notices *n = engine->notices;
        uint64_t nonce, masked;

        pthread_mutex_lock(&n->lock);
        nonce = n->n_cursors++;
        pthread_mutex_unlock(&n->lock);
        nonce = hash64_keyed(&nonce, sizeof(nonce), n->keys[KEY_NONCE]);
        masked = place ^ cursor_mask(n, nonce);
        snprintf(ret, ENGINE_CURSOR_MAX + 1, "%016llx%016llx%016llx", (unsigned long long)nonce,
                (unsigned long long)masked, (unsigned long long)cursor_tag(n, nonce, masked));
}

/* 16 digits as a number. */
static bool read_part(const char *text, uint64_t *ret) {
        uint64_t value = 0;

        for (size_t i = 0; i < 16; i++) {
                const char *digits = "0123456789abcdef", *at = memchr(digits, text[i], 16);

                if (!at)
                        return false;
                value = value << 4 | (uint64_t)(at - digits);
        }
        *ret = value;
        return true;
}

bool notices_read_cursor(struct engine *engine, const char *text, uint64_t *ret) {
        const struct notices *n = engine->notices;
        uint64_t nonce, masked, tag;

        if (strlen(text) != CURSOR_TEXT || !read_part(text, &nonce) ||
                !read_part(text + 16, &masked) || !read_part(text + 32, &tag) ||
                tag != cursor_tag(n, nonce, masked))
                return false;
        *ret = masked ^ cursor_mask(n, nonce);
        return true;
}
