/* SPDX-License-Identifier: MIT */
#include "daemon/trusted.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/owner.h"
#include "base/util.h"
#include "service/uid.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEPARATORS ", \t"

int trusted_parse(struct trusted *ret, const char *list, struct err *e) {
        _cleanup_(trusted_deinit) struct trusted t = TRUSTED_NULL;
        _cleanup_(freep) char *copy = NULL;
        char *rest = NULL;

        if (!list)
                return 0;
        copy = strdup(list);
        /* Words are as many as half the bytes at most. */
        t.uids = calloc(strlen(list) / 2 + 1, sizeof(*t.uids));
        if (!copy || !t.uids)
                return err_set(e, ERR_NOMEM, "no memory for trusted-users");
        for (char *word = strtok_r(copy, SEPARATORS, &rest); word;
                word = strtok_r(NULL, SEPARATORS, &rest)) {
                bool optional = *word == '-' && word[1];
                int r = uid_find(&t.uids[t.n], word + optional, e);

                if (r == 0)
                        t.n++;
                else if (r != -ERR_INVALID || !optional)
                        return err_wrap(e, r, "trusted-users");
        }
        *ret = t;
        t = TRUSTED_NULL;
        return 0;
}

void trusted_deinit(struct trusted *t) {
        free(t->uids);
        *t = TRUSTED_NULL;
}

bool trusted_has(const struct trusted *t, uint32_t uid) {
        for (size_t i = 0; i < t->n; i++)
                if (t->uids[i] == uid)
                        return true;
        return false;
}

int trusted_check(
        const struct trusted *t, uint32_t uid, uint32_t act_uid, bool names_tenant, struct err *e) {
        bool is_trusted = uid == 0 || trusted_has(t, uid);

        if (!owner_possible(act_uid))
                return err_set(e, ERR_INVALID, "no user has the number %u", act_uid);
        if (act_uid != uid && !is_trusted)
                return err_set(e, ERR_PERMISSION,
                        "user %u may not act for user %u: trusted-users names those who may", uid,
                        act_uid);
        if (names_tenant && !is_trusted && uid != geteuid())
                return err_set(e, ERR_PERMISSION,
                        "user %u may not act for a tenant: trusted-users names those who may", uid);
        return 0;
}
