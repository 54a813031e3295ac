/* SPDX-License-Identifier: MIT */
/*
 * The Response object, with all fields that OpenAI's description requires. Fields of the request are told again as they
 * came; of a response that is retrieved only what its id and its conversation say is known, the others are null or
 * what they are where nothing was asked for.
 */
#include "client/gateway/responses.h"
#include <string.h>

/* @json as it came, or @otherwise. */
static void put_json(struct json *j, const char *key, const char *json, const char *otherwise) {
        const char *text = json ? json : otherwise;

        json_put_key(j, key);
        json_put_raw(j, text, strlen(text));
}

static void put_error(struct json *j, const struct responses_object *object) {
        json_put_key(j, "error");
        if (object->error_message) {
                json_object_begin(j);
                json_put_key_string(j, "code", object->error_code);
                json_put_key_string(j, "message", object->error_message);
                json_object_end(j);
        } else {
                json_put_null(j);
        }
        json_put_key(j, "incomplete_details");
        if (object->incomplete) {
                json_object_begin(j);
                json_put_key_string(j, "reason", object->incomplete);
                json_object_end(j);
        } else {
                json_put_null(j);
        }
}

static void put_usage(struct json *j, const struct talk_usage *usage) {
        json_put_key(j, "usage");
        if (!usage) {
                json_put_null(j);
                return;
        }
        json_object_begin(j);
        json_put_key_u64(j, "input_tokens", usage->n_prompt);
        json_put_key(j, "input_tokens_details");
        json_object_begin(j);
        json_put_key_u64(j, "cached_tokens", usage->n_cached);
        json_object_end(j);
        json_put_key_u64(j, "output_tokens", usage->n_generated);
        json_put_key(j, "output_tokens_details");
        json_object_begin(j);
        json_put_key_u64(j, "reasoning_tokens", usage->n_reasoning);
        json_object_end(j);
        json_put_key_u64(j, "total_tokens", (uint64_t)usage->n_prompt + usage->n_generated);
        json_object_end(j);
}

static void put_instructions(struct json *j, const struct responses_object *object) {
        json_put_key(j, "instructions");
        if (object->instructions)
                json_put_string_n(j, object->instructions, object->instructions_size);
        else
                json_put_string(j, object->wish->instructions);
}

static void put_place(struct json *j, const struct responses_object *object) {
        json_put_key_string(j, "previous_response_id", object->wish->previous);
        json_put_key(j, "conversation");
        if (object->conversation) {
                json_object_begin(j);
                json_put_key_string(j, "id", object->conversation);
                json_object_end(j);
        } else {
                json_put_null(j);
        }
}

static void put_wish(struct json *j, const struct responses_wish *wish) {
        put_json(j, "metadata", wish->metadata, "{}");
        put_json(j, "tools", wish->tools, "[]");
        put_json(j, "tool_choice", wish->tool_choice, "\"auto\"");
        json_put_key_bool(j, "parallel_tool_calls", !wish->options.one_call);
        put_json(j, "reasoning", wish->reasoning, "{\"effort\":null,\"summary\":null}");
        put_json(j, "text", wish->text && strcmp(wish->text, "{}") != 0 ? wish->text : NULL,
                "{\"format\":{\"type\":\"text\"}}");
        put_json(j, "temperature", wish->temperature, "null");
        put_json(j, "top_p", wish->top_p, "null");
        put_json(j, "top_logprobs", wish->top_logprobs, "0");
        put_json(j, "max_output_tokens", wish->max_output_tokens, "null");
        json_put_key_string(j, "truncation", wish->truncates ? "auto" : "disabled");
        json_put_key_bool(j, "store", wish->store);
        json_put_key_bool(j, "background", wish->background);
        put_json(j, "prompt_cache_key", wish->cache_key, "null");
        put_json(j, "user", wish->user, "null");
}

void responses_put_object(struct json *j, const struct responses_object *object) {
        json_object_begin(j);
        responses_put_id(j, object->id);
        json_put_key_string(j, "object", "response");
        json_put_key_u64(j, "created_at", object->id->created);
        json_put_key(j, "completed_at");
        if (object->completed > 0)
                json_put_u64(j, object->completed);
        else
                json_put_null(j);
        json_put_key_string(j, "status", object->status);
        put_error(j, object);
        json_put_key_string(j, "model", object->model);
        json_put_key(j, "output");
        json_array_begin(j);
        if (object->output && object->output->size > 0)
                json_put_raw(j, (const char *)object->output->data, object->output->size);
        json_array_end(j);
        put_usage(j, object->usage);
        put_instructions(j, object);
        put_place(j, object);
        put_wish(j, object->wish);
        json_object_end(j);
}

const char *responses_status(
        enum confab_finish finish, bool is_enough, const char **ret_incomplete) {
        *ret_incomplete = NULL;
        switch (finish) {
        case CONFAB_FINISH_LENGTH:
        case CONFAB_FINISH_CONTEXT:
                *ret_incomplete = "max_output_tokens";
                return "incomplete";
        case CONFAB_FINISH_CANCELLED:
                return is_enough ? "completed" : "cancelled";
        case CONFAB_FINISH_NONE:
        case CONFAB_FINISH_STOP:
        case CONFAB_FINISH_STOP_STRING:
                break;
        }
        return "completed";
}
