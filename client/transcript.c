/* SPDX-License-Identifier: MIT */
/*
 * Transcripts: what was said somewhere, as JSON. Three forms, told apart by what they have:
 *
 *     {"turns": [{"role", "text", "parts", "results"}], "tools"}       confab show --json
 *     [{"role", "content", ...}], or {"messages": [...], "tools"}      OpenAI's chat completions
 *     [{"prompt", "response", "system", ...}]                          llm logs --json
 *
 * 1. What the reader does not know it ignores: transcripts have times, ids and figures of all kinds. What it
 *    knows has to be right: a member of the wrong kind is an error that names its place.
 * 2. Nothing that was said is left out silently. Images and sounds, turns without template, calls that were broken, and
 *    logs of several conversations at once are refused.
 * 3. Results of calls that follow each other are one message: a turn has all results of one reply.
 * 4. A message of the assistant that says nothing is none.
 * 5. The text of a turn is the whole of what was written, parts are a view of it: where there are parts they count.
 * 6. A log of llm repeats its system message in each row: it is said again only where it changes.
 */
#include "client/transcript.h"
#include "base/err.h"
#include "base/json-tree.h"
#include "base/util.h"
#include <stdio.h>
#include <string.h>

/* One reading. Failures are remembered in `r`, later steps do nothing. */
struct reading {
        struct transcript *to;
        const char *
                list; /* name of the array that the present message is in: "messages", "turns", "" */
        size_t at;    /* of the message in it */
        size_t results; /* where `owned` has the results of the last message, if that is of tools */
        int r;
        struct err *e;
};

static void wrong(struct reading *x, enum err_code code, const char *where, const char *what) {
        if (x->r == 0)
                x->r = err_set(x->e, code, "%s[%zu]%s%s: %s", x->list, x->at, *where ? "." : "",
                        where, what);
}

static void *no_memory(struct reading *x) {
        if (x->r == 0)
                x->r = err_set(x->e, ERR_NOMEM, "no memory for the transcript");
        return NULL;
}

/* Let the transcript own @block, or NULL: there is no memory. */
static void *own(struct reading *x, void *block) {
        struct transcript *t = x->to;
        void **grown = block ? reallocarray(t->owned, t->n_owned + 1, sizeof(*grown)) : NULL;

        if (!grown) {
                free(block);
                return no_memory(x);
        }
        t->owned = grown;
        grown[t->n_owned++] = block;
        return block;
}

static void append(struct reading *x, struct buf *b, const void *s, size_t n) {
        if (x->r == 0 && buf_append(b, s, n) < 0)
                no_memory(x);
}

static bool is_one_of(const char *s, const char *const names[]) {
        while (s && *names && strcmp(s, *names) != 0)
                names++;
        return s && *names;
}

/* A string without NUL: a copy. @where is for the message. NULL after a failure. */
static char *take_string(struct reading *x, const struct json_value *v, const char *where) {
        const char *s = json_tree_string(v);

        if (!s) {
                wrong(x, ERR_INVALID, where, "it has to be a string without NUL");
                return NULL;
        }
        return own(x, text_dup(s, v->size));
}

/* A string, or null or nothing: NULL. */
static char *take_optional(struct reading *x, const struct json_value *v, const char *where) {
        return !v || v->kind == JSON_KIND_NULL ? NULL : take_string(x, v, where);
}

/* A string as it is, any other value as JSON. */
static char *take_any(struct reading *x, const struct json_value *v, const char *where) {
        struct buf b = BUF_NULL;
        struct json j;
        int r;

        if (json_tree_is(v, JSON_KIND_STRING))
                return take_string(x, v, where);
        json_init(&j, &b);
        json_tree_put(&j, v);
        r = json_finish(&j);
        if (r < 0) {
                buf_deinit(&b);
                if (r == -ERR_NOMEM)
                        return no_memory(x);
                wrong(x, ERR_INVALID, where, "it is nested too deeply");
                return NULL;
        }
        return own(x, buf_take(&b, NULL));
}

