/* SPDX-License-Identifier: MIT */
/*
 * Quota: limits and their use, and changes of them.
 *
 *      method_quota() ─┬─ overrides: answered at once, from the table (methods-quota-list.c)
 *                      ├─ changes ──→ ENGINE_OVERRIDE ──→ the table, the journal, everybody's limits ─┐
 *                      └──────────────────────────────────────────────────────────────────────────────┤
 *          answer ←── ENGINE_USAGE ←── [the groups of a user whom the daemon does not know] ←─────────┘
 *
 * 1. Everybody sees the own limits. Anything else is for administrators (peer.h), not for themselves as somebody else.
 * 2. A change is in force, and in the journal, when it is answered; also if the peer has gone meanwhile.
 * 3. While the user database is asked, further messages of the peer wait (conn_hold()), as for Hello.
 */
#include "base/owner.h"
#include "base/util.h"
#include "daemon/audit.h"
#include "daemon/groups.h"
#include "daemon/limiting.h"
#include "daemon/methods-private.h"
#include "daemon/methods-quota.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was asked for. One block: it belongs to a request, or to the peer. */
struct ask {
        struct quota_subject subject;
        char label[ENGINE_NAME_MAX + 1];
        struct quota_limits limits;
        /* Of changes: */
        struct daemon *daemon;
        struct quota_change change;
        uint32_t uid; /* who makes them, */
        int32_t pid;
        uint64_t id; /* and the number of the request */
};

/* --- the request --- */

static int take_label(const char *label, struct ask *ask, struct err *e) {
        size_t n = strlen(label);

        if (n == 0 || n > ENGINE_NAME_MAX || label[0] == '#')
                return err_set(e, ERR_INVALID,
                        "subject: a tenant's label has 1 to %d bytes and does not begin with #",
                        ENGINE_NAME_MAX);
        memcpy(ask->label, label, n + 1);
        return 0;
}

static int take_subject(const Confab__V1__QuotaSubject *in, struct ask *ask, struct err *e) {
        const char *tenant = in->tenant && *in->tenant ? in->tenant : NULL;

        if (in->has_uid == in->has_gid)
                return err_set(e, ERR_INVALID, "subject: it names a uid or a gid");
        if (in->has_gid && (tenant || in->all_tenants))
                return err_set(e, ERR_INVALID, "subject: a group has no tenants");
        if (tenant && in->all_tenants)
                return err_set(e, ERR_INVALID, "subject: it names one tenant or all_tenants");
        if ((in->has_uid ? in->uid : in->gid) == UINT32_MAX)
                return err_set(e, ERR_INVALID, "subject: no user or group has this number");
        ask->subject.number = in->has_uid ? in->uid : in->gid;
        ask->subject.kind = in->has_gid       ? QUOTA_OF_GROUP
                            : in->all_tenants ? QUOTA_OF_TENANTS
                            : tenant          ? QUOTA_OF_TENANT
                                              : QUOTA_OF_USER;
        return tenant ? take_label(tenant, ask, e) : 0;
}

/* The peer's own. */
static void take_own(const struct peer *p, struct ask *ask) {
        ask->subject.number = owner_uid(p->owner);
        ask->subject.kind = p->tenant ? QUOTA_OF_TENANT : QUOTA_OF_USER;
        snprintf(ask->label, sizeof(ask->label), "%s", p->tenant ? p->tenant : "");
}

