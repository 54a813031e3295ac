/* SPDX-License-Identifier: MIT */
/* Errors, lists and models in OpenAI's form. */
#include "base/json.h"
#include "base/util.h"
#include "client/gateway/gateway.h"
#include "client/gateway/openai-reply.h"

/* The type says who is at fault. */
static const char *type_of(unsigned status) {
        switch (status) {
        case 401:
                return "authentication_error";
        case 403:
                return "permission_error";
        case 429:
                return "rate_limit_error";
        default:
                return status >= 500 ? "server_error" : "invalid_request_error";
        }
}

/* Words of confab that OpenAI has another word for; others stay, "invalid" says no more than the type. */
static const char *code_of(unsigned status, const char *code, const char *param) {
        if (!code || strcmp(code, CONFAB_INVALID) == 0)
                return NULL;
        if (strcmp(code, CONFAB_UNSUPPORTED) == 0)
                return param ? "unsupported_parameter" : "unsupported";
        if (strcmp(code, CONFAB_NOT_FOUND) == 0 && param && strcmp(param, "model") == 0)
                return "model_not_found";
        if (status == 429 && strcmp(code, CONFAB_LIMIT) == 0)
                return "rate_limit_exceeded";
        return code;
}

const char *openai_error_param(const struct talk_error *error) {
        static const struct {
                const char *words, *param;
        } rows[] = {
                {"schema", "response_format"},
                {"tool_choice", "tool_choice"},
                {"grammar", "grammar"},
                {"tools ", "tools"},
                {"the tools ", "tools"},
                {"message ", "messages"},
                {"the last of messages ", "messages"},
                {"logit_bias ", "logit_bias"},
                {"logit bias ", "logit_bias"},
        };

        if (error->param)
                return error->param;
        if (error->code && strcmp(error->code, CONFAB_CONTEXT) == 0)
                return "messages";
        for (size_t i = 0; error->status < 500 && i < ARRAY_SIZE(rows); i++)
                if (strncmp(error->message, rows[i].words, strlen(rows[i].words)) == 0)
                        return rows[i].param;
        return NULL;
}

int openai_error_body(struct buf *out, unsigned status, const char *code, const char *message,
        const char *param) {
        _cleanup_(buf_deinit) struct buf text = BUF_NULL;
        int r = gateway_error_text(&text, code, "the input exceeds the context window: ", message);
        struct json j;

        if (r < 0)
                return r;
        json_init(&j, out);
        json_object_begin(&j);
        json_put_key(&j, "error");
        json_object_begin(&j);
        json_put_key(&j, "message");
        json_put_string_n(&j, text.data, text.size);
        json_put_key_string(&j, "type", type_of(status));
        json_put_key_string(&j, "param", param && param[0] ? param : NULL);
        json_put_key_string(&j, "code", code_of(status, code, param && param[0] ? param : NULL));
        json_object_end(&j);
        json_object_end(&j);
        return json_finish(&j);
}

void openai_list_begin(struct json *j) {
        json_object_begin(j);
        json_put_key_string(j, "object", "list");
        json_put_key(j, "data");
        json_array_begin(j);
}

static void put_model(struct json *j, const struct backend_model *model) {
        json_object_begin(j);
        json_put_key_string(j, "id", model->name);
        json_put_key_string(j, "object", "model");
        json_put_key_u64(j, "created", model->since_usec / 1000000);
        json_put_key_string(j, "owned_by", "confab");
        json_put_key(j, "meta");
        json_object_begin(j);
        json_put_key_u64(j, "n_vocab", model->n_vocab);
        json_put_key_u64(j, "n_ctx", model->context);
        json_put_key_u64(j, "n_ctx_train", model->context_train);
        json_put_key_u64(j, "n_embd", model->n_embd);
        json_put_key_u64(j, "n_params", model->n_params);
        json_put_key_u64(j, "size", model->weights_size);
        json_put_key_string(j, "fingerprint", model->fingerprint);
        json_put_key_bool(j, "takes_tools", model->takes_tools);
        json_object_end(j);
        json_object_end(j);
}

int openai_write_model(struct buf *out, const struct backend_model *model) {
        struct json j;

        json_init(&j, out);
        put_model(&j, model);
        return json_finish(&j);
}

int openai_write_models(
        struct buf *out, const struct backend_model *const *models, size_t n_models) {
        struct json j;

        json_init(&j, out);
        openai_list_begin(&j);
        for (size_t i = 0; i < n_models; i++)
                put_model(&j, models[i]);
        json_array_end(&j);
        json_object_end(&j);
        return json_finish(&j);
}
