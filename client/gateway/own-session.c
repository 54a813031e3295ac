/* SPDX-License-Identifier: MIT */
/*
 * POST /confab/v1/session: the token of a gateway that its user runs to see the page (show.h), in exchange for a code. Everybody may
 * ask, so the code is looked at first, and only for the right one the kernel is asked who has sent it.
 */
#include "base/json.h"
#include "client/gateway/answer.h"
#include "client/gateway/gateway-private.h"
#include "client/gateway/own.h"
#include "client/gateway/show.h"
#include <unistd.h>

static int read_code(struct gateway_call *call, json_t **body, const char **ret,
        struct fields *fields, struct err *e) {
        int r = answer_read_body(call, body, e);

        if (r == 0)
                r = fields_string(fields, *body, "code", ret, e);
        if (r == 0 && !*ret)
                r = fields_wrong(fields, "code", "given", e);
        return r;
}

/* 0; -ERR_PERMISSION. */
static int exchange(struct gateway_call *call, const char *code, const char **ret, struct err *e) {
        struct show *show = call->gateway->options.show;
        uid_t uid;
        int r;

        if (!show || !show_knows(show, code))
                return err_set(e, ERR_PERMISSION, "the link is of no use any more");
        r = http_find_peer_uid(call->exchange, &uid, e);
        if (r < 0 || uid != geteuid())
                return err_set(e, ERR_PERMISSION, "the link is for the user who runs the gateway");
        *ret = show_exchange(show);
        return 0;
}

static int write_token(struct buf *out, const char *token) {
        struct json json;

        json_init(&json, out);
        json_object_begin(&json);
        json_put_key_string(&json, "token", token);
        json_object_end(&json);
        return json_finish(&json);
}

void own_handle_session(struct gateway_call *call) {
        struct fields fields = FIELDS_NULL;
        struct buf answer = BUF_NULL;
        const char *code = NULL, *token = NULL;
        json_t *body = NULL;
        struct err e = {};
        int r = read_code(call, &body, &code, &fields, &e);

        if (r == 0)
                r = exchange(call, code, &token, &e);
        if (r == 0 && write_token(&answer, token) < 0)
                r = err_no_memory(&e);
        if (r < 0)
                own_refuse_err(call, &e, fields.wrong);
        else
                gateway_reply_json(call, &answer);
        if (answer.data)
                explicit_bzero(answer.data, answer.size);
        buf_deinit(&answer);
        json_decref(body);
}
