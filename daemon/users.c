/* SPDX-License-Identifier: MIT */
#include "daemon/users.h"
#include "base/err.h"
#include "base/map.h"
#include "base/owner.h"
#include <stdlib.h>

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
                        .connections = {.pot = &users->connections, .exempt = exempt},
                        .io = {.pot = &users->io, .exempt = exempt},
                };
                r = map_add_u64(users->by_owner, owner, user, e);
                if (r < 0) {
                        free(user);
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
        free(user);
}

void users_forget(struct users *users, uint64_t owner, bool all_tenants) {
        struct user *user;
        size_t it = 0;

        while ((user = map_next(users->by_owner, &it)))
                if (user->owner == owner ||
                        (all_tenants && owner_uid(user->owner) == owner_uid(owner)))
                        user->figures = (struct user_figures){0};
}

/* Whether @user, who may have @max, has too many connections already. */
static int check_max(struct user *user, uint64_t max, struct err *e) {
        user->connections.max = max;
        if (user->connections.used < max)
                return 0;
        return err_set(e, ERR_LIMIT, "%s has %llu connections, the limit for one user",
                OWNER_TEXT(user->owner), (unsigned long long)user->connections.used);
}

static int no_share(const struct users *users, const struct user *user, struct err *e) {
        return err_set(e, ERR_LIMIT,
                "too many connections: %llu of %llu are in use, and the rest is kept for root and "
                "for users with fewer than the %llu of %s",
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
                        "connections of %s hold %llu bytes, and io-memory has no more for them now",
                        OWNER_TEXT(to->owner), (unsigned long long)to->io.used);
        share_move(&from->connections, &to->connections, 1);
        share_move(&from->io, &to->io, io);
        return 0;
}

int users_init(struct users *users, struct err *e) {
        users->by_owner = NULL;
        return map_new(&users->by_owner, e);
}

void users_deinit(struct users *users) {
        struct user *user;
        size_t it = 0;

        while (users->by_owner && (user = map_next(users->by_owner, &it)))
                free(user);
        users->by_owner = map_free(users->by_owner);
}