/* ---- messages ---- */

static struct confab_message *add_message(struct reading *x, enum confab_role role) {
        struct transcript *t = x->to;
        struct confab_message *grown;

        if (x->r)
                return NULL;
        grown = reallocarray(t->messages, t->n_messages + 1, sizeof(*grown));
        if (!grown)
                return no_memory(x);
        t->messages = grown;
        grown[t->n_messages] = (struct confab_message){.role = role, .text = ""};
        return &grown[t->n_messages++];
}

static void add_text(struct reading *x, enum confab_role role, const char *text) {
        struct confab_message *m = text ? add_message(x, role) : NULL;

        if (!m)
                return;
        m->text = text;
        m->text_size = strlen(text);
}

/* To the last message, if that is of tools (rule 3), or to a new one. */
static void add_result(struct reading *x, struct confab_result result) {
        struct transcript *t = x->to;
        struct confab_message *m = t->n_messages ? &t->messages[t->n_messages - 1] : NULL;
        struct confab_result *grown;

        if (x->r || !result.call_id || !result.text)
                return;
        if (!m || m->role != CONFAB_ROLE_TOOL) {
                m = add_message(x, CONFAB_ROLE_TOOL);
                x->results = t->n_owned;
                if (!m || !own(x, malloc(sizeof(*grown))))
                        return;
        }
        grown = reallocarray(t->owned[x->results], m->n_results + 1, sizeof(*grown));
        if (!grown) {
                no_memory(x);
                return;
        }
        t->owned[x->results] = grown;
        grown[m->n_results++] = result;
        m->results = grown;
}

/* A message of the assistant that is being read. */
struct said {
        struct buf text, reasoning;
        struct confab_call *calls; /* [n_calls] */
        size_t n_calls;
};

static void add_call(struct reading *x, struct said *s, struct confab_call call) {
        struct confab_call *grown;

        if (x->r)
                return;
        grown = reallocarray(s->calls, s->n_calls + 1, sizeof(*grown));
        if (!grown) {
                no_memory(x);
                return;
        }
        s->calls = grown;
        grown[s->n_calls++] = call;
}

/* Make it a message, and free it. */
static void add_said(struct reading *x, struct said *s) {
        bool nothing = s->text.size == 0 && s->reasoning.size == 0 && s->n_calls == 0;
        struct confab_message *m = nothing ? NULL : add_message(x, CONFAB_ROLE_ASSISTANT);
        bool reasons = s->reasoning.size > 0;

        if (m) {
                m->text_size = s->text.size;
                m->text = own(x, buf_take(&s->text, NULL));
                m->reasoning = reasons ? own(x, buf_take(&s->reasoning, NULL)) : NULL;
                m->n_calls = s->n_calls;
                m->calls = s->calls ? own(x, s->calls) : NULL;
                s->calls = NULL;
        }
        buf_deinit(&s->text);
        buf_deinit(&s->reasoning);
        free(s->calls);
}

/* ---- OpenAI's messages ---- */

/* "content": a string, null, or parts of text, which are appended to @b. */
static void take_content(
        struct reading *x, struct buf *b, const struct json_value *v, bool required) {
        static const char *const texts[] = {"text", "input_text", "output_text", NULL};

        if (json_tree_is(v, JSON_KIND_STRING)) {
                const char *s = json_tree_string(v);

                if (!s)
                        wrong(x, ERR_INVALID, "content", "it has to be without NUL");
                else
                        append(x, b, s, v->size);
                return;
        }
        if (!v || v->kind == JSON_KIND_NULL) {
                if (required)
                        wrong(x, ERR_INVALID, "content", "it is missing");
                return;
        }
        if (v->kind != JSON_KIND_ARRAY) {
                wrong(x, ERR_INVALID, "content", "it has to be a string, or an array of parts");
                return;
        }
        for (const struct json_value *p = v->first; p && x->r == 0; p = p->next) {
                const struct json_value *text = json_tree_get(p, "text");
                const char *type = json_tree_string(json_tree_get(p, "type"));

                if (!is_one_of(type, texts) || !json_tree_string(text))
                        wrong(x, ERR_UNSUPPORTED, "content",
                                "a part is no text: conversations hold text alone");
                else
                        append(x, b, text->text, text->size);
        }
}

