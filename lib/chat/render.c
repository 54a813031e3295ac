/* SPDX-License-Identifier: MIT */
/*
 * One rendering of the model's template, and the stand-ins for what precedes a message in it.
 *
 * 1. The clock stands at the conversation's beginning, in UTC: the same arguments give the same
 *    text on any machine at any time.
 * 2. Time and memory are bounded by the size of the messages. A message of ordinary size is rendered
 *    on the engine thread, so a template may take half a million steps besides: some milliseconds.
 *    Templates look at definitions and arguments value by value, so these may take more per byte.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/util.h"
#include "chat/chat-internal.h"

/* Some templates take only ids of nine letters. */
static const struct chat_call stand_in_call = {
        .id = "standinid", .name = CHAT_STAND_IN_NAME, .arguments = "{}", .arguments_size = 2};

const struct chat_message chat_stand_ins[CHAT_N_KINDS] = {
#define STAND_IN(r, t)                                                                             \
        { .role = r, .text = t, .size = sizeof(t) - 1 }
        [CHAT_KIND_SYSTEM] = STAND_IN(CHAT_SYSTEM, "standinsystem"),
        [CHAT_KIND_USER] = STAND_IN(CHAT_USER, "standinuser"),
        [CHAT_KIND_ASSISTANT] = STAND_IN(CHAT_ASSISTANT, "standinassistant"),
#undef STAND_IN
        [CHAT_KIND_CALLS] = {.role = CHAT_ASSISTANT, .calls = &stand_in_call, .n_calls = 1},
        [CHAT_KIND_RESULTS] = {.role = CHAT_TOOL,
                .text = "standinresult",
                .size = sizeof("standinresult") - 1,
                .call_id = "standinid",
                .name = CHAT_STAND_IN_NAME},
};

const struct chat_message chat_stand_in_next = {
        .role = CHAT_USER, .text = "standinnext", .size = sizeof("standinnext") - 1};

const char chat_stand_in_tools[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"" CHAT_STAND_IN_NAME "\", "
        "\"description\": \"standindescription\", \"parameters\": {\"type\": \"object\", "
        "\"properties\": {\"" CHAT_STAND_IN_KEY "\": {\"type\": \"string\", \"description\": "
        "\"standinvalue\"}}, "
        "\"required\": [\"" CHAT_STAND_IN_KEY "\"]}}}]";

size_t chat_stand_ins_of(enum chat_after after, struct chat_message ret[CHAT_MAX_STAND_INS]) {
        static const enum chat_kind kinds[CHAT_N_AFTER][CHAT_MAX_STAND_INS] = {
                [CHAT_AFTER_SYSTEM] = {CHAT_KIND_SYSTEM},
                [CHAT_AFTER_USER] = {CHAT_KIND_USER},
                [CHAT_AFTER_REPLY] = {CHAT_KIND_USER, CHAT_KIND_ASSISTANT},
                [CHAT_AFTER_RESULTS] = {CHAT_KIND_USER, CHAT_KIND_CALLS, CHAT_KIND_RESULTS},
                [CHAT_AFTER_OPEN_SYSTEM] = {CHAT_KIND_SYSTEM},
                [CHAT_AFTER_OPEN_TOOLS] = {CHAT_KIND_SYSTEM},
        };
        static const size_t n[CHAT_N_AFTER] = {
                [CHAT_AFTER_SYSTEM] = 1,
                [CHAT_AFTER_USER] = 1,
                [CHAT_AFTER_REPLY] = 2,
                [CHAT_AFTER_RESULTS] = 3,
                [CHAT_AFTER_OPEN_SYSTEM] = 1,
                [CHAT_AFTER_OPEN_TOOLS] = 1,
        };

        for (size_t i = 0; i < n[after]; i++)
                ret[i] = chat_stand_ins[kinds[after][i]];
        return n[after];
}

int chat_join_system(struct buf *ret, const struct chat_message *system,
        const struct chat_message *user, struct chat_message *message) {
        int r = buf_append(ret, system->text, system->size);

        if (r >= 0)
                r = buf_append_str(ret, CHAT_SYSTEM_GAP);
        if (r >= 0 && user->size > 0)
                r = buf_append(ret, user->text, user->size);
        if (r >= 0)
                *message = (struct chat_message){
                        .role = CHAT_USER, .text = (const char *)ret->data, .size = ret->size};
        return r;
}

static size_t length(const char *s) {
        return s ? strlen(s) : 0;
}

void chat_rendering_size(const struct chat_rendering *in, size_t *ret_text, size_t *ret_json) {
        size_t text = 0, json = in->tools ? in->tools_size : 0;

        for (size_t i = 0; i < in->n; i++) {
                const struct chat_message *m = &in->messages[i];

                text += m->size + (m->reasoning ? m->reasoning_size : 0) + length(m->call_id) +
                        length(m->name);
                for (size_t k = 0; k < m->n_calls; k++) {
                        text += length(m->calls[k].id) + length(m->calls[k].name);
                        json += m->calls[k].arguments_size;
                }
        }
        *ret_text = text;
        *ret_json = json;
}

static size_t n_containers(const struct chat_rendering *in) {
        size_t n = in->n;

        for (size_t i = 0; i < in->n; i++)
                n += 2 * in->messages[i].n_calls;
        return n;
}

int chat_render(const struct chat_template *t, const struct chat_rendering *in,
        struct jinja_out *ret, struct err *e) {
        _cleanup_(jinja_data_freep) struct jinja_data *d = NULL;
        struct jinja_input input = {.charge = in->charge};
        struct jinja_limits limits;
        time_t seconds = (time_t)(in->created_usec / 1000000);
        struct tm now;
        size_t text, json, n = n_containers(in);
        int r;

        chat_rendering_size(in, &text, &json);
        limits = (struct jinja_limits){
                .n_steps = 500000 + 2 * (uint64_t)text + 16 * (uint64_t)json + 1000 * (uint64_t)n,
                .memory_size = ((size_t)4 << 20) + 32 * text + 128 * json + 4096 * n,
                .output_size = ((size_t)1 << 20) + 4 * text + 16 * json};
        if (!gmtime_r(&seconds, &now))
                return err_set(e, ERR_INVALID, "a conversation's time is not a date");
        r = jinja_data_new(
                &d, ((size_t)64 << 10) + 2 * text + 128 * json + 4096 * n, in->charge, e);
        if (r < 0)
                return r;
        r = chat_put_variables(d, t, in, e);
        if (r == 0)
                r = jinja_data_finish(d, e);
        if (r < 0)
                return r;
        input.data = d;
        input.limits = &limits;
        input.now = &now;
        return jinja_render(t->jinja, &input, ret, e);
}

bool chat_find_once(const struct jinja_out *out, const struct chat_message *m, size_t *ret) {
        const char *at = m->size > 0 ? memmem(out->text, out->size, m->text, m->size) : NULL, *next;

        if (!at)
                return false;
        next = at + 1;
        if (memmem(next, out->size - (size_t)(next - out->text), m->text, m->size))
                return false;
        *ret = (size_t)(at - out->text);
        return true;
}

bool chat_begins(const char *text, size_t n, const char *with, size_t n_with) {
        return n >= n_with && memcmp(text, with, n_with) == 0;
}