static int take_change(
        const Confab__V1__QuotaChange *in, struct engine_override *all, struct err *e) {
        struct engine_override *o;
        enum quota quota;
        int r = quota_find(&quota, in->name ? in->name : "", e);

        if (r < 0)
                return r;
        o = &all[quota];
        if (o->is)
                return err_set(e, ERR_INVALID, "%s is changed twice", in->name);
        o->is = true;
        switch (in->to_case) {
        case CONFAB__V1__QUOTA_CHANGE__TO_VALUE:
                o->value = in->value;
                if (in->value > quota_info(quota)->most)
                        return err_set(e, ERR_INVALID,
                                "%s = %" PRIu64 ": the most is %" PRIu64 " (%s), besides none",
                                in->name, in->value, quota_info(quota)->most,
                                quota_info(quota)->unit);
                return 0;
        case CONFAB__V1__QUOTA_CHANGE__TO_NONE:
                o->value = QUOTA_NONE;
                return 0;
        case CONFAB__V1__QUOTA_CHANGE__TO_CLEAR:
                o->clear = true;
                return 0;
        default:
                return err_set(e, ERR_INVALID, "%s: a value, none or clear is given", in->name);
        }
}

static int take_changes(const Confab__V1__Quota *in, struct ask *ask, struct err *e) {
        int r = 0;

        if (!in->subject)
                return err_set(e, ERR_INVALID, "changes of limits name whose they are");
        for (size_t i = 0; r == 0 && i < in->n_changes; i++)
                r = take_change(in->changes[i], ask->change.overrides, e);
        return r;
}

/* --- answers --- */

static bool is_owner(const struct quota_subject *subject) {
        return subject->kind == QUOTA_OF_USER || subject->kind == QUOTA_OF_TENANT;
}

/* @used: NULL where there is no use. */
static void answer(struct peer *p, uint64_t id, const struct ask *ask, const uint64_t *used) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Quotas m = CONFAB__V1__QUOTAS__INIT;
        Confab__V1__QuotaLimit *limits[QUOTA_N];
        struct quota_row rows[QUOTA_N];

        for (size_t i = 0; i < QUOTA_N; i++) {
                quota_row_put(&rows[i], &ask->subject, (enum quota)i, ask->limits.quotas.max[i],
                        ask->limits.origin[i], ask->limits.gid[i]);
                rows[i].limit.has_used = used != NULL;
                rows[i].limit.used = used ? used[i] : 0;
                limits[i] = &rows[i].limit;
        }
        m.limits = limits;
        m.n_limits = QUOTA_N;
        m.has_more = true;
        ev.kind_case = CONFAB__V1__EVENT__KIND_QUOTAS;
        ev.quotas = &m;
        reply_send(p, id, &ev, true);
}

/* --- looking --- */

/* Whether the peer's requests are the subject's. */
static bool is_own(const struct peer *p, const struct quota_subject *subject) {
        if (!is_owner(subject) || owner_uid(p->owner) != subject->number)
                return false;
        return p->tenant ? strcmp(p->tenant, subject->label) == 0 : subject->kind == QUOTA_OF_USER;
}

static void on_used(struct request *request, struct engine_event *ev) {
        const struct ask *ask = request->owned;
        struct peer *p = request->peer;
        uint64_t used[QUOTA_N];
        const struct user *user = NULL;

        if (ev->kind == ENGINE_ERROR) {
                reply_error(p, request->id, &ev->err);
                return;
        }
        memcpy(used, ev->used, sizeof(used));
        if (is_own(p, &ask->subject))
                user = p->user;
        else if (ask->subject.kind == QUOTA_OF_USER)
                user = users_find(&p->daemon->users, ask->subject.number);
        else
                user = users_find_tenant(&p->daemon->users, ask->subject.number, ask->label);
        used[QUOTA_CONNECTIONS] = user ? user->connections.used : 0;
        answer(p, request->id, ask, used);
}

