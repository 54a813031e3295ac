/* SPDX-License-Identifier: MIT */
/*
 * Fields that chat completions and completions have in common. What is absent stays unset, so the daemon's
 * defaults hold; limits that a client may give (OpenAI's) are checked here, because the error can name the field.
 * Beside OpenAI's fields those of other servers that many clients can be told to send are known: top_k, min_p,
 * repetition_penalty.
 */
#include "client/gateway/openai.h"
#include "base/util.h"
#include "client/gateway/form-json.h"
#include <errno.h>

/* The first two are the daemon's. */
enum { MAX_BIASES = 64, MAX_STOPS = 16, MAX_SESSION_SIZE = 256, MAX_METADATA_SIZE = 16 << 10 };

int openai_unsupported(struct fields *fields, const char *name, const char *why, struct err *e) {
        fields_wrong(fields, name, "supported", NULL);
        return err_set(e, ERR_UNSUPPORTED, "%s: %s", fields->wrong, why);
}

/* A number of the sampling: sets @bit if it is there. */
static int read_number(struct form *form, struct fields *fields, const json_t *root,
        const char *name, double min, double max, uint32_t bit, float *ret, struct err *e) {
        double number;
        bool has = false;
        int r = fields_number(fields, root, name, min, max, &number, &has, e);

        if (r < 0 || !has)
                return r;
        *ret = (float)number;
        form_fields(form)->sampling.has |= bit;
        return 0;
}

static int read_numbers(
        struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        struct confab_sampling *sampling = &form_fields(form)->sampling;
        const struct {
                const char *name;
                double min, max;
                uint32_t bit;
                float *ret;
        } numbers[] = {
                {"temperature", 0, 2, CONFAB_HAS_TEMPERATURE, &sampling->temperature},
                {"top_p", 0, 1, CONFAB_HAS_TOP_P, &sampling->top_p},
                {"min_p", 0, 1, CONFAB_HAS_MIN_P, &sampling->min_p},
                {"presence_penalty", -2, 2, CONFAB_HAS_PRESENCE_PENALTY,
                        &sampling->presence_penalty},
                {"frequency_penalty", -2, 2, CONFAB_HAS_FREQUENCY_PENALTY,
                        &sampling->frequency_penalty},
                {"repetition_penalty", 0.01, 10, CONFAB_HAS_REPETITION_PENALTY,
                        &sampling->repetition_penalty},
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(numbers); i++)
                r = read_number(form, fields, root, numbers[i].name, numbers[i].min, numbers[i].max,
                        numbers[i].bit, numbers[i].ret, e);
        return r;
}

/* seed and top_k; -1 means "none" to clients of other servers. */
static int read_integers(
        struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        struct confab_sampling *sampling = &form_fields(form)->sampling;
        int64_t number;
        bool has = false;
        int r;

        r = fields_integer(fields, root, "seed", INT64_MIN, INT64_MAX, &number, &has, e);
        if (r < 0)
                return r;
        if (has && number != -1) {
                sampling->seed = (uint64_t)number;
                sampling->has |= CONFAB_HAS_SEED;
        }
        r = fields_integer(fields, root, "top_k", -1, INT32_MAX, &number, &has, e);
        if (r < 0 || !has)
                return r;
        sampling->top_k = number < 0 ? 0 : (uint32_t)number;
        sampling->has |= CONFAB_HAS_TOP_K;
        return 0;
}

static int read_biases(
        struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        json_t *object, *value;
        struct confab_bias *biases;
        size_t n = 0, length;
        const char *key;
        int r = fields_object(fields, root, "logit_bias", &object, e);

        if (r < 0 || !object || json_object_size(object) == 0)
                return r;
        if (json_object_size(object) > MAX_BIASES)
                return fields_wrong(fields, "logit_bias", "an object of at most 64 tokens", e);
        biases = form_alloc(form, json_object_size(object) * sizeof(*biases));
        if (!biases)
                return err_no_memory(e);
        length = fields_enter_name(fields, "logit_bias");
        json_object_foreach(object, key, value) {
                double bias;
                bool has = false;
                char *end;
                long token;

                errno = 0;
                token = strtol(key, &end, 10);
                if (key[0] < '0' || key[0] > '9' || *end || errno || token > INT32_MAX)
                        return fields_wrong(fields, key, "the number of a token", e);
                r = fields_number(fields, object, key, -100, 100, &bias, &has, e);
                if (r < 0)
                        return r;
                if (has)
                        biases[n++] = (struct confab_bias){(int32_t)token, (float)bias};
        }
        fields_leave(fields, length);
        form_fields(form)->sampling.biases = biases;
        form_fields(form)->sampling.n_biases = n;
        return 0;
}

