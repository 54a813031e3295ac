/* SPDX-License-Identifier: MIT */
/* What both kinds of replies have in common: ids, the frame of chunks, usage, the whole answer. */
#include "client/gateway/openai-write.h"
#include "base/util.h"
#include <inttypes.h>
#include <stdio.h>

int openai_reply_new(struct openai_reply **ret, const struct openai_reply_options *options,
        openai_emit emit, void *userdata) {
        struct openai_reply *reply =
                calloc(1, sizeof(*reply) + options->n * sizeof(*reply->choices));

        if (!reply)
                return -ERR_NOMEM;
        reply->options = *options;
        reply->emit = emit;
        reply->userdata = userdata;
        reply->model = strdup(options->model);
        reply->fingerprint = strdup(options->fingerprint);
        if (!reply->model || !reply->fingerprint) {
                openai_reply_free(reply);
                return -ERR_NOMEM;
        }
        *ret = reply;
        return 0;
}

static void choice_deinit(struct openai_choice *choice) {
        for (size_t i = 0; choice->calls && i < choice->n_calls; i++) {
                free(choice->calls[i].id);
                free(choice->calls[i].name);
                buf_deinit(&choice->calls[i].arguments);
        }
        free(choice->calls);
        openai_tokens_deinit(&choice->tokens);
        buf_deinit(&choice->echo);
        buf_deinit(&choice->text);
        buf_deinit(&choice->reasoning);
}

struct openai_reply *openai_reply_free(struct openai_reply *reply) {
        if (!reply)
                return NULL;
        for (unsigned i = 0; i < reply->options.n; i++)
                choice_deinit(&reply->choices[i]);
        buf_deinit(&reply->chunk);
        free(reply->model);
        free(reply->fingerprint);
        free(reply);
        return NULL;
}

/* ---- frames ---- */

/* What all objects begin with; an object is open afterwards. */
static void put_head(const struct openai_reply *reply, struct json *j, struct buf *out) {
        bool chat = reply->options.kind == OPENAI_CHAT;

        json_init(j, out);
        json_object_begin(j);
        json_put_key_string(j, "id", reply->id);
        json_put_key(j, "object");
        if (!chat)
                json_put_string(j, "text_completion");
        else
                json_put_string(
                        j, reply->options.in_pieces ? "chat.completion.chunk" : "chat.completion");
        json_put_key_u64(j, "created", reply->options.created);
        json_put_key_string(j, "model", reply->model);
        json_put_key_string(j, "system_fingerprint", reply->fingerprint);
}

static void put_usage(const struct talk_usage *usage, struct json *j) {
        json_object_begin(j);
        json_put_key_u64(j, "prompt_tokens", usage->n_prompt);
        json_put_key_u64(j, "completion_tokens", usage->n_generated);
        json_put_key_u64(j, "total_tokens", (uint64_t)usage->n_prompt + usage->n_generated);
        json_put_key(j, "prompt_tokens_details");
        json_object_begin(j);
        json_put_key_u64(j, "cached_tokens", usage->n_cached);
        json_object_end(j);
        json_put_key(j, "completion_tokens_details");
        json_object_begin(j);
        json_put_key_u64(j, "reasoning_tokens", usage->n_reasoning);
        json_put_key_u64(j, "accepted_prediction_tokens", usage->n_accepted);
        json_put_key_u64(j, "rejected_prediction_tokens", usage->n_drafted - usage->n_accepted);
        json_object_end(j);
        json_object_end(j);
}

static int emit(struct openai_reply *reply, struct json *j) {
        int r = json_finish(j);

        return r < 0 ? r : reply->emit(reply->userdata, &reply->chunk);
}

void openai_chunk_begin(struct openai_reply *reply, struct json *j, unsigned choice) {
        reply->chunk.size = 0;
        put_head(reply, j, &reply->chunk);
        json_put_key(j, "choices");
        json_array_begin(j);
        json_object_begin(j);
        json_put_key_u64(j, "index", choice);
}

void openai_put_logprobs(
        const struct openai_reply *reply, struct json *j, unsigned choice, bool with_tokens) {
        const struct openai_tokens *tokens = &reply->choices[choice].tokens;

        json_put_key(j, "logprobs");
        if (!with_tokens || !reply->options.want_logprobs)
                json_put_null(j);
        else if (reply->options.kind == OPENAI_CHAT)
                openai_tokens_write_chat(tokens, j);
        else
                openai_tokens_write_text(tokens, j);
}

int openai_chunk_end(struct openai_reply *reply, struct json *j, unsigned choice, bool with_tokens,
        const char *finish) {
        openai_put_logprobs(reply, j, choice, with_tokens);
        if (with_tokens)
                openai_tokens_clear(&reply->choices[choice].tokens);
        json_put_key_string(j, "finish_reason", finish);
        json_object_end(j);
        json_array_end(j);
        if (reply->options.include_usage) {
                json_put_key(j, "usage");
                json_put_null(j);
        }
        json_object_end(j);
        return emit(reply, j);
}

/* ---- events ---- */

int openai_reply_echo(struct openai_reply *reply, unsigned choice, const void *text, size_t size) {
        struct openai_choice *to = &reply->choices[choice];

        to->tokens.n_characters = openai_count_characters(text, size);
        return size > 0 ? buf_append(&to->echo, text, size) : 0;
}

static void name_place(struct openai_reply *reply, const struct talk_place *place) {
        snprintf(reply->id, sizeof(reply->id), "%s-%.8s-%" PRIx64 "-%" PRIx32 "-%" PRIx64,
                reply->options.kind == OPENAI_CHAT ? "chatcmpl" : "cmpl", reply->fingerprint,
                place->conversation, place->reply_turn, place->revision);
}