/* Find the limits, and ask for their use. Takes @ask over unless it fails. 1: it was answered. */
static int look(struct peer *p, uint64_t id, struct ask *ask, const uint32_t *gids, size_t n_gids,
        struct err *e) {
        struct request asked = {
                .id = id, .peer = p, .among = &p->in_flight, .on_event = on_used, .owned = ask};
        struct engine_request r = {.verb = ENGINE_USAGE,
                .owner = ask->subject.number,
                .tenant = ask->subject.kind == QUOTA_OF_TENANT ? ask->label : NULL,
                .fd = -1};

        if (is_own(p, &ask->subject)) {
                r.owner = p->owner;
                r.tenant = NULL;
        }
        quota_resolve(&p->daemon->users.rules, p->daemon->settings, &ask->subject, gids, n_gids,
                &ask->limits);
        if (is_owner(&ask->subject))
                return requests_submit(&p->daemon->requests, &asked, &r, e);
        answer(p, id, ask, NULL);
        free(ask);
        return 1;
}

static void on_groups(void *arg, void *owned, const uint32_t *gids, size_t n) {
        struct ask *ask = owned;
        struct peer *p = arg;
        uint64_t id = ask->id;
        struct err e;

        if (p->over) {
                free(ask);
        } else if (look(p, id, ask, gids, n, &e) < 0) {
                free(ask);
                reply_error(p, id, &e);
        }
        if (list_empty(&p->questions))
                conn_let_go(&p->conn);
}

/* As look(), by the groups of the subject's user. */
static int look_with_groups(struct peer *p, uint64_t id, struct ask *ask, struct err *e) {
        const struct users *users = &p->daemon->users;
        const struct user *user = users_find(users, ask->subject.number);
        bool matter = users->rules.n_groups > 0 && ask->subject.kind != QUOTA_OF_GROUP;
        int r;

        if (p->user->knows_groups && owner_uid(p->owner) == ask->subject.number)
                user = p->user;
        if (!matter || (user && user->knows_groups))
                return look(p, id, ask, user ? user->gids : NULL, user ? user->n_gids : 0, e);
        ask->id = id;
        r = groups_ask(p->daemon->groups, ask->subject.number, on_groups, p, ask, &p->questions, e);
        if (r < 0)
                return r;
        conn_hold(&p->conn);
        return 1;
}

/* --- changing --- */

struct value_text {
        char s[40];
};
static struct value_text value_text(bool is, uint64_t value) {
        struct value_text t = {"no override"};

        if (is && value == QUOTA_NONE)
                snprintf(t.s, sizeof(t.s), "none");
        else if (is)
                snprintf(t.s, sizeof(t.s), "%" PRIu64, value);
        return t;
}

/* One line for each limit that is another one than before; or, with @failure, one for them all. */
static void log_changes(const struct ask *ask, const struct err *failure) {
        const struct quota_rules *rules = &ask->daemon->users.rules;
        struct audit audit = {.event = LOGGED_LIMIT_CHANGED, .uid = ask->uid, .pid = ask->pid};
        char result[sizeof(failure->msg) + 16];

        for (size_t i = 0; i < QUOTA_N && !failure; i++) {
                const struct engine_override *o = &ask->change.overrides[i];
                uint64_t old = 0;
                bool was = quota_rules_find(rules, &ask->subject, (enum quota)i, &old);

                if (!o->is || (was == !o->clear && (!was || old == o->value)))
                        continue;
                snprintf(audit.what, sizeof(audit.what), "changing %s of %s",
                        quota_info((enum quota)i)->name, QUOTA_SUBJECT_TEXT(&ask->subject));
                snprintf(result, sizeof(result), "%s -> %s", value_text(was, old).s,
                        value_text(!o->clear, o->value).s);
                audit_write(&audit, result, 0);
        }
        if (!failure)
                return;
        audit.event = LOGGED_ADMIN_ACT;
        snprintf(audit.what, sizeof(audit.what), "changing limits of %s",
                QUOTA_SUBJECT_TEXT(&ask->subject));
        snprintf(result, sizeof(result), "failed: %s", failure->msg);
        audit_write(&audit, result, 0);
}

static void change_deinit(struct quota_change *change) {
        for (size_t i = 0; i < QUOTA_N; i++)
                free(TAKE_PTR(change->labels[i]));
}

