/* SPDX-License-Identifier: MIT */
#include "daemon/users.h"
#include "base/err.h"
#include "base/map.h"
#include <stdlib.h>

int users_connect(struct users *users, uint32_t uid, uint64_t max, struct err *e) {
        struct user *user = map_get_u64(users->by_uid, uid);
        int r;

        if (user) {
                if (user->n_peers >= max)
                        return err_set(e, ERR_LIMIT, "too many connections of uid %u", uid);
                user->n_peers++;
                return 0;
        }
        user = calloc(1, sizeof(*user));
        if (!user)
                return err_set(e, ERR_NOMEM, "no memory for a user");
        *user = (struct user){.uid = uid, .n_peers = 1};
        r = map_add_u64(users->by_uid, uid, user, e);
        if (r < 0)
                free(user);
        return r;
}

void users_disconnect(struct users *users, uint32_t uid) {
        struct user *user = map_get_u64(users->by_uid, uid);

        if (user && --user->n_peers == 0) {
                map_remove_u64(users->by_uid, uid);
                free(user);
        }
}

int users_init(struct users *users, struct err *e) {
        *users = (struct users){};
        return map_new(&users->by_uid, e);
}

void users_deinit(struct users *users) {
        struct user *user;
        size_t it = 0;

        while (users->by_uid && (user = map_next(users->by_uid, &it)))
                free(user);
        map_free(users->by_uid);
        *users = (struct users){};
}