int openai_reply_accepted(
        struct openai_reply *reply, unsigned choice, const struct talk_place *place) {
        if (!reply->id[0])
                name_place(reply, place);
        return reply->options.kind == OPENAI_CHAT ? openai_chat_begin(reply, choice)
                                                  : openai_text_begin(reply, choice);
}

/* Whether the delta tells some of the text; *ret_other: or else something. */
static bool tells_text(
        const struct openai_reply *reply, const struct confab_delta *delta, bool *ret_other) {
        *ret_other = false;
        if (reply->options.kind == OPENAI_TEXT)
                return delta->text_size > 0;
        for (size_t i = 0; i < delta->n_parts; i++) {
                if (delta->parts[i].kind == CONFAB_PART_TEXT && delta->parts[i].text_size > 0)
                        return true;
                *ret_other = *ret_other || delta->parts[i].kind != CONFAB_PART_TEXT;
        }
        return false;
}

int openai_reply_delta(
        struct openai_reply *reply, unsigned choice, const struct confab_delta *delta) {
        struct openai_tokens *tokens = &reply->choices[choice].tokens;
        bool other;
        int r = 0;

        for (size_t i = 0; r == 0 && reply->options.want_logprobs && i < delta->n_tokens; i++)
                r = openai_tokens_add(tokens, &delta->tokens[i]);
        if (r < 0)
                return r;
        if (tells_text(reply, delta, &other))
                openai_tokens_list(tokens);
        else if (other)
                openai_tokens_drop(tokens);
        return reply->options.kind == OPENAI_CHAT ? openai_chat_delta(reply, choice, delta)
                                                  : openai_text_delta(reply, choice, delta);
}

static const char *finish_word(const struct openai_reply *reply, const struct openai_choice *choice,
        const struct confab_done *done) {
        bool is_end =
                done->finish == CONFAB_FINISH_STOP || done->finish == CONFAB_FINISH_STOP_STRING;

        if (reply->options.one_call && choice->call_ended)
                return "tool_calls";
        if (!is_end) /* cut: by a limit, or by somebody's cancel */
                return "length";
        return reply->options.kind == OPENAI_CHAT && done->n_calls > 0 ? "tool_calls" : "stop";
}

int openai_reply_done(struct openai_reply *reply, unsigned choice, const struct confab_done *done,
        const struct talk_usage *usage, bool counts_prompt) {
        struct openai_choice *to = &reply->choices[choice];

        if (counts_prompt) {
                reply->usage.n_prompt += usage->n_prompt;
                reply->usage.n_cached += usage->n_cached;
        }
        reply->usage.n_generated += usage->n_generated;
        reply->usage.n_drafted += usage->n_drafted;
        reply->usage.n_accepted += usage->n_accepted;
        reply->usage.n_reasoning += usage->n_reasoning;
        openai_tokens_drop(&to->tokens);
        to->finish = finish_word(reply, to, done);
        if (!reply->options.in_pieces)
                return 0;
        return reply->options.kind == OPENAI_CHAT ? openai_chat_done(reply, choice)
                                                  : openai_text_done(reply, choice);
}

bool openai_reply_is_enough(struct openai_reply *reply) {
        if (!reply->options.one_call || reply->options.n != 1 || reply->said_enough ||
                !reply->choices[0].call_ended)
                return false;
        reply->said_enough = true;
        return true;
}

int openai_reply_finish(struct openai_reply *reply) {
        struct json j;

        if (!reply->options.in_pieces || !reply->options.include_usage)
                return 0;
        reply->chunk.size = 0;
        put_head(reply, &j, &reply->chunk);
        json_put_key(&j, "choices");
        json_array_begin(&j);
        json_array_end(&j);
        json_put_key(&j, "usage");
        put_usage(&reply->usage, &j);
        json_object_end(&j);
        return emit(reply, &j);
}

/* ---- the whole answer ---- */

static int put_text(const struct openai_choice *choice, struct json *j) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        int r = choice->echo.size > 0 ? buf_append(&text, choice->echo.data, choice->echo.size) : 0;

        if (r == 0 && choice->text.size > 0)
                r = buf_append(&text, choice->text.data, choice->text.size);
        json_put_key(j, "text");
        json_put_string_n(j, text.data, text.size);
        return r;
}

static int put_choice(const struct openai_reply *reply, struct json *j, unsigned i) {
        const struct openai_choice *choice = &reply->choices[i];
        int r = 0;

        json_object_begin(j);
        json_put_key_u64(j, "index", i);
        if (reply->options.kind == OPENAI_CHAT)
                openai_chat_put_message(reply, j, i);
        else
                r = put_text(choice, j);
        openai_put_logprobs(reply, j, i, true);
        json_put_key_string(j, "finish_reason", choice->finish);
        json_object_end(j);
        return r;
}

int openai_reply_whole(struct openai_reply *reply, struct buf *out) {
        struct json j;
        int r = 0, code;

        put_head(reply, &j, out);
        json_put_key(&j, "choices");
        json_array_begin(&j);
        for (unsigned i = 0; r == 0 && i < reply->options.n; i++)
                r = put_choice(reply, &j, i);
        json_array_end(&j);
        json_put_key(&j, "usage");
        put_usage(&reply->usage, &j);
        json_object_end(&j);
        code = json_finish(&j);
        return r < 0 ? r : code;
}
