/* SPDX-License-Identifier: MIT */
/* What is noted about conversations, from messages and as messages; how replies were made. */
#include "daemon/methods-private.h"
#include <stdlib.h>

int methods_take_about(const Confab__V1__About *in, struct engine_request *out, struct err *e) {
        struct about *about;

        if (!in)
                return 0;
        about = calloc(1, sizeof(*about));
        if (!about)
                return err_set(e, ERR_NOMEM, "no memory for a request");
        out->about = about;
        about->has = (in->title ? ABOUT_TITLE : 0) | (in->tags ? ABOUT_TAGS : 0) |
                     (in->metadata ? ABOUT_METADATA : 0) | (in->session ? ABOUT_SESSION : 0) |
                     (in->has_expires_after ? ABOUT_EXPIRES : 0);
        about->title = in->title;
        about->metadata = in->metadata;
        about->session = in->session;
        about->expires_after = in->expires_after;
        if (in->tags && in->tags->n_tags > ABOUT_TAGS_MAX)
                return err_set(e, ERR_INVALID, "tags: at most %d are taken, not %zu",
                        ABOUT_TAGS_MAX, in->tags->n_tags);
        if (in->tags) {
                about->tags = (const char *const *)in->tags->tags;
                about->n_tags = in->tags->n_tags;
        }
        return 0;
}

static char *some_of(const struct about *in, enum about_field field, const char *s) {
        return in->has & field ? proto_borrow(s) : NULL;
}

int methods_put_about(
        struct scratch *s, const struct about *in, Confab__V1__About **ret, struct err *e) {
        Confab__V1__About *m;

        if (!in)
                return 0;
        m = scratch_alloc(s, 1, sizeof(*m));
        if (!m)
                return err_set(e, ERR_NOMEM, "no memory for an answer");
        confab__v1__about__init(m);
        m->title = some_of(in, ABOUT_TITLE, in->title);
        m->metadata = some_of(in, ABOUT_METADATA, in->metadata);
        m->session = some_of(in, ABOUT_SESSION, in->session);
        m->has_expires_after = in->has & ABOUT_EXPIRES;
        m->expires_after = in->expires_after;
        if (in->has & ABOUT_TAGS) {
                m->tags = scratch_alloc(s, 1, sizeof(*m->tags));
                if (!m->tags)
                        return err_set(e, ERR_NOMEM, "no memory for an answer");
                confab__v1__tags__init(m->tags);
                m->tags->tags = proto_borrow(in->tags);
                m->tags->n_tags = in->n_tags;
        }
        *ret = m;
        return 0;
}

int methods_put_run(
        struct scratch *s, const struct figures *in, Confab__V1__Run **ret, struct err *e) {
        Confab__V1__Run *m;

        if (!in)
                return 0;
        m = scratch_alloc(s, 1, sizeof(*m));
        if (!m)
                return err_set(e, ERR_NOMEM, "no memory for an answer");
        confab__v1__run__init(m);
        m->model = proto_borrow(in->model);
#define PUT(field)                                                                                 \
        m->has_##field = true;                                                                     \
        m->field = in->field
        PUT(seed);
        PUT(n_prompt);
        PUT(n_generated);
        PUT(n_ram);
        PUT(n_disk);
        PUT(n_shared);
        PUT(n_computed);
        PUT(queued_usec);
        PUT(restore_usec);
        PUT(prefill_usec);
        PUT(decode_usec);
#undef PUT
        *ret = m;
        return 0;
}
