/* SPDX-License-Identifier: MIT */
/*
 * Settings: what is in force, where it was given, and what would be after a reload or a restart.
 *
 * 1. The values are those that the daemon runs with. They never change by being looked at.
 * 2. What is pending is found by reading files and command line once more, as a start would: so an
 *    administrator who has edited a file sees at once whether it can be taken, and what it would change.
 */
#include "base/buf.h"
#include "daemon/methods-private.h"
#include <string.h>

#define CHECK_RATE ((uint64_t)1 << 30) /* bytes a minute, unless the request says otherwise */

#define SET(m, field, value) ((m)->field = (value), (m)->has_##field = true)

int methods_need_admin(const struct peer *p, struct err *e) {
        return p->admin ? 0
                        : err_set(e, ERR_PERMISSION,
                                  "this is for " METHODS_ADMINS " (setting admin-group)");
}

static int no_memory(struct err *e) {
        return err_set(e, ERR_NOMEM, "no memory for an answer");
}

/* The value of @t as text in @s. */
static char *value_text(struct scratch *s, const struct settings *from, const struct setting *t) {
        struct buf b = BUF_NULL;
        char *text = NULL;

        if (settings_print_value(&b, from, t) == 0) {
                text = scratch_alloc(s, b.size + 1, 1);
                if (text && b.size > 0)
                        memcpy(text, b.data, b.size);
        }
        buf_deinit(&b);
        return text;
}

/* @fresh: what files and command line say now, or NULL. */
static int put_setting(struct scratch *s, const struct settings *now, const struct settings *fresh,
        const struct setting *t, Confab__V1__Setting *m, struct err *e) {
        char *value = value_text(s, now, t);

        confab__v1__setting__init(m);
        if (!value)
                return no_memory(e);
        m->name = proto_borrow(t->name);
        m->value = *value ? value : NULL;
        m->initial = proto_borrow(t->initial);
        m->origin = proto_borrow(conf_origin(&settings_conf, now, t));
        m->help = proto_borrow(t->help);
        SET(m, reloadable, t->reloadable);
        if (!fresh || conf_same(now, fresh, t))
                return 0;
        m->pending = value_text(s, fresh, t);
        return m->pending ? 0 : no_memory(e);
}

static int put_settings(struct scratch *s, const struct settings *now, const struct settings *fresh,
        Confab__V1__SettingsResult *m, struct err *e) {
        Confab__V1__Setting *items = scratch_alloc(s, settings_n, sizeof(*items));
        int r = 0;

        m->settings = scratch_alloc(s, settings_n, sizeof(*m->settings));
        if (!items || !m->settings)
                return no_memory(e);
        for (; r == 0 && m->n_settings < settings_n; m->n_settings++) {
                r = put_setting(
                        s, now, fresh, &settings_table[m->n_settings], &items[m->n_settings], e);
                m->settings[m->n_settings] = &items[m->n_settings];
        }
        return r;
}

int method_settings(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const struct daemon *d = p->daemon;
        _cleanup_(scratch_deinit) struct scratch s = {};
        _cleanup_(settings_deinit) struct settings fresh = SETTINGS_NULL;
        Confab__V1__SettingsResult m = CONFAB__V1__SETTINGS_RESULT__INIT;
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        bool have = false;
        enum conf_action action;
        struct err why;
        int r = methods_need_admin(p, e);

        if (r < 0)
                return r;
        if (d->argv)
                have = settings_load(&fresh, d->argc, d->argv, &action, &why) == 0;
        if (d->argv && !have)
                m.files_error = why.msg;
        r = put_settings(&s, d->settings, have ? &fresh : NULL, &m, e);
        if (r < 0)
                return r;
        SET(&m, started_usec, d->started);
        ev.kind_case = CONFAB__V1__EVENT__KIND_SETTINGS;
        ev.settings = &m;
        reply_send(p, in->id, &ev, true);
        return 1;
}

int method_drain(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Drain *m = in->drain;
        int r = methods_need_admin(p, e);

        if (r < 0)
                return r;
        if (m->off && m->has_timeout_usec)
                return err_set(e, ERR_INVALID, "timeout_usec: not together with off");
        out->off = m->off;
        out->has_timeout = m->has_timeout_usec;
        out->timeout_usec = m->timeout_usec;
        return 0;
}

void methods_send_drained(struct request *r, const struct engine_event *in) {
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Drained m = CONFAB__V1__DRAINED__INIT;

        SET(&m, requests, in->drained.n_requests);
        ev.kind_case = CONFAB__V1__EVENT__KIND_DRAINED;
        ev.drained = &m;
        reply_send(r->peer, r->id, &ev, true);
}

int method_check(
        struct peer *p, const Confab__V1__Request *in, struct engine_request *out, struct err *e) {
        const Confab__V1__Check *m = in->check;

        out->rate = m->has_rate ? m->rate : CHECK_RATE;
        return methods_need_admin(p, e);
}

static int put_problems(
        struct scratch *s, const struct engine_checked *in, Confab__V1__Checked *m, struct err *e) {
        Confab__V1__Problem *items = scratch_alloc(s, in->n_listed, sizeof(*items));

        m->problems = scratch_alloc(s, in->n_listed, sizeof(Confab__V1__Problem *));
        if (in->n_listed > 0 && (!items || !m->problems))
                return no_memory(e);
        for (size_t i = 0; i < in->n_listed; i++) {
                const struct engine_problem *problem = &in->problems[i];

                confab__v1__problem__init(&items[i]);
                items[i].kind = proto_borrow(problem->kind);
                items[i].text = proto_borrow(problem->text);
                if (problem->conv)
                        SET(&items[i], conversation, problem->conv);
                if (problem->record)
                        SET(&items[i], record, problem->record);
                if (problem->is_forgotten)
                        SET(&items[i], forgotten, true);
                m->problems[m->n_problems++] = &items[i];
        }
        return 0;
}

void methods_send_checked(struct request *r, const struct engine_event *in) {
        const struct engine_checked *x = &in->checked;
        _cleanup_(scratch_deinit) struct scratch s = {};
        Confab__V1__Event ev = CONFAB__V1__EVENT__INIT;
        Confab__V1__Checked m = CONFAB__V1__CHECKED__INIT;
        struct err e;

        SET(&m, conversations, x->n_convs);
        SET(&m, turns, x->n_turns);
        SET(&m, tokens, x->n_tokens);
        SET(&m, records, x->n_records);
        SET(&m, gone, x->n_gone);
        SET(&m, skipped, x->n_skipped);
        SET(&m, forgotten, x->n_forgotten);
        SET(&m, bytes, x->read_size);
        SET(&m, found, x->n_problems);
        if (put_problems(&s, x, &m, &e) < 0) {
                reply_error(r->peer, r->id, &e);
                return;
        }
        ev.kind_case = CONFAB__V1__EVENT__KIND_CHECKED;
        ev.checked = &m;
        reply_send(r->peer, r->id, &ev, true);
}
