/* SPDX-License-Identifier: MIT */
/*
 * From a line to its method.
 *
 * 1. A request is answered by its method, or refused here. Notifications are never answered: session/cancel is the
 *    only one that means something, others are told on standard error and forgotten.
 * 2. session/cancel is always taken, however much is in flight.
 * 3. Methods do not depend on initialize: nothing in it changes what the others do.
 */
#include "base/cleanup.h"
#include "client/acp/agent.h"
#include "client/acp/params.h"

/* ---- methods that are answered at once ---- */

#define PROTOCOL_VERSION 1

static void put_capabilities(struct json *j) {
        static const char *const of_sessions[] = {"list", "fork", "resume", "close", "delete"};

        json_put_key(j, "agentCapabilities");
        json_object_begin(j);
        json_put_key_bool(j, "loadSession", true);
        json_put_key(j, "promptCapabilities");
        json_object_begin(j);
        json_put_key_bool(j, "image", false);
        json_put_key_bool(j, "audio", false);
        json_put_key_bool(j, "embeddedContext", true);
        json_object_end(j);
        json_put_key(j, "mcpCapabilities");
        json_object_begin(j);
        json_put_key_bool(j, "http", false);
        json_put_key_bool(j, "sse", false);
        json_object_end(j);
        json_put_key(j, "sessionCapabilities");
        json_object_begin(j);
        for (size_t i = 0; i < ARRAY_SIZE(of_sessions); i++) {
                json_put_key(j, of_sessions[i]);
                json_object_begin(j);
                json_object_end(j);
        }
        json_object_end(j);
        json_object_end(j);
}

/* Whatever version the client knows, the answer is the one that is spoken here: the client decides. */
static int start_initialize(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        int64_t version;
        struct json *j;

        if (acp_param_integer(params, "protocolVersion", &version, failure) < 0)
                return -1;
        j = acp_call_result(call);
        json_put_key_u64(j, "protocolVersion", PROTOCOL_VERSION);
        put_capabilities(j);
        json_put_key(j, "authMethods");
        json_array_begin(j);
        json_array_end(j);
        json_put_key(j, "agentInfo");
        json_object_begin(j);
        json_put_key_string(j, "name", "confab");
        json_put_key_string(j, "version", CONFAB_VERSION);
        json_object_end(j);
        acp_call_done(call);
        return 0;
}

static int start_authenticate(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        const char *method;

        if (acp_param_string(params, "methodId", &method, failure) < 0)
                return -1;
        return acp_fail(failure, ACP_CODE_PARAMS,
                "methodId: there is no method %.64s, and no need to authenticate", method);
}

static const struct acp_method method_initialize = {"initialize", 0, start_initialize, NULL};
static const struct acp_method method_authenticate = {"authenticate", 0, start_authenticate, NULL};

static const struct acp_method *const methods[] = {
        &method_initialize,
        &method_authenticate,
        &acp_method_new,
        &acp_method_load,
        &acp_method_resume,
        &acp_method_list,
        &acp_method_fork,
        &acp_method_close,
        &acp_method_delete,
        &acp_method_prompt,
};

/* ---- from a line to its method ---- */

static const struct acp_method *find(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
                if (strcmp(methods[i]->name, name) == 0)
                        return methods[i];
        return NULL;
}

static int check_room(struct acp_agent *agent, size_t size, struct acp_failure *failure) {
        if (agent->n_calls < ACP_CALLS_MAX && size <= ACP_CALLS_SIZE_MAX - agent->calls_size)
                return 0;
        acp_fail(failure, ACP_CODE_INTERNAL, "too many requests wait for their answers");
        strcpy(failure->word, CONFAB_LIMIT);
        failure->retry = true;
        return -1;
}

static struct acp_call *call_new(struct acp_agent *agent, const struct acp_method *method,
        struct acp_message *message, size_t line_size) {
        struct acp_call *call = calloc(1, method->size ? method->size : sizeof(*call));

        if (!call)
                return NULL;
        call->agent = agent;
        call->method = method;
        call->id = TAKE_PTR(message->id);
        call->line_size = line_size;
        list_append(&agent->calls, &call->link);
        agent->n_calls++;
        agent->calls_size += line_size;
        return call;
}

/* 0: it has become a call; -1: it is refused. */
static int take_request(struct acp_agent *agent, struct acp_message *message, size_t line_size,
        struct acp_failure *failure) {
        const struct acp_method *method = find(message->method);
        struct acp_call *call;

        if (!method)
                return acp_fail(
                        failure, ACP_CODE_METHOD, "there is no method %.64s", message->method);
        if (check_room(agent, line_size, failure) < 0)
                return -1;
        call = call_new(agent, method, message, line_size);
        if (!call)
                return acp_fail_no_memory(failure);
        if (method->start(call, message->params, failure) < 0)
                acp_call_fail(call, failure);
        return 0;
}

static void take_notification(struct acp_agent *agent, const struct acp_message *message) {
        struct acp_failure failure;
        const char *session;

        if (strcmp(message->method, "session/cancel") != 0)
                acp_agent_complain(
                        agent, "the notification %.64s means nothing here", message->method);
        else if (acp_param_string(message->params, "sessionId", &session, &failure) < 0)
                acp_agent_complain(agent, "session/cancel: %s", failure.message);
        else
                acp_queue_cancel(acp_queue_find(agent, session));
}

void acp_agent_take(struct acp_agent *agent, const char *line, size_t size) {
        struct acp_message message;
        struct acp_failure failure;
        int r = acp_message_parse(&message, line, size, &failure);

        if (r == 0 && message.kind == ACP_REQUEST)
                r = take_request(agent, &message, size, &failure);
        else if (r == 0 && message.kind == ACP_NOTIFICATION)
                take_notification(agent, &message);
        else if (r == 0)
                acp_agent_complain(agent, "an answer came, but nothing was asked");
        if (r < 0)
                acp_put_error(&agent->out, message.id, &failure);
        acp_message_deinit(&message);
}

static bool is_blank(const char *line, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (!strchr(" \t\r", line[i]) || !line[i])
                        return false;
        return true;
}

int acp_agent_feed(struct acp_agent *agent, const void *bytes, size_t n, bool ended) {
        struct acp_failure failure;
        const char *line;
        enum acp_line kind;
        size_t size;

        if (n > 0 && acp_lines_add(&agent->lines, bytes, n) < 0)
                return -ERR_NOMEM;
        while ((kind = acp_lines_next(&agent->lines, ended, &line, &size)) != ACP_LINE_NONE) {
                if (kind == ACP_LINE_TOO_LONG) {
                        acp_fail(&failure, ACP_CODE_REQUEST, "the line is longer than %zu bytes",
                                ACP_LINE_MAX);
                        acp_put_error(&agent->out, NULL, &failure);
                } else if (!is_blank(line, size)) {
                        acp_agent_take(agent, line, size);
                }
        }
        return 0;
}
