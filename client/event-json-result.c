/* SPDX-License-Identifier: MIT */
/* Results of verbs that are not about one conversation. */
#include "base/util.h"
#include "client/event-json.h"

void event_json_tokenized(struct json *j, const struct confab_tokens *tokens) {
        json_object_begin(j);
        json_put_key(j, "tokens");
        json_array_begin(j);
        for (size_t i = 0; i < tokens->n_tokens; i++)
                json_put_i64(j, tokens->tokens[i]);
        json_array_end(j);
        json_put_key(j, "pieces");
        json_array_begin(j);
        for (size_t i = 0; i < tokens->n_pieces; i++)
                json_put_string_n(j, tokens->pieces[i].data, tokens->pieces[i].size);
        json_array_end(j);
        json_object_end(j);
}

void event_json_model(struct json *j, const struct confab_model_info *model) {
        const struct {
                const char *key, *text;
        } texts[] = {{"name", model->name}, {"architecture", model->architecture},
                {"path", model->path}, {"chat_family", model->chat_family},
                {"reply_format", model->reply_format}, {"tokenizer", model->tokenizer},
                {"kv_type", model->kv_type}, {"isa", model->isa},
                {"fingerprint", model->fingerprint}};
        const struct {
                const char *key;
                uint64_t number;
        } numbers[] = {{"n_params", model->n_params}, {"weights_bytes", model->weights_size},
                {"n_layer", model->n_layer}, {"n_embd", model->n_embd}, {"n_vocab", model->n_vocab},
                {"context", model->context}, {"context_train", model->context_train},
                {"block_tokens", model->block_tokens}, {"block_bytes", model->block_size},
                {"state_bytes", model->state_size}, {"window", model->window},
                {"window_block_bytes", model->window_block_size}};

        json_object_begin(j);
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                json_put_key_string(j, texts[i].key, texts[i].text);
        }
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
                json_put_key_u64(j, numbers[i].key, numbers[i].number);
        }
        json_put_key_bool(j, "takes_tools", model->takes_tools);
        json_put_key_bool(j, "reasons", model->reasons);
        json_object_end(j);
}

void event_json_list(
        struct json *j, const struct confab_conversations *list, enum event_json_seeds seeds) {
        json_object_begin(j);
        json_put_key(j, "conversations");
        json_array_begin(j);
        for (size_t i = 0; i < list->n_items; i++) {
                json_object_begin(j);
                event_json_conversation(j, &list->items[i], seeds);
                json_object_end(j);
        }
        json_array_end(j);
        json_put_key_bool(j, "more", list->more);
        if (list->cursor) {
                json_put_key_string(j, "cursor", list->cursor);
        }
        json_object_end(j);
}

void event_json_quota(struct json *j, const struct confab_quota *quota) {
        const struct confab_quota_subject *subject = &quota->subject;

        json_object_begin(j);
        if (subject->has_uid)
                json_put_key_u64(j, "uid", subject->uid);
        if (subject->has_gid)
                json_put_key_u64(j, "gid", subject->gid);
        if (subject->tenant)
                json_put_key_string(j, "tenant", subject->tenant);
        if (subject->all_tenants)
                json_put_key_bool(j, "all_tenants", true);
        json_put_key_string(j, "name", quota->name);
        json_put_key(j, "value");
        if (quota->is_limited)
                json_put_u64(j, quota->value);
        else
                json_put_null(j);
        if (quota->has_used)
                json_put_key_u64(j, "used", quota->used);
        json_put_key_string(j, "unit", quota->unit);
        json_put_key_string(j, "origin", confab_quota_origin_name(quota->origin));
        if (quota->origin == CONFAB_QUOTA_ORIGIN_GROUP)
                json_put_key_u64(j, "origin_gid", quota->gid);
        if (quota->renews_usec)
                json_put_key_u64(j, "renews_usec", quota->renews_usec);
        json_object_end(j);
}

void event_json_quotas(struct json *j, const struct confab_quotas *quotas) {
        json_object_begin(j);
        json_put_key(j, "limits");
        json_array_begin(j);
        for (size_t i = 0; i < quotas->n_items; i++)
                event_json_quota(j, &quotas->items[i]);
        json_array_end(j);
        json_put_key_bool(j, "more", quotas->more);
        if (quotas->cursor)
                json_put_key_string(j, "cursor", quotas->cursor);
        json_object_end(j);
}

void event_json_found(
        struct json *j, const struct confab_found *found, enum event_json_seeds seeds) {
        json_object_begin(j);
        json_put_key(j, "conversation");
        if (found->conversation) {
                json_object_begin(j);
                event_json_conversation(j, found->conversation, seeds);
                json_object_end(j);
        } else {
                json_put_null(j);
        }
        json_put_key_u64(j, "at_turn", found->at_turn);
        json_put_key_u64(j, "n_messages", found->n_messages);
        json_put_key_bool(j, "other_session", found->other_session);
        json_object_end(j);
}
