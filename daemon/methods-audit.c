/* SPDX-License-Identifier: MIT */
/* What of administrators' requests belongs into the journal (audit.h). */
#include "daemon/audit.h"
#include "daemon/methods-private.h"
#include <stdio.h>
#include <stdlib.h>

static void tell_user_act(const Confab__V1__ActOnUser *m, struct audit *audit) {
        static const char *const acts[] = {"", "cancelling all of", "evicting all of", "purging"};
        size_t n;

        n = (size_t)snprintf(audit->what, sizeof(audit->what), "%s user %u%s", acts[m->act & 3],
                m->uid, m->tenant ? ", tenant " : "");
        if (m->tenant && n < sizeof(audit->what))
                snprintf(audit->what + n, sizeof(audit->what) - n, "'%s'", m->tenant);
}

static bool tell(const Confab__V1__Request *in, struct audit *audit) {
        switch (in->verb_case) {
        case CONFAB__V1__REQUEST__VERB_ACT_ON_USER:
                tell_user_act(in->act_on_user, audit);
                return !in->act_on_user->dry_run;
        case CONFAB__V1__REQUEST__VERB_DRAIN:
                audit->event = in->drain->off ? LOGGED_DRAIN_ENDED : LOGGED_DRAINED;
                snprintf(audit->what, sizeof(audit->what), "%s",
                        in->drain->off ? "taking work again" : "draining");
                return true;
        case CONFAB__V1__REQUEST__VERB_BACKUP:
                audit->event = LOGGED_BACKUP_MADE;
                snprintf(audit->what, sizeof(audit->what), "backup of all conversations%s",
                        in->backup->with_memory ? " with memory" : "");
                return true;
        case CONFAB__V1__REQUEST__VERB_CHECK:
                audit->event = LOGGED_CHECKED;
                snprintf(audit->what, sizeof(audit->what), "check of all that is on disk");
                return true;
        case CONFAB__V1__REQUEST__VERB_PUBLISH:
                audit->conversation = in->publish->conversation->id;
                snprintf(audit->what, sizeof(audit->what), "%s a conversation",
                        in->publish->off ? "withdrawing" : "publishing");
                return true;
        default:
                return false;
        }
}

int methods_audit(
        const struct peer *p, const Confab__V1__Request *in, struct audit **ret, struct err *e) {
        struct audit audit = {.event = LOGGED_ADMIN_ACT, .uid = p->uid, .pid = p->pid};

        if (!tell(in, &audit))
                return 0;
        *ret = malloc(sizeof(**ret));
        if (!*ret)
                return err_set(e, ERR_NOMEM, "no memory for a request");
        **ret = audit;
        return 0;
}
