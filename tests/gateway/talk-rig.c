/* SPDX-License-Identifier: MIT */
#include "talk-rig.h"

/* ---- the loop ---- */

static void on_guard(evutil_socket_t fd, short what, void *userdata) {
        (void)fd;
        (void)what;
        (void)userdata;
        fail_msg("nothing happened for %d seconds", RIG_SECONDS);
}

void rig_step(struct talk_rig *rig) {
        const struct timeval guard = {.tv_sec = RIG_SECONDS};
        struct event *timer = event_new(rig->base, -1, 0, on_guard, rig);

        assert_non_null(timer);
        event_add(timer, &guard);
        assert_int_not_equal(event_base_loop(rig->base, EVLOOP_ONCE), -1);
        event_free(timer);
}

void rig_wait_for(struct talk_rig *rig, const bool *flag) {
        while (!*flag)
                rig_step(rig);
}

void rig_wait(struct said *said) {
        rig_wait_for(said->rig, &said->ended);
}

void rig_settle(struct talk_rig *rig) {
        struct backend_figures figures;

        for (backends_figures(rig->backends, &figures); figures.n_lines > figures.n_idle;
                backends_figures(rig->backends, &figures))
                rig_step(rig);
}

void rig_init(struct talk_rig *rig, const char *socket) {
        struct err e;

        *rig = (struct talk_rig){.settings = {.n_choices = SAID_CHOICES},
                .owner = {.uid = (uint32_t)geteuid()},
                .wants = {.n = 1, .has_max_tokens = true, .max_tokens = 12}};
        rig->wants.sampling.has = CONFAB_HAS_TEMPERATURE;
        rig->base = event_base_new();
        assert_non_null(rig->base);
        if (backends_new(&rig->backends, rig->base, &socket, 1, &e) < 0)
                fail_msg("%s", e.msg);
}

void rig_deinit(struct talk_rig *rig) {
        backends_free(rig->backends);
        event_base_free(rig->base);
}

/* ---- histories and forms ---- */

void history_say(struct history *history, char role, const char *text) {
        assert_true(history->n < HISTORY_MAX);
        history->role[history->n] = role;
        history->text[history->n] = strdup(text);
        assert_non_null(history->text[history->n++]);
}

void history_cut(struct history *history, size_t n) {
        while (history->n > n)
                free(history->text[--history->n]);
}

void history_deinit(struct history *history) {
        history_cut(history, 0);
}

static void add_result(struct form *form, const char *text) {
        struct confab_result *result = form_add_result(form);
        size_t n = strcspn(text, " ");

        assert_non_null(result);
        result->call_id = n ? form_text(form, text, n) : NULL;
        result->text = form_strdup(form, text + n + 1);
}

static void add_call(struct form *form, const char *text) {
        struct confab_call *call = form_add_call(form);
        size_t n = strcspn(text, " "), m = strcspn(text + n + 1, " ");

        assert_non_null(call);
        call->id = n ? form_text(form, text, n) : NULL;
        call->name = form_text(form, text + n + 1, m);
        call->arguments = form_strdup(form, text + n + m + 2);
}

struct form *rig_form(struct talk_rig *rig, const struct history *history) {
        struct form *form;

        assert_int_equal(form_new(&form, NULL), 0);
        *form_fields(form) = rig->wants;
        for (size_t i = 0; history && i < history->n; i++) {
                char role = history->role[i];
                struct confab_message *message =
                        form_add_message(form, role == 's'   ? CONFAB_ROLE_SYSTEM
                                               : role == 'u' ? CONFAB_ROLE_USER
                                               : role == 't' ? CONFAB_ROLE_TOOL
                                                             : CONFAB_ROLE_ASSISTANT);

                assert_non_null(message);
                if (role == 't') {
                        add_result(form, history->text[i]);
                        continue;
                }
                if (role == 'c') {
                        add_call(form, history->text[i]);
                        continue;
                }
                message->text = form_strdup(form, history->text[i]);
                message->text_size = strlen(history->text[i]);
        }
        return form;
}

/* ---- what comes ---- */

