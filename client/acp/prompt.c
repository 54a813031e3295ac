/* SPDX-License-Identifier: MIT */
/*
 * session/prompt, session/cancel.
 *
 * Prompts of one session run one after the other, in the order in which they came; those of different sessions at
 * the same time. A prompt takes these steps at the daemon:
 *
 *   waits      for those before it                         acp_agent_go_on()
 *   looks      at the conversation, which must exist       Get       on_found()
 *   notes      the title if there is none, and that the    Update    on_noted()
 *              conversation is not thrown away any more;
 *              left out if there is nothing to note
 *   generates  and waits first if another program does     Continue  on_reply()
 *
 * 1. A prompt that is cancelled ends with stopReason "cancelled", in every step; not with what the daemon says about
 *    the cancellation. Other errors stay errors.
 * 2. A conversation is kept before its first prompt is sent: what was said is never thrown away.
 * 3. While a session is to be closed or deleted it takes no prompts; that happens when its last prompt is answered.
 */
#include "client/acp/agent.h"
#include "client/acp/content.h"
#include "client/acp/params.h"

struct acp_prompt {
        struct acp_call call;
        struct list link; /* queue->prompts */
        char *text;       /* owned */
        size_t text_size;
        uint64_t conversation;
        bool started, generating, cancelled;
        struct acp_reply reply;
};

/* ---- answers ---- */

static const char *stop_reason(enum confab_finish finish) {
        switch (finish) {
        case CONFAB_FINISH_CANCELLED:
                return "cancelled";
        case CONFAB_FINISH_LENGTH:
        case CONFAB_FINISH_CONTEXT:
                return "max_tokens";
        default:
                return "end_turn";
        }
}

/* @done: NULL if nothing was generated. */
static void answer(
        struct acp_prompt *prompt, enum confab_finish finish, const struct confab_done *done) {
        struct json *j = acp_call_result(&prompt->call);

        json_put_key_string(j, "stopReason", stop_reason(finish));
        if (done) {
                json_put_key(j, "usage");
                json_object_begin(j);
                json_put_key_u64(j, "inputTokens", done->n_computed);
                json_put_key_u64(j, "cachedReadTokens",
                        (uint64_t)done->n_ram + done->n_disk + done->n_shared);
                json_put_key_u64(j, "outputTokens", done->n_generated);
                json_put_key_u64(j, "totalTokens", (uint64_t)done->n_prompt + done->n_generated);
                json_object_end(j);
        }
        acp_call_done(&prompt->call);
}

/* True if the step is over and with it the prompt: it failed, or was cancelled meanwhile. */
static bool is_over(struct acp_prompt *prompt, const struct confab_event *event) {
        if (event->final && prompt->cancelled &&
                (event->kind != CONFAB_EVENT_ERROR ||
                        confab_error_is(event->error, CONFAB_CANCELLED))) {
                answer(prompt, CONFAB_FINISH_CANCELLED,
                        event->kind == CONFAB_EVENT_DONE ? event->done : NULL);
                return true;
        }
        return acp_call_failed(&prompt->call, event);
}

/* ---- steps ---- */

static void tell_usage(struct acp_prompt *prompt, uint64_t used) {
        struct acp_agent *agent = prompt->call.agent;

        if (agent->context > 0)
                acp_update_usage(&agent->out, prompt->call.session, used, agent->context);
}

static void on_reply(void *userdata, const struct confab_event *event) {
        struct acp_prompt *prompt = userdata;
        struct acp_agent *agent = prompt->call.agent;

        if (event->kind == CONFAB_EVENT_DONE)
                tell_usage(prompt, (uint64_t)event->done->n_prompt + event->done->n_generated);
        if (is_over(prompt, event))
                return;
        if (event->kind == CONFAB_EVENT_ACCEPTED)
                tell_usage(prompt, event->accepted->n_prompt);
        else if (event->kind == CONFAB_EVENT_DELTA)
                acp_update_parts(&agent->out, prompt->call.session, &prompt->reply,
                        event->delta->parts, event->delta->n_parts);
        else if (event->kind == CONFAB_EVENT_DONE)
                answer(prompt, event->done->finish, event->done);
}

static void generate(struct acp_prompt *prompt) {
        const struct acp_options *options = prompt->call.agent->options;
        struct confab_request r = CONFAB_REQUEST_INIT;

        r.verb = CONFAB_CONTINUE;
        r.conversation_id = prompt->conversation;
        r.input = CONFAB_INPUT_MESSAGE;
        r.text = prompt->text;
        r.text_size = prompt->text_size;
        r.sampling = options->sampling;
        r.has_max_tokens = options->has_max_tokens;
        r.max_tokens = options->max_tokens;
        r.want_parts = true;
        r.wait = true;
        prompt->generating = true;
        acp_call_next(&prompt->call, &r, on_reply);
}

