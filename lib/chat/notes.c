/* SPDX-License-Identifier: MIT */
/*
 * Where confab does otherwise than the template, found by trying the template out: what it does with
 * earlier messages shows when a message is rendered as the last one and as an earlier one.
 */
#include <string.h>

#include "base/err.h"
#include "base/util.h"
#include "chat/chat-internal.h"

static const struct chat_message probe = {
        .role = CHAT_USER, .text = CHAT_PROBE, .size = sizeof(CHAT_PROBE) - 1};

/* Whether the rendering of messages[0..n), the last one's closing included, is how the rendering of
 * all n_all begins. Unknown counts as yes. */
static int keeps(const struct chat_template *t, const struct chat_message *messages, size_t n,
        size_t n_all, bool *ret, struct err *e) {
        const struct chat_rendering some = {.messages = messages, .n = n},
                                    all = {.messages = messages, .n = n_all};
        struct jinja_out a = JINJA_OUT_NULL, b = JINJA_OUT_NULL;
        const struct chat_closing *c = &t->closing[messages[n - 1].role];
        size_t at;
        int r = chat_render(t, &some, &a, e);

        if (r == 0)
                r = chat_render(t, &all, &b, e);
        *ret = true;
        if (r == 0 && c->text && chat_find_once(&a, &messages[n - 1], &at))
                *ret = chat_begins(
                        b.text, b.size, a.text, MIN(a.size, at + messages[n - 1].size + c->size));
        jinja_out_deinit(&a);
        jinja_out_deinit(&b);
        return r == -ERR_NOMEM ? r : 0;
}

#define REASONED "<think>standinreasoning</think>standinanswer"
#define REASONING "standinreasoning"

static int note_reasoning(struct chat_template *t, struct err *e) {
        const struct chat_message messages[] = {chat_stand_ins[CHAT_USER],
                {.role = CHAT_ASSISTANT, .text = REASONED, .size = sizeof(REASONED) - 1}, probe};
        const struct chat_rendering in = {.messages = messages, .n = 3};
        struct jinja_out out = JINJA_OUT_NULL;
        int r = chat_render(t, &in, &out, e);

        if (r == 0 && !memmem(out.text, out.size, REASONING, sizeof(REASONING) - 1))
                t->notes |= CHAT_NOTE_REASONING;
        jinja_out_deinit(&out);
        return r == -ERR_NOMEM ? r : 0;
}

static int note_system(struct chat_template *t, struct err *e) {
        const struct chat_message messages[] = {chat_stand_ins[CHAT_SYSTEM],
                chat_stand_ins[CHAT_USER], chat_stand_ins[CHAT_ASSISTANT], probe};
        const struct chat_rendering in = {.messages = messages, .n = 4};
        struct jinja_out out = JINJA_OUT_NULL;
        size_t system, reply;
        int r = chat_render(t, &in, &out, e);

        if (r == 0 && chat_find_once(&out, &messages[0], &system) &&
                chat_find_once(&out, &messages[2], &reply) && system > reply)
                t->notes |= CHAT_NOTE_SYSTEM_MOVED;
        jinja_out_deinit(&out);
        return r == -ERR_NOMEM ? r : 0;
}

static int note_time(struct chat_template *t, struct err *e) {
        struct chat_message messages[CHAT_MAX_STAND_INS + 1];
        size_t n = chat_stand_ins_of(CHAT_AFTER_REPLY, messages), at;
        struct chat_rendering in = {.messages = messages, .n = n + 1};
        struct jinja_out a = JINJA_OUT_NULL, b = JINJA_OUT_NULL;
        int r;

        messages[n] = probe;
        r = chat_render(t, &in, &a, e);
        in.created_usec = (uint64_t)1234567890 * 1000000;
        if (r == 0)
                r = chat_render(t, &in, &b, e);
        if (r == 0 && chat_find_once(&b, &messages[n - 1], &at) &&
                !memmem(a.text, a.size, b.text + at, b.size - at))
                t->notes |= CHAT_NOTE_TIME;
        jinja_out_deinit(&a);
        jinja_out_deinit(&b);
        return r == -ERR_NOMEM ? r : 0;
}