static void on_changed(struct request *request, struct engine_event *ev) {
        struct ask *ask = TAKE_PTR(request->owned);
        struct daemon *d = ask->daemon;
        struct peer *p = request->peer;
        uint64_t id = request->id;
        struct err e;

        log_changes(ask, ev->kind == ENGINE_ERROR ? &ev->err : NULL);
        if (ev->kind == ENGINE_ERROR) {
                quota_change_drop(&d->users.rules, &ask->change);
        } else {
                quota_change_apply(&d->users.rules, &ask->change);
                limits_of_all(d);
        }
        change_deinit(&ask->change);
        /* From here on the request that looks has the id. */
        request_disown(request);
        if (!p || p->over) {
                free(ask);
        } else if (ev->kind == ENGINE_ERROR) {
                free(ask);
                reply_error(p, id, &ev->err);
        } else if (look_with_groups(p, id, ask, &e) < 0) {
                free(ask);
                reply_error(p, id, &e);
        }
}

/* Takes @ask over unless it fails. */
static int change(struct peer *p, uint64_t id, struct ask *ask, struct err *e) {
        struct daemon *d = p->daemon;
        struct request asked = {.id = id,
                .peer = p,
                .among = &p->in_flight,
                .on_event = on_changed,
                .survives = true,
                .owned = ask};
        struct engine_request r = {.verb = ENGINE_OVERRIDE,
                .owner = p->owner,
                .tenant = ask->subject.kind == QUOTA_OF_TENANT ? ask->label : NULL,
                .subject_kind = ask->subject.kind,
                .subject_number = ask->subject.number,
                .fd = -1};
        int k;

        ask->daemon = d;
        ask->uid = p->uid;
        ask->pid = p->pid;
        ask->subject.label = ask->label;
        ask->change.subject = ask->subject;
        memcpy(r.overrides, ask->change.overrides, sizeof(r.overrides));
        k = quota_change_prepare(&d->users.rules, &ask->change, e);
        if (k < 0) {
                change_deinit(&ask->change);
                return k;
        }
        k = requests_submit(&d->requests, &asked, &r, e);
        if (k < 0) {
                quota_change_drop(&d->users.rules, &ask->change);
                change_deinit(&ask->change);
        }
        return k;
}

/* --- the verb --- */

static int check_peer(const struct peer *p, const Confab__V1__Quota *m, struct err *e) {
        if (p->admin || (!m->subject && m->n_changes == 0 && !m->overrides))
                return 0;
        return err_set(e, ERR_PERMISSION,
                "only " METHODS_ADMINS " see the limits of others, and change limits");
}

/* Takes @ask over unless it fails. */
static int begin(struct peer *p, const Confab__V1__Request *in, struct ask *ask, struct err *e) {
        const Confab__V1__Quota *m = in->quota;
        int r = 0;

        if (m->subject)
                r = take_subject(m->subject, ask, e);
        else
                take_own(p, ask);
        ask->subject.label = ask->label;
        if (r == 0 && m->n_changes > 0)
                r = take_changes(m, ask, e);
        if (r < 0)
                return r;
        if (m->n_changes > 0)
                return change(p, in->id, ask, e);
        return look_with_groups(p, in->id, ask, e);
}

int method_quota(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        struct ask *ask;
        int r = check_peer(p, in->quota, e);

        (void)out;
        if (r < 0)
                return r;
        if (in->quota->overrides && (in->quota->subject || in->quota->n_changes > 0))
                return err_set(e, ERR_INVALID,
                        "overrides: the list of them all names no subject and no changes");
        if (in->quota->overrides)
                return methods_quota_list(p, in, e);
        ask = calloc(1, sizeof(*ask));
        if (!ask)
                return err_set(e, ERR_NOMEM, "no memory for a request");
        r = begin(p, in, ask, e);
        if (r < 0) {
                free(ask);
                return r;
        }
        return 1;
}
