/* SPDX-License-Identifier: MIT */
/*
 * Users, and what is done to all that one has. The engine knows what users have; what they did since the start and how
 * many connections they have stands in users.h, and goes with the request.
 *
 * A cursor of a list of users is "u", the order, the last row's figure and its owner: "u5.73400320.1000". Clients do not
 * look into it.
 */
#include "base/map.h"
#include "daemon/methods-private.h"
#include "daemon/streams.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SET(m, field, value) ((m)->field = (value), (m)->has_##field = true)

static_assert((int)ENGINE_USERS_BY_USED == (int)CONFAB__V1__USER_ORDER__USER_ORDER_USED,
        "numbers as on the wire");
static_assert((int)ENGINE_USER_PURGE == (int)CONFAB__V1__USER_ACT__USER_ACT_PURGE,
        "numbers as on the wire");

#define CURSOR_SIZE 64

static bool parse_cursor(const char *s, struct engine_request *out) {
        unsigned long long value, owner;
        unsigned order;
        int end = 0;

        /* Digits alone: %u would take blanks and signs, too. */
        if (*s != 'u' || s[1 + strspn(s + 1, "0123456789.")] || strlen(s) >= CURSOR_SIZE ||
                strstr(s, "..") || s[1] == '.')
                return false;
        if (sscanf(s, "u%9u.%20llu.%20llu%n", &order, &value, &owner, &end) != 3 || s[end])
                return false;
        out->after_user = true;
        out->after_value = value;
        out->after_owner = owner;
        return order == (unsigned)out->user_order;
}

/* Of all users, or (@connected_of) of this one and its tenants that are connected. */
static int take_known(const struct daemon *d, const uint32_t *connected_of,
        struct engine_request *out, struct err *e) {
        struct engine_known *known = calloc(map_count(d->users.by_owner) + 1, sizeof(*known));
        const struct user *user;
        size_t it = 0, n = 0;

        if (!known)
                return err_set(e, ERR_NOMEM, "no memory for a list of users");
        while ((user = map_next(d->users.by_owner, &it)))
                if (connected_of ? user->connections.used > 0 &&
                                           owner_uid(user->owner) == *connected_of
                                 : user->connections.used > 0 || user->figures.requests > 0)
                        known[n++] = (struct engine_known){
                                .owner = user->owner,
                                .n_connections = user->connections.used,
                                .requests_total = user->figures.requests,
                                .prefilled = user->figures.prefilled,
                                .decoded = user->figures.decoded,
                        };
        out->known = known;
        out->n_known = n;
        return 0;
}

int methods_take_known(const struct daemon *d, struct engine_request *out, struct err *e) {
        return take_known(d, NULL, out, e);
}

int method_users(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Users *m = in->users;
        uint32_t page = (uint32_t)p->daemon->settings->list_page;
        int r = methods_need_admin(p, e);

        if (r < 0)
                return r;
        if ((int)m->order < 0 || m->order > CONFAB__V1__USER_ORDER__USER_ORDER_USED)
                return err_set(e, ERR_INVALID, "order: users are not ordered by that");
        out->user_order = (enum engine_user_order)m->order;
        out->limit = m->limit ? MIN(m->limit, page) : page;
        out->one_user = m->has_uid;
        out->uid = m->uid;
        if (m->cursor && *m->cursor && !parse_cursor(m->cursor, out))
                return err_set(
                        e, ERR_INVALID, "cursor: it is not of a page of users in this order");
        return methods_take_known(p->daemon, out, e);
}

void methods_put_user(const struct engine_user *in, Confab__V1__User *m) {
        confab__v1__user__init(m);
        SET(m, uid, owner_uid(in->owner));
        if (in->tenant[0])
                m->tenant = proto_borrow(in->tenant);
        SET(m, conversations, in->n_convs);
        SET(m, tokens, in->n_tokens);
        SET(m, ram_bytes, in->ram_size);
        SET(m, disk_bytes, in->disk_size);
        SET(m, requests, in->n_requests);
        SET(m, connections, in->known.n_connections);
        SET(m, requests_total, in->known.requests_total);
        SET(m, tokens_prefilled, in->known.prefilled);
        SET(m, tokens_decoded, in->known.decoded);
        SET(m, used_usec, in->used_usec);
}

void methods_send_users(struct request *r, const struct engine_event *in) {
        _cleanup_(scratch_deinit) struct scratch s = {};
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__UsersResult m = CONFAB__V1__USERS_RESULT__INIT;
        size_t n = in->users.n;
        Confab__V1__User *items = scratch_alloc(&s, n + 1, sizeof(*items));
        char cursor[CURSOR_SIZE];
        struct err e;

        m.users = scratch_alloc(&s, n + 1, sizeof(*m.users));
        if (!items || !m.users) {
                err_set(&e, ERR_NOMEM, "no memory for an answer");
                reply_error(r->peer, r->id, &e);
                return;
        }
        for (; m.n_users < n; m.n_users++) {
                methods_put_user(&in->users.users[m.n_users], &items[m.n_users]);
                m.users[m.n_users] = &items[m.n_users];
        }
        SET(&m, more, in->users.more);
        if (in->users.more && n > 0) {
                snprintf(cursor, sizeof(cursor), "u%u.%llu.%llu", (unsigned)in->users.order,
                        (unsigned long long)in->users.after_value,
                        (unsigned long long)in->users.users[n - 1].owner);
                m.cursor = cursor;
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_USERS;
        ev.users = &m;
        reply_send(r->peer, r->id, &ev, true);
}

int method_act_on_user(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__ActOnUser *m = in->act_on_user;
        int r = methods_need_admin(p, e);

        if (r < 0)
                return r;
        if (!m->has_uid || m->uid == UINT32_MAX)
                return err_set(e, ERR_INVALID, "uid: no user is named");
        if (m->tenant && !*m->tenant)
                return err_set(e, ERR_INVALID, "tenant: it has no label");
        if ((int)m->act <= 0 || m->act > CONFAB__V1__USER_ACT__USER_ACT_PURGE)
                return err_set(e, ERR_INVALID, "act: cancel, evict or purge");
        out->uid = m->uid;
        out->tenant = m->tenant;
        out->user_act = (enum engine_user_act)m->act;
        out->dry_run = m->dry_run;
        /* Files on their way are requests as well, as far as the user is concerned. */
        if (!m->dry_run && out->user_act != ENGINE_USER_EVICT)
                streams_cancel_of(p->daemon, m->uid, m->tenant);
        /* A purge keeps the labels of tenants that are connected. */
        return out->user_act == ENGINE_USER_PURGE ? take_known(p->daemon, &m->uid, out, e) : 0;
}

void methods_send_user_acted(struct request *r, const struct engine_event *in) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__UserActed m = CONFAB__V1__USER_ACTED__INIT;

        SET(&m, conversations, in->acted.n_convs);
        SET(&m, tokens, in->acted.n_tokens);
        SET(&m, requests, in->acted.n_requests);
        SET(&m, busy, in->acted.n_busy);
        ev.kind_case = CONFAB__V1__EVENT__KIND_USER_ACTED;
        ev.user_acted = &m;
        reply_send(r->peer, r->id, &ev, true);
}
