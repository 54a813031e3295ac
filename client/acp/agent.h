/* SPDX-License-Identifier: MIT */
#pragma once
/*
 * Private to ACP: the agent's state. agent.c has its invariants.
 *
 *   acp_agent_feed()     bytes from the editor: messages are taken, calls begin
 *   acp_agent_process()  the daemon's events: calls go on, are answered
 *   acp_agent_go_on()    after either: prompts that wait for their turn begin
 */
#include "base/list.h"
#include "client/acp/acp.h"
#include "client/acp/line.h"
#include "client/acp/rpc.h"
#include "client/acp/update.h"

/* What editors may have in flight: so many requests, whose lines together have so many bytes. */
#define ACP_CALLS_MAX 256
#define ACP_CALLS_SIZE_MAX ((size_t)32 << 20)

struct acp_agent {
        const struct acp_options *options;
        struct acp_lines lines;
        struct acp_out out;
        struct confab *confab; /* owned; NULL while there is no connection */
        uint32_t context;      /* tokens, of the model; 0: not known */
        struct list calls;     /* struct acp_call, oldest first: requests that are not answered */
        size_t n_calls, calls_size;
        struct list queues; /* struct acp_queue: sessions with prompts */
};

/* ---- calls ---- */

struct acp_call;
struct acp_method {
        const char *name;
        size_t size; /* of its calls: a struct that begins with a struct acp_call, zeroed; 0: that alone */
        /* Begin: 0, and the call is answered now or later; or -1 with *failure, which is the answer. */
        int (*start)(struct acp_call *call, const struct json_value *params,
                struct acp_failure *failure);
        void (*deinit)(struct acp_call *call); /* of what the method's struct has; or NULL */
};

/* A request of the editor's, until it is answered. */
struct acp_call {
        struct list link; /* agent->calls */
        struct acp_agent *agent;
        const struct acp_method *method;
        char *id;         /* owned: as JSON */
        size_t line_size; /* bytes of its line */
        char *session;    /* owned: "sessionId" of its params, or NULL */
        uint64_t request; /* at the daemon; 0: none now */
};

/* Answer the call, whose result is an object: acp_call_result() begins, members are written to the struct json
 * that it returns, acp_call_done() ends and frees the call. */
struct json *acp_call_result(struct acp_call *call);
void acp_call_done(struct acp_call *call);
/* Answer {} and free the call. */
void acp_call_done_empty(struct acp_call *call);
/* Answer with an error and free the call. */
void acp_call_fail(struct acp_call *call, const struct acp_failure *failure);

/* Keep params.sessionId as call->session. 0 or -1. */
int acp_call_take_session(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure);
/* The conversation that call->session names: its number, or its name. 0 or -1. */
int acp_call_ref(struct acp_call *call, struct confab_request *r, struct acp_failure *failure);
/* Send @r to the daemon, connecting if need be; @fn gets its events with the call. 0 or -1. */
int acp_call_submit(struct acp_call *call, const struct confab_request *r, confab_event_fn fn,
        struct acp_failure *failure);
/* The same in an event function: what fails is answered. */
void acp_call_next(struct acp_call *call, const struct confab_request *r, confab_event_fn fn);
/* An event function begins with this: true if the request failed; the call is answered with that, and gone. */
bool acp_call_failed(struct acp_call *call, const struct confab_event *event);

/* ---- prompts ---- */

/* What a session has to do, one thing after the other (prompt.c). It exists while there is something. */
struct acp_queue {
        struct list link; /* agent->queues */
        char *session;
        struct list prompts; /* struct acp_prompt: the first one runs */
        struct list endings; /* struct acp_ending: wait until there is no prompt */
};
struct acp_ending {
        struct acp_call call;
        struct list link;
};

struct acp_queue *acp_queue_find(struct acp_agent *agent, const char *session);
/* The session's queue, made if need be; NULL: no memory. */
struct acp_queue *acp_queue_get(struct acp_agent *agent, const char *session);
/* All prompts of the queue (may be NULL) end early. Some are answered at once. */
void acp_queue_cancel(struct acp_queue *queue);

/* All prompts of its session are answered: go on with a session/close or session/delete. */
void acp_ending_go(struct acp_ending *ending);

extern const struct acp_method acp_method_new, acp_method_resume, acp_method_fork, acp_method_load,
        acp_method_list, acp_method_prompt, acp_method_close, acp_method_delete;

/* ---- the agent ---- */

/* *agent is to be deinitialised in every case. @options is borrowed. */
void acp_agent_init(struct acp_agent *agent, const struct acp_options *options);
/* Calls in flight get no answer. */
void acp_agent_deinit(struct acp_agent *agent);
/* Take bytes from the editor; @ended: no more will come. 0, -ERR_NOMEM. */
int acp_agent_feed(struct acp_agent *agent, const void *bytes, size_t n, bool ended);
/* Send and receive. Not to be called without a connection. */
void acp_agent_process(struct acp_agent *agent);
void acp_agent_go_on(struct acp_agent *agent);
/* Connect unless connected. 0 or -1. */
int acp_agent_connect(struct acp_agent *agent, struct acp_failure *failure);
void acp_agent_complain(struct acp_agent *agent, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));
/* One message of the editor's (methods.c). */
void acp_agent_take(struct acp_agent *agent, const char *line, size_t size);
