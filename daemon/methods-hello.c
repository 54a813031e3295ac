/* SPDX-License-Identifier: MIT */
/*
 * Hello: the version, and for whom a connection's requests are taken.
 *
 *     Hello ──names no tenant──────────────────────────────▶ the peer acts for its owner; answer
 *        └───names one──▶ ask the engine for its number ──▶
 *
 * 1. While the engine looks for the number, the peer's further messages wait in its connection
 *    (conn_hold()). They are handled after the answer, in their order.
 *    The same holds while the user database is asked for the groups of a user for whom the peer acts, which is done where
 *    any group has limits of its own.
 * 2. A Hello that is refused ends the connection: nothing that follows it is done for somebody else.
 */
#include "base/util.h"
#include "daemon/groups.h"
#include "daemon/methods-private.h"
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Room for any Error and Hello. */
#define MIN_MAX_FRAME 1024

static void answer(struct peer *p, uint64_t id) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Hello m = CONFAB__V1__HELLO__INIT;
        char machine[65] = "";

        m.has_version = m.has_max_frame = m.has_act_uid = true;
        m.version = PROTO_VERSION;
        m.software = proto_borrow("confab " CONFAB_VERSION);
        m.max_frame = (uint32_t)p->daemon->settings->max_frame;
        m.act_uid = owner_uid(p->owner);
        m.tenant = p->tenant;
        if (p->daemon->settings->store) {
                (void)gethostname(machine, sizeof(machine) - 1);
                m.machine = machine;
                m.address = p->daemon->settings->address;
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_HELLO;
        ev.hello = &m;
        reply_send(p, id, &ev, true);
}

/* From now on the peer acts for @owner, of whose groups @gids is NULL if they were not asked for. */
static void act_for(
        struct peer *p, uint64_t id, uint64_t owner, const uint32_t *gids, size_t n_gids) {
        struct err e;

        if (peer_act_for(p, owner, gids, n_gids, &e) < 0)
                reply_refuse_hello(p, id, &e);
        else
                answer(p, id);
}

/* A Hello that waits for the groups of a user. */
struct waiting {
        uint64_t id, owner;
};

static void on_groups(void *arg, void *owned, const uint32_t *gids, size_t n) {
        _cleanup_(freep) struct waiting *w = owned;
        const uint32_t none = 0;
        struct peer *p = arg;

        if (!p->over)
                act_for(p, w->id, w->owner, gids ? gids : &none, n);
        conn_let_go(&p->conn);
}

static int ask_groups(struct peer *p, uint64_t id, uint64_t owner, struct err *e) {
        struct waiting *w = malloc(sizeof(*w));
        int r;

        if (!w)
                return err_set(e, ERR_NOMEM, "no memory for a connection");
        *w = (struct waiting){id, owner};
        r = groups_ask(p->daemon->groups, owner_uid(owner), on_groups, p, w, &p->questions, e);
        if (r < 0) {
                free(w);
                return r;
        }
        conn_hold(&p->conn);
        return 0;
}

static void take_up(struct peer *p, uint64_t id, uint64_t owner) {
        const struct users *users = &p->daemon->users;
        const struct user *user = users_find(users, owner);
        struct err e;

        /* Those of the own user are known. */
        if (users->rules.n_groups == 0 || owner == p->owner ||
                (user && user->knows_groups && user->n_refs > 0))
                act_for(p, id, owner, NULL, 0);
        else if (owner_uid(owner) == p->uid)
                act_for(p, id, owner, p->user->gids, p->user->n_gids);
        else if (ask_groups(p, id, owner, &e) < 0)
                reply_refuse_hello(p, id, &e);
}

/* The number of the tenant, or why there is none. */
static void on_owner(struct request *request, struct engine_event *ev) {
        struct peer *p = request->peer;
        uint64_t id = request->id;

        /* From its answer on Hello is not in flight. */
        request_disown(request);
        if (p->over)
                return;
        if (ev->kind == ENGINE_OWNER)
                take_up(p, id, ev->owner);
        else
                reply_refuse_hello(p, id, &ev->err);
        if (list_empty(&p->questions))
                conn_let_go(&p->conn);
}

static int ask_tenant(struct peer *p, uint64_t id, uint32_t uid, const char *label, struct err *e) {
        struct engine_request r = {.verb = ENGINE_TENANT, .owner = uid, .tenant = label, .fd = -1};
        struct request asked = {.id = id, .peer = p, .among = &p->in_flight, .on_event = on_owner};
        int n;

        p->tenant = strdup(label);
        if (!p->tenant)
                return err_set(e, ERR_NOMEM, "no memory for a connection");
        n = requests_submit(&p->daemon->requests, &asked, &r, e);
        if (n == 0)
                conn_hold(&p->conn);
        return n;
}

static int check(struct peer *p, const Confab__V1__Hello *hello, struct err *e) {
        if (hello->version != PROTO_VERSION)
                return err_set(e, ERR_UNSUPPORTED, "protocol version %u, this daemon speaks %u",
                        hello->version, PROTO_VERSION);
        if (hello->has_max_frame && hello->max_frame < MIN_MAX_FRAME)
                return err_set(e, ERR_INVALID, "max_frame must be at least %u", MIN_MAX_FRAME);
        return 0;
}

void methods_hello(struct peer *p, uint64_t id, const Confab__V1__Hello *hello) {
        uint32_t uid = hello->has_act_uid ? hello->act_uid : p->uid;
        struct err e;
        int r;

        if (check(p, hello, &e) < 0) {
                reply_protocol_error(p, id, &e);
                return;
        }
        if (hello->has_max_frame)
                p->max_event = hello->max_frame;
        p->said_hello = true;
        event_del(p->hello_timer);
        r = trusted_check(&p->daemon->trusted, p->uid, uid, hello->tenant, &e);
        if (r == 0 && hello->tenant)
                r = ask_tenant(p, id, uid, hello->tenant, &e);
        else if (r == 0)
                take_up(p, id, uid);
        if (r < 0)
                reply_refuse_hello(p, id, &e);
}
