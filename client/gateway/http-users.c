/* SPDX-License-Identifier: MIT */
/*
 * What each user holds of what all have in common: connections, and memory for bodies, as fair shares (base/share.h). A
 * user is the uid at the other end of a Unix socket; all peers by TCP are one user, since their tokens come later.
 */
#include "base/map.h"
#include "base/util.h"
#include "client/gateway/http-private.h"

#define KEY_TCP UINT64_MAX

int users_init(struct http_server *server, struct err *e) {
        server->connections = (struct share_pot){.total = server->limits.n_connections};
        server->bodies = (struct share_pot){.total = server->limits.bodies_size};
        return map_new(&server->users, e);
}

void users_deinit(struct http_server *server) {
        server->users = map_free(server->users);
}

struct http_user *user_join(struct http_server *server, bool tcp, uid_t uid) {
        uint64_t key = tcp ? KEY_TCP : uid;
        struct http_user *user = map_get_u64(server->users, key);
        bool exempt = !tcp && share_exempt(uid);

        if (!user) {
                user = calloc(1, sizeof(*user));
                if (!user)
                        return NULL;
                *user = (struct http_user){.key = key,
                        .connections = {.pot = &server->connections, .exempt = exempt},
                        .bodies = {.pot = &server->bodies, .exempt = exempt}};
                if (map_add_u64(server->users, key, user, NULL) < 0) {
                        free(user);
                        return NULL;
                }
        }
        user->n_refs++;
        return user;
}

void user_leave(struct http_server *server, struct http_user *user) {
        if (--user->n_refs > 0)
                return;
        map_remove_u64(server->users, user->key);
        free(user);
}
