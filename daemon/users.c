/* SPDX-License-Identifier: MIT */
#include "daemon/users.h"
#include "base/err.h"
#include "base/map.h"
#include <stdlib.h>

int users_join(struct users *users, uint32_t uid, struct user **ret, struct err *e) {
        struct user *user = map_get_u64(users->by_uid, uid);
        bool exempt = share_exempt(uid);
        int r;

        if (!user) {
                user = calloc(1, sizeof(*user));
                if (!user)
                        return err_set(e, ERR_NOMEM, "no memory for a user");
                *user = (struct user){
                        .uid = uid,
                        .connections = {.pot = &users->connections, .exempt = exempt},
                        .io = {.pot = &users->io, .exempt = exempt},
                };
                r = map_add_u64(users->by_uid, uid, user, e);
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
        map_remove_u64(users->by_uid, user->uid);
        free(user);
}

int users_admit(struct users *users, struct user *user, uint64_t max, struct err *e) {
        uint64_t n = user->connections.used;

        user->connections.max = max;
        if (n >= max)
                return err_set(e, ERR_LIMIT, "uid %u has %llu connections, the limit for one user",
                        user->uid, (unsigned long long)n);
        if (share_take(&user->connections, 1) == 0)
                return 0;
        return err_set(e, ERR_LIMIT,
                "too many connections: %llu of %llu are in use, and the rest is kept for root and "
                "for users with fewer than the %llu of uid %u",
                (unsigned long long)users->connections.used,
                (unsigned long long)users->connections.total, (unsigned long long)n, user->uid);
}

int users_init(struct users *users, struct err *e) {
        users->by_uid = NULL;
        return map_new(&users->by_uid, e);
}

void users_deinit(struct users *users) {
        struct user *user;
        size_t it = 0;

        while (users->by_uid && (user = map_next(users->by_uid, &it)))
                free(user);
        users->by_uid = map_free(users->by_uid);
}
