/* SPDX-License-Identifier: MIT */
/*
 * Tenant: the owner that a tenant of a uid is (base/owner.h). The tenant is made when it is first named.
 *
 * The daemon asks before it takes the first request of a connection, and at most once for each. So quotas
 * of requests do not hold this back: many connections of a gateway may be made at the same time.
 */
#include "engine/verbs/create.h"

int tenant_find(
        struct engine *engine, uint64_t owner, const char *label, uint64_t *ret, struct err *e) {
        uint32_t number = 0;
        int r;

        *ret = owner;
        if (!label)
                return 0;
        r = store_tenant(engine->store, owner_uid(owner), label, 0, &number, e);
        if (r < 0 && r != -ERR_NOT_FOUND)
                return r;
        *ret = number > 0 ? owner_make(owner_uid(owner), number) : OWNER_ANY;
        return 0;
}

static uint32_t *number_of(struct request *request) {
        return request_own(request);
}

static void run(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);

        j->r = store_tenant(engine->store, owner_uid(request->r.owner), request->r.tenant,
                engine->o.max_tenants_per_user, number_of(request), &j->err);
}

static void done(struct engine *engine, struct job *j) {
        struct request *request = request_of(j);
        uint64_t owner = owner_make(owner_uid(request->r.owner), *number_of(request));

        if (j->r < 0) {
                request_fail(engine, request, &j->err);
                return;
        }
        user_act_tenant(engine, owner);
        request_answer(request, ENGINE_OWNER)->owner = owner;
        request_finish(engine, request);
}

static void tenant(struct engine *engine, struct request *request) {
        struct err e;

        if (create_check_label(request->r.tenant ? request->r.tenant : "", &e) < 0)
                request_fail(engine, request, &e);
        else
                request_submit(engine, request, run, done);
}

const struct verb verb_tenant = {
        .own_size = sizeof(uint32_t), .start = tenant, .looks = true, .uncounted = true};