static void on_noted(void *userdata, const struct confab_event *event) {
        struct acp_prompt *prompt = userdata;
        const struct confab_about *about;

        if (is_over(prompt, event) || event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        about = event->conversation->about;
        if (about && about->title && *about->title)
                acp_update_title(&prompt->call.agent->out, prompt->call.session, about->title);
        generate(prompt);
}

static void on_found(void *userdata, const struct confab_event *event) {
        struct acp_prompt *prompt = userdata;
        struct confab_about about = {.title = NULL};
        struct confab_request r = CONFAB_REQUEST_INIT;
        const struct confab_about *noted;
        char title[ACP_TITLE_SIZE];

        if (is_over(prompt, event) || event->kind != CONFAB_EVENT_CONVERSATION)
                return;
        prompt->conversation = event->conversation->id;
        noted = event->conversation->about;
        if (!noted || !noted->title || !*noted->title) {
                acp_content_title(title, prompt->text, prompt->text_size);
                about.title = title;
        }
        about.has_expires_after = noted && noted->expires_after > 0;
        if (!about.title && !about.has_expires_after) {
                generate(prompt);
                return;
        }
        r.verb = CONFAB_UPDATE;
        r.conversation_id = prompt->conversation;
        r.about = &about;
        acp_call_next(&prompt->call, &r, on_noted);
}

static void begin(struct acp_prompt *prompt) {
        struct confab_request r = CONFAB_REQUEST_INIT;
        struct acp_failure failure;

        prompt->started = true;
        r.verb = CONFAB_GET;
        if (acp_call_ref(&prompt->call, &r, &failure) < 0 ||
                acp_call_submit(&prompt->call, &r, on_found, &failure) < 0)
                acp_call_fail(&prompt->call, &failure);
}

/* ---- the method ---- */

static int start_prompt(
        struct acp_call *call, const struct json_value *params, struct acp_failure *failure) {
        struct acp_prompt *prompt = container_of(call, struct acp_prompt, call);
        struct acp_queue *queue;
        const struct json_value *blocks;

        list_init(&prompt->link);
        if (acp_call_take_session(call, params, failure) < 0 ||
                acp_param_array(params, "prompt", true, &blocks, failure) < 0 ||
                acp_content_text(blocks, &prompt->text, &prompt->text_size, failure) < 0)
                return -1;
        queue = acp_queue_get(call->agent, call->session);
        if (!queue)
                return acp_fail_no_memory(failure);
        if (!list_empty(&queue->endings))
                return acp_fail(failure, ACP_CODE_REQUEST, "the session is being closed");
        list_append(&queue->prompts, &prompt->link);
        return 0;
}

static void deinit_prompt(struct acp_call *call) {
        struct acp_prompt *prompt = container_of(call, struct acp_prompt, call);

        list_unlink(&prompt->link);
        free(prompt->text);
        acp_reply_deinit(&prompt->reply);
}

const struct acp_method acp_method_prompt = {
        "session/prompt", sizeof(struct acp_prompt), start_prompt, deinit_prompt};

/* ---- queues ---- */

struct acp_queue *acp_queue_find(struct acp_agent *agent, const char *session) {
        struct list *l;

        list_for_each (l, &agent->queues) {
                struct acp_queue *queue = list_entry(l, struct acp_queue, link);

                if (strcmp(queue->session, session) == 0)
                        return queue;
        }
        return NULL;
}

struct acp_queue *acp_queue_get(struct acp_agent *agent, const char *session) {
        struct acp_queue *queue = acp_queue_find(agent, session);

        if (queue)
                return queue;
        queue = calloc(1, sizeof(*queue));
        if (!queue)
                return NULL;
        queue->session = strdup(session);
        if (!queue->session) {
                free(queue);
                return NULL;
        }
        list_init(&queue->prompts);
        list_init(&queue->endings);
        list_append(&agent->queues, &queue->link);
        return queue;
}

void acp_queue_cancel(struct acp_queue *queue) {
        struct list *l, *tmp;

        if (!queue)
                return;
        list_for_each_safe (l, tmp, &queue->prompts) {
                struct acp_prompt *prompt = list_entry(l, struct acp_prompt, link);

                prompt->cancelled = true;
                if (!prompt->started)
                        answer(prompt, CONFAB_FINISH_CANCELLED, NULL);
                else if (prompt->generating && prompt->call.request)
                        confab_cancel(prompt->call.agent->confab, prompt->call.request, NULL);
        }
}

/* The first prompt begins, if it has not; those that fail at once make room for the next. */
static void begin_first(struct acp_queue *queue) {
        while (!list_empty(&queue->prompts)) {
                struct acp_prompt *prompt =
                        list_entry(queue->prompts.next, struct acp_prompt, link);

                if (prompt->started)
                        return;
                begin(prompt);
        }
}

void acp_agent_go_on(struct acp_agent *agent) {
        struct list *l, *tmp;

        list_for_each_safe (l, tmp, &agent->queues) {
                struct acp_queue *queue = list_entry(l, struct acp_queue, link);

                begin_first(queue);
                if (!list_empty(&queue->prompts))
                        continue;
                while (!list_empty(&queue->endings))
                        acp_ending_go(list_entry(queue->endings.next, struct acp_ending, link));
                list_unlink(&queue->link);
                free(queue->session);
                free(queue);
        }
}
