/* SPDX-License-Identifier: MIT */
/*
 * session/load: the history is told as updates, page by page, and then the call is answered. A page is asked for when
 * the one before it has been written to the output, and nothing is asked for while the editor does not read, so
 * memory is bounded by a page. Turns that come while the pages are told are told as well. Of a damaged history
 * what can be read is told.
 */
#include "client/acp/session.h"

#define PAGE_TURNS 16

struct load {
        struct acp_call call;
        uint32_t next; /* number of the first turn that is not told */
};

static void on_page(void *userdata, const struct confab_event *event);

static void page_request(const struct load *load, struct confab_request *r) {
        r->verb = CONFAB_GET;
        r->want_turns = r->want_parts = true;
        r->max_turns = PAGE_TURNS;
        r->has_from_turn = true;
        r->from_turn = load->next;
}

static void told(struct load *load, const struct confab_conversation *c) {
        struct acp_agent *agent = load->call.agent;

        if (c->damaged)
                acp_agent_complain(agent, "session %s: its history is damaged from turn %u on",
                        load->call.session, c->damaged_turn);
        if (agent->context > 0)
                acp_update_usage(&agent->out, load->call.session,
                        c->n_tokens - (c->dropped_to - c->dropped_from), agent->context);
        acp_call_done_empty(&load->call);
}

static void on_page(void *userdata, const struct confab_event *event) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct confab_conversation *c = event->conversation;
        struct load *load = userdata;

        if (acp_call_failed(&load->call, event) || event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        for (size_t i = 0; i < c->n_turn_list; i++)
                acp_update_turn(&load->call.agent->out, load->call.session, &c->turns[i]);
        load->next += (uint32_t)c->n_turn_list;
        if (c->n_turn_list == 0 || c->damaged || load->next >= c->n_turns) {
                told(load, c);
                return;
        }
        page_request(load, &r);
        r.conversation_id = c->id;
        acp_call_next(&load->call, &r, on_page);
}

static int start_load(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        struct load *load = container_of(call, struct load, call);
        struct confab_request r = CONFAB_REQUEST_INIT;
        const char *cwd;

        page_request(load, &r);
        if (acp_call_take_session(call, params, failure) < 0 ||
                acp_session_params(call, params, &cwd, failure) < 0 ||
                acp_call_ref(call, &r, failure) < 0)
                return -1;
        return acp_call_submit(call, &r, on_page, failure);
}

const struct acp_method acp_method_load = {"session/load", sizeof(struct load), start_load, NULL};
