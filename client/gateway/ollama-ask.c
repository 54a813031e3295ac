/* SPDX-License-Identifier: MIT */
/* Answers about models, for which daemons are asked first: those that are not known or were not reachable. */
#include "base/json.h"
#include "base/util.h"
#include "client/gateway/ollama-handle.h"
#include <string.h>

/* What was learned of a daemon is true as long as the connection lasts, so it is not asked again for its age. */
#define ANY_AGE UINT64_MAX

struct asking {
        struct gateway_call *call;
        enum ollama_question question;
        struct ollama_wish wish;
        char *model; /* or NULL */
};

static void asking_free(struct asking *asking) {
        free(asking->model);
        free(asking);
}

static void refuse_memory(struct gateway_call *call) {
        struct err e = {0};

        err_no_memory(&e);
        gateway_refuse_err(call, &gateway_ollama, &e);
}

static void on_closed(void *userdata) {
        struct asking *asking = userdata;

        backends_forget(gateway_call_backends(asking->call), asking);
        asking_free(asking);
}

static int write_list(struct buf *out, struct backends *backends, bool loaded) {
        struct json j;

        json_init(&j, out);
        json_object_begin(&j);
        json_put_key(&j, "models");
        json_array_begin(&j);
        for (size_t i = 0; i < backends_count(backends); i++) {
                const struct backend_model *model = backend_model(backends_at(backends, i));

                if (model->known && (model->reachable || !loaded))
                        ollama_put_model(&j, model, loaded);
        }
        json_array_end(&j);
        json_object_end(&j);
        return json_finish(&j);
}

/* The one model that is asked for. -ERR_NOT_FOUND, -ERR_UNAVAILABLE. */
static int find_model(
        const struct asking *asking, const struct backend_model **ret, struct err *e) {
        struct backend *backend = backends_find(gateway_call_backends(asking->call), asking->model);

        if (!backend)
                return err_set(e, ERR_NOT_FOUND, "model '%s' not found",
                        asking->model ? asking->model : "");
        *ret = backend_model(backend);
        if (!(*ret)->known || !(*ret)->reachable)
                return err_set(e, ERR_UNAVAILABLE, "the daemon of the model can't be reached");
        return 0;
}

static int write_one(const struct asking *asking, struct buf *out, struct err *e) {
        const struct backend_model *model = NULL;
        int r = find_model(asking, &model, e);

        if (r < 0)
                return r;
        if (asking->question == OLLAMA_SHOW)
                r = ollama_write_show(out, model);
        else
                r = ollama_write_loaded(out,
                        asking->question == OLLAMA_LOADED ? OLLAMA_CHAT : OLLAMA_GENERATE,
                        model->name, &asking->wish);
        return r < 0 ? err_no_memory(e) : 0;
}

static void on_ready(void *userdata) {
        struct asking *asking = userdata;
        struct gateway_call *call = asking->call;
        struct backends *backends = gateway_call_backends(call);
        struct buf body = BUF_NULL;
        struct err e = {0};
        int r;

        if (asking->question == OLLAMA_TAGS || asking->question == OLLAMA_PS) {
                r = write_list(&body, backends, asking->question == OLLAMA_PS);
                if (r < 0)
                        err_no_memory(&e);
        } else {
                r = write_one(asking, &body, &e);
        }
        asking_free(asking);
        if (r < 0)
                gateway_refuse_err(call, &gateway_ollama, &e);
        else
                gateway_reply_json(call, &body);
        buf_deinit(&body);
}

void ollama_ask_models(struct gateway_call *call, enum ollama_question question, const char *model,
        const struct ollama_wish *wish) {
        static const struct http_answer_ops ops = {on_closed, NULL};
        struct asking *asking = calloc(1, sizeof(*asking));

        if (asking && model)
                asking->model = text_dup(model, strlen(model));
        if (!asking || (model && !asking->model)) {
                free(asking);
                refuse_memory(call);
                return;
        }
        asking->call = call;
        asking->question = question;
        if (wish)
                asking->wish = *wish;
        http_set_ops(call->exchange, &ops, asking);
        if (backends_refresh(gateway_call_backends(call), ANY_AGE, on_ready, asking) < 0) {
                asking_free(asking);
                refuse_memory(call);
        }
}
