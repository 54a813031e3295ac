/* SPDX-License-Identifier: MIT */
/*
 * How a template writes calls, results and definitions, found by trying.
 *
 * 1. Templates differ in how they want to be given calls: arguments as an object or as a string, the
 *    content of a message with calls as an empty string or none, ids of any form or of nine letters.
 *    The first way is taken in which the call's name (or id) and its arguments appear as they are.
 * 2. Definitions are told with the first message. If they are written behind the system text, but
 *    only where a message of the user follows, they belong to the system message all the same, and
 *    that leaves the user's message open (CHAT_OPEN_SYSTEM): what is told is told once.
 * 3. None of this makes a template unusable. What it does not write is refused (-ERR_UNSUPPORTED).
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/util.h"
#include "chat/chat-internal.h"

#define PROBE_NAME "probefunction"
#define PROBE_KEY "probekey"
#define PROBE_VALUE "probevalue"
#define PROBE_ARGUMENTS "{\"" PROBE_KEY "\": \"" PROBE_VALUE "\"}"
#define PROBE_REASONING "probereasoning"

static const struct chat_call probe_call = {.id = "standinid",
        .name = PROBE_NAME,
        .arguments = PROBE_ARGUMENTS,
        .arguments_size = sizeof(PROBE_ARGUMENTS) - 1};
static const struct chat_message probe_calls = {
        .role = CHAT_ASSISTANT, .calls = &probe_call, .n_calls = 1};

static bool has(const struct jinja_out *out, const char *text) {
        return memmem(out->text, out->size, text, strlen(text)) != NULL;
}

/* --- the form of calls --- */

/* Render a message of the user and one with calls. 0; 1: refused; -ERR_NOMEM. */
static int try_calls(const struct chat_template *t, const struct chat_message *m,
        struct jinja_out *ret, struct err *e) {
        const struct chat_message messages[] = {chat_stand_ins[CHAT_KIND_USER], *m};
        const struct chat_rendering in = {.messages = messages, .n = 2};
        int r = chat_render(t, &in, ret, e);

        return r == 0 || r == -ERR_NOMEM ? r : 1;
}

enum shown { NOT_SHOWN, QUOTED, AS_IT_IS };

/* How the arguments appear. A string that is written as JSON, or an object that is printed as Python
 * does, is not what the template is made for. */
static enum shown arguments_shown(const struct jinja_out *out) {
        /* Some write the id alone, which has the name in it. */
        if (!has(out, PROBE_NAME) && !has(out, probe_call.id))
                return NOT_SHOWN;
        if (!has(out, PROBE_KEY) || !has(out, PROBE_VALUE))
                return NOT_SHOWN;
        return has(out, "\\\"" PROBE_KEY) || has(out, "'" PROBE_KEY "'") ? QUOTED : AS_IT_IS;
}

static int learn_form(struct chat_template *t, struct err *e) {
        static const struct chat_call_form ways[] = {
                {.as_text = false, .without_text = false},
                {.as_text = false, .without_text = true},
                {.as_text = true, .without_text = false},
                {.as_text = true, .without_text = true},
        };
        enum shown best = NOT_SHOWN;
        struct chat_call_form found = ways[0];

        for (size_t i = 0; best < AS_IT_IS && i < ARRAY_SIZE(ways); i++) {
                _cleanup_(jinja_out_deinit) struct jinja_out out = JINJA_OUT_NULL;
                enum shown shown;
                int r;

                t->calls = ways[i];
                r = try_calls(t, &probe_calls, &out, e);
                if (r < 0)
                        return r;
                shown = r > 0 ? NOT_SHOWN : arguments_shown(&out);
                if (shown > best) {
                        best = shown;
                        found = ways[i];
                        found.written = true;
                }
        }
        t->calls = found;
        return 0;
}

/* What it refuses: ids of another form, several calls. */
static int learn_refused(struct chat_template *t, struct err *e) {
        struct chat_call calls[2] = {probe_call, probe_call};
        struct chat_message m = {.role = CHAT_ASSISTANT, .calls = calls, .n_calls = 1};
        _cleanup_(jinja_out_deinit) struct jinja_out a = JINJA_OUT_NULL, b = JINJA_OUT_NULL;
        int r;

        calls[0].id = "call_of_a_probe";
        r = try_calls(t, &m, &a, e);
        t->calls.short_ids = r > 0;
        if (r < 0)
                return r;
        calls[0].id = "standinid";
        calls[1].id = "standintw";
        m.n_calls = 2;
        r = try_calls(t, &m, &b, e);
        t->calls.one = r > 0;
        return MIN(r, 0);
}

