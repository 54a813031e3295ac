/* SPDX-License-Identifier: MIT */
/*
 * session/close and session/delete: prompts of the session end early, and when the last one is answered the call
 * goes on. To close a session frees nothing else, for nothing is kept; its conversation stays. To delete it closes
 * the conversation for good. Both succeed where there is nothing to close or delete.
 */
#include "client/acp/agent.h"

static int start_ending(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        struct acp_ending *ending = container_of(call, struct acp_ending, call);
        struct acp_queue *queue;

        list_init(&ending->link);
        if (acp_call_take_session(call, params, failure) < 0)
                return -1;
        queue = acp_queue_get(call->agent, call->session);
        if (!queue)
                return acp_fail_no_memory(failure);
        list_append(&queue->endings, &ending->link);
        acp_queue_cancel(queue);
        return 0;
}

static void deinit_ending(struct acp_call *call) {
        list_unlink(&container_of(call, struct acp_ending, call)->link);
}

const struct acp_method acp_method_close = {
        "session/close", sizeof(struct acp_ending), start_ending, deinit_ending};
const struct acp_method acp_method_delete = {
        "session/delete", sizeof(struct acp_ending), start_ending, deinit_ending};

static void on_deleted(void *userdata, const struct confab_event *event) {
        struct acp_call *call = userdata;

        if (event->kind == CONFAB_EVENT_ERROR && confab_error_is(event->error, CONFAB_NOT_FOUND))
                acp_call_done_empty(call);
        else if (!acp_call_failed(call, event) && event->final)
                acp_call_done_empty(call);
}

void acp_ending_go(struct acp_ending *ending) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct acp_call *call = &ending->call;
        struct acp_failure failure;

        list_unlink(&ending->link);
        r.verb = CONFAB_CLOSE;
        if (call->method == &acp_method_close || acp_call_ref(call, &r, &failure) < 0)
                acp_call_done_empty(call);
        else
                acp_call_next(call, &r, on_deleted);
}
