/* SPDX-License-Identifier: MIT */
/*
 * The agent: calls, and the connection to the daemon.
 *
 * 1. Sessions are conversations, and the agent keeps nothing about them: each call asks the daemon. So what a
 *    session is survives the end of this program and of the daemon, and other programs may change it meanwhile.
 * 2. A request is a call from its line to its answer, and gets exactly one. If an answer cannot be written
 *    (out.error), the program ends, and the editor sees that.
 * 3. A call has at most one request at the daemon. Its events drive the call; the final one always comes, also when
 *    the connection breaks (confab.h).
 * 4. A connection is made by the first call that needs one, and freed when it is over; the next call makes another
 *    one. It is over only within acp_agent_process(), which frees it behind the last event; calls that begin in
 *    between fail with its reason.
 */
#include "client/acp/agent.h"
#include "client/acp/params.h"
#include "client/cli.h"
#include <stdarg.h>

void acp_agent_init(struct acp_agent *agent, const struct acp_options *options) {
        *agent = (struct acp_agent){
                .options = options, .lines = ACP_LINES_NULL, .out = ACP_OUT_NULL};
        list_init(&agent->calls);
        list_init(&agent->queues);
}

static void call_free(struct acp_call *call) {
        list_unlink(&call->link);
        call->agent->n_calls--;
        call->agent->calls_size -= call->line_size;
        if (call->method->deinit)
                call->method->deinit(call);
        free(call->id);
        free(call->session);
        free(call);
}

void acp_agent_deinit(struct acp_agent *agent) {
        agent->confab = confab_free(agent->confab);
        while (!list_empty(&agent->calls))
                call_free(list_entry(agent->calls.next, struct acp_call, link));
        acp_agent_go_on(agent); /* queues without calls go */
        acp_lines_deinit(&agent->lines);
        buf_deinit(&agent->out.buf);
}

void acp_agent_complain(struct acp_agent *agent, const char *fmt, ...) {
        char words[512];
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(words, sizeof(words), fmt, ap);
        va_end(ap);
        agent->options->complain(agent->options->userdata, words);
}

/* ---- the connection ---- */

static void on_model(void *userdata, const struct confab_event *event) {
        struct acp_agent *agent = userdata;

        if (event->kind == CONFAB_EVENT_MODEL_INFO)
                agent->context = event->model_info->context;
}

int acp_agent_connect(struct acp_agent *agent, struct acp_failure *failure) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_error e;

        if (agent->confab)
                return 0;
        if (agent->options->connect(agent->options->userdata, &agent->confab, &e) < 0)
                return acp_fail_daemon(failure, &e);
        /* The model may be another one than before. Without an answer there are no usage updates. */
        agent->context = 0;
        r.verb = CONFAB_MODEL_INFO;
        confab_submit(agent->confab, &r, on_model, agent, NULL, NULL);
        return 0;
}

void acp_agent_process(struct acp_agent *agent) {
        if (confab_process(agent->confab, NULL) < 0)
                agent->confab = confab_free(agent->confab);
}

/* ---- calls ---- */

struct json *acp_call_result(struct acp_call *call) {
        acp_result_begin(&call->agent->out, call->id);
        return &call->agent->out.json;
}

void acp_call_done(struct acp_call *call) {
        acp_result_end(&call->agent->out);
        call_free(call);
}

void acp_call_done_empty(struct acp_call *call) {
        acp_call_result(call);
        acp_call_done(call);
}

void acp_call_fail(struct acp_call *call, const struct acp_failure *failure) {
        acp_put_error(&call->agent->out, call->id, failure);
        call_free(call);
}

int acp_call_take_session(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        const char *session;

        if (acp_param_string(params, "sessionId", &session, failure) < 0)
                return -1;
        call->session = strdup(session);
        return call->session ? 0 : acp_fail_no_memory(failure);
}

int acp_call_ref(struct acp_call *call, struct confab_request *r, struct acp_failure *failure) {
        const struct confab_error e = {
                .code = CONFAB_NOT_FOUND, .message = "there is no conversation of this number"};

        return cli_parse_ref(call->session, r) == 0 ? 0 : acp_fail_daemon(failure, &e);
}

int acp_call_submit(struct acp_call *call, const struct confab_request *r, confab_event_fn fn,
        struct acp_failure *failure) {
        struct confab_error e;

        if (acp_agent_connect(call->agent, failure) < 0)
                return -1;
        if (confab_submit(call->agent->confab, r, fn, call, &call->request, &e) < 0)
                return acp_fail_daemon(failure, &e);
        return 0;
}

void acp_call_next(struct acp_call *call, const struct confab_request *r, confab_event_fn fn) {
        struct acp_failure failure;

        if (acp_call_submit(call, r, fn, &failure) < 0)
                acp_call_fail(call, &failure);
}

bool acp_call_failed(struct acp_call *call, const struct confab_event *event) {
        struct acp_failure failure;

        if (event->final)
                call->request = 0;
        if (event->kind != CONFAB_EVENT_ERROR)
                return false;
        acp_fail_daemon(&failure, event->error);
        acp_call_fail(call, &failure);
        return true;
}