static void take_openai_calls(struct reading *x, struct said *s, const struct json_value *calls) {
        if (!calls || calls->kind == JSON_KIND_NULL)
                return;
        if (calls->kind != JSON_KIND_ARRAY)
                wrong(x, ERR_INVALID, "tool_calls", "it has to be an array");
        for (const struct json_value *v = calls->first; v && x->r == 0; v = v->next) {
                const struct json_value *f = json_tree_get(v, "function");
                struct confab_call call = {
                        .id = take_optional(x, json_tree_get(v, "id"), "tool_calls.id"),
                        .name = take_string(
                                x, json_tree_get(f, "name"), "tool_calls.function.name"),
                };

                if (json_tree_get(f, "arguments"))
                        call.arguments = take_any(
                                x, json_tree_get(f, "arguments"), "tool_calls.function.arguments");
                add_call(x, s, call);
        }
}

static void take_openai_reply(struct reading *x, const struct json_value *v) {
        const struct json_value *reasoning = json_tree_get(v, "reasoning_content");
        struct said s = {0};
        char *text;

        if (!reasoning)
                reasoning = json_tree_get(v, "reasoning");
        take_content(x, &s.text, json_tree_get(v, "content"), false);
        text = take_optional(x, reasoning, "reasoning");
        if (text)
                append(x, &s.reasoning, text, strlen(text));
        take_openai_calls(x, &s, json_tree_get(v, "tool_calls"));
        add_said(x, &s);
}

static void take_openai(struct reading *x, const struct json_value *v) {
        static const char *const others[] = {"system", "developer", "user", "tool", NULL};
        const char *role = json_tree_string(json_tree_get(v, "role"));
        struct buf b = BUF_NULL;

        if (role && strcmp(role, "assistant") == 0) {
                take_openai_reply(x, v);
                return;
        }
        if (!is_one_of(role, others)) {
                wrong(x, ERR_INVALID, "role",
                        "it has to be system, developer, user, assistant or tool");
                return;
        }
        take_content(x, &b, json_tree_get(v, "content"), true);
        if (strcmp(role, "tool") == 0)
                add_result(x, (struct confab_result){
                                      .call_id = take_string(
                                              x, json_tree_get(v, "tool_call_id"), "tool_call_id"),
                                      .name = take_optional(x, json_tree_get(v, "name"), "name"),
                                      .text = own(x, buf_take(&b, NULL))});
        else
                add_text(x, strcmp(role, "user") == 0 ? CONFAB_ROLE_USER : CONFAB_ROLE_SYSTEM,
                        own(x, buf_take(&b, NULL)));
        buf_deinit(&b);
}

/* ---- confab's turns ---- */

static void take_part(struct reading *x, struct said *s, const struct json_value *p) {
        const char *kind = json_tree_string(json_tree_get(p, "kind"));
        char *text = take_string(x, json_tree_get(p, "text"), "parts.text");

        if (!text)
                return;
        if (json_tree_get(p, "broken"))
                wrong(x, ERR_UNSUPPORTED, "parts",
                        "a broken call can't be said again: 'confab export' takes everything "
                        "along");
        else if (kind && strcmp(kind, "reasoning") == 0)
                append(x, &s->reasoning, text, strlen(text));
        else if (kind && strcmp(kind, "call") == 0)
                add_call(x, s,
                        (struct confab_call){.id = take_optional(x, json_tree_get(p, "call_id"),
                                                     "parts.call_id"),
                                .name = take_string(x, json_tree_get(p, "name"), "parts.name"),
                                .arguments = text});
        else
                append(x, &s->text, text, strlen(text));
}

