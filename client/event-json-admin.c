/* SPDX-License-Identifier: MIT */
/* What administrators are told. */
#include "client/event-json.h"

static void put_setting(struct json *j, const struct confab_setting *s) {
        json_object_begin(j);
        json_put_key_string(j, "name", s->name);
        if (s->value)
                json_put_key_string(j, "value", s->value);
        if (s->initial)
                json_put_key_string(j, "default", s->initial);
        if (s->origin)
                json_put_key_string(j, "origin", s->origin);
        json_put_key_bool(j, "reloadable", s->reloadable);
        if (s->pending)
                json_put_key_string(j, "pending", s->pending);
        json_put_key_string(j, "help", s->help);
        json_object_end(j);
}

void event_json_settings(struct json *j, const struct confab_settings *settings) {
        json_object_begin(j);
        json_put_key(j, "settings");
        json_array_begin(j);
        for (size_t i = 0; i < settings->n_settings; i++)
                put_setting(j, &settings->settings[i]);
        json_array_end(j);
        if (settings->files_error)
                json_put_key_string(j, "files_error", settings->files_error);
        json_put_key_u64(j, "started_usec", settings->started_usec);
        json_object_end(j);
}

void event_json_user(struct json *j, const struct confab_user *u) {
        json_object_begin(j);
        json_put_key_u64(j, "uid", u->uid);
        if (u->tenant)
                json_put_key_string(j, "tenant", u->tenant);
        json_put_key_u64(j, "conversations", u->n_conversations);
        json_put_key_u64(j, "tokens", u->n_tokens);
        json_put_key_u64(j, "ram_bytes", u->ram_size);
        json_put_key_u64(j, "disk_bytes", u->disk_size);
        json_put_key_u64(j, "requests", u->n_requests);
        json_put_key_u64(j, "connections", u->n_connections);
        json_put_key_u64(j, "requests_total", u->requests_total);
        json_put_key_u64(j, "tokens_prefilled", u->tokens_prefilled);
        json_put_key_u64(j, "tokens_decoded", u->tokens_decoded);
        if (u->used_usec)
                json_put_key_u64(j, "used_usec", u->used_usec);
        json_object_end(j);
}

void event_json_users(struct json *j, const struct confab_users *users) {
        json_object_begin(j);
        json_put_key(j, "users");
        json_array_begin(j);
        for (size_t i = 0; i < users->n_users; i++)
                event_json_user(j, &users->users[i]);
        json_array_end(j);
        json_put_key_bool(j, "more", users->more);
        if (users->cursor)
                json_put_key_string(j, "cursor", users->cursor);
        json_object_end(j);
}

void event_json_user_acted(struct json *j, const struct confab_user_acted *acted) {
        json_object_begin(j);
        json_put_key_u64(j, "conversations", acted->n_conversations);
        json_put_key_u64(j, "tokens", acted->n_tokens);
        json_put_key_u64(j, "requests", acted->n_requests);
        json_put_key_u64(j, "busy", acted->n_busy);
        json_object_end(j);
}

void event_json_drained(struct json *j, const struct confab_drained *drained) {
        json_object_begin(j);
        json_put_key_u64(j, "requests", drained->n_requests);
        json_object_end(j);
}

static void put_problem(struct json *j, const struct confab_problem *problem) {
        json_object_begin(j);
        json_put_key_string(j, "kind", problem->kind);
        if (problem->conversation)
                json_put_key_u64(j, "conversation", problem->conversation);
        if (problem->record)
                json_put_key_u64(j, "record", problem->record);
        json_put_key_string(j, "text", problem->text);
        json_put_key_bool(j, "forgotten", problem->is_forgotten);
        json_object_end(j);
}

void event_json_checked(struct json *j, const struct confab_checked *checked) {
        json_object_begin(j);
        json_put_key_u64(j, "conversations", checked->n_conversations);
        json_put_key_u64(j, "turns", checked->n_turns);
        json_put_key_u64(j, "tokens", checked->n_tokens);
        json_put_key_u64(j, "records", checked->n_records);
        json_put_key_u64(j, "gone", checked->n_gone);
        json_put_key_u64(j, "skipped", checked->n_skipped);
        json_put_key_u64(j, "forgotten", checked->n_forgotten);
        json_put_key_u64(j, "bytes", checked->read_size);
        json_put_key_u64(j, "found", checked->n_found);
        json_put_key(j, "problems");
        json_array_begin(j);
        for (size_t i = 0; i < checked->n_problems; i++)
                put_problem(j, &checked->problems[i]);
        json_array_end(j);
        json_object_end(j);
}
