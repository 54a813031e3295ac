/* SPDX-License-Identifier: MIT */
#include "daemon/users.h"
#include "base/clock.h"
#include "daemon/groups.h"
#include "base/err.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

static void user_free(struct user *user) {
        groups_forget(&user->questions);
        free(user->tenant);
        free(user->gids);
        free(user);
}

int users_join(struct users *users, uint64_t owner, struct user **ret, struct err *e) {
        struct user *user = map_get_u64(users->by_owner, owner);
        bool exempt = share_exempt(owner);
        int r;

        if (!user) {
                user = calloc(1, sizeof(*user));
                if (!user)
                        return err_set(e, ERR_NOMEM, "no memory for a user");
                *user = (struct user){
                        .owner = owner,
                        .all = users,
                        .connections = {.pot = &users->connections, .exempt = exempt},
                        .io = {.pot = &users->io, .exempt = exempt},
                };
                list_init(&user->questions);
                r = map_add_u64(users->by_owner, owner, user, e);
                if (r < 0) {
                        user_free(user);
                        return r;
                }
        } else if (user->n_refs == 0) {
                users->n_idle--;
        }
        user->n_refs++;
        *ret = user;
        return 0;
}

void users_leave(struct users *users, struct user *user) {
        if (--user->n_refs > 0)
                return;
        if (users->n_idle < USERS_IDLE_MAX) {
                users->n_idle++;
                return;
        }
        map_remove_u64(users->by_owner, user->owner);
        user_free(user);
}

/* --- limits --- */

struct user *users_find(const struct users *users, uint64_t owner) {
        return map_get_u64(users->by_owner, owner);
}

struct user *users_find_tenant(const struct users *users, uint32_t uid, const char *label) {
        struct user *user;
        size_t it = 0;

        while ((user = map_next(users->by_owner, &it)))
                if (user->tenant && owner_uid(user->owner) == uid &&
                        strcmp(user->tenant, label) == 0)
                        return user;
        return NULL;
}

int users_set_groups(struct user *user, const uint32_t *gids, size_t n, struct err *e) {
        size_t size = n * sizeof(*gids);
        uint32_t *copy;

        if (user->knows_groups && user->n_gids == n &&
                (n == 0 || memcmp(user->gids, gids, size) == 0))
                return 0;
        copy = malloc(size + 1);
        if (!copy)
                return err_set(e, ERR_NOMEM, "no memory for a user's groups");
        if (n > 0)
                memcpy(copy, gids, size);
        free(user->gids);
        user->gids = copy;
        user->n_gids = n;
        user->knows_groups = true;
        return 0;
}

int users_set_tenant(struct user *user, const char *label, struct err *e) {
        if (!label || user->tenant)
                return 0;
        user->tenant = strdup(label);
        return user->tenant ? 0 : err_set(e, ERR_NOMEM, "no memory for a user");
}

bool users_limit(const struct users *users, const struct settings *s, struct user *user) {
        const struct quota_subject subject = {
                .kind = user->tenant ? QUOTA_OF_TENANT : QUOTA_OF_USER,
                .number = owner_uid(user->owner),
                .label = user->tenant ? user->tenant : ""};
        struct quotas old = user->limits.quotas;
        bool first = !user->is_limited;

        quota_resolve(&users->rules, s, &subject, user->gids, user->n_gids, &user->limits);
        user->is_limited = true;
        return !first && (old.max[QUOTA_RAM] != user->limits.quotas.max[QUOTA_RAM] ||
                                 old.max[QUOTA_DISK] != user->limits.quotas.max[QUOTA_DISK]);
}

void users_forget(struct users *users, uint64_t owner, bool all_tenants) {
        struct user *user;
        size_t it = 0;

        while ((user = map_next(users->by_owner, &it)))
                if (user->owner == owner ||
                        (all_tenants && owner_uid(user->owner) == owner_uid(owner)))
                        user->figures = (struct user_figures){0};
}

bool users_tell_limit(struct user *user) {
        uint64_t now = clock_monotonic_usec();

        if (user->limit_told_usec && now - user->limit_told_usec < USERS_TELL_USEC)
                return false;
        user->limit_told_usec = now;
        return true;
}

/* Whether @user, who may have @max, has too many connections already. */
static int check_max(struct user *user, uint64_t max, struct err *e) {
        user->connections.max = max;
        if (user->connections.used < max)
                return 0;
        return quota_refuse(e, user->owner, QUOTA_CONNECTIONS, user->connections.used, 1, max, 0);
}

static int no_share(const struct users *users, const struct user *user, struct err *e) {
        return err_set(e, ERR_LIMIT,
                "too many connections: %llu of %llu are in use (max-connections), and the rest is "
                "kept for root and for users with fewer than the %llu of %s; close some",
                (unsigned long long)users->connections.used,
                (unsigned long long)users->connections.total,
                (unsigned long long)user->connections.used, OWNER_TEXT(user->owner));
}

int users_admit(struct users *users, struct user *user, uint64_t max, struct err *e) {
        int r = check_max(user, max, e);

        if (r < 0)
                return r;
        return share_take(&user->connections, 1) == 0 ? 0 : no_share(users, user, e);
}

int users_move(struct users *users, struct user *from, struct user *to, uint64_t max, uint64_t io,
        struct err *e) {
        int r = check_max(to, max, e);

        if (r < 0)
                return r;
        if (!share_may_move(&from->connections, &to->connections, 1))
                return no_share(users, to, e);
        if (!share_may_move(&from->io, &to->io, io))
                return err_set(e, ERR_LIMIT,
                        "connections of %s hold %llu bytes, and io-memory has no more for them "
                        "now; read what the daemon sends, or close some",
                        OWNER_TEXT(to->owner), (unsigned long long)to->io.used);
        share_move(&from->connections, &to->connections, 1);
        share_move(&from->io, &to->io, io);
        return 0;
}

int users_init(struct users *users, struct err *e) {
        users->by_owner = NULL;
        users->rules = QUOTA_RULES_NULL;
        return map_new(&users->by_owner, e);
}

void users_deinit(struct users *users) {
        struct user *user;
        size_t it = 0;

        while (users->by_owner && (user = map_next(users->by_owner, &it)))
                user_free(user);
        quota_rules_deinit(&users->rules);
        users->by_owner = map_free(users->by_owner);
}
