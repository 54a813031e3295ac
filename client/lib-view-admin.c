/* SPDX-License-Identifier: MIT */
/* As lib-view.c: what administrators are told. */
#include "client/lib-internal.h"

static int view_final(struct view *v, enum confab_event_kind kind) {
        v->event.kind = kind;
        v->event.final = true;
        return 0;
}

static int view_settings(struct view *v, const Confab__V1__SettingsResult *m, struct err *e) {
        struct confab_setting *settings = view_alloc(v, m->n_settings, sizeof(*settings), e);

        if (!settings)
                return -ERR_NOMEM;
        for (size_t i = 0; i < m->n_settings; i++) {
                const Confab__V1__Setting *from = m->settings[i];

                settings[i] = (struct confab_setting){
                        .name = from->name ? from->name : "",
                        .value = from->value,
                        .initial = from->initial,
                        .origin = from->origin,
                        .help = from->help ? from->help : "",
                        .reloadable = from->reloadable,
                        .pending = from->pending,
                };
        }
        v->settings =
                (struct confab_settings){settings, m->n_settings, m->files_error, m->started_usec};
        v->event.settings = &v->settings;
        return view_final(v, CONFAB_EVENT_SETTINGS);
}

void view_user(struct confab_user *ret, const Confab__V1__User *m) {
        *ret = (struct confab_user){
                .uid = m->uid,
                .tenant = m->tenant,
                .n_conversations = m->conversations,
                .n_tokens = m->tokens,
                .ram_size = m->ram_bytes,
                .disk_size = m->disk_bytes,
                .n_requests = m->requests,
                .n_connections = m->connections,
                .requests_total = m->requests_total,
                .tokens_prefilled = m->tokens_prefilled,
                .tokens_decoded = m->tokens_decoded,
                .used_usec = m->used_usec,
        };
}

static int view_users(struct view *v, const Confab__V1__UsersResult *m, struct err *e) {
        struct confab_user *users = view_alloc(v, m->n_users, sizeof(*users), e);

        if (!users)
                return -ERR_NOMEM;
        for (size_t i = 0; i < m->n_users; i++)
                view_user(&users[i], m->users[i]);
        v->users = (struct confab_users){users, m->n_users, m->more, m->cursor};
        v->event.users = &v->users;
        return view_final(v, CONFAB_EVENT_USERS);
}

static int view_user_acted(struct view *v, const Confab__V1__UserActed *m) {
        v->user_acted =
                (struct confab_user_acted){m->conversations, m->tokens, m->requests, m->busy};
        v->event.user_acted = &v->user_acted;
        return view_final(v, CONFAB_EVENT_USER_ACTED);
}

static int view_checked(struct view *v, const Confab__V1__Checked *m, struct err *e) {
        struct confab_problem *problems = view_alloc(v, m->n_problems, sizeof(*problems), e);

        if (!problems)
                return -ERR_NOMEM;
        for (size_t i = 0; i < m->n_problems; i++) {
                const Confab__V1__Problem *from = m->problems[i];

                problems[i] = (struct confab_problem){
                        .kind = from->kind ? from->kind : "",
                        .conversation = from->conversation,
                        .record = from->record,
                        .text = from->text ? from->text : "",
                        .is_forgotten = from->forgotten,
                };
        }
        v->checked = (struct confab_checked){
                .n_conversations = m->conversations,
                .n_turns = m->turns,
                .n_tokens = m->tokens,
                .n_records = m->records,
                .n_gone = m->gone,
                .n_skipped = m->skipped,
                .n_forgotten = m->forgotten,
                .read_size = m->bytes,
                .n_found = m->found,
                .problems = problems,
                .n_problems = m->n_problems,
        };
        v->event.checked = &v->checked;
        return view_final(v, CONFAB_EVENT_CHECKED);
}

int view_admin(struct view *v, const Confab__V1__Event *m, struct err *e) {
        switch (m->kind_case) {
        case CONFAB__V1__EVENT__KIND_SETTINGS:
                return view_settings(v, m->settings, e);
        case CONFAB__V1__EVENT__KIND_USERS:
                return view_users(v, m->users, e);
        case CONFAB__V1__EVENT__KIND_USER_ACTED:
                return view_user_acted(v, m->user_acted);
        case CONFAB__V1__EVENT__KIND_DRAINED:
                v->drained = (struct confab_drained){m->drained->requests};
                v->event.drained = &v->drained;
                return view_final(v, CONFAB_EVENT_DRAINED);
        case CONFAB__V1__EVENT__KIND_CHECKED:
                return view_checked(v, m->checked, e);
        default:
                return 1;
        }
}
