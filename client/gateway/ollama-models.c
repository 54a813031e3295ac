/* SPDX-License-Identifier: MIT */
/*
 * What Ollama's dialect tells of models: those of the daemons behind the gateway.
 *
 * 1. A name has a tag behind it, as all of Ollama's have: ":latest", which requests may leave out.
 * 2. The digest is the fingerprint: it stands for all that changes a bit of what is computed.
 * 3. The length of the context is the one that the daemon serves, which is what clients need to know, not the one that
 *    the model was trained for.
 * 4. What a daemon does not tell is said to be unknown ("quantization_level") or empty. A model that is served stays loaded, so
 *    it expires in a hundred years.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/util.h"
#include "client/gateway/ollama.h"
#include <stdio.h>

#define CENTURY_USEC ((uint64_t)36525 * 86400 * 1000000)

static void put_time(struct json *j, const char *key, uint64_t realtime_usec) {
        char text[OLLAMA_TIME_SIZE];

        ollama_time(text, realtime_usec);
        json_put_key_string(j, key, text);
}

/* "134.5M", "8.0B" */
static void put_parameters(struct json *j, uint64_t n) {
        char text[32];

        if (n >= 1000000000)
                snprintf(text, sizeof(text), "%.1fB", (double)n / 1e9);
        else if (n >= 1000000)
                snprintf(text, sizeof(text), "%.1fM", (double)n / 1e6);
        else
                snprintf(text, sizeof(text), "%.1fK", (double)n / 1e3);
        json_put_key_string(j, "parameter_size", text);
}

static void put_details(struct json *j, const struct backend_model *model) {
        json_put_key(j, "details");
        json_object_begin(j);
        json_put_key_string(j, "parent_model", "");
        json_put_key_string(j, "format", "gguf");
        json_put_key_string(j, "family", model->architecture);
        json_put_key(j, "families");
        json_array_begin(j);
        json_put_string(j, model->architecture);
        json_array_end(j);
        put_parameters(j, model->n_params);
        json_put_key_string(j, "quantization_level", "unknown");
        json_object_end(j);
}

static void put_capabilities(struct json *j, const struct backend_model *model) {
        json_put_key(j, "capabilities");
        json_array_begin(j);
        json_put_string(j, "completion");
        if (model->takes_tools)
                json_put_string(j, "tools");
        if (model->reasons)
                json_put_string(j, "thinking");
        json_array_end(j);
}

void ollama_put_model(struct json *j, const struct backend_model *model, bool loaded) {
        char name[sizeof(model->name) + 8];

        snprintf(
                name, sizeof(name), "%s%s", model->name, strchr(model->name, ':') ? "" : ":latest");
        json_object_begin(j);
        json_put_key_string(j, "name", name);
        json_put_key_string(j, "model", name);
        if (!loaded)
                put_time(j, "modified_at", model->since_usec);
        json_put_key_u64(j, "size", model->weights_size);
        json_put_key_string(j, "digest", model->fingerprint);
        put_details(j, model);
        if (loaded) {
                put_time(j, "expires_at", clock_realtime_usec() + CENTURY_USEC);
                json_put_key_u64(j, "size_vram", 0);
                json_put_key_u64(j, "context_length", model->context);
        } else {
                put_capabilities(j, model);
        }
        json_object_end(j);
}

/* A key that begins with the architecture's name. */
static void put_of_arch(
        struct json *j, const struct backend_model *model, const char *key, uint64_t value) {
        char name[sizeof(model->architecture) + 32];

        snprintf(name, sizeof(name), "%s.%s", model->architecture, key);
        json_put_key_u64(j, name, value);
}

int ollama_write_show(struct buf *out, const struct backend_model *model) {
        struct json j;

        json_init(&j, out);
        json_object_begin(&j);
        json_put_key_string(&j, "modelfile", "");
        json_put_key_string(&j, "parameters", "");
        json_put_key_string(&j, "template", "");
        put_details(&j, model);
        json_put_key(&j, "model_info");
        json_object_begin(&j);
        json_put_key_string(&j, "general.architecture", model->architecture);
        json_put_key_string(&j, "general.basename", model->name);
        json_put_key_u64(&j, "general.parameter_count", model->n_params);
        put_of_arch(&j, model, "context_length", model->context);
        put_of_arch(&j, model, "embedding_length", model->n_embd);
        put_of_arch(&j, model, "vocab_size", model->n_vocab);
        json_object_end(&j);
        put_capabilities(&j, model);
        put_time(&j, "modified_at", model->since_usec);
        json_object_end(&j);
        return json_finish(&j);
}
