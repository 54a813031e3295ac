/* SPDX-License-Identifier: MIT */
/*
 * session/new, session/resume, session/fork. A session is a conversation, and its id the conversation's number; the
 * name of a conversation does as well, so that those of other programs can be loaded.
 *
 * A new session is a throw-away conversation until it is prompted (note.h): editors open sessions that nobody uses.
 * MCP servers that an editor names are not used.
 */
#include "client/acp/session.h"
#include "base/cleanup.h"
#include "client/acp/note.h"
#include "client/acp/params.h"
#include <stdio.h>

int acp_session_params(struct acp_call *call, const struct json_value *params, const char **ret_cwd,
        struct acp_failure *failure) {
        const struct json_value *servers;

        if (acp_param_path(params, "cwd", true, ret_cwd, failure) < 0 ||
                acp_param_array(params, "mcpServers", false, &servers, failure) < 0)
                return -1;
        if (servers && servers->n > 0)
                acp_agent_complain(call->agent, "%s: MCP servers are not used", call->method->name);
        return 0;
}

static void answer_session(struct acp_call *call, const struct confab_conversation *c) {
        struct json *j = acp_call_result(call);
        char number[24];

        snprintf(number, sizeof(number), "%llu", (unsigned long long)c->id);
        json_put_key_string(j, "sessionId", number);
        acp_call_done(call);
}

/* The new conversation is the answer. */
static void on_made(void *userdata, const struct confab_event *event) {
        struct acp_call *call = userdata;

        if (!acp_call_failed(call, event) && event->kind == CONFAB_EVENT_CONVERSATION)
                answer_session(call, event->conversation);
}

/* ---- session/new ---- */

static int start_new(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        static const char *const tags[] = {ACP_TAG};
        const struct acp_options *options = call->agent->options;
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_about about = {.tags = tags,
                .n_tags = ARRAY_SIZE(tags),
                .has_tags = true,
                .has_expires_after = true,
                .expires_after = ACP_EMPTY_EXPIRES};
        _cleanup_(freep) char *metadata = NULL;
        const char *cwd;

        if (acp_session_params(call, params, &cwd, failure) < 0)
                return -1;
        if (acp_note_metadata(NULL, cwd, &metadata) < 0)
                return acp_fail_no_memory(failure);
        about.metadata = metadata;
        r.verb = CONFAB_OPEN;
        r.system = options->system;
        r.overflow = options->overflow;
        r.about = &about;
        return acp_call_submit(call, &r, on_made, failure);
}

const struct acp_method acp_method_new = {"session/new", 0, start_new, NULL};

/* ---- session/resume ---- */

static void on_resumed(void *userdata, const struct confab_event *event) {
        struct acp_call *call = userdata;

        if (!acp_call_failed(call, event) && event->final)
                acp_call_done_empty(call);
}

static int start_resume(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        const char *cwd;

        r.verb = CONFAB_GET;
        if (acp_call_take_session(call, params, failure) < 0 ||
                acp_session_params(call, params, &cwd, failure) < 0 ||
                acp_call_ref(call, &r, failure) < 0)
                return -1;
        return acp_call_submit(call, &r, on_resumed, failure);
}

const struct acp_method acp_method_resume = {"session/resume", 0, start_resume, NULL};

/* ---- session/fork ---- */

struct fork {
        struct acp_call call;
        char *cwd; /* owned */
};

#define TAGS_MAX 32 /* the daemon takes no more */

/* Fork what was found. The new one belongs to @cwd; it is thrown away if the first one would be. */
static void fork_found(struct fork *fork, const struct confab_conversation *c) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct confab_about about = {.title = NULL};
        _cleanup_(freep) char *metadata = NULL;
        const char *tags[TAGS_MAX];
        struct acp_failure failure;

        if (acp_note_metadata(c->about ? c->about->metadata : NULL, fork->cwd, &metadata) < 0) {
                acp_fail_no_memory(&failure);
                acp_call_fail(&fork->call, &failure);
                return;
        }
        about.metadata = metadata;
        about.has_tags = !acp_note_has_tag(c->about) && (!c->about || c->about->n_tags < TAGS_MAX);
        if (about.has_tags) {
                for (; c->about && about.n_tags < c->about->n_tags; about.n_tags++)
                        tags[about.n_tags] = c->about->tags[about.n_tags];
                tags[about.n_tags++] = ACP_TAG;
                about.tags = tags;
        }
        if (c->about && c->about->expires_after > 0) {
                about.has_expires_after = true;
                about.expires_after = c->about->expires_after;
        }
        r.verb = CONFAB_FORK;
        r.conversation_id = c->id;
        r.about = &about;
        acp_call_next(&fork->call, &r, on_made);
}

static void on_fork_found(void *userdata, const struct confab_event *event) {
        struct fork *fork = userdata;

        if (!acp_call_failed(&fork->call, event) && event->kind == CONFAB_EVENT_CONVERSATION)
                fork_found(fork, event->conversation);
}

static int start_fork(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        struct fork *fork = container_of(call, struct fork, call);
        struct confab_request r = CONFAB_REQUEST_INIT;
        const char *cwd;

        r.verb = CONFAB_GET;
        if (acp_call_take_session(call, params, failure) < 0 ||
                acp_session_params(call, params, &cwd, failure) < 0 ||
                acp_call_ref(call, &r, failure) < 0)
                return -1;
        fork->cwd = strdup(cwd);
        if (!fork->cwd)
                return acp_fail_no_memory(failure);
        return acp_call_submit(call, &r, on_fork_found, failure);
}

static void deinit_fork(struct acp_call *call) {
        free(container_of(call, struct fork, call)->cwd);
}

const struct acp_method acp_method_fork = {
        "session/fork", sizeof(struct fork), start_fork, deinit_fork};
