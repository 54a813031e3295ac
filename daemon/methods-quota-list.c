/* SPDX-License-Identifier: MIT */
/* Quota: how a limit is told, and all overrides in pages, in the order of the table (quotas.h). A cursor names the last rule of
 * a page: rules that come or go meanwhile move no other one out of the next page. */
#include "base/clock.h"
#include "base/util.h"
#include "daemon/methods-private.h"
#include "daemon/methods-quota.h"
#include <inttypes.h>
#include <stdio.h>

/* --- a row --- */

static void put_subject(struct quota_row *row, const struct quota_subject *subject) {
        row->subject = (Confab__V1__QuotaSubject)CONFAB__V1__QUOTA_SUBJECT__INIT;
        row->limit.subject = &row->subject;
        if (subject->kind == QUOTA_OF_GROUP) {
                row->subject.has_gid = true;
                row->subject.gid = subject->number;
                return;
        }
        row->subject.has_uid = true;
        row->subject.uid = subject->number;
        if (subject->kind == QUOTA_OF_TENANTS)
                row->subject.has_all_tenants = row->subject.all_tenants = true;
        else if (subject->kind == QUOTA_OF_TENANT)
                row->subject.tenant = proto_borrow(subject->label);
}

void quota_row_put(struct quota_row *row, const struct quota_subject *subject, enum quota quota,
        uint64_t value, enum quota_origin origin, uint32_t gid) {
        row->limit = (Confab__V1__QuotaLimit)CONFAB__V1__QUOTA_LIMIT__INIT;
        put_subject(row, subject);
        row->limit.name = proto_borrow(quota_info(quota)->name);
        row->limit.unit = proto_borrow(quota_info(quota)->unit);
        row->limit.has_origin = true;
        row->limit.origin = (Confab__V1__QuotaOrigin)origin;
        row->limit.has_value = value != QUOTA_NONE;
        row->limit.value = value != QUOTA_NONE ? value : 0;
        row->limit.has_gid = origin == QUOTA_FROM_GROUP;
        row->limit.gid = gid;
        if (quota == QUOTA_TOKENS_PER_DAY) {
                row->limit.has_renews_usec = true;
                row->limit.renews_usec = quota_day_ends(clock_realtime_usec());
        }
}

/* --- a page of overrides --- */

/* Behind a rule: its kind, number, limit, and the rest is the label. */
#define CURSOR_SIZE (ENGINE_NAME_MAX + 48)

static void put_cursor(const struct quota_rule *rule, char ret[CURSOR_SIZE]) {
        snprintf(ret, CURSOR_SIZE, "%d.%" PRIu32 ".%d.%s", (int)rule->o.subject.kind,
                rule->o.subject.number, (int)rule->o.quota, rule->o.subject.label);
}

/* The place of the first rule of the page. */
static int take_cursor(
        const struct quota_rules *rules, const char *cursor, size_t *ret, struct err *e) {
        unsigned kind, quota;
        struct quota_subject subject;
        int n = -1;

        *ret = 0;
        if (!cursor || !*cursor)
                return 0;
        if (sscanf(cursor, "%1u.%10" SCNu32 ".%1u.%n", &kind, &subject.number, &quota, &n) != 3 ||
                n < 0 || kind >= QUOTA_N_KINDS || quota >= QUOTA_N)
                return err_set(e, ERR_INVALID, "cursor: it is not of a page of this daemon");
        subject.kind = (enum quota_kind)kind;
        subject.label = cursor + n;
        *ret = quota_rules_behind(rules, &subject, (enum quota)quota);
        return 0;
}

static enum quota_origin origin_of(const struct quota_rule *rule) {
        static const enum quota_origin origins[] = {
                [QUOTA_OF_USER] = QUOTA_FROM_USER,
                [QUOTA_OF_GROUP] = QUOTA_FROM_GROUP,
                [QUOTA_OF_TENANTS] = QUOTA_FROM_TENANTS,
                [QUOTA_OF_TENANT] = QUOTA_FROM_TENANT,
        };

        return origins[rule->o.subject.kind];
}

int methods_quota_list(struct peer *p, const Confab__V1__Request *in, struct err *e) {
        const struct quota_rules *rules = &p->daemon->users.rules;
        size_t page = (size_t)p->daemon->settings->list_page, first, n;
        _cleanup_(scratch_deinit) struct scratch s = {};
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Quotas m = CONFAB__V1__QUOTAS__INIT;
        char cursor[CURSOR_SIZE];
        struct quota_row *rows;
        int r = take_cursor(rules, in->quota->cursor, &first, e);

        if (r < 0)
                return r;
        if (in->quota->limit)
                page = MIN(page, (size_t)in->quota->limit);
        n = MIN(rules->n - first, page);
        rows = scratch_alloc(&s, n + 1, sizeof(*rows));
        m.limits = scratch_alloc(&s, n + 1, sizeof(*m.limits));
        if (!rows || !m.limits)
                return err_set(e, ERR_NOMEM, "no memory for an answer");
        for (size_t i = 0; i < n; i++) {
                const struct quota_rule *rule = &rules->list[first + i];

                quota_row_put(&rows[i], &rule->o.subject, rule->o.quota, rule->o.value,
                        origin_of(rule), rule->o.subject.number);
                m.limits[i] = &rows[i].limit;
        }
        m.n_limits = n;
        m.has_more = true;
        m.more = first + n < rules->n;
        if (m.more) {
                put_cursor(&rules->list[first + n - 1], cursor);
                m.cursor = cursor;
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_QUOTAS;
        ev.quotas = &m;
        reply_send(p, in->id, &ev, true);
        return 1;
}
