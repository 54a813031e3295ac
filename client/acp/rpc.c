/* SPDX-License-Identifier: MIT */
/*
 * JSON-RPC 2.0, as ACP uses it.
 *
 * 1. A line is one object. Arrays (batches) are refused as a whole: ACP has none.
 * 2. An id is a string, a number or null, and is echoed as it came. A message with "id" and "method" is a request,
 *    one without "id" a notification, one with neither "method" but "result" or "error" an answer.
 * 3. A line that is no JSON is answered with id null; anything else that is wrong with its own id, if it has one.
 * 4. JSON is read with libjansson and written with base/json.h.
 */
#include "client/acp/rpc.h"
#include "base/err.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failures ---- */

int acp_fail(struct acp_failure *failure, enum acp_code code, const char *fmt, ...) {
        va_list ap;

        *failure = (struct acp_failure){.code = code};
        va_start(ap, fmt);
        vsnprintf(failure->message, sizeof(failure->message), fmt, ap);
        va_end(ap);
        return -1;
}

int acp_fail_no_memory(struct acp_failure *failure) {
        const struct confab_error e = {CONFAB_NO_MEMORY, "no memory", true};

        return acp_fail_daemon(failure, &e);
}

int acp_fail_daemon(struct acp_failure *failure, const struct confab_error *e) {
        enum acp_code code = confab_error_is(e, CONFAB_NOT_FOUND)   ? ACP_CODE_NOT_FOUND
                             : confab_error_is(e, CONFAB_INVALID)   ? ACP_CODE_PARAMS
                             : confab_error_is(e, CONFAB_CANCELLED) ? ACP_CODE_CANCELLED
                                                                    : ACP_CODE_INTERNAL;

        acp_fail(failure, code, "%s", e->message);
        snprintf(failure->word, sizeof(failure->word), "%s", e->code);
        failure->retry = e->retry;
        return -1;
}

/* ---- what comes ---- */