static void hook(struct said *said) {
        if (said->hook)
                said->hook(said);
}

static void on_accepted(void *userdata, unsigned choice, const struct talk_place *place,
        const struct talk_usage *usage) {
        struct said *said = userdata;

        assert_false(said->ended);
        said->n_accepted++;
        said->place[choice] = *place;
        said->usage[choice] = *usage;
        said->n_computed[choice] = usage->n_prompt - usage->n_cached;
        hook(said);
}

static void on_progress(void *userdata, uint32_t done, uint32_t total) {
        struct said *said = userdata;

        assert_true(done <= total);
        said->n_progress++;
        hook(said);
}

static void on_delta(void *userdata, unsigned choice, const struct confab_delta *delta) {
        struct said *said = userdata;
        char *text = said->text[choice];
        size_t n = strlen(text);

        assert_false(said->ended);
        said->n_deltas++;
        if (delta->text_size > 0)
                snprintf(text + n, sizeof(said->text[0]) - n, "%s", delta->text);
        for (size_t i = 0; i < delta->n_parts; i++) {
                const struct confab_part *part = &delta->parts[i];

                n = strlen(text);
                if (part->kind == CONFAB_PART_TEXT)
                        snprintf(text + n, sizeof(said->text[0]) - n, "%.*s", (int)part->text_size,
                                part->text);
                if (part->kind != CONFAB_PART_CALL)
                        continue;
                if (part->call_id) {
                        snprintf(said->call_id, sizeof(said->call_id), "%s", part->call_id);
                        snprintf(said->call_name, sizeof(said->call_name), "%s", part->name);
                        said->arguments[0] = '\0';
                }
                n = strlen(said->arguments);
                snprintf(said->arguments + n, sizeof(said->arguments) - n, "%.*s",
                        (int)part->text_size, part->text);
        }
        hook(said);
}

static void on_done(void *userdata, unsigned choice, const struct confab_done *done,
        const struct talk_usage *usage) {
        struct said *said = userdata;

        assert_false(said->ended);
        said->n_done++;
        said->usage[choice] = *usage;
        said->finish[choice] = (int)done->finish;
        hook(said);
}

static void on_ended(void *userdata, const struct talk_error *error) {
        struct said *said = userdata;

        assert_false(said->ended);
        said->ended = true;
        said->failed = error != NULL;
        if (error) {
                said->status = error->status;
                said->retry_after = error->retry_after;
                snprintf(said->code, sizeof(said->code), "%s", error->code);
                snprintf(said->message, sizeof(said->message), "%s", error->message);
        }
        hook(said);
}

static const struct talk_ops ops = {
        .accepted = on_accepted,
        .progress = on_progress,
        .delta = on_delta,
        .done = on_done,
        .ended = on_ended,
};

void rig_begin(struct talk_rig *rig, struct form *form, struct said *said) {
        struct err e;

        *said = (struct said){.rig = rig, .hook = said->hook, .hook_data = said->hook_data};
        if (talk_new(&said->talk, rig->backends, &rig->settings, &rig->owner, form, &ops, said,
                    &e) < 0)
                fail_msg("%s", e.msg);
}

void rig_talk(struct talk_rig *rig, struct form *form, struct said *said) {
        *said = (struct said){.rig = rig};
        rig_begin(rig, form, said);
        rig_wait(said);
        said->talk = talk_free(said->talk);
}

void rig_chat(struct talk_rig *rig, struct history *history, struct said *said) {
        rig_talk(rig, rig_form(rig, history), said);
        if (said->failed)
                fail_msg("%s: %s", said->code, said->message);
        history_say(history, 'a', said->text[0]);
}

size_t rig_list(struct harness *h, struct conv list[RIG_CONVERSATIONS]) {
        struct client *c = harness_client(h);
        size_t n;

        assert_int_equal(client_list(c, 0, false, list, RIG_CONVERSATIONS, &n), 0);
        client_free(c);
        return n;
}

void rig_look(struct harness *h, uint64_t id, struct conv *ret) {
        struct client *c = harness_client(h);

        assert_int_equal(client_get(c, id, true, false, ret), 0);
        client_free(c);
}
