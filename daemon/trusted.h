/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * The users who may act for others (setting trusted-users): a gateway's, which knows by means of its own for
 * whom it speaks.
 *
 * 1. Root may act for every user, and so may those who are named here. They may name a tenant, too. The
 *    user whom the daemon runs as may name tenants of its own. Nobody else may do either.
 * 2. Who acts for another has no administrator's rights, whoever both are.
 * 3. Names become uids when the settings are read; each connection is judged once, when it says Hello.
 * 4. A name that nobody has is a mistake, unless '-' stands before it: packages trust a user whom they are about to
 *    make, and a reload finds that user.
 *
 * Loop thread only.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct trusted {
        uint32_t *uids; /* [n], owned */
        size_t n;
};
#define TRUSTED_NULL ((struct trusted){})

/* @list: names and uids with spaces or commas between them, each may have '-' before it; or NULL. @ret is TRUSTED_NULL before, and stays
 * so on failure: -ERR_INVALID, -ERR_NOMEM. */
int trusted_parse(struct trusted *ret, const char *list, struct err *e);
void trusted_deinit(struct trusted *t);
bool trusted_has(const struct trusted *t, uint32_t uid);
/* Whether a peer of @uid may act for @act_uid and, if @names_tenant, for a tenant of that uid: 0 or
 * -ERR_PERMISSION, -ERR_INVALID. */
int trusted_check(
        const struct trusted *t, uint32_t uid, uint32_t act_uid, bool names_tenant, struct err *e);