static int load(json_t **ret, const char *line, size_t size, struct acp_failure *failure) {
        json_error_t e;

        *ret = json_loadb(line, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
        if (*ret)
                return 0;
        /* where jansson's own allocations fail it says so, or nothing */
        if (!e.text[0] || json_error_code(&e) == json_error_out_of_memory)
                return acp_fail_no_memory(failure);
        return acp_fail(failure, ACP_CODE_PARSE, "no JSON: %s (byte %d)", e.text, e.position);
}

static int take_id(struct acp_message *message, bool *has_id, struct acp_failure *failure) {
        json_t *id = json_object_get(message->root, "id");

        *has_id = id != NULL;
        if (id && !json_is_string(id) && !json_is_number(id) && !json_is_null(id))
                return acp_fail(failure, ACP_CODE_REQUEST, "id is a string or a number");
        message->id = id;
        return 0;
}

static int take_method(struct acp_message *message, struct acp_failure *failure) {
        const json_t *method = json_object_get(message->root, "method");
        const json_t *params = json_object_get(message->root, "params");

        if (!json_is_string(method))
                return acp_fail(
                        failure, ACP_CODE_REQUEST, "method is %s", method ? "a string" : "missing");
        if (params && !json_is_null(params) && !json_is_object(params))
                return acp_fail(failure, ACP_CODE_PARAMS, "params is an object");
        message->method = json_string_value(method);
        message->params = json_is_object(params) ? params : NULL;
        return 0;
}

int acp_message_parse(
        struct acp_message *ret, const char *line, size_t size, struct acp_failure *failure) {
        const char *version;
        bool has_id;

        *ret = ACP_MESSAGE_NULL;
        if (load(&ret->root, line, size, failure) < 0)
                return -1;
        if (json_is_array(ret->root))
                return acp_fail(
                        failure, ACP_CODE_REQUEST, "batches are not taken: one message a line");
        if (!json_is_object(ret->root))
                return acp_fail(failure, ACP_CODE_REQUEST, "a message is an object");
        if (take_id(ret, &has_id, failure) < 0)
                return -1;
        version = json_string_value(json_object_get(ret->root, "jsonrpc"));
        if (!version || strcmp(version, "2.0") != 0)
                return acp_fail(failure, ACP_CODE_REQUEST, "jsonrpc is not \"2.0\"");
        if (!json_object_get(ret->root, "method") &&
                (json_object_get(ret->root, "result") || json_object_get(ret->root, "error"))) {
                ret->kind = ACP_ANSWER;
                return 0;
        }
        ret->kind = has_id ? ACP_REQUEST : ACP_NOTIFICATION;
        return take_method(ret, failure);
}

void acp_message_deinit(struct acp_message *message) {
        json_decref(message->root);
        *message = ACP_MESSAGE_NULL;
}

/* ---- what goes out ---- */

static void begin(struct acp_out *out) {
        out->mark = out->buf.size;
        json_init(&out->json, &out->buf);
        json_object_begin(&out->json);
        json_put_key(&out->json, "jsonrpc");
        json_put_string(&out->json, "2.0");
}

static void end(struct acp_out *out) {
        int r;

        json_object_end(&out->json);
        r = json_finish(&out->json);
        if (r == 0)
                r = buf_append_str(&out->buf, "\n");
        if (r < 0 && out->error == 0)
                out->error = r;
        if (out->error)
                out->buf.size = out->mark;
}

static void put_id(struct acp_out *out, const json_t *id) {
        json_put_key(&out->json, "id");
        acp_put_value(&out->json, id);
}

void acp_result_begin(struct acp_out *out, const json_t *id) {
        begin(out);
        put_id(out, id);
        json_put_key(&out->json, "result");
        json_object_begin(&out->json);
}

void acp_result_end(struct acp_out *out) {
        json_object_end(&out->json);
        end(out);
}

void acp_put_error(struct acp_out *out, const json_t *id, const struct acp_failure *failure) {
        struct json *j = &out->json;

        begin(out);
        put_id(out, id);
        json_put_key(j, "error");
        json_object_begin(j);
        json_put_key(j, "code");
        json_put_i64(j, failure->code);
        json_put_key(j, "message");
        json_put_string(j, failure->message);
        if (failure->word[0]) {
                json_put_key(j, "data");
                json_object_begin(j);
                json_put_key(j, "code");
                json_put_string(j, failure->word);
                json_put_key(j, "retry");
                json_put_bool(j, failure->retry);
                json_object_end(j);
        }
        json_object_end(j);
        end(out);
}

void acp_update_begin(struct acp_out *out, const char *session, const char *kind) {
        struct json *j = &out->json;

        begin(out);
        json_put_key(j, "method");
        json_put_string(j, "session/update");
        json_put_key(j, "params");
        json_object_begin(j);
        json_put_key(j, "sessionId");
        json_put_string(j, session);
        json_put_key(j, "update");
        json_object_begin(j);
        json_put_key(j, "sessionUpdate");
        json_put_string(j, kind);
}

void acp_update_end(struct acp_out *out) {
        json_object_end(&out->json);
        json_object_end(&out->json);
        end(out);
}

static void put_object(struct json *j, const json_t *value) {
        /* jansson's iterator is not const, but changes nothing */
        json_t *object = json_incref((json_t *)(uintptr_t)value), *member;
        const char *key;

        json_object_begin(j);
        json_object_foreach(object, key, member) {
                json_put_key(j, key);
                acp_put_value(j, member);
        }
        json_object_end(j);
        json_decref(object);
}

static void put_array(struct json *j, const json_t *value) {
        json_array_begin(j);
        for (size_t i = 0; i < json_array_size(value) && j->error == 0; i++)
                acp_put_value(j, json_array_get(value, i));
        json_array_end(j);
}

/* Ends: json_object_begin() fails beyond its depth, and then nothing deeper is looked at. */
void acp_put_value(struct json *j, const json_t *value) {
        if (j->error)
                return;
        switch (value ? json_typeof(value) : JSON_NULL) {
        case JSON_OBJECT:
                put_object(j, value);
                break;
        case JSON_ARRAY:
                put_array(j, value);
                break;
        case JSON_STRING:
                json_put_string_n(j, json_string_value(value), json_string_length(value));
                break;
        case JSON_INTEGER:
                json_put_i64(j, json_integer_value(value));
                break;
        case JSON_REAL:
                json_put_double(j, json_real_value(value));
                break;
        case JSON_TRUE:
        case JSON_FALSE:
                json_put_bool(j, json_is_true(value));
                break;
        case JSON_NULL:
                json_put_null(j);
                break;
        }
}
