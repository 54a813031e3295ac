/* SPDX-License-Identifier: MIT */
/* Refusals: the status, the fields that clients act on, and the body in the form of a dialect. */
#include "base/json.h"
#include "base/util.h"
#include "client/gateway/gateway-private.h"
#include <stdio.h>

const char *gateway_code(unsigned status) {
        switch (status) {
        case 401:
        case 403:
        case 421:
                return CONFAB_PERMISSION;
        case 404:
                return CONFAB_NOT_FOUND;
        case 409:
                return CONFAB_CONFLICT;
        case 408:
        case 413:
        case 414:
        case 429:
        case 431:
                return CONFAB_LIMIT;
        case 405:
        case 415:
        case 417:
        case 501:
        case 505:
                return CONFAB_UNSUPPORTED;
        case 503:
                return CONFAB_UNAVAILABLE;
        default:
                return status < 500 ? CONFAB_INVALID : CONFAB_SYSTEM;
        }
}

int gateway_plain_error(struct buf *out, unsigned status, const char *code, const char *message,
        const char *param) {
        struct json json;

        json_init(&json, out);
        json_object_begin(&json);
        json_put_key(&json, "error");
        json_object_begin(&json);
        json_put_key_u64(&json, "status", status);
        json_put_key_string(&json, "code", code);
        json_put_key_string(&json, "message", message);
        if (param) {
                json_put_key_string(&json, "param", param);
        }
        json_object_end(&json);
        json_object_end(&json);
        return json_finish(&json);
}

/* SDKs try these again on their own. Without a time after which that makes sense it makes none. */
static bool is_retried(unsigned status) {
        return status == 408 || status == 409 || status == 429 || status >= 500;
}

static int add_fields(struct gateway_call *call, const struct talk_error *error) {
        char text[16];
        int r = 0;

        if (error->retry_after > 0) {
                snprintf(text, sizeof(text), "%u", error->retry_after);
                r = http_add_header(call->exchange, "Retry-After", text);
        } else if (is_retried(error->status)) {
                r = http_add_header(call->exchange, "x-should-retry", "false");
        }
        if (r == 0 && error->status == 401)
                r = http_add_header(call->exchange, "WWW-Authenticate", "Bearer");
        return r;
}

int gateway_error_text(
        struct buf *out, const char *code, const char *too_long, const char *message) {
        bool is_too_long = code && strcmp(code, CONFAB_CONTEXT) == 0;
        int r = is_too_long ? buf_append_str(out, too_long) : 0;

        return r < 0 ? r : buf_append_str(out, message ? message : "");
}

void gateway_refuse_body(
        struct gateway_call *call, const struct talk_error *error, const struct buf *body) {
        if (call->refused && call->refused(call, &error, &body))
                return;
        if (add_fields(call, error) < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else
                http_reply(
                        call->exchange, error->status, "application/json", body->data, body->size);
}

void gateway_refuse(struct gateway_call *call, const struct gateway_dialect *dialect,
        const struct talk_error *error) {
        struct buf body = BUF_NULL;

        if (dialect->error(&body, error->status,
                    error->code ? error->code : gateway_code(error->status),
                    error->message ? error->message : "", error->param) < 0)
                http_reply(call->exchange, 503, NULL, NULL, 0);
        else
                gateway_refuse_body(call, error, &body);
        buf_deinit(&body);
}

static unsigned status_of(const struct err *e) {
        switch (e->code) {
        case ERR_FORMAT:
        case ERR_INVALID:
        case ERR_CONTEXT:
        case ERR_STATE:
        case ERR_UNSUPPORTED:
                return 400;
        case ERR_PERMISSION:
                return 403;
        case ERR_NOT_FOUND:
                return 404;
        case ERR_EXISTS:
        case ERR_CONFLICT:
        case ERR_MOVED:
                return 409;
        case ERR_TOO_LARGE:
                return 413;
        case ERR_LIMIT:
        case ERR_BUSY:
                return 429;
        case ERR_NOMEM:
        case ERR_SHUTDOWN:
        case ERR_UNAVAILABLE:
                return 503;
        default:
                return 500;
        }
}

void gateway_error_from(struct talk_error *ret, const struct err *e) {
        *ret = (struct talk_error){.status = status_of(e), .message = e->msg};
        ret->code = e->code == ERR_CONTEXT ? CONFAB_CONTEXT : gateway_code(ret->status);
        ret->retry_after = ret->status == 429 || ret->status == 503;
}

void gateway_refuse_err(
        struct gateway_call *call, const struct gateway_dialect *dialect, const struct err *e) {
        struct talk_error error;

        gateway_error_from(&error, e);
        gateway_refuse(call, dialect, &error);
}

void gateway_reply_json(struct gateway_call *call, const struct buf *json) {
        http_reply(call->exchange, 200, "application/json", json->data, json->size);
}
