/* SPDX-License-Identifier: MIT */
/* Watch, and its notices. */
#include "base/util.h"
#include "daemon/methods-private.h"
#include <assert.h>
#include <stdio.h>

#define SAME(kind)                                                                                 \
        static_assert((int)ENGINE_NOTICE_##kind == (int)CONFAB__V1__NOTICE_KIND__NOTICE_##kind,    \
                "numbers as on the wire")
SAME(MODEL);
SAME(LIST_AGAIN);
SAME(OPENED);
SAME(FORKED);
SAME(TURN_BEGUN);
SAME(TURN_ENDED);
SAME(CHANGED);
SAME(REWOUND);
SAME(EVICTED);
SAME(RESTORED);
SAME(CLOSED);
SAME(PRESSURE);
#undef SAME

#define SET(m, field, value) ((m)->field = (value), (m)->has_##field = true)

int method_watch(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        if (in->watch->all_users && !p->admin)
                return err_set(e, ERR_PERMISSION,
                        "only " METHODS_ADMINS " watch the conversations of all users");
        out->cursor = in->watch->cursor;
        out->all_users = in->watch->all_users;
        out->tell_pressure = p->admin;
        return 0;
}

static void put_conv(const struct engine_event *in, Confab__V1__Notice *m) {
        SET(m, conversation, in->notice.conv);
        SET(m, uid, owner_uid(in->notice.owner));
        if (in->notice.tenant[0])
                m->tenant = proto_borrow(in->notice.tenant);
        SET(m, revision, in->notice.revision);
        if (in->notice.parent)
                SET(m, parent, in->notice.parent);
        if (in->notice.finish)
                SET(m, finish, (Confab__V1__FinishReason)in->notice.finish);
}

void methods_send_notice(struct request *r, const struct engine_event *in) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Notice m = CONFAB__V1__NOTICE__INIT;
        char fingerprint[33];

        m.cursor = proto_borrow(in->notice.cursor);
        SET(&m, kind, (Confab__V1__NoticeKind)in->notice.kind);
        switch (in->notice.kind) {
        case ENGINE_NOTICE_MODEL:
                snprintf(fingerprint, sizeof(fingerprint), "%016llx%016llx",
                        (unsigned long long)in->notice.fingerprint[0],
                        (unsigned long long)in->notice.fingerprint[1]);
                m.model = proto_borrow(in->notice.model);
                m.fingerprint = fingerprint;
                break;
        case ENGINE_NOTICE_LIST_AGAIN:
                break;
        case ENGINE_NOTICE_PRESSURE:
                SET(&m, budget, in->notice.budget);
                SET(&m, pressed, in->notice.pressed);
                break;
        default:
                put_conv(in, &m);
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_NOTICE;
        ev.notice = &m;
        reply_send(r->peer, r->id, &ev, false);
}