static int add_stop(struct form *form, struct fields *fields, const char *text, struct err *e) {
        if (!text[0]) /* ends nothing */
                return 0;
        if (form_fields(form)->n_stops == MAX_STOPS) {
                fields_leave(fields, 0);
                return fields_wrong(fields, "stop", "a list of at most 16 strings", e);
        }
        return form_add_stop(form, text) < 0 ? err_no_memory(e) : 0;
}

static int read_stops(struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        json_t *value = json_object_get(root, "stop"), *item;
        const char *text;
        size_t i;
        int r;

        if (!value || json_is_null(value))
                return 0;
        if (json_is_string(value)) {
                r = fields_string(fields, root, "stop", &text, e);
                return r < 0 ? r : add_stop(form, fields, text, e);
        }
        if (!json_is_array(value))
                return fields_wrong(fields, "stop", "a string or an array of strings", e);
        json_array_foreach(value, i, item) {
                size_t length = fields_enter(fields, "stop", i);

                r = fields_be_string(fields, item, &text, e);
                if (r == 0)
                        r = add_stop(form, fields, text, e);
                if (r < 0)
                        return r;
                fields_leave(fields, length);
        }
        return 0;
}

static int read_stream(
        struct openai_options *options, struct fields *fields, const json_t *root, struct err *e) {
        json_t *object;
        size_t length;
        int r = fields_bool(fields, root, "stream", &options->stream, e);

        if (r == 0)
                r = fields_object(fields, root, "stream_options", &object, e);
        if (r < 0 || !object)
                return r;
        length = fields_enter_name(fields, "stream_options");
        r = fields_bool(fields, object, "include_usage", &options->include_usage, e);
        if (r == 0)
                fields_leave(fields, length);
        return r;
}

/* What the client calls its chat, and what it notes about it. What does not fit is not noted. */
static int read_notes(struct form *form, struct fields *fields, const json_t *root, struct err *e) {
        struct form_fields *to = form_fields(form);
        const char *session;
        json_t *metadata;
        int r = fields_string(fields, root, "prompt_cache_key", &session, e);

        if (r == 0)
                r = fields_object(fields, root, "metadata", &metadata, e);
        if (r < 0)
                return r;
        if (session && session[0] && strlen(session) <= MAX_SESSION_SIZE) {
                to->session = form_strdup(form, session);
                if (!to->session)
                        return err_no_memory(e);
        }
        if (metadata && json_object_size(metadata) > 0) {
                const char *text;

                r = form_dump(form, metadata, &text, e);
                if (r < 0)
                        return r;
                if (strlen(text) <= MAX_METADATA_SIZE)
                        to->metadata = text;
        }
        return 0;
}

int openai_read_limit(struct form *form, struct fields *fields, const json_t *root,
        const char *name, struct err *e) {
        int64_t number;
        bool has = false;
        int r = fields_integer(fields, root, name, -1, INT64_MAX, &number, &has, e);

        if (r < 0 || !has || number < 0)
                return r;
        form_fields(form)->has_max_tokens = true;
        form_fields(form)->max_tokens = (uint32_t)MIN(number, (int64_t)UINT32_MAX);
        return 0;
}

int openai_read_common(struct form *form, struct openai_options *options, struct fields *fields,
        const json_t *root, struct err *e) {
        struct form_fields *to = form_fields(form);
        const char *model;
        int64_t n = 1;
        int r = fields_string(fields, root, "model", &model, e);

        if (r == 0)
                r = fields_integer(fields, root, "n", 1, OPENAI_MAX_CHOICES, &n, NULL, e);
        if (r == 0)
                r = read_numbers(form, fields, root, e);
        if (r == 0)
                r = read_integers(form, fields, root, e);
        if (r == 0)
                r = read_biases(form, fields, root, e);
        if (r == 0)
                r = read_stops(form, fields, root, e);
        if (r == 0)
                r = read_stream(options, fields, root, e);
        if (r == 0)
                r = read_notes(form, fields, root, e);
        if (r < 0)
                return r;
        to->n = (unsigned)n;
        to->stream = options->stream;
        to->tag = "openai";
        if (model) {
                to->model = form_strdup(form, model);
                if (!to->model)
                        return err_no_memory(e);
        }
        return 0;
}
