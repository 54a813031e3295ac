/* SPDX-License-Identifier: MIT */
#include "user.h"

#include <grp.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static void become(const char *number) {
        uid_t uid = (uid_t)bench_number(number);

        if (uid == getuid())
                return;
        if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
                bench_die("cannot become user %s: %m", number);
}

struct confab *user_connect(const char *socket, const char *user) {
        const char *tenant = NULL;
        struct confab *c = NULL;
        struct confab_error e;

        if (user && !strncmp(user, "uid:", 4))
                become(user + 4);
        else if (user && !strncmp(user, "tenant:", 7))
                tenant = user + 7;
        else if (user && strcmp(user, "-") != 0)
                bench_die("'%s' is no user", user);
        if (confab_connect(&c, socket, &e) < 0)
                bench_die("%s: %s", socket, e.message);
        if (tenant && confab_act_for(c, CONFAB_OWN_UID, tenant, &e) < 0)
                bench_die("%s", e.message);
        return c;
}

void user_call(
        struct confab *c, const struct confab_request *r, confab_event_fn fn, void *userdata) {
        struct confab_error e;

        if (confab_call(c, r, fn, userdata, &e) < 0)
                bench_die("%s", e.message);
}