/* The key under which reasoning is written, where it waits for results or is the last. */
static int learn_reasoning(struct chat_template *t, struct err *e) {
        static const char *const keys[] = {"reasoning_content", "thinking", "reasoning"};
        struct chat_message messages[] = {chat_stand_ins[CHAT_KIND_USER],
                chat_stand_ins[CHAT_KIND_ASSISTANT], chat_stand_ins[CHAT_KIND_RESULTS]};
        struct chat_rendering in = {.messages = messages};

        for (size_t i = 0; i < 2 * ARRAY_SIZE(keys); i++) {
                _cleanup_(jinja_out_deinit) struct jinja_out out = JINJA_OUT_NULL;
                bool calls = i % 2 == 1;
                int r;

                t->reasoning_key = keys[i / 2];
                messages[1] = calls ? probe_calls : chat_stand_ins[CHAT_KIND_ASSISTANT];
                messages[1].reasoning = PROBE_REASONING;
                messages[1].reasoning_size = sizeof(PROBE_REASONING) - 1;
                in.n = calls ? 3 : 2;
                r = chat_render(t, &in, &out, e);
                if (r == -ERR_NOMEM)
                        return r;
                if (r == 0 && has(&out, PROBE_REASONING))
                        return 0;
        }
        t->reasoning_key = NULL;
        return 0;
}

int chat_learn_call_form(struct chat_template *t, struct err *e) {
        int r = learn_form(t, e);

        if (r == 0 && t->calls.written)
                r = learn_refused(t, e);
        return r == 0 ? learn_reasoning(t, e) : r;
}

/* --- the role of results --- */

/* A result behind stand-ins. 0; 1 if the template refuses it, leaves it out, or writes it as the
 * assistant's text, since then it does not know results. */
static int try_result(const struct chat_template *t, struct chat_sample *ret, struct err *e) {
        struct chat_message messages[CHAT_MAX_STAND_INS];
        const struct chat_rendering in = {
                .messages = messages, .n = chat_stand_ins_of(CHAT_AFTER_RESULTS, messages)};
        _cleanup_(chat_sample_deinit) struct chat_sample said = CHAT_SAMPLE_NULL;
        int r = chat_sample_take(t, &in, in.n - 1, ret, e), r_said;

        if (r != 0)
                return r;
        messages[in.n - 1].role = CHAT_ASSISTANT;
        r_said = chat_sample_take(t, &in, in.n - 1, &said, e);
        if (r_said < 0)
                return r_said;
        return r_said == 0 && said.out.size == ret->out.size &&
               memcmp(said.out.text, ret->out.text, ret->out.size) == 0;
}

/* The first of these roles that the template knows: "tool", if it is written; another one, if it is
 * written otherwise than a role that nobody has, or makes a token of the marker that it is put into. */
int chat_learn_result_role(struct chat_template *t, struct err *e) {
        static const char *const roles[] = {
                "tool", "tool_response", "tool_results", "observation", "ipython", "function"};
        _cleanup_(chat_sample_deinit) struct chat_sample nobody = CHAT_SAMPLE_NULL;
        const char *best = NULL;
        size_t n_best = 0;
        int r_nobody;

        t->result_role = "standinrole";
        r_nobody = try_result(t, &nobody, e);
        if (r_nobody < 0)
                return r_nobody;
        for (size_t i = 0; i < ARRAY_SIZE(roles); i++) {
                _cleanup_(chat_sample_deinit) struct chat_sample s = CHAT_SAMPLE_NULL;
                int r;

                t->result_role = roles[i];
                r = try_result(t, &s, e);
                if (r < 0)
                        return r;
                if (r > 0 || (i > 0 && r_nobody == 0 && s.n_special <= nobody.n_special))
                        continue;
                if (!best || s.n_special > n_best) {
                        best = roles[i];
                        n_best = s.n_special;
                }
        }
        t->result_role = best;
        return 0;
}

/* --- where a reply with calls ends --- */

static size_t count_ends(const struct chat_template *t, const struct tok_place *special,
        size_t n_special, size_t from, size_t to) {
        size_t n = 0;

        for (size_t i = 0; i < n_special; i++)
                n += special[i].start >= from && special[i].start < to &&
                     tok_is_eog(t->tok, special[i].token);
        return n;
}

/* Whether there are more end tokens between the user's text and the result (or the rendering's end)
 * than close the user's message. */