static void take_reply(struct reading *x, const struct json_value *v) {
        const struct json_value *parts = json_tree_get(v, "parts");
        struct said s = {0};
        char *text;

        for (const struct json_value *p = parts ? parts->first : NULL; p && x->r == 0; p = p->next)
                take_part(x, &s, p);
        if (!parts && (text = take_string(x, json_tree_get(v, "text"), "text")))
                append(x, &s.text, text, strlen(text));
        add_said(x, &s);
}

static void take_results(struct reading *x, const struct json_value *results) {
        if (!json_tree_is(results, JSON_KIND_ARRAY))
                wrong(x, ERR_INVALID, "results", "it has to be an array");
        for (const struct json_value *v = results ? results->first : NULL; v && x->r == 0;
                v = v->next)
                add_result(x,
                        (struct confab_result){
                                .call_id = take_string(
                                        x, json_tree_get(v, "call_id"), "results.call_id"),
                                .name = take_optional(x, json_tree_get(v, "name"), "results.name"),
                                .text = take_any(
                                        x, json_tree_get(v, "content"), "results.content")});
}

static void take_turn(struct reading *x, const struct json_value *v) {
        const char *role = json_tree_string(json_tree_get(v, "role"));

        if (role && strcmp(role, "assistant") == 0)
                take_reply(x, v);
        else if (role && strcmp(role, "tool") == 0)
                take_results(x, json_tree_get(v, "results"));
        else if (role && strcmp(role, "raw") == 0)
                wrong(x, ERR_UNSUPPORTED, "role",
                        "a turn without template can't be said again: 'confab export' takes "
                        "everything "
                        "along");
        else if (role && (strcmp(role, "user") == 0 || strcmp(role, "system") == 0))
                add_text(x, *role == 'u' ? CONFAB_ROLE_USER : CONFAB_ROLE_SYSTEM,
                        take_string(x, json_tree_get(v, "text"), "text"));
        else
                wrong(x, ERR_INVALID, "role", "it has to be system, user, assistant or tool");
}

/* ---- logs of llm ---- */

static void take_llm_input(struct reading *x, const struct json_value *v, const char **system) {
        const struct json_value *results = json_tree_get(v, "tool_results");
        char *own_system = take_optional(x, json_tree_get(v, "system"), "system");
        char *prompt = take_optional(x, json_tree_get(v, "prompt"), "prompt");
        const struct json_value *attached = json_tree_get(v, "attachments");

        if (attached && attached->n > 0)
                wrong(x, ERR_UNSUPPORTED, "attachments", "conversations hold text alone");
        if (own_system && *own_system && (!*system || strcmp(*system, own_system) != 0)) {
                *system = own_system;
                add_text(x, CONFAB_ROLE_SYSTEM, own_system);
        }
        for (const struct json_value *p = results ? results->first : NULL; p && x->r == 0;
                p = p->next)
                add_result(x, (struct confab_result){
                                      .call_id = take_string(x, json_tree_get(p, "tool_call_id"),
                                              "tool_results.tool_call_id"),
                                      .name = take_optional(
                                              x, json_tree_get(p, "name"), "tool_results.name"),
                                      .text = take_any(x, json_tree_get(p, "output"),
                                              "tool_results.output")});
        if (prompt && *prompt)
                add_text(x, CONFAB_ROLE_USER, prompt);
}

