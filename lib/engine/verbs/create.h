/* SPDX-License-Identifier: MIT */
#pragma once
/* Checks of new conversations, shared by Open, Fork, Import and Update. Any thread. */
#include <pthread.h>

#include "engine/verbs/transfer-format.h"
#include "engine/verbs/verbs.h"

struct verb_state {
        pthread_mutex_t create_lock; /* held from counting conversations to adding one */
        /* transfer.c, under create_lock */
        uint8_t export_key[XFER_KEY_SIZE];
        bool has_export_key;

        atomic_uint_fast64_t export_bytes; /* bytes on disk of exports being written */

        /* sweep.c: engine thread */
        struct sweep *sweep;
        unsigned n_expiring; /* requests of verb_expire under way */
        /* watch.c: engine thread */
        struct list watchers;
        size_t n_watchers;
        /* user-act.c: engine thread */
        struct list acts;
        uint64_t n_parts; /* so far */
        /* backup.c */
        atomic_bool backing; /* a backup is under way */
        /* check.c: engine thread */
        struct request *check; /* the one that is under way, or NULL */
        /* drain.c: engine thread */
        bool draining;
        struct list drains;
        /* usage.c */
        atomic_bool overrides_changed; /* others may have changed overrides of limits */
        struct overriding *overriding; /* engine thread: they are being read */
        /* drain.c */
        enum { STAYS, LEAVES, LEFT } leaving; /* other machines may have what was held here */
        struct job leave;
};

/* --- user-act.c: what is done to all conversations of a user is done by requests of the engine's own --- */

/* What they have in common. */
struct act {
        size_t n_under_way;
        uint64_t n_done, n_tokens; /* so far, and tokens of these */
        uint64_t n_failed;
};
/* In the verb's own data of each. */
struct part {
        struct act *act; /* NULL: it belongs to no act, or is not under way */
        bool done;
        uint32_t n_tokens;
};
/* The request ends. Engine thread. */
static inline void part_ended(struct engine *engine, struct part *part) {
        struct act *act = TAKE_PTR(part->act);

        if (!act)
                return;
        act->n_under_way--;
        act->n_done += part->done;
        act->n_failed += !part->done;
        act->n_tokens += part->done ? part->n_tokens : 0;
        engine->again = true;
}
/* A connection has been told the number of this tenant. Engine thread. */
void user_act_tenant(struct engine *engine, uint64_t owner);
/* The part of a request for one of these verbs. */
extern const struct verb verb_purge, verb_evict_part;
struct part *close_part(struct request *request);
struct part *evict_part(struct request *request);

/* --- sweep.c: throw-away conversations --- */

struct sweep *sweep_new(void);
struct sweep *sweep_free(struct sweep *w);
/* The verb's own data of a request that closes a throw-away conversation (close.c). */
struct expiry {
        uint64_t due_usec; /* realtime: when it must be due; UINT64_MAX: its owner has too many */
        bool counted;      /* among those that are under way */
};
extern const struct verb verb_expire;
/* The request has made a conversation, or noted something about one: look for those that are due, if
 * this one expires. */
void sweep_noted(struct engine *engine, const struct request *request);

/* --- tenant.c --- */

/* @owner, or (@label not NULL) the tenant of this label of the same uid, which is not made: OWNER_ANY if there is none. In a
 * job. Fails as store_tenant(). */
int tenant_find(
        struct engine *engine, uint64_t owner, const char *label, uint64_t *ret, struct err *e);

/* --- create.c --- */

/* May @name be the name of a conversation? -ERR_INVALID if not. */
int create_check_name(const char *name, struct err *e);
/* May @label be a tenant's? -ERR_INVALID if not. */
int create_check_label(const char *label, struct err *e);
/* Check @name and copy it to @dst, STORE_NAME_MAX + 1 bytes. NULL or "": the register chooses. */
int create_copy_name(char *dst, const char *name, struct err *e);
/* May the owner have one more conversation, of @n_tokens? -ERR_LIMIT. Under create_lock, which the caller holds
 * until the row is made. */
int create_check_quota(
        struct engine *engine, const struct request *request, uint32_t n_tokens, struct err *e);
int create_check_sampling(struct engine *engine, const struct sampling *s, struct err *e);