/* Definitions that are told at the beginning: whether they stand behind the text of messages[1], or
 * else change what stands there. */
static int note_tools_behind(
        struct chat_template *t, const struct chat_message *messages, size_t n, struct err *e) {
        struct chat_rendering in = {.messages = messages, .n = n};
        struct jinja_out with = JINJA_OUT_NULL, without = JINJA_OUT_NULL;
        size_t at, at_with;
        int r = chat_render(t, &in, &without, e);

        in.tools = chat_stand_in_tools;
        in.tools_size = strlen(chat_stand_in_tools);
        if (r == 0)
                r = chat_render(t, &in, &with, e);
        if (r == 0 && chat_find_once(&without, &messages[1], &at) &&
                chat_find_once(&with, &messages[1], &at_with)) {
                const char *tail = with.text + at_with;
                size_t n_tail = with.size - at_with;

                if (memmem(tail, n_tail, CHAT_STAND_IN_KEY, strlen(CHAT_STAND_IN_KEY)))
                        t->notes |= CHAT_NOTE_TOOLS_MOVED;
                else if (n_tail != without.size - at ||
                         memcmp(tail, without.text + at, n_tail) != 0)
                        t->notes |= CHAT_NOTE_TOOLS_LATER;
        }
        jinja_out_deinit(&with);
        jinja_out_deinit(&without);
        return r == -ERR_NOMEM ? r : 0;
}

static int note_tools(struct chat_template *t, struct err *e) {
        static const struct chat_message said = {.role = CHAT_ASSISTANT,
                .text = "standinsecond",
                .size = sizeof("standinsecond") - 1};
        struct chat_message messages[] = {chat_stand_ins[CHAT_KIND_USER],
                chat_stand_ins[CHAT_KIND_ASSISTANT], probe, said, chat_stand_in_next};
        int r;

        if (!t->tools_with[CHAT_KIND_USER])
                return 0;
        r = note_tools_behind(t, messages, ARRAY_SIZE(messages), e);
        if (r < 0 || !t->closing[CHAT_KIND_RESULTS].text)
                return r;
        messages[2] = chat_stand_ins[CHAT_KIND_CALLS];
        messages[3] = chat_stand_ins[CHAT_KIND_RESULTS];
        return note_tools_behind(t, messages, 4, e);
}

static void note_calls(struct chat_template *t) {
        if (t->calls.written && t->calls.grouped)
                t->notes |= CHAT_NOTE_RESULTS_GROUPED;
        if (t->calls.written && t->calls.one)
                t->notes |= CHAT_NOTE_ONE_CALL;
        if (t->calls.written && t->calls.short_ids)
                t->notes |= CHAT_NOTE_SHORT_IDS;
}

int chat_learn_notes(struct chat_template *t, struct err *e) {
        static const struct chat_message reply = {.role = CHAT_ASSISTANT,
                .text = "standinsecond",
                .size = sizeof("standinsecond") - 1};
        const struct chat_message messages[] = {
                chat_stand_ins[CHAT_USER], chat_stand_ins[CHAT_ASSISTANT], probe, reply};
        int r = 0;

        if (!t->piece[CHAT_AFTER_USER][CHAT_USER].works)
                t->notes |= CHAT_NOTE_ALTERNATE;
        for (size_t n = 1; r == 0 && n < ARRAY_SIZE(messages); n++) {
                bool same;

                if (messages[n - 1].role == CHAT_ASSISTANT &&
                        t->piece[CHAT_AFTER_USER][CHAT_ASSISTANT].followed)
                        continue; /* it is written as an earlier one */
                r = keeps(t, messages, n, n + 1, &same, e);
                if (r == 0 && !same)
                        t->notes |= CHAT_NOTE_LAST_DIFFERS;
        }
        if (r == 0)
                r = note_reasoning(t, e);
        if (r == 0)
                r = note_system(t, e);
        if (r == 0)
                r = note_time(t, e);
        note_calls(t);
        return r == 0 ? note_tools(t, e) : r;
}
