/* SPDX-License-Identifier: MIT */
#include "daemon/methods-private.h"

int method_find(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Find *m = in->find;
        int r = m->conversation ? methods_take_ref(m->conversation, out, e) : 0;

        if (r < 0)
                return r;
        out->tools = m->tools && *m->tools ? m->tools : NULL;
        out->session = m->session && *m->session ? m->session : NULL;
        return methods_take_messages(m->messages, m->n_messages, out, e);
}