static int learn_end(struct chat_template *t, struct err *e) {
        struct chat_message messages[] = {chat_stand_ins[CHAT_KIND_USER],
                chat_stand_ins[CHAT_KIND_CALLS], chat_stand_ins[CHAT_KIND_RESULTS]};
        const bool results = t->closing[CHAT_KIND_RESULTS].text != NULL;
        const struct chat_rendering in = {.messages = messages, .n = results ? 3 : 2},
                                    alone = {.messages = messages, .n = 2};
        _cleanup_(jinja_out_deinit) struct jinja_out out = JINJA_OUT_NULL, front = JINJA_OUT_NULL;
        _cleanup_(freep) struct tok_place *special = NULL;
        size_t n_special = 0, user, to, closed = t->closing[CHAT_KIND_USER].size;
        int r = chat_render(t, &in, &out, e);

        if (r < 0 || !chat_find_once(&out, &messages[0], &user))
                return r == -ERR_NOMEM ? r : 0;
        user += messages[0].size;
        to = out.size;
        if (results && (!chat_find_once(&out, &messages[2], &to) || to < user))
                return 0;
        r = chat_find_special(t, &out, &special, &n_special, e);
        if (r < 0)
                return r;
        t->calls.end = count_ends(t, special, n_special, user, to) >
                       count_ends(t, special, n_special, user, MIN(user + closed, to));
        if (t->calls.end || !results)
                return 0;
        r = chat_render(t, &alone, &front, e);
        if (r == -ERR_NOMEM)
                return r;
        if (r < 0 || !chat_begins(out.text, to, front.text, front.size)) {
                /* There is no place to be found: results can't be taken. */
                free(TAKE_PTR(t->closing[CHAT_KIND_RESULTS].text));
                t->closing[CHAT_KIND_RESULTS] = (struct chat_closing){.last = -1};
        }
        return 0;
}

/* A message with calls behind @after, as calls.c renders it. */
static int learn_piece(struct chat_template *t, enum chat_after after, struct err *e) {
        struct chat_piece *p = &t->piece[after][CHAT_KIND_CALLS];
        struct chat_message messages[CHAT_MAX_MESSAGES];
        struct chat_rendering in = {.messages = messages};
        _cleanup_(jinja_out_deinit) struct jinja_out out = JINJA_OUT_NULL;
        const struct chat_closing *c = &t->closing[chat_kind_before(after)];
        size_t n = chat_stand_ins_of(after, messages), at;
        int r;

        messages[n] = probe_calls;
        messages[n + 1] = chat_stand_ins[CHAT_KIND_RESULTS];
        messages[n + 1].text = CHAT_PROBE; /* behind results there is a stand-in of this kind */
        messages[n + 1].size = sizeof(CHAT_PROBE) - 1;
        p->followed = t->closing[CHAT_KIND_RESULTS].text;
        in.n = n + 1 + p->followed;
        r = chat_render(t, &in, &out, e);
        if (r < 0)
                return r == -ERR_NOMEM ? r : 0;
        if (after != CHAT_AFTER_NOTHING) {
                if (!c->text || !chat_find_once(&out, &messages[n - 1], &at))
                        return 0;
                p->behind = at + messages[n - 1].size;
                p->fixed = p->behind + c->size;
                if (!chat_begins(out.text + p->behind, out.size - p->behind, c->text, c->size))
                        return 0;
        }
        p->hash = hash64(out.text, p->fixed, 0);
        p->works = true;
        return 0;
}

/* Results behind results are cut out of a rendering whose stand-in reply has one call. That won't do
 * where they tell the name or the id of that call: then they are written as the first ones are. */
static int check_more_results(struct chat_template *t, struct err *e) {
        struct chat_piece *p = &t->piece[CHAT_AFTER_RESULTS][CHAT_KIND_RESULTS];
        struct chat_message messages[CHAT_MAX_MESSAGES];
        struct chat_rendering in = {.messages = messages};
        _cleanup_(jinja_out_deinit) struct jinja_out out = JINJA_OUT_NULL;
        static const char *const own[] = {CHAT_STAND_IN_NAME, "standinid"};
        int r;

        t->calls.grouped = t->closing[CHAT_KIND_RESULTS].text && !p->works;
        if (!p->works)
                return 0;
        in.n = chat_stand_ins_of(CHAT_AFTER_RESULTS, messages);
        messages[in.n] = chat_probes[CHAT_KIND_RESULTS];
        messages[in.n].call_id = "probeid00";
        messages[in.n++].name = PROBE_NAME;
        r = chat_render(t, &in, &out, e);
        if (r == -ERR_NOMEM)
                return r;
        for (size_t i = 0; i < ARRAY_SIZE(own); i++)
                if (r < 0 || out.size < p->fixed ||
                        memmem(out.text + p->fixed, out.size - p->fixed, own[i], strlen(own[i])))
                        p->works = false;
        return 0;
}

int chat_learn_calls(struct chat_template *t, struct err *e) {
        static const enum chat_after afters[] = {CHAT_AFTER_NOTHING, CHAT_AFTER_SYSTEM,
                CHAT_AFTER_USER, CHAT_AFTER_REPLY, CHAT_AFTER_RESULTS};
        int r = learn_end(t, e);

        if (r == 0)
                r = check_more_results(t, e);
        for (size_t i = 0; r == 0 && t->calls.written && i < ARRAY_SIZE(afters); i++)
                r = learn_piece(t, afters[i], e);
        return r;
}

