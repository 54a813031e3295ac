/* SPDX-License-Identifier: MIT */
/*
 * JSON-RPC 2.0, as ACP uses it.
 *
 * 1. A line is one object. Arrays (batches) are refused as a whole: ACP has none.
 * 2. An id is a string, a number or null, and is echoed as it came. A message with "id" and "method" is a request,
 *    one without "id" a notification, one with neither "method" but "result" or "error" an answer.
 * 3. A line that is no JSON is answered with id null; anything else that is wrong with its own id, if it has one.
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
        const struct confab_error e = {
                .code = CONFAB_NO_MEMORY, .message = "no memory", .retry = true};

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

static int load(
        struct json_value **ret, const char *line, size_t size, struct acp_failure *failure) {
        struct err e;
        int r = json_tree_parse(ret, line, size, &e);

        if (r == -ERR_NOMEM)
                return acp_fail_no_memory(failure);
        if (r == -ERR_TOO_LARGE)
                return acp_fail(failure, ACP_CODE_REQUEST, "%s", e.msg);
        return r < 0 ? acp_fail(failure, ACP_CODE_PARSE, "no JSON: %s", e.msg) : 0;
}

static int take_id(
        struct acp_message *message, const struct json_value *id, struct acp_failure *failure) {
        struct buf text = BUF_NULL;
        struct json j;
        int r;

        if (!json_tree_is(id, JSON_KIND_STRING) && !json_tree_is(id, JSON_KIND_NUMBER) &&
                !json_tree_is(id, JSON_KIND_NULL))
                return acp_fail(failure, ACP_CODE_REQUEST, "id is a string or a number");
        json_init(&j, &text);
        json_tree_put(&j, id);
        r = json_finish(&j);
        if (r == 0)
                message->id = buf_take(&text, NULL);
        buf_deinit(&text);
        return message->id ? 0 : acp_fail_no_memory(failure);
}

static int take_method(struct acp_message *message, struct acp_failure *failure) {
        const struct json_value *method = json_tree_get(message->root, "method");
        const struct json_value *params = json_tree_get(message->root, "params");

        message->method = json_tree_string(method);
        if (!message->method)
                return acp_fail(
                        failure, ACP_CODE_REQUEST, "method is %s", method ? "a string" : "missing");
        if (params && !json_tree_is(params, JSON_KIND_NULL) &&
                !json_tree_is(params, JSON_KIND_OBJECT))
                return acp_fail(failure, ACP_CODE_PARAMS, "params is an object");
        message->params = json_tree_is(params, JSON_KIND_OBJECT) ? params : NULL;
        return 0;
}

int acp_message_parse(
        struct acp_message *ret, const char *line, size_t size, struct acp_failure *failure) {
        const struct json_value *id;
        const char *version;

        *ret = ACP_MESSAGE_NULL;
        if (load(&ret->root, line, size, failure) < 0)
                return -1;
        if (json_tree_is(ret->root, JSON_KIND_ARRAY))
                return acp_fail(
                        failure, ACP_CODE_REQUEST, "batches are not taken: one message a line");
        if (!json_tree_is(ret->root, JSON_KIND_OBJECT))
                return acp_fail(failure, ACP_CODE_REQUEST, "a message is an object");
        id = json_tree_get(ret->root, "id");
        if (id && take_id(ret, id, failure) < 0)
                return -1;
        version = json_tree_string(json_tree_get(ret->root, "jsonrpc"));
        if (!version || strcmp(version, "2.0") != 0)
                return acp_fail(failure, ACP_CODE_REQUEST, "jsonrpc is not \"2.0\"");
        if (!json_tree_get(ret->root, "method") &&
                (json_tree_get(ret->root, "result") || json_tree_get(ret->root, "error"))) {
                ret->kind = ACP_ANSWER;
                return 0;
        }
        ret->kind = id ? ACP_REQUEST : ACP_NOTIFICATION;
        return take_method(ret, failure);
}

void acp_message_deinit(struct acp_message *message) {
        json_tree_free(message->root);
        free(message->id);
        *message = ACP_MESSAGE_NULL;
}

/* ---- what goes out ---- */

static void begin(struct acp_out *out) {
        out->mark = out->buf.size;
        json_init(&out->json, &out->buf);
        json_object_begin(&out->json);
        json_put_key_string(&out->json, "jsonrpc", "2.0");
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

static void put_id(struct acp_out *out, const char *id) {
        json_put_key(&out->json, "id");
        if (id)
                json_put_raw(&out->json, id, strlen(id));
        else
                json_put_null(&out->json);
}

void acp_result_begin(struct acp_out *out, const char *id) {
        begin(out);
        put_id(out, id);
        json_put_key(&out->json, "result");
        json_object_begin(&out->json);
}

void acp_result_end(struct acp_out *out) {
        json_object_end(&out->json);
        end(out);
}

void acp_put_error(struct acp_out *out, const char *id, const struct acp_failure *failure) {
        struct json *j = &out->json;

        begin(out);
        put_id(out, id);
        json_put_key(j, "error");
        json_object_begin(j);
        json_put_key(j, "code");
        json_put_i64(j, failure->code);
        json_put_key_string(j, "message", failure->message);
        if (failure->word[0]) {
                json_put_key(j, "data");
                json_object_begin(j);
                json_put_key_string(j, "code", failure->word);
                json_put_key_bool(j, "retry", failure->retry);
                json_object_end(j);
        }
        json_object_end(j);
        end(out);
}

void acp_update_begin(struct acp_out *out, const char *session, const char *kind) {
        struct json *j = &out->json;

        begin(out);
        json_put_key_string(j, "method", "session/update");
        json_put_key(j, "params");
        json_object_begin(j);
        json_put_key_string(j, "sessionId", session);
        json_put_key(j, "update");
        json_object_begin(j);
        json_put_key_string(j, "sessionUpdate", kind);
}

void acp_update_end(struct acp_out *out) {
        json_object_end(&out->json);
        json_object_end(&out->json);
        end(out);
}
