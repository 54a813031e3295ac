/* SPDX-License-Identifier: MIT */
#include "daemon/limiting.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/util.h"
#include "daemon/daemon.h"
#include "daemon/groups.h"

/* What the engine keeps for idle conversations is to be by the new limits. It looks at the limits of each request
 * anyway, so a failure leaves the old ones until the user's next one. */
static void tell_engine(struct daemon *d, const struct user *user) {
        const struct request own = {0};
        struct engine_request r = {.verb = ENGINE_LIMIT,
                .owner = user->owner,
                .has_quotas = true,
                .quotas = user->limits.quotas,
                .fd = -1};

        if (d->state == DAEMON_RUNNING)
                (void)requests_submit(&d->requests, &own, &r, NULL);
}

void limits_of_user(struct daemon *d, struct user *user) {
        if (users_limit(&d->users, d->settings, user))
                tell_engine(d, user);
}

static void on_groups(void *arg, void *owned, const uint32_t *gids, size_t n) {
        struct user *user = arg;

        (void)owned;
        if (users_set_groups(user, gids, n, NULL) == 0)
                limits_of_user(container_of(user->all, struct daemon, users), user);
}

void limits_of_all(struct daemon *d) {
        struct user *user;
        size_t it = 0;

        while ((user = map_next(d->users.by_owner, &it))) {
                limits_of_user(d, user);
                /* Somebody acts for the user since before any group had limits. Without memory the next connection
                 * asks again. */
                if (d->users.rules.n_groups > 0 && !user->knows_groups &&
                        list_empty(&user->questions) && user->n_refs > 0)
                        (void)groups_ask(d->groups, owner_uid(user->owner), on_groups, user, NULL,
                                &user->questions, NULL);
        }
}