/* --- definitions --- */

static struct chat_rendering with_tools(const struct chat_message *messages, size_t n) {
        return (struct chat_rendering){.messages = messages,
                .n = n,
                .tools = chat_stand_in_tools,
                .tools_size = strlen(chat_stand_in_tools)};
}

static int learn_with_user(struct chat_template *t, struct err *e) {
        const struct chat_rendering in = with_tools(&chat_probes[CHAT_KIND_USER], 1);
        const struct chat_piece *p = &t->piece[CHAT_AFTER_NOTHING][CHAT_KIND_USER];
        const struct chat_closing *c = &t->closing[CHAT_KIND_USER];
        _cleanup_(jinja_out_deinit) struct jinja_out out = JINJA_OUT_NULL;
        size_t end;
        int r = chat_render(t, &in, &out, e);

        if (r < 0)
                return r == -ERR_NOMEM ? r : 0;
        end = out.size - MIN(out.size, p->drop_size + c->size);
        t->tools_with[CHAT_KIND_USER] = has(&out, CHAT_STAND_IN_NAME) &&
                                        chat_begins(out.text + end, c->size, c->text, c->size);
        return 0;
}

/* Whether the definitions are written with the system message alone, as they are where a message of
 * the user follows (@both). */
static int closes_with_tools(
        const struct chat_template *t, const struct chat_sample *both, bool *ret, struct err *e) {
        const struct chat_rendering in = with_tools(&chat_stand_ins[CHAT_KIND_SYSTEM], 1);
        const struct chat_piece *p = &t->piece[CHAT_AFTER_NOTHING][CHAT_KIND_SYSTEM];
        _cleanup_(jinja_out_deinit) struct jinja_out out = JINJA_OUT_NULL;
        int r = 0;

        *ret = false;
        if (p->works)
                r = chat_render(t, &in, &out, e);
        if (!p->works || r < 0)
                return r == -ERR_NOMEM ? r : 0;
        *ret = has(&out, CHAT_STAND_IN_NAME) && out.size >= p->drop_size &&
               chat_begins(both->out.text, both->at, out.text, out.size - p->drop_size);
        return 0;
}

static int learn_with_system(struct chat_template *t, struct err *e) {
        struct chat_message messages[] = {
                chat_stand_ins[CHAT_KIND_SYSTEM], chat_probes[CHAT_KIND_USER]};
        struct chat_rendering in = with_tools(messages, 2);
        _cleanup_(chat_sample_deinit) struct chat_sample s = CHAT_SAMPLE_NULL;
        _cleanup_(buf_deinit) struct buf joined = BUF_NULL;
        bool closes = false;
        size_t probe = chat_probes[CHAT_KIND_USER].size;
        int r = 0;

        if (t->joins_system) {
                r = chat_join_system(&joined, &messages[0], &messages[1], &messages[0]);
                in.n = 1;
        }
        if (r < 0)
                return err_set(e, ERR_NOMEM, "out of memory for a chat template");
        r = chat_sample_take(t, &in, in.n - 1, &s, e);
        if (r != 0)
                return MIN(r, 0);
        s.at = s.end - probe; /* of a joined text, the user's */
        if (!memmem(s.out.text, s.at, CHAT_STAND_IN_NAME, strlen(CHAT_STAND_IN_NAME)) ||
                memmem(s.out.text + s.end, s.out.size - s.end, CHAT_STAND_IN_NAME,
                        strlen(CHAT_STAND_IN_NAME)))
                return 0;
        if (!t->open[0].opens)
                r = closes_with_tools(t, &s, &closes, e);
        if (r == 0 && !closes)
                r = chat_learn_open(t, true, &s, e);
        t->tools_with[CHAT_KIND_SYSTEM] =
                closes || t->piece[CHAT_AFTER_OPEN_TOOLS][CHAT_KIND_USER].works;
        return r;
}

int chat_learn_definitions(struct chat_template *t, struct err *e) {
        static const enum chat_tools_place places[] = {
                CHAT_TOOLS_VARIABLE, CHAT_TOOLS_XML_VARIABLE, CHAT_TOOLS_KEY_TEXT, CHAT_TOOLS_KEY};

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                int r;

                t->tools = places[i];
                r = learn_with_user(t, e);
                if (r == 0)
                        r = learn_with_system(t, e);
                if (r < 0 || t->tools_with[CHAT_KIND_USER] || t->tools_with[CHAT_KIND_SYSTEM])
                        return r;
        }
        t->tools = CHAT_TOOLS_NOWHERE;
        return 0;
}
