/* SPDX-License-Identifier: MIT */
/* For whom a peer acts. Apart from peer.c, which is above the methods. */
#include "daemon/limiting.h"
#include "daemon/peer.h"
#include <stdio.h>

int peer_act_for(
        struct peer *p, uint64_t owner, const uint32_t *gids, size_t n_gids, struct err *e) {
        struct daemon *d = p->daemon;
        struct user *from = p->user, *to;
        struct log_about about;
        int r;

        if (owner == p->owner)
                return 0;
        r = users_join(&d->users, owner, &to, e);
        if (r < 0)
                return r;
        r = users_set_tenant(to, p->tenant, e);
        if (r == 0 && gids)
                r = users_set_groups(to, gids, n_gids, e);
        limits_of_user(d, to);
        if (r == 0)
                r = users_move(&d->users, from, to, to->limits.quotas.max[QUOTA_CONNECTIONS],
                        p->conn.charged, e);
        if (r < 0) {
                users_leave(&d->users, to);
                return r;
        }
        conn_set_memory(&p->conn, &to->io);
        users_leave(&d->users, from);
        p->user = to;
        p->owner = owner;
        p->acts = true;
        p->admin = false;
        peer_about(p, NULL, &about);
        log_debug(&about, "connection of %s", PEER_TEXT(p));
        return 0;
}

struct peer_text peer_text(const struct peer *p) {
        struct peer_text t;

        if (!p->acts)
                (void)snprintf(t.s, sizeof(t.s), "uid %u", p->uid);
        else if (p->tenant)
                (void)snprintf(t.s, sizeof(t.s), "uid %u acting for tenant '%s' of user %u", p->uid,
                        p->tenant, owner_uid(p->owner));
        else
                (void)snprintf(
                        t.s, sizeof(t.s), "uid %u acting for user %u", p->uid, owner_uid(p->owner));
        return t;
}