static void take_llm_reply(struct reading *x, const struct json_value *v) {
        const struct json_value *calls = json_tree_get(v, "tool_calls");
        char *response = take_optional(x, json_tree_get(v, "response"), "response");
        struct said s = {0};

        if (response)
                append(x, &s.text, response, strlen(response));
        for (const struct json_value *p = calls ? calls->first : NULL; p && x->r == 0; p = p->next)
                add_call(x, &s,
                        (struct confab_call){
                                .id = take_optional(x, json_tree_get(p, "tool_call_id"),
                                        "tool_calls.tool_call_id"),
                                .name = take_string(x, json_tree_get(p, "name"), "tool_calls.name"),
                                .arguments = take_any(
                                        x, json_tree_get(p, "arguments"), "tool_calls.arguments")});
        add_said(x, &s);
}

static void read_llm(struct reading *x, const struct json_value *rows) {
        const char *conversation = NULL, *system = NULL;

        for (const struct json_value *v = rows->first; v && x->r == 0; v = v->next, x->at++) {
                const char *id = json_tree_string(json_tree_get(v, "conversation_id"));

                if (id && conversation && strcmp(id, conversation) != 0)
                        wrong(x, ERR_UNSUPPORTED, "conversation_id",
                                "the log has several conversations: 'llm logs -c ID --json' has "
                                "one");
                if (!conversation)
                        conversation = id;
                if (!json_tree_is(v, JSON_KIND_OBJECT))
                        wrong(x, ERR_INVALID, "", "it has to be an object");
                take_llm_input(x, v, &system);
                take_llm_reply(x, v);
        }
}

/* ---- all of it ---- */

static void read_list(struct reading *x, const struct json_value *list,
        void (*take)(struct reading *x, const struct json_value *v)) {
        if (!json_tree_is(list, JSON_KIND_ARRAY)) {
                x->r = err_set(x->e, ERR_INVALID, "%s has to be an array", x->list);
                return;
        }
        for (const struct json_value *v = list->first; v && x->r == 0; v = v->next, x->at++)
                if (json_tree_is(v, JSON_KIND_OBJECT))
                        take(x, v);
                else
                        wrong(x, ERR_INVALID, "", "it has to be an object");
}

static void read_root(struct reading *x, const struct json_value *root) {
        const struct json_value *tools = json_tree_get(root, "tools");

        if (json_tree_get(root, "turns")) {
                x->list = "turns";
                read_list(x, json_tree_get(root, "turns"), take_turn);
        } else if (json_tree_get(root, "messages")) {
                x->list = "messages";
                read_list(x, json_tree_get(root, "messages"), take_openai);
        } else if (json_tree_is(root, JSON_KIND_ARRAY) && json_tree_get(root->first, "prompt")) {
                read_llm(x, root);
        } else if (json_tree_is(root, JSON_KIND_ARRAY)) {
                read_list(x, root, take_openai);
        } else {
                x->r = err_set(x->e, ERR_INVALID,
                        "this is no transcript: neither what 'confab show --json' prints, nor "
                        "messages "
                        "in OpenAI's form, nor a log of llm");
        }
        if (x->r == 0 && tools && tools->kind != JSON_KIND_NULL && tools->n + tools->size > 0) {
                char *text = take_any(x, tools, "tools");

                x->to->tools = text ? strdup(text) : NULL;
                if (x->r == 0 && !x->to->tools)
                        no_memory(x);
        }
}

int transcript_parse(struct transcript *ret, const char *text, size_t size, struct err *e) {
        struct transcript t = {0};
        struct reading x = {.to = &t, .list = "", .e = e};
        struct json_value *root = NULL;

        *ret = (struct transcript){0};
        x.r = json_tree_parse(&root, text, size, e);
        if (x.r == 0)
                read_root(&x, root);
        json_tree_free(root);
        if (x.r == 0 && t.n_messages == 0)
                x.r = err_set(e, ERR_INVALID, "the transcript has no messages");
        if (x.r < 0)
                transcript_deinit(&t);
        *ret = t;
        return x.r;
}

void transcript_deinit(struct transcript *t) {
        for (size_t i = 0; i < t->n_owned; i++)
                free(t->owned[i]);
        free(t->owned);
        free(t->messages);
        free(t->tools);
        *t = (struct transcript){0};
}
